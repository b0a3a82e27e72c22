"""Name and password of a local account as fields of a form, and the sentence above a form that comes back.

What a page shows of the device that asks, in its own words, and the way to say no (PROTOCOL 3.2).

The page of one sign-in in local mode: who asks, a form to sign in, a form to make an account (PROTOCOL 3.2).

The page before a provider: who asks, what for, and two buttons of the same weight (PROTOCOL 3.2, 3.8).
"""

from collections.abc import Mapping

from msgspec import Struct
from twisted.web.template import Tag, tags

from gamed.config.model import Registration
from gamed.login.local import FormError
from gamed.login.pages import texts
from gamed.login.pages.layout import Content, ServerName, bidi_isolated, fill, muted, page, paragraph, reference
from gamed.login.transaction import ClientInfo, LoginIntent
from gamed.players.names import PASSWORD_MIN
from gamed.structs import redacts

_REFUSED: Mapping[FormError, str] = {
    FormError.WRONG: texts.REFUSED_WRONG,
    FormError.NAME_MALFORMED: texts.REFUSED_NAME,
    FormError.PASSWORD_MALFORMED: texts.REFUSED_PASSWORD,
    FormError.NAME_TAKEN: texts.REFUSED_TAKEN,
    FormError.CLOSED: texts.REFUSED_CLOSED,
    FormError.LIMIT: texts.REFUSED_LIMIT,
    FormError.BUSY: texts.REFUSED_BUSY,
}
_OF_THE_NAME = {FormError.NAME_MALFORMED, FormError.NAME_TAKEN, FormError.CLOSED}
_SENTENCE = "refused"
"""The id of the sentence."""


class FormFeedback(Struct, frozen=True):
    """A form that comes back with a sentence; `name` is what was typed there, the password is not kept."""

    refusal: FormError
    retry_after: int = 0
    creating: bool = False
    name: str = ""
    request_id: str = ""
    """Shown where the server is the reason, so that the owner finds the request in the log."""

    @property
    def begins_at_name(self) -> bool:
        """Else at the password, which is empty; the name is nearer to the sentence, which a phone has to show."""
        return self.creating or self.refusal in _OF_THE_NAME


def name_field(place: str, returned: FormFeedback | None, hint: str | None = None) -> Tag:
    field = tags.input(
        id=place,
        name="name",
        type="text",
        value="" if returned is None else returned.name,
        autocomplete="username",
        autocapitalize="none",
        spellcheck="false",
        required="required",
    )
    return _labelled(texts.NAME, field, hint, returned is not None and returned.begins_at_name)


def password_field(place: str, returned: FormFeedback | None, autocomplete: str, hint: str | None = None) -> Tag:
    field = tags.input(id=place, name="password", type="password", autocomplete=autocomplete, required="required")
    if hint is not None:
        field(minlength=str(PASSWORD_MIN))
    return _labelled(texts.PASSWORD, field, hint, returned is not None and not returned.begins_at_name)


def _labelled(label: str, field: Tag, hint: str | None, here: bool) -> Tag:
    """On lines of their own, in a browser without style too; `here`: one goes on typing in a form that came back."""
    place = str(field.attributes["id"])
    told = [] if hint is None else [tags.p(hint, id=f"{place}-hint", class_="soft")]
    described = ([_SENTENCE] if here else []) + ([f"{place}-hint"] if told else [])
    if described:
        field(**{"aria-describedby": " ".join(described)})
    if here:
        field(autofocus="autofocus")
    return tags.div(tags.label(label, for_=place), *told, field)


def refused(returned: FormFeedback | None) -> list[Tag]:
    if returned is None:
        return []
    wait = texts.SECOND if returned.retry_after == 1 else texts.SECONDS.format(seconds=returned.retry_after)
    sentence = _REFUSED[returned.refusal].format(wait=wait)
    alert = tags.p(sentence, role="alert", class_="refused", id=_SENTENCE)
    return [alert, reference(returned.request_id)] if returned.request_id else [alert]


MINUTE = 60


@redacts("token", "form")
class DeviceInfo(Struct, frozen=True):
    """One login as a page knows it: its address, the field that its forms carry, who asks and since when."""

    token: str
    form: str
    client: ClientInfo
    age_seconds: int

    def post(self, action: str, *content: Content) -> Tag:
        """A form of this login to `.../{action}`."""
        hidden = tags.input(type="hidden", name="form", value=self.form)
        return tags.form(hidden, *content, method="post", action=f"/auth/login/{self.token}/{action}")


