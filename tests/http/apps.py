"""Route groups, body policies and receivers for the tests of HTTP itself."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct, field
from twisted.internet.defer import CancelledError, Deferred, fail, succeed

from gamed.database.errors import DatabaseBusy
from gamed.http.app import make_app, make_html_app
from gamed.http.background import ShieldedTasks
from gamed.http.bodies import BodyPolicy, MemoryBody, RequestHead
from gamed.http.json_body import read_form, read_json, read_query, write_json
from gamed.http.problems import Problem, RenderedError
from gamed.http.request import Request
from gamed.login.views import problem_page
from gamed.pages.model import Frame
from gamed.pages.render import PageRenderer

SECRET = "gat_" + "Zx9" * 14 + "abcdefg"


class Inner(Struct):
    name: str = ""
    tags: list[str] = []


class Body(Struct):
    """The JSON body of /echo/json."""

    number: int
    text: str = ""
    inner: Inner | None = None


class RecordingReceiver:
    """A body receiver that records what it gets."""

    def __init__(self, refuse_at: int | None = None) -> None:
        self.parts: list[bytes] = []
        self.aborted = 0
        self._refuse_at = refuse_at

    def write(self, data: bytes) -> None:
        self.parts.append(data)
        if self._refuse_at is not None and sum(map(len, self.parts)) > self._refuse_at:
            raise TooMuch("That is too much.")

    def abort(self) -> None:
        self.aborted += 1

    @property
    def size(self) -> int:
        return sum(map(len, self.parts))


class TooMuch(DatabaseBusy):
    """A typed error that a receiver raises."""


class BlockingPolicy(Struct, frozen=True):
    """A body policy that decides when the test says so."""

    heads: list[RequestHead] = field(default_factory=list)
    waiting: list[Deferred[Any]] = field(default_factory=list)

    async def accept(self, head: RequestHead) -> Any:
        self.heads.append(head)
        decision: Deferred[Any] = Deferred()
        self.waiting.append(decision)
        return await decision


class AcceptingPolicy(Struct, frozen=True):
    """A body policy that accepts every body and records the receivers."""

    receivers: list[RecordingReceiver] = field(default_factory=list)
    refuse_at: int | None = None

    async def accept(self, head: RequestHead) -> RecordingReceiver:
        self.receivers.append(RecordingReceiver(self.refuse_at))
        return self.receivers[-1]


class EchoRoutes(Struct, frozen=True):
    """JSON routes of every kind."""

    app = make_app()
    prefixes = ("/echo/", "/auth/echo", "/game/")
    body_policies: Mapping[str, BodyPolicy] = field(default_factory=dict)
    calls: list[Any] = field(default_factory=list)
    waiting: list[Deferred[Any]] = field(default_factory=list)
    tasks: ShieldedTasks = field(default_factory=ShieldedTasks)

    @app.route("/echo/text", methods=["GET"])
    def echo_text(self, request: Request) -> str:
        self.calls.append(request.head)
        request.setHeader("Content-Type", "text/plain")
        return "text"

    @app.route("/echo/json", methods=["POST"])
    async def echo_json(self, request: Request) -> bytes:
        body = read_json(request, Body)
        self.calls.append(body)
        return write_json(request, 200, body)

    @app.route("/echo/optional", methods=["POST"])
    async def echo_optional(self, request: Request) -> bytes:
        return write_json(request, 200, read_json(request, Inner, optional=True))

    @app.route("/echo/any", methods=["GET", "PUT", "POST", "DELETE"])
    async def echo_any(self, request: Request) -> bytes:
        receiver = request.body
        self.calls.append(request.head)
        size = receiver.size if isinstance(receiver, (RecordingReceiver, MemoryBody)) else -1
        return write_json(request, 200, {"size": size, "method": request.head.method})

    @app.route("/echo/query", methods=["GET"])
    async def echo_query(self, request: Request) -> bytes:
        return write_json(request, 200, dict(read_query(request)))

    @app.route("/echo/cookie", methods=["GET"])
    def echo_cookie(self, request: Request) -> bytes:
        found = [request.getCookie(name) for name in ("absent", "gl")]
        return (found[1] or "none").encode("latin-1")

    @app.route("/echo/later", methods=["GET"])
    async def echo_later(self, request: Request) -> bytes:
        answer: Deferred[bytes] = Deferred()
        self.waiting.append(answer)
        try:
            return await answer
        except CancelledError:
            self.calls.append(CancelledError)
            raise

    @app.route("/echo/deferred", methods=["GET"])
    def echo_deferred(self, request: Request) -> Deferred[bytes]:
        return succeed(b"in time") if request.head.query else fail(TooMuch())

    @app.route("/echo/later/deferred", methods=["GET"])
    def echo_later_deferred(self, request: Request) -> Deferred[bytes]:
        answer: Deferred[bytes] = Deferred(lambda _: self.calls.append(CancelledError))
        self.waiting.append(answer)
        return answer

    @app.route("/echo/stubborn", methods=["GET"])
    async def echo_stubborn(self, request: Request) -> None:
        request.setHeader("Content-Length", "6")
        request.write(b"abc")
        with suppress(CancelledError):
            await self._wait()
        request.write(b"def")
        self.calls.append("written")

    @app.route("/echo/bodiless/<string:status>", methods=["GET"])
    def echo_bodiless(self, request: Request, status: str) -> bytes:
        request.setResponseCode(int(status))
        return b"text"

    @app.route("/echo/detached", methods=["POST"])
    async def echo_detached(self, request: Request) -> bytes:
        return await self.tasks.run(self._work())

    async def _work(self) -> bytes:
        answer: Deferred[bytes] = Deferred()
        self.waiting.append(answer)
        result = await answer
        self.calls.append("finished")
        return result

    @app.route("/echo/crash", methods=["GET", "POST"])
    async def echo_crash(self, request: Request) -> bytes:
        request.setHeader("ETag", '"1"')
        request.addHeader("Set-Cookie", "gl=secret")
        raise ValueError(f"cannot use {SECRET}")

    @app.route("/echo/not-bytes", methods=["GET"])
    def echo_not_bytes(self, request: Request) -> Any:
        return 17

    @app.route("/echo/unspeakable", methods=["GET"])
    def echo_unspeakable(self, request: Request) -> bytes:
        request.setHeader("ETag", "\ud800")
        return b"text"

    @app.route("/echo/unmeasured", methods=["GET"])
    def echo_unmeasured(self, request: Request) -> None:
        request.write(b"text")

    @app.route("/echo/typed", methods=["GET"])
    async def echo_typed(self, request: Request) -> bytes:
        raise TooMuch

    @app.route("/echo/nothing", methods=["DELETE", "GET"])
    async def echo_nothing(self, request: Request) -> None:
        request.setHeader("Content-Type", "text/plain")
        request.setResponseCode(204)

    @app.route("/echo/stream", methods=["GET"])
    async def echo_stream(self, request: Request) -> None:
        request.setHeader("Content-Length", "6")
        request.write(b"abc")
        await self._wait()
        request.write(b"def")

    @app.route("/echo/broken-stream", methods=["GET"])
    async def echo_broken_stream(self, request: Request) -> None:
        request.setHeader("Content-Length", "6")
        request.write(b"abc")
        raise ValueError("the disk is gone")

    @app.route("/echo/measured/<string:length>", methods=["GET"])
    async def echo_measured(self, request: Request, length: str) -> None:
        request.setHeader("Content-Length", length)
        request.write(b"abc")
        request.write(b"def")

    @app.route("/echo/tree/leaf/<string:name>", methods=["GET"])
    def echo_leaf(self, request: Request, name: str) -> bytes:
        return write_json(request, 200, {"leaf": name})

    @app.route("/echo/tree/<string:name>/<path:path>", methods=["GET"])
    def echo_tree(self, request: Request, name: str, path: str) -> bytes:
        return write_json(request, 200, {"name": name, "path": path})

    async def _wait(self) -> None:
        answer: Deferred[None] = Deferred()
        self.waiting.append(answer)
        await answer

    @app.route("/echo/name/<string:name>", methods=["GET"])
    async def echo_name(self, request: Request, name: str) -> bytes:
        return write_json(request, 200, {"name": name})

    @app.route("/game/", methods=["GET"])
    async def game(self, request: Request) -> bytes:
        request.setHeader("Vary", "Authorization")
        return write_json(request, 200, {})

    @app.route("/auth/echo", methods=["POST"])
    async def auth_echo(self, request: Request) -> bytes:
        return write_json(request, 200, {})


RENDERER = PageRenderer()


def plain_problem_page(group: object, problem: Problem, request: Request) -> RenderedError:
    """Return the page of a problem at a server without a name."""
    shown = problem_page(problem, request_id=request.request_id)
    return RENDERER.headers, RENDERER.render(shown, Frame(None, request.request_id, 0))


class PageRoutes(Struct, frozen=True):
    """Browser routes."""

    app = make_html_app(plain_problem_page)
    prefixes = ("/auth/page/",)
    body_policies: Mapping[str, BodyPolicy] = field(default_factory=dict)

    @app.route("/auth/page/<token:token>", methods=["GET"])
    async def page(self, request: Request, token: str) -> bytes:
        request.setHeader("Content-Type", "text/html; charset=utf-8")
        return b"<p>page"

    @app.route("/auth/page/form", methods=["POST"])
    async def form(self, request: Request) -> bytes:
        request.setHeader("Content-Type", "text/html; charset=utf-8")
        return repr(sorted(read_form(request).items())).encode()

    @app.route("/auth/page/crash", methods=["GET"])
    async def crash(self, request: Request) -> bytes:
        raise ValueError(f"cannot use {SECRET}")


class CollectRoutes(Struct, frozen=True):
    """A JSON route beside the pages."""

    app = make_app()
    prefixes = ("/auth/page", "/auth/page/collect")
    body_policies: Mapping[str, BodyPolicy] = field(default_factory=dict)

    @app.route("/auth/page/collect", methods=["POST"])
    async def collect(self, request: Request) -> bytes:
        return write_json(request, 200, {})
