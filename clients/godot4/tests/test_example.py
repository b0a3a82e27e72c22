"""clients/godot4/example.gd is played: a real engine, a real service, a sign-in in the browser."""

from twisted.trial.unittest import SynchronousTestCase

from clients.godot3.tests.test_example import PLAYED, played
from clients.godot4.tests.engine import godot4


class Example(SynchronousTestCase):
    def test_plays(self) -> None:
        """The example opens the browser, gets its return, saves on this device and at the server; no script fails."""
        said = played(self, "godot4", [godot4(), "--headless"])
        self.assertRegex(said, PLAYED)
        self.assertNotIn("res://", said)
