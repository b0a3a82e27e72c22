"""Processes that tests start end as any other does, forked or not, and leave nothing behind."""

import json
import os
import signal
import sys
import time
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.cli.process import environment, folder_of
from tests.support import forks
from tests.support.commands import run_here

PROGRAM = (sys.executable, "-m", "tests.test_forks")


class ForkTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.how: dict[str, Any] = {"env": environment({"ANSWER": "42"}), "cwd": folder_of(self)}

    def report(self, *, forked: bool = True) -> dict[str, Any]:
        done = forks.run([*PROGRAM, "report"], "ä\n", timeout=60, forked=forked, **self.how)
        self.assertEqual((done.returncode, done.stderr), (7, "an error\n"))
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def test_same(self) -> None:
        """A fork has what a process of its own has, but for its parent, also with a umask that a test has set."""
        self.addCleanup(os.umask, os.umask(0o027))
        fork, own = self.report(), self.report(forked=False)
        self.assertNotEqual(fork.pop("parent"), own.pop("parent"))
        self.assertEqual(fork, own)
        self.assertEqual(fork["umask"], 0o027)
        self.assertEqual((fork["text"], fork["folder"]), ("ä\n", str(self.how["cwd"])))

    def test_signals(self) -> None:
        """The exit code names the signal that has ended a process; a signal to an ended one does nothing."""
        for forked in (True, False):
            for number in (signal.SIGTERM, signal.SIGKILL):
                process = self.start("sleep", forked=forked)
                self.assertIsNone(process.poll())
                process.send_signal(number)
                self.assertEqual((process.wait(60), process.poll()), (-number, -number))
                process.kill()

    def start(self, *arguments: str, forked: bool) -> forks.Process:
        with open(os.devnull, "wb") as nothing:
            return forks.popen([*PROGRAM, *arguments], stdout=nothing, stderr=nothing, forked=forked, **self.how)

    def test_timeout(self) -> None:
        """A process that takes too long is killed by run(), and still runs after wait()."""
        for forked in (True, False):
            began = time.monotonic()
            with self.assertRaises(TimeoutExpired):
                forks.run([*PROGRAM, "sleep"], timeout=0.1, forked=forked, **self.how)
            self.assertLess(time.monotonic() - began, 30)
            process = self.start("sleep", forked=forked)
            self.assertRaises(TimeoutExpired, process.wait, 0.01)
            self.assertIsNone(process.poll())
            process.kill()
            self.assertEqual(process.wait(), -9)

    def test_locale(self) -> None:
        """The locale that Python adds where there is none makes no other process; one that is set does."""
        read = forks.read_at_start
        self.assertEqual(read({"LC_CTYPE": "C.UTF-8", "HOME": "/"}), read({}))
        for env in ({"LC_CTYPE": "de_DE.UTF-8"}, {"LC_CTYPE": "C.UTF-8", "LANG": "C"}, {"LANG": "C"}, {"LC_ALL": "C"}):
            self.assertEqual(read(env), env)

    def test_locale_is_added(self) -> None:
        """A process without a locale has that one."""
        how = self.how | {
            "env": {name: value for name, value in self.how["env"].items() if name[:2] not in ("LA", "LC")}
        }
        done = forks.run([*PROGRAM, "report"], timeout=60, forked=False, **how)
        self.assertEqual(json.loads(done.stdout)["environ"]["LC_CTYPE"], forks.COERCED)

    def test_nothing_is_left(self) -> None:
        """Neither this process nor the one that forks keeps a descriptor or a zombie."""
        pids = (os.getpid(), self.report()["parent"])
        time.sleep(0.5)  # the parent closes its descriptors a moment after it has written the status
        before = [self.kept_by(pid) for pid in pids]
        for _ in range(5):
            self.report()
        ends = time.monotonic() + 60
        while (found := [self.kept_by(pid) for pid in pids]) != before and time.monotonic() < ends:
            time.sleep(0.01)
        self.assertEqual(found, before)

    def kept_by(self, pid: int) -> tuple[int, list[str]]:
        process = Path(f"/proc/{pid}")
        return len(list((process / "fd").iterdir())), (process / f"task/{pid}/children").read_text().split()

    def test_guard(self) -> None:
        """A command that changes its process is not run in that of a test."""
        done = forks.run([*PROGRAM, "here"], timeout=60, **self.how)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("AssertionError: start a process for this: ('check', 'config')", done.stderr)
        self.assertEqual(run_here("--version", environ={})[0], 0)


def main(what: str) -> None:
    """Be the program of these tests."""
    if what == "sleep":
        time.sleep(60)
    elif what == "here":
        run_here("check", "config", environ={"GAMED_CONFIG": "/dev/null"})
    else:
        found = {"parent": os.getppid(), "folder": os.getcwd(), "text": sys.stdin.read(), "environ": dict(os.environ)}
        print(json.dumps(found | {"umask": os.umask(0o77), "terminals": [os.isatty(number) for number in range(3)]}))
        print("an error", file=sys.stderr)
        sys.exit(7)


if __name__ == "__main__":
    main(*sys.argv[1:])
