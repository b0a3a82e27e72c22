"""A decorator says which sentences of the specification, or which threats, a test or a test case tries."""

import re
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

ID = re.compile(r"(?:[1-9](?:\.[1-9])?|[a-z]+)/[1-9][0-9]*")


def covers(*ids: str) -> Callable[[T], T]:
    """Mark a test or a test case with the ids of what it tries, and return it unchanged.

    `@covers("2.2/3")` names the third sentence of section 2.2, as docs/internals/spec.md numbers them;
    `@covers("threats/1")` names a row of docs/internals/threats.md. `python -m tests.covers_pages` writes the names of
    the tests into these pages. It reads the source, so the ids are literal strings.
    Raise ValueError for an id of another form.
    """
    wrong = [name for name in ids if not ID.fullmatch(name)]
    if wrong or not ids:
        raise ValueError(f'Not an id of spec.md or threats.md in docs/internals: {wrong}. Write it like "2.2/3".')
    return lambda marked: marked
