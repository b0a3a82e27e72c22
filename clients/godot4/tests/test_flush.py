"""No frame of a game waits for the disk, in both versions of the engine."""

from twisted.trial.unittest import SynchronousTestCase

from clients.conformance.tests import test_godot3, test_godot4
from clients.godot3.tests.flushing import Flushing


class Godot4(Flushing, SynchronousTestCase):
    case = test_godot4.Godot4


class Godot3(Flushing, SynchronousTestCase):
    case = test_godot3.Godot3
