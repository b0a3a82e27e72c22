"""A browser is named as people know it, such as Firefox on Linux, by its User-Agent (RFC 9110 10.1.5).

Only names from the lists here are kept, nothing of what the browser sent.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

AGENT_CHARACTERS: Final = 512
"""The part of a User-Agent that is read; those of today's browsers have 60 to 250 characters."""
_PROGRAMS: Final = (
    ("Edg/", "Edge"),
    ("EdgA/", "Edge"),
    ("EdgiOS/", "Edge"),
    ("OPR/", "Opera"),
    ("OPT/", "Opera"),
    ("Vivaldi/", "Vivaldi"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("YaBrowser/", "Yandex Browser"),
    ("DuckDuckGo/", "DuckDuckGo"),
    ("Ddg/", "DuckDuckGo"),
    ("FxiOS/", "Firefox"),
    ("Firefox/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("Epiphany/", "GNOME Web"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
)
"""The names of programs. The first one counts: Edge and others also send Chrome, and Chrome also sends Safari."""
_SYSTEMS: Final = (
    ("iPhone", "iOS"),
    ("iPad", "iPadOS"),
    ("Android", "Android"),
    ("Windows", "Windows"),
    ("CrOS", "ChromeOS"),
    ("Macintosh", "macOS"),
    ("Linux", "Linux"),
    ("BSD", "BSD"),
)
"""The names of systems. The first one counts: Android also sends Linux."""


class BrowserName(Struct, frozen=True):
    """The program and the system of a browser; None for one that gamed does not know."""

    program: str | None = None
    system: str | None = None

    @classmethod
    def of(cls, user_agent: str | None) -> "BrowserName":
        """Return the name of a browser that sends this field."""
        sent = (user_agent or "")[:AGENT_CHARACTERS]
        return cls(_first(_PROGRAMS, sent), _first(_SYSTEMS, sent))

    @classmethod
    def stored(cls, agent: str | None) -> "BrowserName":
        """Return the name of a row, which to_text() made."""
        program, _, system = (agent or "").partition("/")
        return cls(program or None, system or None)

    def to_text(self) -> str | None:
        """Return the name for a row; None if nothing is known."""
        return f"{self.program or ''}/{self.system or ''}" if self.program or self.system else None


def _first(marks: Sequence[tuple[str, str]], sent: str) -> str | None:
    return next((name for mark, name in marks if mark in sent), None)
