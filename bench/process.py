"""A server runs as a process on one processor, whose time is measured."""

import http.client
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
CPUS = sorted(os.sched_getaffinity(0))
SERVER_CPU, CLIENT_CPU = CPUS[0], CPUS[-1]
ALL_CPUS = ",".join(map(str, CPUS))
TICKS = os.sysconf("SC_CLK_TCK")
TIMEOUT_SECONDS = 60


class Process:
    """A server process; it is up when `/healthz` answers, with any status.

    With `shared_cpus` server and client share all processors; otherwise each has its own.
    """

    def __init__(
        self,
        words: Sequence[str],
        port: int,
        log: Path,
        environment: Mapping[str, str],
        *,
        shared_cpus: bool = False,
    ) -> None:
        self.words, self.port, self._log = words, port, log
        self._cpu, self.client_cpu = (ALL_CPUS, ALL_CPUS) if shared_cpus else (str(SERVER_CPU), str(CLIENT_CPU))
        compiled = {"PYTHONDONTWRITEBYTECODE": ""}  # the libraries of the references are compiled, too
        self._environment = {**os.environ, "PYTHONPATH": str(ROOT), **compiled, **environment}

    def start(self) -> float:
        """Start the process; return the seconds until its first response."""
        began = time.perf_counter()
        with self._log.open("ab") as log:
            self._child = subprocess.Popen(
                ["taskset", "-c", self._cpu, *self.words], cwd=ROOT, env=self._environment, stdout=log, stderr=log
            )
        while not self._answers():
            if self._child.poll() is not None or time.perf_counter() - began > TIMEOUT_SECONDS:
                self.stop()
                raise RuntimeError(
                    f"{' '.join(self.words)} does not answer; its log is {self._log.read_text()[-2000:]}"
                )
            time.sleep(0.005)
        return time.perf_counter() - began

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", "/healthz")
            connection.getresponse().read()
        except OSError:
            return False
        finally:
            connection.close()
        return True

    def entity_tag(self, path: str) -> str:
        """Return the entity-tag of the file at this path."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return str(answer.headers["ETag"])

    def terminate(self) -> None:
        """Send SIGTERM by process id, because a fork of this process is not the server's parent."""
        os.kill(self.pid, signal.SIGTERM)

    def stop(self) -> None:
        self._child.terminate()
        try:
            self._child.wait(TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()

    @property
    def pid(self) -> int:
        return self._child.pid

    def cpu_seconds(self) -> float:
        """Return the user and system time of all its threads and of its child processes."""
        return _cpu_seconds(self.pid) + sum(self.children_cpu_seconds())

    def children_cpu_seconds(self) -> list[float]:
        """Return the same time of each child process."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return [_cpu_seconds(int(pid)) for pid in children]

    def memory_mib(self, name: str = "VmRSS") -> float:
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith(name)).split()[1]) / 1024


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS
