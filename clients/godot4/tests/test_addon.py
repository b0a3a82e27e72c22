"""The add-on for Godot 4 works in a project, with the game that the README prints for it."""

import subprocess
from pathlib import Path
from shutil import copytree

from twisted.trial.unittest import SynchronousTestCase

from clients.conformance.tests.test_godot3 import own_folders
from clients.godot3.tests.addon import AddonGame, add_addon
from clients.godot4.tests import test_readme
from clients.godot4.tests.engine import godot4

SWITCH = Path(__file__).with_name("specimens") / "switch"
PROJECT = """\
config_version=5
[editor_plugins]
enabled=PackedStringArray("res://addons/switch/plugin.cfg")
"""
LIMIT_SECONDS = 90


class Addon(AddonGame, SynchronousTestCase):
    version = "godot4"
    project = test_readme.Readme.project
    scene = test_readme.Readme.scene
    engine = test_readme.Readme.engine


class Editor(SynchronousTestCase):
    def test_switched(self) -> None:
        """The editor registers the autoload and the settings with the add-on, and removes the autoload again."""
        project = Path(self.mktemp()).absolute()
        add_addon("godot4", project)
        copytree(SWITCH, project / "addons" / "switch")
        (project / "project.godot").write_text(PROJECT, "utf-8")
        command = [*own_folders(), godot4(), "--headless", "--editor", "--path", str(project)]
        ran = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_SECONDS, check=True
        )
        found = [line for line in ran.stdout.splitlines() if " HAS " in line]
        enabled = ["true HAS autoload/Gamed", "true HAS gamed/server", "true HAS gamed/app"]
        self.assertEqual(found, [*enabled, "false HAS gamed/server", "false HAS gamed/app"])
        self.assertNotIn("SCRIPT ERROR", ran.stdout)
