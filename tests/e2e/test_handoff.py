"""The handoff between a game and a browser in unusual orders (docs/protocol.md: Signing in)."""

from time import monotonic
from typing import ClassVar

from playwright.sync_api import Page

from gamed.config.settings import Intervals
from tests.e2e.cases import NAME, PASSWORD, QUICK, Player, ServiceCase
from tests.e2e.chromium import PATIENCE_MS, Window
from tests.e2e.service import free_port
from tests.support.covers import covers
from tests.support.python_client import gamed_client as gc

FOCUS_AND_VIEW = "[document.activeElement.tagName, scrollY]"


def next_page(page: Page) -> None:
    """Wait until the browser has navigated by itself."""
    with page.expect_navigation():
        pass


def unreachable(page: Page) -> None:
    """Wait for the browser's own error page for an unreachable address."""
    ends = monotonic() + PATIENCE_MS / 1000
    while not page.url.startswith("chrome-error:"):
        assert monotonic() < ends, page.url
        page.wait_for_timeout(100)


OTHER = "Another browser finished this sign-in. If that was not you, cancel in the game."


class FinishCode(ServiceCase):
    """The finish code, typed by the player."""

    intervals: ClassVar = QUICK

    def test_nothing_listens(self) -> None:
        """The page shows the finish code when it is opened again, if no game listens on the loopback port."""
        client, window = self.client(), self.window()
        deaf = lambda: login._listener.close()  # noqa: E731, PLW0108 - exists only once the login began
        steps = [deaf, lambda: window.create_account(NAME, PASSWORD)]
        first, again = self.opens(window, *steps), self.opens(window)
        opened = []
        person = Player(window.code)
        self.patch(gc, "RETURN_SECONDS", 1)  # its real five seconds are in clients/python/tests/client/test_sign_in.py
        login = client.begin_sign_in(
            person, open_browser=lambda url: (again if opened else first)(opened.append(url) or url)
        )
        login.run(client.keep)
        self.assertEqual(len(opened), 2)
        self.assertEqual(person.attempts, [None])
        self.assertEqual(client.whoami()["player"]["id"], client.credential.player_id)

    def test_no_port(self) -> None:
        """Without a port the code is on the page after the sign-in; the client asks for it at once."""
        client, window = self.client(), self.window()
        browser = self.opens(window, lambda: window.create_account(NAME, PASSWORD))
        client.sign_in(Player(window.code), open_browser=browser, loopback=False)
        self.assertTrue(client.signed_in)
        window.step(lambda page: page.reload())
        window.wait_for("You can go back to the game")
        self.assertFalse(window.has_code())

    def test_five_wrong_codes(self) -> None:
        """Five wrong codes end the login; the right one then fails, too."""
        window, login = self.window(), self.start()
        window.open(login["login_url"])
        window.create_account(NAME, PASSWORD)
        code = window.code()
        wrong = "BBB-BBB" if code != "BBB-BBB" else "CCC-CCC"
        for left in (4, 3, 2, 1, 0):
            answer = self.collect(login, finish_code=wrong)
            self.assertEqual(
                (answer.status, answer.json["code"], answer.json["attempts_left"]), (400, "invalid_proof", left)
            )
        answer = self.collect(login, finish_code=code)
        self.assertEqual((answer.status, answer.json["status"]), (200, "failed"))
        self.assertEqual(answer.json["problem"]["code"], "proof_attempts_exceeded")
        window.open(login["login_url"])
        self.assertEqual(window.status, 410)
        self.assertFalse(window.has_code())
        self.assertEqual(self.service.rows()["session"], 0)
        self.assertEqual(self.service.rows()["player"], 0)

    def test_spelling(self) -> None:
        """Case and dash do not count; a repetition after delivery needs no proof and returns the same credentials."""
        window, login = self.window(), self.start()
        window.open(login["login_url"])
        window.create_account(NAME, PASSWORD)
        first = self.collect(login, finish_code=window.code().replace("-", "").lower()).json
        again = self.collect(login).json
        self.assertEqual(first["status"], "complete")
        secret = ("access_token", "refresh_credential", "session_id")
        self.assertEqual([first[name] for name in secret], [again[name] for name in secret])


