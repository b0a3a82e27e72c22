"""Each code of the protocol, provoked over HTTP; its `detail` says what to send instead, or what will happen.

See docs/protocol.md: Errors.
"""

from collections.abc import Callable

from gamed.config.game import SaveLimits
from gamed.database.errors import DatabaseUnavailable
from tests.saves.helpers import ABSENT, SaveCase, tag
from tests.support.http import Answer

ONE = b"one"
HEAD = {"If-Match": tag(1, ONE)}
WRONG = {"If-Match": '"7-0000000000000000"'}
Ask = Callable[["EveryCodeTest"], Answer]


def put(headers: dict[str, str] | None = None, body: bytes = b"x", slot: str = "auto") -> Ask:
    return lambda test: test.put(slot, body, headers)


def other(method: str, path: str, headers: dict[str, str] | None = None) -> Ask:
    return lambda test: test.ask(method, f"/game/{path}", headers)


def after(step: Callable[["EveryCodeTest"], object], ask: Ask) -> Ask:
    def both(test: "EveryCodeTest") -> Answer:
        step(test)
        return ask(test)

    return both


CODES: dict[tuple[int, str], tuple[Ask, str]] = {
    (401, "token_missing"): (
        after(lambda test: test.as_bearer("Basic nobody:nothing"), put()),
        "Authorization: Bearer",
    ),
    (401, "token_invalid"): (after(lambda test: test.as_bearer("Bearer gat_nonsense"), put()), "Sign in again"),
    (401, "token_expired"): (after(lambda test: test.pass_ms(3600_000), put()), "Refresh"),
    (401, "session_revoked"): (after(lambda test: test.sql("UPDATE session SET revoked_ms = 1"), put()), "Sign in"),
    (403, "player_blocked"): (after(lambda test: test.sql("UPDATE player SET state = 'blocked'"), put()), "owner"),
    (410, "erased"): (after(lambda test: test.erase(), put(HEAD)), "Read the list"),
    (429, "rate_limited"): (after(lambda test: test.hurry(), put(HEAD)), "Try again in"),
    (400, "invalid_slot"): (put(slot="NUL"), "such as auto"),
    (400, "digest_mismatch"): (put({"Content-Digest": "sha-256=:YQ==:"}), "Content-Digest: sha-256=:"),
    (400, "bad_meta"): (put({"Save-Meta": "title"}), "one line of ASCII with a JSON object"),
    (415, "content_encoding"): (put({"Content-Encoding": "gzip"}), "without Content-Encoding"),
    (400, "bad_range_put"): (put({"Content-Range": "bytes 0-0/5"}), "without Content-Range"),
    (400, "bad_precondition"): (put({"If-Match": "1-abc"}), "with its double quotes"),
    (411, "length_required"): (lambda test: test.without_length(), "Content-Length, or send it chunked"),
    (428, "precondition_required"): (put(), tag(1, ONE)),
    (412, "superseded"): (after(lambda test: test.put_twice(), put(HEAD, b"second")), "Take the current version"),
    (412, "version_conflict"): (put(WRONG), "write again with its etag in If-Match"),
    (412, "deleted"): (after(lambda test: test.delete("auto", HEAD), put(HEAD)), "send If-None-Match: *"),
    (412, "weak_validator"): (put({"If-Match": f"W/{tag(1, ONE)}"}), "without W/"),
    (422, "blank_save"): (put(HEAD, bytes(15)), "to remove it, DELETE it"),
    (500, "corrupt_blob"): (after(lambda test: test.damage("auto", 1), other("GET", "saves/auto")), "PUT them again"),
    (404, "save_not_found"): (other("GET", "saves/never"), "PUT makes a new one"),
    (410, "deleted"): (after(lambda test: test.delete("auto", HEAD), other("GET", "saves/auto")), "If-None-Match: *"),
    (404, "version_gone"): (other("GET", "saves/auto/versions/9"), "lists what is"),
    (409, "blob_missing"): (lambda test: test.commit_unstaged(), "PUT them to /game/blobs/"),
    (409, "version_protected"): (other("DELETE", "saves/auto/versions/1"), "only conflict copies"),
    (416, "range_not_satisfiable"): (other("GET", "saves/auto", {"Range": "bytes=9-"}), "the last one is number 2"),
    (413, "save_too_large"): (put(HEAD, b"x" * 21), "20 bytes at most"),
    (413, "quota_exceeded"): (put(HEAD, b"x" * 18), "delete one first"),
    (413, "too_many_slots"): (put(ABSENT, slot="third"), "delete one first"),
    (507, "storage_full"): (after(lambda test: setattr(test, "free", 0), put(HEAD)), "Its owner must make room"),
    (503, "store_unavailable"): (after(lambda test: test.lose_the_file(), put(HEAD)), "owner must repair"),
}
"""Status and code -> a request, and words of the advice. Slots `auto` and `other` are there, of 3 and 3 bytes."""


class EveryCodeTest(SaveCase):
    limits = SaveLimits(save_bytes=20, bytes=20, slots=2)

    def setUp(self) -> None:
        self.writes_per_minute = 0
        super().setUp()
        self.put("auto", ONE, ABSENT)
        self.put("other", b"two", ABSENT)

    def test_every_code(self) -> None:
        """Each is answered with its status, and with advice."""
        for (status, code), (ask, words) in CODES.items():
            self.setUp()
            answer = self.assert_problem(ask(self), status, code, words)
            self.assertEqual(answer.json["status"], status)
            if status in (429, 503, 507):
                self.assertEqual(int(answer.headers["retry-after"]), answer.json["retry_after"])
            if status == 413:
                self.assertEqual({"limit", "usage"} - set(answer.json), set())
            self.assertEqual("etag" in answer.headers, False)

    def as_bearer(self, value: str) -> None:
        self.bearer = {"Authorization": value}

    def pass_ms(self, ms: int) -> None:
        self.server.now_ms += ms

    def sql(self, statement: str) -> None:
        self.successResultOf(self.stores.auth.submit(lambda c: c.execute(statement).rowcount))

    def erase(self) -> None:
        self.in_state(lambda c: c.execute("UPDATE player_saves SET erasing = 1").rowcount)

    def hurry(self) -> None:
        self.writes_per_minute = 2
        self.browser = self.browser_for(self.limits)
        self.put("auto", b"x", HEAD)

    def without_length(self) -> Answer:
        head = f"PUT /game/saves/auto HTTP/1.1\r\nHost: game.example\r\nAuthorization: {self.bearer['Authorization']}"
        return self.browser.connect().send(f"{head}\r\n\r\n".encode()).answer

    def put_twice(self) -> None:
        self.put("auto", b"second", HEAD)
        self.put("auto", b"third", {"If-Match": tag(2, b"second")})

    def commit_unstaged(self) -> Answer:
        write = b'{"slot":"auto","if_match":"*","sha256":"%s"}' % (b"0" * 64)
        return self.ask("POST", "/game/commit", {"Content-Type": "application/json"}, b'{"writes":[%s]}' % write)

    def lose_the_file(self) -> None:
        self.stores._state.unavailable_as = DatabaseUnavailable
