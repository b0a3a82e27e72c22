"""All pages share a style sheet, header fields and a frame; none has a script."""

from base64 import b64encode
from collections.abc import Mapping
from enum import Enum
from hashlib import sha256
from string import Formatter
from typing import Final

from msgspec import Struct
from twisted.web.template import Tag, flatten, tags

from gamed.config.look import contrast
from gamed.config.model import Look
from gamed.login.pages import texts

STYLE = """
:root {
  color-scheme: light dark;
  --page: #eef1f4; --card: #ffffff; --line: #d5dbe1; --field: #7c8894;
  --text: #1c242c; --soft: #55616d; --accent: #1f6f5c; --press: #185a4a; --on-accent: #ffffff;
  --tint: #f4f7f8; --good: #1f6f5c; --warn: #9a3412; --warn-tint: #fdf3ec; --warn-line: #e9c9b4;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #12171c; --card: #1b2229; --line: #313b45; --field: #758391;
    --text: #e8edf1; --soft: #a3afba; --accent: #6ccbb0; --press: #86d8c0; --on-accent: #0d2019;
    --tint: #222b33; --good: #6ccbb0; --warn: #f5b48c; --warn-tint: #2c221c; --warn-line: #5b4030;
  }
}
* { box-sizing: border-box; }
html { background: var(--page); color: var(--text); -webkit-text-size-adjust: 100%; }
body { margin: 0; min-height: 100vh; min-height: 100dvh; display: flex; padding: 1.5rem 1rem;
  font: 1rem/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; overflow-wrap: anywhere; }
main { width: 100%; max-width: 27rem; margin: auto; background: var(--card); border: 1px solid var(--line);
  border-radius: 1rem; padding: 1.75rem 1.5rem; box-shadow: 0 1px 2px rgb(0 0 0 / 5%), 0 12px 32px rgb(0 0 0 / 6%); }
.server { margin: 0 0 .75rem; padding-bottom: .5rem; border-bottom: 1px solid var(--line); }
.server strong { font-size: 1.0625rem; margin-right: .375rem; }
.server span { color: var(--soft); font-size: .8125rem; }
.soft, .device dt, .device .ago { color: var(--soft); font-size: .9375rem; }
.mark { vertical-align: middle; margin-right: .25rem; object-fit: contain; }
.sign { display: block; margin: 0 0 .75rem; color: var(--soft); }
.sign.done { color: var(--good); }
.sign.declined, .sign.expired, .sign.blocked { color: var(--warn); }
h1 { margin: 0 0 .5rem; font-size: 1.5rem; line-height: 1.25; font-weight: 650; text-wrap: balance; }
h2 { margin: 0 0 .5rem; font-size: 1.125rem; line-height: 1.3; font-weight: 650; }
p { margin: 0 0 1rem; }
a { color: inherit; }
.device { margin: .75rem 0; padding: .5rem 1rem; background: var(--tint); border-radius: .75rem; }
.device dl { margin: 0; }
.device dd { margin: 0; font-weight: 600; }
.device .ago { margin: .125rem 0 0; }
.device form, .device .button { margin: .5rem 0 0; }
form { margin: 0 0 .75rem; }
label { display: block; margin: 0 0 .25rem; font-weight: 600; }
label + .soft { margin: 0 0 .375rem; }
.button + .soft { margin-top: .5rem; }
input { display: block; width: 100%; min-height: 2.75rem; margin: 0 0 .625rem; padding: .5rem .875rem; font: inherit;
  color: inherit; background: var(--card); border: 1px solid var(--field); border-radius: .625rem; }
button, .button { display: block; width: 100%; min-height: 2.75rem; padding: .5625rem 1rem; font: inherit;
  font-weight: 600; text-align: center; text-decoration: none; cursor: pointer; color: var(--on-accent);
  background: var(--accent); border: 1px solid var(--accent); border-radius: .625rem; }
button:hover, .button:hover { background: var(--press); border-color: var(--press); }
.quiet { color: inherit; background: transparent; border-color: var(--field); }
.quiet:hover { background: var(--tint); border-color: var(--field); }
button, input, .button { scroll-margin: 1rem; }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
.refused { margin: 0 0 1rem; padding: .75rem 1rem; color: var(--warn); background: var(--warn-tint);
  border: 1px solid var(--warn-line); border-radius: .75rem; font-weight: 600; }
[autofocus] { scroll-margin-top: 14rem; } /* the error is above it */
.choice { display: grid; gap: .75rem; margin-top: 1.25rem; }
.choice form { margin: 0; }
.tick { display: flex; align-items: center; gap: .75rem; font-weight: 400; }
.tick input { flex: none; width: 2.75rem; margin: 0; accent-color: var(--accent); }
.instead { margin: 0 0 .5rem; }
.foot { margin-top: .5rem; padding-top: .5rem; border-top: 1px solid var(--line); }
.foot p { margin: 0 0 .5rem; font-size: .9375rem; }
.foot form { margin: 0; }
.code { margin: 1.25rem 0; padding: 1.125rem .5rem; text-align: center; background: var(--tint);
  border-radius: .75rem; font: 700 2.25rem/1.2 ui-monospace, "Cascadia Mono", "SF Mono", Menlo, "DejaVu Sans Mono",
  monospace; letter-spacing: .08em; user-select: all; }
.address { padding: .875rem 1rem; background: var(--tint); border-radius: .75rem; font-weight: 600; user-select: all; }
.approval { margin: 1.25rem 0; padding: .875rem .5rem; text-align: center; border: 2px dashed var(--field);
  border-radius: .75rem; font-size: 1.75rem; font-weight: 650; letter-spacing: .2em; user-select: all;
  font-variant-numeric: tabular-nums; }
main p:last-child { margin-bottom: 0; }
main.wide { max-width: 64rem; }
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(17rem, 100%), 1fr)); gap: .75rem; }
.grid .device { margin: 0; }
@media (max-width: 26rem) { body { padding: .5rem; } main { padding: 1rem; } .code { font-size: 2rem; } }
"""


