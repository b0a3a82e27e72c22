"""The add-on for Godot 4 works in a project, with the game that the README prints for it."""

from functools import cache
from pathlib import Path
from shutil import copy
from xml.etree.ElementTree import fromstring

from twisted.trial.unittest import SynchronousTestCase

from clients.conformance.tests.test_godot3 import own_folders
from clients.godot3.tests.addon import AddonGame, edited
from clients.godot3.tests.readme_game import APP_LINK
from clients.godot4.tests import test_readme
from clients.godot4.tests.engine import godot4

PHONE = Path(__file__).with_name("specimens") / "phone.gd"
SETTINGS = """\
config_version=5
[editor_plugins]
enabled=PackedStringArray("res://addons/switch/plugin.cfg")
"""


class Addon(AddonGame, SynchronousTestCase):
    version = "godot4"
    project = test_readme.Readme.project
    scene = test_readme.Readme.scene
    engine = test_readme.Readme.engine

    def open_address(self, url: str) -> None:
        if not url.startswith(APP_LINK):
            return super().open_address(url)
        opened = self.folder / "opened.new"
        opened.write_text(url, "utf-8")
        opened.rename(self.folder / "opened.txt")  # whole, at once

    def test_phone(self) -> None:
        """On Android the browser returns to the game by the address in the project's settings."""
        copy(PHONE, self.folder)
        with (self.folder / "project.godot").open("a") as project:
            project.write(f'return_uri="{APP_LINK}/signin"\n[autoload]\nPhone="*res://phone.gd"\n')
        said = self.play(own_folders(), 1)
        self.assertIn("Opened by the browser\n", said)
        self.assertNotIn("res://", "".join(said))


@cache
def editor() -> list[str]:
    return edited("godot4", SETTINGS, [godot4(), "--headless"])


class Editor(SynchronousTestCase):
    def test_switched(self) -> None:
        """The editor registers the autoload and the settings with the add-on, and removes the autoload again."""
        settings = [f"gamed/{name}" for name in ("server", "app", "return_uri")]
        expected = [f"true HAS {name}" for name in ("autoload/Gamed", *settings)]
        expected += [f"false HAS {name}" for name in settings]
        self.assertEqual([line for line in editor() if " HAS " in line], expected)
        self.assertEqual([line for line in editor() if "SCRIPT ERROR" in line], [])

    def test_android_manifest(self) -> None:
        """An Android app with an address to return to gets an intent filter for this address alone."""
        first, *filters = (line.partition(" ")[2] for line in editor() if line.startswith("FILTER"))
        self.assertEqual(first, "")
        found = [fromstring(text.replace("android:", "")) for text in filters]
        self.assertEqual([each.get("autoVerify") for each in found], [None, None, "true"])
        data = [
            {"scheme": "com.example.game"},
            {"scheme": "com.example.game", "host": "signin"},
            {"scheme": "https", "host": "app.example.org", "path": "/a&b"},
        ]
        self.assertEqual([each[-1].attrib for each in found], data)
