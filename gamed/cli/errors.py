"""How a start or a command ends when it cannot go on: one sentence on stderr, and a code that says of what kind."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn, TextIO

from gamed.config.errors import ConfigError
from gamed.database.errors import DatabaseBusy, DatabaseError, DiskFull

DONE, NOT_DONE, USAGE, CONFIGURATION = 0, 1, 2, 78
"""Exit codes; 78 is EX_CONFIG of sysexits.h: starting again changes nothing before the owner did."""


class SetupError(Exception):
    """Nothing was done; `str` is one sentence that tells the owner what to do."""


class CommandFailed(Exception):
    """A command that could not do what was asked, though everything is set up well."""


class DatabaseNotFound(CommandFailed):
    """A data folder that no service has made: a new server, or not the folder of the one that is meant."""

    def __init__(self, name: str, folder: Path) -> None:
        super().__init__(
            f"There is no {name} in {folder} yet. If the server keeps its data elsewhere, name that folder with "
            "--data DIR or GAMED_DATA (gamedctl knows it from systemd's unit). If this is a new server, start the "
            "service once: gamed serve"
        )


def warn(text: str) -> None:
    _tell(f"gamed: warning: {text}", sys.stderr)


def echo(text: str) -> None:
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), flush=True)  # a path may be no text


def exit_with(code: int, text: str) -> NoReturn:
    _tell(text, sys.__stderr__)  # sys.stderr is the log, once twistd has begun to log
    raise SystemExit(code)


def _tell(text: str, stream: TextIO | None) -> None:
    """On a stream that may be closed or full: what is done, and how it ends, does not hang on who listens."""
    if stream is None:  # print() would take stdout instead
        return
    try:
        print(text, file=stream, flush=True)
    except OSError:
        _give_up(stream)


@contextmanager
def exit_on_error() -> Iterator[None]:
    """What the owner must mend becomes text and an exit code; no traceback, no usage text."""
    try:
        yield
    except ConfigError as e:
        exit_with(CONFIGURATION, str(e))
    except (CommandFailed, DatabaseBusy, DiskFull) as e:  # of a store that is held or full: the same may succeed later
        exit_with(NOT_DONE, f"gamed: {e}")
    except (SetupError, DatabaseError) as e:
        exit_with(CONFIGURATION, f"gamed: {e}")
    except BrokenPipeError:  # click ends well when nobody reads on
        raise
    except OSError as e:
        where = f": {e.filename}" if e.filename else ""
        _give_up(sys.stdout)
        exit_with(NOT_DONE, f"gamed: {e.strerror or e}{where}")


def _give_up(stream: TextIO | None) -> None:
    """What could not be printed is not tried again at the end of the process, which would change the exit code."""
    if stream is None:
        return
    with suppress(OSError, ValueError):
        stream.flush()
        return
    with suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())
