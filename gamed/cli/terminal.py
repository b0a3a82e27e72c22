"""Colours, progress bars and pages for a terminal; what goes to a pipe or a file stays plain lines."""

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO, TypeVar

import click

GOOD, WARNING, BAD = "green", "yellow", "red"
BAR_SECONDS = 1.0
"""Work that ends sooner shows no progress bar."""
ERASE_LINE = "\r\x1b[2K\x1b[?25h"
"""Erases a progress bar, and shows the cursor that it hides."""
T = TypeVar("T")


def is_coloured(stream: TextIO | None) -> bool:
    """Return whether a stream is a terminal that shows colours and whose user has not declined them (NO_COLOR)."""
    return (
        stream is not None and stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    )


def painted(text: str, colour: str | None = None, *, bold: bool = False, error: bool = False) -> str:
    """Return a text for stdout, or with `error` for stderr, in a colour where that is a terminal."""
    plain = (colour is None and not bold) or not is_coloured(sys.stderr if error else sys.stdout)
    return text if plain else click.style(text, colour, bold=bold or None)


def show(lines: Sequence[str], write: Callable[[str], object]) -> None:
    """Write lines; on a terminal with fewer lines show them in the operator's pager."""
    streams = (sys.stdin, sys.stdout)
    at_terminal = all(stream is not None and stream.isatty() for stream in streams)
    if at_terminal and len(lines) >= shutil.get_terminal_size().lines:
        click.echo_via_pager("\n".join(lines) + "\n", color=is_coloured(sys.stdout))
        return
    for line in lines:
        write(line)


@contextmanager
def bar(label: str, length: int) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the amount of `length` that is done; the bar on stderr vanishes at the end."""
    began, shown = time.time(), None

    def update(done: int) -> None:
        nonlocal shown
        if shown is None and time.time() - began >= BAR_SECONDS:
            shown = click.progressbar(length=max(length, 1), label=label, file=sys.stderr)
            shown.start = shown.last_eta = began
        if shown is not None:
            shown.update(max(0, min(done, length) - shown.pos))

    try:
        yield update if sys.stderr is not None and sys.stderr.isatty() else lambda done: None
    finally:
        if shown is not None:
            sys.stderr.write(ERASE_LINE)
            sys.stderr.flush()


@contextmanager
def steps_shown(steps: Iterable[T], label: str, length: int | None = None) -> Iterator[Iterable[T]]:
    """Yield the steps, which a progress bar counts; `length` if they have no `len()`."""
    total = len(steps) if length is None and isinstance(steps, Sequence) else length or 0

    def each() -> Iterator[T]:
        for number, step in enumerate(steps, 1):
            yield step
            update(number)

    with bar(label, total) as update:
        yield each()
