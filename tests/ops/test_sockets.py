"""Sockets that outlive the service: opened by systemd, adopted by gamed, and no connection is refused in between."""

import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

from gamed.cli.checks.http_client import UnixConnection
from tests.cli.process import GAMED, TWISTD, WAIT_SECONDS, CommandTestCase, environment, free_port

ADDRESS = "http://localhost:8080"
AS_SYSTEMD = """
import os, sys
from fcntl import F_DUPFD, fcntl
number = int(sys.argv[1])
lifted = [fcntl(int(each), F_DUPFD, 100) for each in sys.argv[2:2 + number]]
for n, each in enumerate(lifted):
    os.dup2(each, 3 + n)
    os.close(each)
names = ":".join(["gamed"] * number)
if "WATCHDOG_USEC" in os.environ:
    os.environ["WATCHDOG_PID"] = str(os.getpid())
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(number), LISTEN_FDNAMES=names)
os.execvp(sys.argv[2 + number], sys.argv[2 + number:])
"""
CLIENTS = 20


def over(connection: HTTPConnection) -> bytes:
    with closing(connection):
        connection.request("GET", "/healthz")
        return connection.getresponse().read()


def ask(port: int, host: str = "127.0.0.1") -> bytes:
    return over(HTTPConnection(host, port, timeout=WAIT_SECONDS))


def ask_path(path: str) -> bytes:
    connection = UnixConnection(path)
    connection.timeout = WAIT_SECONDS
    return over(connection)


class SocketTestCase(CommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.write_config({"mode": "local", "public_url": ADDRESS})

    def listening(self, family: socket.AddressFamily, address: object) -> socket.socket:
        """Open the sockets of a socket unit."""
        sock = socket.socket(family)
        self.addCleanup(sock.close)
        sock.bind(address)
        sock.listen(4096)
        return sock

    def passing(
        self,
        *sockets: socket.socket,
        options: tuple[str, ...] = (),
        program: tuple[str, ...] = GAMED,
        order: tuple[str, ...] = (),
    ) -> "subprocess.Popen[str]":
        """`gamed serve` started as systemd does: the sockets from descriptor 3 on, the variables in the environment."""
        numbers = [each.fileno() for each in sockets]
        launcher = [sys.executable, "-c", AS_SYSTEMD, str(len(numbers)), *map(str, numbers)]
        words = [*order, *self.places] if order else [*self.places, "serve"]
        command = [*launcher, *program, *words, *options]
        with open(self.folder / "out", "a", encoding="utf-8") as out:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                text=True,
                env=environment(self.environ),
                pass_fds=numbers,
            )
        self.addCleanup(self._end, process)
        return process

    def refused(self, *sockets: socket.socket, options: tuple[str, ...] = ()) -> str:
        """Return the message of a refused start."""
        process = self.passing(*sockets, options=options)
        self.assertEqual(process.wait(WAIT_SECONDS), 78)
        return self.output()

    def _end(self, process: "subprocess.Popen[str]") -> None:
        process.kill()
        process.wait()


