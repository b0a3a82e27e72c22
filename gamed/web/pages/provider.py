"""The page before a provider: who asks, what for, and two buttons of the same weight (PROTOCOL 3.2, 3.8)."""

from msgspec import Struct
from twisted.web.template import Tag, tags

from gamed.login.transaction import Intent
from gamed.web.pages import texts
from gamed.web.pages.account_fields import Returned, name_field, password_field, refused
from gamed.web.pages.device import Asked, device_box
from gamed.web.pages.layout import Content, Server, foreign, page, paragraph


class Wanted(Struct, frozen=True):
    """`label` is the provider's for people; `asker` the player who would be given another way in."""

    label: str
    intent: Intent
    asker: str | None


def provider_page(server: Server, asked: Asked, wanted: Wanted, returned: Returned | None = None) -> bytes:
    title, lead = _WORDS[wanted.intent]
    slots: dict[str, Content] = {"server": foreign(server.title), "provider": wanted.label}
    slots["player"] = foreign(wanted.asker or "")
    return page(
        title.format(provider=wanted.label),
        paragraph(lead, **slots),
        device_box(asked),
        *refused(returned),
        _choice(asked, wanted, returned),
        server=server,
    )


def _choice(asked: Asked, wanted: Wanted, returned: Returned | None) -> Tag:
    go_on = tags.button(texts.CONTINUE.format(provider=wanted.label), type="submit", class_="quiet")
    not_me = tags.button(texts.NOT_ME, type="submit", class_="quiet")
    fields: list[Content] = []
    if wanted.intent is Intent.ADOPT:
        fields = [name_field("name", returned), password_field("password", returned, "current-password")]
    return tags.div(asked.post("continue", *fields, go_on), asked.post("decline", not_me), class_="choice")


_WORDS = {
    Intent.LOGIN: (texts.SIGN_IN_TITLE, texts.PROVIDER_LEAD),
    Intent.LINK: (texts.LINK_TITLE, texts.LINK_LEAD),
    Intent.ADOPT: (texts.ADOPT_TITLE, texts.ADOPT_LEAD),
}
