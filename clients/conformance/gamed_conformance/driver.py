"""A driver's process: commands to it, answers and events from it (README: The driver)."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shlex
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, BinaryIO

LIMIT_SECONDS = 90.0
START_SECONDS = 120.0
KEPT_LINES = 60


class DriverFailed(Exception):
    """The driver has ended, did not answer, or wrote a line that is not in the README."""


class CommandFailed(Exception):
    """A typed error of the client; `error` is the driver's text."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(json.dumps(error))
        self.error = error


class Pending:
    """A command that was sent."""

    def __init__(self, words: str) -> None:
        self.words = words
        self._answers: queue.Queue[dict[str, Any]] = queue.Queue()

    def give(self, answer: dict[str, Any]) -> None:
        self._answers.put(answer)

    def result(self, seconds: float = LIMIT_SECONDS) -> Any:
        """Return the value of `ok`; raise CommandFailed with the value of `error`."""
        try:
            answer = self._answers.get(timeout=seconds)
        except queue.Empty:
            raise DriverFailed(f"no answer to {self.words} within {seconds:g} s") from None
        if "error" in answer:
            raise CommandFailed(answer["error"])
        if "ok" not in answer:
            raise DriverFailed(f"the answer to {self.words} has neither ok nor error: {answer}")
        return answer["ok"]


class Driver:
    """One process, started by the constructor."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = list(command)
        self.lines: deque[str] = deque(maxlen=2000)
        """All lines of this scenario, for the check that they do not contain secrets."""
        self._pending: dict[int, Pending] = {}
        self._number = 0
        self._changed = threading.Condition()
        self.events: list[dict[str, Any]] = []
        self.features: frozenset[str] = frozenset()
        self.language = ""
        self.own_storage = False
        """True if the client has no files below its folder; the commands `stored` and `damage` replace reading it."""
        self._greeted = threading.Event()
        self._over = threading.Event()
        self._socket: socket.socket | None = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        environ = {**os.environ, "GAMED_CONFORMANCE_PORT": str(port)}
        pipes: dict[str, Any] = {name: subprocess.PIPE for name in ("stdin", "stdout", "stderr")}
        try:
            self._process = subprocess.Popen(self._command, env=environ, **pipes)
        except OSError as e:
            self._listener.close()
            raise DriverFailed(f"{shlex.join(self._command)} does not start: {e.strerror}") from e
        assert self._process.stdout and self._process.stderr
        for stream, heard in ((self._process.stdout, True), (self._process.stderr, False)):
            threading.Thread(target=self._read, args=(stream, heard), daemon=True).start()
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()
        end = time.monotonic() + START_SECONDS
        while not self._greeted.wait(0.1):
            if self._process.poll() is not None or time.monotonic() > end:
                self._process.kill()
                raise DriverFailed(f"{shlex.join(self._command)} said no hello. It said:\n{self.said()}")

    def said(self) -> str:
        return "\n".join(list(self.lines)[-KEPT_LINES:])

    def _accept(self, listener: socket.socket) -> None:
        try:
            self._socket, _ = listener.accept()
        except OSError:
            return
        self._read(self._socket.makefile("rb"), True)

    def _read(self, stream: BinaryIO | Any, heard: bool) -> None:
        try:
            for raw in stream:
                line = raw.decode("utf-8", "replace").rstrip("\r\n")
                self.lines.append(line)
                if heard and line.startswith("{"):
                    self._hear(line)
        except (OSError, ValueError):
            pass
        if stream is self._process.stdout:
            self._end()

    def _hear(self, line: str) -> None:
        try:
            value = json.loads(line, strict=False)
        except ValueError:
            self._fail(f"the driver said a line that is no JSON: {line[:300]!r}")
            return
        if value.get("event") == "hello":
            self.features, self.language = frozenset(value.get("features") or ()), str(value.get("language", ""))
            self.own_storage = value.get("own_storage") is True
            self._greeted.set()
        elif "event" in value:
            with self._changed:
                self.events.append(value)
                self._changed.notify_all()
        elif pending := self._pending.pop(value.get("id"), None):
            pending.give(value)

    def _fail(self, detail: str) -> None:
        for pending in list(self._pending.values()):
            pending.give({"error": {"code": "driver_failed", "kind": "Driver", "detail": detail}})

    def _end(self) -> None:
        self._over.set()
        self._fail("the driver ended")
        with self._changed:
            self._changed.notify_all()

    def send(self, do: str, **arguments: Any) -> Pending:
        if self._over.is_set():
            raise DriverFailed(f"the driver ended before {do}. It said:\n{self.said()}")
        self._number += 1
        line = json.dumps({"id": self._number, "do": do, **arguments}).encode() + b"\n"
        pending = self._pending[self._number] = Pending(do)
        try:
            if self._socket is not None:
                self._socket.sendall(line)
            else:
                assert self._process.stdin
                self._process.stdin.write(line)
                self._process.stdin.flush()
        except OSError as e:
            raise DriverFailed(f"the driver takes no more commands. It said:\n{self.said()}") from e
        return pending

    def call(self, do: str, **arguments: Any) -> Any:
        return self.send(do, **arguments).result()

    def event(self, name: str, client: str, seconds: float = LIMIT_SECONDS) -> dict[str, Any]:
        """Return the oldest event that was not returned yet."""
        end = time.monotonic() + seconds
        with self._changed:
            while True:
                for event in self.events:
                    if event["event"] == name and event.get("client") == client:
                        self.events.remove(event)
                        return event
                if self._over.is_set() or not self._changed.wait(end - time.monotonic()):
                    waiting = [event["event"] for event in self.events]
                    raise DriverFailed(f"no event {name!r} of {client} within {seconds:g} s; there are {waiting}")

    def close(self) -> None:
        """Kill the process, without its handlers."""
        self._process.kill()
        self._process.wait()
        self._listener.close()
        for stream in (self._process.stdin, self._socket):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
