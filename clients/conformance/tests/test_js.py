"""The JavaScript client, in Node.js and in Chromium, keeps the rules (docs/protocol.md: Rules for clients)."""

import json
import subprocess
import sys
from collections.abc import Sequence

from twisted.trial.unittest import SynchronousTestCase

from clients.conformance.tests.helpers import CLIENTS, ConformanceCase
from tests.support.nodejs import NODE

CHROMIUM = [sys.executable, str(CLIENTS / "js" / "tests" / "chromium_driver.py")]
ENDING = """
import os, socket, subprocess, sys

listener = socket.socket(socket.AF_UNIX)
listener.bind(f"\\0gamed-chromium-{os.getuid()}-{os.getpid()}")
listener.listen()
with subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as driver:
    connection, _ = listener.accept()
    listener.close()
    connection.close()
    print(driver.stdout.readline().decode())
    driver.kill()
"""
"""A browser's process that ends as a driver connects to it; it prints the driver's first line."""


class JavaScript(ConformanceCase):
    @classmethod
    def driver(cls) -> Sequence[str]:
        return [NODE, str(CLIENTS / "js" / "driver.mjs")]


class JavaScriptInChromium(ConformanceCase):
    """The same client in a page: it uses IndexedDB, and the player types the code."""

    lacks = frozenset({"loopback"})

    @classmethod
    def driver(cls) -> Sequence[str]:
        return CHROMIUM


class ChromiumDriverTests(SynchronousTestCase):
    def test_ending_browser(self) -> None:
        """A driver that meets a browser as it ends starts another one."""
        done = subprocess.run([sys.executable, "-c", ENDING, *CHROMIUM], capture_output=True, timeout=120, check=True)
        self.assertEqual(json.loads(done.stdout)["event"], "hello")
