"""The sign-in page and the page before a provider show the device that asks, and forms.

See docs/internals/threats.md: Signing in; docs/protocol.md: Accounts.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from twisted.web.template import Tag, tags

from gamed.config.model import Registration
from gamed.login.local import FormError
from gamed.login.pages import texts
from gamed.login.pages.layout import Content, ServerName, bidi_isolated, fill, muted, page, paragraph, reference
from gamed.login.transaction import ClientInfo, LoginIntent
from gamed.players.names import PASSWORD_MIN
from gamed.structs import redacts

_ERRORS: Mapping[FormError, str] = {
    FormError.WRONG: texts.REFUSED_WRONG,
    FormError.NAME_MALFORMED: texts.REFUSED_NAME,
    FormError.PASSWORD_MALFORMED: texts.REFUSED_PASSWORD,
    FormError.NAME_TAKEN: texts.REFUSED_TAKEN,
    FormError.DISPLAY_NAME: texts.REFUSED_CALLED,
    FormError.CLOSED: texts.REFUSED_CLOSED,
    FormError.LIMIT: texts.REFUSED_LIMIT,
    FormError.BUSY: texts.REFUSED_BUSY,
}
_NAME_ERRORS = {FormError.NAME_MALFORMED, FormError.NAME_TAKEN, FormError.CLOSED}
_ERROR_ID = "refused"
"""The id of the error's element."""


class FormFeedback(Struct, frozen=True):
    """The error of a form that is shown again; `name` is the typed one, the password is not shown again."""

    error: FormError
    retry_after: int = 0
    creating: bool = False
    name: str = ""
    request_id: str = ""
    """Shown if the server is the reason, so that the owner finds the request in the log."""
    display_name: str = ""
    nameless: bool = False

    @property
    def focus(self) -> str:
        """Return the field that has the focus: the one next to the error, or else the empty password."""
        if self.error is FormError.DISPLAY_NAME and self.creating:
            return "display_name"
        return "name" if self.creating or self.error in _NAME_ERRORS else "password"


def name_field(element_id: str, feedback: FormFeedback | None, hint: str | None = None, *, suggested: str = "") -> Tag:
    field = tags.input(
        id=element_id,
        name="name",
        type="text",
        value=suggested if feedback is None else feedback.name,
        autocomplete="username",
        autocapitalize="none",
        spellcheck="false",
        required="required",
    )
    return _labelled(texts.NAME, field, hint, feedback is not None and feedback.focus == "name")


def password_field(element_id: str, feedback: FormFeedback | None, autocomplete: str, hint: str | None = None) -> Tag:
    field = tags.input(id=element_id, name="password", type="password", autocomplete=autocomplete, required="required")
    if hint is not None:
        field(minlength=str(PASSWORD_MIN))
    return _labelled(texts.PASSWORD, field, hint, feedback is not None and feedback.focus == "password")


def display_name_fields(feedback: FormFeedback | None) -> Sequence[Tag]:
    """Return the field for the name that games show, and the box that refuses one."""
    typed, nameless = ("", False) if feedback is None else (feedback.display_name, feedback.nameless)
    focused = feedback is not None and feedback.focus == "display_name"
    box = tags.input(type="checkbox", name="nameless", value="yes", **({"checked": "checked"} if nameless else {}))
    return (
        _display_name_field(typed, texts.CALLED_HINT, focused=focused),
        tags.label(box, texts.NAMELESS, class_="tick"),
    )


def _display_name_field(typed: str, hint: str | None, *, focused: bool) -> Tag:
    field = tags.input(id="display-name", name="display_name", type="text", value=typed, autocomplete="nickname")
    return _labelled(texts.CALLED, field, hint, focused)


