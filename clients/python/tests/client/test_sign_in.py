"""The sign-in at a correct and at a misbehaving server (docs/protocol.md: Signing in)."""

import os
import time

from clients.python.tests.client.cases import OFFER_SECONDS, PATIENCE_SECONDS, ClientCase, returned
from clients.python.tests.client.fake_server import CODE, LOST, TICKET, Reply, failed, problem
from tests.support.covers import covers
from tests.support.python_client import gamed_client as gc


class Return(ClientCase):
    """The browser returns to the listener on 127.0.0.1."""

    def test_ticket(self) -> None:
        """The ticket is collected at once, then the browser is redirected to the done page of the entered server."""
        answers = []
        browser = self.browser(self.signs_in, lambda: answers.append(self.comes_back()))
        player = self.player()
        kept = self.client.sign_in(player, open_browser=browser)
        self.assertEqual((kept.player_id, kept.access_token), ("ply_1", "gat_ses_1_1"))
        self.assertEqual(self.on_disk(), kept)
        self.browsers_done()
        self.assertEqual(self.fake.requests("/auth/login/collect")[-1].json["ticket"], TICKET)
        self.assertEqual(player.offered, 0)
        self.assertEqual(answers, [(303, f"{self.server}/auth/login/done?login_id=lgn_1")])

    def test_answered_after_collect(self) -> None:
        """The browser is redirected to the done page only after the collect was answered."""
        outcomes = []
        self.fake.watch = lambda request: time.sleep(0.3) if b"ticket" in request.body else None

        def comes_back() -> None:
            self.comes_back()
            outcomes.append(self.fake.outcome)

        self.client.sign_in(self.player(), open_browser=self.browser(self.signs_in, comes_back))
        self.browsers_done()
        self.assertEqual(outcomes, [self.fake.complete()])

    def test_start(self) -> None:
        """The start names the game, the device and the listener's port; the browser gets the login's URL."""
        opened, player = [], self.player()
        browser = self.browser(self.signs_in, self.comes_back)
        self.client.sign_in(player, open_browser=lambda url: [opened.append(url), browser(url)])
        body = self.fake.started
        self.assertEqual(body.keys() - {"locale"}, {"client", "loopback_port"})
        self.assertEqual(set(body["client"]), {"name", "version", "platform", "device_name"})
        self.assertGreaterEqual(body["loopback_port"], 1024)
        self.assertEqual(opened, player.urls)
        self.assertEqual(opened, [f"{self.server}/auth/login/AAAAAAAAAAAAAAAAAAAAAA"])

    def test_locale(self) -> None:
        """The start has the game's language as it is then, and none that names no language."""
        for locale, sent in (("pt_BR.UTF-8", "pt-BR"), ("C", None)):
            self.client.locale = locale
            self.client.sign_in(self.player(), open_browser=self.browser(self.signs_in, self.comes_back))
            self.assertEqual(self.fake.started.get("locale"), sent)

    @covers("threats/4")
    def test_foreign_return(self) -> None:
        """A return with another login, another host, or without a ticket or a login has no effect."""
        answers = []

        def foreign() -> None:
            answers.append(self.comes_back(login_id="lgn_2"))
            answers.append(self.comes_back(login_id=""))
            answers.append(self.comes_back(login_id="lgn_1&login_id=lgn_2"))
            answers.append(self.comes_back(ticket=""))
            answers.append(self.comes_back(ticket="%0d%0aSet-Cookie:x"))
            answers.append(self.comes_back(host="evil.example"))
            answers.append(returned(f"http://127.0.0.1:{self.fake.started['loopback_port']}/"))

        self.client.sign_in(self.player(), open_browser=self.browser(foreign, self.signs_in, self.comes_back))
        self.browsers_done()
        self.assertEqual(answers, [(404, None)] * 7)
        proofs = [seen.json for seen in self.fake.requests("/auth/login/collect") if "ticket" in seen.json]
        self.assertEqual([proof["ticket"] for proof in proofs], [TICKET])

    @covers("threats/4")
    def test_wrong_ticket(self) -> None:
        """A made-up ticket is answered, costs no attempt, and the right one still works."""
        answers = []
        wrong = lambda: answers.append(self.comes_back(ticket="made-up"))  # noqa: E731
        player = self.player()
        self.client.sign_in(player, open_browser=self.browser(self.signs_in, wrong, self.comes_back))
        self.browsers_done()
        self.assertEqual(answers[0][0], 303)
        self.assertEqual(player.offered, 0)

    def test_listener_ends(self) -> None:
        """The listener ends with the sign-in."""
        self.client.sign_in(self.player(), open_browser=self.browser(self.signs_in, self.comes_back))
        self.assertRaises(ConnectionRefusedError, self.comes_back)

    def test_without_proof(self) -> None:
        """A server that requires no proof completes the login by itself."""
        self.fake.return_proof = "none"
        finished = lambda: self.fake.move("proof_required", self.fake.complete())  # noqa: E731
        self.client.sign_in(self.player(), open_browser=self.browser(finished))
        self.assertTrue(self.client.signed_in)

    def test_session_before(self) -> None:
        """The server ends the session that this device had before, once the new one is on disk."""
        self.signed_in()
        self.fake.session = "ses_2"
        self.client.sign_in(self.player(), open_browser=self.browser(self.signs_in, self.comes_back))
        [logout] = self.fake.requests("/auth/session/logout")
        self.assertEqual(logout.json["refresh_credential"], "grc_ses_1_1")
        self.assertEqual(self.on_disk().session_id, "ses_2")


