"""The short way answers as the long one does, byte for byte: hand-made requests, and those with some bytes changed."""

import gc
from collections.abc import Iterator, Sequence
from random import Random
from re import compile
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from gamed.web.app import Room
from gamed.web.fast import PlainFields, PlainRequest, plain_head
from gamed.web.fields import AnswerFields, Fields
from gamed.web.gates import Head
from gamed.web.http_policy import HttpPolicy
from gamed.web.raw_head import parse_head
from gamed.web.table import _ambiguous
from gamed.web.target import split_target
from tests.support.http import BASE_HOST, Browser, request_bytes
from tests.web.rooms import CollectRoom, EchoRoom, PagesRoom

JSON = {"Content-Type": "application/json"}
MUTANTS = 600
FRAME = compile(r"  [\w.]+:\d+ in ")
PATHS = (
    *("/echo/text", "/echo/any", "/echo/query?a=1&b=%20", "/echo/query?a=1&a=2", "/echo/query?#", "/echo/name/anna"),
    *("/echo/name/", "/echo/name/a/b", "/echo/name/a%2Fb", "/echo/name/%61", "/echo/name/..", "/echo/name/~a.b-c_d"),
    *("/echo/typed", "/echo/nothing", "/echo/text/", "/echo//text", "/echo", "/echo/", "/", "*", "", "/game/", "/game"),
    *("/echo/tree", "/echo/tree/a", "/echo/tree/a/", "/echo/tree/a/b", "/echo/tree/a/b/", "/echo/tree/a/b/c/d"),
    *("/echo/tree/leaf", "/echo/tree/leaf/", "/echo/tree/leaf/a", "/echo/tree/leaf/a/", "/echo/tree/leaf/a/b"),
    *("/echo/tree/a//b", "/echo/tree/../b", "/echo/tree/a/../b", "/echo/tree/a/b%20c", "/echo/tree/a/b.c-d_e~f"),
    *("/echo/deferred", "/echo/deferred?a", "/echo/stream", "/echo/broken-stream", "/echo/crash", "/echo/not-bytes"),
    *("/echo/unspeakable", "/echo/unmeasured", "/echo/bodiless/204", "/echo/bodiless/304", "/echo/stubborn"),
    *("/auth/echo", "/auth/page/collect", "/auth/page/" + "t" * 22, "/auth/page/form", "/echo/nowhere", "/ECHO/text"),
    *(
        "http://game.example/echo/text",
        "http://other.example/echo/text",
        "/echo/text?",
        "/echo/te xt",
        "/echo/t\u00e9xt",
    ),
)
FIELDS: Sequence[dict[str, str]] = (
    {},
    {"Connection": "close"},
    {"Connection": "keep-alive"},
    {"Connection": "keep-alive, close"},
    {"Connection": "Upgrade, keep-alive", "Upgrade": "h2c"},
    {"Host": "localhost:8080"},
    {"Host": "other.example"},
    {"Host": "GAME.example.:443"},
    {"Host": ""},
    {"X-Forwarded-For": "192.0.2.7, 198.51.100.1"},
    {"X-Empty": "", "X-Blank": " \t ", "x-latin": "\u00e9"},
    {"Origin": "https://page.example"},
    {"Authorization": "Bearer nothing"},
    {"Cookie": "gl=abc; other=1"},
    {"Expect": "100-continue"},
    {"Content-Length": "0"},
    {"Content-Length": "00"},
    {"Content-Length": "+3"},
    {"Content-Length": "9" * 30},
    {"Content-Length": "9" * 5000},
    {"Transfer-Encoding": "chunked"},
    {"Transfer-Encoding": "identity"},
    {"Transfer-Encoding": "chunked", "Content-Length": "3"},
)
ODD = (
    b"GET /echo/text HTTP/1.0\r\n\r\n",
    b"GET /echo/text HTTP/1.1\r\n\r\n",
    b"GET /echo/text HTTP/2.0\r\nHost: game.example\r\n\r\n",
    b"get /echo/text HTTP/1.1\r\nHost: game.example\r\n\r\n",
    b"GET /echo/text HTTP/1.1\nHost: game.example\n\n",
    b"GET /echo/text HTTP/1.1\r\nHost: game.example\r\nHost: game.example\r\n\r\n",
    b"GET /echo/text HTTP/1.1\r\nHost: game.example\r\nA: b\r\n c\r\n\r\n",
    b"GET /echo/text HTTP/1.1\r\nHost: game.example\r\nA : b\r\n\r\n",
    b"GET /echo/text HTTP/1.1\r\nHost: game.example\r\nA: b\x00c\r\n\r\n",
    b"GET /echo/text HTTP/1.1\r\nHost: game.example\r\nA: b\rc\r\n\r\n",
    b"PUT /echo/any HTTP/1.1\r\nHost: game.example\r\nContent-Length: \xb2\r\n\r\nab",
    b"\r\nGET /echo/text HTTP/1.1\r\nHost: game.example\r\n\r\n",
    b"\r\n\r\nGET /echo/text HTTP/1.1\r\nHost: game.example\r\n\r\n",
    b"GET /echo/text HTTP/1.1\r\nHost: game.example\r\n" + b"A: b\r\n" * 63 + b"\r\n",
    b"GET /echo/text HTTP/1.1\r\nHost: game.example\r\n" + b"".join(b"A%d: b\r\n" % n for n in range(63)) + b"\r\n",
    b"GET /echo/text HTTP/1.1\r\nHost: game.example\r\n" + b"".join(b"A%d: b\r\n" % n for n in range(64)) + b"\r\n",
    *(
        b"GET /echo/text HTTP/1.1\r\nHost: game.example\r\nA: %b\r\n\r\n" % (b"x" * (16 * 1024 - 52 + more))
        for more in range(-2, 3)
    ),
    b"PUT /echo/any HTTP/1.1\r\nHost: game.example\r\nContent-Length: 3\r\n\r\nabcPUT /echo/any HTTP/1.1\r\n",
    b"GET /echo/text HTTP/1.1\r\nHost: game.example\r\n\r\n" * 5,
    b"GET /echo/text HTTP/1.1\r\nHost: game.example\r\n\r\n\r\n\r\nGET /echo/text HTTP/1.1\r\n\r\n",
    b"GET /echo/nothing HTTP/1.1\r\nHost: game.example\r\n\r\nGET /echo/text HTTP/1.1\r\nHost: game.example\r\n\r\n",
    b"DELETE /echo/nothing HTTP/1.1\r\nHost: game.example\r\nContent-Length: 2\r\n\r\nxyGET /echo/typed HTTP/1.1\r\n",
)