class RestartTests(SocketTestCase):
    def test_no_client_is_refused(self) -> None:
        """Answer clients that connect during a restart, over TCP and over a unix socket. The file of the unix socket
        stays as it was.
        """
        path = str(self.folder / "gamed.sock")
        tcp, unix = self.listening(socket.AF_INET, ("127.0.0.1", 0)), self.listening(socket.AF_UNIX, path)
        port = tcp.getsockname()[1]
        Path(path).chmod(0o600)
        first = self.passing(tcp, unix)
        self.assertEqual((ask(port), ask_path(path)), (b"ok", b"ok"))
        self.assertEqual(self.stop(first), 0, self.output())
        self.assertEqual(Path(path).stat().st_mode & 0o777, 0o600)
        with ThreadPoolExecutor(CLIENTS) as pool:
            waiting = [pool.submit(ask, port) for _ in range(CLIENTS // 2)]
            waiting += [pool.submit(ask_path, path) for _ in range(CLIENTS // 2)]
            second = self.passing(tcp, unix)
            self.assertEqual({each.result() for each in waiting}, {b"ok"})
        self.assertEqual(self.gamed("health"), (0, "ok\n", ""))
        self.assertEqual(self.stop(second), 0, self.output())

    def test_without_names(self) -> None:
        """Serve on sockets that are passed without names, or with too few: only their number is required."""
        for variables in (("-u", "LISTEN_FDNAMES"), ("LISTEN_FDNAMES=",), ("LISTEN_FDNAMES=one",)):
            tcp, other = (self.listening(socket.AF_INET, ("127.0.0.1", 0)) for _ in range(2))
            process = self.passing(tcp, other, program=("env", *variables, *GAMED))
            self.assertEqual([ask(each.getsockname()[1]) for each in (tcp, other)], [b"ok", b"ok"])
            self.assertEqual(self.stop(process), 0, self.output())

    def test_without_names_under_twistd(self) -> None:
        """Twisted leaves out sockets without names: refuse to start then, instead of listening where no client is."""
        tcp = self.listening(socket.AF_INET, ("127.0.0.1", 0))
        names = ("env", "-u", "LISTEN_FDNAMES")
        process = self.passing(tcp, program=(*names, *TWISTD, "-n", "gamed"), order=("serve",))
        self.assertEqual(process.wait(WAIT_SECONDS), 78, self.output())
        self.assertIn("systemd passes 1 socket, and Twisted found 0 of them: set LISTEN_FDNAMES", self.output())
        self.assertFalse(self.data.exists())
        process = self.passing(tcp, program=(*TWISTD, "-n", "gamed"), order=("serve",))
        self.assertEqual(ask(tcp.getsockname()[1]), b"ok")
        self.assertEqual(self.stop(process), 0, self.output())

    def test_just_before_the_stop(self) -> None:
        """Answer requests sent just before the stop, by the old server or by the next."""
        tcp = self.listening(socket.AF_INET, ("127.0.0.1", 0))
        port = tcp.getsockname()[1]
        first = self.passing(tcp)
        self.assertEqual(ask(port), b"ok")
        first.send_signal(signal.SIGSTOP)
        clients = [HTTPConnection("127.0.0.1", port, timeout=WAIT_SECONDS) for _ in range(CLIENTS)]
        for client in clients:
            self.addCleanup(client.close)
            client.request("GET", "/healthz")
        first.send_signal(signal.SIGTERM)
        first.send_signal(signal.SIGCONT)
        self.assertEqual(first.wait(WAIT_SECONDS), 0, self.output())
        second = self.passing(tcp)
        answers = [client.getresponse() for client in clients]
        self.assertLessEqual({answer.status for answer in answers}, {200, 503})
        self.assertEqual(ask(port), b"ok")  # the first may have answered all of them, the second not be up yet
        self.assertEqual(self.stop(second), 0, self.output())

    def test_systemd_itself(self) -> None:
        """systemd-socket-activate listens, and starts the service for the first who connects."""
        port, path = free_port(), str(self.folder / "gamed.sock")
        variables = [f"--setenv={name}={value}" for name, value in environment(self.environ).items()]
        sockets = [f"--listen=127.0.0.1:{port}", f"--listen={path}", "--fdname=gamed:gamed"]
        self.start("systemd-socket-activate", *sockets, *variables, *GAMED, *self.places, "serve")
        deadline = time.monotonic() + WAIT_SECONDS
        while f"Listening on {path}" not in self.output() and time.monotonic() < deadline:
            time.sleep(0.05)
        with ThreadPoolExecutor(CLIENTS) as pool:
            waiting = [pool.submit(ask, port) for _ in range(CLIENTS - 1)]
            self.assertEqual(ask_path(path), b"ok", self.output())
            self.assertEqual({each.result() for each in waiting}, {b"ok"})


class ChoiceTests(SocketTestCase):
    def test_named(self) -> None:
        """An endpoint string names one by its name, where others name it by its number."""
        tcp = self.listening(socket.AF_INET, ("127.0.0.1", 0))
        process = self.passing(tcp, options=("--listen", "systemd:domain=INET:name=gamed"))
        self.assertEqual(ask(tcp.getsockname()[1]), b"ok")
        self.assertEqual(self.stop(process), 0, self.output())

    def test_deaf(self) -> None:
        """A socket that no --listen names, or two do, is no start: its clients would wait for ever."""
        sockets = [self.listening(socket.AF_INET, ("127.0.0.1", 0)) for _ in range(2)]
        said = self.refused(*sockets, options=("--listen", "systemd:domain=INET:index=1"))
        self.assertIn("Add --listen systemd:domain=INET:index=0", said)
        twice = ("--listen", "systemd:domain=INET:index=0") * 2
        self.assertIn("more than one --listen names this socket", self.refused(sockets[0], options=twice))

    def test_without_an_address(self) -> None:
        """In local mode the address must be configured: a passed socket has none.

        See docs/owners/commands.md: Three ways to run the service.
        """
        self.write_config()
        said = self.refused(self.listening(socket.AF_INET, ("127.0.0.1", 0)))
        self.assertIn("Set public_url", said)

    def test_exposed(self) -> None:
        """A passed socket is checked by the address it is bound to (SPEC 5/10)."""
        self.assertIn("without encryption", self.refused(self.listening(socket.AF_INET, ("0.0.0.0", 0))))
