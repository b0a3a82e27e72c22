"""When the service says what to its manager, and from which process; the manager is played, the service is real."""

import os
import signal
import time

from tests.cli.process import GAMED, TWISTD, CommandTestCase, end_daemon, free_port, get, without_root_warning
from tests.ops.systemd_manager import FakeManager
from tests.support.stores import sqlite_files

WATCHDOG_USEC = "400000"


class RunningTests(CommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.manager = FakeManager(self, self.folder / "notify")
        self.environ["NOTIFY_SOCKET"] = self.manager.address
        self.port = free_port()
        self.listen = f"--listen=tcp:{self.port}:interface=127.0.0.1"

    def test_from_start_to_end(self) -> None:
        """READY comes when the first request is answered, signs of life follow, STOPPING comes before the end.

        What the service would start finds none of the variables.
        """
        self.environ["WATCHDOG_USEC"] = WATCHDOG_USEC
        process = self.start(*GAMED, *self.places, "serve", self.listen)
        self.manager.wait_for("READY=1")
        self.assertEqual(get(self.port, "/healthz"), (200, b"ok"))
        self.assertIn(f"STATUS=serving at http://127.0.0.1:{self.port}", self.manager.lines)
        self.manager.wait_for("WATCHDOG=1", times=3)
        self.assertEqual(self.stop(process), 0, self.output())
        lines = self.manager.lines
        self.assertLess(lines.index("READY=1"), lines.index("WATCHDOG=1"))
        self.assertNotIn("WATCHDOG=1", lines[lines.index("STOPPING=1") :])
        self.assertEqual((lines.count("READY=1"), lines.count("STOPPING=1")), (1, 1))
        self.assertEqual({message.pid for message in self.manager.messages}, {process.pid})

    def test_a_watchdog_of_somebody_else(self) -> None:
        """Signs of life that another process shall give are not given."""
        self.environ |= {"WATCHDOG_USEC": WATCHDOG_USEC, "WATCHDOG_PID": "1"}
        process = self.start(*GAMED, *self.places, "serve", self.listen)
        self.manager.wait_for("READY=1")
        time.sleep(1)
        self.assertEqual(self.stop(process), 0)
        self.assertNotIn("WATCHDOG=1", self.manager.lines)

    def test_daemon(self) -> None:
        """Under `twistd gamed serve` it is the daemon that is ready, not the process that was started."""
        code, _, err = self.run_command("gamed", "serve", *self.places, self.listen, of=TWISTD)
        self.assertEqual((code, without_root_warning(err)), (0, ""))
        pid = int((self.folder / "twistd.pid").read_text())
        self.addCleanup(end_daemon, pid)
        self.manager.wait_for("READY=1")
        os.kill(pid, signal.SIGTERM)
        self.manager.wait_for("STOPPING=1")
        self.assertEqual({message.pid for message in self.manager.messages}, {pid})

    def test_refused(self) -> None:
        """A service with a wrong configuration is never ready; the exit code is 78."""
        self.config.write_text('{"mode": "oauth"}')
        code, _, _ = self.gamed("serve", self.listen)
        self.assertEqual((code, self.manager.lines), (78, []))

    @sqlite_files("a damaged file; tests.cli.test_postgresql has a schema that is lost")
    def test_without_saves(self) -> None:
        """A damaged state.db is reported, and the service still starts; the watchdog asks the other database."""
        self.data.mkdir()
        (self.data / "state.db").write_bytes(b"no database" * 100)
        self.environ["WATCHDOG_USEC"] = WATCHDOG_USEC
        process = self.start(*GAMED, *self.places, "serve", self.listen)
        self.manager.wait_for("READY=1")
        self.manager.wait_for("WATCHDOG=1", times=2)
        status = f"STATUS=serving at http://127.0.0.1:{self.port}; a database does not respond: DatabaseUnavailable"
        self.assertIn(status, self.manager.lines)
        self.assertEqual(get(self.port, "/auth/config")[0], 200)
        self.assertEqual(self.stop(process), 0)
