"""Direct use of sockets, and the only use of names of Twisted that its documentation does not promise.

Writing to the socket itself saves a turn of the reactor for each response, and sendfile() copies no byte of a file.
Both need to know that nothing waits in the transport's own buffers. The names below are checked once, at the start;
where Twisted has changed them, every function here reports that it cannot help, and the transport's documented methods
are used instead.

- `dataBuffer`, `offset`, `_tempDataBuffer`, `_tempDataLen` of twisted.internet.abstract.FileDescriptor: the bytes that
  were written and are not in the kernel yet.
- `producerPaused` of the same class: whether resumeProducing() of the registered producer follows when there is room.
- `TLS`, `socket` of twisted.internet.tcp.Connection: whether bytes are encrypted on their way, and the socket.
"""

from fcntl import ioctl
from sys import byteorder
from termios import TIOCOUTQ
from typing import Any, Final, TypeGuard

from twisted.internet.abstract import FileDescriptor
from twisted.internet.tcp import Connection


def _names_exist() -> bool:
    idle: Any = FileDescriptor(reactor=object())  # type: ignore[arg-type]  # any; it is never used
    expected = {"dataBuffer": b"", "offset": 0, "_tempDataBuffer": [], "_tempDataLen": 0, "producerPaused": False}
    fields = all(getattr(idle, name, None) == value for name, value in expected.items())
    return fields and hasattr(Connection, "TLS") and hasattr(Connection, "startWriting")


AVAILABLE: Final = _names_exist()


def is_plain(transport: object) -> TypeGuard[Connection]:
    """Return whether the transport is an open socket without TLS, whose buffers are known."""
    return AVAILABLE and isinstance(transport, Connection) and bool(transport.connected) and not transport.TLS


def can_send(transport: object) -> bool:
    """Return whether bytes may go to the socket now, because nothing waits in front of them."""
    if not (AVAILABLE and isinstance(transport, Connection)):
        return False
    waiting = transport.dataBuffer or transport._tempDataBuffer or transport.disconnecting
    return bool(transport.connected) and not (waiting or transport.TLS)


def write(transport: Any, head: bytes, body: bytes) -> None:
    """Write both in one system call where nothing waits before them: that saves a turn of the reactor."""
    sent = send(transport, head, body) if can_send(transport) else 0
    if sent < len(head) + len(body):
        transport.write((head + body)[sent:])


def send(transport: Any, head: bytes, body: bytes) -> int:
    """Send both in one system call and return how many bytes the kernel took; call it only if can_send().

    A connection that is gone takes none; the transport notices that itself.
    """
    try:
        return int(transport.socket.sendmsg((head, body)))
    except OSError:
        return 0


def resume_when_writable(transport: Any) -> None:
    """Let the transport call its producer's resumeProducing() as soon as the socket has room; only if is_plain()."""
    transport.producerPaused = True
    transport.startWriting()


def unsent_bytes(transport: object) -> int | None:
    """Return how many written bytes the client's machine does not have yet; None if that is not known."""
    if not is_plain(transport):
        return None
    waiting = len(transport.dataBuffer) - transport.offset + transport._tempDataLen
    try:
        in_kernel = int.from_bytes(ioctl(transport.fileno(), TIOCOUTQ, bytes(4)), byteorder)
    except OSError:
        return None
    return int(waiting) + in_kernel
