"""Start, collect and cancel as a game sees them: members, statuses, codes (PROTOCOL 3.1, 3.5, 3.6)."""

from re import search

from msgspec.structs import replace

from gamed.login.policy import NO_LIMITS
from tests.login.browser_fixtures import BASE, WebCase
from tests.support.covers import covers


class Starting(WebCase):
    def test_the_members(self) -> None:
        """Exactly those of PROTOCOL 3.1, with the instants and URLs of this server."""
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
            "return_proof": "loopback_or_code",
            "expires_in": 600,
            "expires_at": "2027-01-15T08:10:00.000Z",
            "poll": {"url": f"{BASE}/auth/login/collect", "max_wait": 25, "min_interval": 1},
        }
        self.assertEqual(login, expected)
        self.assertEqual(game.answer.headers["cache-control"], "no-store")
        self.assertEqual(game.answer.headers["gamed-protocol"], "1.0")

    def test_nothing_is_required(self) -> None:
        """An empty object, no body at all, and members of a newer client start a login, too."""
        self.serve()
        self.assertEqual(self.game().answer.status, 201)
        self.assertEqual(self.site.request("POST", "/auth/login").status, 201)
        answer = self.game(client={"name": "x", "colour": "red"}, novelty=[1]).answer
        self.assertEqual((answer.status, answer.json["return_proof"]), (201, "code"))

    def test_what_is_refused(self) -> None:
        """Each with its code, and the member that is wrong."""
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
        self.assertEqual(self.desk.rows("SELECT 1 FROM login"), [])

    def test_refused_ones_count(self) -> None:
        """Count a start whose body is refused against `starts_per_minute`; then answer 429 before the body counts."""
        self.serve(limits=replace(NO_LIMITS, starts_per_minute=3))
        bad = ({"loopback_port": 80}, {"client": {"name": "x" * 65}})
        self.assertEqual([self.game(**body).answer.status for body in bad], [400, 400])
        self.assertEqual(
            self.site.request("POST", "/auth/login", {"Content-Type": "application/json"}, b"{").status, 400
        )
        before = self.desk.rows("SELECT * FROM limit_bucket")
        for body in ({}, *bad):
            answer = self.game(**body).answer
            self.assertEqual((answer.status, answer.code, answer.headers["retry-after"]), (429, "rate_limited", "20"))
        self.assertEqual(self.desk.rows("SELECT * FROM limit_bucket"), before)


