"""Browser sessions, and the names of browsers as people know them, such as Firefox on Linux.

Only names from the lists here are kept, nothing of the User-Agent (RFC 9110 10.1.5) that the browser sent.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from gamed.crypto import (
    ENTROPY_BYTES,
    ID_BYTES,
    MalformedToken,
    Random,
    Secret,
    TokenType,
    generate_token,
    parse_token,
    public_id,
)
from gamed.sessions.errors import TokenInvalid, TokenMissing
from gamed.structs import redacts

BROWSER_IDLE_MS = 30 * 60_000
"""A browser session ends this long after its last request."""
BROWSER_TOTAL_MS = 12 * 3600_000
"""A browser session ends this long after its sign-in."""
_BROWSER_TOKEN = TokenType.BROWSER_SESSION.encode()
_BROWSER_ID = "brs"
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

    @property
    def title(self) -> str:
        """Return the name for a passkey that is made in this browser; "" if nothing is known."""
        return " / ".join(each for each in (self.system, self.program) if each)

    def to_text(self) -> str | None:
        """Return the name for a row; None if nothing is known."""
        return f"{self.program or ''}/{self.system or ''}" if self.program or self.system else None


@redacts("token")
class NewBrowserSession(Struct, frozen=True):
    """The id and the token of a browser session that a sign-in would open; the token is the browser's cookie."""

    session_id: str
    token: Secret
    browser: BrowserName

    @classmethod
    def generate(cls, random: Random, browser: BrowserName) -> "NewBrowserSession":
        token = generate_token(TokenType.BROWSER_SESSION, random(ENTROPY_BYTES))
        return cls(public_id(_BROWSER_ID, random(ID_BYTES)), token, browser)


def is_browser_token(token: Secret) -> bool:
    """Return whether a well-formed token is one of a browser session."""
    return token.reveal().startswith(_BROWSER_TOKEN)


def is_browser_session(session_id: str) -> bool:
    return session_id.startswith(f"{_BROWSER_ID}_")


class BrowserInfo(Struct, frozen=True):
    """A browser session in its player's list; instants in epoch milliseconds."""

    session_id: str
    browser: BrowserName
    created_ms: int
    last_used_ms: int
    """The last request, to the minute."""
    provider: str


def parse_browser_token(text: str | None) -> Secret:
    """Return the token of a browser's cookie; raise TokenMissing for None, and TokenInvalid if it is malformed."""
    if text is None:
        raise TokenMissing
    try:
        return parse_token(TokenType.BROWSER_SESSION, text)
    except MalformedToken:
        raise TokenInvalid from None


def _first(marks: Sequence[tuple[str, str]], sent: str) -> str | None:
    return next((name for mark, name in marks if mark in sent), None)
