"""These tests send a game's requests: members, statuses, codes (docs/protocol.md: Start, Collect)."""

from re import search

from msgspec.structs import replace

from gamed.login.policy import NO_LIMITS
from tests.login.browser_fixtures import BASE, BrowserCase
from tests.support.covers import covers


class Starting(BrowserCase):
    def test_the_members(self) -> None:
        """The response has exactly the members of the protocol, with this server's instants and URLs.

        See docs/protocol.md: Start.
        """
        self.serve()
        game = self.game(client={"name": "MyGame", "version": "1.4.2"}, loopback_port=51004)
        self.assertEqual(game.answer.status, 201)
        login = game.login
        token = login["login_url"].removeprefix(f"{BASE}/auth/login/")
        self.assertRegex(token, r"\A[A-Za-z0-9_-]{22}\Z")
        self.assertRegex(login["login_id"], r"\Algn_[A-Za-z0-9_-]{22}\Z")
        self.assertRegex(login["device_secret"], r"\Agds_[A-Za-z0-9_-]{49}\Z")
        expected = {
            "login_id": login["login_id"],
            "device_secret": login["device_secret"],
            "login_url": login["login_url"],
            "qr_url": f"{login['login_url']}/qr.png",
            "return_proof": "loopback_or_code",
            "expires_in": 600,
            "expires_at": "2027-01-15T08:10:00.000Z",
            "poll": {"url": f"{BASE}/auth/login/collect", "max_wait": 25, "min_interval": 1},
        }
        self.assertEqual(login, expected)
        self.assertEqual(game.answer.headers["cache-control"], "no-store")
        self.assertEqual(game.answer.headers["gamed-protocol"], "1.0")

    def test_nothing_is_required(self) -> None:
        """An empty object, an absent body, and unknown members start a login, too."""
        self.serve()
        self.assertEqual(self.game().answer.status, 201)
        self.assertEqual(self.site.request("POST", "/auth/login").status, 201)
        answer = self.game(client={"name": "x", "colour": "red"}, novelty=[1]).answer
        self.assertEqual((answer.status, answer.json["return_proof"]), (201, "code"))

    @covers("threats/32")
    def test_other_pages(self) -> None:
        """A start that a page of another site sends without a preflight is refused, and counts against no limit."""
        self.serve(limits=replace(NO_LIMITS, starts_per_minute=2), web_origins=("https://play.example",))
        for origin in ("https://evil.example", "null", "https://game.example.evil.example", "http://game.example:81"):
            for sent in ({}, {"Content-Type": "text/plain"}):
                answer = self.site.request("POST", "/auth/login", {"Origin": origin, **sent})
                self.assertEqual((answer.status, answer.code), (415, "unsupported_media_type"))
        for table in ("login", "limit_bucket"):
            self.assertEqual(self.server.rows(f"SELECT * FROM {table}"), [])
        for origin in ("https://play.example", BASE):
            self.assertEqual(self.site.request("POST", "/auth/login", {"Origin": origin}).status, 201)
        self.server.clock.advance(60)
        json = {"Origin": "https://evil.example", "Content-Type": "application/json; charset=utf-8"}
        self.assertEqual(self.site.request("POST", "/auth/login", json, b"{}").status, 201)  # a browser asks before

    def test_what_is_refused(self) -> None:
        """Each invalid member has its code and pointer."""
        self.serve()
        for body, code, pointer in (
            ({"provider": "discord"}, "provider_unknown", None),
            ({"intent": "link"}, "invalid_request", "/intent"),
            ({"intent": "steal"}, "invalid_request", "/intent"),
            ({"loopback_port": 80}, "invalid_request", "/loopback_port"),
            ({"loopback_port": 65536}, "invalid_request", "/loopback_port"),
            ({"loopback_port": "51004"}, "invalid_request", "/loopback_port"),
            ({"loopback_port": True}, "invalid_request", "/loopback_port"),
            ({"client": {"name": "x" * 65}}, "invalid_request", "/client/name"),
            ({"client": {"device_name": 5}}, "invalid_request", "/client/device_name"),
            ({"client": []}, "invalid_request", "/client"),
        ):
            answer = self.game(**body).answer
            self.assertEqual((answer.status, answer.code), (400, code), body)
            if pointer is not None:
                self.assertEqual([error["pointer"] for error in answer.json["errors"]], [pointer])
        self.assertEqual(self.server.rows("SELECT 1 FROM login"), [])

    def test_refused_ones_count(self) -> None:
        """A start with an invalid body counts against `starts_per_minute`; then 429 precedes the body's error."""
        self.serve(limits=replace(NO_LIMITS, starts_per_minute=3))
        bad = ({"loopback_port": 80}, {"client": {"name": "x" * 65}})
        self.assertEqual([self.game(**body).answer.status for body in bad], [400, 400])
        self.assertEqual(
            self.site.request("POST", "/auth/login", {"Content-Type": "application/json"}, b"{").status, 400
        )
        before = self.server.rows("SELECT * FROM limit_bucket")
        for body in ({}, *bad):
            answer = self.game(**body).answer
            self.assertEqual((answer.status, answer.code, answer.headers["retry-after"]), (429, "rate_limited", "20"))
        self.assertEqual(self.server.rows("SELECT * FROM limit_bucket"), before)


