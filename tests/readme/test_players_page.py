"""The commands of some owners' pages work in the order of the pages."""

import json
import sys
from zipfile import ZipFile

from twisted.trial.unittest import SynchronousTestCase

from tests.e2e.service import ROOT, Service
from tests.readme.test_transcript import bash
from tests.support.folders import unused_path
from tests.test_page_commands import blocks


def marked(page: str) -> list[str]:
    """Return the blocks of a page that this module runs."""
    found = blocks(page, (ROOT / page).read_text("utf-8"))
    return [block.text for block in found if block.how == "run by" and block.word == __name__]


def of_language(page: str, language: str) -> list[str]:
    """Return the blocks of a page in this language."""
    return [block.text for block in blocks(page, (ROOT / page).read_text("utf-8")) if block.language == language]


class OwnerPagesTests(SynchronousTestCase):
    def setUp(self) -> None:
        folder = unused_path(self)
        self.service = Service(folder)
        self.addCleanup(self.service.close)
        self.service.start()
        places = f"--config '{self.service.config}' --data '{self.service.data}'"
        command = f"PYTHONPATH='{ROOT}' '{sys.executable}' -m gamed {places}"
        self.prelude = f'gamed() {{ {command} "$@"; }}\n'
        self.prelude += "".join(f"export {name}='{value}'\n" for name, value in self.service.environ.items())
        for name in ("anna", "bo"):
            self.prelude += f"echo 'correct horse battery' | gamed players add {name} --password-stdin\n"

    def run_page(self, page: str) -> str:
        """Run the marked blocks of a page in one shell that ends at the first failure, and return what they print."""
        found = marked(page)
        self.assertTrue(found)
        script = "\n".join(found).replace("/var/tmp/", f"{self.service.folder}/var/tmp/")
        done = bash(self.prelude + script, self.service.folder)
        self.assertEqual(done.returncode, 0, f"{done.stdout}\n{done.stderr}")
        return done.stdout

    def test_players(self) -> None:
        """Blocking, revoking, merging and erasing a player work as printed; no player is left."""
        printed = self.run_page("docs/owners/players.md")
        self.assertIn("anna", printed)
        self.assertEqual(self.service.rows()["player"], 0)

    def test_doctor(self) -> None:
        """`gamed doctor` finds no problem on a new server."""
        self.assertNotIn("problem ", self.run_page("docs/owners/troubleshooting.md"))

    def test_events(self) -> None:
        """`gamed events` shows what the commands before it did."""
        self.assertIn("players add", self.run_page("docs/owners/monitoring.md"))

    def test_moving_in(self) -> None:
        """The files become current saves under the names of the page, also from a name with capitals and blanks."""
        for name, data in (
            ("old-saves/autosave.dat", b"level 4"),
            ("old-saves/level2.dat", b"level 2"),
            ("more-saves/Quick Save.sav", b"level 3"),
        ):
            file = self.service.folder / name
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(data)
        printed = self.run_page("docs/owners/moving-in.md")
        for line in ("auto (7 B) would be written", "level-2 (7 B) is written", "quick-save (7 B) is written"):
            self.assertIn(line, printed)
        self.assertEqual(self.service.rows()["save"], 3)

    def test_moving_in_with_titles(self) -> None:
        """The manifest of the page gives a save its title and its media type."""
        [manifest] = of_language("docs/owners/moving-in.md", "json")
        for name, text in (("manifest.json", manifest), ("saves/auto/1", "{}"), ("saves/level-2/1", "level 2")):
            file = self.service.folder / "export" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        commands = "gamed saves import anna export\ngamed saves export anna anna.zip"
        done = bash(f"{self.prelude}{commands}", self.service.folder)
        self.assertEqual(done.returncode, 0, f"{done.stdout}\n{done.stderr}")
        self.assertIn("level-2 (7 B) is written", done.stdout)
        with ZipFile(self.service.folder / "anna.zip") as archive:
            versions = json.loads(archive.read("manifest.json"))["versions"]
        found = {each["slot"]: (each["content_type"], each["meta"]) for each in versions}
        self.assertEqual(found["auto"], ("application/json", {"title": "Chapter 4"}))
        self.assertEqual({*found}, {"auto", "level-2"})
