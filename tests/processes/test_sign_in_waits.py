"""A request that waits for a sign-in at one server hears of the steps that another server answered."""

from time import monotonic, sleep

from tests.e2e.providers import DISCORD
from tests.processes.cases import ScriptedBrowser, SharedProviderCase, collect
from tests.processes.test_waits import ROUNDS, SETTLED_SECONDS, WAIT_SECONDS, Heard
from tests.processes.wire import json_request


class SignInWaits(SharedProviderCase, Heard):
    def test_stages(self) -> None:
        """A collect that waits is answered with each stage that the other server's pages lead to."""
        seconds = []
        for _ in range(ROUNDS):
            browser = ScriptedBrowser(self)
            login = self.ask(0, json_request("POST", "/auth/login", {"provider": "discord"}), 201).json
            callback: list[str] = []

            def agree(browser: ScriptedBrowser = browser, login: dict = login, found: list[str] = callback) -> None:
                found.append(self.agree(browser, DISCORD, "anna", login["login_url"], server=0))

            taken, answer = self.hear(collect(login, wait=WAIT_SECONDS, seen="waiting_for_browser"), agree)
            self.assertEqual(answer.json["stage"], "at_provider")
            seconds.append(taken)

            def back(browser: ScriptedBrowser = browser, found: list[str] = callback) -> None:
                browser.visit(0, found[0])

            taken, answer = self.hear(collect(login, wait=WAIT_SECONDS, seen="at_provider"), back)
            if answer.json["stage"] == "exchanging":
                answer = self.ask(1, collect(login, wait=WAIT_SECONDS, seen="exchanging"))
            self.assertEqual(answer.json["stage"], "proof_required")
            seconds.append(taken)
        self.assert_soon(seconds)

    def test_callback_of_another_server(self) -> None:
        """A second callback that waits for the first one's exchange is answered soon after the provider's answer."""
        seconds = []
        for _ in range(ROUNDS):
            browser = ScriptedBrowser(self)
            _, callback = self.begin(browser, DISCORD, "anna")
            provider = self.recorders["discord"]
            provider.pause(DISCORD.token)
            self.connections[0].send(browser.request(callback))
            provider.wait_paused()
            self.connections[1].send(browser.request(callback))
            sleep(SETTLED_SECONDS + self.random.uniform(0, 0.5))
            provider.resume()
            self.assertEqual(self.connections[0].receive().status, 303)
            began = monotonic()
            self.assertEqual(self.connections[1].receive().status, 409)
            seconds.append(monotonic() - began)
        self.assert_soon(seconds)
