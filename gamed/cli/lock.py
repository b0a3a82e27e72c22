"""One server per data folder: a lock that lives as long as the process, and through twistd's forks."""

import fcntl
import os
from collections.abc import Sequence
from pathlib import Path

from gamed.cli.files import write_whole
from gamed.cli.refusal import NotDone, Refusal
from gamed.structs import Part

FILE_NAME = "gamed.lock"
LISTENERS_NAME = "gamed.listeners"


class Lock(Part, frozen=True):
    """An open descriptor; forks inherit it, and the lock falls when the last of them is gone, however it ended."""

    _descriptor: int

    @classmethod
    def take(cls, data: Path) -> "Lock":
        """Return the lock of this folder; raise NotDone while another server holds it, Refusal if locking fails."""
        try:
            descriptor = os.open(data / FILE_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as e:
            raise Refusal(
                f"{data / FILE_NAME} cannot be opened ({e.strerror}); does the folder belong to us?"
            ) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise NotDone(
                f"Another gamed already serves {data}; stop that one first, or name another folder with --data DIR."
            ) from None
        except OSError as e:
            os.close(descriptor)
            raise Refusal(
                f"{data} cannot be locked ({e.strerror}); name a folder on a local disk with --data."
            ) from None
        return cls(descriptor)

    def release(self) -> None:
        os.close(self._descriptor)


def note_listeners(data: Path, listeners: Sequence[str]) -> None:
    """Record for `gamed health` where the server of this folder listens; a reader sees the old record or the new one.

    The record is a file of its own: the lock belongs to the lock file's inode and would not survive a rename.
    """
    if list(listeners) != noted(data):
        content = "".join(f"{listener}\n" for listener in listeners).encode()
        write_whole(data / LISTENERS_NAME, content, 0o600)


def noted(data: Path) -> list[str]:
    """Return where the server of this folder listens, or last listened; [] if it was never started."""
    try:
        return (data / LISTENERS_NAME).read_text("utf-8").splitlines()
    except FileNotFoundError:
        return []
