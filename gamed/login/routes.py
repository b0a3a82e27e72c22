"""The game's routes of a login start, collect and cancel it, and draw its link as a QR code.

See docs/protocol.md: Signing in.
"""

from collections.abc import Callable
from functools import partial
from io import BytesIO
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import asdict
from twisted.internet.interfaces import IReactorThreads

from gamed.bounded_threads import BoundedThreads, WorkThreads
from gamed.config.look import TAG_CHARACTERS
from gamed.crypto import Index
from gamed.http.app import make_app
from gamed.http.background import ShieldedTasks
from gamed.http.bodies import DEFAULT_BODY_POLICIES, parse_media_type
from gamed.http.errors import InvalidRequest, UnsupportedMediaType
from gamed.http.json_body import read_json, write_json
from gamed.http.problems import plain_problem
from gamed.http.request import Request
from gamed.login.authorize import AuthorizeService
from gamed.login.browser import LoginLifecycle
from gamed.login.collect import (
    FIRST_STAGE,
    Collected,
    CollectRequest,
    CollectService,
    Complete,
    Failed,
    Linked,
    Pending,
)
from gamed.login.errors import DeviceSecretInvalid, DrawingBusy
from gamed.login.keys import PresentedProof, presented_secret_index
from gamed.login.policy import LoginContext
from gamed.login.problems import LOGIN_ERRORS
from gamed.login.return_rules import MAX_URI
from gamed.login.start import StartedLogin, StartRequest, StartService
from gamed.login.transaction import LoginIntent
from gamed.players.problems import PLAYER_ERRORS
from gamed.sessions.credentials import bearer, response_members
from gamed.sessions.problems import SESSION_ERRORS
from gamed.structs import Component
from gamed.timestamps import rfc3339, seconds_until

MAX_WAIT_SECONDS = 25
MIN_INTERVAL_SECONDS = 1


class ClientBody(Struct):
    """The device's description of itself as it was sent."""

    name: str | None = None
    version: str | None = None
    platform: str | None = None
    device_name: str | None = None


class StartBody(Struct):
    """The body of `POST /auth/login`; in local mode it may be absent."""

    provider: str | None = None
    intent: Literal["login", "link", "adopt"] = "login"
    client: ClientBody | None = None
    loopback_port: Annotated[int, Meta(ge=1024, le=65535)] | None = None
    return_uri: Annotated[str, Meta(max_length=MAX_URI)] | None = None
    locale: Annotated[str, Meta(max_length=TAG_CHARACTERS)] | None = None
    confirm: bool = False


class CollectBody(Struct):
    """The body of `POST /auth/login/collect`; it may be absent."""

    wait: Annotated[int, Meta(ge=0, le=MAX_WAIT_SECONDS)] = 0
    seen: Annotated[str, Meta(max_length=64)] = FIRST_STAGE
    ticket: Annotated[str, Meta(max_length=256)] | None = None
    finish_code: Annotated[str, Meta(max_length=64)] | None = None

    def presented(self) -> PresentedProof | None:
        if self.ticket is not None and self.finish_code is not None:
            raise InvalidRequest([("/finish_code", "send ticket or finish_code, not both")])
        if self.ticket is not None:
            return PresentedProof.ticket(self.ticket)
        return None if self.finish_code is None else PresentedProof.finish_code(self.finish_code)


class LoginRoutes(Component, frozen=True, kw_only=True):
    """The routes of the game; `base_url` is a function, because without `public_url` the port decides it."""

    app = make_app(LOGIN_ERRORS, SESSION_ERRORS, PLAYER_ERRORS)
    prefixes = ("/auth/login", "/auth/login/collect", "/auth/login/cancel")
    body_policies = DEFAULT_BODY_POLICIES

    context: LoginContext
    starts: StartService
    lifecycle: LoginLifecycle
    collects: CollectService
    base_url: Callable[[], str]
    tasks: ShieldedTasks

    @app.route("/auth/login", methods=["POST"])
    async def start_login(self, request: Request) -> bytes:
        address = request.head.address
        if self._sent_by_other_page(request):
            raise UnsupportedMediaType("Send application/json, as a web page of another site has to.")
        try:
            body = read_json(request, StartBody, optional=True)
        except InvalidRequest:
            await self.tasks.run(self.starts.count_rejected(address))
            raise
        client = {**asdict(body.client or ClientBody()), "locale": body.locale}
        intent, token = LoginIntent(body.intent), bearer(request.head.single)
        way_back = {"token": token, "return_uri": body.return_uri}
        start = StartRequest(
            body.provider, intent, client, body.loopback_port, address, **way_back, confirm=body.confirm
        )
        started = await self.tasks.run(self.starts.start(start))
        return write_json(request, 201, self._started_members(started))

    def _sent_by_other_page(self, request: Request) -> bool:
        """Return whether a page of another site may have sent this without the consent of a preflight.

        A browser asks before it sends JSON (Fetch: CORS-preflight request). Without a body it does not ask, and a page
        that a player has open could start logins until those of their whole network are refused.
        """
        headers = request.head.headers
        if "origin" not in headers or parse_media_type(headers.single("content-type"))[0] == "application/json":
            return False
        origin = headers.single("origin") or ""
        own = f"//{headers.single('host')}"
        return origin not in self.context.policy.web_origins and not origin.endswith(own)

    @app.route("/auth/login/collect", methods=["POST"])
    async def collect_login(self, request: Request) -> bytes:
        secret, body = self._device_secret(request), read_json(request, CollectBody, optional=True)
        collect = CollectRequest(secret, body.wait, body.seen, body.presented(), request.request_id)
        result = await self.collects.wait(collect)
        if result is None:
            result = await self.tasks.run(self.collects.collect(collect))
        status = 202 if isinstance(result, Pending) else 200
        return write_json(request, status, _collected_members(result, self.context.now_ms()))

    @app.route("/auth/login/cancel", methods=["POST"])
    async def cancel_login(self, request: Request) -> None:
        await self.tasks.run(self.lifecycle.cancel(self._device_secret(request)))
        request.setResponseCode(204)

    def _device_secret(self, request: Request) -> Index:
        secret = presented_secret_index(self.context.keys.indexer, bearer(request.head.single))
        if secret is None:
            raise DeviceSecretInvalid
        return secret

    def _started_members(self, started: StartedLogin) -> dict[str, object]:
        login, base = started.login, self.base_url()
        return {
            "login_id": login.login_id,
            "device_secret": started.device_secret.reveal().decode(),
            "login_url": f"{base}/auth/login/{started.token}",
            "qr_url": f"{base}/auth/login/{started.token}/qr.png",
            "return_proof": login.return_proof.value,
            "expires_in": seconds_until(login.expires_ms, self.context.now_ms()),
            "expires_at": rfc3339(login.expires_ms),
            "poll": {
                "url": f"{base}/auth/login/collect",
                "max_wait": MAX_WAIT_SECONDS,
                "min_interval": MIN_INTERVAL_SECONDS,
            },
        }