class Code(ClientCase):
    """The finish code, if the browser cannot return."""

    def test_offered(self) -> None:
        """Five seconds after the browser finished elsewhere the player is asked for a code; the page opens again."""
        self.patch(gc, "RETURN_SECONDS", OFFER_SECONDS)
        player = self.player("bkt-rvw")
        opened, finished = [], []
        browser = self.browser(lambda: finished.append(time.monotonic()), self.signs_in)

        def open_browser(url: str) -> bool:
            opened.append(url)
            return browser(url) if len(opened) == 1 else True

        self.client.sign_in(player, open_browser=open_browser)
        self.assertGreaterEqual(time.monotonic() - finished[0], OFFER_SECONDS)
        self.assertEqual(player.offers.get_nowait(), (True, None))
        self.assertEqual(len(opened), 2)
        self.assertEqual(opened[0], opened[1])

    def test_return_while_asked(self) -> None:
        """A browser that returns while the player is asked completes the login."""
        self.patch(gc, "RETURN_SECONDS", 0.2)
        player = self.player(None)
        late = lambda: [player.offers.get(timeout=PATIENCE_SECONDS), self.comes_back()]  # noqa: E731
        self.client.sign_in(player, open_browser=self.browser(self.signs_in, late))
        self.assertTrue(self.client.signed_in)

    def test_no_listener(self) -> None:
        """Without a listener the page shows the code: the player is asked at once, and no page is opened again."""
        player, opened = self.player(CODE), []
        browser = self.browser(self.signs_in)
        self.client.sign_in(player, open_browser=lambda url: [opened.append(url), browser(url)], loopback=False)
        self.assertNotIn("loopback_port", self.fake.started)
        self.assertEqual(player.offers.get_nowait(), (False, None))
        self.assertEqual(len(opened), 1)

    def test_wrong_code(self) -> None:
        """After a wrong code the player is asked again, with the number of attempts that are left."""
        player = self.player("BBBBBB", "CCCCCC", CODE)
        self.client.sign_in(player, open_browser=self.browser(self.signs_in), loopback=False)
        self.assertEqual([player.offers.get_nowait()[1] for _ in range(3)], [None, 4, 3])

    def test_too_many_wrong_codes(self) -> None:
        """The fifth wrong code ends the login, and nothing is stored."""
        player = self.player(*["BBBBBB"] * 6)
        browser = self.browser(self.signs_in)
        self.raised(
            gc.LoginFailed, "proof_attempts_exceeded", self.client.sign_in, player, open_browser=browser, loopback=False
        )
        self.assertEqual(player.offered, 5)
        self.assertIsNone(self.on_disk())

    def test_form(self) -> None:
        """Case, dashes and blanks do not count; a text that cannot be a code is not sent."""
        typed = ["bkt-rvw", " BKTRVW ", "b k t r v w", "BKT-RVWX", "BKTRV", "AAAAAA", ""]
        self.assertEqual([gc.finish_code(text) for text in typed], [CODE] * 3 + [None] * 4)