class Collecting(BrowserCase):
    def test_from_start_to_credentials(self) -> None:
        """The game receives 202 for each stage, then 200 with exactly the members of the protocol.

        See docs/protocol.md: Collect.
        """
        self.serve()
        game, browser = self.game(), self.new_browser()
        answer = game.collect()
        self.assertEqual(answer.status, 202)
        self.assertEqual(answer.json, {"status": "pending", "stage": "waiting_for_browser", "expires_in": 600})
        done = browser.get(browser.create(game.url, "Bert").headers["location"])
        self.assertEqual(game.collect(wait=25, seen="waiting_for_browser").json["stage"], "proof_required")
        answer = game.collect(finish_code=_code(done.text).lower())
        self.assertEqual(answer.status, 200)
        members = answer.json
        self.assertRegex(members["access_token"], r"\Agat_[A-Za-z0-9_-]{49}\Z")
        self.assertRegex(members["refresh_credential"], r"\Agrc_[A-Za-z0-9_-]{49}\Z")
        self.assertRegex(members["session_id"], r"\Ases_")
        self.assertRegex(members["player"]["id"], r"\Aply_")
        fixed = {
            "status": "complete",
            "token_type": "Bearer",
            "access_token": members["access_token"],
            "expires_in": 900,
            "refresh_credential": members["refresh_credential"],
            "refresh_expires_in": 2592000,
            "session_id": members["session_id"],
            "provider": "local",
            "player": {"id": members["player"]["id"], "created": True, "owner": False, "name": "Bert"},
        }
        self.assertEqual(members, fixed)
        self.server.clock.advance(10)
        self.assertEqual(game.collect().json, {**fixed, "expires_in": 890, "refresh_expires_in": 2591990})

    def test_a_long_poll_over_http(self) -> None:
        """A long poll ends when the browser is done; a newer collect and the service's end answer it with 202."""
        self.serve()
        game, browser = self.game(), self.new_browser()
        waiting = game.wait(wait=25)
        self.assertEqual(waiting.answers, [])
        browser.sign_in(game.url)
        self.assertEqual(waiting.answer.json["stage"], "proof_required")
        older = game.wait(wait=25, seen="proof_required")
        newer = game.wait(wait=25, seen="proof_required")
        self.assertEqual((older.answer.status, newer.answers), (202, []))
        self.server.waiters.close()
        self.assertEqual(newer.answer.status, 202)

    def test_a_client_that_leaves(self) -> None:
        """A client that disconnects leaves no waiter and no log line."""
        self.serve()
        game = self.game()
        waiting = game.wait(wait=25)
        self.site.watched(waiting.leave)
        self.assertEqual((len(self.server.waiters), self.site.events), (0, []))

    def test_wrong_codes(self) -> None:
        """A wrong code is 400 with the tries left; the fifth ends the login for every later collect."""
        self.serve()
        game = self.game()
        self.new_browser().sign_in(game.url)
        for left in (4, 3, 2, 1, 0):
            answer = game.collect(finish_code="BBB-BBB")
            self.assertEqual((answer.status, answer.code, answer.json["attempts_left"]), (400, "invalid_proof", left))
        answer = game.collect()
        problem = answer.json.pop("problem")
        self.assertEqual((answer.status, answer.json["status"]), (200, "failed"))
        self.assertEqual(problem["code"], "proof_attempts_exceeded")
        self.assertEqual(problem["type"], "urn:gamed:problem:proof_attempts_exceeded")
        self.assertTrue(problem["title"] and problem["detail"])

    def test_every_end_is_typed(self) -> None:
        """Declined, expired and cancelled logins are 200 `failed` with the problem's code."""
        self.serve()
        declined, cancelled, expired = self.game(), self.game(), self.game()
        browser = self.new_browser()
        browser.post(browser.get(declined.url).form("/decline"))
        cancelled.cancel()
        self.assertEqual(declined.collect().json["problem"]["code"], "login_denied")
        self.assertEqual(cancelled.collect().json["problem"]["code"], "login_cancelled")
        self.server.clock.advance(600)
        self.assertEqual(expired.collect().json["problem"]["code"], "login_expired")

    def test_bad_bodies(self) -> None:
        """Each wrong member is named, and nothing changes."""
        self.serve()
        game = self.game()
        for body, pointer in (
            ({"wait": 26}, "/wait"),
            ({"wait": -1}, "/wait"),
            ({"wait": "5"}, "/wait"),
            ({"seen": 1}, "/seen"),
            ({"ticket": "x" * 257}, "/ticket"),
            ({"finish_code": ["B"]}, "/finish_code"),
            ({"ticket": "x", "finish_code": "BKT-RVW"}, "/finish_code"),
        ):
            answer = game.collect(**body)
            self.assertEqual((answer.status, answer.code), (400, "invalid_request"), body)
            self.assertEqual([error["pointer"] for error in answer.json["errors"]], [pointer])

    def test_arrivals(self) -> None:
        """After five collects there is a 429 with Retry-After, and the login continues."""
        self.serve()
        game = self.game()
        statuses = [game.collect().status for _ in range(6)]
        self.assertEqual(statuses, [202] * 5 + [429])
        answer = game.collect()
        self.assertEqual((answer.code, answer.headers["retry-after"]), ("rate_limited", "1"))
        self.server.clock.advance(5)
        self.assertEqual(game.collect().status, 202)


