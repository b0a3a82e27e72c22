"""systemd's side of sd_notify(3): a socket that hears what the service says, and from which process."""

import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct
from twisted.trial.unittest import SynchronousTestCase

PATIENCE_SECONDS = 60


class Heard(Struct, frozen=True):
    pid: int
    lines: list[str]


class PlayedManager:
    """Named as $NOTIFY_SOCKET is; collects all until close()."""

    def __init__(self, test: SynchronousTestCase, name: Path | str) -> None:
        self.address = str(name)
        self.heard: list[Heard] = []
        self._news = threading.Condition()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._socket.bind("\0" + self.address[1:] if self.address.startswith("@") else self.address)
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()
        test.addCleanup(self.close)

    def _listen(self) -> None:
        while True:
            data, control, _, _ = self._socket.recvmsg(4096, socket.CMSG_SPACE(12))
            if data == b"close":
                return
            [(_, _, credentials)] = control
            with self._news:
                self.heard.append(Heard(struct.unpack("iii", credentials)[0], data.decode().split("\n")))
                self._news.notify_all()

    @property
    def lines(self) -> list[str]:
        """All that was said so far, in order."""
        return [line for heard in self.heard for line in heard.lines]

    def wait(self, enough: Callable[["PlayedManager"], bool]) -> None:
        """Until it has heard enough; AssertionError with what it heard when that takes too long."""
        with self._news:
            if not self._news.wait_for(lambda: enough(self), PATIENCE_SECONDS):
                raise AssertionError(self.lines)

    def wait_for(self, line: str, times: int = 1) -> None:
        self.wait(lambda manager: manager.lines.count(line) >= times)

    def close(self) -> None:
        if self._thread.is_alive():
            self._socket.sendto(b"close", self._socket.getsockname())
            self._thread.join()
            self._socket.close()
