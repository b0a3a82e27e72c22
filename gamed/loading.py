"""Modules come to stay: while they are loaded, the garbage collector need not look at them again and again."""

import gc
import linecache
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

ENOUGH: Final = 10_000
"""New objects that are worth a look meanwhile, in place of 700: some are left over, such as a class that was replaced
by one with slots. Never to look would take two MiB more, always to look a tenth of the time to the first answer."""


@contextmanager
def loading() -> Iterator[None]:
    """What was made until its end is never looked at again."""
    usual = gc.get_threshold()
    gc.set_threshold(ENOUGH)
    try:
        yield
    finally:
        linecache.clearcache()  # attrs puts the text there of each method that it compiled
        gc.freeze()
        gc.set_threshold(*usual)
