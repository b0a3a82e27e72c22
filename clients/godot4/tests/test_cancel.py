"""A game can end its calls early, in both versions of the engine."""

from twisted.trial.unittest import SynchronousTestCase

from clients.conformance.tests import test_godot3, test_godot4
from clients.godot3.tests.cancelling import Cancelling


class Godot4(Cancelling, SynchronousTestCase):
    case = test_godot4.Godot4


class Godot3(Cancelling, SynchronousTestCase):
    case = test_godot3.Godot3
