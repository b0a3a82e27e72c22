"""Name and password of a local account as fields of a form, and the sentence above a form that comes back."""

from collections.abc import Mapping

from msgspec import Struct
from twisted.web.template import Tag, tags

from gamed.login.account_check import Refusal
from gamed.players.names import PASSWORD_MIN
from gamed.web.pages import texts
from gamed.web.pages.layout import reference

_REFUSED: Mapping[Refusal, str] = {
    Refusal.WRONG: texts.REFUSED_WRONG,
    Refusal.NAME_MALFORMED: texts.REFUSED_NAME,
    Refusal.PASSWORD_MALFORMED: texts.REFUSED_PASSWORD,
    Refusal.NAME_TAKEN: texts.REFUSED_TAKEN,
    Refusal.CLOSED: texts.REFUSED_CLOSED,
    Refusal.LIMIT: texts.REFUSED_LIMIT,
    Refusal.BUSY: texts.REFUSED_BUSY,
}
_OF_THE_NAME = {Refusal.NAME_MALFORMED, Refusal.NAME_TAKEN, Refusal.CLOSED}
_SENTENCE = "refused"
"""The id of the sentence."""


class Returned(Struct, frozen=True):
    """A form that comes back with a sentence; `name` is what was typed there, the password is not kept."""

    refusal: Refusal
    retry_after: int = 0
    creating: bool = False
    name: str = ""
    request_id: str = ""
    """Shown where the server is the reason, so that the owner finds the request in the log."""

    @property
    def begins_at_name(self) -> bool:
        """Else at the password, which is empty; the name is nearer to the sentence, which a phone has to show."""
        return self.creating or self.refusal in _OF_THE_NAME


def name_field(place: str, returned: Returned | None, hint: str | None = None) -> Tag:
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


def password_field(place: str, returned: Returned | None, autocomplete: str, hint: str | None = None) -> Tag:
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


def refused(returned: Returned | None) -> list[Tag]:
    if returned is None:
        return []
    wait = texts.SECOND if returned.retry_after == 1 else texts.SECONDS.format(seconds=returned.retry_after)
    sentence = _REFUSED[returned.refusal].format(wait=wait)
    alert = tags.p(sentence, role="alert", class_="refused", id=_SENTENCE)
    return [alert, reference(returned.request_id)] if returned.request_id else [alert]
