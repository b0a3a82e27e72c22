"""kill -9 at every step of a sign-in through a provider: the next start goes on from there (PROTOCOL 3)."""

import contextlib
import threading

from tests.e2e.by_hand import HandCase
from tests.e2e.providers import DISCORD
from tests.login.browser_fixtures import Page
from tests.login.test_browser_routes import code


class KilledSignIns(HandCase):
    def cut(self) -> None:
        """The power goes, and comes back."""
        self.service.kill()
        self.service.start()

    def depart(self, login: dict) -> str:
        """The page, its button, and the provider's address."""
        page = Page(self.visit(login["login_url"]))
        self.cut()
        sent = self.press(page)
        self.assertEqual(sent.status, 303, sent.body)
        return sent.headers["location"]

    def ready(self) -> tuple[dict, str]:
        """A login, and the code that the browser shows; cut off after each step before it."""
        login = self.start(provider="discord")
        self.cut()
        where = self.depart(login)
        self.cut()
        back = self.visit(self.choose(where))
        self.assertEqual(back.status, 303, back.body)
        self.assertEqual(set(self.lasting().values()), {0})
        return login, back.headers["location"]

    def test_before_the_collect(self) -> None:
        """Started, opened, sent to the provider, ready: no player has to begin again."""
        login, done = self.ready()
        self.cut()
        self.assertEqual(self.collect(login, seen="proof_required").json["stage"], "proof_required")
        shown = code(Page(self.visit(done)))
        self.assertEqual(self.collect(login, finish_code=shown).json["status"], "complete")

    def exchanging(self) -> tuple[dict, str, threading.Thread]:
        """A login, its callback, and the browser that waits there for a provider that does not answer."""
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
        """The first request after the start gets this failure: nothing lasting, and the code is not sent again."""
        answer = self.collect(login).json
        self.assertEqual((answer["status"], answer["problem"]["code"]), ("failed", "login_interrupted"))
        self.assertEqual(self.visit(callback).status, 410)
        self.assertEqual(self.visit(login["login_url"]).status, 410)
        tokens = [exchange for exchange in self.recorders["discord"].exchanges if exchange.path == DISCORD.token]
        self.assertEqual(tokens, [])
        self.assertEqual(set(self.lasting().values()), {0})

    def test_while_exchanging(self) -> None:
        """The provider is being asked: `login_interrupted`."""
        login, callback, browser = self.exchanging()
        self.cut()
        browser.join()
        self.interrupted(login, callback)

    def test_stopped_while_exchanging(self) -> None:
        """SIGTERM does not wait for a slow provider: exit 0, and the same word for the game after the start."""
        login, callback, browser = self.exchanging()
        self.assertEqual(self.service.terminate(), 0)
        browser.join()
        said = self.service.text()
        self.assertIn("requests_interrupted count=1", said)
        self.assertNotIn("work failed", said)
        self.service.start()
        self.interrupted(login, callback)

    def left_alone(self, callback: str) -> None:
        """A browser whose connection breaks."""
        with contextlib.suppress(OSError):
            self.visit(callback)

    def test_after_the_collect(self) -> None:
        """Delivered: the same credentials once more. Used: 410, and they work on."""
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
