"""Sign-ins over real sockets end at providers that send slowly, endlessly or incompletely; only the clock is fake."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from twisted.internet import reactor as installed
from twisted.internet.task import deferLater
from twisted.trial.unittest import TestCase

from gamed.outcomes import LoginFailure
from gamed.providers.client import TIMEOUT_SECONDS
from gamed.providers.transport import build_agent
from tests.hostile.fake_provider import ACCESS, MARK
from tests.hostile.helpers import HostileCase
from tests.login.browser_fixtures import Page
from tests.providers import test_transport as wire
from tests.support.covers import covers

reactor: Any = installed
DRIPPING_TURNS = 10
"""Turns of the reactor while the provider sends single bytes or nothing; then the deadline of 10 s is over."""
Script = Callable[[wire.FakeProtocol], None]
OK = wire.HEAD
TOKENS = f'{{"access_token":"{ACCESS}","token_type":"Bearer"}}'.encode()
UNAVAILABLE, ERROR = LoginFailure.PROVIDER_UNAVAILABLE, LoginFailure.PROVIDER_ERROR


def whole(body: bytes) -> Script:
    return wire.says(OK + b"Content-Length: %d\r\n\r\n" % len(body) + body, end=False)


def drips(head: bytes, piece: bytes, seconds: float = 0.02) -> Script:
    def script(fake: wire.FakeProtocol) -> None:
        wire.says(head, end=False)(fake)
        fake.drip(piece, seconds)

    return script


class Socket(Struct, frozen=True):
    name: str
    scripts: tuple[Script, ...]
    """Scripts of the connections in their order: the token endpoint, then the account."""
    outcome: LoginFailure
    cause: str
    at_once: bool = False
    """True if the script runs before a byte was received."""
    connections: int = 1

    @property
    def endless(self) -> bool:
        """Return whether only our deadline ends it."""
        return "within 10 s" in self.cause or "not complete" in self.cause


CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
GOOD, NEVER = whole(TOKENS), lambda _: None
SOCKETS = (
    Socket("token says nothing", (NEVER,), UNAVAILABLE, "within 10 s"),
    Socket("token head drips", (drips(b"HTTP/1.1 200 OK\r\nX: ", b"x"),), UNAVAILABLE, "within 10 s"),
    Socket("token body drips", (drips(OK + b"Content-Length: 99\r\n\r\n", b" "),), UNAVAILABLE, "within 10 s"),
    Socket("token chunks drip", (drips(CHUNKED, b"1\r\n \r\n"),), UNAVAILABLE, "within 10 s"),
    Socket("token interim answers drip", (drips(b"", b"HTTP/1.1 100 C\r\n\r\n"),), UNAVAILABLE, "within 10 s"),
    Socket("token chunks without end", (drips(CHUNKED, b"4000\r\n" + b" " * 16384 + b"\r\n", 0),), ERROR, "65536"),
    Socket("token body without end", (drips(OK + b"\r\n", b" " * 16384, 0),), ERROR, "more than 65536 bytes"),
    Socket("token head without end", (drips(OK, b"X: " + b"y" * 9000 + b"\r\n", 0),), ERROR, "token_endpoint: "),
    Socket("token reset before it was sent", (wire.resets,), UNAVAILABLE, "the connection was lost", at_once=True),
    Socket("token reset after it was sent", (wire.resets,), UNAVAILABLE, "the connection was lost"),
    Socket("token closed after it was sent", (wire.says(b""),), UNAVAILABLE, "the connection was lost"),
    Socket(
        "token breaks off",
        (wire.says(OK + b"Content-Length: 999\r\n\r\n" + TOKENS),),
        UNAVAILABLE,
        "connection was lost",
    ),
    Socket("token is no HTTP", (wire.says(f"SSH-2.0-{MARK}\r\n\r\n".encode()),), ERROR, "not HTTP"),
    Socket("token a redirect", (wire.says(b"HTTP/1.1 307 T\r\nLocation: /\r\n\r\n"),), ERROR, "redirects"),
    Socket(
        "account says nothing",
        (GOOD, NEVER),
        UNAVAILABLE,
        "the response was not complete",
        connections=2,
    ),
    Socket(
        "account drips",
        (GOOD, drips(OK, b"X: y\r\n")),
        UNAVAILABLE,
        "the response was not complete",
        connections=2,
    ),
    Socket("account reset", (GOOD, wire.resets), UNAVAILABLE, "userinfo_endpoint: the connection", connections=2),
    Socket("account without end", (GOOD, drips(OK + b"\r\n", b" " * 9999, 0)), ERROR, "userinfo", connections=2),
)


@covers("threats/20")
class Sockets(HostileCase, TestCase):
    """Tests for each mode, made below."""

    def begin_at(self, *scripts: Script, at_once: bool = False) -> wire.FakeFactory:
        factory = wire.FakeFactory(scripts, at_once)
        port = reactor.listenTCP(0, factory, interface="127.0.0.1")
        self.addCleanup(port.stopListening)
        home = f"http://127.0.0.1:{port.getHost().port}"
        self.serve_hostile("discord", build_agent(reactor), home=home)
        return factory

    async def back(self, sign_in: Any, factory: wire.FakeFactory, endless: bool = False) -> Page:
        """Return the browser as return_() does; if `endless`, pass the deadline while the last script runs."""
        connection, turns = self.site.send("GET", self.callback(sign_in), sign_in.browser.headers()), 0
        while not connection.answers:
            await deferLater(reactor, 0.01, lambda: None)
            turns += not factory.scripts
            if endless and turns == DRIPPING_TURNS:
                self.pass_time(TIMEOUT_SECONDS)
        sign_in.pages.append(Page(connection.answer))
        self.assertEqual(sign_in.pages[0].status, 303)
        sign_in.pages.append(sign_in.browser.get(sign_in.pages[0].headers["location"]))
        return sign_in.pages[1]

    async def tried(self, mode: Socket) -> None:
        factory = self.begin_at(*mode.scripts, at_once=mode.at_once)
        before, saves = self.lasting(), self.saves()
        sign_in = self.depart()
        self.ends(sign_in, await self.back(sign_in, factory, mode.endless), mode.outcome, mode.cause)
        self.assertEqual((self.lasting(), self.saves()), (before, saves))
        self.assertEqual(factory.connections, mode.connections)
        self.assertLessEqual(b"".join(factory.received).count(sign_in.code.encode()), 1)
        self.nothing_leaks()

    async def test_honest(self) -> None:
        """Over the same sockets players sign in at a correct provider."""
        factory = self.begin_at(GOOD, whole(b'{"id":"7"}'))
        sign_in = self.depart()
        await self.back(sign_in, factory)
        self.assertEqual(factory.connections, 2)
        self.assertEqual(sign_in.game.collect().json["stage"], "proof_required")


def _made(mode: Socket) -> Any:
    async def method(self: Sockets) -> None:
        await self.tried(mode)

    method.__doc__ = f"{mode.name}: {mode.outcome.value}."
    return method


for _mode in SOCKETS:
    setattr(Sockets, "test_" + _mode.name.replace(" ", "_"), _made(_mode))
