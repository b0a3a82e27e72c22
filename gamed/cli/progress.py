"""Progress of long work, for whoever watches a terminal; a script sees nothing of it."""

import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar, cast

import click

T = TypeVar("T")


def progress(steps: Iterable[T], label: str, length: int | None = None) -> AbstractContextManager[Iterable[T]]:
    """The steps, shown on stderr while they are gone through; `length` where they do not know it."""
    if not sys.stderr.isatty():
        return nullcontext(steps)
    bar = click.progressbar(steps, length=length, label=label, file=sys.stderr)
    return cast(AbstractContextManager[Iterable[T]], bar)