def _labelled(label: str, field: Tag, hint: str | None, focused: bool) -> Tag:
    """Return label, hint and field, each on a line of its own without a style sheet, too."""
    element_id = str(field.attributes["id"])
    hints = [] if hint is None else [tags.p(hint, id=f"{element_id}-hint", class_="soft")]
    described = ([_ERROR_ID] if focused else []) + ([f"{element_id}-hint"] if hints else [])
    if described:
        field(**{"aria-describedby": " ".join(described)})
    if focused:
        field(autofocus="autofocus")
    return tags.div(tags.label(label, for_=element_id), *hints, field)


def error_message(feedback: FormFeedback | None) -> list[Tag]:
    if feedback is None:
        return []
    wait = texts.SECOND if feedback.retry_after == 1 else texts.SECONDS.format(seconds=feedback.retry_after)
    sentence = _ERRORS[feedback.error].format(wait=wait)
    alert = tags.p(sentence, role="alert", class_="refused", id=_ERROR_ID)
    return [alert, reference(feedback.request_id)] if feedback.request_id else [alert]


MINUTE = 60


@redacts("token", "form")
class DeviceInfo(Struct, frozen=True):
    """The login as a page shows it: its token, the hidden field of its forms, the device that asks, and its age."""

    token: str
    form: str
    client: ClientInfo
    age_seconds: int

    @property
    def path(self) -> str:
        return f"/auth/login/{self.token}"

    def post(self, action: str, *content: Content) -> Tag:
        """Return a form of this login that posts to `.../{action}`."""
        hidden = tags.input(type="hidden", name="form", value=self.form)
        return tags.form(hidden, *content, method="post", action=f"{self.path}/{action}")


def device_box(device: DeviceInfo) -> Tag:
    """Return the device's description of itself, marked as reported, each untrusted text in an element of its own."""
    client = device.client
    lines = [_pair(client.name, client.version), _pair(client.device_name, client.platform)]
    reported = [tags.dd(*line) for line in lines if line] or [tags.dd(texts.DEVICE_SILENT)]
    label = tags.dt(texts.DEVICE_LABEL)
    return tags.div(tags.dl(label, *reported), tags.p(started(device.age_seconds), class_="ago"), class_="device")


def not_me(device: DeviceInfo) -> Tag:
    button = tags.button(texts.NOT_ME, type="submit", class_="quiet")
    return tags.div(paragraph(texts.NOT_ME_LEAD), device.post("decline", button), class_="foot")


def started(seconds: int) -> str:
    """Return how long ago the login was started, in words."""
    minutes = seconds // MINUTE
    if minutes < 1:
        return texts.STARTED_NOW
    return texts.STARTED_MINUTE if minutes == 1 else texts.STARTED_MINUTES.format(minutes=minutes)


def _pair(first: str | None, second: str | None) -> list[Content]:
    if first is None or second is None:
        return [bidi_isolated(text) for text in (first, second) if text is not None]
    return fill(texts.DEVICE_WORDS, first=bidi_isolated(first), second=bidi_isolated(second))


def sign_in_page(
    server: ServerName, device: DeviceInfo, registration: Registration, feedback: FormFeedback | None = None
) -> bytes:
    content: list[Content] = [paragraph(texts.SIGN_IN_LEAD), device_box(device), _sign_in(device, feedback)]
    if registration is not Registration.CLOSED:
        content.append(_instead(texts.NEW_HERE, texts.CREATE_LINK, f"{device.path}/create"))
    return page(texts.SIGN_IN_TITLE, *content, not_me(device), server=server)


def create_page(
    server: ServerName, device: DeviceInfo, registration: Registration, feedback: FormFeedback | None = None
) -> bytes:
    """Return the page with the form for a new account."""
    lead = [paragraph(texts.CREATE_LEAD)]
    if registration is Registration.APPROVAL:
        lead.append(muted(texts.CREATE_APPROVAL))
    instead = _instead(texts.HAVE_ONE, texts.SIGN_IN, device.path)
    content = (*lead, device_box(device), _create(device, feedback), instead, not_me(device))
    return page(texts.CREATE_TITLE, *content, server=server)


