"""Hostile bytes get a typed response: no traceback, no 5xx, and no handler runs."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from gamed.http.parser import DECODED_PIECES
from tests.http.apps import EchoRoutes, PageRoutes
from tests.support.covers import covers
from tests.support.http import Answer, Browser, Connection

HOST = b"Host: game.example\r\n"
GET = b"GET /echo/text HTTP/1.1\r\n" + HOST + b"\r\n"


class HostileCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.routes = EchoRoutes()
        self.browser = Browser([self.routes, PageRoutes()])

    def sent(self, data: bytes) -> Connection:
        connection = self.browser.connect()
        self.browser.watched(lambda: connection.send(data))
        return connection

    def answered(self, data: bytes) -> Answer:
        return self.sent(data).answer

    def refused(self, data: bytes, status: int, code: str) -> Connection:
        """The answer is this problem, and no handler ran."""
        connection = self.sent(data)
        answer = connection.answer
        self.assertEqual((answer.status, answer.code), (status, code), data[:200])
        self.assertEqual(answer.json["status"], status)
        self.assertEqual(answer.json["request_id"], answer.headers["x-request-id"])
        self.assertEqual(answer.headers["cache-control"], "no-store")
        self.assertEqual(answer.headers["x-content-type-options"], "nosniff")
        self.assertIn("date", answer.headers)
        self.assertNotIn("server", answer.headers)
        self.assertEqual(self.routes.calls, [])
        return connection


class FieldTests(HostileCase):
    """Field values with bytes beyond ASCII (RFC 9110 5.5)."""

    def test_bytes_that_are_no_text(self) -> None:
        """In every field that is read they are never a 500."""
        names = [b"Authorization", b"Cookie", b"Origin", b"X-Forwarded-For", b"Content-Type", b"Expect"]
        names += [b"Sec-Fetch-Site", b"Sec-Fetch-Dest", b"Sec-Purpose"]
        fields = b"".join(name + b": Bearer \xff\xfe\r\n" for name in names)
        for start in (b"GET /echo/text", b"OPTIONS /echo/text", b"GET /pages/hello", b"POST /echo/json"):
            body = b"{}" if start.startswith(b"POST") else b""
            length = b"Content-Length: %d\r\n\r\n" % len(body)
            answer = self.answered(start + b" HTTP/1.1\r\n" + HOST + fields + length + body)
            self.assertLess(answer.status, 500, start)


class PageTests(HostileCase):
    """Malformed requests to browser routes, whose errors are pages (docs/protocol.md: Conventions)."""

    def test_a_head_that_cannot_be_read(self) -> None:
        """The route of the first line decides the form of the refusal; without one it is a problem."""
        page, json = b"GET /auth/page/form HTTP/1.1\r\n", b"GET /auth/echo HTTP/1.1\r\n"
        for rest, status in (
            (b"X: a\r\n" * 65, 431),
            (b"X: " + b"a" * 17_000, 431),
            (HOST + b"no colon\r\n\r\n", 400),
            (HOST + b"Content-Length: x\r\n\r\n", 400),
            (HOST + b"X: a\n\n", 400),
        ):
            for start, kind in ((page, "text/html; charset=utf-8"), (json, "application/problem+json")):
                with self.subTest(rest=rest[:30], start=start):
                    connection = self.sent(start + rest)
                    answer = connection.answer
                    self.assertEqual((answer.status, answer.headers["content-type"]), (status, kind))
                    self.assertEqual(answer.headers["cache-control"], "no-store")
                    self.assertEqual(answer.headers["referrer-policy"], "no-referrer")
                    self.assertTrue(connection.closing)
        for start in (b"GET /auth/page/form\r\n\r\n", b"GET /auth/page/" + b"a" * 17_000, b"\x16\x03\r\n\r\n"):
            self.assertEqual(self.answered(start).headers["content-type"], "application/problem+json")

    def test_the_line_of_another_request(self) -> None:
        """A page does not decide the form of the next response."""
        answers = self.sent(b"GET /auth/page/x HTTP/1.1\r\n" + HOST + b"\r\n" + b"a" * 17_000).answers
        self.assertEqual([answer.headers["content-type"][:9] for answer in answers], ["text/html", "applicati"])

    def test_a_head_that_does_not_end(self) -> None:
        """A 408 has the form and the log line of its route."""
        connection = self.browser.connect().send(b"POST /auth/page/form HTTP/1.1\r\n")
        self.browser.clock.advance(10)
        self.assertEqual(connection.answer.status, 408)
        self.assertEqual(connection.answer.headers["content-type"], "text/html; charset=utf-8")
        [line] = self.browser.log.lines
        self.assertEqual((line["method"], line["template"], line["status"]), ("POST", "/auth/page/form", 408))


class SyntaxTests(HostileCase):
    def test_no_request(self) -> None:
        """Anything but an HTTP/1.x request is 400 bad_request and closes the connection."""
        cases = [
            b"hello\r\n\r\n",
            b"GET\r\n\r\n",
            b"GET /echo/text\r\n\r\n",
            b"GET /echo/text HTTP/2.0\r\n" + HOST + b"\r\n",
            b"GET /echo/text HTTP/1.2\r\n" + HOST + b"\r\n",
            b"GET  /echo/text HTTP/1.1\r\n" + HOST + b"\r\n",
            b"GET /echo/text HTTP/1.1\r\nHost : game.example\r\n\r\n",
            b"\r\n\r\n" + GET,
            b"GET /echo/text HTTP/1.1\r\n" + HOST + b" folded\r\n\r\n",
            b"GET /echo/text HTTP/1.1\r\n folded\r\n\r\n",
            b"GET /echo/text HTTP/1.1\r\n" + HOST + b"X: a\r\n\tfolded\r\n\r\n",
            b"GET /echo/text HTTP/1.1\n" + HOST + b"\r\n",
            b"GET /echo/text HTTP/1.1\nHost: game.example\n\n",
            b"GET /echo/text HTTP/1.1\r\n" + HOST + b"X: a\x00b\r\n\r\n",
            b"GET /echo/text HTTP/1.1\r\n:\r\n\r\n",
            b"GET /echo/text HTTP/1.1\r\n" + HOST + b"X: a\rb\r\n\r\n",
            b"GET /echo/text HTTP/1.1\r\n" + HOST + b"X\r\n\r\n",
            b"PUT /echo/any HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            b"PUT /echo/any HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\na",
            b"PUT /echo/any HTTP/1.1\r\n" + HOST + b"Content-Length: one\r\n\r\na",
            b"PUT /echo/any HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: identity\r\n\r\n",
            b"PUT /echo/any HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: gzip\r\n\r\n",
        ]
        for data in cases:
            with self.subTest(data):
                connection = self.refused(data + GET, 400, "bad_request")
                self.assertEqual(connection.answer.headers["connection"], "close")
                self.assertTrue(connection.closing)

    def test_a_tls_hello_does_not_wait_for_a_line(self) -> None:
        """TLS on the plain port is 400 if its bytes have a line end, else it times out."""
        connection = self.sent(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x07" * 500)
        self.browser.clock.advance(10)
        self.assertEqual(connection.answer.code, "request_timeout")

    def test_one_empty_line_is_forgiven(self) -> None:
        """An extra empty line behind a body is ignored (RFC 9112 2.2)."""
        self.assertEqual(self.answered(b"\r\n" + GET).status, 200)

    def test_targets(self) -> None:
        """Targets that are not paths, and paths that are not UTF-8, are 400."""
        for target in (
            b"game.example:443",
            b"*",
            b"ftp://game.example/echo/text",
            b"echo/text",
            b"/echo/text#a",
            b"?",
            b"/%",
            b"/%zz",
            b"/%ff",
            b"/echo/%c3",
        ):
            with self.subTest(target):
                self.refused(b"GET " + target + b" HTTP/1.1\r\n" + HOST + b"\r\n", 400, "bad_request")

    def test_hosts(self) -> None:
        """A missing, repeated or malformed Host is 400, another server's 421; HTTP/1.0 may omit it."""
        line = b"GET /echo/text HTTP/1.1\r\n"
        for hosts in (
            b"",
            HOST + HOST,
            b"Host: \r\n",
            b"Host: a b\r\n",
            b"Host: game.example/\r\n",
            b"Host: u@game.example\r\n",
        ):
            with self.subTest(hosts):
                self.refused(line + hosts + b"\r\n", 400, "bad_request")
        self.refused(line + b"Host: evil.example\r\n\r\n", 421, "misdirected_request")
        self.refused(b"GET http://evil.example/echo/text HTTP/1.1\r\n" + HOST + b"\r\n", 421, "misdirected_request")
        self.assertEqual(self.answered(b"GET http://game.example/echo/text HTTP/1.1\r\nHost: x\r\n\r\n").status, 200)
        connection = self.sent(b"GET /echo/text HTTP/1.0\r\n\r\n")
        self.assertEqual((connection.answer.status, connection.closed), (200, True))

    @covers("threats/30")
    def test_misdirected_before_all_else_of_a_route(self) -> None:
        """Another server's name gets no CORS fields."""
        self.refused(b"GET /nope HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421, "misdirected_request")

    def test_methods(self) -> None:
        """An unsupported method is 405 with Allow, whatever its name."""
        for method in (
            b"TRACE",
            b"CONNECT",
            b"PATCH",
            b"POST",
            b"OPTIONS",
            b"get",
            b"Get",
            b"BREW",
            b"M-SEARCH",
            b"!",
            b"GETT",
        ):
            with self.subTest(method):
                connection = self.refused(
                    method + b" /echo/text HTTP/1.1\r\n" + HOST + b"\r\n", 405, "method_not_allowed"
                )
                self.assertEqual(connection.answer.headers["allow"], "GET, HEAD")
        self.refused(b"CONNECT game.example:443 HTTP/1.1\r\n" + HOST + b"\r\n", 400, "bad_request")

    @covers("threats/41")
    def test_paths(self) -> None:
        """Unknown, doubled, stray and encoded slashes, NUL: 404, never a redirect."""
        for path in (
            b"/",
            b"/nope",
            b"/echo",
            b"/echo/",
            b"//echo/text",
            b"/echo//text",
            b"/echo/text/",
            b"/echo/text//",
            b"/echo%2ftext",
            b"/echo/%2e%2e/text",
            b"/echo/../echo/text",
            b"/./echo/text",
            b"/echo/text%00",
            b"/echo/text%0a",
            b"/ECHO/text",
            b"/echo/text;a=b",
            b"/game",
            b"/echo/name/",
            b"/echo/name/a%2fb",
            b"/echo/name/a/b",
            b"/auth/echo/",
            b"//",
            b"/%5c",
            b"/.well-known/x",
        ):
            with self.subTest(path):
                self.refused(b"GET " + path + b" HTTP/1.1\r\n" + HOST + b"\r\n", 404, "route_not_found")
        self.refused(b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n", 404, "route_not_found")

    @given(
        st.lists(
            st.binary(max_size=200)
            | st.sampled_from(
                [
                    GET,
                    b"\r\n",
                    b"\r\n\r\n",
                    HOST,
                    b"PUT /echo/any HTTP/1.1\r\n",
                    b"Transfer-Encoding: chunked\r\n",
                    b"Content-Length: 3\r\n",
                    b"5\r\nhello\r\n0\r\n\r\n",
                ]
            ),
            max_size=8,
        )
    )
    def test_any_bytes(self, pieces: list[bytes]) -> None:
        """However they are cut: every answer is typed, none is a 5xx, nothing unexpected is logged."""
        connection = Browser([EchoRoutes()]).connect()
        browser = self.browser
        for piece in pieces:
            browser.watched(lambda piece=piece: connection.send(piece))
        for answer in connection.answers:
            self.assertLess(answer.status, 500)
            if answer.status >= 400:
                self.assertTrue(answer.code)
        if connection.closing:
            self.assertGreaterEqual(connection.answers[-1].status, 400)


@covers("threats/37")
class SizeTests(HostileCase):
    def test_long_heads(self) -> None:
        """Over 16 KiB in all: 431, also when no line ends."""
        line = b"GET /echo/text HTTP/1.1\r\n" + HOST
        cases = [
            b"G" * 17000,
            b"GET /" + b"a" * 17000 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
            line + b"X: " + b"a" * 17000 + b"\r\n\r\n",
            line + b"X: " + b"a" * 17000,
            line + b"".join(b"X: " + b"a" * 1000 + b"\r\n" for _ in range(17)) + b"\r\n",
            line + b"X: " + b"a" * 8000 + b"\r\nY: " + b"a" * 8400,
        ]
        for data in cases:
            with self.subTest(data[-40:]):
                self.assertTrue(self.refused(data, 431, "head_too_large").closing)

    def test_the_largest_head(self) -> None:
        """16 KiB of head pass, in one piece or byte by byte."""
        line = b"GET /echo/text HTTP/1.1\r\n" + HOST
        head = line + b"X: " + b"a" * (16384 - len(line) - 5) + b"\r\n"
        self.assertEqual(len(head), 16384)
        self.assertEqual(self.answered(head + b"\r\n").status, 200)
        connection = self.browser.connect()
        for at in range(0, len(head), 100):
            connection.send(head[at : at + 100])
        self.assertEqual(connection.send(b"\r\n").answer.status, 200)
        self.routes.calls.clear()
        self.refused(head.replace(b"aa", b"aaa", 1) + b"\r\n", 431, "head_too_large")

    def test_many_fields(self) -> None:
        """64 fields pass, 65 do not; 431 comes before the head has ended."""
        line = b"GET /echo/text HTTP/1.1\r\n" + HOST
        self.assertEqual(self.answered(line + b"X: a\r\n" * 63 + b"\r\n").status, 200)
        self.routes.calls.clear()
        self.refused(line + b"X: a\r\n" * 64, 431, "head_too_large")

    def test_nothing_after_a_refused_head_is_read(self) -> None:
        """Bytes behind a malformed head are discarded."""
        connection = self.refused(b"x\r\n\r\n" + GET * 10, 400, "bad_request")
        connection.send(GET)
        self.assertEqual(len(connection.answers), 1)

    def test_a_declared_size(self) -> None:
        """Too much is refused from the head alone, and without 100 Continue."""
        head = b"PUT /echo/any HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\nExpect: 100-continue\r\n"
        for size in (b"8193", b"99999999999", b"9" * 5000):
            with self.subTest(size[:10]):
                connection = self.refused(head + b"Content-Length: " + size + b"\r\n\r\n", 413, "body_too_large")
                self.assertEqual(connection.interim, 0)
                self.assertEqual(connection.answer.headers["connection"], "close")


@covers("threats/37")
class ChunkTests(HostileCase):
    HEAD = (
        b"PUT /echo/any HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )

    def test_garbage(self) -> None:
        """Bad sizes, missing ends, endless size lines and trailers are 400 and the end of the connection."""
        for body in (
            b"x\r\n",
            b"-1\r\n",
            b"0x5\r\nhello\r\n",
            b"5 \r\nhello\r\n",
            b"5\r\nhelloXY",
            b"\r\n",
            b"+5\r\nhello\r\n",
            b"5;\x01\r\nhello\r\n",
            b"5" * 1100,
            b"5;" + b"a" * 1100,
            b"5_0\r\n",
            b"0\r\n" + b"X: a\r\n" * 20000,
            b"0\r\n\nGET /echo/text HTTP/1.1\r\n\r\n",
            b"0\r\nX: a\nY: b\r\n\r\n",
            b"0\r\nX: a\rY: b\r\n\r\n",
            b"0\r\nX : a\r\n\r\n",
            b"0\r\nX: a\r\n b\r\n\r\n",
            b"0\r\nX\r\n\r\n",
        ):
            with self.subTest(body[:20]):
                self.assertTrue(self.refused(self.HEAD + body, 400, "bad_request").closing)

    def test_tiny_chunks(self) -> None:
        """A body of one-byte chunks is refused after some of them."""
        self.refused(self.HEAD + b"1\r\na\r\n" * 50_000, 413, "body_too_large")
        connection = self.refused(
            self.HEAD + b"1;" + b"a" * 1000 + b"\r\na\r\n" + b"1;a=aaaaaaaaaaaaaaa\r\na\r\n" * 8000, 400, "bad_request"
        )
        self.assertTrue(connection.closing)

    def test_small_chunks_take_turns(self) -> None:
        """A turn of the reactor decodes some of the many small chunks of one read; the next ones decode the others."""
        body = b'"' + b"a" * 7998 + b'"'
        chunks = [b"2\r\n%b\r\n" % body[at : at + 2] for at in range(0, len(body), 2)]
        connection = self.browser.connect()
        connection.channel.dataReceived(self.HEAD + b"".join(chunks))
        turns, left = 0, [connection.channel._chunks.held]
        while left[-1]:
            self.assertEqual(connection.transport.producerState, "paused")
            self.assertEqual(self.routes.calls, [])
            [call] = [call for call in self.browser.clock.calls if call.func == connection.channel._decode_on]
            decode = call.func
            call.cancel()
            decode()
            left.append(connection.channel._chunks.held)
            turns += 1
        self.assertGreater(turns, len(chunks) * 3 // DECODED_PIECES - 2)
        self.assertLessEqual(max(before - after for before, after in pairwise(left)), 7 * DECODED_PIECES // 3 + 7)
        self.assertEqual(connection.transport.producerState, "producing")
        self.assertEqual(connection.send(b"0\r\n\r\n" + GET).answers[0].status, 200)
        self.assertEqual([answer.status for answer in connection.answers], [200, 200])

    def test_small_chunks_before_the_end(self) -> None:
        """A client that closes its side behind many small chunks is answered as if they came one by one."""
        chunks = b"2\r\naa\r\n" * 3000
        for end, status in ((b"0\r\n\r\n", 200), (b"", 400)):
            self.routes.calls.clear()
            connection = self.browser.connect()
            connection.channel.dataReceived(self.HEAD + chunks + end)
            connection.channel.readConnectionLost()
            self.assertEqual(connection.transport.value(), b"")
            self.assertEqual([answer.status for answer in connection.answers], [status])

    def test_a_chunked_body_over_the_limit(self) -> None:
        """A chunked body beyond the limit is 413 at once."""
        connection = self.refused(self.HEAD + b"4000\r\n" + b"a" * 9000, 413, "body_too_large")
        self.assertTrue(connection.closing)

    def test_trailers_are_read_and_dropped(self) -> None:
        """Trailers never become header fields."""
        answer = self.answered(self.HEAD + b"2;x=y\r\nab\r\n0\r\nHost: evil.example\r\nX: y\r\n\r\n")
        self.assertEqual((answer.status, answer.json["size"]), (200, 2))
