"""`gamed serve --workers N`: a parent with several servers on one socket."""

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from pathlib import Path
from subprocess import Popen
from typing import Any

from msgspec import Struct, field
from twisted.internet.error import ProcessTerminated
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from gamed.cli.errors import SetupError
from gamed.cli.service.listen import numbered
from gamed.cli.service.workers import MARK, WorkerPlan, WorkersParent, log_arguments, parse_count, refuse_kinds
from gamed.config.settings import LogFormat
from gamed.ops.logging import RAW, Observer
from gamed.ops.systemd import SystemdNotifier
from tests.cli.process import (
    GAMED,
    TWISTD,
    WAIT_SECONDS,
    CommandTestCase,
    await_end,
    end_daemon,
    folder_of,
    free_port,
    get,
)
from tests.ops.systemd_manager import FakeManager
from tests.ops.test_sockets import SocketTestCase, ask
from tests.support.ports import free_ports

RESTART_SECONDS = 10
"""Until the parent has started another process; how long its imports take is for the benchmark to say."""
HUNG_SECONDS = 120


def until(true: Callable[[], bool], seconds: float = WAIT_SECONDS) -> float:
    """Wait until a condition is true; return the seconds that it took, raise AssertionError if it takes too long."""
    begun = time.monotonic()
    while not true():
        if time.monotonic() - begun > seconds:
            raise AssertionError(f"not within {seconds} s")
        time.sleep(0.02)
    return time.monotonic() - begun


