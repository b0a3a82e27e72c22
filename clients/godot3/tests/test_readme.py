"""The game that the README of the client for Godot 3 prints is played."""

from twisted.trial.unittest import SynchronousTestCase

from clients.conformance.tests.test_godot3 import godot3_server
from clients.godot3.tests.readme_game import ReadmeGame


class Readme(ReadmeGame, SynchronousTestCase):
    version = "godot3"
    project = """\
config_version=4
[application]
config/name="My game"
run/main_scene="res://main.tscn"
[autoload]
Watch="*res://watch.gd"
"""
    scene = """\
[gd_scene load_steps=2 format=2]
[ext_resource path="res://main.gd" type="Script" id=1]
[node name="Main" type="Node"]
script = ExtResource( 1 )
"""

    @classmethod
    def engine(cls) -> list[str]:
        return [godot3_server(), "--no-window"]
