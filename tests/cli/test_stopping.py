"""SIGTERM at every moment of a server's life, with real processes."""

import os
import signal
import time
from pathlib import Path

from tests.cli.process import GAMED, TWISTD, WAIT_SECONDS, CommandTestCase, free_port
from tests.support import forks

BETWEEN_MS = (0, 1, 3, 7, 12, 20)
EARLY_MS = (0, 20, 50, 100, 150, 200, 300, 400, 550, 700)


def handled(pid: int, number: int) -> bool:
    """Return whether the process has a handler of its own for this signal."""
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    [mask] = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigCgt:")]
    return bool(mask >> (number - 1) & 1)


class StoppingTests(CommandTestCase):
    forked = False

    def assertWell(self, process: forks.Process, moment: object) -> None:
        code = process.wait(WAIT_SECONDS)
        output = self.output()
        self.assertEqual((code, "Traceback" in output, "Unhandled" in output), (0, False, False), (moment, output))

    def test_two_signals(self) -> None:
        """A second SIGTERM soon after the first changes nothing: exit code 0, no traceback."""
        for pause_ms in BETWEEN_MS:
            process, _ = self.serve()
            process.send_signal(signal.SIGTERM)
            time.sleep(pause_ms / 1000)
            process.send_signal(signal.SIGTERM)
            self.assertWell(process, pause_ms)

    def test_signals_until_the_end(self) -> None:
        """SIGTERM that comes again and again, until the process is gone, changes nothing either."""
        for pause_ms in (0, 1, 5):
            process, _ = self.serve()
            while process.poll() is None:
                process.send_signal(signal.SIGTERM)
                time.sleep(pause_ms / 1000)
            self.assertWell(process, pause_ms)

    def test_both_signals(self) -> None:
        """Ctrl-C while SIGTERM is being obeyed, or SIGTERM after Ctrl-C, logs no traceback."""
        for first, second, code in (
            (signal.SIGTERM, signal.SIGINT, 0),
            (signal.SIGINT, signal.SIGTERM, -signal.SIGINT),
            (signal.SIGINT, signal.SIGINT, -signal.SIGINT),
        ):
            process, _ = self.serve()
            process.send_signal(first)
            self.await_ignored(
                process
            )  # of two signals at once, Python would handle the one with the smaller number first
            process.send_signal(second)
            self.assertEqual(process.wait(WAIT_SECONDS), code, (first, second))
            self.assertNotIn("Traceback", self.output())

    def test_both_at_once(self) -> None:
        """SIGTERM and SIGINT that are both waiting when the process runs again end it with 0 and no traceback."""
        for first, second in ((signal.SIGTERM, signal.SIGINT), (signal.SIGINT, signal.SIGTERM)):
            process, _ = self.serve()
            process.send_signal(signal.SIGSTOP)
            process.send_signal(first)
            process.send_signal(second)
            process.send_signal(signal.SIGCONT)
            self.assertWell(process, first)

    def test_one_after_the_other(self) -> None:
        """SIGINT some milliseconds after SIGTERM, as a terminal and a supervisor send them, changes nothing."""
        for pause_ms in (0, 1, 2, 3, 5):
            process, _ = self.serve()
            process.send_signal(signal.SIGTERM)
            time.sleep(pause_ms / 1000)
            process.send_signal(signal.SIGINT)
            self.assertWell(process, pause_ms)

    def test_interrupted_until_the_end(self) -> None:
        """Ctrl-C that comes again and again leaves no traceback, and the process ends by the signal."""
        for pause_ms in (0, 1, 5):
            process, _ = self.serve()
            while process.poll() is None:
                process.send_signal(signal.SIGINT)
                time.sleep(pause_ms / 1000)
            self.assertEqual((process.returncode, "Traceback" in self.output()), (-signal.SIGINT, False), self.output())

    def await_ignored(self, process: forks.Process) -> None:
        """Wait until the process has handled its first signal, after which it ignores others, or has ended."""
        wanted = 1 << signal.SIGTERM - 1 | 1 << signal.SIGINT - 1
        ends = time.monotonic() + WAIT_SECONDS
        while process.poll() is None and time.monotonic() < ends:
            status = Path(f"/proc/{process.pid}/status").read_text("utf-8")
            ignored = int(status.partition("SigIgn:")[2].split()[0], 16)
            if ignored & wanted == wanted:
                return
            time.sleep(0.0005)
        self.assertIsNotNone(process.poll(), "the first signal was not handled")

    def test_during_the_start(self) -> None:
        """From the moment the command runs SIGTERM ends it with 0, on a first run and on later ones."""
        for early_ms in EARLY_MS:
            port = free_port()
            process = self.start(*GAMED, *self.places, "serve", f"--listen=tcp:{port}:interface=127.0.0.1")
            self.await_handler(process)
            time.sleep(early_ms / 1000)
            process.send_signal(signal.SIGTERM)
            self.assertWell(process, early_ms)
        process, _ = self.serve()
        self.assertEqual(self.stop(process), 0)

    def test_during_the_start_of_twistd(self) -> None:
        """The same under twistd, from the moment gamed's code runs."""
        for early_ms in (0, 100, 300):
            plain = (*TWISTD, "--nodaemon", "--pidfile=", "gamed", "serve", *self.places)
            process = self.start(*plain, f"--listen=tcp:{free_port()}:interface=127.0.0.1")
            self.await_handler(process)
            time.sleep(early_ms / 1000)
            process.send_signal(signal.SIGTERM)
            self.assertWell(process, early_ms)

    def await_handler(self, process: forks.Process) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not handled(process.pid, signal.SIGTERM):
            self.assertLess(time.monotonic(), deadline)
            self.assertIsNone(process.poll(), self.output())
            os.sched_yield()
