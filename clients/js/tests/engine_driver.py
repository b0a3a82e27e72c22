"""Driver of the JavaScript client in Firefox or WebKit for the suite: each driver is a frame of one page.

    python clients/conformance/run.py --driver "python clients/js/tests/engine_driver.py firefox" "loop_*"

As with `chromium_driver`, the first driver starts the process that has the browser. The page gets commands as events of
the server that it comes from, and hands them to the frame; a driver that was killed has its frame removed, which frees
its locks and databases as the end of a tab does. The browser checks CORS.
"""

import contextlib
import itertools
import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from clients.js.tests.chromium_driver import CALL_SECONDS, FILES, UNLOAD_SECONDS, forward, serve

HOST = """<!doctype html><title>Drivers</title><body><script>
const frames = new Map()
let sent = Promise.resolve()
function post(path, line) {
  sent = sent.then(() => fetch(path, { method: "POST", body: line })).catch(() => undefined)
}
function said(id, line) {
  post(`/said/${id}`, line)
}
new EventSource("/frames").onmessage = ({ data }) => {
  const { id, line } = JSON.parse(data)
  if (line !== undefined) return frames.get(id).contentWindow.gamedCommand(line)
  if (frames.has(id)) {
    frames.get(id).remove()
    return post(`/closed/${id}`, "")
  }
  const frame = document.createElement("iframe")
  frame.src = `/frame/${id}`
  frames.set(id, frame)
  document.body.append(frame)
}
</script>"""
FRAME = """<!doctype html><script>
globalThis.gamedLacks = %s
globalThis.gamedSay = (line) => parent.said(%s, line)
</script><script type="module" src="/driver.mjs"></script>"""
PULSE_SECONDS = 5.0


class Frames:
    """A browser with one page, whose frames are the drivers."""

    def __init__(self, engine: str) -> None:
        from tests.e2e.engines import ENGINES  # only here: it takes a second, and each driver imports this file

        self._names = map(str, itertools.count(1))  # its `next` is safe from several threads
        self._heard: dict[str, Callable[[str], None]] = {}
        self._removed: dict[str, threading.Event] = {}
        self._commands: queue.Queue[dict[str, str]] = queue.Queue()
        self._closed = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self._engine = ENGINES[engine]()
        self.lacks = [] if self._engine.stores_blobs else ["assets"]
        try:
            self._engine.open(f"http://127.0.0.1:{self._server.server_address[1]}/")
        except BaseException:
            self.close()  # a display for WebKit does not end with this process
            raise

    @property
    def runs(self) -> bool:
        return not self._closed.is_set()

    def close(self) -> None:
        self._closed.set()
        self._engine.close()
        self._server.shutdown()

    def tab(self, heard: Callable[[str], None]) -> str:
        name = next(self._names)
        self._heard[name] = heard
        self._removed[name] = threading.Event()
        self._commands.put({"id": name})
        return name

    def tell(self, tab: str, line: str) -> None:
        self._commands.put({"id": tab, "line": line})

    def close_tab(self, tab: str) -> None:
        """Return once the page has removed the frame, which a busy machine may delay, and its locks are free."""
        self._commands.put({"id": tab})
        if not self._removed[tab].wait(CALL_SECONDS):
            raise TimeoutError("the page does not remove a frame")
        time.sleep(UNLOAD_SECONDS)

    def note_removed(self, tab: str) -> None:
        self._removed[tab].set()

    def hear(self, tab: str, line: str) -> None:
        self._heard[tab](line)

    def pass_on(self, send: Callable[[bytes], object]) -> None:
        """Send the commands as events, until the page has gone."""
        while self.runs:
            try:
                command = self._commands.get(timeout=PULSE_SECONDS)
            except queue.Empty:
                event = b":\n\n"
            else:
                event = b"data: " + json.dumps(command).encode() + b"\n\n"
            try:
                send(event)
            except OSError:
                self._closed.set()


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, frames: Frames, *request: object) -> None:
        self._frames = frames
        super().__init__(*request)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        name = self.path.removeprefix("/")
        file = FILES / name
        if name == "frames":
            self._answer("text/event-stream", None)
            self._frames.pass_on(self.wfile.write)
        elif name == "":
            self._answer("text/html", HOST.encode())
        elif name.startswith("frame/"):
            page = FRAME % (json.dumps(self._frames.lacks), json.dumps(name.removeprefix("frame/")))
            self._answer("text/html", page.encode())
        elif file.parent == FILES and file.suffix == ".mjs" and file.is_file():
            self._answer("text/javascript", file.read_bytes())
        else:
            self.send_error(404)

    def do_POST(self) -> None:
        line = self.rfile.read(int(self.headers["Content-Length"])).decode()
        _, what, tab = self.path.split("/")
        if what == "closed":
            self._frames.note_removed(tab)
        else:
            self._frames.hear(tab, line)
        self._answer("text/plain", b"")

    def _answer(self, kind: str, body: bytes | None) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        if body is not None:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(body or b"")

    def log_message(self, format: str, *args: object) -> None:
        pass


if __name__ == "__main__":
    engine, *rest = sys.argv[1:]
    if rest:
        serve(rest[0], partial(Frames, engine))
    else:
        forward(f"gamed-{engine}-{os.getuid()}-{os.getppid()}", [sys.executable, __file__, engine])
