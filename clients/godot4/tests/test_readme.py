"""The game that the README of the client for Godot 4 prints is played."""

from twisted.trial.unittest import SynchronousTestCase

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

    @classmethod
    def engine(cls) -> list[str]:
        return [godot4(), "--headless"]
