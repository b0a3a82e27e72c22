"""The JavaScript client keeps the rules, in Node.js and in three browsers (docs/protocol.md: Rules for clients)."""

import json
import subprocess
import sys
from collections.abc import Sequence

from twisted.trial.unittest import SynchronousTestCase

from clients.conformance.tests.helpers import CLIENTS, ConformanceCase
from tests.support.nodejs import NODE

CHROMIUM = [sys.executable, str(CLIENTS / "js" / "tests" / "chromium_driver.py")]
ENGINE = [sys.executable, str(CLIENTS / "js" / "tests" / "engine_driver.py")]
OF_ENGINES = (
    "assets_*",
    "credential_damaged",
    "download_damaged",
    "loop_*",
    "session_single_flight",
    "session_two_processes",
    "sync_before_sign_in",
    "sync_damaged",
    "sync_fresh_device_offline",
    "sync_in_use",
    "sync_keep_theirs",
    "sync_killed",
    "sync_not_arrived",
    "sync_pages_cut",
    "sync_play_on",
    "sync_replaced_server",
)
"""Where engines differ: IndexedDB, locks, events of the network, answers that break off."""
CONTINUES = ("assets_resume", "export_interrupted")
"""They count on bytes that arrived before an answer broke off; Firefox and WebKit may drop these, and the client then
asks for them again."""
REPEATED = ("sync_fresh_device_offline", "sync_list_first", "sync_pages_cut", "sync_until_answered")
"""They lose the answer to one GET; Firefox then sends it again, and the client does not notice."""
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


class JavaScriptInFirefox(ConformanceCase):
    lacks = frozenset({"loopback"})
    few = OF_ENGINES
    never = (*CONTINUES, *REPEATED)

    @classmethod
    def driver(cls) -> Sequence[str]:
        return [*ENGINE, "firefox"]


class JavaScriptInWebKit(ConformanceCase):
    """A private window, as WebKit's driver opens no other: its databases take no Blob, so that no release is kept."""

    lacks = frozenset({"loopback", "assets"})
    few = OF_ENGINES
    never = CONTINUES

    @classmethod
    def driver(cls) -> Sequence[str]:
        return [*ENGINE, "webkit"]


class ChromiumDriverTests(SynchronousTestCase):
    def test_ending_browser(self) -> None:
        """A driver that meets a browser as it ends starts another one."""
        done = subprocess.run([sys.executable, "-c", ENDING, *CHROMIUM], capture_output=True, timeout=120, check=True)
        self.assertEqual(json.loads(done.stdout)["event"], "hello")
