"""The ready dialog of the client for Godot 4 is used by a player."""

from twisted.trial.unittest import SynchronousTestCase

from clients.godot3.tests.dialog import DialogCase
from clients.godot4.tests import test_readme


class Dialog(DialogCase, SynchronousTestCase):
    version = "godot4"
    project = test_readme.Readme.project
    scene = test_readme.Readme.scene
    engine = test_readme.Readme.engine
