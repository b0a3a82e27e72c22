"""The wall clock of a machine may be set while the service runs."""

import time
from contextlib import closing
from http.client import HTTPConnection

from tests.cli.process import ROOT, WAIT_SECONDS, CommandTestCase, get

SHIFTED = """
import os, time
now, now_ns, mark = time.time, time.time_ns, os.environ["CLOCK_SET"]
def seconds():
    return int(open(mark).read()) if os.path.exists(mark) else 0
time.time = lambda: now() + seconds()
time.time_ns = lambda: now_ns() + seconds() * 10**9
"""
"""A clock that is set by writing a file."""
DAY = 24 * 3600


class ClockTests(CommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        (self.folder / "sitecustomize.py").write_text(SHIFTED)
        self.mark = self.folder / "clock"
        self.environ |= {"PYTHONPATH": f"{self.folder}:{ROOT}", "CLOCK_SET": str(self.mark)}

    def set_clock(self, by_seconds: int) -> None:
        """Set the clock of the running process."""
        part = self.folder / "part"
        part.write_text(str(by_seconds))
        part.replace(self.mark)

    def test_set_back(self) -> None:
        """Run timers and the shutdown on time after the clock was set back by a day."""
        process, port = self.serve()
        get(port, "/auth/config")
        self.set_clock(-DAY)
        deadline = time.monotonic() + WAIT_SECONDS
        while "method=GET route=/auth/config status=200" not in self.output() and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertIn("method=GET route=/auth/config status=200", self.output())
        self.assertEqual(self.stop(process), 0)

    def test_set_forward(self) -> None:
        """No connection is taken to be idle or slow because the clock was set forward a day."""
        process, port = self.serve()
        with closing(HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
            connection.putrequest("POST", "/auth/login")
            connection.putheader("Content-Type", "application/json")
            connection.putheader("Content-Length", "2")
            connection.endheaders(b"{")
            get(port, "/auth/config")
            self.set_clock(DAY)
            self.assertEqual(get(port, "/healthz"), (200, b"ok"))
            connection.send(b"}")
            self.assertEqual(connection.getresponse().status, 201)
        self.assertEqual(self.stop(process), 0)
