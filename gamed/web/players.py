"""The room of a player's own account: what signs in as it, and leaving for good (PROTOCOL 3.8)."""

from collections.abc import Sequence
from typing import Protocol

from gamed.http.app import make_app
from gamed.http.bodies import DEFAULT_BODY_POLICIES
from gamed.http.request import Request
from gamed.instants import rfc3339
from gamed.players.identities import Identity
from gamed.sessions.credentials import Caller
from gamed.structs import Part
from gamed.web.bearer import bearer
from gamed.web.detached import Detached
from gamed.web.json_io import write_json
from gamed.web.login_errors import LOGIN_ERRORS
from gamed.web.players_errors import PLAYER_ERRORS
from gamed.web.saves_errors import SAVE_ERRORS
from gamed.web.sessions_errors import SESSION_ERRORS


class Callers(Protocol):
    async def authenticate(self, token: str | None, *, reading: bool = False) -> Caller:
        """SessionError."""


class OwnAccount(Protocol):
    """What this room asks of gamed.players.own_account.OwnAccount; refusals are PlayerError."""

    async def identities(self, caller: Caller) -> Sequence[tuple[Identity, bool]]: ...
    async def unlink(self, caller: Caller, provider: str) -> None: ...
    async def erase(self, caller: Caller) -> None: ...


class PlayerRoutes(Part, frozen=True):
    """What changes something is detached: a client that leaves does not stop it half way."""

    app = make_app(PLAYER_ERRORS, SESSION_ERRORS, LOGIN_ERRORS, SAVE_ERRORS)
    prefixes = ("/auth/identities", "/auth/player")
    _callers: Callers
    _account: OwnAccount
    _detached: Detached
    body_policies = DEFAULT_BODY_POLICIES

    @app.route("/auth/identities", methods=["GET"])
    async def list_identities(self, request: Request) -> bytes:
        caller = await self._detached.run(self._callers.authenticate(bearer(request.head), reading=True))
        found = await self._account.identities(caller)
        return write_json(request, 200, {"identities": [_line(*each) for each in found]})

    @app.route("/auth/identities/<string:provider>", methods=["DELETE"])
    async def unlink_identity(self, request: Request, provider: str) -> None:
        caller = await self._detached.run(self._callers.authenticate(bearer(request.head)))
        await self._detached.run(self._account.unlink(caller, provider))
        request.setResponseCode(204)

    @app.route("/auth/player", methods=["DELETE"])
    async def erase_player(self, request: Request) -> None:
        caller = await self._detached.run(self._callers.authenticate(bearer(request.head)))
        await self._detached.run(self._account.erase(caller))
        request.setResponseCode(204)


def _line(identity: Identity, can_sign_in: bool) -> dict[str, object]:
    return {
        "provider": identity.provider,
        "linked_at": rfc3339(identity.linked_ms),
        "last_used_at": rfc3339(identity.last_used_ms),
        "can_sign_in": can_sign_in,
    }
