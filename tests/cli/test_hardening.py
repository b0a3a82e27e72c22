import os
import subprocess
import sys
from contextlib import ExitStack, closing
from http.client import HTTPConnection, RemoteDisconnected
from pathlib import Path

from tests.cli.process import GAMED, TWISTD, CommandTestCase, end_daemon, environment, free_port, get
from tests.config.fixtures import ENVIRON, OAUTH
from tests.support.covers import covers

PROBE = """
import ctypes, os, resource, sys
from gamed.cli.process import erase_variables, harden
os.environ["ADDED"] = "added-later"
harden()
erase_variables(["SECRET", "LONG", "EMPTY", "ABSENT", "ADDED"])
print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), resource.getrlimit(resource.RLIMIT_CORE), oct(os.umask(0)))
print(sorted(set(os.environ) & {"SECRET", "SECRET_2", "LONG", "EMPTY", "ADDED"}))
print(ctypes.CDLL(None).getenv(b"SECRET"))
sys.stdout.flush()
sys.stdout.buffer.write(open("/proc/self/environ", "rb").read())
"""


def block(pid: int) -> bytes:
    """Return a process's first environment from /proc; b"" if only root may read it and the test is not root."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except PermissionError:
        return b""


@covers("threats/50")
class HardenTests(CommandTestCase):
    forked = False

    def test_forget(self) -> None:
        """Forgotten variables are gone from the process, its children, and the block that /proc shows; others stay."""
        more = {"SECRET": "sesame-1", "SECRET_2": "kept-2", "LONG": "sesame-3" * 1000, "EMPTY": ""}
        probe = subprocess.run(
            [sys.executable, "-c", PROBE], env=environment(more), capture_output=True, check=True, timeout=120
        ).stdout
        first, names, getenv, shown = probe.split(b"\n", 3)
        self.assertEqual(first, b"0 (0, 0) 0o77")
        self.assertEqual((names, getenv), (b"['SECRET_2']", b"0"))
        self.assertNotIn(b"sesame", shown)
        self.assertIn(b"SECRET_2=kept-2\0", shown)

    def test_of_a_server(self) -> None:
        """In oauth mode neither the server nor its daemon shows a secret in /proc, and neither can dump its memory."""
        self.write_config(OAUTH)
        self.environ = dict(ENVIRON)
        process, _ = self.serve()
        self.look(process.pid)
        self.stop(process)

        port = free_port()
        listen = f"--listen=tcp:{port}:interface=127.0.0.1"
        self.assertEqual(self.run_command("gamed", "serve", *self.places, listen, of=TWISTD)[0], 0)
        pid = int((self.folder / "twistd.pid").read_text())
        self.addCleanup(end_daemon, pid)
        self.await_answer(port)
        self.look(pid)
        for text in (self.output(), (self.folder / "twistd.log").read_text()):
            for secret in ENVIRON.values():
                self.assertNotIn(secret, text)

    def look(self, pid: int) -> None:
        shown = block(pid)
        self.assertTrue(b"PYTHONPATH=" in shown or os.geteuid() != 0)
        for secret in ENVIRON.values():
            self.assertNotIn(secret.encode(), shown)
        limits = Path(f"/proc/{pid}/limits").read_text()
        [core] = [line for line in limits.splitlines() if line.startswith("Max core file size")]
        self.assertEqual(core.split()[4:6], ["0", "0"])
        self.assertEqual(Path(f"/proc/{pid}/environ").stat().st_uid, 0)


class FilesTests(CommandTestCase):
    def test_more_than_the_shell_gives(self) -> None:
        """Started with 300 open files, as a shell gives 1024, the server takes as many connections as it may."""
        port = free_port()
        few = ("sh", "-c", 'ulimit -Sn 300; exec "$@"', "sh")
        process = self.start(*few, *GAMED, *self.places, "serve", f"--listen=tcp:{port}:interface=127.0.0.1")
        self.await_answer(port, process)
        answered = 0
        with ExitStack() as open_ones:
            for _ in range(60):
                connection = open_ones.enter_context(closing(HTTPConnection("127.0.0.1", port, timeout=60)))
                connection.request("GET", "/healthz")
                answered += connection.getresponse().status == 200
        self.assertEqual((answered, self.stop(process)), (60, 0))
        self.assertNotIn("limits.connections", self.output())

    def test_few_connections_are_wanted(self) -> None:
        """The number is reported as well if 400 connections are wanted and 192 can be had."""
        self.write_config({"mode": "local", "limits": {"connections": 400}})
        port = free_port()
        few = ("sh", "-c", 'ulimit -n 256; exec "$@"', "sh")
        process = self.start(*few, *GAMED, *self.places, "serve", f"--listen=tcp:{port}:interface=127.0.0.1")
        self.await_answer(port, process)
        self.assertIn("The server accepts 192 connections at once.", self.output())
        self.assertIn("connections_limited connections=192 wanted=400\n", self.output())
        self.assertEqual(self.stop(process), 0)

    def test_no_more_than_the_shell_gives(self) -> None:
        """With 256 open files the server takes 192 connections, answers all of them, and reports the number."""
        port = free_port()
        few = ("sh", "-c", 'ulimit -n 256; exec "$@"', "sh")
        process = self.start(*few, *GAMED, *self.places, "serve", f"--listen=tcp:{port}:interface=127.0.0.1")
        self.await_answer(port, process)
        self.assertIn("this shell allows 256 open files; limits.connections needs 20256.", self.output())
        self.assertIn("The server accepts 192 connections at once.", self.output())
        self.assertIn("connections_limited connections=192 wanted=20000\n", self.output())
        with ExitStack() as open_ones:
            connections = [HTTPConnection("127.0.0.1", port, timeout=60) for _ in range(192)]
            for _ in range(2):
                for connection in connections:
                    open_ones.callback(connection.close)
                    connection.request("GET", "/healthz")
                    self.assertEqual(connection.getresponse().read(), b"ok")
            self.assertRaises((ConnectionError, RemoteDisconnected), get, port, "/healthz")
        self.assertIn("connections_full connections=192\n", self.output())
        self.await_answer(port, process)
        self.assertEqual(self.stop(process), 0)
