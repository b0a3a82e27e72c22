"""kill -9 at every step of a sign-in through a provider: it continues after the next start.

See docs/internals/login-states.md.
"""

import contextlib
import threading

from tests.e2e.by_hand import HandCase
from tests.e2e.providers import DISCORD
from tests.login.browser_fixtures import Page
from tests.login.test_browser_routes import code


class KilledSignIns(HandCase):
    def cut(self) -> None:
        """Kill the service, and start it again."""
        self.service.kill()
        self.service.start()

    def depart(self, login: dict) -> str:
        """Open the page and press its button; return the provider's address."""
        page = Page(self.visit(login["login_url"]))
        self.cut()
        sent = self.press(page)
        self.assertEqual(sent.status, 303, sent.body)
        return sent.headers["location"]

    def ready(self) -> tuple[dict, str]:
        """Return a login and the code that the browser shows, with a kill after each earlier step."""
        login = self.start(provider="discord")
        self.cut()
        where = self.depart(login)
        self.cut()
        back = self.visit(self.choose(where))
        self.assertEqual(back.status, 303, back.body)
        self.assertEqual(set(self.lasting().values()), {0})
        return login, back.headers["location"]

    def test_before_the_collect(self) -> None:
        """No player has to begin again after a kill at any step before the collect."""
        login, done = self.ready()
        self.cut()
        self.assertEqual(self.collect(login, seen="proof_required").json["stage"], "proof_required")
        shown = code(Page(self.visit(done)))
        self.assertEqual(self.collect(login, finish_code=shown).json["status"], "complete")

    def exchanging(self) -> tuple[dict, str, threading.Thread]:
        """Return a login, its callback, and the browser that waits there for a provider without a response."""
        login = self.start(provider="discord")
        callback = self.choose(self.depart(login))
        self.recorders["discord"].held = DISCORD.token
        browser = threading.Thread(target=self.left_alone, args=(callback,))
        browser.start()
        answer = {"stage": "at_provider"}
        while answer["stage"] != "exchanging":
            answer = self.collect(login, wait=5, seen="at_provider").json
            self.assertIn("stage", answer)
        return login, callback, browser

    def interrupted(self, login: dict, callback: str) -> None:
        """Assert that the first request after the start gets this failure, and that the code is not sent again."""
        answer = self.collect(login).json
        self.assertEqual((answer["status"], answer["problem"]["code"]), ("failed", "login_interrupted"))
        self.assertEqual(self.visit(callback).status, 410)
        self.assertEqual(self.visit(login["login_url"]).status, 410)
        tokens = [exchange for exchange in self.recorders["discord"].exchanges if exchange.path == DISCORD.token]
        self.assertEqual(tokens, [])
        self.assertEqual(set(self.lasting().values()), {0})

    def test_while_exchanging(self) -> None:
        """A kill during the request to the provider ends the login with `login_interrupted`."""
        login, callback, browser = self.exchanging()
        self.cut()
        browser.join()
        self.interrupted(login, callback)

    def test_stopped_while_exchanging(self) -> None:
        """SIGTERM does not wait for a slow provider: exit 0, and the game gets the same code after the start."""
        login, callback, browser = self.exchanging()
        self.assertEqual(self.service.terminate(), 0)
        browser.join()
        said = self.service.text()
        self.assertIn("requests_interrupted count=1", said)
        self.assertNotIn("work failed", said)
        self.service.start()
        self.interrupted(login, callback)

    def left_alone(self, callback: str) -> None:
        """Send the callback as a browser whose connection breaks."""
        with contextlib.suppress(OSError):
            self.visit(callback)

    def test_after_the_collect(self) -> None:
        """Delivered credentials are delivered again; used ones get 410, and stay valid."""
        login = self.start(provider="discord")
        sent = self.press(Page(self.visit(login["login_url"])))
        shown = code(Page(self.visit(self.visit(self.choose(sent.headers["location"])).headers["location"])))
        first = self.collect(login, finish_code=shown).json
        self.cut()
        again = self.collect(login).json
        same = ("access_token", "refresh_credential", "session_id", "player")
        self.assertEqual([again[name] for name in same], [first[name] for name in same])
        self.assertEqual(self.ask("GET", "/game/", bearer=first["access_token"]).status, 200)
        self.cut()
        gone = self.collect(login)
        self.assertEqual((gone.status, gone.json["code"]), (410, "login_collected"))
        self.assertEqual(self.ask("POST", "/auth/login/cancel", bearer=login["device_secret"]).status, 410)
        self.assertEqual(self.ask("GET", "/game/", bearer=first["access_token"]).status, 200)
        renew = {"refresh_credential": first["refresh_credential"]}
        self.assertEqual(self.ask("POST", "/auth/session/refresh", json_body=renew).status, 200)
        kept = self.lasting()
        self.assertEqual([kept[name] for name in ("player", "identity", "session")], [1, 1, 1])
