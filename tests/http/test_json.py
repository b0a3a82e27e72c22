"""JSON, queries and forms are read strictly (docs/protocol.md: Conventions)."""

from collections.abc import Mapping

from msgspec import Struct, field
from twisted.trial.unittest import SynchronousTestCase

from gamed.http.app import make_app
from gamed.http.bodies import BodyPolicy
from gamed.http.json_body import read_json, write_json
from gamed.http.request import Request
from tests.http.apps import EchoRoutes
from tests.support.http import Answer, Browser


class ReadTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.routes = EchoRoutes()
        self.browser = Browser([self.routes])

    def post(self, body: bytes, path: str = "/echo/json", **headers: str) -> Answer:
        kind = {"Content-Type": headers.get("kind", "application/json")}
        return self.browser.request("POST", path, kind, body)

    def test_a_good_body(self) -> None:
        """A body is converted to its types; unknown members are ignored."""
        answer = self.post(b'{"number":5,"text":"a","later":{"x":[1]}}')
        self.assertEqual(answer.status, 200)
        self.assertEqual(answer.headers["content-type"], "application/json")
        self.assertEqual(answer.headers["gamed-protocol"], "1.0")
        self.assertEqual(answer.json, {"number": 5, "text": "a", "inner": None})

    def test_malformed(self) -> None:
        """Malformed JSON is 400 invalid_request; the text does not quote the body."""
        answer = self.post(b'{"number":sesame}')
        self.assertEqual((answer.status, answer.code), (400, "invalid_request"))
        self.assertEqual(answer.json["errors"], [{"pointer": "", "detail": "not JSON at line 1, column 11"}])
        self.assertNotIn(b"sesame", answer.body)

    def test_all_wrong_members_at_once(self) -> None:
        """Each wrong member has its pointer (RFC 6901), also inside other members."""
        answer = self.post(b'{"text":5,"inner":{"name":"a","tags":["x",7]}}')
        pointers = [error["pointer"] for error in answer.json["errors"]]
        self.assertEqual(pointers, ["/number", "/text", "/inner/tags/1"])
        self.assertEqual(self.routes.calls, [])

    def test_a_good_body_is_converted_once(self) -> None:
        """No member of a valid body is converted twice."""
        made: list[str] = []

        class Part(Struct):
            name: str

            def __post_init__(self) -> None:
                made.append(self.name)

        class Whole(Struct):
            part: Part
            parts: list[Part]

        class Group(Struct, frozen=True):
            app = make_app()
            prefixes = ("/echo/",)
            body_policies: Mapping[str, BodyPolicy] = field(default_factory=dict)

            @app.route("/echo/parts", methods=["POST"])
            def echo_parts(self, request: Request) -> bytes:
                return write_json(request, 200, read_json(request, Whole))

        answer = Browser([Group()]).post_json("/echo/parts", {"part": {"name": "a"}, "parts": [{"name": "b"}]})
        self.assertEqual((answer.status, made), (200, ["a", "b"]))

    def test_types_are_strict(self) -> None:
        """ "5", 5.5 and true are no integers."""
        for text in (b'"5"', b"5.5", b"true", b"null", b"[5]", b"{}"):
            with self.subTest(text):
                self.assertEqual(self.post(b'{"number":%b}' % text).code, "invalid_request")

    def test_whole_floats_are_integers(self) -> None:
        """5.0 is 5; beyond 2**53 no float is an integer."""
        for text in (b"5.0", b"50e-1", b"5.00"):
            self.assertEqual(self.post(b'{"number":%b,"text":"a"}' % text).json["number"], 5)
        for text in (b"1e300", b"9007199254740992.0", b"5.000001"):
            self.assertEqual(self.post(b'{"number":%b,"text":"a"}' % text).code, "invalid_request")

    def test_other_media_types(self) -> None:
        """Another media type or charset is 415; other parameters are ignored."""
        for kind in (
            "text/plain",
            "application/x-www-form-urlencoded",
            "application/jsonp",
            "text/json",
            "",
            "json",
            "application/json; charset=latin-1",
            "multipart/form-data; boundary=a",
        ):
            with self.subTest(kind):
                answer = self.post(b'{"number":5}', kind=kind)
                self.assertEqual((answer.status, answer.code), (415, "unsupported_media_type"))
        for kind in ("application/json", "Application/JSON; charset=UTF-8", 'application/json;charset="utf-8";v=1'):
            self.assertEqual(self.post(b'{"number":5}', kind=kind).status, 200)

    def test_no_media_type(self) -> None:
        """A body without Content-Type is 415; a missing body is 400."""
        self.assertEqual(self.browser.request("POST", "/echo/json", {}, b"{}").status, 415)
        self.assertEqual(self.browser.request("POST", "/echo/json").code, "invalid_request")

    def test_content_coding(self) -> None:
        """A compressed body is 415, because a small one may be a large one."""
        headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
        answer = self.browser.request("POST", "/echo/json", headers, b"{}")
        self.assertEqual(answer.code, "unsupported_media_type")

    def test_an_optional_body(self) -> None:
        """An optional body may be missing, but not be wrong."""
        self.assertEqual(self.browser.request("POST", "/echo/optional").json, {"name": "", "tags": []})
        self.assertEqual(self.post(b"[]", "/echo/optional").code, "invalid_request")
        self.assertEqual(self.post(b" ", "/echo/optional").code, "invalid_request")
        self.assertEqual(self.post(b"", "/echo/optional").code, "invalid_request")  # announced as JSON, and none

    def test_size(self) -> None:
        """8 KiB are accepted; one byte more is 413 with the limit."""
        routes = b'{"number":5,"text":"%b"}'
        fits = routes % (b"a" * (8192 - len(routes) + 2))
        self.assertEqual(len(fits), 8192)
        self.assertEqual(self.post(fits).status, 200)
        answer = self.post(fits + b" ")
        self.assertEqual((answer.status, answer.code, answer.json["limit"]), (413, "body_too_large", 8192))

    def test_chunked(self) -> None:
        """A chunked body is counted as it arrives."""
        headers = {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}
        answer = self.browser.request("POST", "/echo/json", headers, b'5\r\n{"num\r\n9\r\nber": 5 }\r\n0\r\n\r\n')
        self.assertEqual(answer.json["number"], 5)
        answer = self.browser.request("POST", "/echo/json", headers, b"2001\r\n" + b" " * 8193 + b"\r\n0\r\n\r\n")
        self.assertEqual(answer.code, "body_too_large")

    def test_bodies_of_get_and_delete(self) -> None:
        """The body of a GET is limited, too; its media type does not matter."""
        for method in ("GET", "DELETE"):
            self.assertEqual(self.browser.request(method, "/echo/any", {}, b"a" * 100).json["size"], 100)
            self.assertEqual(self.browser.request(method, "/echo/any", {}, b"a" * 9000).code, "body_too_large")

    def test_forms_are_not_merged(self) -> None:
        """A query or form is not parsed unless a handler reads it."""
        answer = self.browser.request(
            "POST", "/echo/json?number=7", {"Content-Type": "application/json"}, b'{"number":5}'
        )
        self.assertEqual(answer.json["number"], 5)


class QueryTests(SynchronousTestCase):
    def query(self, raw: str) -> Answer:
        return Browser([EchoRoutes()]).get(f"/echo/query?{raw}")

    def test_pairs(self) -> None:
        """Percent signs and plus are decoded; a name alone has an empty value; empty pairs are skipped."""
        self.assertEqual(self.query("a=1&b=%C3%A4+x&c&d=e=f&&").json, {"a": "1", "b": "\xe4 x", "c": "", "d": "e=f"})

    def test_refused(self) -> None:
        """A repeated name, invalid UTF-8 and more than 4 KiB are refused."""
        for raw in ("a=1&a=2", "a=1&%61=2", "a=%ff", "%ff=a", "a=" + "b" * 4095):
            with self.subTest(raw[:20]):
                answer = self.query(raw)
                self.assertEqual((answer.status, answer.code), (400, "bad_request"))
