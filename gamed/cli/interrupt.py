"""Ctrl-C ends a command with one sentence and exit code 130, also while its modules are imported.

This module imports little: what it catches in its first moments happens while the others are imported.
"""

import os
import signal
from contextlib import suppress
from typing import NoReturn

INTERRUPTED = 130
"""The exit code: 128 and the number of SIGINT, which shells report for a program that the signal ended."""
COMPLETING = "_GAMED_COMPLETE"
"""The variable by which a shell asks for completions; its user wants no sentence between two keys."""
UNCHANGED = "Interrupted. Nothing was changed."
_CHANGES = "gamed.changes"


def catch_early() -> None:
    """Let Ctrl-C end the process at once, until raise_again() is called; an ignored SIGINT stays ignored."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def raise_again() -> None:
    """Let Ctrl-C raise KeyboardInterrupt from now on, so that a command can undo what it has begun."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def may_change() -> None:
    """Note that the command writes from now on: an interruption may leave a part of its work."""
    import click  # late: the first moments need none

    if (context := click.get_current_context(silent=True)) is not None:
        context.meta[_CHANGES] = True


def sentence(meta: dict[str, object]) -> str:
    """Return the sentence for an interrupted command with this `meta` of its context."""
    return "Interrupted." if _CHANGES in meta else UNCHANGED


def _end(*_: object) -> NoReturn:
    line_end = "\n" if os.isatty(2) else ""  # the terminal shows ^C on this line
    with suppress(OSError):
        os.write(2, b"" if COMPLETING in os.environ else f"{line_end}gamed: {UNCHANGED}\n".encode())
    os._exit(INTERRUPTED)
