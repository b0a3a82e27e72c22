"""Progress of long work, for whoever watches a terminal; a script sees nothing of it."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeVar, cast

import click

T = TypeVar("T")


def progress(steps: Iterable[T], label: str, length: int | None = None) -> AbstractContextManager[Iterable[T]]:
    """The steps, shown on stderr while they are gone through; `length` where they do not know it."""
    if not sys.stderr.isatty():
        return nullcontext(steps)
    bar = click.progressbar(steps, length=length, label=label, file=sys.stderr)
    return cast(AbstractContextManager[Iterable[T]], bar)


@contextmanager
def growing(label: str, length: int) -> Iterator[Callable[[int], None]]:
    """For work that is measured: what is called with how much of `length` is done by now."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    with click.progressbar(length=max(length, 1), label=label, file=sys.stderr) as bar:
        yield lambda done: bar.update(max(0, min(done, length) - bar.pos))
        bar.update(max(0, bar.length - bar.pos) if bar.length else 0)