class GoingOn(ServiceCase):
    """Pages that navigate by themselves, in Chromium. The page that leads to the game stays for its real time."""

    intervals: ClassVar = Intervals(page_refresh_seconds=4)

    def signed_in(self, name: str = NAME, **start: object) -> tuple[Window, dict]:
        """Return a window on the page after the sign-in of a new account."""
        window, login = self.window(), self.start(**start)
        window.open(login["login_url"])
        window.create_account(name, PASSWORD)
        return window, login

    def test_code_pages(self) -> None:
        """After a collect or a cancel the code disappears by itself; focus and view do not move until then."""
        opened = []
        for name in ("Anna", "Bert"):
            window, login = self.signed_in(name)
            window.step(lambda page: page.set_viewport_size({"width": 320, "height": 300}))
            window.step(lambda page: page.evaluate("scrollTo(0, 120)"))
            opened.append((window, login))
        (collected, one), (cancelled, other) = opened
        cancelled.step(next_page)
        self.assertTrue(cancelled.has_code())
        self.assertEqual(cancelled.step(lambda page: page.evaluate(FOCUS_AND_VIEW)), ["BODY", 120])
        self.assertEqual(self.collect(one, finish_code=collected.code()).json["status"], "complete")
        self.assertEqual(self.ask("POST", "/auth/login/cancel", bearer=other["device_secret"]).status, 204)
        for window, text in ((collected, "You can go back to the game"), (cancelled, "The game gave up waiting")):
            window.wait_for(text)
            self.assertFalse(window.has_code())
            self.assertEqual(window.step(lambda page: page.evaluate("document.activeElement.tagName")), "BODY")

    def test_the_game_is_elsewhere(self) -> None:
        """The page before an unreachable port stays for two seconds, and its second link shows a code."""
        window, login = self.signed_in(loopback_port=free_port())
        self.assertIn("Is the game on another device?", window.text)
        window.press("Show me a code")
        self.assertEqual(self.collect(login, finish_code=window.code()).json["status"], "complete")

    def test_back_from_the_error_page(self) -> None:
        """A browser that has shown its own error for the port shows the code after its Back button."""
        window, login = self.signed_in(loopback_port=free_port())
        self.assertIn("If it shows an error instead, come back to this page.", window.text)
        window.step(unreachable)
        window.step(lambda page: page.go_back())
        self.assertEqual(self.collect(login, finish_code=window.code()).json["status"], "complete")


class Newcomers(ServiceCase):
    """A newcomer's pages, with their real times."""

    config: ClassVar = {"mode": "local", "login": {"registration": "approval"}}

    def test_the_code_page_goes_on(self) -> None:
        """When the game collects for a newcomer, the page navigates to the code for the owner by itself."""
        window, login = self.window(), self.start()
        window.open(login["login_url"])
        window.create_account(NAME, PASSWORD)
        problem = self.collect(login, finish_code=window.code()).json["problem"]
        window.wait_for("Waiting for the owner")
        self.assertIn(problem["approval_code"], window.text)


class SecondBrowser(ServiceCase):
    """Mailed links: another browser than the one in front of the game completes the login."""

    @covers("2.3/6", "threats/1")
    def test_stranger_completes(self) -> None:
        """The client gets only `proof_required`; a browser that did not finish is not shown a code."""
        mine, stranger, login = self.window(), self.window(), self.start()
        mine.open(login["login_url"])
        stranger.open(login["login_url"])
        stranger.create_account(NAME, PASSWORD)
        code = stranger.code()
        for url in (login["login_url"], f"{self.service.base}/auth/login/done?login_id={login['login_id']}"):
            mine.open(url)
            self.assertEqual(mine.status, 409)
            self.assertIn(OTHER, mine.text)
            self.assertNotIn(code.replace("-", ""), mine.html.replace("-", ""))
            self.assertFalse(mine.has_code())
        for wait in (0, 1):
            answer = self.collect(login, wait=wait, seen="proof_required")
            self.assertEqual(answer.status, 202)
            self.assertEqual(set(answer.json), {"status", "stage", "expires_in"})
            self.assertEqual(answer.json["stage"], "proof_required")
        self.assertEqual(self.service.rows()["player"], 0)
        self.assertEqual(self.service.rows()["session"], 0)

    def test_form_of_another(self) -> None:
        """A form is valid only in the browser that received it."""
        mine, stranger, login = self.window(), self.window(), self.start()
        mine.open(login["login_url"])
        stranger.open(login["login_url"])
        field = mine.step(lambda page: page.locator("form input[type=hidden]").first.get_attribute("value"))
        stranger.open_create_form()
        stranger.step(
            lambda page: page.eval_on_selector_all(
                "input[type=hidden]", "(fields, value) => fields.forEach(f => { f.value = value })", field
            )
        )
        stranger.create_account(NAME, PASSWORD)
        self.assertNotIn("Type this code", stranger.text)
        self.assertEqual(self.collect(login).json["stage"], "waiting_for_browser")

    def test_done_without_any(self) -> None:
        """A browser that did not open the login, and one that asks for an unknown login, are shown no code either."""
        window, login = self.window(), self.start()
        window.open(f"{self.service.base}/auth/login/done?login_id={login['login_id']}")
        self.assertIn(window.status, (404, 409))
        window.open(f"{self.service.base}/auth/login/done?login_id=lgn_AAAAAAAAAAAAAAAAAAAAAA")
        self.assertIn(window.status, (404, 409))
        window.open(f"{self.service.base}/auth/login/AAAAAAAAAAAAAAAAAAAAAA")
        self.assertEqual(window.status, 404)


