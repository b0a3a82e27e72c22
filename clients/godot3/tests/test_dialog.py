"""The ready dialog of the client for Godot 3 is used by a player."""

from twisted.trial.unittest import SynchronousTestCase

from clients.godot3.tests import test_readme
from clients.godot3.tests.dialog import DialogCase


class Dialog(DialogCase, SynchronousTestCase):
    version = "godot3"
    project = test_readme.Readme.project
    scene = test_readme.Readme.scene
    engine = test_readme.Readme.engine
