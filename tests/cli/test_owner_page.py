"""`gamed owner page` and `gamed owner confirm`, beside a running server (docs/owners/owner-page.md)."""

import json

from tests.cli.process import ROOT, CommandTestCase


class OwnerPageTests(CommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.process, self.port = self.serve()
        self.gamed("players", "add", "anna", "--password-stdin", stdin="a long password\n")

    def done(self, *words: str) -> dict[str, object]:
        code, out, err = self.gamed(*words, "--json")
        self.assertEqual(code, 0, err)
        answer: dict[str, object] = json.loads(out)
        return answer

    def test_page(self) -> None:
        """The page is off, then on, then off; the folder can be changed, and each change is an event with its user."""
        self.assertEqual(self.done("owner", "page", "status"), {"on": False})
        code, out, err = self.gamed("owner", "page", "on")
        self.assertEqual((code, out.splitlines()[1]), (0, "it makes no backups; for that add --backups DIR"))
        self.assertIn("there is no owner yet", err)
        self.gamed("owner", "claim", "anna")
        folder = str(self.folder / "backups")
        self.assertEqual(self.done("owner", "page", "on", "--backups", folder)["backups"], folder)
        status = self.done("owner", "page", "status")
        self.assertEqual((status["on"], status["backups"]), (True, folder))
        self.assertIn("is on, since just now", self.gamed("owner", "page", "status")[1])
        self.assertEqual(self.done("owner", "page", "off"), {"on": False, "before": True})
        self.assertEqual(self.gamed("owner", "page", "off")[1], "the owner's page is off, as before\n")
        events = [
            each["values"] for each in json.loads(self.gamed("events", "--json")[1]) if each["event"] == "command"
        ]
        commands = {each["command"] for each in events}
        self.assertLessEqual({"owner page on", "owner page off"}, commands)
        self.assertTrue(all(each["by"].startswith("uid:") for each in events))

    def test_as_printed(self) -> None:
        """The commands of docs/owners/owner-page.md work in their order."""
        text = (ROOT / "docs/owners/owner-page.md").read_text("utf-8")
        blocks = [part.partition("```")[0] for part in text.split("```sh\n")[1:]]
        lines = [line for block in blocks for line in block.splitlines()]
        self.assertEqual(len(lines), 6)
        for line in lines:
            words = line.replace("/mnt/backups", str(self.folder / "backups")).split()[1:]
            code, _, err = self.gamed(*words)
            self.assertEqual(code, 0, f"{line}: {err}")

    def test_folder(self) -> None:
        """No folder for backups is inside the data folder."""
        code, _, err = self.gamed("owner", "page", "on", "--backups", str(self.data / "backups"))
        self.assertEqual(code, 1)
        self.assertIn("is in the data folder", err)
        self.assertEqual(self.done("owner", "page", "status"), {"on": False})

    def test_confirm(self) -> None:
        """A code is eight digits, new each time, and only printed while the page is on."""
        code, _, err = self.gamed("owner", "confirm")
        self.assertEqual(code, 1)
        self.assertIn("Run first: gamed owner page on", err)
        self.gamed("owner", "claim", "anna")
        self.gamed("owner", "page", "on")
        codes = [str(self.done("owner", "confirm")["code"]) for _ in range(2)]
        self.assertTrue(all(len(each) == 8 and each.isdigit() for each in codes))
        self.assertNotEqual(*codes)
        self.assertRegex(self.gamed("owner", "confirm")[1], r"^\d{4} \d{4}\nworks once, for 10 minutes\n$")
        self.stop(self.process)
        self.assertNotIn(codes[0], self.output())
