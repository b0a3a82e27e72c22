"""Codes of letters that people read from one page and type into another, such as the finish code of a login."""

from typing import Final

from gamed.crypto import Random

ALPHABET: Final = "BCDFGHJKLMNPQRSTVWXZ"
"""Without vowels, so that no code is a word, and without letters and digits that people confuse."""
_UNBIASED: Final = 256 - 256 % len(ALPHABET)
"""A byte from here on would favour some letters."""
_BETWEEN: Final = " -\u2010\u2011\u2012\u2013\u2014\u2212"


def random_letters(random: Random, count: int) -> str:
    """Return a code of so many letters; each letter is equally likely, and has 4.3 bits."""
    letters: list[str] = []
    while len(letters) < count:
        letters += [ALPHABET[byte % len(ALPHABET)] for byte in random(count) if byte < _UNBIASED]
    return "".join(letters[:count])


def typed_letters(text: str) -> str:
    """Return the letters of a typed code, without regard to case, dashes and spaces; the caller bounds the text."""
    return "".join(c for c in text.upper() if c not in _BETWEEN)


def in_groups(code: str, letters: int) -> str:
    """Return a code as pages show it, with a dash after each group of so many letters."""
    return "-".join(code[at : at + letters] for at in range(0, len(code), letters))
