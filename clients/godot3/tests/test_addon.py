"""The add-on for Godot 3 works in a project, with the game that the README prints for it."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from shutil import which

from twisted.trial.unittest import SynchronousTestCase

from clients.godot3.tests import test_readme
from clients.godot3.tests.addon import TRIES, AddonGame, edited

NEEDED = ("godot3", "Xvfb")
"""The editor, which opens a window, and a display without a screen."""
SETTINGS = """\
config_version=4
[editor_plugins]
enabled=PoolStringArray( "switch" )
"""


@contextmanager
def display() -> Iterator[str]:
    """Run a display with a free number; yield its name."""
    # Without -noreset it refuses connections for a moment after the last one, as of an editor that has ended.
    command = ["Xvfb", "-displayfd", "1", "-noreset", "-screen", "0", "1280x800x24"]
    for _ in range(TRIES):
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as xvfb:
            try:
                assert xvfb.stdout
                if number := xvfb.stdout.readline().strip():  # none if another one took its number meanwhile
                    yield f":{number}"
                    return
            finally:
                xvfb.terminate()
    raise AssertionError("Xvfb does not start")


class Addon(AddonGame, SynchronousTestCase):
    version = "godot3"
    project = test_readme.Readme.project
    scene = test_readme.Readme.scene
    engine = test_readme.Readme.engine


class Editor(SynchronousTestCase):
    def test_switched(self) -> None:
        """The editor registers the autoload and the settings with the add-on, and removes the autoload again."""
        if missing := [name for name in NEEDED if which(name) is None]:
            raise FileNotFoundError(f"This test needs {', '.join(missing)}: apt-get install godot3 xvfb")
        with display() as name:
            editor = [f"DISPLAY={name}", "godot3", "--video-driver", "GLES2", "--audio-driver", "Dummy"]
            lines = edited("godot3", SETTINGS, editor)
        expected = ["True HAS autoload/Gamed", "True HAS gamed/server", "True HAS gamed/app"]
        expected += ["False HAS gamed/server", "False HAS gamed/app"]
        self.assertEqual([line for line in lines if " HAS " in line], expected)
        self.assertEqual([line for line in lines if "SCRIPT ERROR" in line], [])