def made() -> Iterator[bytes]:
    """Requests written by hand, each kind on each path."""
    for path in PATHS:
        for method in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE"):
            yield request_bytes(method, path)
    for fields in FIELDS:
        yield request_bytes("GET", "/echo/text", fields)
        yield request_bytes("PUT", "/echo/any", JSON | fields, b"{}")
        yield request_bytes("POST", "/auth/echo", JSON | fields, b"3\r\n{ }\r\n0\r\n\r\n")
    for body in (b"", b"{}", b'{"number":1}', b"[1]", b'{"number":1,"number":2}', b"x" * 9000, b"\xff"):
        yield request_bytes("POST", "/echo/json", JSON, body)
        yield request_bytes("POST", "/echo/json", {"Content-Type": "text/plain"}, body)
        yield request_bytes("POST", "/echo/optional", {}, body)
    yield from ODD


def mutated(random: Random, sent: bytes) -> bytes:
    """With a few bytes taken away, put in, replaced or said twice."""
    for _ in range(random.choice((1, 1, 2, 3))):
        at, end = sorted(random.randrange(len(sent) + 1) for _ in range(2))
        end = min(end, at + random.choice((0, 0, 1, 1, 12)))
        new = random.choice(
            (b"", b"a", b"-", random.randbytes(1), b"\r\n", b" ", b":", b"\t", b"%", sent[at:end] * 2, b"\r\nA: b")
        )
        sent = sent[:at] + new + sent[end:]
    return sent