def device_box(asked: DeviceInfo) -> Tag:
    """The device's words are not ours: each stands alone, marked as reported."""
    client = asked.client
    lines = [_words(client.name, client.version), _words(client.device_name, client.platform)]
    said = [tags.dd(*line) for line in lines if line] or [tags.dd(texts.DEVICE_SILENT)]
    label = tags.dt(texts.DEVICE_LABEL)
    return tags.div(tags.dl(label, *said), tags.p(started(asked.age_seconds), class_="ago"), class_="device")


def not_me(asked: DeviceInfo) -> Tag:
    button = tags.button(texts.NOT_ME, type="submit", class_="quiet")
    return tags.div(paragraph(texts.NOT_ME_LEAD), asked.post("decline", button), class_="foot")


def started(seconds: int) -> str:
    """How long ago, as a person would say it."""
    minutes = seconds // MINUTE
    if minutes < 1:
        return texts.STARTED_NOW
    return texts.STARTED_MINUTE if minutes == 1 else texts.STARTED_MINUTES.format(minutes=minutes)


def _words(first: str | None, second: str | None) -> list[Content]:
    if first is None or second is None:
        return [bidi_isolated(word) for word in (first, second) if word is not None]
    return fill(texts.DEVICE_WORDS, first=bidi_isolated(first), second=bidi_isolated(second))


def sign_in_page(
    server: ServerName, asked: DeviceInfo, registration: Registration, returned: FormFeedback | None = None
) -> bytes:
    closed = registration is Registration.CLOSED
    creating = returned is not None and returned.creating and not closed
    content: list[Content] = [
        paragraph(texts.SIGN_IN_LEAD, server=bidi_isolated(server.title)),
        device_box(asked),
        _sign_in(asked, None if creating else returned),
    ]
    if not closed:
        content.append(_create(asked, registration, returned if creating else None))
    return page(texts.SIGN_IN_TITLE, *content, not_me(asked), server=server)


def _sign_in(asked: DeviceInfo, returned: FormFeedback | None) -> Tag:
    return asked.post(
        "local",
        *refused(returned),
        name_field("name", returned),
        password_field("password", returned, "current-password"),
        tags.button(texts.SIGN_IN, type="submit"),
    )


def _create(asked: DeviceInfo, registration: Registration, returned: FormFeedback | None) -> Tag:
    """Folded away until it is wanted, open when it comes back."""
    approval = [muted(texts.CREATE_APPROVAL)] if registration is Registration.APPROVAL else []
    form = asked.post(
        "local",
        tags.input(type="hidden", name="create", value="yes"),
        *refused(returned),
        *approval,
        name_field("new-name", returned, texts.NAME_HINT),
        password_field("new-password", returned, "new-password", texts.PASSWORD_HINT),
        tags.button(texts.CREATE, type="submit"),
    )
    unfolded = {"open": "open"} if returned is not None else {}
    return Tag("details")(Tag("summary")(texts.CREATE_TITLE), tags.div(form, class_="inside"), **unfolded)


class ProviderPrompt(Struct, frozen=True):
    """`label` is the provider's for people; `asker` the player who would be given another way in."""

    label: str
    intent: LoginIntent
    asker: str | None


def provider_page(
    server: ServerName, asked: DeviceInfo, wanted: ProviderPrompt, returned: FormFeedback | None = None
) -> bytes:
    title, lead = _WORDS[wanted.intent]
    slots: dict[str, Content] = {"server": bidi_isolated(server.title), "provider": wanted.label}
    slots["player"] = bidi_isolated(wanted.asker or "")
    return page(
        title.format(provider=wanted.label),
        paragraph(lead, **slots),
        device_box(asked),
        *refused(returned),
        _choice(asked, wanted, returned),
        server=server,
    )


def _choice(asked: DeviceInfo, wanted: ProviderPrompt, returned: FormFeedback | None) -> Tag:
    go_on = tags.button(texts.CONTINUE.format(provider=wanted.label), type="submit", class_="quiet")
    not_me = tags.button(texts.NOT_ME, type="submit", class_="quiet")
    fields: list[Content] = []
    if wanted.intent is LoginIntent.ADOPT:
        fields = [name_field("name", returned), password_field("password", returned, "current-password")]
    return tags.div(asked.post("continue", *fields, go_on), asked.post("decline", not_me), class_="choice")


_WORDS = {
    LoginIntent.LOGIN: (texts.SIGN_IN_TITLE, texts.PROVIDER_LEAD),
    LoginIntent.LINK: (texts.LINK_TITLE, texts.LINK_LEAD),
    LoginIntent.ADOPT: (texts.ADOPT_TITLE, texts.ADOPT_LEAD),
}
