"""Credentials come as `Authorization: Bearer ...` and in no other way (PROTOCOL 1, RFC 6750 2.1).

The room of signed-in sessions: refresh, logout, list, end (PROTOCOL 3.7).

The access token of a request (PROTOCOL 4).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from msgspec import Raw, Struct

from gamed.crypto import Secret
from gamed.http.app import make_app
from gamed.http.background import ShieldedTasks
from gamed.http.bodies import DEFAULT_BODY_POLICIES, RequestHead
from gamed.http.json_body import read_json, write_json
from gamed.http.request import Request
from gamed.players.problems import PLAYER_ERRORS
from gamed.sessions import credentials
from gamed.sessions.credentials import AuthenticatedSession, LogoutScope, SessionInfo
from gamed.sessions.problems import SESSION_ERRORS
from gamed.structs import Component
from gamed.timestamps import rfc3339


def bearer(head: RequestHead) -> str | None:
    """The credential's text, unjudged; None without exactly one Authorization field of the scheme Bearer.

    In a query, a cookie or a body it is not looked for.
    """
    value = head.single("authorization")
    if value is None:
        return None
    scheme, _, credential = value.partition(" ")
    credential = credential.strip(" ")
    return credential if scheme.lower() == "bearer" and credential else None


class SessionOperations(Protocol):
    """What this room asks of gamed.sessions.service.SessionService; refusals are SessionError."""

    async def authenticate(self, token: str | None, *, reading: bool = False) -> AuthenticatedSession: ...
    async def refresh(self, credential: str) -> dict[str, object]: ...
    async def log_out(self, access: str | None, credential: str | None, scope: LogoutScope) -> None: ...
    async def list(self, caller: AuthenticatedSession) -> Sequence[SessionInfo]: ...
    async def end(self, caller: AuthenticatedSession, session_id: str) -> None: ...


class RefreshBody(Struct):
    """`POST /auth/session/refresh`."""

    refresh_credential: str


class LogoutBody(Struct):
    """`POST /auth/session/logout`; may be absent altogether."""

    refresh_credential: str | None = None
    scope: LogoutScope = LogoutScope.THIS


class SessionRoutes(Component, frozen=True):
    """What changes something is detached: a client that leaves does not stop it half way."""

    app = make_app(SESSION_ERRORS, PLAYER_ERRORS)
    prefixes = ("/auth/session/", "/auth/sessions")
    _sessions: SessionOperations
    _detached: ShieldedTasks
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


def _line(row: SessionInfo, asking: str) -> Mapping[str, Any]:
    return {
        "session_id": row.session_id,
        "current": row.session_id == asking,
        "created_at": rfc3339(row.created_ms),
        "last_used_at": rfc3339(row.last_used_ms),
        "expires_at": rfc3339(row.expires_ms),
        "provider": row.provider,
        "client": Raw(row.client.encode()),
    }


def access_token(head: RequestHead) -> Secret:
    """Well-formed, or TokenMissing or TokenInvalid; no store is asked."""
    return credentials.access_token(bearer(head))
