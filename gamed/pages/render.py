"""Renders pages from templates: with a style sheet that the page's policy allows by its hash. A page that
asks for a passkey has a script, too, allowed in the same way; all others have none.

A template that fails is answered by a plain page with the request's id, so that nobody sees a traceback or half a page.
"""

from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from time import perf_counter
from typing import Final

from twisted.logger import Logger

from gamed.config.look import contrast
from gamed.config.model import Look, Mark
from gamed.event_log import EventLog
from gamed.pages.language import ENGLISH, Language
from gamed.pages.model import PAGE_HEADERS, POLICY, Frame, Page

FOLDER: Final = files("gamed.pages")
PIECES: Final = 25
"""The pieces of a template in one part of a page at most; a page of 50 players has 550.

A macro, such as that of a player's row, is one piece.
"""
PART_SECONDS: Final = 0.001
"""The time after which a part ends with the piece that is being made: 25 rows of saves took 4 ms."""
Pause = Callable[[], Awaitable[None]]
"""Waits for the next turn of the reactor."""
_log = EventLog(Logger())


class PageFailed(Exception):
    """A template that has failed; `plain` is the page that takes its place."""

    def __init__(self, plain: bytes) -> None:
        super().__init__("a template has failed")
        self.plain = plain


class PageRenderer:
    """The pages of a server, with the owner's look; a template is compiled at its first use, or before in prepare()."""

    def __init__(self, look: Look | None = None) -> None:
        # The sheet holds no `<` and no `&`: the one would end the element, and neither is escaped.
        self.style = (FOLDER / "style.css").read_text("utf-8") + _look_style(look)
        hashed = b64encode(sha256(self.style.encode()).digest()).decode()
        sources = f"style-src 'sha256-{hashed}'; img-src 'self'; "  # CSP 3, 8.3
        self.headers: Mapping[str, str] = {**PAGE_HEADERS, "Content-Security-Policy": POLICY.format(sources=sources)}
        # `connect-src` stays 'none': the script fills a form, and the browser sends it.
        self.script = (FOLDER / "passkey.js").read_text("utf-8")
        hashed = b64encode(sha256(self.script.encode()).digest()).decode()
        sources = f"script-src 'sha256-{hashed}'; {sources}"
        self._scripted = {**PAGE_HEADERS, "Content-Security-Policy": POLICY.format(sources=sources)}

    @property
    def names(self) -> Sequence[str]:
        """Return the names of all templates, parts first; a page's name has no `_` before it."""
        return sorted(each.name for each in (FOLDER / "templates").iterdir())

    def headers_of(self, shown: Page) -> Mapping[str, str]:
        """Return the header fields of a page: only one that asks for a passkey may run the script."""
        return self._scripted if shown.scripted else self.headers

    def prepare(self, name: str) -> None:
        """Compile a template, which takes 1 to 10 ms of the thread."""
        from gamed.pages.environment import shared_environment

        shared_environment().get_template(name)

    def render(self, shown: Page, frame: Frame, language: Language = ENGLISH) -> bytes:
        """Return the page in UTF-8; raise PageFailed, to be answered with 500, if its template fails."""
        return b"".join(self.parts(shown, frame, language))

    async def render_in_turns(self, shown: Page, frame: Frame, language: Language, pause: Pause) -> bytes:
        """Render as render() does, with pauses for other requests: 50 rows take 4 to 8 ms of the thread."""
        parts = []
        for part in self.parts(shown, frame, language):
            parts.append(part)
            await pause()
        return b"".join(parts)

    def parts(self, shown: Page, frame: Frame, language: Language = ENGLISH) -> Iterator[bytes]:
        """Render the page part by part, so that the caller can do something else between two; raise PageFailed."""
        try:
            pieces = self._pieces(shown, frame, language)
            part: list[str] = []
            began = perf_counter()
            for piece in pieces:
                part.append(piece)
                if len(part) == PIECES or perf_counter() - began > PART_SECONDS:
                    yield "".join(part).encode()
                    part.clear()
                    began = perf_counter()  # what came between two parts is not of this page
            yield "".join(part).encode()
        except Exception as e:
            # The text of the exception stays out of the log: it may hold a value, and a value may be a secret.
            _log.error("page_failed", page=shown.template, error=type(e).__name__, request=frame.request_id)
            raise PageFailed(plain_page(frame)) from None

    def _pieces(self, shown: Page, frame: Frame, language: Language) -> Iterator[str]:
        from markupsafe import Markup  # with Jinja2, whose import takes 21 ms and 1 MiB

        from gamed.pages.environment import shared_environment, words

        template = shared_environment().get_template(f"{shown.template}.html")
        script = Markup(self.script) if shown.scripted else None
        own = {"style": Markup(self.style), "script": script, "frame": frame, "server": frame.server}
        return template.generate({**words(language, frame.now_ms), **shown.values, **own})


def built_in_mark() -> Mark:
    """Return the picture that browsers show beside the title of a server without one of its own."""
    return Mark("image/svg+xml", (FOLDER / "mark.svg").read_bytes())


def plain_page(frame: Frame) -> bytes:
    """Return the page that takes the place of one that cannot be rendered."""
    title = "This page cannot be shown"
    advice = "Go back and try again. If it happens again, tell the owner of this server this number:"
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>'
        f"<body><h1>{title}</h1><p>{advice} {escape(frame.request_id)}</p></body></html>\n"
    ).encode()


def _look_style(look: Look | None) -> str:
    """Return the style of the owner's colour; a label on it is black or white, whichever has more contrast."""
    if look is None or look.accent is None:
        return ""
    accent = look.accent
    label = max(("#000000", "#ffffff"), key=lambda colour: contrast(accent, colour))
    return f"""
:root {{ --accent: {accent}; --press: {accent}; --on-accent: {label}; --link: var(--text); }}
.main {{ border-color: var(--field); }}
.main:hover {{ border-color: var(--text); }}
:focus-visible {{ outline-color: var(--text); }}
"""
