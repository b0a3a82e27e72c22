"""The client of the webhook against a real HTTP server that does what it likes."""

from typing import Any

from twisted.internet import reactor
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import TestCase

from gamed.config.model import Notify, NotifyFormat
from gamed.crypto import Secret
from gamed.notify.client import WebhookClient
from gamed.notify.format_rules import WebhookMessage, encode
from gamed.notify.model import BACKUP, Notice, NoticeState, Undelivered
from gamed.providers import client as provider_client
from gamed.providers.transport import MAX_CONNECTION_BYTES
from tests.notify.receiver import PATH, Receiver, pause
from tests.support.ports import free_port

MESSAGE = encode(NotifyFormat.NTFY, "Gärten", [Notice(BACKUP, NoticeState.BAD, "There is no backup.")])


class Hurried:
    """The reactor, with a clock that a test moves."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.seconds, self.callLater = self.clock.seconds, self.clock.callLater

    def __getattr__(self, name: str) -> Any:
        return getattr(reactor, name)


class Elsewhere(Hurried):
    """The reactor, whose connections are to the address that was asked for, and go nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.callLater = reactor.callLater  # type: ignore[attr-defined]
        self.transports: list[StringTransport] = []

    def connectTCP(self, host: str, port: int, factory: Any, *_: Any, **__: Any) -> object:
        transport = StringTransport(peerAddress=IPv4Address("TCP", host, port))
        self.transports.append(transport)
        factory.buildProtocol(transport.getPeer()).makeConnection(transport)
        return object()


class ClientTests(TestCase):
    def setUp(self) -> None:
        self.receiver = Receiver().listen(self)
        self.sender = self.client(self.receiver.url)

    def client(self, url: str, using: Any = reactor) -> WebhookClient:
        return WebhookClient(Notify(Secret(url.encode()), NotifyFormat.NTFY), using, lambda: 0)

    async def test_accepted(self) -> None:
        """A message arrives once, with its fields and content, and without a cookie or a referrer."""
        self.receiver.answers = [(200, {"Set-Cookie": "a=b"})]
        self.assertIsNone(await self.sender.send(MESSAGE))
        self.assertIsNone(await self.sender.send(MESSAGE))
        for each in self.receiver.received:
            self.assertEqual(each.body, b"There is no backup.")
            self.assertEqual(each.headers["title"], MESSAGE.headers["Title"])
            self.assertFalse({"cookie", "referer"} & each.headers.keys())
        self.assertEqual(len(self.receiver.received), 2)

    async def test_redirect(self) -> None:
        """A redirect is not followed, so the message reaches no other address."""
        other = Receiver().listen(self)
        for status in (301, 302, 303, 307, 308):
            self.receiver.answers = [(status, {"Location": other.url})]
            failure = await self.sender.send(MESSAGE)
            self.assertEqual(failure, Undelivered(f"notify: redirects ({status}), which is never followed"))
        self.assertEqual(other.received, [])

    async def test_refused(self) -> None:
        """Each other status is a failure that names it; 429 and 503 also have the time to wait."""
        for status in (400, 401, 404, 413, 500):
            self.receiver.answers = [(status, {})]
            self.assertEqual(await self.sender.send(MESSAGE), Undelivered(f"notify: answered {status}"))
        self.receiver.answers = [(429, {"Retry-After": "1234"})]
        self.assertEqual(await self.sender.send(MESSAGE), Undelivered("notify: answered 429", 1234))
        self.assertEqual(len(self.receiver.received), 6)

    async def test_down(self) -> None:
        """A host that accepts no connection is a failure at once."""
        failure = await self.client(f"http://127.0.0.1:{free_port()}{PATH}").send(MESSAGE)
        self.assertEqual(failure, Undelivered("notify: the connection failed"))

    async def test_megabytes(self) -> None:
        """The content of a response is not read: the connection ends after its head, and the message counts as sent."""
        self.receiver.flood = 64 * 1024 * 1024
        self.receiver.answers = [(200, {})]
        self.assertIsNone(await self.sender.send(MESSAGE))
        await pause(0.3)
        self.assertLess(self.receiver.flooded, 32 * MAX_CONNECTION_BYTES)
        self.assertEqual(len(self.receiver.received), 1)

    async def test_slow(self) -> None:
        """A webhook that does not answer is left after ten seconds."""
        self.receiver.silent = True
        hurried = Hurried()
        sending = self.client(self.receiver.url, hurried).send(MESSAGE)
        ended = Deferred.fromCoroutine(sending)
        while not self.receiver.received:
            await pause(0.01)
        hurried.clock.advance(provider_client.TIMEOUT_SECONDS - 0.1)
        self.assertNoResult(ended)
        hurried.clock.advance(0.1)
        expected = Undelivered("notify: the response was not complete within 10 s")
        self.assertEqual(await ended, expected)

    async def test_plain_to_public(self) -> None:
        """An http connection to a public address, where a name may lead, is aborted before its first byte."""
        elsewhere = Elsewhere()
        failure = await self.client("http://8.8.8.8/hush", elsewhere).send(MESSAGE)
        text = "notify: its address is public, and http is for private ones; use https"
        self.assertEqual(failure, Undelivered(text))
        self.assertEqual({each.value() for each in elsewhere.transports}, {b""})
        self.assertTrue(all(each.disconnecting or each.aborting for each in elsewhere.transports))

    def test_hidden(self) -> None:
        """Neither the client nor a failure nor a message shows the URL, or names."""
        self.assertNotIn("hush", repr(vars(self.sender)))
        self.assertNotIn("Anna", repr(WebhookMessage({}, b"Anna")))