def _collected_members(result: Collected, now_ms: int) -> dict[str, object]:
    match result:
        case Pending(stage, seconds):
            return {"status": "pending", "stage": stage, "expires_in": seconds}
        case Complete(login, credentials):
            player = {
                "id": credentials.player_id,
                "created": credentials.created,
                "owner": credentials.owner,
                "name": credentials.name,
            }
            members = response_members(credentials.pair, login.session_id or "", now_ms)
            return {"status": "complete", **members, "provider": login.provider, "player": player}
        case Linked(provider):
            return {"status": "complete", "linked": {"provider": provider}}
        case Failed(outcome, approval_code):
            problem = _problem_members(outcome.value)
            if approval_code is not None:  # also in the detail, which a game shows that does not know the member
                problem["detail"] = f"{problem['detail']} Tell them this code: {approval_code}."
                problem["approval_code"] = approval_code
            return {"status": "failed", "problem": problem}


def _problem_members(code: str) -> dict[str, object]:
    """Return the members of a problem response, without those that belong to a request."""
    problem = plain_problem(code)
    members: dict[str, object] = {"type": f"urn:gamed:problem:{code}", "title": problem.title}
    return members | {"status": problem.status, "code": code, "detail": problem.detail}


QUIET_ZONE = 4
"""The white margin in modules (ISO/IEC 18004, 9.1), so that a dark page around the image does not matter."""
SCALE = 8
"""Pixels of a module: the code of a usual link has 328 x 328 pixels."""
DRAWINGS_QUEUED = 32
"""Half a second of drawing; a request beyond them gets 503."""
IMAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "cross-origin",
}
"""The image may be part of a web game's page on another origin; opened by itself it is a document without rights."""


class QrRoutes(Component, frozen=True, kw_only=True):
    """The QR code of a login's link; `base_url` is a function, because without `public_url` the port decides it."""

    app = make_app(LOGIN_ERRORS)
    prefixes = ("/auth/login/*/qr.svg", "/auth/login/*/qr.png")
    body_policies = DEFAULT_BODY_POLICIES

    authorize: AuthorizeService
    base_url: Callable[[], str]
    tasks: ShieldedTasks
    drawing: BoundedThreads

    @app.route("/auth/login/<token:token>/qr.svg", methods=["GET"])
    async def draw_svg(self, request: Request, token: str) -> bytes:
        return await self._draw(request, token, "svg", "image/svg+xml")

    @app.route("/auth/login/<token:token>/qr.png", methods=["GET"])
    async def draw_png(self, request: Request, token: str) -> bytes:
        return await self._draw(request, token, "png", "image/png")

    async def _draw(self, request: Request, token: str, kind: str, content_type: str) -> bytes:
        await self.tasks.run(self.authorize.check_link(token, request.head.address))
        image = await self.drawing.run(partial(draw, f"{self.base_url()}/auth/login/{token}", kind))
        request.setHeaders({**IMAGE_HEADERS, "Content-Type": content_type})
        return image


def drawing_threads(reactor: IReactorThreads, threads: WorkThreads | None = None) -> BoundedThreads:
    """Return the thread that draws QR codes: one takes 5 to 15 ms, which no other request should wait for.

    Two at once would end no earlier, because the interpreter runs one of them at a time.
    """
    return BoundedThreads(reactor, 1, DRAWINGS_QUEUED, DrawingBusy, threads)


def draw(url: str, kind: str) -> bytes:
    """Return the QR code of a URL as `svg` or `png`, black on white."""
    import segno  # the start does not need it

    image = BytesIO()
    segno.make_qr(url, error="m").save(image, kind=kind, scale=SCALE, border=QUIET_ZONE, light="white")
    return image.getvalue()
