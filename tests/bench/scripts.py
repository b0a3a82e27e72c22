"""The measurements' scripts run as processes, with their folders where the tests' are."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

ROOT = Path(__file__).parents[2]
SECONDS = 300


def run_script(test: SynchronousTestCase, *words: str) -> str:
    """Run `python -m` with these words, which must succeed; return its standard output."""
    environment = {**os.environ, "TMPDIR": tempfile.gettempdir()}
    command = [sys.executable, "-m", *words]
    ran = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=SECONDS
    )
    test.assertEqual(ran.returncode, 0, ran.stderr[-3000:])
    return ran.stdout
