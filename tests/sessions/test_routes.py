"""The routes of sessions answer as the protocol says (docs/protocol.md: Sessions)."""

from collections.abc import Mapping

from gamed.http.background import ShieldedTasks
from gamed.sessions.credentials import MAX_SESSIONS, PLAYER_REFRESHES
from gamed.sessions.routes import SessionRoutes
from gamed.timestamps import rfc3339
from tests.sessions.fixtures import ANNA, BERT, DAY_MS, NOW_MS, STRANGE_TOKEN, STRANGER
from tests.sessions.server import SessionServer, SessionTestCase, text
from tests.support.covers import covers
from tests.support.databases import memory_databases
from tests.support.http import Answer, Browser

REFRESH, LOGOUT, LIST = "/auth/session/refresh", "/auth/session/logout", "/auth/sessions"
CHALLENGE = 'Bearer realm="gamed"'
INVALID = CHALLENGE + ', error="invalid_token"'


class RouteTestCase(SessionTestCase):
    """A test client of the routes."""

    def setUp(self) -> None:
        super().setUp()
        self.detached = ShieldedTasks()
        self.browser = Browser(
            [SessionRoutes(sessions=self.sessions, detached=self.detached)], now_ms=lambda: self.server.now_ms
        )
        self.token = text(self.pair.access)
        self.credential = text(self.pair.refresh)

    def bearer(self, token: str) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {token}"}

    def refresh(self, credential: str) -> Answer:
        return self.browser.post_json(REFRESH, {"refresh_credential": credential})

    def list(self, token: str) -> Answer:
        return self.browser.get(LIST, self.bearer(token))

    def assert_problem(self, answer: Answer, status: int, code: str, challenge: str | None) -> None:
        self.assertEqual((answer.status, answer.code), (status, code))
        self.assertEqual(answer.headers.get("www-authenticate"), challenge)
        self.assertEqual(answer.headers["cache-control"], "no-store")


