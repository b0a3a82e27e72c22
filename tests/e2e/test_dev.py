"""`gamed dev` as a game developer uses it: one command, the reference client, a browser; no internet."""

import json

from gamed.config.providers import PRESETS
from tests.cli.process import CommandTestCase, free_port
from tests.e2e.cases import PATIENCE_SECONDS, QUICK, Player
from tests.e2e.chromium import Window
from tests.e2e.service import gamed_with
from tests.support.python_client import gamed_client as gc


class DevTests(CommandTestCase):
    def sign_in(self, window: Window, client: "gc.GamedClient", provider: str, person: str) -> None:
        def open_browser(url: str) -> bool:
            running.append(window.later(lambda: window.open(url), lambda: window.press(f"Continue as {person}")))
            return True

        running: list = []
        client.sign_in(Player(), provider=provider, open_browser=open_browser)
        running[0].result(PATIENCE_SECONDS)
        window.wait_for("You can go back to the game")

    def test_whole(self) -> None:
        """After a restart on the same folder two players have their saves, and Anna is the same at each provider."""
        ports = [f"--port={free_port()}", f"--provider-port={free_port()}", f"--folder={self.folder / 'dev'}"]
        base = f"http://127.0.0.1:{ports[0].partition('=')[2]}"
        process = self.start(*gamed_with(QUICK), "dev", *ports)
        self.await_answer(int(base.rpartition(":")[2]), process)
        players = {}
        for provider, person in (("discord", "Chidi"), ("google", "Anna")):
            client, window = gc.GamedClient(base, folder=self.folder / provider), Window()
            self.addCleanup(window.close)
            self.sign_in(window, client, provider, person)
            client.put("auto", provider.encode(), base=None)
            players[provider] = client.credential.player_id
        samples = json.loads((self.folder / "dev" / "players.json").read_text())["players"]
        self.assertEqual(players["google"], samples["anna"]["player"]["id"])
        self.assertNotEqual(players["discord"], players["google"])
        self.assertEqual(self.stop(process), 0, self.output())
        process = self.start(*gamed_with(QUICK), "dev", *ports)
        self.await_answer(int(base.rpartition(":")[2]), process)
        client = gc.GamedClient(base, folder=self.folder / "another device")
        window = Window()
        self.addCleanup(window.close)
        self.sign_in(window, client, "google", "Anna")
        self.assertEqual(client.credential.player_id, players["google"])
        self.assertEqual(client.get("auto").data, b"google")
        for provider in PRESETS:
            client, window = gc.GamedClient(base, folder=self.folder / f"anna at {provider}"), Window()
            self.addCleanup(window.close)
            self.sign_in(window, client, provider, "Anna")
            self.assertEqual((client.credential.provider, client.credential.player_id), (provider, players["google"]))
        self.assertNotIn("Traceback", self.output())
