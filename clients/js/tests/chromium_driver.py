"""Driver of the JavaScript client in Chromium for the suite: each driver is a tab of one headless browser.

    python clients/conformance/run.py --driver "python clients/js/tests/chromium_driver.py"

The first driver of a suite starts a second process of this file, which has the browser: it outlives a killed driver, as
a browser outlives a tab, and ends with the suite, or two minutes after the last driver. The browser does not check
CORS; `engine_driver` and tests of the demo and of the package have browsers that do.
"""

import contextlib
import errno
import json
import os
import socket
import subprocess
import sys
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from shutil import rmtree, which
from tempfile import TemporaryFile, mkdtemp
from typing import Any, BinaryIO, Protocol

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.support.descendants import kill_descendants

FILES = Path(__file__).resolve().parents[1]
PROGRAM = os.environ.get("CHROMIUM", "/usr/bin/chromium-headless-shell")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-web-security",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-background-timer-throttling",
    "--disable-renderer-backgrounding",
    "--disable-features=LocalNetworkAccessChecks",
    "--remote-debugging-pipe",
]
PAGE = "http://game.localhost/"
"""A constant origin, for IndexedDB; no server has it: `Browser` answers its requests."""
HTML = b'<!doctype html><title>Driver</title><script type="module" src="driver.mjs"></script>'
START_SECONDS, GRACE_SECONDS, CALL_SECONDS = 60.0, 120.0, 60.0
UNLOAD_SECONDS = 1.0
"""How long Chromium may take to free the locks of a tab that was closed."""


class Browser(Protocol):
    """A browser whose tabs are drivers."""

    @property
    def runs(self) -> bool: ...

    def close(self) -> None: ...

    def tab(self, heard: Callable[[str], None]) -> str:
        """Open the driver's page in a tab; return its id. `heard` is called with each line of it."""

    def tell(self, tab: str, line: str) -> None:
        """Pass a command to a tab."""

    def close_tab(self, tab: str) -> None: ...


class Chromium:
    """A separate Chromium, controlled by the Chrome DevTools Protocol over a pipe."""

    def __init__(self) -> None:
        if which(PROGRAM) is None:
            raise FileNotFoundError(f"{PROGRAM} is not installed")
        self._profile = Path(mkdtemp(prefix="gamed-chromium-"))
        (their_in, self._out), (self._in, their_out) = os.pipe(), os.pipe()
        for number in (their_in, their_out):
            os.set_inheritable(number, True)
        script = f'exec "$0" "$@" 3<&{their_in} 4>&{their_out}'
        command = ["bash", "-c", script, PROGRAM, *ARGUMENTS, f"--user-data-dir={self._profile}", "about:blank"]
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(
            command, pass_fds=(their_in, their_out), stdin=quiet, stdout=quiet, stderr=quiet
        )
        os.close(their_in)
        os.close(their_out)
        self._lock = threading.Lock()
        self._number = 0
        self._answers: dict[int, Future[dict[str, Any]]] = {}
        self._heard: dict[str, Callable[[str], None]] = {}
        self._sessions: dict[str, str] = {}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def runs(self) -> bool:
        return self._reader.is_alive()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        rmtree(self._profile, ignore_errors=True)

    def send(self, method: str, session: str | None = None, **params: Any) -> "Future[dict[str, Any]]":
        with self._lock:
            self._number += 1
            future = self._answers[self._number] = Future()
            message = {"id": self._number, "method": method, "params": params}
            if session is not None:
                message["sessionId"] = session
            data = json.dumps(message).encode() + b"\0"
            while data:
                data = data[os.write(self._out, data) :]
        return future

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        return self.send(method, session, **params).result(CALL_SECONDS)

    def tab(self, heard: Callable[[str], None]) -> str:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._heard[session] = heard
        self.call("Fetch.enable", session, patterns=[{"urlPattern": f"{PAGE}*"}])
        self.call("Runtime.enable", session)
        self.call("Runtime.addBinding", session, name="gamedSay")
        self.send("Page.navigate", session, url=PAGE)
        self._sessions[target] = session
        return str(target)

    def tell(self, tab: str, line: str) -> None:
        self.send("Runtime.evaluate", self._sessions[tab], expression=f"gamedCommand({json.dumps(line)})")

    def close_tab(self, tab: str) -> None:
        self.call("Target.closeTarget", targetId=tab)
        limit = time.monotonic() + CALL_SECONDS
        while any(each["targetId"] == tab for each in self.call("Target.getTargets")["targetInfos"]):
            if time.monotonic() > limit:
                raise TimeoutError("Chromium does not close a tab")
            time.sleep(0.05)
        time.sleep(UNLOAD_SECONDS)

    def _read(self) -> None:
        rest = b""
        while block := os.read(self._in, 1 << 20):
            *messages, rest = (rest + block).split(b"\0")
            for message in messages:
                self._dispatch(json.loads(message))

    def _dispatch(self, message: dict[str, Any]) -> None:
        if "id" in message:
            answer = self._answers.pop(message["id"])
            if "error" in message:
                answer.set_exception(RuntimeError(message["error"]["message"]))
            else:
                answer.set_result(message["result"])
        elif message["method"] == "Runtime.bindingCalled":
            self._heard[message["sessionId"]](message["params"]["payload"])
        elif message["method"] == "Fetch.requestPaused":
            self._serve(message["sessionId"], message["params"])

    def _serve(self, session: str, request: dict[str, Any]) -> None:
        name = request["request"]["url"].removeprefix(PAGE)
        file = FILES / name
        found = name == "" or (file.parent == FILES and file.suffix == ".mjs" and file.is_file())
        body = HTML if name == "" else file.read_bytes() if found else b""
        kind = {"name": "Content-Type", "value": "text/html" if name == "" else "text/javascript"}
        answer = {"responseCode": 200 if found else 404, "responseHeaders": [kind], "body": b64encode(body).decode()}
        self.send("Fetch.fulfillRequest", session, requestId=request["requestId"], **answer)


