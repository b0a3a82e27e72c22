"""The JavaScript client keeps the rules, in Node.js and in three browsers (docs/protocol.md: Rules for clients)."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from shutil import which

from twisted.trial.unittest import SynchronousTestCase

from clients.conformance.tests.helpers import CLIENTS, ROOT, ConformanceCase
from tests.support.folders import unused_path
from tests.support.nodejs import NODE

CHROMIUM = [sys.executable, str(CLIENTS / "js" / "tests" / "chromium_driver.py")]
ENGINE = [sys.executable, str(CLIENTS / "js" / "tests" / "engine_driver.py")]
OF_ENGINES = (
    "assets_*",
    "cancel_*",
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
"""Where engines differ: IndexedDB, locks, events of the network, answers that break off, the end of a request."""
CONTINUES = ("assets_resume", "cancel_download_part", "export_interrupted")
"""They count on bytes that arrived before an answer broke off; Firefox and WebKit may drop these, and the client then
asks for them again."""
DIRECT = ("cancel_at_server",)
"""They reach the real server, which lets pages of other origins read nothing."""
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

HANGING = """
import os, subprocess, time
from clients.js.tests import chromium_driver

def start():
    child = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL, start_new_session=True)
    print(child.pid, flush=True)
    time.sleep(600)

chromium_driver.START_SECONDS = 2.0
chromium_driver.serve(f"gamed-hanging-{os.getpid()}", start)
"""
"""A process whose browser starts another one, and then hangs."""
LEAVING = """
import subprocess, sys

with subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as driver:
    print(driver.stdout.readline().decode(), flush=True)
    sys.stdin.readline()
    driver.kill()
"""
"""A suite that has a driver until it reads a line, and then ends."""
ALONE = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:], stdin=subprocess.DEVNULL))"
"""Runs a driver as a suite of its own: drivers share the browser of the process that starts them."""


def accepts(name: str) -> bool:
    """Return whether a process listens there, without a connection, which would be a driver."""
    return f" @{name[1:]}\n" in Path("/proc/net/unix").read_text()


def engine_command(name: str) -> Sequence[str]:
    """Return the driver's command; raise FileNotFoundError if the browser is not installed, before it is tried."""
    from tests.e2e.engines import ENGINES  # only here: it takes a second

    for program in ENGINES[name].programs:
        if which(program) is None:
            raise FileNotFoundError(f"{program} is not installed")
    return [*ENGINE, name]


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
    never = (*CONTINUES, *DIRECT, *REPEATED)

    @classmethod
    def driver(cls) -> Sequence[str]:
        return engine_command("firefox")


class JavaScriptInWebKit(ConformanceCase):
    """A private window, as WebKit's driver opens no other: its databases take no Blob, so that no release is kept."""

    lacks = frozenset({"loopback", "assets"})
    few = OF_ENGINES
    never = (*CONTINUES, *DIRECT)

    @classmethod
    def driver(cls) -> Sequence[str]:
        return engine_command("webkit")


class ChromiumDriverTests(SynchronousTestCase):
    def test_ending_browser(self) -> None:
        """A driver that meets a browser as it ends starts another one."""
        done = subprocess.run([sys.executable, "-c", ENDING, *CHROMIUM], capture_output=True, timeout=120, check=True)
        self.assertEqual(json.loads(done.stdout)["event"], "hello")

    def test_left_browser(self) -> None:
        """A browser ends soon after its suite, although it waits long for the next driver of a suite that is alive."""
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        with subprocess.Popen([sys.executable, "-c", LEAVING, *CHROMIUM], **streams) as suite:
            assert suite.stdout is not None
            self.assertEqual(json.loads(suite.stdout.readline())["event"], "hello")
            name = f"\0gamed-chromium-{os.getuid()}-{suite.pid}"
            self.assertTrue(accepts(name))
            suite.communicate(b"\n")
        limit = time.monotonic() + 15
        while accepts(name):
            self.assertLess(time.monotonic(), limit)
            time.sleep(0.5)

    def test_missing_browser(self) -> None:
        """A driver without its browser ends soon, with the reason, and leaves no folder."""
        folder = unused_path(self)
        folder.mkdir()
        environ = {**os.environ, "CHROMIUM": "/none/chromium", "FIREFOX": "/none/firefox", "TMPDIR": str(folder)}
        environ["NODE_DISABLE_COMPILE_CACHE"] = "1"  # the tools' cache is no folder of the driver
        for command, program in ((CHROMIUM, "/none/chromium"), ([*ENGINE, "firefox"], "/none/firefox")):
            whole = [sys.executable, "-c", ALONE, *command]
            done = subprocess.run(whole, capture_output=True, text=True, timeout=50, check=False, env=environ)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn(program, done.stderr)
        self.assertEqual(list(folder.iterdir()), [])

    def test_hanging_browser(self) -> None:
        """A browser that hangs as it starts is ended with its processes."""
        environ = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", HANGING]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environ)
        self.assertEqual((done.returncode, done.stderr), (1, "the browser has not started within 2 s\n"))
        status = Path(f"/proc/{int(done.stdout)}/status")
        with contextlib.suppress(FileNotFoundError):  # until its new parent has noted its end
            self.assertIn("State:\tZ", status.read_text())
