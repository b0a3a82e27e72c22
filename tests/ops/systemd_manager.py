"""The fake service manager is systemd's side of sd_notify(3): a socket that records messages and their senders."""

import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct
from twisted.trial.unittest import SynchronousTestCase

WAIT_SECONDS = 60


class Message(Struct, frozen=True):
    """A message and the process that sent it."""

    pid: int
    lines: list[str]


class FakeManager:
    """A socket with the name that $NOTIFY_SOCKET has; it records all messages until close()."""

    def __init__(self, test: SynchronousTestCase, name: Path | str) -> None:
        self.address = str(name)
        self.messages: list[Message] = []
        self._received = threading.Condition()
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
            with self._received:
                self.messages.append(Message(struct.unpack("iii", credentials)[0], data.decode().split("\n")))
                self._received.notify_all()

    @property
    def lines(self) -> list[str]:
        """Return all lines so far, in order."""
        return [line for message in self.messages for line in message.lines]

    def wait(self, enough: Callable[["FakeManager"], bool]) -> None:
        """Wait until `enough` is true; raise AssertionError with the lines so far if that takes too long."""
        with self._received:
            if not self._received.wait_for(lambda: enough(self), WAIT_SECONDS):
                raise AssertionError(self.lines)

    def wait_for(self, line: str, times: int = 1) -> None:
        self.wait(lambda manager: manager.lines.count(line) >= times)

    def close(self) -> None:
        if self._thread.is_alive():
            self._socket.sendto(b"close", self._socket.getsockname())
            self._thread.join()
            self._socket.close()