class Tabs:
    """All drivers that are connected, each with its tab."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._open: dict[socket.socket, str] = {}
        self._closing = threading.Lock()
        self._changed = threading.Condition()

    def serve(self, connection: socket.socket) -> None:
        with self._changed:
            self._open[connection] = ""
        threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        def heard(line: str) -> None:
            value = json.loads(line)
            if "write" in value:
                try:
                    write_files(value["write"], value["files"])
                except OSError as e:  # the scenario has ended, and its folder with it
                    tell(f"not written: {e}")
            else:
                tell(line)

        def tell(line: str) -> None:
            with contextlib.suppress(OSError):  # the driver was killed
                connection.sendall(line.encode() + b"\n")

        with connection, connection.makefile("rb") as lines:
            try:
                tab = self._open[connection] = self._browser.tab(heard)
            except (OSError, RuntimeError, TimeoutError) as e:
                tell(f"no tab: {e!r}")
                with self._changed:
                    del self._open[connection]
                    self._changed.notify_all()
                return
            for line in lines:
                self._close_ended()
                self._browser.tell(tab, line.decode())
            self._close_ended()

    def _close_ended(self) -> None:
        """Close the tabs of drivers that were killed, before any other driver does something."""
        with self._closing:
            for connection, target in list(self._open.items()):
                if target and ended(connection):
                    self._browser.close_tab(target)
                    with self._changed:
                        del self._open[connection]
                        self._changed.notify_all()

    def await_end(self, suite: int) -> None:
        """Wait until the browser has ended, or until no driver is left and the suite's process has ended.

        A busy machine may start the next driver late, and that one expects the storage of those before: a suite
        that is alive has as long for it as it waits itself (`START_SECONDS` of gamed_conformance/driver.py).
        """
        with self._changed:
            quiet = time.monotonic()
            while self._browser.runs:
                self._changed.wait(1)
                if self._open:
                    quiet = time.monotonic()
                elif time.monotonic() > quiet + GRACE_SECONDS or not Path(f"/proc/{suite}").exists():
                    return


def ended(connection: socket.socket) -> bool:
    try:
        return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def write_files(target: str, files: dict[str, str]) -> None:
    """Write the files of a page into a folder, or with the path "" into one file; whole or not at all."""
    whole = Path(target)
    whole.parent.mkdir(parents=True, exist_ok=True)
    if "" in files:
        whole.write_bytes(b64decode(files[""]))
        return
    folder, link = Path(f"{target}.{time.monotonic_ns()}"), Path(f"{target}.new")
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(b64decode(data))
    link.symlink_to(folder)
    link.rename(whole)


def serve(name: str, start: Callable[[], Browser]) -> None:
    """Own the browser for the drivers of one suite. A start that hangs ends this process, and all that it has begun.

    `name` ends with the id of the suite's process.
    """
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind("\0" + name)
    except OSError as e:
        if e.errno == errno.EADDRINUSE:  # another driver came first
            return
        raise
    listener.listen()
    watchdog = threading.Timer(START_SECONDS, give_up)
    watchdog.daemon = True
    watchdog.start()
    browser = start()
    watchdog.cancel()
    tabs = Tabs(browser)

    def accept() -> None:
        while True:
            tabs.serve(listener.accept()[0])

    try:
        tabs.serve(listener.accept()[0])
        threading.Thread(target=accept, daemon=True).start()
        tabs.await_end(int(name.rpartition("-")[2]))
    finally:
        browser.close()


def give_up() -> None:
    """End this process with those that it has started: the drivers wait for it, and no other has their ids."""
    print(f"the browser has not started within {START_SECONDS:g} s", file=sys.stderr, flush=True)
    kill_descendants(os.getpid())
    os._exit(1)


def forward(name: str, command: Sequence[str]) -> None:
    """Be a driver: pass lines between standard input and output and a tab. `command` with the name serves the tabs."""
    connection, lines = greeted(name, command)

    def copy() -> None:
        for line in lines:
            say(line)
        os._exit(1)

    threading.Thread(target=copy, daemon=True).start()
    for line in sys.stdin.buffer:
        connection.sendall(line)
    os._exit(0)


def greeted(name: str, command: Sequence[str]) -> tuple[socket.socket, BinaryIO]:
    """Connect to a tab that has said hello. The browser may be ending, or may have ended, as the first driver comes.

    Raise OSError with the reason if a browser that was started here has failed.
    """
    server = Server([*command, name])
    end = time.monotonic() + START_SECONDS
    while True:
        connection = connected(name, server)
        lines = connection.makefile("rb")
        with contextlib.suppress(OSError):
            for line in lines:
                say(line)
                if line.startswith(b"{"):
                    return connection, lines
        if time.monotonic() > end:
            raise OSError("no tab said hello")
        connection.close()


def say(line: bytes) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


class Server:
    """The process with the browser, as far as this driver has started it."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: BinaryIO | None = None

    def start(self) -> None:
        """Start it unless it runs; raise OSError with its last words if it has failed."""
        if self._process is not None and (code := self._process.poll()) is None:
            return
        if self._process is not None and self._errors is not None and code != 0:
            self._errors.seek(0)
            raise OSError(self._errors.read().decode("utf-8", "replace"))
        quiet = subprocess.DEVNULL
        # A failed scenario shows it: a browser that replaces another one has an empty storage.
        print("started a browser", file=sys.stderr, flush=True)
        # not the stream of this process, which ends earlier, and whose caller reads to the end
        self._errors = TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            self._command, stdin=quiet, stdout=quiet, stderr=self._errors, start_new_session=True
        )


def connected(name: str, server: Server) -> socket.socket:
    """Connect to the process with the browser, which is started if there is none."""
    end = time.monotonic() + START_SECONDS
    while True:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect("\0" + name)
        except ConnectionRefusedError:
            connection.close()
            server.start()
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
        else:
            return connection


if __name__ == "__main__":
    if len(sys.argv) > 1:
        serve(sys.argv[1], Chromium)
    else:
        forward(f"gamed-chromium-{os.getuid()}-{os.getppid()}", [sys.executable, __file__])