def _sign_in(device: DeviceInfo, feedback: FormFeedback | None) -> Tag:
    return device.post(
        "local",
        *error_message(feedback),
        name_field("name", feedback),
        password_field("password", feedback, "current-password"),
        tags.button(texts.SIGN_IN, type="submit"),
    )


def _create(device: DeviceInfo, feedback: FormFeedback | None) -> Tag:
    error, below = error_message(feedback), feedback is not None and feedback.focus == "display_name"
    return device.post(
        "local",
        tags.input(type="hidden", name="create", value="yes"),
        *([] if below else error),
        name_field("new-name", feedback, texts.NAME_HINT),
        password_field("new-password", feedback, "new-password", texts.PASSWORD_HINT),
        *(error if below else []),
        *display_name_fields(feedback),
        tags.button(texts.CREATE, type="submit"),
    )


def _instead(question: str, label: str, url: str) -> Tag:
    """Return a line with a link to the other one of the two pages of local mode."""
    return tags.p(question, " ", tags.a(label, href=url), class_="instead")


class ProviderPrompt(Struct, frozen=True):
    """The provider's name for people, the purpose of the login, and the player who asked for a link."""

    label: str
    intent: LoginIntent
    requester: str | None


def provider_page(
    server: ServerName, device: DeviceInfo, prompt: ProviderPrompt, feedback: FormFeedback | None = None
) -> bytes:
    title, lead = _TEXTS[prompt.intent]
    slots: dict[str, Content] = {"provider": prompt.label, "player": bidi_isolated(prompt.requester or "")}
    return page(
        title.format(provider=prompt.label),
        paragraph(lead, **slots),
        device_box(device),
        *error_message(feedback),
        _choice(device, prompt, feedback),
        server=server,
    )


def _choice(device: DeviceInfo, prompt: ProviderPrompt, feedback: FormFeedback | None) -> Tag:
    proceed = tags.button(texts.CONTINUE.format(provider=prompt.label), type="submit", class_="quiet")
    not_me = tags.button(texts.NOT_ME, type="submit", class_="quiet")
    fields: list[Content] = []
    if prompt.intent is LoginIntent.ADOPT:
        fields = [name_field("name", feedback), password_field("password", feedback, "current-password")]
    return tags.div(device.post("continue", *fields, proceed), device.post("decline", not_me), class_="choice")


_TEXTS = {
    LoginIntent.LOGIN: (texts.SIGN_IN_TITLE, texts.PROVIDER_LEAD),
    LoginIntent.LINK: (texts.LINK_TITLE, texts.LINK_LEAD),
    LoginIntent.ADOPT: (texts.ADOPT_TITLE, texts.ADOPT_LEAD),
}


def display_name_form(device: DeviceInfo, name: str | None, refused: str | None = None) -> Tag:
    """Return the form that asks a new player for a name; `refused` is the typed text that is not allowed."""
    error = [] if refused is None else [tags.p(texts.REFUSED_CALLED, role="alert", class_="refused", id=_ERROR_ID)]
    field = _display_name_field(refused or name or "", None, focused=refused is not None)
    return device.post("name", *error, field, tags.button(texts.CALLED_SAVE, type="submit"))


def display_name_page(
    server: ServerName, device: DeviceInfo, name: str | None, result_url: str, refused: str | None = None
) -> bytes:
    """Return the page that asks a new player for a name while the game waits."""
    back = tags.a(texts.CALLED_BACK, href=result_url, class_="button quiet")
    content = (paragraph(texts.CALLED_LEAD), display_name_form(device, name, refused), back)
    return page(texts.CALLED_TITLE, *content, server=server)


def display_name_link(device: DeviceInfo, name: str | None) -> Tag:
    """Return the name that was chosen, and a link to its form; a form here would be lost when the page reloads."""
    url = f"{device.path}/name"
    if name is None:
        return tags.p(tags.a(texts.CALLED_LINK, href=url), class_="instead")
    chosen = fill(texts.CALLED_NOW, name=bidi_isolated(name))
    return tags.p(*chosen, " ", tags.a(texts.CALLED_CHANGE, href=url), class_="instead")
