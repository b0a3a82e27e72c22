"""The room of signed-in sessions: refresh, logout, list, end (PROTOCOL 3.7)."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from msgspec import Raw, Struct

from gamed.http.app import make_app
from gamed.http.bodies import DEFAULT_BODY_POLICIES
from gamed.http.request import Request
from gamed.instants import rfc3339
from gamed.sessions.credentials import Caller
from gamed.sessions.session import Scope, SessionRow
from gamed.structs import Part
from gamed.web.bearer import bearer
from gamed.web.detached import Detached
from gamed.web.json_io import read_json, write_json
from gamed.web.players_errors import PLAYER_ERRORS
from gamed.web.sessions_errors import SESSION_ERRORS


class Sessions(Protocol):
    """What this room asks of gamed.sessions.keeper.Sessions; refusals are SessionError."""

    async def authenticate(self, token: str | None, *, reading: bool = False) -> Caller: ...
    async def refresh(self, credential: str) -> dict[str, object]: ...
    async def log_out(self, access: str | None, credential: str | None, scope: Scope) -> None: ...
    async def list(self, caller: Caller) -> Sequence[SessionRow]: ...
    async def end(self, caller: Caller, session_id: str) -> None: ...


class RefreshBody(Struct):
    """`POST /auth/session/refresh`."""

    refresh_credential: str


class LogoutBody(Struct):
    """`POST /auth/session/logout`; may be absent altogether."""

    refresh_credential: str | None = None
    scope: Scope = Scope.THIS


class SessionRoutes(Part, frozen=True):
    """What changes something is detached: a client that leaves does not stop it half way."""

    app = make_app(SESSION_ERRORS, PLAYER_ERRORS)
    prefixes = ("/auth/session/", "/auth/sessions")
    _sessions: Sessions
    _detached: Detached
    body_policies = DEFAULT_BODY_POLICIES

    @app.route("/auth/session/refresh", methods=["POST"])
    async def refresh_session(self, request: Request) -> bytes:
        body = read_json(request, RefreshBody)
        return write_json(request, 200, await self._detached.run(self._sessions.refresh(body.refresh_credential)))

    @app.route("/auth/session/logout", methods=["POST"])
    async def log_out(self, request: Request) -> None:
        body = read_json(request, LogoutBody, optional=True)
        await self._detached.run(self._sessions.log_out(bearer(request.head), body.refresh_credential, body.scope))
        request.setResponseCode(204)

    @app.route("/auth/sessions", methods=["GET"])
    async def list_sessions(self, request: Request) -> bytes:
        caller = await self._detached.run(self._sessions.authenticate(bearer(request.head), reading=True))
        rows = await self._sessions.list(caller)
        return write_json(request, 200, {"sessions": [_line(row, caller.session_id) for row in rows]})

    @app.route("/auth/sessions/<string:session_id>", methods=["DELETE"])
    async def end_session(self, request: Request, session_id: str) -> None:
        caller = await self._detached.run(self._sessions.authenticate(bearer(request.head)))
        await self._detached.run(self._sessions.end(caller, session_id))
        request.setResponseCode(204)


def _line(row: SessionRow, asking: str) -> Mapping[str, Any]:
    return {
        "session_id": row.session_id,
        "current": row.session_id == asking,
        "created_at": rfc3339(row.created_ms),
        "last_used_at": rfc3339(row.last_used_ms),
        "expires_at": rfc3339(row.expires_ms),
        "provider": row.provider,
        "client": Raw(row.client.encode()),
    }