def _style_source(style: str) -> str:
    return f"sha256-{b64encode(sha256(style.encode()).digest()).decode()}"


STYLE_SOURCE = _style_source(STYLE)
"""The source of Content-Security-Policy that allows the inline style sheet by its hash, without quotes (CSP 3, 8.3).

The sheet holds no `<`, `>` or `&`: the template would escape them, and the hash would not match.
"""

Content = str | Tag

POLICY = f"default-src 'none'; style-src '{STYLE_SOURCE}'; frame-ancestors 'none'; base-uri 'none'"
PAGE_HEADERS: Final = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
}
"""The header fields of every page; `form-action` is left out, because it breaks a form that redirects to a provider."""


_CIRCLE = "M12 2a10 10 0 1 1 0 20 10 10 0 1 1 0-20z"


MARK_PATH = "/auth/mark"


def look_style(look: Look) -> str:
    """Return the style sheet of the owner's colour; a label on it is black or white, whichever has more contrast."""
    if look.accent is None:
        return ""
    label = max(("#000000", "#ffffff"), key=lambda colour: contrast(look.accent or "", colour))
    return f"""
:root {{ --accent: {look.accent}; --press: {look.accent}; --on-accent: {label}; }}
button, .button {{ border-color: var(--field); }}
button:hover, .button:hover {{ border-color: var(--text); }}
:focus-visible {{ outline-color: var(--text); }}
"""


def page_headers(look: Look | None) -> Mapping[str, str]:
    """Return the header fields of a page with the owner's look: only what that look needs is allowed besides."""
    if look is None:
        return PAGE_HEADERS
    sources, more = [STYLE_SOURCE], ""
    if look.accent is not None:
        sources.append(_style_source(look_style(look)))
    if look.mark is not None:
        more = "; img-src 'self'"
    styles = " ".join(f"'{source}'" for source in sources)
    policy = f"default-src 'none'; style-src {styles}{more}; frame-ancestors 'none'; base-uri 'none'"
    return {**PAGE_HEADERS, "Content-Security-Policy": policy}


