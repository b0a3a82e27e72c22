"""The values that features hand over: pages, and texts in English with their values."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from gamed.config.model import Look

MARK_PATH: Final = "/auth/mark"
"""The owner's picture, or the built-in one."""
POLICY: Final = "default-src 'none'; {sources}frame-ancestors 'none'; base-uri 'none'"
"""`form-action` is left out, because it breaks a form that redirects to a provider."""
PAGE_HEADERS: Final[Mapping[str, str]] = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": POLICY.format(sources=""),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Vary": "Accept-Language, Cookie",
}
"""The header fields of a page that loads nothing, not even a style sheet."""


class Page(Struct, frozen=True):
    """The name of a template, without its ending, and the values that it shows."""

    template: str
    values: Mapping[str, object]

    @property
    def scripted(self) -> bool:
        """Return whether the page asks for a passkey, which needs the script; all other pages have none."""
        return self.values.get("passkey") is not None


def page(template: str, **values: object) -> Page:
    return Page(template, values)


class Text(Struct, frozen=True):
    """A text in English, and the values of its `{placeholders}`; the page writes it in its own language."""

    source: str
    values: Mapping[str, object] = {}


def text(source: str, **values: object) -> Text:
    """Return a text; what this function is called with is collected for translators."""
    return Text(source, values)


class Counted(Struct, frozen=True):
    """A text in English whose form depends on a count, which fills `{count}`."""

    one: str
    many: str
    count: int


def counted(one: str, many: str, count: int) -> Counted:
    """Return a counted text; what this function is called with is collected for translators."""
    return Counted(one, many, count)


class Way(Struct, frozen=True):
    """A link that leads on; `forward` if it is what most people want next."""

    label: Text
    path: str
    forward: bool = True


class ServerName(Struct, frozen=True):
    """The owner's name for the server, if configured, the host of its base URL, and its look."""

    name: str | None
    host: str
    look: Look | None = None

    @property
    def title(self) -> str:
        return self.name or self.host


class LanguageChoice(Struct, frozen=True):
    """A language in which a page can be shown: its tag, its name for itself, and the address that chooses it."""

    tag: str
    name: str
    path: str


class Frame(Struct, frozen=True):
    """The parts around the content of a page. `server` is None where no name is known.

    A page without `choices` cannot be loaded again, such as the answer to a form.
    """

    server: ServerName | None
    request_id: str
    now_ms: int
    choices: Sequence[LanguageChoice] = ()
