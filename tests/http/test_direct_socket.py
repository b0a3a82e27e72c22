"""Direct use of sockets: what it knows of Twisted is true, and without it everything works through the transport."""

import sys
from re import compile
from socket import AF_INET, AF_UNIX, create_connection, socket, socketpair
from subprocess import run
from threading import Thread
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.tcp import Connection
from twisted.internet.testing import StringTransport
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import SynchronousTestCase, TestCase

from gamed.http import direct_socket
from tests.http import test_socket
from tests.http.test_socket import PATIENCE_SECONDS, read_all
from tests.support.http import parse_answers, request_bytes

JSON = {"Content-Type": "application/json"}
TEXT = b"t" * 7000
BODY = b'{"number":%d,"text":"' + TEXT + b'"}'
NUMBER = compile(rb'"number":([0-9]+)')
LATE = 3000

RENAMED = """
from importlib import reload
from twisted.internet.abstract import FileDescriptor
from twisted.internet.tcp import Connection
from gamed.http import direct_socket

make = FileDescriptor.__init__
print(direct_socket.AVAILABLE)
for name in ("dataBuffer", "offset", "_tempDataBuffer", "_tempDataLen", "producerPaused"):
    def changed(self, *args, **named):
        make(self, *args, **named)
        setattr(self, name, None)
    FileDescriptor.__init__ = changed
    print(reload(direct_socket).AVAILABLE)
FileDescriptor.__init__ = make
print(reload(direct_socket).AVAILABLE)
for owner in Connection.__mro__:
    if "TLS" in vars(owner):
        del owner.TLS
print(reload(direct_socket).AVAILABLE)
"""
"""Prints whether Twisted's names are found: as they are, with each of five changed, as they are, and without TLS."""


class IdleReactor:
    """A reactor that never writes."""

    def addWriter(self, writer: object) -> None: ...

    def removeWriter(self, writer: object) -> None: ...

    def addReader(self, reader: object) -> None: ...

    def removeReader(self, reader: object) -> None: ...


class NameTests(SynchronousTestCase):
    def test_available(self) -> None:
        """The installed Twisted has all names: responses go to the socket itself."""
        self.assertTrue(direct_socket.AVAILABLE)

    def test_changed(self) -> None:
        """A Twisted in which one name means something else, or does not exist, is not used directly."""
        found = run([sys.executable, "-c", RENAMED], capture_output=True, text=True, check=True).stdout.split()
        self.assertEqual(found, ["True", *["False"] * 5, "True", "False"])


class SocketCase(SynchronousTestCase):
    def setUp(self) -> None:
        ours, self.theirs = socketpair()
        self.addCleanup(self.theirs.close)
        self.addCleanup(ours.close)
        self.theirs.setblocking(False)
        self.transport: Any = Connection(ours, Protocol(), IdleReactor())
        self.transport.connected = True


class StateTests(SocketCase):
    def test_idle(self) -> None:
        """Bytes may go to an open socket in front of which nothing waits, and the client gets them in order."""
        self.assertTrue(direct_socket.can_send(self.transport))
        self.assertTrue(direct_socket.is_plain(self.transport))
        self.assertEqual(direct_socket.send(self.transport, b"head", b"body"), 8)
        self.assertEqual(self.theirs.recv(100), b"headbody")

    def test_bytes_wait(self) -> None:
        """Keep the order of written bytes, also behind those that the transport has tried to send."""
        self.transport.write(b"a" * 1_000_000)
        self.assertFalse(direct_socket.can_send(self.transport))
        self.transport.doWrite()
        self.assertFalse(direct_socket.can_send(self.transport))
        self.assertTrue(direct_socket.is_plain(self.transport))

    def test_full(self) -> None:
        """The number of bytes that the kernel took is less than asked for, at last 0."""
        sent = direct_socket.send(self.transport, b"a" * 1_000_000, b"b" * 1_000_000)
        self.assertTrue(0 < sent < 2_000_000)
        self.assertEqual(direct_socket.send(self.transport, b"c", b""), 0)

    def test_closing(self) -> None:
        """Send no bytes after the end of the last response."""
        self.transport.write(b"last")
        self.transport.loseConnection()
        self.transport.doWrite()
        self.assertFalse(direct_socket.can_send(self.transport))

    def test_not_connected(self) -> None:
        """A socket that is closed is not used."""
        self.transport.connected = False
        self.assertFalse(direct_socket.can_send(self.transport))
        self.assertFalse(direct_socket.is_plain(self.transport))
        self.assertIsNone(direct_socket.unsent_bytes(self.transport))

    def test_tls(self) -> None:
        """Bytes that have to be encrypted go through the transport."""
        self.transport.TLS = True
        self.assertFalse(direct_socket.can_send(self.transport))
        self.assertFalse(direct_socket.is_plain(self.transport))
        self.assertIsNone(direct_socket.unsent_bytes(self.transport))

    def test_other_transports(self) -> None:
        """Use only sockets of Twisted directly."""
        for other in (StringTransport(), None):
            self.assertFalse(direct_socket.can_send(other))
            self.assertFalse(direct_socket.is_plain(other))
            self.assertIsNone(direct_socket.unsent_bytes(other))

    def test_unsent_bytes(self) -> None:
        """Bytes in the transport and in the kernel count until the client has read them."""
        self.assertEqual(direct_socket.unsent_bytes(self.transport), 0)
        self.transport.write(b"a" * 50_000)
        self.transport.writeSequence([b"b" * 25_000, b"c" * 25_000])
        before = direct_socket.unsent_bytes(self.transport)
        self.assertEqual(before, 100_000)
        self.transport.doWrite()
        self.assertGreaterEqual(direct_socket.unsent_bytes(self.transport) or 0, 100_000)  # with the kernel's overhead
        while self.transport.dataBuffer or self.transport._tempDataBuffer:
            self.theirs.recv(100_000)
            self.transport.doWrite()
        self.theirs.recv(1_000_000)
        self.assertEqual(direct_socket.unsent_bytes(self.transport), 0)

    def test_unavailable(self) -> None:
        """Without Twisted's names an idle socket is used through the transport only."""
        self.patch(direct_socket, "AVAILABLE", False)
        self.assertFalse(direct_socket.can_send(self.transport))
        self.assertFalse(direct_socket.is_plain(self.transport))
        self.assertIsNone(direct_socket.unsent_bytes(self.transport))


