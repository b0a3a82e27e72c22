"""A small server with enough of the protocol, and with scripted faults."""

import json
import queue
import ssl
import threading
from base64 import b64encode
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from msgspec import Struct, field

from tests.support.python_client import gamed_client as gc

TICKET, CODE = "a-ticket-that-only-the-browser-got", "BKTRVW"


class Seen(Struct, frozen=True):
    """One request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> dict:
        return json.loads(self.body)

    @property
    def bearer(self) -> str:
        return self.headers.get("Authorization", "").removeprefix("Bearer ")


class Reply(Struct, frozen=True):
    """One response. `torn` bytes of the body are held back; `lost`: the connection closes without a byte."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    torn: int = 0
    lost: bool = False


LOST = Reply(lost=True)


def of_json(value: object, status: int = 200) -> Reply:
    headers = {"Content-Type": "application/json", "Gamed-Protocol": "1.0"}
    return Reply(status, json.dumps(value).encode(), headers)


def problem(status: int, code: str, retry_after: int | None = None, **members: object) -> Reply:
    value = {
        "type": f"urn:gamed:problem:{code}",
        "title": code,
        "status": status,
        "code": code,
        "detail": f"{code}.",
        **members,
    }
    headers = {"Content-Type": "application/problem+json"}
    if retry_after is not None:
        headers["Retry-After"] = str(retry_after)
    return Reply(status, json.dumps(value).encode(), headers)


