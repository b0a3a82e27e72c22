"""The add-on for Godot 3 works in a project, with the game that the README prints for it."""

from twisted.trial.unittest import SynchronousTestCase

from clients.godot3.tests import test_readme
from clients.godot3.tests.addon import AddonGame


class Addon(AddonGame, SynchronousTestCase):
    version = "godot3"
    project = test_readme.Readme.project
    scene = test_readme.Readme.scene
    engine = test_readme.Readme.engine