class Sender(Protocol):
    """A protocol that asks to be resumed as soon as its socket has room."""

    def __init__(self, resumed: Deferred[bool]) -> None:
        self._resumed = resumed

    def connectionMade(self) -> None:
        self.transport.registerProducer(self, True)  # type: ignore[union-attr]
        sent = 1
        while sent:
            sent = direct_socket.send(self.transport, b"a" * 100_000, b"")
        direct_socket.resume_when_writable(self.transport)

    def pauseProducing(self) -> None: ...

    def resumeProducing(self) -> None:
        resumed, self._resumed = self._resumed, Deferred()
        if not resumed.called:
            resumed.callback(direct_socket.can_send(self.transport))
            self.transport.unregisterProducer()  # type: ignore[union-attr]
            self.transport.loseConnection()  # type: ignore[union-attr]

    def stopProducing(self) -> None: ...


class SenderFactory(Factory):
    noisy = False

    def __init__(self) -> None:
        self.resumed: Deferred[bool] = Deferred()

    def buildProtocol(self, addr: IAddress | None) -> Sender:
        return Sender(self.resumed)


class ResumeTests(TestCase):
    async def test_resumed_when_writable(self) -> None:
        """A producer that filled the socket itself is resumed once the client has read, and not before."""
        factory = SenderFactory()
        port = reactor.listenTCP(0, factory, interface="127.0.0.1")  # type: ignore[attr-defined]
        self.addCleanup(port.stopListening)
        client = await deferToThread(create_connection, ("127.0.0.1", port.getHost().port), PATIENCE_SECONDS)
        self.addCleanup(client.close)
        waited: Deferred[None] = Deferred()
        reactor.callLater(0.1, waited.callback, None)  # type: ignore[attr-defined]
        await waited
        self.assertFalse(factory.resumed.called)
        reading = deferToThread(read_all, client)
        self.assertTrue(await factory.resumed)
        await reading


class FallbackTests(test_socket.SocketTests):
    """All that holds for real sockets, with a Twisted whose names are not known."""

    def setUp(self) -> None:
        super().setUp()
        self.patch(direct_socket, "AVAILABLE", False)

    async def test_large_responses(self) -> None:
        """20 MB of responses that a client begins to read late arrive whole and in order, over both kinds of socket."""
        path = self.mktemp()
        local = reactor.listenUNIX(path, self.site)  # type: ignore[attr-defined]
        self.addCleanup(local.stopListening)
        requests = b"".join(request_bytes("POST", "/echo/json", JSON, BODY % number) for number in range(LATE))
        requests += request_bytes("GET", "/nope", {"Connection": "close"})

        def ask(connection: socket) -> bytes:
            sending = Thread(target=lambda: connection.sendall(requests))
            with connection:
                connection.settimeout(PATIENCE_SECONDS)
                sending.start()
                sending.join(0.3)
                self.assertTrue(sending.is_alive())
                return read_all(connection)

        for kind, address in ((AF_INET, self.address), (AF_UNIX, path)):
            connection = socket(kind)
            connection.connect(address)
            received = await deferToThread(ask, connection)
            self.assertEqual(received.count(b"HTTP/1.1 200 "), LATE)
            self.assertEqual(received.count(TEXT), LATE)
            self.assertEqual([int(each) for each in NUMBER.findall(received)], [*range(LATE)])
            self.assertEqual(parse_answers(received[received.index(b"HTTP/1.1 404 ") :])[0].code, "route_not_found")
