"""The parts that the player's pages share: forms, times, sizes and errors."""

from datetime import UTC, datetime
from urllib.parse import urlencode

from msgspec import Struct
from twisted.web.template import Tag, tags

from gamed.account.pages import texts
from gamed.login.pages.layout import Content, ServerName, fill, page, paragraph
from gamed.readable import ago
from gamed.structs import redacts
from gamed.timestamps import rfc3339

HOME = "/auth/account"


@redacts("form")
class PageView(Struct, frozen=True):
    """The things that every page of one request needs: the server, the hidden field of its forms, the time."""

    server: ServerName
    form: str
    now_ms: int

    def post(self, action: str, *content: Content, **fields: str) -> Tag:
        """Return a form with these hidden fields; all but a sign-in post to `/auth/account/do/{action}`."""
        hidden = [tags.input(type="hidden", name=name, value=value) for name, value in fields.items()]
        own = tags.input(type="hidden", name="form", value=self.form)
        path = f"{HOME}/sign-in" if action == "sign-in" else f"{HOME}/do/{action}"
        return tags.form(own, *hidden, *content, method="post", action=path)

    def page(self, title: str, *content: Content) -> bytes:
        return page(title, *content, server=self.server)

    def time(self, instant_ms: int) -> Tag:
        """Return the age of an instant, and the instant in UTC."""
        utc = f"{datetime.fromtimestamp(instant_ms // 1000, UTC):%Y-%m-%d %H:%M}"
        text = texts.ABSOLUTE.format(ago=ago(instant_ms, self.now_ms), utc=utc)
        return Tag("time")(text, datetime=rfc3339(instant_ms))

    def date(self, instant_ms: int) -> Tag:
        """Return the day of an instant in UTC."""
        day = f"{datetime.fromtimestamp(instant_ms // 1000, UTC):%Y-%m-%d}"
        return Tag("time")(day, datetime=day)


def button(text: str, *, quiet: bool = True) -> Tag:
    return tags.button(text, type="submit", class_="quiet") if quiet else tags.button(text, type="submit")


def link(text: str, path: str, **query: str) -> Tag:
    """Return a link that looks like a button."""
    return tags.a(text, href=f"{path}?{urlencode(query)}" if query else path, class_="button quiet")


def section(title: str, *content: Content) -> Tag:
    return Tag("section")(tags.h2(title), *content, class_="foot")


def box(title: Content, *lines: Content, actions: list[Tag] | None = None) -> Tag:
    rows = [tags.p(line, class_="ago") for line in lines]
    return tags.div(tags.strong(title), *rows, *(actions or []), class_="device")


def line(text: str, **slots: Content) -> Tag:
    return tags.span(*fill(text, **slots))


def notice(key: str) -> list[Tag]:
    """Return the result of the action before, if the key is a known one."""
    text = texts.NOTICES.get(key)
    return [] if text is None else [tags.p(text, role="status", class_="device")]


def alert(text: str) -> Tag:
    return tags.p(text, role="alert", class_="refused", id="refused")


def failure_page(server: ServerName, sentence: str, *, title: str = texts.FAILURE_TITLE, back: str = HOME) -> bytes:
    """Return the page of an action that was refused, with a link back."""
    return page(title, paragraph("{sentence}", sentence=sentence), link(texts.BACK, back), server=server)
