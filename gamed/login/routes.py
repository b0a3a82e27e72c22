"""The game's side of the handoff: start, collect, cancel (PROTOCOL 3.1, 3.5, 3.6)."""

from collections.abc import Callable
from typing import Annotated

from msgspec import Meta, Struct

from gamed.crypto import Index, Indexer
from gamed.http.app import make_app
from gamed.http.background import ShieldedTasks
from gamed.http.bodies import DEFAULT_BODY_POLICIES
from gamed.http.errors import InvalidRequest
from gamed.http.json_body import read_json, write_json
from gamed.http.problems import plain_problem
from gamed.http.request import Request
from gamed.login.browser import LoginLifecycle
from gamed.login.collect import FIRST_WORD, Collected, CollectRequest, CollectService, Complete, Failed, Linked, Pending
from gamed.login.errors import DeviceSecretInvalid
from gamed.login.keys import PresentedProof, index_of_device
from gamed.login.problems import LOGIN_ERRORS
from gamed.login.start import StartedLogin, StartRequest, StartService
from gamed.login.transaction import LoginIntent
from gamed.players.problems import PLAYER_ERRORS
from gamed.sessions.credentials import response_members
from gamed.sessions.problems import SESSION_ERRORS
from gamed.sessions.routes import bearer
from gamed.structs import Component
from gamed.timestamps import Now, rfc3339, seconds_until

MAX_WAIT_SECONDS = 25
MIN_INTERVAL_SECONDS = 1


class ClientBody(Struct):
    """The device's own words, not cleaned yet."""

    name: str | None = None
    version: str | None = None
    platform: str | None = None
    device_name: str | None = None


class StartBody(Struct):
    """`POST /auth/login`; may be absent altogether in local mode."""

    provider: str | None = None
    intent: LoginIntent = LoginIntent.LOGIN
    client: ClientBody | None = None
    loopback_port: Annotated[int, Meta(ge=1024, le=65535)] | None = None


class CollectBody(Struct):
    """`POST /auth/login/collect`; may be absent altogether."""

    wait: Annotated[int, Meta(ge=0, le=MAX_WAIT_SECONDS)] = 0
    seen: Annotated[str, Meta(max_length=64)] = FIRST_WORD
    ticket: Annotated[str, Meta(max_length=256)] | None = None
    finish_code: Annotated[str, Meta(max_length=64)] | None = None

    def presented(self) -> PresentedProof | None:
        if self.ticket is not None and self.finish_code is not None:
            raise InvalidRequest([("/finish_code", "send ticket or finish_code, not both")])
        if self.ticket is not None:
            return PresentedProof.ticket(self.ticket)
        return None if self.finish_code is None else PresentedProof.finish_code(self.finish_code)


class LoginRoutes(Component, frozen=True):
    """`base` is asked at every start: without `public_url` it is known when the port is bound."""

    app = make_app(LOGIN_ERRORS, SESSION_ERRORS, PLAYER_ERRORS)
    prefixes = ("/auth/login", "/auth/login/collect", "/auth/login/cancel")
    body_policies = DEFAULT_BODY_POLICIES

    _starting: StartService
    _handoff: LoginLifecycle
    _collecting: CollectService
    _indexer: Indexer
    _base: Callable[[], str]
    _now_ms: Now
    _detached: ShieldedTasks

    @app.route("/auth/login", methods=["POST"])
    async def start_login(self, request: Request) -> bytes:
        try:
            body = read_json(request, StartBody, optional=True)
        except InvalidRequest:
            await self._detached.run(self._starting.count_refused(request.head.address))
            raise
        words = {name: getattr(body.client, name, None) for name in ClientBody.__struct_fields__}
        start = StartRequest(
            body.provider, body.intent, words, body.loopback_port, request.head.address, bearer(request.head)
        )
        started = await self._detached.run(self._starting.start(start))
        return write_json(request, 201, self._invitation(started))

    @app.route("/auth/login/collect", methods=["POST"])
    async def collect_login(self, request: Request) -> bytes:
        collect = self._asked(request)
        answer = await self._collecting.watch(collect)
        if answer is None:
            answer = await self._detached.run(self._collecting.deliver(collect))
        return write_json(request, 202 if isinstance(answer, Pending) else 200, _told(answer, self._now_ms()))

    @app.route("/auth/login/cancel", methods=["POST"])
    async def cancel_login(self, request: Request) -> None:
        await self._detached.run(self._handoff.cancel(self._device(request)))
        request.setResponseCode(204)

    def _asked(self, request: Request) -> CollectRequest:
        secret, body = self._device(request), read_json(request, CollectBody, optional=True)
        return CollectRequest(secret, body.wait, body.seen, body.presented(), request.request_id)

    def _device(self, request: Request) -> Index:
        secret = index_of_device(self._indexer, bearer(request.head))
        if secret is None:
            raise DeviceSecretInvalid
        return secret

    def _invitation(self, started: StartedLogin) -> dict[str, object]:
        login, base = started.login, self._base()
        return {
            "login_id": login.login_id,
            "device_secret": started.device_secret.reveal().decode(),
            "login_url": f"{base}/auth/login/{started.token}",
            "return_proof": login.return_proof.value,
            "expires_in": seconds_until(login.expires_ms, self._now_ms()),
            "expires_at": rfc3339(login.expires_ms),
            "poll": {
                "url": f"{base}/auth/login/collect",
                "max_wait": MAX_WAIT_SECONDS,
                "min_interval": MIN_INTERVAL_SECONDS,
            },
        }


def _told(answer: Collected, now_ms: int) -> dict[str, object]:
    match answer:
        case Pending(stage, seconds):
            return {"status": "pending", "stage": stage, "expires_in": seconds}
        case Complete(login, result):
            player = {"id": result.player_id, "created": result.created, "owner": result.owner}
            credentials = response_members(result.pair, login.session_id or "", now_ms)
            return {"status": "complete", **credentials, "provider": login.provider, "player": player}
        case Linked(provider):
            return {"status": "complete", "linked": {"provider": provider}}
        case Failed(outcome, approval_code):
            problem = _problem(outcome.value)
            if approval_code is not None:  # in the detail, too: that is what a game shows that knows no more
                problem["detail"] = f"{problem['detail']} Tell them this code: {approval_code}."
                problem["approval_code"] = approval_code
            return {"status": "failed", "problem": problem}


def _problem(code: str) -> dict[str, object]:
    """The same members as the body of a refused request, but for those that belong to one."""
    problem = plain_problem(code)
    body: dict[str, object] = {"type": f"urn:gamed:problem:{code}", "title": problem.title}
    return body | {"status": problem.status, "code": code, "detail": problem.detail}
