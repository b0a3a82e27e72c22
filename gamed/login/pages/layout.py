"""All pages share a style sheet, header fields and a frame; none has a script (PROTOCOL 3.2)."""

from base64 import b64encode
from hashlib import sha256
from string import Formatter
from typing import Final

from msgspec import Struct
from twisted.web.template import Tag, flatten, tags

from gamed.login.pages import texts

STYLE = """
:root {
  color-scheme: light dark;
  --page: #eef1f4; --card: #ffffff; --line: #d5dbe1; --field: #7c8894;
  --text: #1c242c; --soft: #55616d; --accent: #1f6f5c; --press: #185a4a; --on-accent: #ffffff;
  --tint: #f4f7f8; --warn: #9a3412; --warn-tint: #fdf3ec; --warn-line: #e9c9b4;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #12171c; --card: #1b2229; --line: #313b45; --field: #758391;
    --text: #e8edf1; --soft: #a3afba; --accent: #6ccbb0; --press: #86d8c0; --on-accent: #0d2019;
    --tint: #222b33; --warn: #f5b48c; --warn-tint: #2c221c; --warn-line: #5b4030;
  }
}
* { box-sizing: border-box; }
html { background: var(--page); color: var(--text); -webkit-text-size-adjust: 100%; }
body { margin: 0; min-height: 100vh; min-height: 100dvh; display: flex; padding: 1.5rem 1rem;
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; overflow-wrap: anywhere; }
main { width: 100%; max-width: 27rem; margin: auto; background: var(--card); border: 1px solid var(--line);
  border-radius: 1rem; padding: 1.75rem 1.5rem; box-shadow: 0 1px 2px rgb(0 0 0 / 5%), 0 12px 32px rgb(0 0 0 / 6%); }
.server { margin: 0 0 1.25rem; padding-bottom: 1rem; border-bottom: 1px solid var(--line); }
.server strong { display: block; font-size: 1.0625rem; }
.server span, .soft, .device dt, .device .ago { color: var(--soft); font-size: .9375rem; }
h1 { margin: 0 0 .5rem; font-size: 1.5rem; line-height: 1.25; font-weight: 650; text-wrap: balance; }
h2 { margin: 0 0 .5rem; font-size: 1.125rem; line-height: 1.3; font-weight: 650; }
p { margin: 0 0 1rem; }
.device { margin: 1.25rem 0; padding: .875rem 1rem; background: var(--tint); border-radius: .75rem; }
.device dl { margin: 0; }
.device dd { margin: 0; font-weight: 600; }
.device .ago { margin: .25rem 0 0; }
form { margin: 0 0 1rem; }
label { display: block; margin: 0 0 .25rem; font-weight: 600; }
label + .soft { margin: 0 0 .375rem; }
input { display: block; width: 100%; min-height: 3rem; margin: 0 0 1rem; padding: .5rem .875rem; font: inherit;
  color: inherit; background: var(--card); border: 1px solid var(--field); border-radius: .625rem; }
button, .button { display: block; width: 100%; min-height: 3rem; padding: .6875rem 1rem; font: inherit;
  font-weight: 600; text-align: center; text-decoration: none; cursor: pointer; color: var(--on-accent);
  background: var(--accent); border: 1px solid var(--accent); border-radius: .625rem; }
button:hover, .button:hover { background: var(--press); border-color: var(--press); }
.quiet { color: inherit; background: transparent; border-color: var(--field); }
.quiet:hover { background: var(--tint); border-color: var(--field); }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
details { margin: 0 0 1rem; border: 1px solid var(--line); border-radius: .75rem; }
summary { display: flex; align-items: center; min-height: 3rem; padding: .5rem 1rem; font-weight: 600;
  cursor: pointer; border-radius: .75rem; }
summary::after { content: "+"; margin-left: auto; font-size: 1.375rem; line-height: 1; color: var(--soft); }
summary::-webkit-details-marker { display: none; }
details[open] summary::after { content: "\\2212"; }
.inside { padding: .25rem 1rem 1rem; }
.inside form { margin: 0; }
.refused { margin: 0 0 1rem; padding: .75rem 1rem; color: var(--warn); background: var(--warn-tint);
  border: 1px solid var(--warn-line); border-radius: .75rem; font-weight: 600; }
[autofocus] { scroll-margin-top: 14rem; } /* the error is above it */
.choice { display: grid; gap: .75rem; margin-top: 1.25rem; }
.choice form { margin: 0; }
.foot { margin-top: 1.5rem; padding-top: 1.25rem; border-top: 1px solid var(--line); }
.foot p { margin: 0 0 .625rem; }
.foot form { margin: 0; }
.code { margin: 1.25rem 0; padding: 1.125rem .5rem; text-align: center; background: var(--tint);
  border-radius: .75rem; font: 700 2.25rem/1.2 ui-monospace, "Cascadia Mono", "SF Mono", Menlo, "DejaVu Sans Mono",
  monospace; letter-spacing: .08em; user-select: all; }
.address { padding: .875rem 1rem; background: var(--tint); border-radius: .75rem; font-weight: 600; user-select: all; }
main p:last-child { margin-bottom: 0; }
@media (max-width: 26rem) { body { padding: .75rem; } main { padding: 1.25rem 1rem; } .code { font-size: 2rem; } }
"""

STYLE_SOURCE = f"sha256-{b64encode(sha256(STYLE.encode()).digest()).decode()}"
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


class ServerName(Struct, frozen=True):
    """The owner's name for the server, if configured, and the host of its base URL."""

    name: str | None
    host: str

    @property
    def title(self) -> str:
        return self.name or self.host


def page(title: str, *content: Content, server: ServerName | None = None) -> bytes:
    """Return a page in UTF-8; `title` is its heading."""
    name = title if server is None else f"{title} - {server.title}"
    head = tags.head(
        tags.meta(charset="utf-8"),
        tags.meta(name="viewport", content="width=device-width, initial-scale=1"),
        tags.title(name),
        tags.style(STYLE),
    )
    above = [] if server is None else [_server_header(server)]
    body = tags.body(Tag("main")(*above, tags.h1(title), *content))
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
    if server.name is None:
        return tags.p(tags.strong(bidi_isolated(server.host)), class_="server")
    return tags.p(tags.strong(bidi_isolated(server.name)), " ", tags.span(bidi_isolated(server.host)), class_="server")
