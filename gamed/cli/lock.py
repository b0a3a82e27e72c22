"""One server per data folder: a lock that lives as long as the process, and through twistd's forks."""

import fcntl
import os
from collections.abc import Sequence
from pathlib import Path

from gamed.cli.refusal import Refusal
from gamed.structs import Part

FILE_NAME = "gamed.lock"


class Lock(Part, frozen=True):
    """An open descriptor; forks inherit it, and the lock falls when the last of them is gone, however it ended."""

    _descriptor: int

    @classmethod
    def take(cls, data: Path) -> "Lock":
        """The lock of this folder, or Refusal: another server has it."""
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
            raise Refusal(
                f"Another gamed already serves {data}; stop that one first, or name another folder with --data DIR."
            ) from None
        except OSError as e:
            os.close(descriptor)
            raise Refusal(
                f"{data} cannot be locked ({e.strerror}); name a folder on a local disk with --data."
            ) from None
        return cls(descriptor)

    def note(self, listeners: Sequence[str]) -> None:
        """Leave word, for `gamed health`, of where this server listens."""
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, "".join(f"{listener}\n" for listener in listeners).encode(), 0)

    def release(self) -> None:
        os.close(self._descriptor)


def noted(data: Path) -> list[str]:
    """Where the server of this folder listens, or last listened; [] when none ever did."""
    try:
        return (data / FILE_NAME).read_text("utf-8").splitlines()
    except FileNotFoundError:
        return []
