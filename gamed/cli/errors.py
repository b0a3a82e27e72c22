"""The errors that end a start or a command: one sentence on stderr, and an exit code for its kind."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn, TextIO

import click

from gamed.cli.terminal import BAD, WARNING, is_coloured
from gamed.config.errors import ConfigError
from gamed.database.errors import DatabaseBusy, DatabaseError, DatabaseUnreachable, DiskFull, MigrationError
from gamed.database.store import Store

DONE, NOT_DONE, USAGE, CONFIGURATION = 0, 1, 2, 78
"""Exit codes; 78 is EX_CONFIG of sysexits.h: a restart changes nothing before the operator has corrected something."""


MARK, WARNED = "gamed:", "gamed: warning:"


class SetupError(Exception):
    """An error in the setup, found before anything was done; `str` is one sentence with what the operator can do."""


class CommandFailed(Exception):
    """The failure of a command that could not do its work although the setup is right."""


class DatabaseNotFound(CommandFailed):
    """A store that no service has made: a new server, or another store than the one that is meant."""

    def __init__(self, store: Store, database: str) -> None:
        super().__init__(store.not_found(database))


def warn(text: str) -> None:
    _write(f"{WARNED} {text}", sys.stderr)


def echo(text: str) -> None:
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), flush=True)  # a path may not be text


def exit_with(code: int, text: str) -> NoReturn:
    _write(text, sys.__stderr__)  # sys.stderr is the log, once twistd has begun to log
    raise SystemExit(code)


@contextmanager
def exit_on_error() -> Iterator[None]:
    """Turn expected errors into a text and an exit code, without a traceback and without a usage text."""
    try:
        yield
    except ConfigError as e:
        exit_with(CONFIGURATION, str(e))
    except (CommandFailed, DatabaseBusy, DatabaseUnreachable, DiskFull) as e:  # a retry may succeed
        exit_with(NOT_DONE, f"gamed: {e}")
    except (SetupError, DatabaseError, MigrationError) as e:
        exit_with(CONFIGURATION, f"gamed: {e}")
    except BrokenPipeError:  # click ends with 0 when the reader of a pipe has closed it
        raise
    except OSError as e:
        where = f": {e.filename}" if e.filename else ""
        _discard(sys.stdout)
        exit_with(NOT_DONE, f"gamed: {e.strerror or e}{where}")


def _write(text: str, stream: TextIO | None) -> None:
    """Write a line to a stream that may be closed or full: neither changes the result or the exit code."""
    if stream is None:  # print() would write to stdout instead
        return
    if text.startswith(MARK) and is_coloured(stream):
        text = click.style(MARK, WARNING if text.startswith(WARNED) else BAD, bold=True) + text.removeprefix(MARK)
    try:
        print(text, file=stream, flush=True)
    except OSError:
        _discard(stream)


def _discard(stream: TextIO | None) -> None:
    """Discard what could not be written: Python would try again at the end, and change the exit code."""
    if stream is None:
        return
    with suppress(OSError, ValueError):
        stream.flush()
        return
    with suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())