class FakeGamed(Struct):
    """One login and one session at a time, a few saves.

    `scripted[method, path]` are replies given first, instead of the real one; `after[...]` replies that replace the
    real one after it took effect. `seen` is everything that arrived.
    """

    mode: str = "local"
    providers: tuple[str, ...] = ()
    return_proof: str = "loopback_or_code"
    stage: str = "waiting_for_browser"
    outcome: Reply | None = None
    attempts: int = 5
    generation: int = 1
    access_seconds: int = 900
    session: str = "ses_1"
    player: str = "ply_1"
    login_url: str = "{base}/auth/login/AAAAAAAAAAAAAAAAAAAAAA"
    poll_url: str = "{base}/auth/login/collect"
    saves: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    scripted: dict[tuple[str, str], deque[Reply]] = field(default_factory=lambda: defaultdict(deque))
    after: dict[tuple[str, str], deque[Reply]] = field(default_factory=lambda: defaultdict(deque))
    seen: list[Seen] = field(default_factory=list)
    watch: Callable[[Seen], object] = lambda request: None
    """Called with each request before it is performed."""
    changed: threading.Condition = field(default_factory=threading.Condition)
    tls: ssl.SSLContext | None = None
    _server: ThreadingHTTPServer | None = None

    def start(self) -> str:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                reply = fake.decide(Seen(self.command, self.path, dict(self.headers.items()), body))
                if reply.lost:
                    return
                self.send_response(reply.status)
                for name, value in {"Content-Length": str(len(reply.body)), **reply.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(reply.body[: len(reply.body) - reply.torn])

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer

            def log_message(self, *args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *args: object) -> None:
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        if self.tls:
            self._server.socket = self.tls.wrap_socket(self._server.socket, True, do_handshake_on_connect=False)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self.base

    @property
    def base(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self._server.server_port}"

    def stop(self) -> None:
        with self.changed:
            self.changed.notify_all()
        self._server.shutdown()
        self._server.server_close()

    def move(self, stage: str, outcome: Reply | None = None) -> None:
        """Change the stage of the login, as the browser does."""
        with self.changed:
            self.stage, self.outcome = stage, outcome
            self.changed.notify_all()

    def requests(self, path: str) -> list[Seen]:
        return [seen for seen in self.seen if seen.path == path]

    @property
    def started(self) -> dict:
        """Return the body of the newest start."""
        return self.requests("/auth/login")[-1].json

    def decide(self, request: Seen) -> Reply:
        key = request.method, request.path
        self.watch(request)
        with self.changed:
            self.seen.append(request)
            if self.scripted[key]:
                return self.scripted[key].popleft()
        reply = self._route(request)
        with self.changed:
            return self.after[key].popleft() if self.after[key] else reply

    def _route(self, request: Seen) -> Reply:
        routes: dict[str, Callable[[Seen], Reply]] = {
            "/auth/config": lambda r: of_json({"mode": self.mode, "providers": list(self.providers)}),
            "/auth/login": self._start,
            "/auth/login/collect": self._collect,
            "/auth/login/cancel": self._cancel,
            "/auth/session/refresh": self._refresh,
            "/auth/session/logout": lambda r: Reply(204),
        }
        if request.path in routes:
            return routes[request.path](request)
        if request.path.startswith("/game/"):
            return self._game(request)
        return problem(404, "route_not_found")

    def _start(self, request: Seen) -> Reply:
        return of_json(
            {
                "login_id": "lgn_1",
                "device_secret": "gds_secret",
                "login_url": self.login_url.format(base=self.base),
                "return_proof": self.return_proof if "loopback_port" in request.json else "code",
                "expires_in": 600,
                "expires_at": "2030-01-01T00:00:00.000Z",
                "poll": {"url": self.poll_url.format(base=self.base), "max_wait": 25, "min_interval": 1},
            },
            201,
        )

    def _collect(self, request: Seen) -> Reply:
        body = request.json
        with self.changed:
            if body.get("wait"):
                self.changed.wait_for(lambda: self.outcome or self.stage != body.get("seen"), timeout=body["wait"])
            if self.outcome:
                return self.outcome
            if self.stage == "proof_required" and body.keys() & {"ticket", "finish_code"}:
                return self._prove(body)
            return of_json({"status": "pending", "stage": self.stage, "expires_in": 431}, 202)

    def _prove(self, body: dict) -> Reply:
        if body.get("ticket") == TICKET or body.get("finish_code", "").replace("-", "").upper() == CODE:
            self.outcome = self.complete()
            return self.outcome
        if "finish_code" in body:
            self.attempts -= 1
            if not self.attempts:
                self.outcome = failed("proof_attempts_exceeded")
        return problem(400, "invalid_proof", attempts_left=self.attempts)

    def complete(self) -> Reply:
        return of_json(self.credentials())

    def credentials(self) -> dict:
        """Return the members of a completed collect."""
        player = {"id": self.player, "created": True, "owner": False}
        return {"status": "complete", "provider": "local", "player": player, **self.pair()}

    def pair(self) -> dict:
        return {
            "token_type": "Bearer",
            "access_token": self.access,
            "expires_in": self.access_seconds,
            "refresh_credential": self.refresh,
            "refresh_expires_in": 2592000,
            "session_id": self.session,
        }

    @property
    def access(self) -> str:
        return f"gat_{self.session}_{self.generation}"

    @property
    def refresh(self) -> str:
        return f"grc_{self.session}_{self.generation}"

    def _cancel(self, request: Seen) -> Reply:
        self.move(self.stage, failed("login_cancelled"))
        return Reply(204)

    def _refresh(self, request: Seen) -> Reply:
        """Rotate the current credential; its immediate predecessor returns the same successor again."""
        with self.changed:
            presented = request.json["refresh_credential"]
            if presented == self.refresh:
                self.generation += 1
            elif presented != f"grc_{self.session}_{self.generation - 1}":
                return problem(401, "refresh_invalid")
            return of_json(self.pair())

    def _game(self, request: Seen) -> Reply:
        if request.bearer != self.access:
            return problem(401, "token_expired")
        slot = request.path.removeprefix("/game/saves/")
        if request.method == "PUT":
            return self._put(slot, request)
        if request.path == "/game/":
            return of_json(
                {"player": {"id": self.player, "owner": False}, "usage": {"slots": len(self.saves), "bytes": 9}}
            )
        if request.path == "/game/saves":
            return of_json(
                {"cursor": "e.1", "saves": [{**info(s, *v), "conflicts": []} for s, v in self.saves.items()]}
            )
        if slot not in self.saves:
            return problem(404, "save_not_found")
        if request.method == "DELETE":
            del self.saves[slot]
            return Reply(204)
        return served(*self.saves[slot], request)

    def _put(self, slot: str, request: Seen) -> Reply:
        version, held = self.saves.get(slot, (0, b""))
        if version and held == request.body:
            return of_json(info(slot, version, held))
        current = info(slot, version, held) if version else None
        if (request.headers.get("If-None-Match") == "*" and version) or (
            "If-Match" in request.headers and request.headers["If-Match"] not in ("*", current and current["etag"])
        ):
            yours = info(slot, version + 1, request.body)
            return problem(412, "version_conflict", slot=slot, base=None, current=current, yours=yours)
        self.saves[slot] = version + 1, request.body
        return of_json(info(slot, *self.saves[slot]), 200 if version else 201)


def etag(version: int, data: bytes) -> str:
    return f'"{version}-{sha256(data).hexdigest()[:16]}"'


def info(slot: str, version: int, data: bytes) -> dict:
    return {
        "slot": slot,
        "version": version,
        "etag": etag(version, data),
        "size": len(data),
        "sha256": sha256(data).hexdigest(),
        "content_type": "application/octet-stream",
        "modified": "2030-01-01T00:00:00.000Z",
        "meta": {"title": "Chapter 3"},
    }


def served(version: int, data: bytes, request: Seen) -> Reply:
    tag = etag(version, data)
    if request.headers.get("If-None-Match") == tag:
        return Reply(304, b"", {"ETag": tag})
    digest = b64encode(sha256(data).digest()).decode()
    headers = {"ETag": tag, "Save-Version": tag.strip('"'), "Save-Meta": '{"title":"Chapter 3"}'}
    return Reply(
        200, data, {**headers, "Content-Type": "application/octet-stream", "Repr-Digest": f"sha-256=:{digest}:"}
    )


def failed(code: str) -> Reply:
    value = {"type": f"urn:gamed:problem:{code}", "title": code, "status": 403, "code": code, "detail": f"{code}."}
    return of_json({"status": "failed", "problem": value})


class Player(gc.Person):
    """A person who follows the test, and records what they were shown."""

    def __init__(self, *codes: str | None) -> None:
        self.codes = deque(codes)
        self.urls: list[str] = []
        self.offers: queue.Queue[tuple[bool, int | None]] = queue.Queue()
        self.offered = 0

    def choose_provider(self, providers):
        return providers[-1].name

    def browser_opened(self, url, opened, qr_url):
        self.urls.append(url)

    def finish_code(self, show_code, attempts_left):
        self.offered += 1
        self.offers.put((show_code is not None, attempts_left))
        if show_code is not None:
            show_code()
        return self.codes.popleft() if self.codes else None