class Secrets(BrowserCase):
    def test_no_or_wrong_secret(self) -> None:
        """Both routes are 401 without a secret; invalid_token needs a sent credential; URL and cookie carry none."""
        self.serve()
        game = self.game()
        secret = game.login["device_secret"]
        for path in ("/auth/login/collect", "/auth/login/cancel"):
            for headers, invalid in (
                ({}, False),
                ({"Cookie": f"device_secret={secret}"}, False),
                ({"Authorization": f"Bearer {secret[:-1]}x"}, True),
                ({"Authorization": "Bearer gds_" + "A" * 49}, True),
                ({"Authorization": f"Bearer {secret.replace('gds_', 'gat_')}"}, True),
                ({"Authorization": f"Basic {secret}"}, True),
            ):
                answer = self.site.post_json(path, {}, headers)
                self.assertEqual((answer.status, answer.code), (401, "device_secret_invalid"), headers)
                self.assertEqual("invalid_token" in answer.headers["www-authenticate"], invalid, headers)
        self.assertEqual(self.site.post_json(f"/auth/login/collect?device_secret={secret}", {}).status, 401)

    def test_the_secret_is_asked_before_the_body(self) -> None:
        """Without a secret a client learns nothing about its body."""
        self.serve()
        self.assertEqual(self.site.post_json("/auth/login/collect", {"wait": 99}).status, 401)

    @covers("threats/48")
    def test_nothing_secret_in_logs(self) -> None:
        """A complete sign-in, rejected forms and wrong codes log no secret, token or password."""
        self.serve()
        game, browser = self.game(loopback_port=51004), self.new_browser()
        browser.sign_in(game.url, password="wrong horse")
        done = browser.get(browser.sign_in(game.url).headers["location"])
        game.collect(finish_code="BBB-BBB")
        ticket = done.links[0].rpartition("=")[2]
        answer = game.collect(ticket=ticket).json
        seen = repr(self.site.log.lines) + repr(self.site.events)
        token = game.url.rpartition("/")[2]
        for secret in (
            game.login["device_secret"],
            token,
            ticket,
            answer["access_token"],
            answer["refresh_credential"],
            browser.cookie,
            "horse",
            game.login["login_id"],
        ):
            self.assertNotIn(str(secret), seen)
        self.assertIn("/auth/login/{token}/local", seen)


class Cancelling(BrowserCase):
    def test_cancel(self) -> None:
        """Cancel is 204 without a body, repeatedly; after the first use of the credentials it is 410."""
        self.serve()
        game = self.game()
        for _ in range(2):
            answer = game.cancel()
            self.assertEqual((answer.status, answer.body), (204, b""))

    def test_cancel_takes_a_body(self) -> None:
        """Cancel accepts an empty object."""
        self.serve()
        game = self.game()
        self.assertEqual(self.site.post_json("/auth/login/cancel", {}, game.bearer).status, 204)

    def test_collected(self) -> None:
        """Cancel and collect are 410 login_collected after the first use, or after ten minutes."""
        self.serve()
        game, browser = self.game(), self.new_browser()
        done = browser.get(browser.sign_in(game.url).headers["location"])
        self.assertEqual(game.collect(finish_code=_code(done.text)).status, 200)
        self.server.clock.advance(600)
        for answer in (game.cancel(), game.collect()):
            self.assertEqual((answer.status, answer.code), (410, "login_collected"))


class Routes(BrowserCase):
    def test_methods(self) -> None:
        """The game's three routes accept only POST."""
        self.serve()
        for path in ("/auth/login", "/auth/login/collect", "/auth/login/cancel"):
            for method in ("GET", "HEAD", "PUT", "DELETE", "TRACE"):
                answer = self.site.request(method, path)
                self.assertEqual((answer.status, "POST" in answer.headers["allow"]), (405, True), (method, path))


def _code(text: str) -> str:
    match = search(r"\b[B-Z]{3}-[B-Z]{3}\b", text)
    assert match is not None, text
    return match[0]