class Outcome(ClientCase):
    """The ends of a login that is not completed."""

    def fails(self, error: type[Exception], code: str, *steps: object) -> Exception:
        return self.raised(error, code, self.client.sign_in, self.player(), open_browser=self.browser(*steps))

    def test_typed(self) -> None:
        """Each failed login raises LoginFailed or a subclass with the code; nothing is stored."""
        codes = {
            "login_denied": gc.LoginDeclined,
            "provider_denied": gc.LoginDeclined,
            "login_cancelled": gc.LoginCancelled,
            "login_expired": gc.LoginExpired,
            "provider_unavailable": gc.LoginFailed,
            "login_interrupted": gc.LoginFailed,
            "identity_in_use": gc.LoginFailed,
            "session_revoked": gc.LoginFailed,
            "something_new": gc.LoginFailed,
        }
        for code, error in codes.items():
            self.fake.move("waiting_for_browser", failed(code))
            self.assertIs(type(self.fails(error, code)), error)
        self.assertIsNone(self.on_disk())

    def test_kept_credential_stays(self) -> None:
        """A failed login leaves the player signed in, even with a code that ends sessions."""
        self.signed_in()
        self.fake.move("waiting_for_browser", failed("session_revoked"))
        self.fails(gc.LoginFailed, "session_revoked")
        self.assertEqual(self.on_disk().refresh_credential, "grc_ses_1_1")

    def test_secret_refused(self) -> None:
        """A server that does not know the login any more ends it."""
        for status, code in [(401, "device_secret_invalid"), (410, "login_collected")]:
            self.fake.scripted["POST", "/auth/login/collect"].append(problem(status, code))
            self.fails(gc.LoginFailed, code)

    def test_cancel(self) -> None:
        """A login that another thread cancels ends at once."""
        cancels = lambda: login.cancel()  # noqa: E731, PLW0108 - it exists only in the next line
        login = self.client.begin_sign_in(self.player(), open_browser=self.browser(cancels))
        self.raised(gc.LoginCancelled, "login_cancelled", login.run, self.client.keep)

    def test_broken_off(self) -> None:
        """Any interruption of the client, also Ctrl-C, cancels the login at the server."""

        def interrupt(url: str) -> bool:
            raise KeyboardInterrupt

        self.assertRaises(KeyboardInterrupt, self.client.sign_in, self.player(), open_browser=interrupt)
        [cancelled] = self.fake.requests("/auth/login/cancel")
        self.assertEqual(cancelled.bearer, "gds_secret")

    def test_cannot_be_kept(self) -> None:
        """Credentials that cannot be written are not used: the login is cancelled, which ends its session."""
        self.client.credential  # noqa: B018 - makes the folder
        os.rename(self.folder, str(self.folder) + "-gone")
        self.folder.write_bytes(b"in the way")
        browser = self.browser(self.signs_in, self.comes_back)
        self.assertRaises(gc.LocalDamaged, self.client.sign_in, self.player(), open_browser=browser)
        self.assertEqual(len(self.fake.requests("/auth/login/cancel")), 1)


@covers("threats/29")
class Trust(ClientCase):
    """Links of another server (docs/protocol.md: Rules for clients)."""

    def test_login_url(self) -> None:
        """A login URL of another authority is never opened; the login is cancelled."""
        self.fake.move("waiting_for_browser", failed("login_expired"))  # who opens it anyway does not wait long
        opened = []
        urls = ["https://evil.example/auth/login/x", "http://localhost:{port}/auth/login/x", "{base}@evil.example/x"]
        for url in urls:
            port = self.fake.base.rpartition(":")[2]
            self.fake.login_url = url.replace("{port}", port)
            self.raised(
                gc.UntrustedAddress, "untrusted_address", self.client.sign_in, self.player(), open_browser=opened.append
            )
        self.assertEqual(opened, [])
        self.assertEqual(len(self.fake.requests("/auth/login/cancel")), len(urls))

    def test_poll_url(self) -> None:
        """A poll URL of another authority is not requested: it would receive the device secret."""
        self.fake.move("waiting_for_browser", failed("login_expired"))
        self.fake.poll_url = "https://evil.example/auth/login/collect"
        opened = []
        self.raised(
            gc.UntrustedAddress, "untrusted_address", self.client.sign_in, self.player(), open_browser=opened.append
        )
        self.assertEqual(opened, [])

    def test_redirect(self) -> None:
        """A redirect of the server is not followed."""
        moved = Reply(307, b"", {"Location": f"{self.server}/elsewhere"})
        self.fake.scripted["POST", "/auth/login"].append(moved)
        self.raised(gc.NotGamed, "not_gamed", self.client.sign_in, self.player())
        self.assertEqual(self.fake.requests("/elsewhere"), [])

    def test_not_gamed(self) -> None:
        """A web server without gamed is recognised before the start of a login."""
        page = Reply(200, b"<html>", {"Content-Type": "text/html"})
        other = Reply(200, b'{"mode":"local","providers":[]}', {"Content-Type": "application/json"})
        for reply in [page, other, Reply(404, b"<html>", {"Content-Type": "text/html"})]:
            self.fake.scripted["GET", "/auth/config"].append(reply)
            self.raised(gc.NotGamed, "not_gamed", self.client.sign_in, self.player())
        self.assertEqual(self.fake.requests("/auth/login"), [])


