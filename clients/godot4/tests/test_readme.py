"""The game that the README of the client for Godot 4 prints is played."""

import subprocess

from twisted.trial.unittest import SynchronousTestCase

from clients.conformance.tests.test_godot3 import own_folders
from clients.godot3.tests.readme_game import ReadmeGame
from clients.godot4.tests.engine import godot4


class Readme(ReadmeGame, SynchronousTestCase):
    version = "godot4"
    project = """\
config_version=5
[application]
config/name="My game"
run/main_scene="res://main.tscn"
[autoload]
Watch="*res://watch.gd"
"""
    scene = """\
[gd_scene load_steps=2 format=3]
[ext_resource type="Script" path="res://main.gd" id="1"]
[node name="Main" type="Node"]
script = ExtResource("1")
"""

    def add_game(self, game: str) -> None:
        """Let the engine find the global names, as the editor does when it opens a project."""
        super().add_game(game)
        command = [*own_folders(), *self.engine(), "--path", str(self.folder), "--import"]
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=100, check=True)

    @classmethod
    def engine(cls) -> list[str]:
        return [godot4(), "--headless"]