def pieces(random: Random, sent: bytes) -> Sequence[bytes]:
    """In one, or cut somewhere."""
    cuts = sorted(random.randrange(len(sent) + 1) for _ in range(random.choice((0, 0, 0, 1, 2))))
    return [sent[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(sent)], strict=True)]


class SameCase(SynchronousTestCase):
    """`ways` are two services that differ in nothing but their way."""

    origins: Sequence[str] = ()

    def more_rooms(self) -> list[Room]:
        """Besides those that echo, made anew each time."""
        return []

    def same(self, parts: Sequence[bytes]) -> int:
        """How many plain requests there were; both ways are compared in what is sent, logged, called and closed."""
        seen = [self.told(parts, fast) for fast in (True, False)]
        (one, plain), (other, _) = seen
        self.assertEqual(one, other, parts)
        return plain

    def told(self, parts: Sequence[bytes], fast: bool) -> tuple[Any, int]:
        echo, counted = EchoRoom(), []
        browser = Browser(
            [echo, PagesRoom(), CollectRoom(), *self.more_rooms()],
            HttpPolicy(BASE_HOST, cors_origins=self.origins, fast=fast),
            crashes=True,
        )
        connection = browser.connect()
        plain = browser.site.plain
        browser.site.plain = lambda data, channel: counted.append(plain(data, channel)) or counted[-1]  # type: ignore
        for part in parts:
            browser.watched(lambda part=part: connection.send(part))  # type: ignore[misc]
        raw, fate = connection.raw, (connection.closed, connection.closing)
        browser.clock.advance(11)
        ended = connection.raw, connection.closed
        connection.leave()
        told = raw, fate, ended, browser.log.lines, [shown(call) for call in echo.calls], unframed(browser.events)
        return told, sum(one is not None for one in counted)


def unframed(events: Sequence[str]) -> list[list[str]]:
    """What is logged, without the functions that it went through."""
    return [[line for line in event.splitlines() if not FRAME.match(line)] for event in events]


def shown(call: Any) -> Any:
    """A head by what is in it: the two ways keep its fields in different places."""
    if not isinstance(call, Head):
        return call
    fields = sorted((name.lower(), *values) for name, values in call.headers.getAllRawHeaders())
    return call.method, call.path, call.query, dict(call.kwargs), call.length, call.address, fields


class SameTests(SameCase):
    def test_hand_made(self) -> None:
        """Every path, method, field and body, and what is no request at all."""
        corpus = list(made())
        plain = [self.same([sent]) for sent in corpus]
        self.assertGreater(len(corpus), 300)
        self.assertGreater(sum(plain), 70)

    def test_mutants(self) -> None:
        """Some bytes changed, and cut where it happens to fall."""
        random, corpus = Random(11), list(made())
        corpus += len(corpus) * [
            request_bytes("GET", "/echo/text", {"Accept": "*/*"}),
            request_bytes("GET", "/echo/name/anna?a=1", {"Authorization": "Bearer nothing"}),
            request_bytes("PUT", "/echo/any", JSON, b"{}"),
        ]
        plain = [self.same(pieces(random, mutated(random, random.choice(corpus)))) for _ in range(MUTANTS)]
        self.assertGreater(sum(plain), 20)

    def test_empty_lines(self) -> None:
        """One before each request is forgiven, whichever way the one before it went, and no more."""
        get = request_bytes("GET", "/echo/text")
        for parts in ([b"\r\n", get, b"\r\n", get], [b"\r\n", get, b"\r\n" + get, b"\r\n", b"\r\n", get]):
            self.same(parts)

    def test_cookies(self) -> None:
        """Read when a handler asks for one."""
        for cookie, value in (("gl=abc; other=1", b"abc"), ("other=1;gl=", b"none"), ("gl", b"none"), ("", b"none")):
            for fast in (True, False):
                browser = Browser([EchoRoom()], HttpPolicy(BASE_HOST, fast=fast), crashes=True)
                self.assertEqual(browser.get("/echo/cookie", {"Cookie": cookie}).body, value)

    def test_one_after_another(self) -> None:
        """Whole requests on one connection, cut anywhere."""
        random, corpus = Random(12), [sent for sent in made() if plain_head(sent) is not None]
        plain = [self.same(pieces(random, b"".join(random.choices(corpus, k=4)))) for _ in range(60)]
        self.assertGreater(sum(plain), 10)