@covers("1/15")
class Providers(ClientCase):
    """The choice of a provider in `oauth` mode."""

    def test_one(self) -> None:
        """A single provider is used without a question, several are listed for the player, a given one is used."""
        finished = lambda: self.fake.move("x", self.fake.complete())  # noqa: E731
        self.fake.mode = "oauth"
        for providers, given, expected in [
            (("discord",), None, "discord"),
            (("discord", "google"), None, "google"),  # the last one is this player's choice
            (("discord", "google"), "discord", "discord"),
        ]:
            self.fake.providers = providers
            self.client.sign_in(self.player(), provider=given, open_browser=self.browser(finished))
            self.assertEqual(self.fake.started["provider"], expected)

    def test_adopt(self) -> None:
        """An earlier account is adopted only if the game asks for that."""
        finished = lambda: self.fake.move("x", self.fake.complete())  # noqa: E731
        self.fake.mode, self.fake.providers = "oauth", ("discord",)
        for asked in (True, False):
            self.client.sign_in(self.player(), open_browser=self.browser(finished), adopt=asked)
            self.assertEqual(self.fake.started.get("intent"), "adopt" if asked else None)

    def test_policy(self) -> None:
        """The policy has the mode and the names, in the server's order."""
        self.fake.mode, self.fake.providers = "oauth", ("google", "discord")
        self.assertEqual(self.client.policy(), ("oauth", ("google", "discord")))


class Weather(ClientCase):
    """Lost responses and a busy server, during a sign-in."""

    def test_lost_answer(self) -> None:
        """Credentials whose response was lost are collected again, with the same proof."""
        self.fake.scripted["POST", "/auth/login/collect"].extend([LOST, Reply(200, b"{}", torn=1)])

        def lose_the_credentials() -> None:
            self.signs_in()
            while not self.fake.requests("/auth/login/collect"):
                time.sleep(0.01)
            self.fake.after["POST", "/auth/login/collect"].append(LOST)
            self.comes_back()

        self.client.sign_in(self.player(), open_browser=self.browser(lose_the_credentials))
        self.assertEqual(self.on_disk().access_token, "gat_ses_1_1")
        self.assertEqual(len(self.pauses), 3)

    def test_lost_request(self) -> None:
        """A proof that never arrived is sent again."""
        lost = []

        def lose_the_first(request) -> None:
            if b"ticket" in request.body and not lost:
                lost.append(request)
                self.fake.scripted["POST", "/auth/login/collect"].append(LOST)

        self.fake.watch, player = lose_the_first, self.player()
        self.client.sign_in(player, open_browser=self.browser(self.signs_in, self.comes_back))
        sent = [seen.json for seen in self.fake.requests("/auth/login/collect") if b"ticket" in seen.body]
        self.assertEqual([proof["ticket"] for proof in sent], [TICKET] * 2)
        self.assertEqual(player.offered, 0)

    def test_retry_after(self) -> None:
        """429 and 503 never end a login; the client waits a little longer than Retry-After."""
        replies = [problem(429, "rate_limited", 7), problem(503, "busy", 2), Reply(502, b"<html>")]
        self.fake.scripted["POST", "/auth/login/collect"].extend(replies)
        self.client.sign_in(self.player(), open_browser=self.browser(self.signs_in, self.comes_back))
        self.assertGreaterEqual(self.pauses[0], 7)
        self.assertGreaterEqual(self.pauses[1], 2)
        self.assertLess(self.pauses[0], 11)

    def test_long_poll(self) -> None:
        """While nothing changes a single request waits, with the last stage."""
        self.client.sign_in(self.player(), open_browser=self.browser(self.signs_in, self.comes_back))
        first = self.fake.requests("/auth/login/collect")[0].json
        self.assertEqual((first["wait"], first["seen"]), (25, "waiting_for_browser"))
        self.assertLessEqual(len(self.fake.requests("/auth/login/collect")), 3)
