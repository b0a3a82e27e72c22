"""Name and password of a local account as fields of a form, and the sentence above a form that comes back."""

from collections.abc import Mapping

from attrs import frozen
from twisted.web.template import Tag, tags

from gamed.login.account_check import Refusal
from gamed.players.names import PASSWORD_MIN
from gamed.web.pages import texts

_REFUSED: Mapping[Refusal, str] = {
    Refusal.WRONG: texts.REFUSED_WRONG,
    Refusal.NAME_MALFORMED: texts.REFUSED_NAME,
    Refusal.PASSWORD_MALFORMED: texts.REFUSED_PASSWORD,
    Refusal.NAME_TAKEN: texts.REFUSED_TAKEN,
    Refusal.CLOSED: texts.REFUSED_CLOSED,
    Refusal.LIMIT: texts.REFUSED_LIMIT,
    Refusal.BUSY: texts.REFUSED_BUSY,
}


@frozen
class Returned:
    """A form that comes back with a sentence; `name` is what was typed there, the password is not kept."""

    refusal: Refusal
    retry_after: int = 0
    creating: bool = False
    name: str = ""


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
    return _labelled(place, texts.NAME, field, hint)


def password_field(place: str, autocomplete: str, hint: str | None = None) -> Tag:
    field = tags.input(id=place, name="password", type="password", autocomplete=autocomplete, required="required")
    return _labelled(place, texts.PASSWORD, field(minlength=str(PASSWORD_MIN)) if hint else field, hint)


def _labelled(place: str, label: str, field: Tag, hint: str | None) -> Tag:
    """On lines of their own, in a browser without style too."""
    named = tags.label(label, for_=place)
    if hint is None:
        return tags.div(named, field)
    told = tags.p(hint, id=f"{place}-hint", class_="soft")
    return tags.div(named, told, field(**{"aria-describedby": f"{place}-hint"}))


def refused(returned: Returned | None) -> list[Tag]:
    if returned is None:
        return []
    sentence = _REFUSED[returned.refusal].format(seconds=returned.retry_after)
    return [tags.p(sentence, role="alert", class_="refused")]