class SameForPagesTests(SameCase):
    origins = ("https://page.example",)

    def test_origins(self) -> None:
        """A game in a browser: the fields for its origin, on every answer."""
        for origin in ("https://page.example", "https://other.example"):
            for method, path in (
                ("GET", "/game/"),
                ("GET", "/echo/text"),
                ("POST", "/auth/echo"),
                ("OPTIONS", "/game/"),
            ):
                self.same([request_bytes(method, path, {"Origin": origin})])


class ShapeTests(SynchronousTestCase):
    def test_rules_that_may_both_fit(self) -> None:
        """A room is left out where the map might choose another rule than the short way."""
        for rules, ambiguous in (
            (["/a/<x>", "/b/<x>", "/a", "/a/<x>/c"], False),
            (["/a/<x>", "/a/b"], True),
            (["/a/<x>", "/<y>/b"], True),
            (["/a/", "/a/<x>"], False),
            (["/a/<path:p>", "/b/<path:p>"], False),
            (["/a/<x>", "/a/<x>/<path:p>"], False),
            (["/a/b/<x>", "/a/<x>/<path:p>"], False),
            (["/a/b/c", "/a/<path:p>"], False),
            (["/a/<path:p>", "/<x>/b"], True),
            (["/a/<path:p>", "/<x>/b/c/d"], True),
            (["/a/<path:p>", "/<x>/<path:p>"], True),
            (["/a/<x>/<path:p>", "/a/<path:p>"], True),
        ):
            shapes = [rule.split("/") for rule in rules]
            self.assertEqual(_ambiguous(shapes), ambiguous, rules)
            self.assertEqual(_ambiguous(shapes[::-1]), ambiguous, rules)


def plain_requests() -> list[PlainRequest]:
    """Those that are in memory."""
    return [each for each in gc.get_objects() if isinstance(each, PlainRequest)]


class GarbageTests(SynchronousTestCase):
    def test_nothing_is_left_for_the_collector(self) -> None:
        """An answered plain request, refused or not, is gone with its last reference."""
        browser = Browser([EchoRoom()], HttpPolicy(BASE_HOST))
        connection = browser.connect()
        for path in ("/echo/text", "/echo/name/anna", "/echo/query?a=1"):
            connection.send(request_bytes("GET", path))
        gc.collect()
        gc.disable()
        self.addCleanup(gc.enable)
        others = plain_requests()  # of tests before this one, which trial keeps
        for path in ("/echo/text", "/echo/name/anna", "/echo/query?a=1", "/echo/typed"):
            connection.send(request_bytes("GET", path))
        left = [each for each in plain_requests() if not any(each is other for other in others)]
        self.assertEqual(left, [])


class ReprTests(SynchronousTestCase):
    def test_nothing_of_a_head_is_shown(self) -> None:
        """A credential, a path, a query and an address are in no repr of a head, whichever way it is read."""
        words = ("gat_hidden", "s3cret", "hidden-path", "192.0.2.7")
        data = b"GET /hidden-path?code=s3cret HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer gat_hidden\r\n\r\n"
        plain, raw = plain_head(data), parse_head(data.split(b"\r\n")[:-2])
        assert plain is not None
        fields, answer = Fields({"Authorization": ["Bearer gat_hidden"]}), AnswerFields()
        answer.set("Location", "/hidden-path")
        shown: list[Any] = [plain, raw, split_target(raw), PlainFields(plain.fields), fields, answer]
        shown += [Head("GET", plain.path, plain.query, {"slot": "s3cret"}, each, 0, "192.0.2.7") for each in shown[3:5]]
        for each in shown:
            with self.subTest(type(each).__name__):
                self.assertTrue(repr(each))
                self.assertEqual([word for word in words if word in repr(each)], [])
