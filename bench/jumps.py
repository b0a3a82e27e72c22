"""How many modules a request opens, and how often its path changes between them: in a running `gamed dev`.

python -m bench.jumps [--checkout DIR] [--show]

A profile hook in every thread of the service notes the module of each call while one request is under way: a PUT of
4 KiB, a provider's callback, a refresh, a small asset. A jump is a call or a return into another module of gamed than
the one before; `back` are those into a module that was left before. The played provider (gamed.dev) is not counted.

All that the request causes counts, until 0.2 s after its answer: the server logs the request and counts the commit
after it has sent the answer. What runs by itself does not count: the timers that wait when the request begins (the
flush of the access log, late imports, periodic tasks, the checkpoint five seconds after a write) are delayed until the
request has ended. Timers that the request starts count if they fire.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

from bench.process import ROOT
from tests.support.ports import free_port

HOOK = """
import json, os, runpy, signal, sys, threading
sys.path[0] = {path!r}
trail, noting = [], [False]
def note(frame, event, arg):
    if noting[0] and event in ("call", "return"):
        name = frame.f_globals.get("__name__", "")
        if name.startswith("gamed") and not name.startswith(("gamed.dev", "gamed.cli")):
            trail.append((threading.get_ident(), event, name, frame.f_code.co_name))
def begin(*_):
    from twisted.internet import reactor
    for timer in reactor.getDelayedCalls():
        timer.delay({delay})
    trail.clear(); noting[0] = True
def end(*_):
    noting[0] = False
    with open({out!r} + ".new", "w") as file:
        json.dump(trail, file)
    os.rename({out!r} + ".new", {out!r})
threading.setprofile(note); sys.setprofile(note)
signal.signal(signal.SIGUSR1, begin); signal.signal(signal.SIGUSR2, end)
sys.argv[0] = "gamed"
runpy.run_module("gamed", run_name="__main__", alter_sys=True)
"""
SETTLE_SECONDS, END_SECONDS = 0.3, 0.2
DELAY_SECONDS = 2
"""By which the waiting timers are delayed: longer than each request takes, with the hook."""


class Service:
    """A running `gamed dev` with the hook."""

    def __init__(self, checkout: Path, folder: Path) -> None:
        self.port, self.provider_port = free_port(), free_port()
        self._out = folder / "trail.json"
        code = HOOK.format(path=str(checkout), out=str(self._out), delay=DELAY_SECONDS)
        words = [sys.executable, "-c", code, "dev", "--folder", str(folder / "dev"), f"--port={self.port}"]
        self._log = (folder / "log").open("w")
        environment = {**os.environ, "PYTHONPATH": str(checkout)}
        self._child = subprocess.Popen(
            [*words, f"--provider-port={self.provider_port}"],
            cwd=checkout, env=environment, stdout=self._log, stderr=self._log,
        )  # fmt: skip
        self._wait()

    def ask(
        self, method: str, url: str, headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Send one request on a connection of its own; return status, header fields and content."""
        parts = urlsplit(url)
        connection = HTTPConnection(parts.hostname or "127.0.0.1", parts.port or self.port, timeout=30)
        connection.request(method, f"{parts.path}?{parts.query}".rstrip("?"), body, dict(headers or {}))
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, dict(answer.headers), content

    def noted(self, request: Callable[[], object]) -> list[tuple[int, str, str, str]]:
        """Return the calls and returns while the request was under way."""
        time.sleep(SETTLE_SECONDS)
        self._out.unlink(missing_ok=True)
        self._child.send_signal(signal.SIGUSR1)
        time.sleep(0.05)
        request()
        time.sleep(END_SECONDS)
        self._child.send_signal(signal.SIGUSR2)
        while not self._out.exists():
            time.sleep(0.01)
        return [tuple(each) for each in json.loads(self._out.read_text())]

    def stop(self) -> None:
        self._child.terminate()
        self._child.wait(30)
        self._log.close()

    def _wait(self) -> None:
        for _ in range(600):
            try:
                if self.ask("GET", "/healthz")[0] == 200:
                    return
            except OSError:
                time.sleep(0.1)
        raise RuntimeError("gamed dev does not answer")


