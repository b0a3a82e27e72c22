"""Modules come to stay: while they are loaded, the garbage collector need not look at them again and again."""

import gc
import linecache
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading() -> Iterator[None]:
    """What was made until its end is never looked at: a twentieth of the time to the first answer.

    The little that is left over meanwhile, such as a class that was replaced by one with slots, stays for good.
    """
    gc.disable()
    try:
        yield
    finally:
        linecache.clearcache()  # attrs, which Twisted and Klein use, puts the text of each compiled method there
        gc.freeze()
        gc.enable()
