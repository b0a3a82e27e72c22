"""Errors become problems of a closed table (docs/protocol.md: Errors)."""

from json import loads
from string import ascii_lowercase

from twisted.trial.unittest import SynchronousTestCase
from werkzeug.exceptions import BadGateway, NotFound

from gamed.database.errors import DatabaseBusy, DatabaseCorrupt, DatabaseUnavailable, DiskFull
from gamed.http.errors import BadRequest, HttpError, InvalidRequest, MethodNotAllowed
from gamed.http.problems import CODES, HTTP_ERRORS, merge_tables, plain_problem
from gamed.http.tracebacks import redact, redacted_traceback
from tests.http.apps import SECRET, EchoRoutes
from tests.support.covers import covers
from tests.support.errors import ALL_ERRORS, problem_of
from tests.support.http import Browser

GENERAL = {
    "bad_request": 400,
    "invalid_request": 400,
    "route_not_found": 404,
    "method_not_allowed": 405,
    "request_timeout": 408,
    "body_too_large": 413,
    "unsupported_media_type": 415,
    "misdirected_request": 421,
    "rate_limited": 429,
    "head_too_large": 431,
    "internal_error": 500,
    "busy": 503,
    "shutting_down": 503,
    "unhealthy": 503,
}
HANDOFF = {
    "provider_unknown": 400,
    "provider_unavailable": 503,
    "invalid_proof": 400,
    "device_secret_invalid": 401,
    "login_collected": 410,
}
SESSIONS = {
    "refresh_reused": 401,
    "refresh_expired": 401,
    "refresh_invalid": 401,
    "session_revoked": 401,
    "session_not_found": 404,
    "token_missing": 401,
    "token_expired": 401,
    "token_invalid": 401,
    "player_blocked": 403,
}
SAVES = {
    "erased": 410,
    "invalid_slot": 400,
    "digest_mismatch": 400,
    "bad_meta": 400,
    "content_encoding": 415,
    "bad_range_put": 400,
    "bad_precondition": 400,
    "length_required": 411,
    "precondition_required": 428,
    "superseded": 412,
    "version_conflict": 412,
    "weak_validator": 412,
    "blank_save": 422,
    "corrupt_blob": 500,
    "save_not_found": 404,
    "deleted": 410,
    "version_gone": 404,
    "range_not_satisfiable": 416,
    "save_too_large": 413,
    "quota_exceeded": 413,
    "too_many_slots": 413,
    "storage_full": 507,
    "store_unavailable": 503,
}
TITLES = {
    "rate_limited": "Too many requests",
    "route_not_found": "Not found",
    "internal_error": "Internal error",
}

ALSO = {"deleted": (412,), "blob_missing": (404,)}
"""Further statuses of a code."""


def answered(kind: type[BaseException]) -> tuple[int, str]:
    """Return the status and the code of an error of this class."""
    problem = problem_of(kind.__new__(kind))
    assert problem is not None
    return problem.status, problem.code


@covers("7/9")
class TableTests(SynchronousTestCase):
    def test_statuses_are_those_of_the_protocol(self) -> None:
        """Each code has the status of docs/protocol.md: Errors."""
        for code, status in (GENERAL | HANDOFF | SESSIONS | SAVES).items():
            with self.subTest(code):
                self.assertEqual(CODES[code].status, status)

    def test_the_form_of_a_row(self) -> None:
        """Lower-case codes, a title without a full stop, a detail with one; 429, 503 and 507 say when to try again."""
        for code, row in CODES.items():
            with self.subTest(code):
                self.assertLessEqual(set(code), {*ascii_lowercase, "_"})
                self.assertRegex(row.title, r"^[A-Z][^.]*$")
                self.assertRegex(row.detail, r"^[A-Z].*\.$")
                self.assertEqual(row.retry_after is not None, row.status in (429, 503, 507), row)

    def test_titles_are_fixed(self) -> None:
        """Each code has one title."""
        for code, title in TITLES.items():
            self.assertEqual(plain_problem(code).title, title)

    def test_every_error_has_a_row(self) -> None:
        """The tables name codes that exist; `deleted` alone has two statuses, 410 to a reader and 412 to a writer."""
        for kind, (status, code) in ALL_ERRORS.items():
            with self.subTest(kind.__name__):
                self.assertIn(status, {CODES[code].status, *ALSO.get(code, ())})

    def test_nearest_class(self) -> None:
        """A row counts for its own class, whatever row a base class has; a subclass without a row has the nearest's."""
        for kind, row in ALL_ERRORS.items():
            self.assertEqual(answered(kind), row, kind)
            subclass = type("Special", (kind,), {})
            self.assertEqual(answered(subclass), row, kind)

    def test_conflicting_tables(self) -> None:
        """Two tables may share a row; different rows for one class are refused at start."""
        table = {DatabaseBusy: (503, "busy"), KeyError: (404, "save_not_found")}
        self.assertEqual(merge_tables([table, table]), HTTP_ERRORS | table)
        self.assertRaises(ValueError, merge_tables, [{DatabaseBusy: (503, "unhealthy")}])
        self.assertRaises(ValueError, merge_tables, [table, {KeyError: (400, "save_not_found")}])

    def test_every_error_of_the_web_has_a_row(self) -> None:
        """Every HttpError has a row; without one it would be a 500."""
        listed = HTTP_ERRORS.keys()
        self.assertEqual(
            [
                kind
                for kind in HttpError.__subclasses__()
                if kind.__module__ == "gamed.http.errors" and kind not in listed
            ],
            [],
        )


