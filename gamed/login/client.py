"""What a device says about itself: its own words, cleaned, believed by nobody (PROTOCOL 3.1)."""

from collections.abc import Mapping
from unicodedata import category, normalize

import msgspec

from gamed.players.names import COMPOSED_OF

MAX_CHARACTERS = 64
_BIDIRECTIONAL = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_UNSEEN = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Controls, lone surrogates, line and paragraph separators."""


class WordsTooLong(ValueError):
    """A word keeps more than 64 characters when cleaned."""

    def __init__(self, word: str) -> None:
        self.word = word
        super().__init__(f"at most {MAX_CHARACTERS} characters")


class Client(msgspec.Struct, frozen=True, omit_defaults=True):
    """The four words; absent ones are None."""

    name: str | None = None
    version: str | None = None
    platform: str | None = None
    device_name: str | None = None

    @classmethod
    def of(cls, words: Mapping[str, str | None]) -> "Client":
        """Cleaned; WordsTooLong names the first word that does not fit."""
        return cls(**{word: _fitting(word, words.get(word)) for word in cls.__struct_fields__})

    @classmethod
    def from_json(cls, text: str) -> "Client":
        return msgspec.json.decode(text, type=cls)

    def to_json(self) -> str:
        return msgspec.json.encode(self).decode()


def _fitting(word: str, text: str | None) -> str | None:
    """Return the text in NFC, without control and bidirectional characters and without space around it.

    Return None if nothing is left; raise WordsTooLong if more than MAX_CHARACTERS are. The length is checked before the
    text is composed, which takes time with the square of it.
    """
    if not text:
        return None
    if not text.isascii() or not text.isprintable():
        text = "".join(c for c in text if category(c) not in _UNSEEN and c not in _BIDIRECTIONAL)
    text = text.strip()
    composed = normalize("NFC", text) if len(text) <= COMPOSED_OF * MAX_CHARACTERS else text
    if len(composed) > MAX_CHARACTERS:
        raise WordsTooLong(word)
    return composed or None
