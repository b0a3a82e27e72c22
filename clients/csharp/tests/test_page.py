"""What clients/csharp/README.md shows is true: its samples compile, and its test runs against a real server."""

import re
import shlex
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from clients.csharp.tests.building import CHECKS, CLIENT, CSHARP, ENGINES, bounded, built, folder, tool


def shown() -> list[Path]:
    """Each sample as a file."""
    files = []
    for text in re.findall(r"^```csharp\n(.*?)^```$", (CSHARP / "README.md").read_text("utf-8"), re.M | re.S):
        files.append(folder() / f"sample{len(files)}.cs")
        files[-1].write_text(text, "utf-8")
    return files


class Page(SynchronousTestCase):
    def test_samples(self) -> None:
        """Against stand-ins for the engines."""
        *samples, _ = shown()
        self.assertEqual(len(samples), 4)
        self.assertTrue(built("Shown", *CLIENT[1:], ENGINES, *samples, alone=True).exists())

    def test_a_games_own_tests(self) -> None:
        """Two devices, a conflict, a download, as `gamed dev --script` runs them; and two that run on by themselves."""
        mono, online, checks = tool("mono"), built("Online", shown()[-1]), built("Checks", CHECKS)
        steps = f"{mono} {online} && {mono} {checks} Running {Path(self.mktemp()).absolute()}"
        done = bounded([sys.executable, "-m", "gamed", "dev", "--script", shlex.join(["sh", "-c", steps])])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("all is well", done.stdout)