def children(pid: int) -> list[int]:
    """Return the processes that this one has started and that still run, the oldest first."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = status.read_text("ascii", "replace").rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if int(parent) == pid and state != "Z":
            found.append(int(status.parent.name))
    return sorted(found)


class WorkersTestCase(CommandTestCase):
    def started(self, *options: str, count: int = 2) -> tuple["Popen[str]", int]:
        """Start a parent; wait until all workers have started."""
        process, port = self.serve(f"--workers={count}", *options)
        until(lambda: self.output().count("service_started") >= count)
        return process, port


class ServingTests(WorkersTestCase):
    def test_each_serves(self) -> None:
        """Two workers serve one port, and each has an admin endpoint of its own; the start is reported once."""
        admin = free_ports(2)
        process, port = self.started(f"--admin=tcp:{admin}:interface=127.0.0.1")
        self.assertEqual([get(admin + number, "/readyz")[0] for number in (0, 1)], [200, 200])
        self.assertEqual(get(port, "/healthz"), (200, b"ok"))
        self.assertEqual(self.gamed("health"), (0, "ok\n", ""))
        self.assertEqual(self.output().count(f"data {self.data}\n"), 1)
        self.assertIn(f"figures of this server http://127.0.0.1:{admin}, for this machine\n", self.output())
        lines = [line for line in self.output().splitlines() if "service_started" in line]
        self.assertEqual(sorted(line[-9:] for line in lines), [" worker=1", " worker=2"])
        workers = children(process.pid)
        self.assertEqual((len(workers), self.stop(process)), (2, 0))
        self.assertEqual([pid for pid in workers if Path(f"/proc/{pid}").exists()], [])

    def test_a_dead_worker(self) -> None:
        """A killed worker is started again at once, with the secrets of the start; no client is refused."""
        self.environ["GAMED_KEY"] = "A" * 42 + "E="
        self.write_config({"mode": "local", "master_key_env": "GAMED_KEY"})
        process, port = self.started()
        first, second = children(process.pid)
        os.kill(first, signal.SIGKILL)
        until(lambda: self.output().count("worker_started") == 3, RESTART_SECONDS)
        until(lambda: self.output().count("service_started") == 3)
        self.assertEqual({get(port, "/healthz")[0] for _ in range(20)}, {200})
        self.assertIn("code=-9", self.output())
        self.assertEqual((second in children(process.pid), len(children(process.pid))), (True, 2))
        self.assertEqual(self.stop(process), 0)

    def test_a_stopped_worker(self) -> None:
        """SIGTERM to one worker is a restart of it: its requests are answered, and the other one serves meanwhile."""
        process, port = self.started()
        first, _ = children(process.pid)
        os.kill(first, signal.SIGTERM)
        with ThreadPoolExecutor(4) as pool:
            self.assertEqual({each[0] for each in pool.map(lambda _: get(port, "/healthz"), range(200))}, {200})
        until(lambda: self.output().count("service_started") == 3)
        self.assertEqual(self.stop(process), 0)

    def test_the_parent_dies(self) -> None:
        """Workers end when their parent was killed; the next start finds the port free."""
        process, port = self.started()
        workers = children(process.pid)
        process.kill()
        process.wait()
        for pid in workers:
            await_end(pid)
        again, _ = self.serve("--workers=2", port=port)
        self.assertEqual(self.stop(again), 0)

    def test_stopped_at_once(self) -> None:
        """SIGTERM ends parent and workers while the workers start."""
        process, _ = self.serve_unready()
        until(lambda: "worker_started worker=2" in self.output())
        workers = children(process.pid)
        self.assertEqual(self.stop(process), 0)
        self.assertEqual([pid for pid in workers if Path(f"/proc/{pid}").exists()], [])

    def test_interrupted(self) -> None:
        """Ctrl-C, which reaches parent and workers at once, leaves no traceback, also while the workers start."""
        for ready in (True, False):
            process, _ = self.started() if ready else self.serve_unready()
            until(lambda: "worker_started worker=2" in self.output())
            for pid in (*children(process.pid), process.pid):
                os.kill(pid, signal.SIGINT)
            self.assertEqual(process.wait(WAIT_SECONDS), -signal.SIGINT, self.output())
            self.assertNotIn("Traceback", self.output())

    def test_a_hung_worker(self) -> None:
        """Without systemd, too, a worker that does not respond is killed and started again."""
        process, port = self.started()
        until(lambda: self.output().count("modules_imported") == 2)
        hung, other = children(process.pid)
        os.kill(hung, signal.SIGSTOP)
        until(lambda: self.output().count("service_started") == 3, HUNG_SECONDS)
        self.assertIn("worker_killed worker=1", self.output())
        self.assertIn(other, children(process.pid))
        self.assertEqual((get(port, "/healthz")[0], self.stop(process)), (200, 0))

    def test_a_pause(self) -> None:
        """A pause of parent and workers that is longer than a worker may be silent, as of a machine, kills none."""
        self.environ |= {"NOTIFY_SOCKET": FakeManager(self, self.folder / "notify").address, "WATCHDOG_USEC": "6000000"}
        process, port = self.started()
        until(lambda: self.output().count("modules_imported") == 2)
        workers = children(process.pid)
        for pid in (process.pid, *workers):
            os.kill(pid, signal.SIGSTOP)
        time.sleep(9)
        os.kill(process.pid, signal.SIGCONT)
        time.sleep(1.5)  # the parent looks before its workers can report
        for pid in workers:
            os.kill(pid, signal.SIGCONT)
        self.assertEqual({get(port, "/healthz")[0] for _ in range(20)}, {200})
        time.sleep(2)
        self.assertNotIn("worker_killed", self.output())
        self.assertEqual((children(process.pid), self.stop(process)), (workers, 0))

    def serve_unready(self) -> tuple["Popen[str]", int]:
        port = free_port()
        listen = f"--listen=tcp:{port}:interface=127.0.0.1"
        return self.start(*GAMED, *self.places, "serve", listen, "--workers=2"), port

    def test_daemon(self) -> None:
        """twistd's options apply to the parent: its pid file, and its log, beside which each worker has its own."""
        log, pidfile, port = self.folder / "games.log", self.folder / "pid", free_port()
        command = [f"--logfile={log}", f"--pidfile={pidfile}", "gamed", "serve", *self.places, "--workers=2"]
        code, _, err = self.run_command(*command, f"--listen=tcp:{port}:interface=127.0.0.1", of=TWISTD)
        self.assertEqual(code, 0, err)
        parent = int(pidfile.read_text("ascii"))
        self.addCleanup(end_daemon, parent)
        self.await_answer(port)
        for number in (1, 2):
            own = self.folder / f"games-{number}.log"
            until(lambda own=own: own.exists() and "service_started" in own.read_text("utf-8"))
        self.assertIn("worker_started worker=2", log.read_text("utf-8"))
        os.kill(parent, signal.SIGTERM)
        await_end(parent)
        self.assertFalse(pidfile.exists())

    def test_refused(self) -> None:
        """A count, an endpoint or an option of twistd that does not fit is a clear error before anything is made."""
        for options, text in (
            (["--workers=1"], "--workers: expected a number from 2 to 16."),
            (["--workers=many"], "--workers: expected a number from 2 to 16."),
            (["--workers=2", "--listen=ssl:8443"], "with --workers expected tcp:, tcp6:, unix: or systemd:."),
        ):
            code, _, err = self.run_command("-n", "gamed", "serve", *self.places, *options, of=TWISTD)
            self.assertEqual(code, 78, err)
            self.assertIn(text, err)
        code, _, err = self.run_command("-n", "--debug", "gamed", "serve", *self.places, "--workers=2", of=TWISTD)
        self.assertEqual(code, 78, err)
        self.assertIn("twistd --debug and --workers: leave one of them out.", err)
        self.assertEqual(self.gamed("serve", "--workers", "1")[0], 2)
        self.assertFalse(self.data.exists())

    def test_without_a_parent(self) -> None:
        """A worker whose environment has no valid mark of its parent is a clear error before anything is made."""
        worker = "from gamed.cli.service.workers import run_worker; run_worker(['-n', 'gamed', 'serve'])"
        for mark in ("", "1", "1 x", "x 1"):
            self.environ[MARK] = mark
            code, _, err = self.run_command("-c", worker, of=(sys.executable,))
            self.assertEqual(code, 78, err)
            self.assertEqual(
                err, "gamed: GAMED_WORKER is not the mark of a worker. Start workers with gamed serve --workers N.\n"
            )
        self.assertFalse(self.data.exists())