class ServerName(Struct, frozen=True):
    """The owner's name for the server, if configured, the host of its base URL, and its look."""

    name: str | None
    host: str
    look: Look | None = None

    @property
    def title(self) -> str:
        return self.name or self.host


class Sign(Enum):
    """A drawing above the heading, which says the same without words; the values are its strokes in a 24 x 24 box."""

    DONE = f"{_CIRCLE}M7.5 12.5l3 3 6-6.5"
    DECLINED = f"{_CIRCLE}M8.5 8.5l7 7M15.5 8.5l-7 7"
    EXPIRED = f"{_CIRCLE}M12 6.5V12l3.5 2.5"
    BLOCKED = f"{_CIRCLE}M5 5l14 14"
    WAITING = "M6 2.5h12M6 21.5h12M7.5 2.5V7l4.5 5-4.5 5v4.5M16.5 2.5V7L12 12l4.5 5v4.5"

    def draw(self) -> Tag:
        """Return an inline SVG element, which Content-Security-Policy allows: it loads nothing and has no style."""
        strokes = Tag("path")(d=self.value, **{"stroke-linecap": "round", "stroke-linejoin": "round"})
        box = {"viewBox": "0 0 24 24", "aria-hidden": "true", "stroke-width": "1.75"}
        name = f"sign {self.name.lower()}"
        return Tag("svg")(strokes, width="48", height="48", fill="none", stroke="currentColor", class_=name, **box)


def page(
    title: str,
    *content: Content,
    server: ServerName | None = None,
    sign: Sign | None = None,
    wide: bool = False,
) -> bytes:
    """Return a page in UTF-8; `title` is its heading. A wide page has room for several columns."""
    name = title if server is None else f"{title} - {server.title}"
    head = tags.head(
        tags.meta(charset="utf-8"),
        tags.meta(name="viewport", content="width=device-width, initial-scale=1"),
        tags.title(name),
        tags.style(STYLE),
    )
    look = None if server is None else server.look
    if look is not None and look.accent is not None:
        head(tags.style(look_style(look)))
    above = [] if server is None else [_server_header(server)]
    above += [] if sign is None else [sign.draw()]
    body = tags.body(Tag("main")(*above, tags.h1(title), *content, **({"class_": "wide"} if wide else {})))
    return b"<!DOCTYPE html>\n" + rendered(tags.html(head, body, lang="en"))


def rendered(tag: Tag) -> bytes:
    """Return the tag as bytes; flatten() needs no reactor, because the tag holds no Deferred."""
    written: list[bytes] = []
    failures: list[object] = []
    flatten(None, tag, written.append).addErrback(failures.append)
    if failures:
        raise ValueError("a page could not be written")
    return b"".join(written)


def fill(text: str, **slots: Content) -> list[Content]:
    """Return the children of a tag: `text` with its `{slots}` filled by text or tags."""
    parts: list[Content] = []
    for literal, slot, _, _ in Formatter().parse(text):
        parts.append(literal)
        if slot is not None:
            parts.append(slots[slot])
    return [part for part in parts if part != ""]


def paragraph(text: str, **slots: Content) -> Tag:
    return tags.p(*fill(text, **slots))


def muted(text: str, **slots: Content) -> Tag:
    """Return a paragraph in a muted colour."""
    return tags.p(*fill(text, **slots), class_="soft")


def reference(request_id: str) -> Tag:
    """Return a small paragraph that names the request for the owner of the server."""
    return tags.p(tags.small(*fill(texts.REFERENCE, id=request_id)), class_="soft")


def bidi_isolated(text: str) -> Tag:
    """Return untrusted text in an element that isolates its writing direction."""
    return Tag("bdi")(text)


def _server_header(server: ServerName) -> Tag:
    """Return the server's name once, its host small, and the owner's picture, which says nothing more."""
    line = tags.p(class_="server")
    if server.look is not None and server.look.mark is not None:
        line(tags.img(src=MARK_PATH, alt="", width="28", height="28", class_="mark"), " ")
    if server.name is None:
        return line(tags.strong(bidi_isolated(server.host)))
    return line(tags.strong(bidi_isolated(server.name)), " ", tags.span(bidi_isolated(server.host)))
