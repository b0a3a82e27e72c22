"""Each process that serves a data folder holds a lock file of its own, so that the others know whether it lives.

The kernel releases the lock when the process ends, however it ends. A file gets its name only after it is locked: so a
named file without a lock belongs to a process that has ended, for ever, and any other process may delete it.
"""

import fcntl
import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from time import sleep

from twisted.logger import Logger

from gamed.event_log import EventLog

FOLDER = "processes"
"""The folder of the lock files, in the data folder."""
NAME_CHARACTERS = frozenset("0123456789abcdef")
TRIES = 10
RETRY_SECONDS = 0.01
_log = EventLog(Logger())


class ProcessLocks:
    """The lock files of all processes that serve one data folder, and the lock of this process."""

    def __init__(self, folder: Path | None, own_id: str) -> None:
        """Use this data folder; None for databases in memory, which no other process has.

        `own_id` names this process, and no process before it.
        """
        self._folder = None if folder is None else folder / FOLDER
        self._own_id = own_id
        self._descriptor = -1
        self._reported = False

    def hold(self) -> None:
        """Hold the lock of this process, and delete the files of processes that have ended.

        If the disk does not allow that, log it once; the other processes then take this one for ended.
        """
        if self._folder is None or self._descriptor >= 0:
            return
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            for path in self._folder.iterdir():
                _delete_if_unlocked(path)
            self._descriptor = _locked_file(self._path(self._folder, self._own_id))
        except OSError as e:
            if not self._reported:
                self._reported = True
                _log.warn("instance_lock_failed", error=e.strerror)

    def ended(self, ids: Collection[str]) -> frozenset[str]:
        """Return which of these processes have ended; this one has not."""
        others = frozenset(ids) - {self._own_id}
        if self._folder is None:
            return others
        return frozenset(each for each in others if _delete_if_unlocked(self._path(self._folder, each)))

    def close(self) -> None:
        """Delete the file of this process and release its lock: the process does nothing any more."""
        if self._folder is not None and self._descriptor >= 0:
            with suppress(OSError):
                self._path(self._folder, self._own_id).unlink()
            os.close(self._descriptor)
            self._descriptor = -1

    @staticmethod
    def _path(folder: Path, instance_id: str) -> Path:
        return folder / f"{instance_id}.lock"


def is_living(data: Path, instance_id: str) -> bool:
    """Return whether a process of this name serves the data folder now; the name may come from anywhere."""
    if not instance_id or not set(instance_id) <= NAME_CHARACTERS:
        return False
    try:
        descriptor = os.open(data / FOLDER / f"{instance_id}.lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _locked_file(path: Path) -> int:
    """Make a file that is locked before it has its name; return its descriptor, or raise OSError."""
    new = path.with_suffix(".new")
    for left in reversed(range(TRIES)):
        descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            new.rename(path)
            return descriptor
        except (BlockingIOError, FileNotFoundError):  # another process is deleting it, as it was not locked yet
            os.close(descriptor)
            if not left:
                raise
            sleep(RETRY_SECONDS)
        except BaseException:
            os.close(descriptor)
            raise
    raise AssertionError("the last try returns or raises")


def _delete_if_unlocked(path: Path) -> bool:
    """Return whether the process of this file has ended; then delete the file. If that cannot be known, it lives."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        # shared, so that two processes that check at the same time do not take each other's lock for the owner's
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        with suppress(OSError):
            path.unlink()
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
