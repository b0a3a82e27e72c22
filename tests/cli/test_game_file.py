"""The command line reads `game.json`: its place, its errors, and the limits that clients see."""

import json

from tests.cli.process import CommandTestCase, get


class GameFileTests(CommandTestCase):
    def write(self, text: str) -> None:
        self.config.with_name("game.json").write_text(text)

    def test_both_files_at_once(self) -> None:
        """Wrong members of both files are said together; check config and serve refuse alike."""
        self.config.write_text('{"mode": "locl"}')
        self.write('{"slots": 0}')
        for command in (("check", "config"), ("serve",)):
            code, _, err = self.gamed(*command)
            self.assertEqual(code, 78)
            first, second = err.splitlines()
            self.assertRegex(first, r"authentication\.json:1:10: mode: ")
            self.assertRegex(second, r"game\.json:1:11: slots: expected a whole number")

    def test_good(self) -> None:
        """check config names the file."""
        self.write_config()
        self.write('{"slots": 3}')
        code, out, _ = self.gamed("check", "config")
        self.assertEqual(code, 0)
        self.assertIn(f"{self.config.with_name('game.json')} is valid", out)

    def test_clients_see_the_limits(self) -> None:
        """GET /game/ returns them, and the server applies them."""
        self.write('{"slots": 3, "save_bytes": "1 MiB", "wait_seconds": 7}')
        process, port = self.serve()
        self.gamed("players", "add", "anna", "--password-stdin", stdin="correct horse\n")
        token = json.loads(self.gamed("players", "token", "anna", "--json")[1])["access_token"]
        limits = json.loads(get(port, "/game/", token)[1])["limits"]
        self.assertEqual((limits["slots"], limits["save_bytes"], limits["wait_seconds"]), (3, 2**20, 7))
        self.assertEqual(self.stop(process), 0)
        self.assertIn("game.json", self.output())
