"""The far end of the wire: passes requests on to the real server, and misbehaves as a scenario's rules say.

A rule is data: `on` ("METHOD /path", with `*`), perhaps `when` (what the request must be like) and `times`, and what
happens: `answer`, `raw`, `lose`, `tear`, `delay`, `hold`, `withhold`, `append`, `change`, `cut`, `kill`, `endless`. The
first that fits is taken.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import select
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from .http_io import LIMIT_SECONDS, Answer, Request, Torn, forward, listening, read_request
from .matching import matches
from .releases import FakeReleases
from .service import Service

PORTS = range(20000, 32000)
HOLD_SECONDS = 0.05
"""Between two looks at the connection of a held request."""
CUT_SECONDS = 0.2
"""A pause before a cut answer ends: browsers drop what they have not handed over when a connection breaks."""
SECRET = re.compile(rb"g(?:at|rc|ds)_[A-Za-z0-9_-]{24,}")
"""A credential. An id, which is no secret, can have such letters in it, but has only 22 characters after its prefix."""
CORS = b"Access-Control-Allow-Origin: *\r\nAccess-Control-Expose-Headers: *\r\n"
"""For clients in a browser: without them it hides every response from the page, whatever the client does."""
PREFLIGHT_SECONDS = 600


@dataclass
class Rule:
    data: Mapping[str, Any]
    left: int | None = None

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Rule:
        data = {**data, **data.get("with", {})}
        return cls(data, data.get("times"))

    def fits(self, request: Request) -> bool:
        if self.left == 0 or not fnmatchcase(request.line, self.data["on"].replace("[", "[[]")):
            return False
        return "when" not in self.data or matches(self.data["when"], request.shown())


def answer_of(data: Mapping[str, Any]) -> Answer:
    """Return the answer of a rule: `json`, `text`, `data` (Base64), or `problem`: a code, with `status` and members."""
    status, headers = data.get("status", 200), {"Gamed-Protocol": "1.0", **data.get("headers", {})}
    if "problem" in data:
        code = data["problem"]
        known = {"type": f"urn:gamed:problem:{code}", "title": code, "status": status, "code": code}
        body = json.dumps({**known, "detail": f"Said the far end: {code}.", **data.get("members", {})}).encode()
        headers = {"Content-Type": "application/problem+json", **headers}
    elif "json" in data:
        body, headers = json.dumps(data["json"]).encode(), {"Content-Type": "application/json", **headers}
    elif "data" in data:
        body = base64.b64decode(data["data"])
    else:
        body, headers = data.get("text", "").encode(), {"Content-Type": "text/html", **headers}
    return Answer(status, [pair for pair in headers.items() if pair[1] is not None], body)


def changed(answer: Answer, how: Mapping[str, Any]) -> Answer:
    """Return the answer with other JSON members (null: removed), other headers (null: removed), another status."""
    fields = [
        pair for pair in answer.headers if pair[0].lower() not in {name.lower() for name in how.get("headers", {})}
    ]
    fields += [pair for pair in how.get("headers", {}).items() if pair[1] is not None]
    answer = Answer(how.get("status", answer.status), fields, answer.body)
    if "json" in how and isinstance(answer.json, dict):
        answer = answer.with_body(json.dumps(_merged(answer.json, how["json"])).encode())
    return answer.with_body(how["text"].encode()) if "text" in how else answer


def _merged(value: dict[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    both = {name: _merged(value[name], of) if _objects(value.get(name), of) else of for name, of in change.items()}
    return {name: of for name, of in {**value, **both}.items() if of is not None or name not in change}


def _objects(*values: Any) -> bool:
    return all(isinstance(value, dict) for value in values)


def allowed(request: Request) -> bytes:
    """Return the answer to a preflight request (Fetch Standard, CORS protocol)."""
    fields = [
        ("Access-Control-Allow-Origin", "*"),
        ("Access-Control-Allow-Methods", request.headers["access-control-request-method"]),
        ("Access-Control-Allow-Headers", request.headers.get("access-control-request-headers", "")),
        ("Access-Control-Max-Age", str(PREFLIGHT_SECONDS)),
    ]
    return Answer(204, fields, b"").raw(request.method)


def for_pages(request: Request, raw: bytes) -> bytes:
    """Return the response with the headers that a page of another origin needs to see it."""
    return raw.replace(b"\r\n", b"\r\n" + CORS, 1) if "origin" in request.headers else raw


@dataclass
class FakeServer:
    """`seen` are the requests, in order. Without a `service` a request without a rule is 404, and `unexpected`."""

    service: Service | None = None
    rules: list[Rule] = field(default_factory=list)
    seen: list[Request] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    secrets: set[bytes] = field(default_factory=set)
    """Every token that has passed through this server."""
    given: set[bytes] = field(default_factory=set)
    """The tokens that this server has issued."""
    fate: Callable[[Request], Mapping[str, Any] | None] = lambda request: None
    """Returns the action for a request without a rule, in the form of a rule."""
    releases: FakeReleases = field(default_factory=FakeReleases)

    def __post_init__(self) -> None:
        self._changed = threading.Condition()
        self._held: set[str] = set()
        self.given_up: list[str] = []
        """The held requests whose client has closed the connection before the answer."""
        self._listener = listening(PORTS)
        self.port = self._listener.getsockname()[1]
        self.origin = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.release(None)

    def release(self, name: str | None) -> None:
        """Continue held requests; None continues all of them, and later ones."""
        with self._changed:
            self._held.add("*" if name is None else name)
            self._changed.notify_all()

    def await_requests(self, line: str, count: int, seconds: float = LIMIT_SECONDS) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: len(self.requests(line)) >= count, seconds)

    def requests(self, line: str) -> list[Request]:
        return [request for request in self.seen if fnmatchcase(request.line, line)]

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(LIMIT_SECONDS)
        with connection, contextlib.suppress(OSError, Torn, ValueError):
            self._exchange(connection)

    def _exchange(self, connection: socket.socket) -> None:
        request = read_request(connection, time.monotonic)
        if request.method == "OPTIONS" and "access-control-request-method" in request.headers:
            return connection.sendall(allowed(request))  # the browser's own question, not the client's
        self.secrets |= set(SECRET.findall(request.body)) | set(SECRET.findall(repr(request.headers).encode()))
        with self._changed:
            self.seen.append(request)
            rule = next((rule for rule in self.rules if rule.fits(request)), None)
            if rule and rule.left:
                rule.left -= 1
            self._changed.notify_all()
        deed = rule.data if rule else (self.fate(request) or {})
        if "endless" in deed:
            return self._pour(connection, deed["endless"], request)
        raw = for_pages(request, self._performed(request, deed, connection))
        self.given |= set(SECRET.findall(raw))
        self.secrets |= self.given
        connection.sendall(raw)
        if "cut" in deed:
            time.sleep(CUT_SECONDS)
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_WR)

    def _pour(self, connection: socket.socket, limit: int, request: Request) -> None:
        """Send JSON that does not end, until `limit` bytes: a client that reads them does not bound its memory."""
        head = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nGamed-Protocol: 1.0\r\n\r\n{"x":"'
        connection.sendall(for_pages(request, head))
        for _ in range(limit >> 16):
            connection.sendall(b"x" * (1 << 16))
        self.unexpected.append(f"a client that reads {limit} bytes of JSON")

    def _performed(self, request: Request, deed: Mapping[str, Any], connection: socket.socket) -> bytes:
        """Return the bytes of the response; without any the connection just closes."""
        time.sleep(deed.get("delay", 0))
        if name := deed.get("hold"):
            self._hold(request, name, connection)
        if deed.get("kill") and self.service:
            self._kill(request, deed["kill"])
        if "raw" in deed:
            return deed["raw"].encode("utf-8")
        if deed.get("lose") == "request":
            return b""
        answer = answer_of(deed["answer"]) if "answer" in deed else self._passed_on(request, deed)
        raw = changed(answer, deed.get("change", {})).raw(request.method)
        if name := deed.get("withhold"):
            self._hold(request, name, connection)
        if deed.get("lose") == "answer":
            return b""
        if "cut" in deed:  # so many bytes of the body
            return raw[: raw.index(b"\r\n\r\n") + 4 + deed["cut"]]
        return raw[: len(raw) // 2 if len(raw) < 400 else len(raw) - 10] if deed.get("tear") == "answer" else raw

    def _hold(self, request: Request, name: str, connection: socket.socket) -> None:
        """Wait until the request, or its answer, is released, or its client has gone."""
        end = time.monotonic() + LIMIT_SECONDS
        with self._changed:
            while not {name, "*"} & self._held and time.monotonic() < end:
                if select.select([connection], [], [], 0)[0] and _is_closed(connection):
                    self.given_up.append(request.line)
                    self._changed.notify_all()
                    raise Torn
                self._changed.wait(HOLD_SECONDS)

    def await_given_up(self, line: str, count: int, seconds: float) -> bool:
        def found() -> bool:
            return sum(fnmatchcase(each, line) for each in self.given_up) >= count

        with self._changed:
            return self._changed.wait_for(found, seconds)

    def _kill(self, request: Request, when: str) -> None:
        """Kill the server `before` the request arrives, or `after` it was answered; `restart` starts it again first."""
        assert self.service
        if when == "after":
            forward(self.service.port, request)
        self.service.kill()
        if when == "restart":
            self.service.start()
        else:
            raise Torn

    def _passed_on(self, request: Request, deed: Mapping[str, Any]) -> Answer:
        if delivered := self.releases.answer(request):
            return delivered
        if self.service is None:
            self.unexpected.append(request.line)
            return answer_of({"status": 404, "problem": "route_not_found"})
        request = replace(request, path=request.path + deed.get("append", ""))
        answer = forward(self.service.port, request, torn=deed.get("tear") == "request")
        if request.path.startswith("/auth/") and self.service.base.encode() in answer.body:
            return answer.with_body(answer.body.replace(self.service.base.encode(), self.origin.encode()))
        return answer


def _is_closed(connection: socket.socket) -> bool:
    """Return whether the client has closed the connection, in order or by a reset."""
    try:
        return not connection.recv(1, socket.MSG_PEEK)
    except ConnectionResetError:
        return True
