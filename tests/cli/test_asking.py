"""A command asks an operator at a terminal before it deletes something."""

import json

from tests.cli.process import CommandTestCase
from tests.support.databases import prepare_files


class ConfirmTests(CommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.data.mkdir()
        prepare_files(self.data)
        source = self.folder / "source"
        source.mkdir()
        (source / "readme.txt").write_bytes(b"hello")
        (self.folder / "game.json").write_text('{"min_free_bytes": 0}')
        code, out, err = self.gamed("assets", "publish", str(source), "--channel", "beta", "--json")
        self.assertEqual((code, err), (0, ""), out)
        self.release = json.loads(out)["release"]

    def channels(self) -> list[str]:
        return list(json.loads(self.gamed("assets", "list", "--json")[1])["channels"])

    def test_deleting_a_channel(self) -> None:
        """The question says what is lost and what is not; a no changes nothing, and a yes can be taken back as it says:
        the release is still there, and the named command makes the channel again."""
        code, out, err = self.gamed_at_terminal("n\n", "assets", "delete-channel", "beta")
        self.assertEqual((code, err), (1, "gamed: Nothing was changed.\n"))
        self.assertNotIn("cannot be undone", out)
        self.assertIn("list of earlier releases", out)
        self.assertIn("gamed assets set-channel beta RELEASE makes it again", out)
        self.assertEqual(self.channels(), ["beta"])

        code, out, err = self.gamed_at_terminal("y\n", "assets", "delete-channel", "beta")
        self.assertEqual((code, err, self.channels()), (0, "", []), out)
        self.assertEqual(self.gamed("assets", "set-channel", "beta", self.release)[0], 0)
        self.assertEqual(self.channels(), ["beta"])

    def test_without_a_terminal(self) -> None:
        """Where the command cannot ask, it names the option that skips the question."""
        code, _, err = self.gamed("assets", "delete-channel", "beta")
        self.assertEqual(code, 2)
        self.assertIn("Standard input is not a terminal. Pass --yes to skip the confirmation.", err)
        self.assertEqual(self.channels(), ["beta"])

    def test_erasing_a_player(self) -> None:
        """An erase is called final, which it is; a no leaves the player."""
        self.write_config()
        process, _ = self.serve()
        self.assertEqual(self.stop(process), 0)
        self.assertEqual(self.gamed("players", "add", "Anna", "--password-stdin", stdin="correct horse\n")[0], 0)
        code, out, err = self.gamed_at_terminal("n\n", "players", "erase", "anna")
        self.assertEqual((code, err), (1, "gamed: Nothing was changed.\n"))
        self.assertIn("with all saves? This cannot be undone.", out)
        self.assertIn("Anna", self.gamed("players", "list")[1])
