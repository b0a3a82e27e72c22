"""Every response has common fields; HEAD, OPTIONS and other origins are supported (docs/protocol.md: Conventions)."""

from itertools import count

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from gamed.http.parser import RequestHeaders
from gamed.http.settings import HttpSettings
from gamed.http.site import IDS_DRAWN, Site
from gamed.sessions.errors import TokenInvalid, TokenMissing
from tests.http.apps import SECRET, CollectRoutes, EchoRoutes, PageRoutes
from tests.support.covers import covers
from tests.support.errors import problem_of
from tests.support.http import BASE_HOST, START_MS, Answer, Browser, Lines, request_bytes

TOKEN = "A" * 22
ORIGIN = "https://play.example"


class HeaderTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.browser = Browser([EchoRoutes(), PageRoutes()])

    @covers("threats/43")
    def test_always(self) -> None:
        """A response has Date, nosniff, a new request id and a length, and no Server."""
        answers = [self.browser.get(path) for path in ("/echo/text", "/nope", f"/auth/page/{TOKEN}", "/auth/page/x")]
        for answer in answers:
            self.assertEqual(answer.headers["date"], "Fri, 15 Jan 2027 08:00:00 GMT")
            self.assertEqual(answer.headers["x-content-type-options"], "nosniff")
            self.assertEqual(answer.headers["content-length"], str(len(answer.body)))
            self.assertNotIn("server", answer.headers)
        self.assertEqual(len({answer.headers["x-request-id"] for answer in answers}), 4)
        self.assertEqual(START_MS, 1_800_000_000_000)

    def test_request_ids(self) -> None:
        """Each request has another id of 24 digits; random bytes are drawn for many at once."""
        numbers, drawn = count(), []

        def random(size: int) -> bytes:
            drawn.append(size)
            return b"".join(next(numbers).to_bytes(12, "big") for _ in range(size // 12))

        site = Site([], HttpSettings(BASE_HOST), Clock(), access_log=Lines(), now_ms=lambda: 0, random=random)
        found = [site.new_request_id() for _ in range(2 * IDS_DRAWN)]
        self.assertEqual(found, [f"{number:024x}" for number in range(2 * IDS_DRAWN)])
        self.assertEqual(drawn, [12 * IDS_DRAWN, 12 * IDS_DRAWN])

    def test_cookies(self) -> None:
        """A handler gets the value of a cookie by its name, or None."""
        for cookie, value in (("gl=abc; other=1", b"abc"), ("other=1;gl=", b"none"), ("gl", b"none"), ("", b"none")):
            self.assertEqual(self.browser.get("/echo/cookie", {"Cookie": cookie}).body, value)

    def test_cookies_are_parsed_once(self) -> None:
        """A page looks for several cookies in up to 16 KiB of them."""
        read, values = [], RequestHeaders.values
        self.patch(RequestHeaders, "values", lambda fields, name: read.append(name) or values(fields, name))
        self.assertEqual(self.browser.get("/echo/cookie", {"Cookie": "other=1; gl=2"}).body, b"2")
        self.assertEqual(read.count("cookie"), 1)

    @covers("4/12", "threats/31")
    def test_auth_is_not_stored_and_tells_no_referrer(self) -> None:
        """Forbid caching of every response below /auth/, also of errors."""
        for answer in (
            self.browser.post_json("/auth/echo", {}),
            self.browser.get("/auth/nope"),
            self.browser.get(f"/auth/page/{TOKEN}"),
        ):
            self.assertEqual(answer.headers["cache-control"], "no-store")
            self.assertEqual(answer.headers["referrer-policy"], "no-referrer")
        self.assertNotIn("cache-control", self.browser.get("/echo/text").headers)

    @covers("9/1")
    def test_the_protocol_is_named_on_json(self) -> None:
        """JSON and problems have Gamed-Protocol, other responses do not."""
        self.assertEqual(self.browser.get("/game/").headers["gamed-protocol"], "1.0")
        self.assertEqual(self.browser.get("/nope").headers["gamed-protocol"], "1.0")
        self.assertNotIn("gamed-protocol", self.browser.get("/echo/text").headers)

    def test_204(self) -> None:
        """A 204 has neither length nor type nor body."""
        answer = self.browser.get("/echo/nothing")
        self.assertEqual(answer.status, 204)
        self.assertNotIn("content-length", answer.headers)
        self.assertNotIn("content-type", answer.headers)

    def test_no_body_where_none_may_be(self) -> None:
        """A response without content drops what its handler returns (RFC 9112 6.3)."""
        for status in (204, 304):
            connection = Browser([EchoRoutes()], crashes=True).connect()
            connection.send(request_bytes("GET", f"/echo/bodiless/{status}") + request_bytes("GET", "/echo/text"))
            first, second, body = connection.raw.split(b"\r\n\r\n")
            self.assertTrue(first.startswith(b"HTTP/1.1 %d " % status), first)
            self.assertTrue(second.startswith(b"HTTP/1.1 200 "), second)
            self.assertEqual(body, b"text")

    def test_head_is_get_without_its_body(self) -> None:
        """HEAD has the status and header fields of GET, errors too."""
        for path in ("/echo/text", "/game/", "/nope", "/echo/name/a", "/echo/typed", "/echo/nothing"):
            with self.subTest(path):
                get, head = self.browser.get(path), self.browser.request("HEAD", path)
                self.assertEqual(head.status, get.status)
                self.assertEqual(head.headers.keys(), get.headers.keys())
                self.assertEqual(head.headers.get("content-length"), get.headers.get("content-length"))

    def test_a_head_request_keeps_the_connection_in_step(self) -> None:
        """HEAD has no content."""
        connection = self.browser.connect()
        connection.send(b"HEAD /nope HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.assertTrue(connection.raw.endswith(b"\r\n\r\n"))

    def test_401_asks_for_a_bearer(self) -> None:
        """`error="invalid_token"` only when a credential was sent (RFC 6750 3)."""
        missing, invalid = problem_of(TokenMissing()), problem_of(TokenInvalid(), credential_sent=True)
        assert missing is not None and invalid is not None
        self.assertEqual(missing.headers["WWW-Authenticate"], 'Bearer realm="gamed"')
        self.assertEqual(invalid.headers["WWW-Authenticate"], 'Bearer realm="gamed", error="invalid_token"')


class PagesTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.browser = Browser(
            [EchoRoutes(), PageRoutes(), CollectRoutes()], HttpSettings(BASE_HOST, cors_origins=(ORIGIN,)), crashes=True
        )

    def assertPage(self, answer: Answer, status: int) -> None:
        self.assertEqual((answer.status, answer.headers["content-type"]), (status, "text/html; charset=utf-8"))
        self.assertIn("content-security-policy", answer.headers)
        self.assertTrue(answer.body.startswith(b"<!DOCTYPE html>"), answer.body[:80])

    def test_errors_are_pages(self) -> None:
        """Errors of browser routes are pages, whatever Accept says."""
        for path in (
            "/auth/page/nope",
            "/auth/page/",
            f"/auth/page/{TOKEN}/",
            f"/auth/page//{TOKEN}",
            "/auth/page/%00",
        ):
            with self.subTest(path):
                self.assertPage(self.browser.get(path, {"Accept": "application/json"}), 404)
        self.assertPage(self.browser.get("/auth/page/%ff"), 400)
        self.assertPage(self.browser.get("/auth/page/crash"), 500)
        self.assertPage(self.browser.get(f"/auth/page/{TOKEN}", {"Host": "evil.example"}), 421)
        self.assertPage(self.browser.request("POST", f"/auth/page/{TOKEN}"), 405)
        self.assertPage(self.browser.post_json("/auth/page/form", {}), 415)
        self.assertPage(self.browser.post_form("/auth/page/form", "a=" + "b" * 9000), 413)
        self.assertPage(self.browser.post_form("/auth/page/form", "a=1&a=2"), 400)

    def test_other_methods_elsewhere(self) -> None:
        """A path below the pages that does not exist is a problem for any method but GET and HEAD."""
        for path, status in (("/auth/page/nope", 404), (f"/auth/page/{TOKEN}/nope", 404), ("/auth/page/%ff", 400)):
            for method in ("POST", "PUT", "DELETE", "OPTIONS", "BREW"):
                answer = self.browser.request(method, path)
                self.assertEqual((answer.status, answer.headers["content-type"]), (status, "application/problem+json"))
            self.assertEqual(self.browser.request("HEAD", path).headers["content-type"], "text/html; charset=utf-8")
        self.assertPage(self.browser.post_form("/auth/page/form", "a=" + "b" * 9000), 413)

    def test_the_request_id(self) -> None:
        """A page about a failure of the server shows the id of X-Request-Id and the log; other errors show none."""
        answer = self.browser.get("/auth/page/crash")
        request_id = answer.headers["x-request-id"]
        self.assertEqual(self.browser.log.lines[-1]["request_id"], request_id)
        self.assertIn(f"<small>For the owner of this server: <bdi>{request_id}</bdi></small>".encode(), answer.body)
        self.assertIn(f"request={request_id}\n", "".join(self.browser.events))
        for path in ("/auth/page/nope", "/auth/page/%ff"):
            answer = self.browser.get(path)
            self.assertNotIn(answer.headers["x-request-id"].encode(), answer.body)

    def test_no_secret_in_a_page(self) -> None:
        """The page of an unexpected error shows no detail."""
        self.assertNotIn(SECRET[:10].encode(), self.browser.get("/auth/page/crash").body)

    def test_no_head(self) -> None:
        """Browser routes do not answer HEAD; Allow does not claim it."""
        answer = self.browser.request("HEAD", f"/auth/page/{TOKEN}")
        self.assertEqual((answer.status, answer.headers["allow"]), (405, "GET"))

    @covers("threats/32")
    def test_no_cors(self) -> None:
        """Browser routes answer neither OPTIONS nor other origins."""
        answer = self.browser.request("OPTIONS", f"/auth/page/{TOKEN}", {"Origin": ORIGIN})
        self.assertPage(answer, 405)
        answer = self.browser.get(f"/auth/page/{TOKEN}", {"Origin": ORIGIN})
        self.assertEqual([name for name in answer.headers if name.startswith("access-control") or name == "vary"], [])

    def test_forms(self) -> None:
        """A form is decoded into fields by name."""
        self.assertEqual(
            self.browser.post_form("/auth/page/form", "name=J%C3%B6+x&b").body, b"[('b', ''), ('name', 'J\xc3\xb6 x')]"
        )

    def test_words_are_not_tokens(self) -> None:
        """A JSON route beside the pages keeps its name; 22 characters that begin like it are a token."""
        self.assertEqual(self.browser.post_json("/auth/page/collect", {}).status, 200)
        self.assertEqual(self.browser.get("/auth/page/collect").code, "method_not_allowed")
        self.assertEqual(self.browser.get("/auth/page/collect" + "A" * 15).status, 200)
        self.assertPage(self.browser.get("/auth/page/collec"), 404)


class CorsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.browser = Browser([EchoRoutes()], HttpSettings(BASE_HOST, cors_origins=(ORIGIN, "http://localhost:8000")))

    def granted(self, answer: Answer) -> str | None:
        return answer.headers.get("access-control-allow-origin")

    def test_a_listed_origin(self) -> None:
        """An allowed origin may read responses and the exposed fields, errors too, never with credentials."""
        for answer in (
            self.browser.get("/game/", {"Origin": ORIGIN}),
            self.browser.get("/game/nope", {"Origin": ORIGIN}),
        ):
            self.assertEqual(self.granted(answer), ORIGIN)
            self.assertIn("x-request-id", answer.headers["access-control-expose-headers"])
            self.assertIn("Origin", answer.headers["vary"])
            self.assertNotIn("access-control-allow-credentials", answer.headers)

    def test_vary_is_added_to(self) -> None:
        """A route's own Vary stays, and shared caches keep origins apart also for requests without one."""
        self.assertEqual(self.browser.get("/game/").headers["vary"], "Authorization, Origin")

    @covers("threats/32")
    def test_other_origins(self) -> None:
        """An origin that is not listed gets no CORS fields, even if it resembles one."""
        for origin in (
            "https://evil.example",
            "null",
            ORIGIN + ".evil.example",
            ORIGIN + "/",
            ORIGIN.upper(),
            "https://play.example:443",
        ):
            with self.subTest(origin):
                self.assertIsNone(self.granted(self.browser.get("/game/", {"Origin": origin})))
                preflight = self.browser.request("OPTIONS", "/game/", {"Origin": origin})
                self.assertEqual([name for name in preflight.headers if name.startswith("access-control")], [])

    def test_preflight(self) -> None:
        """204 with the route's methods, the allowed request headers and ten minutes."""
        answer = self.browser.request("OPTIONS", "/game/", {"Origin": ORIGIN, "Access-Control-Request-Method": "GET"})
        self.assertEqual((answer.status, self.granted(answer)), (204, ORIGIN))
        self.assertEqual(answer.headers["access-control-allow-methods"], "GET, HEAD, OPTIONS")
        self.assertEqual(answer.headers["access-control-max-age"], "600")
        self.assertIn("if-none-match", answer.headers["access-control-allow-headers"])
        self.assertIn("Origin", answer.headers["vary"])

    def test_options_of_no_route(self) -> None:
        """A preflight for an unknown path is 404, outside the three families 405."""
        self.assertEqual(self.browser.request("OPTIONS", "/game/nope").code, "route_not_found")
        self.assertEqual(self.browser.request("OPTIONS", "/echo/text").code, "method_not_allowed")

    def test_not_outside_the_families(self) -> None:
        """Routes outside the three families have no CORS fields."""
        self.assertIsNone(self.granted(self.browser.get("/echo/text", {"Origin": ORIGIN})))

    def test_without_origins(self) -> None:
        """Without origins OPTIONS has only Allow."""
        answer = Browser([EchoRoutes()]).request("OPTIONS", "/game/", {"Origin": ORIGIN})
        self.assertEqual((answer.status, answer.headers["allow"]), (204, "GET, HEAD, OPTIONS"))
        self.assertIsNone(self.granted(answer))
        self.assertNotIn("vary", answer.headers)


class LogTests(SynchronousTestCase):
    def test_a_line_has_the_template(self) -> None:
        """The access log never has the path, the query or an unknown method."""
        browser = Browser([EchoRoutes(), PageRoutes()])
        browser.get("/echo/name/anna?state=s3cret")
        browser.get("/nope/s3cret")
        browser.request("DELETE", "/echo/name/anna")
        templates = [line["template"] for line in browser.log.lines]
        self.assertEqual(templates, ["/echo/name/{name}", "-", "/echo/name/{name}"])
        self.assertEqual([line["status"] for line in browser.log.lines], [200, 404, 405])
        self.assertNotIn("s3cret", repr(browser.log.lines))
        self.assertEqual(browser.log.lines[0]["size"], len(b'{"name":"anna"}'))
        self.assertEqual(browser.events, [])