class SystemdTests(SocketTestCase):
    def test_reports(self) -> None:
        """The parent reports ready when all workers are, then that it works, and the stop; no worker reports itself."""
        manager = FakeManager(self, self.folder / "notify")
        self.environ |= {"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "20000000"}
        tcp = self.listening(socket.AF_INET, ("127.0.0.1", 0))
        process = self.passing(tcp, options=("--workers=2",))
        manager.wait_for("STATUS=2 of 2 workers: serving at http://localhost:8080")
        lines = manager.lines
        self.assertEqual(lines.count("READY=1"), 1)
        self.assertGreaterEqual(self.output().count("service_started"), 2)
        manager.wait_for("WATCHDOG=1")
        self.assertEqual(ask(tcp.getsockname()[1]), b"ok")
        self.assertEqual(self.stop(process), 0, self.output())
        manager.wait_for("STOPPING=1")
        self.assertEqual({message.pid for message in manager.messages}, {process.pid})

    def test_a_hung_worker(self) -> None:
        """A worker that does not respond for the time of the watchdog is killed and started again, the others not."""
        manager = FakeManager(self, self.folder / "notify")
        self.environ |= {"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "6000000"}
        tcp = self.listening(socket.AF_INET, ("127.0.0.1", 0))
        process = self.passing(tcp, options=("--workers=2",))
        manager.wait_for("READY=1")
        hung, other = children(process.pid)
        os.kill(hung, signal.SIGSTOP)
        until(lambda: self.output().count("service_started") == 3)
        self.assertIn("worker_killed", self.output())
        self.assertIn(other, children(process.pid))
        self.assertEqual(self.stop(process), 0, self.output())


class Recorder(StringIO):
    """A stream that records each write."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []

    def write(self, text: str) -> int:
        self.writes.append(text)
        return len(text)


class FakeTransport(Struct):
    pid: int
    signals: list[str] = field(default_factory=list)

    def signalProcess(self, name: str) -> None:
        self.signals.append(name)


class FakeReactor(Clock):
    """A clock that starts processes in name only."""

    def __init__(self) -> None:
        super().__init__()
        self.started: list[Any] = []
        self.environs: list[dict[str, str]] = []
        self.stopped = self.refuses = False

    def callWhenRunning(self, function: Callable[[], None]) -> None:
        function()

    def spawnProcess(self, protocol: Any, program: str, arguments: list[str], environ: Any, childFDs: Any) -> None:
        if self.refuses:
            raise OSError(11, "Resource temporarily unavailable")
        self.started.append(protocol)
        self.environs.append(environ)
        protocol.makeConnection(FakeTransport(len(self.started)))

    def stop(self) -> None:
        self.stopped = True


class ParentTests(SynchronousTestCase):
    """The parent's decisions, without processes."""

    def setUp(self) -> None:
        self.reactor = FakeReactor()
        self.codes: list[int] = []
        plan = WorkerPlan([["gamed", "serve"]] * 2, {"GAMED_KEY": "secret", "WATCHDOG_PID": "1"})
        self.manager = FakeManager(self, folder_of(self) / "notify")
        notifier = SystemdNotifier(self.manager.address, watchdog_usec=30_000_000)
        self.parent = WorkersParent(self.reactor, plan, (), notifier, self.codes.append)
        self.parent.privilegedStartService()
        self.parent.startService()

    def end(self, worker: Any, code: int | None = 1, signal: int | None = None) -> None:
        worker.processEnded(Failure(ProcessTerminated(code, signal)))

    def test_too_many(self) -> None:
        """Five ends in a minute are restarts; the sixth ends the parent with an error. Older ones do not count."""
        for _ in range(5):
            self.end(self.reactor.started[-1])
        self.assertEqual((len(self.reactor.started), self.reactor.stopped), (7, False))
        self.reactor.advance(61)
        self.end(self.reactor.started[-1])
        self.assertEqual((len(self.reactor.started), self.reactor.stopped), (8, False))
        for _ in range(5):
            self.end(self.reactor.started[-1])
        self.assertEqual((len(self.reactor.started), self.reactor.stopped, self.codes), (12, True, [1]))

    def test_configuration(self) -> None:
        """A worker that refuses the configuration ends the parent with its exit code: a restart would not help."""
        for worker in list(self.reactor.started):
            self.end(worker, 78)
        self.assertEqual((len(self.reactor.started), self.reactor.stopped, self.codes), (2, True, [78]))

    def test_silent(self) -> None:
        """A worker has 90 s to start; once it is ready it is killed after 30 s without a sign."""
        first, second = self.reactor.started
        second.childDataReceived(5, b"READY=1\nSTATUS=serving")
        self.reactor.pump([1.0] * 29)
        second.childDataReceived(5, b" at http://localhost\nWATCHDOG=1\n")
        self.reactor.pump([1.0] * 29)
        self.assertEqual((first.transport.signals, second.transport.signals), ([], []))
        self.reactor.pump([1.0] * 3)
        self.assertEqual((first.transport.signals, second.transport.signals), ([], ["KILL"]))
        self.reactor.pump([1.0] * 31)
        self.assertEqual(first.transport.signals, ["KILL"])

    def test_silent_without_a_watchdog(self) -> None:
        """Without systemd's watchdog the parent asks its workers, too, and kills one after 30 s without a sign."""
        reactor = FakeReactor()
        plan = WorkerPlan([["gamed", "serve"]], {})
        parent = WorkersParent(reactor, plan, (), SystemdNotifier(), self.codes.append)
        parent.privilegedStartService()
        parent.startService()
        self.assertEqual(reactor.environs[0]["WATCHDOG_USEC"], "30000000")
        [worker] = reactor.started
        worker.childDataReceived(5, b"READY=1\n")
        reactor.pump([1.0] * 20)
        worker.childDataReceived(5, b"WATCHDOG=1\n")
        reactor.pump([1.0] * 29)
        self.assertEqual(worker.transport.signals, [])
        reactor.pump([1.0] * 3)
        self.assertEqual(worker.transport.signals, ["KILL"])

    def test_stop(self) -> None:
        """The stop waits for all workers; one that neither ends nor extends its time is killed after 30 s."""
        first, second = self.reactor.started
        stopped = self.parent.stopService()
        self.end(first, 0)
        second.childDataReceived(5, b"EXTEND_TIMEOUT_USEC=60000000\nREADY=1\n")
        self.reactor.pump([1.0] * 59)
        self.assertEqual((first.transport.signals, second.transport.signals), (["TERM"], ["TERM"]))
        self.assertNoResult(stopped)
        self.reactor.pump([1.0] * 3)
        self.assertEqual(second.transport.signals, ["TERM", "KILL"])
        self.end(second, None, 9)
        self.successResultOf(stopped)
        self.assertEqual((len(self.reactor.started), self.reactor.getDelayedCalls()), (2, []))

    def test_not_started(self) -> None:
        """A worker that the system refuses to start is tried again after a second; a stop meanwhile waits for that."""
        self.reactor.refuses = True
        self.end(self.reactor.started[0])
        self.reactor.advance(1)
        self.assertEqual(len(self.reactor.started), 2)
        self.reactor.refuses = False
        self.reactor.advance(1)
        self.assertEqual(len(self.reactor.started), 3)
        self.reactor.refuses = True
        self.end(self.reactor.started[2])
        stopped = self.parent.stopService()
        self.end(self.reactor.started[1], 0)
        self.assertNoResult(stopped)
        self.reactor.advance(1)
        self.successResultOf(stopped)

    def test_environment(self) -> None:
        """A worker gets the parent's environment, and no text shows the secrets in it."""
        environ = self.reactor.environs[0]
        self.assertEqual((environ["GAMED_KEY"], environ["WATCHDOG_USEC"]), ("secret", "30000000"))
        self.assertNotIn("WATCHDOG_PID", environ)
        self.assertNotIn("secret", repr(WorkerPlan([], {"GAMED_KEY": "secret"})))


class ArgumentTests(SynchronousTestCase):
    def test_count(self) -> None:
        """A count is a number from 2 to 16."""
        self.assertEqual([parse_count(text) for text in (None, "2", "16")], [0, 2, 16])
        for text in ("", "0", "1", "17", "-2", "2.0", "two", "²", "9" * 5000):
            self.assertRaises(SetupError, parse_count, text)

    def test_admin(self) -> None:
        """The first worker has the admin endpoint itself; the others the next port, or the path with their number."""
        for text, third in (
            ("tcp:9100:interface=127.0.0.1", "tcp:9102:interface=127.0.0.1"),
            ("tcp:port=9100:interface=127.0.0.1", "tcp:port=9102:interface=127.0.0.1"),
            ("tcp6:interface=\\:\\:1:port=9100", "tcp6:interface=\\:\\:1:port=9102"),
            ("tcp:0:interface=127.0.0.1", "tcp:0:interface=127.0.0.1"),
            ("unix:/run/gamed/admin.sock:mode=660", "unix:/run/gamed/admin.sock.3:mode=660"),
            ("unix:mode=660:address=/run/a\\:b", "unix:mode=660:address=/run/a\\:b.3"),
        ):
            self.assertEqual((numbered(text, 1), numbered(text, 3)), (text, third))

    def test_log(self) -> None:
        """A worker logs where its parent does; to a file of its own if that is a file, and with its own prefix."""
        for options, expected in (
            ({"logfile": "/var/log/games.log"}, ["--logfile=/var/log/games-2.log"]),
            ({"logfile": "/var/log.d/games"}, ["--logfile=/var/log.d/games-2"]),
            ({}, ["--logfile=twistd-2.log"]),
            ({"logger": until}, ["--logger=tests.ops.test_workers.until"]),
            ({"syslog": True, "prefix": "games"}, ["--syslog", "--prefix=games-2"]),
        ):
            self.assertEqual(log_arguments(options, 2, to_stdout=False), expected)
        self.assertEqual(log_arguments({"nodaemon": True}, 2, to_stdout=True), [])
        self.assertRaises(SetupError, log_arguments, {"chroot": "/srv"}, 2, to_stdout=True)

    def test_kinds(self) -> None:
        """A socket with TLS, or of a plugin, is refused: workers cannot share it."""
        refuse_kinds(["tcp:8080", "unix:/run/a", "systemd:domain=INET:index=0"])
        self.assertRaises(SetupError, refuse_kinds, ["tcp:8080", "ssl:8443"])

    def test_whole_lines(self) -> None:
        """Processes that write to one pipe do not mix their lines: the kernel splits no write of up to 4096 bytes."""
        out = Recorder()
        lines = [f"{number} " + "é" * 600 for number in range(20)]
        event = {"log_format": "{lines}", "lines": "", RAW: "".join(f"{line}\n" for line in [*lines, "x" * 5000])}
        Observer(out, LogFormat.JOURNAL, 2)(event)
        self.assertEqual("".join(out.writes), "".join(f"{line} worker=2\n" for line in [*lines, "x" * 5000]))
        self.assertEqual([text for text in out.writes if not text.endswith(" worker=2\n")], [])
        self.assertLessEqual(max(len(text.encode()) for text in out.writes[:-1]), 4096)
        self.assertLess(len(out.writes), 10)

    def test_lines(self) -> None:
        """Each line of a worker's log ends with its number, and JSON stays JSON."""
        event = {"log_format": "{line}", "line": "one\ntwo}", "log_namespace": "gamed", "log_time": 0.0}
        for style in LogFormat:
            out = StringIO()
            Observer(out, style, 2)(event)
            lines = out.getvalue().splitlines()
            if style is LogFormat.JSON:
                [line] = lines
                self.assertEqual((json.loads(line)["worker"], json.loads(line)["message"]), (2, "one\ntwo}"))
            else:
                self.assertEqual([line[-9:] for line in lines], [" worker=2"] * 2)