class Player:
    """A player who signs in with the played Discord; `callback` is the URL that the provider redirects to."""

    def __init__(self, service: Service) -> None:
        self._service = service
        body = json.dumps({"provider": "discord", "loopback_port": 51004}).encode()
        _, _, content = service.ask("POST", "/auth/login", {"Content-Type": "application/json"}, body)
        self._login = json.loads(content)
        _, headers, page = service.ask("GET", self._login["login_url"])
        self._cookie = headers["Set-Cookie"].partition(";")[0]
        if "Location" not in headers:
            form = re.search(rb'name="form" value="([^"]+)"', page)
            fields = urlencode({"form": form[1].decode() if form else ""}).encode()
            kind = {"Content-Type": "application/x-www-form-urlencoded", "Cookie": self._cookie}
            _, headers, _ = service.ask("POST", self._login["login_url"] + "/continue", kind, fields)
        where = headers["Location"]
        _, _, page = service.ask("GET", where)
        manner = re.search(rb'name="manner" value="([^"]+)"', page)
        query = {"query": urlsplit(where).query, "person": "anna", "manner": manner[1].decode() if manner else ""}
        chosen = urlencode(query).encode()
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        _, headers, _ = service.ask("POST", where, kind, chosen)
        self.callback = headers["Location"]

    def return_from_provider(self) -> str:
        """Open the callback; return the address of the result page."""
        status, headers, _ = self._service.ask("GET", self.callback, {"Cookie": self._cookie})
        if status != 303:
            raise RuntimeError(f"the callback is answered {status}")
        return headers["Location"]

    def collect(self, result: str) -> Mapping[str, str]:
        """Return the credentials."""
        _, headers, _ = self._service.ask("GET", result, {"Cookie": self._cookie})
        ticket = parse_qs(urlsplit(headers["Refresh"].partition("url=")[2]).query)["ticket"][0]
        secret = {"Authorization": f"Bearer {self._login['device_secret']}", "Content-Type": "application/json"}
        _, _, content = self._service.ask(
            "POST", "/auth/login/collect", secret, json.dumps({"ticket": ticket}).encode()
        )
        return dict(json.loads(content))


def figures(trail: list[tuple[int, str, str, str]]) -> tuple[int, int, int]:
    """Return the number of modules, of jumps, and of jumps back."""
    seen: set[str] = set()
    last: dict[int, str] = {}
    jumps = back = 0
    for thread, _, module, _ in trail:
        if last.get(thread) != module:
            jumps += 1
            back += module in seen
            seen.add(module)
            last[thread] = module
    return len(seen), jumps, back


def main() -> None:
    """Print a line per request."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkout", type=Path, default=ROOT)
    parser.add_argument("--show", action="store_true", help="print the modules in the order in which they are entered")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gamed-bench-") as folder:
        service = Service(options.checkout.resolve(), Path(folder))
        try:
            for name, trail in traced(service).items():
                modules, jumps, back = figures(trail)
                print(f"{name:9} {modules:3} modules, {jumps:4} jumps, {back:4} back")
                if options.show:
                    print("  " + " ".join(dict.fromkeys(module for _, _, module, _ in trail)))
        finally:
            service.stop()


def traced(service: Service) -> Mapping[str, list[tuple[int, str, str, str]]]:
    """Return the trail of each request; each was made once before."""
    first = Player(service)
    session = first.collect(first.return_from_provider())
    second = Player(service)
    callback = service.noted(second.return_from_provider)
    token = {"Authorization": f"Bearer {session['access_token']}", "Content-Type": "application/octet-stream"}

    def put() -> None:
        service.ask("PUT", "/game/saves/auto", {**token, "If-Match": "*"}, os.urandom(4096))

    service.ask("PUT", "/game/saves/auto", token, os.urandom(4096))
    put()
    _, _, content = service.ask("GET", "/assets/stable")
    small = min(json.loads(content)["files"].items(), key=lambda item: item[1]["size"])[0]
    service.ask("GET", f"/assets/stable/{small}")
    found = {"PUT": service.noted(put), "callback": callback}

    def refresh() -> None:
        body = json.dumps({"refresh_credential": session["refresh_credential"]}).encode()
        service.ask("POST", "/auth/session/refresh", {"Content-Type": "application/json"}, body)

    found["refresh"] = service.noted(refresh)
    found["asset"] = service.noted(lambda: service.ask("GET", f"/assets/stable/{small}"))
    return found


if __name__ == "__main__":
    main()