class Ends(ServiceCase):
    """Declines and cancels, on either side."""

    intervals: ClassVar = QUICK

    def test_decline(self) -> None:
        """After "This was not me" on the first page the game gets the failure at once, and the link has ended."""
        client, window = self.client(), self.window()
        browser = self.opens(window, lambda: window.press("This was not me"))
        error = self.assertRaises(gc.LoginDeclined, client.sign_in, Player(), open_browser=browser)
        self.assertEqual(error.code, "login_denied")
        window.wait_for("You were not signed in")
        window.open(window.seen[0][0])
        self.assertEqual(window.status, 410)
        self.assertFalse(client.signed_in)

    def test_decline_at_the_code(self) -> None:
        """After "This was not me" beside the finish code, the code is invalid."""
        window, login = self.window(), self.start()
        window.open(login["login_url"])
        window.create_account(NAME, PASSWORD)
        code = window.code()
        window.press("This was not me")
        answer = self.collect(login, finish_code=code)
        self.assertEqual((answer.status, answer.json["problem"]["code"]), (200, "login_denied"))
        self.assertEqual(self.service.rows()["player"], 0)

    def test_cancel(self) -> None:
        """After a cancel in the game the page shows it."""
        client, window = self.client(), self.window()
        cancels = lambda: login.cancel()  # noqa: E731, PLW0108 - exists only once the login began
        login = client.begin_sign_in(Player(), open_browser=self.opens(window, window.open_create_form, cancels))
        error = self.assertRaises(gc.LoginCancelled, login.run, client.keep)
        self.assertEqual(error.code, "login_cancelled")
        window.create_account(NAME, PASSWORD)
        self.assertIn("The game gave up waiting", window.text)
        self.assertEqual(self.service.rows()["player"], 0)

    def test_cancel_after_delivery(self) -> None:
        """Credentials that were delivered but not used are invalid after a cancel."""
        window, login = self.window(), self.start()
        window.open(login["login_url"])
        window.create_account(NAME, PASSWORD)
        complete = self.collect(login, finish_code=window.code()).json
        self.assertEqual(self.ask("POST", "/auth/login/cancel", bearer=login["device_secret"]).status, 204)
        answer = self.ask("GET", "/game/", bearer=complete["access_token"])
        self.assertEqual((answer.status, answer.json["code"]), (401, "session_revoked"))

    def test_collected(self) -> None:
        """Once the credentials were used, collect and cancel have no effect."""
        window, login = self.window(), self.start()
        window.open(login["login_url"])
        window.create_account(NAME, PASSWORD)
        complete = self.collect(login, finish_code=window.code()).json
        self.assertEqual(self.ask("GET", "/game/", bearer=complete["access_token"]).status, 200)
        for answer in (self.collect(login), self.ask("POST", "/auth/login/cancel", bearer=login["device_secret"])):
            self.assertEqual((answer.status, answer.json["code"]), (410, "login_collected"))
        self.assertEqual(self.ask("GET", "/game/", bearer=complete["access_token"]).status, 200)


class Expiry(ServiceCase):
    """A login lives as long as `session.device_transaction_ttl` says."""

    config: ClassVar = {"mode": "local", "session": {"device_transaction_ttl": "5s"}}

    @covers("3/6")
    def test_nobody_came(self) -> None:
        """The waiting client gets a response when the time is over."""
        client = self.client()
        error = self.assertRaises(gc.LoginExpired, client.sign_in, Player(), open_browser=lambda url: True)
        self.assertEqual(error.code, "login_expired")


class Pages(ServiceCase):
    """Responses of the sign-in page to mistakes."""

    intervals: ClassVar = QUICK

    def test_refused(self) -> None:
        """An unknown name and a wrong password get the same sentence; the returned page accepts the right one."""
        first = self.created(self.window()).credential.player_id
        client, window, said = self.client(), self.window(), []

        def tries() -> None:
            for name, password in [("Nobody", PASSWORD), (NAME, "wrong password")]:
                window.sign_in(name, password)
                said.append(window.text.replace(name, ""))
            window.sign_in(NAME, PASSWORD)

        client.sign_in(Player(), open_browser=self.opens(window, tries))
        self.assertEqual(client.credential.player_id, first)
        self.assertEqual(said[0], said[1])
        self.assertIn("Wrong name or password.", said[0])
        self.assertNotIn(PASSWORD, str(window.seen))

    def test_device_words(self) -> None:
        """The page shows the server's and the device's own words as text, with any characters."""
        words = {"name": "<b>Game</b>", "device_name": "ANNA-\u202ePC"}
        window, login = self.window(), self.start(client=words, loopback_port=free_port())
        window.open(login["login_url"])
        self.assertIn("<b>Game</b>", window.text)
        self.assertNotIn("\u202e", window.html)
        self.assertIn("127.0.0.1", window.text)

    def test_no_script(self) -> None:
        """No page has a script, requests another host, or may be framed."""
        login = self.start()
        answer = self.ask("GET", login["login_url"].removeprefix(self.service.base))
        self.assertNotIn(b"<script", answer.body.lower())
        policy = answer.headers["content-security-policy"]
        for part in ("default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'"):
            self.assertIn(part, policy)