@covers("7/9")
class BodyTests(SynchronousTestCase):
    def body(self, error: Exception) -> dict[str, object]:
        problem = problem_of(error)
        assert problem is not None
        return loads(problem.to_json("req"))

    def test_members(self) -> None:
        """RFC 9457 with code and request id; no retry_after where there is none."""
        body = self.body(BadRequest("Send one Host field."))
        self.assertEqual(
            body,
            {
                "type": "urn:gamed:problem:bad_request",
                "title": "Bad request",
                "status": 400,
                "code": "bad_request",
                "detail": "Send one Host field.",
                "request_id": "req",
            },
        )

    def test_retry_after(self) -> None:
        """retry_after is the error's, else the code's, in the body and in Retry-After."""
        problem = problem_of(DatabaseBusy())
        assert problem is not None
        self.assertEqual((problem.headers["Retry-After"], self.body(DatabaseBusy())["retry_after"]), ("1", 1))
        error = DatabaseBusy("Wait.")
        error.retry_after = 12  # type: ignore[attr-defined]
        self.assertEqual(self.body(error)["retry_after"], 12)

    def test_extra_members_replace_nothing(self) -> None:
        """An error adds members, but does not replace the fixed ones."""
        body = self.body(BadRequest("No.", members={"limit": 5, "status": 200, "code": "fine"}))
        self.assertEqual((body["limit"], body["status"], body["code"]), (5, 400, "bad_request"))

    def test_errors_of_a_body(self) -> None:
        """InvalidRequest lists pointers and details; the first one is also the detail."""
        body = self.body(InvalidRequest([("/a", "is missing"), ("/b", "is odd")]))
        self.assertEqual(
            body["errors"], [{"pointer": "/a", "detail": "is missing"}, {"pointer": "/b", "detail": "is odd"}]
        )
        self.assertEqual(body["detail"], "/a: is missing")

    def test_stores(self) -> None:
        """Database errors have codes; the text of a damaged database is not shown."""
        self.assertEqual(self.body(DiskFull("/var/lib: no space"))["code"], "storage_full")
        self.assertEqual(self.body(DatabaseUnavailable())["code"], "store_unavailable")
        self.assertNotIn("page 7", str(self.body(DatabaseCorrupt("page 7"))))

    def test_werkzeug(self) -> None:
        """Klein's errors have rows; an error without a row is unexpected."""
        self.assertEqual(self.body(NotFound("<p>Not found"))["detail"], CODES["route_not_found"].detail)
        self.assertIsNone(problem_of(BadGateway()))

    def test_allow(self) -> None:
        """A 405 lists the methods."""
        problem = problem_of(MethodNotAllowed(["PUT", "GET"]))
        assert problem is not None
        self.assertEqual(problem.headers["Allow"], "GET, PUT")


class CrashTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.browser = Browser([EchoRoutes()], crashes=True)

    def test_an_unexpected_error(self) -> None:
        """A crash is 500 with the request id, without the handler's fields and the error's text."""
        answer = self.browser.request("POST", "/echo/crash", {"Authorization": f"Bearer {SECRET}"})
        self.assertEqual((answer.status, answer.code), (500, "internal_error"))
        self.assertEqual(answer.json["request_id"], answer.headers["x-request-id"])
        self.assertNotIn("etag", answer.headers)
        self.assertEqual(answer.cookies, [])
        self.assertNotIn(b"cannot use", answer.body)

    @covers("threats/48")
    def test_the_log_tells_where_and_no_secret(self) -> None:
        """The log has request id, route, module, line and type; credentials are redacted."""
        answer = self.browser.get("/echo/crash?state=abc")
        [event] = [event for event in self.browser.events if "unexpected" in event]
        self.assertIn(answer.headers["x-request-id"], event)
        self.assertIn("/echo/crash", event)
        self.assertRegex(event, r"tests\.http\.apps:\d+ in echo_crash")
        self.assertIn("ValueError: cannot use [...]", event)
        self.assertNotIn(SECRET[4:12], "".join(self.browser.events))
        self.assertNotIn("state", "".join(self.browser.events))

    def test_a_result_that_is_no_body(self) -> None:
        """A handler that returns another type is a 500."""
        self.assertEqual(self.browser.get("/echo/not-bytes").code, "internal_error")

    def test_a_head_that_cannot_be_written(self) -> None:
        """A response that cannot be encoded is replaced by a 500."""
        for path in ("/echo/unspeakable", "/echo/unmeasured"):
            with self.subTest(path):
                answer = self.browser.get(path)
                self.assertEqual(answer.code, "internal_error")
                self.assertEqual(self.browser.log.lines[-1]["size"], len(answer.body))

    def test_the_connection_goes_on(self) -> None:
        """The connection continues after a crash."""
        connection = self.browser.connect()
        connection.send(b"GET /echo/crash HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2)
        self.assertEqual([answer.status for answer in connection.answers], [500, 500])
        self.assertFalse(connection.closing)

    def test_a_broken_stream(self) -> None:
        """A response that fails in its middle is aborted and logged."""
        connection = self.browser.connect()
        self.browser.watched(lambda: connection.send(b"GET /echo/broken-stream HTTP/1.1\r\nHost: localhost\r\n\r\n"))
        self.assertTrue(connection.transport.disconnected)
        self.assertIn("ValueError: the disk is gone", "".join(self.browser.events))

    def test_a_stream_of_another_length(self) -> None:
        """A response that is shorter or longer than its Content-Length is aborted, so that no byte is misread."""
        for length, sent in ((5, b"abc"), (7, b"abcdef")):
            browser = Browser([EchoRoutes()], crashes=True)
            connection = browser.connect()
            request = b"GET /echo/measured/%d HTTP/1.1\r\nHost: localhost\r\n\r\n" % length
            browser.watched(lambda: connection.send(request * 2))  # noqa: B023
            self.assertTrue(connection.transport.disconnected, length)
            self.assertEqual(connection.raw.partition(b"\r\n\r\n")[2], sent)
            self.assertIn("its Content-Length", "".join(browser.events))

    def test_more_than_the_content_length_at_once(self) -> None:
        """A first piece that is already too long is answered with 500; nothing of it is sent."""
        self.assertEqual(self.browser.get("/echo/measured/2").code, "internal_error")

    def test_a_stream_of_the_right_length(self) -> None:
        """The connection stays open, also after HEAD, which has no content."""
        for method, sent in ((b"GET", b"abcdef"), (b"HEAD", b"")):
            connection = self.browser.connect()
            connection.send(b"%b /echo/measured/6 HTTP/1.1\r\nHost: localhost\r\n\r\n" % method)
            self.assertEqual(connection.raw.partition(b"\r\n\r\n")[2], sent)
            self.assertFalse(connection.closing)

    def test_typed_errors_are_not_logged(self) -> None:
        """Expected errors are not logged."""
        self.assertEqual(self.browser.get("/echo/typed").code, "busy")
        self.assertEqual(self.browser.events, [])


class TraceTests(SynchronousTestCase):
    def test_causes(self) -> None:
        """The innermost cause is logged first."""
        try:
            try:
                raise KeyError("inner")
            except KeyError as e:
                raise ValueError("outer") from e
        except ValueError as e:
            text = redacted_traceback(e)
        self.assertLess(text.index("KeyError: 'inner'"), text.index("ValueError: outer"))

    def test_words(self) -> None:
        """A message is one short line with credentials redacted."""
        self.assertEqual(redact("bad\r\n" + SECRET), "bad  [...]")
        self.assertLessEqual(len(redact("a b " * 200)), 200)

    @covers("threats/48")
    def test_a_message_is_one_line(self) -> None:
        """No line end or control character of a message is logged."""
        message = "a\u2028[gamed.security] erased\x85b\x1b[2Kc\u202ed"
        self.assertEqual(
            redacted_traceback(ValueError(message)).splitlines(), ["  ValueError: a [gamed.security] erased b [2Kc d"]
        )

    def test_an_error_that_cannot_be_shown(self) -> None:
        """An error whose text cannot be shown is logged without it."""

        class Shy(Exception):
            def __str__(self) -> str:
                raise TypeError

        self.assertIn("Shy: (not shown)", redacted_traceback(Shy()))
