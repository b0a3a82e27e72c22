"""Tug of war for two in real browsers: its server knows both names, and only a ticket lets a player in."""

import json
from collections import Counter
from contextlib import closing
from http.client import HTTPConnection, HTTPResponse
from shlex import join

from playwright.sync_api import Page

from tests.cli.process import GAMED, ROOT, WAIT_SECONDS, CommandTestCase, free_port
from tests.e2e.chromium import Window
from tests.e2e.wire import Answer, ask
from tests.support.nodejs import NODE

MATCH = ROOT / "examples" / "match"
PULLS = 10
MOST_NONCES = 1000


class MatchTests(CommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.ports = {name: free_port() for name in ("--port", "--provider-port", "--static-port")}
        self.match_port = free_port()
        self.environ["MATCH_PORT"] = str(self.match_port)
        ports = [f"{name}={port}" for name, port in self.ports.items()]
        served = [f"--static={ROOT / folder}" for folder in ("examples", "clients/js")]
        script = f"--script={join([NODE, str(MATCH / 'server.mjs')])}"
        self.folder_of_dev = self.folder / "dev"
        process = self.start(*GAMED, "dev", *ports, *served, script, f"--folder={self.folder_of_dev}")
        self.addCleanup(self.stop, process)
        self.await_answer(self.ports["--port"], process)
        self.await_output("Open http://")
        self.page = f"http://127.0.0.1:{self.ports['--static-port']}"
        self.errors: list[str] = []

    def ask(self, path: str, body: object = None, method: str = "POST", **headers: str) -> Answer:
        """Send a request to the match server, as a script of the page does."""
        fields = {"Origin": self.page, "Content-Type": "application/json", **headers}
        return ask(self.match_port, method, path, body=json.dumps(body or {}).encode(), headers=fields)

    def ticket(self, player: str, **asked: str) -> str:
        """Request a ticket from gamed as a sample player."""
        players = json.loads((self.folder_of_dev / "players.json").read_text())["players"]
        token = players[player]["access_token"]
        return str(ask(self.ports["--port"], "POST", "/auth/tickets", json_body=asked, bearer=token).json["ticket"])

    def browser(self, person: str) -> Window:
        """Open the match in a browser of its own, and join as a person."""
        window = Window()
        self.addCleanup(window.close)

        def opens(page: Page) -> None:
            page.on("pageerror", lambda error: self.errors.append(str(error)))
            page.goto(f"{self.page}/")
            page.get_by_role("link", name="Tug of war").click()
            page.goto(f"{page.url}?port={self.match_port}")
            page.get_by_role("button", name="Join").click()
            with page.context.expect_page() as opened:
                page.get_by_role("button", name="Sign in with Discord").click()
            sign_in = opened.value
            sign_in.get_by_role("button", name="Continue with Discord").click()
            sign_in.get_by_role("button", name=f"Continue as {person}").click()
            page.get_by_role("textbox", name="Type the six letters").fill(sign_in.locator(".code").inner_text())
            page.get_by_role("button", name="Continue").click()
            sign_in.close()

        window.step(opens)
        return window

    def says(self, window: Window, text: str) -> None:
        window.step(lambda page: page.get_by_text(text).locator("visible=true").first.wait_for())

    def press(self, window: Window, name: str) -> None:
        window.step(lambda page: page.get_by_role("button", name=name, exact=True).click())

    def test_tickets(self) -> None:
        """No bad ticket joins, none joins twice, and other pages may not ask."""
        nonce = self.ask("/nonce").json["nonce"]
        self.assertEqual(self.ask("/join", {"ticket": "bad", "nonce": nonce}).status, 401)
        good = self.ticket("anna", audience="match.example", nonce=nonce)
        self.assertEqual(self.ask("/join", {"ticket": good, "nonce": nonce}).status, 401)  # that nonce is used up
        other = self.ask("/nonce").json["nonce"]
        self.assertEqual(self.ask("/join", {"ticket": good, "nonce": other}).status, 401)
        self.assertEqual(self.ask("/join", {"ticket": good, "nonce": "made up"}).status, 401)
        self.assertEqual(self.ask("/pull", Authorization=f"Bearer {good}").status, 404)
        self.assertEqual(self.ask("/join", "x" * 9000).status, 400)
        self.assertEqual(self.ask("/nonce", Origin="https://evil.example").status, 403)
        self.assertNotIn("joins", self.output())

    def test_many_nonces(self) -> None:
        """A flood of requests for nonces gets 503; a player who has a nonce already still joins."""
        with closing(HTTPConnection("127.0.0.1", self.match_port, timeout=WAIT_SECONDS)) as connection:

            def post(path: str, body: object = None) -> HTTPResponse:
                fields = {"Origin": self.page, "Content-Type": "application/json"}
                connection.request("POST", path, json.dumps(body or {}), fields)
                return connection.getresponse()

            nonce = json.loads(post("/nonce").read())["nonce"]
            ticket = self.ticket("anna", audience="match.example", nonce=nonce)
            answered = Counter[int]()
            for _ in range(MOST_NONCES + 9):
                answer = post("/nonce")
                answer.read()
                answered[answer.status] += 1
            self.assertEqual(answered, {200: MOST_NONCES - 1, 503: 10})
            self.assertEqual(post("/join", {"ticket": ticket, "nonce": nonce}).status, 200)

    def test_match(self) -> None:
        """Both players see both names as gamed knows them, pull, and one wins; a player takes one seat only."""
        anna = self.browser("Anna")
        self.says(anna, "Anna (you)")
        self.says(anna, "Waiting for the other player.")
        again = self.browser("Anna")
        self.says(again, "Two play already, or you play in another browser.")
        bo = self.browser("Bo")
        for window, texts in ((anna, ("Anna (you)", "Bo")), (bo, ("Anna", "Bo (you)"))):
            for text in (*texts, "The rope is in the middle."):
                self.says(window, text)
        self.press(anna, "Pull")
        self.says(bo, "Anna leads by 1.")
        for _ in range(PULLS + 1):
            self.press(bo, "Pull")
        for window in (anna, bo):
            self.says(window, "Bo wins.")
        self.press(anna, "Again")
        self.says(bo, "The rope is in the middle.")
        bo.close()
        self.says(anna, "Waiting for the other player.")
        said = self.output()
        self.assertIn("Anna joins as player 1.\nBo joins as player 2.\nBo leaves.\n", said)
        self.assertEqual(self.errors, [])
