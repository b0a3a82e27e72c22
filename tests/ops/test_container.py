"""The container's steps, performed without an engine by `etc/rehearse-container`."""

import re
import subprocess
import sys
from sysconfig import get_path

from twisted.trial.unittest import SynchronousTestCase

from tests.cli.process import ROOT, environment
from tests.support.covers import covers

REHEARSAL_SECONDS = 120


@covers("2.1/4")
class ContainerTests(SynchronousTestCase):
    def setUp(self) -> None:
        text = (ROOT / "etc/Containerfile").read_text("utf-8")
        self.steps = [line for line in text.splitlines() if line and not line.startswith("#")]

    def test_rehearsed(self) -> None:
        """Every step is performed, in order; what they make starts, is well, stops with 0 and starts again.

        It writes nothing but the volume, as the container's user where root runs this. The libraries are borrowed from
        this environment.
        """
        done = subprocess.run(
            [sys.executable, str(ROOT / "etc/rehearse-container"), "--borrow", get_path("purelib")],
            capture_output=True,
            text=True,
            timeout=REHEARSAL_SECONDS,
            env=environment({}),
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        said = done.stdout.splitlines()
        self.assertEqual([line for line in said if line in self.steps], self.steps)
        self.assertRegex(said[-1], r"^ok: \d+ files")

    def test_what_owners_rely_on(self) -> None:
        """The paths of SPEC 2.1, a user that is not root, a port that is not encrypted and says so."""
        for step in (
            "ENV GAMED_CONFIG=/app/data/config/authentication.json",
            "ENV GAMED_DATA=/app/data",
            "ENV GAMED_PRIVATE_LISTEN=1",
            "VOLUME /app/data",
            "EXPOSE 8080",
            "STOPSIGNAL SIGTERM",
        ):
            self.assertIn(step, self.steps)
        [user] = [step for step in self.steps if step.startswith("USER ")]
        self.assertGreaterEqual(min(map(int, re.findall(r"\d+", user))), 10_000)
        self.assertTrue(any(re.fullmatch(r'HEALTHCHECK .*CMD \["gamed", "health"\]', step) for step in self.steps))
