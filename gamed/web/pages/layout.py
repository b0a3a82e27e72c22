"""What all pages share: the frame, the headers, sentences with slots (HTML, no script)."""

from string import Formatter
from typing import Final

from msgspec import Struct
from twisted.web.template import Tag, flatten, tags

from gamed.web.pages import texts
from gamed.web.pages.style import STYLE, STYLE_SOURCE

Content = str | Tag

POLICY = f"default-src 'none'; style-src '{STYLE_SOURCE}'; frame-ancestors 'none'; base-uri 'none'"
PAGE_HEADERS: Final = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
}
"""On every page; no `form-action`, which breaks a form that is answered by a redirect to a provider."""


class Server(Struct, frozen=True):
    """Where the player is: the owner's name for it, if there is one, and the host of the base URL."""

    name: str | None
    host: str

    @property
    def title(self) -> str:
        return self.name or self.host


def page(title: str, *content: Content, server: Server | None = None) -> bytes:
    """A whole page: `title` is its heading, `content` what follows; UTF-8."""
    name = title if server is None else f"{title} - {server.title}"
    head = tags.head(
        tags.meta(charset="utf-8"),
        tags.meta(name="viewport", content="width=device-width, initial-scale=1"),
        tags.title(name),
        tags.style(STYLE),
    )
    above = [] if server is None else [_sign(server)]
    body = tags.body(Tag("main")(*above, tags.h1(title), *content))
    return b"<!DOCTYPE html>\n" + rendered(tags.html(head, body, lang="en"))


def rendered(tag: Tag) -> bytes:
    """The tag as bytes; everything in it is at hand, so nothing is waited for."""
    written: list[bytes] = []
    failures: list[object] = []
    flatten(None, tag, written.append).addErrback(failures.append)
    if failures:
        raise ValueError("a page could not be written")
    return b"".join(written)


def sentence(text: str, **slots: Content) -> list[Content]:
    """`text` with its `{slots}` filled by text or tags, ready to stand inside a tag."""
    parts: list[Content] = []
    for literal, slot, _, _ in Formatter().parse(text):
        parts.append(literal)
        if slot is not None:
            parts.append(slots[slot])
    return [part for part in parts if part != ""]


def paragraph(text: str, **slots: Content) -> Tag:
    return tags.p(*sentence(text, **slots))


def soft(text: str, **slots: Content) -> Tag:
    """A paragraph that stays in the background."""
    return tags.p(*sentence(text, **slots), class_="soft")


def reference(request_id: str) -> Tag:
    """Return a small paragraph that names the request for the owner of the server."""
    return tags.p(tags.small(*sentence(texts.REFERENCE, id=request_id)), class_="soft")


def foreign(text: str) -> Tag:
    """Words that are not ours: whatever their direction, they cannot disturb the text around them."""
    return Tag("bdi")(text)


def _sign(server: Server) -> Tag:
    if server.name is None:
        return tags.p(tags.strong(foreign(server.host)), class_="server")
    return tags.p(tags.strong(foreign(server.name)), " ", tags.span(foreign(server.host)), class_="server")
