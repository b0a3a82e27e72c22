"""Malformed requests get a problem, never a 5xx or a traceback, and store nothing."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.saves.helpers import SaveCase

NAMES = [
    "If-Match",
    "If-None-Match",
    "If-Modified-Since",
    "If-Unmodified-Since",
    "If-Range",
    "Range",
    "Content-Type",
    "Content-Digest",
    "Content-Encoding",
    "Content-Range",
    "Save-Meta",
    "Prefer",
    "Expect",
]
WORDS = ["*", '"1-2cf24dba5fb0a30e"', 'W/"x"', "bytes=0-1", "bytes=", "sha-256=:", "{}", '{"a":1}', "a/b"]
WORDS += [",", '"', ";", "\xff", " "]
PATHS = [
    "",
    "saves",
    "saves/auto",
    "saves/auto/versions",
    "saves?since=",
    "saves?since=0.0",
    "saves/%ff",
    "saves/%2e%2e",
    "export",
]
PATHS += ["saves/auto%00", "saves/" + "a" * 300]
texts = st.lists(st.sampled_from(WORDS), max_size=4).map("".join) | st.text(
    st.characters(min_codepoint=0x20, max_codepoint=0xFF, exclude_characters="\x7f\x80"), max_size=12
)


class NonsenseTest(SaveCase):
    """All examples share the databases; the few saves that they store keep the counters right."""

    @given(
        st.sampled_from(["GET", "HEAD", "PUT", "DELETE", "POST", "BREW"]),
        st.sampled_from(PATHS),
        st.lists(st.tuples(st.sampled_from(NAMES), texts), max_size=4),
        st.sampled_from([b"", b"\0\0", b"hello"]),
    )
    @settings(suppress_health_check=[HealthCheck.differing_executors])  # test_one_trip runs it in two more classes
    def test_any_head(self, method: str, path: str, fields: list[tuple[str, str]], body: bytes) -> None:
        """Any header fields get a response of the protocol, and only a valid PUT stores a save."""
        before = len(self.version_rows())
        lines = [
            f"{method} /game/{path} HTTP/1.1",
            "Host: game.example",
            f"Authorization: {self.bearer['Authorization']}",
        ]
        lines += [f"{name}: {text}" for name, text in fields]
        lines += [f"Content-Length: {len(body)}", "", ""]
        connection = self.browser.connect()
        connection.head_only = method == "HEAD"
        self.browser.watched(lambda: connection.send("\r\n".join(lines).encode("latin-1") + body))
        answer = connection.answer
        connection.leave()
        self.assertLess(answer.status, 500)
        if answer.status >= 400 and method != "HEAD":
            self.assertTrue(answer.code)
            self.assertNotIn("Traceback", answer.json["detail"])
        if (method, path, answer.status) == ("DELETE", "", 204):
            self.assertEqual(self.version_rows(), [])
        elif not (method in ("PUT", "DELETE") and path == "saves/auto" and answer.status in (200, 201, 204, 412)):
            self.assertEqual(len(self.version_rows()), before)
        self.assert_counts_agree()

    def test_syntax_is_checked_first(self) -> None:
        """A malformed request without a token is 400 on every route that reads conditions, names or bodies."""
        tag, digest = {"If-None-Match": "abc"}, "0" * 64
        cases = [
            ("GET", "export", tag, "bad_precondition"),
            ("HEAD", "export", tag, ""),
            ("GET", "saves", tag, "bad_precondition"),
            ("GET", "saves?since=%ff", {}, "bad_request"),
            ("GET", "saves/auto", tag, "bad_precondition"),
            ("GET", "saves/auto/versions/1", tag, "bad_precondition"),
            ("GET", "saves/.auto/versions", {}, "invalid_slot"),
            ("PUT", "saves/auto", {"If-Match": "abc"}, "bad_precondition"),
            ("DELETE", "saves/auto", {"If-Match": "abc"}, "bad_precondition"),
            ("DELETE", "saves/.auto/versions/1", {}, "invalid_slot"),
            ("POST", "saves/auto/versions/1/restore", {"If-Match": "abc"}, "bad_precondition"),
            ("PUT", "blobs/0", {}, "bad_request"),
            ("HEAD", "blobs/0", {}, ""),
            ("PUT", f"blobs/{digest}", {"Content-Range": "bytes 0-1/2"}, "bad_range_put"),
            ("DELETE", "", {"If-Match": "abc"}, "bad_precondition"),
        ]
        for method, path, fields, code in cases:
            answer = self.browser.request(method, f"/game/{path}", fields, b"hi" if method == "PUT" else b"")
            self.assertEqual((answer.status, method == "HEAD" or answer.code), (400, method == "HEAD" or code), path)

    def test_odd_tokens(self) -> None:
        """A token of any bytes is refused as what it is."""
        for token in (b"\xff", b"gat_\xff", b"gat_" + b"A" * 49, b"\xc3\xa4" * 30):
            raw = b"GET /game/ HTTP/1.1\r\nHost: game.example\r\nAuthorization: Bearer " + token + b"\r\n\r\n"
            connection = self.browser.connect()
            self.browser.watched(lambda raw=raw, connection=connection: connection.send(raw))
            self.assertEqual((connection.answer.status, connection.answer.code), (401, "token_invalid"))