class RefreshTests(RouteTestCase):
    """POST /auth/session/refresh."""

    def test_answer(self) -> None:
        """The response is 200 with exactly the members of the protocol (docs/protocol.md: Sessions), and `no-store`."""
        answer = self.refresh(self.credential)
        self.assertEqual(answer.status, 200)
        self.assertEqual(answer.headers["content-type"], "application/json")
        self.assertEqual(answer.headers["cache-control"], "no-store")
        members = answer.json
        self.assertRegex(members.pop("access_token"), "^gat_[A-Za-z0-9_-]{49}$")
        self.assertRegex(members.pop("refresh_credential"), "^grc_[A-Za-z0-9_-]{49}$")
        self.assertEqual(
            members,
            {"token_type": "Bearer", "expires_in": 900, "refresh_expires_in": 2_592_000, "session_id": self.session_id},
        )

    def test_repeated(self) -> None:
        """A lost response is repeated, with the seconds that are left now."""
        first = self.refresh(self.credential).json
        self.server.now_ms += 60_000
        second = self.refresh(self.credential).json
        self.assertEqual(second, first | {"expires_in": 840, "refresh_expires_in": 2_591_940})

    def test_refusals(self) -> None:
        """Each rejected credential is answered 401 with its code and a challenge."""
        for credential in ("", "grc_", self.token, self.credential[:-1] + "!", text(STRANGER)):
            self.assert_problem(self.refresh(credential), 401, "refresh_invalid", INVALID)
        successor = self.refresh(self.credential).json["refresh_credential"]
        self.server.now_ms += 30 * DAY_MS
        self.assert_problem(self.refresh(successor), 401, "refresh_expired", INVALID)
        self.server.now_ms -= 30 * DAY_MS
        self.refresh(successor)
        self.assert_problem(self.refresh(self.credential), 401, "refresh_reused", INVALID)
        self.assert_problem(self.refresh(successor), 401, "session_revoked", CHALLENGE)

    def test_blocked(self) -> None:
        """A blocked player is answered 403 without a challenge: another credential would not help."""
        self.set_state("blocked")
        self.assert_problem(self.refresh(self.credential), 403, "player_blocked", None)
        self.assert_problem(self.list(self.token), 403, "player_blocked", None)

    def test_busy(self) -> None:
        """A busy database is answered 503 with Retry-After, and nothing changes."""
        self.fill()
        answer = self.refresh(self.credential)
        self.assert_problem(answer, 503, "busy", None)
        self.assertGreaterEqual(int(answer.headers["retry-after"]), 1)
        self.server.databases.auth.resume()
        self.assertEqual(self.refresh(self.credential).status, 200)
        self.assertEqual(self.used(), [(2, 0)])

    def test_too_often(self) -> None:
        """A session that refreshes too often gets 429 with Retry-After and does not rotate; other sessions do."""
        limited = SessionServer(memory_databases(self), refreshes_per_minute=3)
        browser = Browser(
            [SessionRoutes(sessions=limited.sessions, detached=self.detached)], now_ms=lambda: limited.now_ms
        )

        def refresh(credential: str) -> Answer:
            return browser.post_json(REFRESH, {"refresh_credential": credential})

        (_, pair), (_, other) = self.wait(limited.open()), self.wait(limited.open())
        credential = text(pair.refresh)
        for _ in range(3):
            credential = refresh(credential).json["refresh_credential"]
        before = self.wait(limited.rows("SELECT * FROM session"))
        answer = refresh(credential)
        self.assert_problem(answer, 429, "rate_limited", None)
        self.assertEqual(answer.headers["retry-after"], "20")
        self.assertEqual(self.wait(limited.rows("SELECT * FROM session")), before)
        self.assertEqual(refresh(text(other.refresh)).status, 200)
        limited.now_ms += 20_000
        self.assertEqual(refresh(credential).status, 200)
        self.assert_problem(refresh(text(pair.refresh)), 401, "refresh_reused", INVALID)

    def test_player_too_often(self) -> None:
        """The sessions of a player share a limit: one more refresh gets 429, ends nothing and works after the wait."""
        limited = SessionServer(memory_databases(self), refreshes_per_minute=60)
        browser = Browser(
            [SessionRoutes(sessions=limited.sessions, detached=self.detached)], now_ms=lambda: limited.now_ms
        )

        def refresh(credential: str) -> Answer:
            return browser.post_json(REFRESH, {"refresh_credential": credential})

        credentials = [text(self.wait(limited.open())[1].refresh) for _ in range(MAX_SESSIONS)]
        for _ in range(PLAYER_REFRESHES // MAX_SESSIONS):
            credentials = [refresh(credential).json["refresh_credential"] for credential in credentials]
        tables = "session", "credential"
        before = [self.wait(limited.rows(f"SELECT * FROM {table} ORDER BY 1, 2")) for table in tables]
        for _ in range(3):
            answer = refresh(credentials[0])
            self.assert_problem(answer, 429, "rate_limited", None)
            self.assertEqual(answer.headers["retry-after"], "6")
        after = [self.wait(limited.rows(f"SELECT * FROM {table} ORDER BY 1, 2")) for table in tables]
        self.assertEqual(after, before)
        self.assertEqual(refresh(text(self.wait(limited.open(BERT))[1].refresh)).status, 200)
        limited.now_ms += 6000
        self.assertEqual(refresh(credentials[0]).status, 200)
        self.assert_problem(refresh(credentials[1]), 429, "rate_limited", None)

    def test_bad_bodies(self) -> None:
        """Bad content is answered 400 with the member's name, other types 415, without a copy of the content."""
        for body in (b"", b"[]", b"{}", b'{"refresh_credential":7}', b'{"refresh_credential":null}', b"{" * 50):
            answer = self.browser.request("POST", REFRESH, {"Content-Type": "application/json"}, body)
            self.assert_problem(answer, 400, "invalid_request", None)
            self.assertTrue(answer.json["errors"])
        answer = self.browser.post_form(REFRESH, f"refresh_credential={self.credential}")
        self.assert_problem(answer, 415, "unsupported_media_type", None)
        self.assertEqual(self.used(), [(1, 0)])

    @covers("threats/32")
    def test_credential_elsewhere(self) -> None:
        """A credential in the URI or a header does not count."""
        self.browser.post_json(f"{REFRESH}?refresh_credential={self.credential}", {}, self.bearer(self.credential))
        self.assertEqual(self.used(), [(1, 0)])

    def test_client_leaves(self) -> None:
        """A client that disconnects does not cancel its refresh: the next request gets the same successor."""
        self.server.databases.auth.pause()
        body = b'{"refresh_credential":"%s"}' % self.credential.encode()
        call = self.browser.send("POST", REFRESH, {"Content-Type": "application/json"}, body)
        call.leave()
        finished = self.detached.drain()
        self.assertNoResult(finished)
        self.server.databases.auth.resume()
        self.successResultOf(finished)
        self.assertEqual(self.used(), [(2, 0)])

    def test_methods(self) -> None:
        """Other methods are answered 405 with Allow."""
        answer = self.browser.get(REFRESH)
        self.assert_problem(answer, 405, "method_not_allowed", None)
        self.assertIn("POST", answer.headers["allow"])


class LogoutTests(RouteTestCase):
    """POST /auth/session/logout."""

    def log_out(self, value: object | None = None, token: str | None = None) -> Answer:
        headers = {} if token is None else self.bearer(token)
        if value is None:
            return self.browser.request("POST", LOGOUT, headers)
        return self.browser.post_json(LOGOUT, value, headers)

    def assert_done(self, answer: Answer) -> None:
        self.assertEqual((answer.status, answer.body), (204, b""))

    def test_by_token(self) -> None:
        """A logout without content is answered 204, repeatedly; the session has ended."""
        for _ in range(2):
            self.assert_done(self.log_out(token=self.token))
        self.assert_problem(self.list(self.token), 401, "session_revoked", INVALID)
        self.assertEqual(self.server.revoked, [ANNA])

    def test_by_refresh_credential(self) -> None:
        """A refresh credential ends its session, alone or beside an expired token."""
        self.server.now_ms += DAY_MS
        self.assert_done(self.log_out({"refresh_credential": self.credential}, self.token))
        self.assert_problem(self.refresh(self.credential), 401, "session_revoked", CHALLENGE)
        self.assert_done(self.log_out({"refresh_credential": self.credential}))

    def test_anything_well_formed(self) -> None:
        """Unknown and expired credentials are answered 204, too."""
        self.assert_done(self.log_out({"refresh_credential": text(STRANGER)}, text(STRANGE_TOKEN)))
        self.assert_done(self.log_out({"scope": "this"}, text(STRANGE_TOKEN)))
        self.server.now_ms += 90 * DAY_MS
        self.assert_done(self.log_out({"refresh_credential": self.credential}, self.token))

    def test_malformed(self) -> None:
        """A missing or malformed credential or an unknown scope is an error, and no session ends."""
        self.assert_problem(self.log_out(), 401, "token_missing", CHALLENGE)
        self.assert_problem(self.log_out({"scope": "all"}), 401, "token_missing", CHALLENGE)
        self.assert_problem(self.log_out(token="gat_x"), 401, "token_invalid", INVALID)
        self.assert_problem(self.log_out({"refresh_credential": "grc_x"}), 401, "refresh_invalid", INVALID)
        self.assert_problem(self.log_out({"scope": "mine"}, self.token), 400, "invalid_request", None)
        self.assertEqual(self.list(self.token).status, 200)

    def test_an_empty_credential(self) -> None:
        """An empty Authorization field, or a scheme alone, is the same as none: the challenge names no error."""
        for value in ("", " ", "Bearer", "Bearer "):
            answer = self.browser.get(LIST, {"Authorization": value})
            self.assert_problem(answer, 401, "token_missing", CHALLENGE)

    def test_others(self) -> None:
        """The requesting session stays, the others end."""
        _, other = self.wait(self.server.open())
        self.assert_done(self.log_out({"scope": "others"}, self.token))
        self.assertEqual(self.list(self.token).status, 200)
        self.assert_problem(self.list(text(other.access)), 401, "session_revoked", INVALID)

    def test_all(self) -> None:
        """Every session of the player ends, none of another player's."""
        _, other = self.wait(self.server.open())
        _, berts = self.wait(self.server.open(BERT))
        self.assert_done(self.log_out({"scope": "all", "refresh_credential": text(other.refresh)}))
        for pair in (self.pair, other):
            self.assert_problem(self.list(text(pair.access)), 401, "session_revoked", INVALID)
        self.assertEqual(self.list(text(berts.access)).status, 200)

    def test_more_needs_a_live_credential(self) -> None:
        """An expired token ends no other session, and the response says why."""
        self.server.now_ms += DAY_MS
        _, other = self.wait(self.server.open())
        for scope in ("others", "all"):
            self.assert_problem(self.log_out({"scope": scope}, self.token), 401, "token_expired", INVALID)
        self.assertEqual(self.list(text(other.access)).status, 200)


class ListTests(RouteTestCase):
    """GET /auth/sessions, DELETE /auth/sessions/{session_id}."""

    def delete(self, session_id: str) -> Answer:
        return self.browser.request("DELETE", f"{LIST}/{session_id}", self.bearer(self.token))

    def test_list(self) -> None:
        """The list has exactly the members of the protocol, for the player's own sessions only.

        See docs/protocol.md: Sessions.
        """
        self.server.now_ms += 5
        other_id, _ = self.wait(self.server.open())
        self.wait(self.server.open(BERT))
        words = '{"name":"MyGame","device_name":"ANNA-PC"}'
        unit = f"UPDATE session SET client = '{words}' WHERE session_id = '{self.session_id}'"
        self.wait(self.server.databases.auth.submit(lambda connection: connection.execute(unit).close()))
        answer = self.list(self.token)
        self.assertEqual(answer.status, 200)
        common = {"provider": "local"}
        self.assertEqual(
            answer.json,
            {
                "sessions": [
                    common
                    | {
                        "session_id": other_id,
                        "current": False,
                        "created_at": rfc3339(NOW_MS + 5),
                        "last_used_at": rfc3339(NOW_MS + 5),
                        "expires_at": rfc3339(NOW_MS + 5 + 30 * DAY_MS),
                        "client": {},
                    },
                    common
                    | {
                        "session_id": self.session_id,
                        "current": True,
                        "created_at": rfc3339(NOW_MS),
                        "last_used_at": rfc3339(NOW_MS),
                        "expires_at": rfc3339(NOW_MS + 30 * DAY_MS),
                        "client": {"name": "MyGame", "device_name": "ANNA-PC"},
                    },
                ]
            },
        )

    def test_refusals(self) -> None:
        """A challenge has `error` if a credential was sent, as RFC 6750 3.1 requires."""
        self.assert_problem(self.browser.get(LIST), 401, "token_missing", CHALLENGE)
        for token in ("gat_x", self.credential, text(STRANGE_TOKEN)):
            self.assert_problem(self.list(token), 401, "token_invalid", INVALID)
        self.server.now_ms = self.pair.access_expires_ms
        self.assert_problem(self.list(self.token), 401, "token_expired", INVALID)
        self.revoke()
        self.assert_problem(self.list(self.token), 401, "session_revoked", INVALID)

    @covers("5/15", "threats/24")
    def test_token_elsewhere(self) -> None:
        """A token in the URI or a cookie does not count."""
        answer = self.browser.get(f"{LIST}?access_token={self.token}", {"Cookie": f"access_token={self.token}"})
        self.assert_problem(answer, 401, "token_missing", CHALLENGE)

    def test_end(self) -> None:
        """Ending a session is answered 204, repeatedly, also for the requesting session."""
        other_id, other = self.wait(self.server.open())
        for _ in range(2):
            self.assertEqual(self.delete(other_id).status, 204)
        self.assert_problem(self.list(text(other.access)), 401, "session_revoked", INVALID)
        self.assertEqual(self.delete(self.session_id).status, 204)
        self.assert_problem(self.delete(self.session_id), 401, "session_revoked", INVALID)

    @covers("threats/27")
    def test_other_players_session(self) -> None:
        """Another player's session and an unknown one get the same response, and no session ends."""
        bert_id, berts = self.wait(self.server.open(BERT))
        answers = []
        for session_id in (bert_id, "ses_" + "x" * 22, "session"):
            answer = self.delete(session_id)
            self.assert_problem(answer, 404, "session_not_found", None)
            answers.append({name: value for name, value in answer.json.items() if name != "request_id"})
        self.assertEqual(answers, [answers[0]] * len(answers))
        self.assertEqual(self.list(text(berts.access)).status, 200)

    def test_first_use_is_written(self) -> None:
        """Listing sessions marks the first use."""
        self.list(self.token)
        self.assertEqual(self.used(), [(1, 1)])

    @covers("threats/24")
    def test_nothing_logged(self) -> None:
        """No credential and no session id reaches a log."""
        self.list(self.token)
        self.delete(self.session_id)
        self.refresh(self.credential)
        lines = repr(self.browser.log.lines) + repr(self.browser.events)
        for word in (self.token, self.credential, self.session_id):
            self.assertNotIn(word[4:], lines)
        self.assertIn("/auth/sessions/", lines)
