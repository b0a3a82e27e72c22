"""Routes of sessions: refresh, logout, list and end (docs/protocol.md: Sessions)."""

from collections.abc import Mapping
from typing import Any

from msgspec import Raw, Struct

from gamed.http.app import make_app
from gamed.http.background import ShieldedTasks
from gamed.http.bodies import DEFAULT_BODY_POLICIES
from gamed.http.json_body import read_json, write_json
from gamed.http.request import Request
from gamed.players.problems import PLAYER_ERRORS
from gamed.sessions.credentials import LogoutScope, SessionInfo, bearer
from gamed.sessions.problems import SESSION_ERRORS
from gamed.sessions.service import SessionService
from gamed.structs import Component
from gamed.timestamps import rfc3339


class RefreshBody(Struct):
    """The content of `POST /auth/session/refresh`."""

    refresh_credential: str


class LogoutBody(Struct):
    """The content of `POST /auth/session/logout`, which may be absent."""

    refresh_credential: str | None = None
    scope: LogoutScope = LogoutScope.THIS


class SessionRoutes(Component, frozen=True, kw_only=True):
    """The routes of sessions. Changes run shielded: a client that disconnects does not cancel them.

    See docs/protocol.md: Sessions.
    """

    app = make_app(SESSION_ERRORS, PLAYER_ERRORS)
    prefixes = ("/auth/session/", "/auth/sessions")
    sessions: SessionService
    detached: ShieldedTasks
    body_policies = DEFAULT_BODY_POLICIES

    @app.route("/auth/session/refresh", methods=["POST"])
    async def refresh_session(self, request: Request) -> bytes:
        body = read_json(request, RefreshBody)
        return write_json(request, 200, await self.detached.run(self.sessions.refresh(body.refresh_credential)))

    @app.route("/auth/session/logout", methods=["POST"])
    async def log_out(self, request: Request) -> None:
        body = read_json(request, LogoutBody, optional=True)
        await self.detached.run(self.sessions.log_out(bearer(request.head.single), body.refresh_credential, body.scope))
        request.setResponseCode(204)

    @app.route("/auth/sessions", methods=["GET"])
    async def list_sessions(self, request: Request) -> bytes:
        caller = await self.detached.run(self.sessions.authenticate(bearer(request.head.single), reading=True))
        rows = await self.sessions.list(caller)
        return write_json(request, 200, {"sessions": [_members(row, caller.session_id) for row in rows]})

    @app.route("/auth/sessions/<string:session_id>", methods=["DELETE"])
    async def end_session(self, request: Request, session_id: str) -> None:
        caller = await self.detached.run(self.sessions.authenticate(bearer(request.head.single)))
        await self.detached.run(self.sessions.end(caller, session_id))
        request.setResponseCode(204)


def _members(row: SessionInfo, requesting: str) -> Mapping[str, Any]:
    return {
        "session_id": row.session_id,
        "current": row.session_id == requesting,
        "created_at": rfc3339(row.created_ms),
        "last_used_at": rfc3339(row.last_used_ms),
        "expires_at": rfc3339(row.expires_ms),
        "provider": row.provider,
        "client": Raw(row.client.encode()),
    }