class Collecting(WebCase):
    def test_from_start_to_credentials(self) -> None:
        """202 with each stage, then 200 with exactly the members of PROTOCOL 3.5."""
        self.serve()
        game, browser = self.game(), self.surfer()
        answer = game.collect()
        self.assertEqual(answer.status, 202)
        self.assertEqual(answer.json, {"status": "pending", "stage": "waiting_for_browser", "expires_in": 600})
        done = browser.get(browser.create(game.url, "Bert").headers["location"])
        self.assertEqual(game.collect(wait=25, seen="waiting_for_browser").json["stage"], "proof_required")
        answer = game.collect(finish_code=_code(done.text).lower())
        self.assertEqual(answer.status, 200)
        told = answer.json
        self.assertRegex(told["access_token"], r"\Agat_[A-Za-z0-9_-]{49}\Z")
        self.assertRegex(told["refresh_credential"], r"\Agrc_[A-Za-z0-9_-]{49}\Z")
        self.assertRegex(told["session_id"], r"\Ases_")
        self.assertRegex(told["player"]["id"], r"\Aply_")
        fixed = {
            "status": "complete",
            "token_type": "Bearer",
            "access_token": told["access_token"],
            "expires_in": 900,
            "refresh_credential": told["refresh_credential"],
            "refresh_expires_in": 2592000,
            "session_id": told["session_id"],
            "provider": "local",
            "player": {"id": told["player"]["id"], "created": True, "owner": False},
        }
        self.assertEqual(told, fixed)
        self.desk.clock.advance(10)
        self.assertEqual(game.collect().json, {**fixed, "expires_in": 890, "refresh_expires_in": 2591990})

    def test_a_long_poll_over_http(self) -> None:
        """Answered when the browser is done, and its 202 when a newer collect or the end of the service comes."""
        self.serve()
        game, browser = self.game(), self.surfer()
        waiting = game.wait(wait=25)
        self.assertEqual(waiting.answers, [])
        browser.sign_in(game.url)
        self.assertEqual(waiting.answer.json["stage"], "proof_required")
        older = game.wait(wait=25, seen="proof_required")
        newer = game.wait(wait=25, seen="proof_required")
        self.assertEqual((older.answer.status, newer.answers), (202, []))
        self.desk.waiters.close()
        self.assertEqual(newer.answer.status, 202)

    def test_a_client_that_leaves(self) -> None:
        """Nothing is left of its wait, and nothing is logged about it."""
        self.serve()
        game = self.game()
        waiting = game.wait(wait=25)
        self.site.watched(waiting.leave)
        self.assertEqual((len(self.desk.waiters), self.site.events), (0, []))

    def test_wrong_codes(self) -> None:
        """400 with the tries that are left; the fifth ends the login, and every later collect says so."""
        self.serve()
        game = self.game()
        self.surfer().sign_in(game.url)
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
        """Declined, expired, cancelled: 200, `failed`, and the problem's code."""
        self.serve()
        declined, cancelled, expired = self.game(), self.game(), self.game()
        browser = self.surfer()
        browser.post(browser.get(declined.url).form("/decline"))
        cancelled.cancel()
        self.assertEqual(declined.collect().json["problem"]["code"], "login_denied")
        self.assertEqual(cancelled.collect().json["problem"]["code"], "login_cancelled")
        self.desk.clock.advance(600)
        self.assertEqual(expired.collect().json["problem"]["code"], "login_expired")

    def test_bad_bodies(self) -> None:
        """Each wrong member is named; nothing changes."""
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
        """429 with Retry-After after five, and the login goes on."""
        self.serve()
        game = self.game()
        statuses = [game.collect().status for _ in range(6)]
        self.assertEqual(statuses, [202] * 5 + [429])
        answer = game.collect()
        self.assertEqual((answer.code, answer.headers["retry-after"]), ("rate_limited", "1"))
        self.desk.clock.advance(5)
        self.assertEqual(game.collect().status, 202)


class Secrets(WebCase):
    def test_no_or_wrong_secret(self) -> None:
        """401 for both routes; invalid_token only where a credential was sent; a URL or cookie carries none."""
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
        """Nobody without one learns how a body would be judged."""
        self.serve()
        self.assertEqual(self.site.post_json("/auth/login/collect", {"wait": 99}).status, 401)

    @covers("threats/48")
    def test_nothing_secret_in_logs(self) -> None:
        """A whole sign-in, refused forms and wrong codes: neither log nor events hold a secret, token or password."""
        self.serve()
        game, browser = self.game(loopback_port=51004), self.surfer()
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


class Cancelling(WebCase):
    def test_cancel(self) -> None:
        """204 without a body, as often as asked; after the credentials were used 410."""
        self.serve()
        game = self.game()
        for _ in range(2):
            answer = game.cancel()
            self.assertEqual((answer.status, answer.body), (204, b""))

    def test_cancel_takes_a_body(self) -> None:
        """An empty object does no harm."""
        self.serve()
        game = self.game()
        self.assertEqual(self.site.post_json("/auth/login/cancel", {}, game.bearer).status, 204)

    def test_collected(self) -> None:
        """410 login_collected for cancel and collect once the credentials were used or ten minutes have passed."""
        self.serve()
        game, browser = self.game(), self.surfer()
        done = browser.get(browser.sign_in(game.url).headers["location"])
        self.assertEqual(game.collect(finish_code=_code(done.text)).status, 200)
        self.desk.clock.advance(600)
        for answer in (game.cancel(), game.collect()):
            self.assertEqual((answer.status, answer.code), (410, "login_collected"))


class Routes(WebCase):
    def test_methods(self) -> None:
        """The game's three routes are POST and nothing else."""
        self.serve()
        for path in ("/auth/login", "/auth/login/collect", "/auth/login/cancel"):
            for method in ("GET", "HEAD", "PUT", "DELETE", "TRACE"):
                answer = self.site.request(method, path)
                self.assertEqual((answer.status, "POST" in answer.headers["allow"]), (405, True), (method, path))


def _code(text: str) -> str:
    match = search(r"\b[B-Z]{3}-[B-Z]{3}\b", text)
    assert match is not None, text
    return match[0]
