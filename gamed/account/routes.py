"""The routes of a player's own account list and unlink identities, and rename and erase the player.

See docs/protocol.md: Accounts.
"""

from msgspec import Struct

from gamed.account.service import AccountService
from gamed.http.app import make_app
from gamed.http.background import ShieldedTasks
from gamed.http.bodies import DEFAULT_BODY_POLICIES
from gamed.http.errors import InvalidRequest
from gamed.http.json_body import read_json, write_json
from gamed.http.request import Request
from gamed.login.problems import LOGIN_ERRORS
from gamed.players.errors import DisplayNameInvalid
from gamed.players.names import SignInMethod, parse_display_name
from gamed.players.problems import PLAYER_ERRORS
from gamed.saves.problems import SAVE_ERRORS
from gamed.sessions.credentials import bearer
from gamed.sessions.problems import SESSION_ERRORS
from gamed.sessions.service import SessionService
from gamed.structs import Component
from gamed.timestamps import rfc3339


class PlayerBody(Struct):
    """The body of `PATCH /auth/player`."""

    name: str | None


class PlayerRoutes(Component, frozen=True, kw_only=True):
    """The routes of a player's account. Changes run shielded: a client that disconnects does not cancel them.

    See docs/protocol.md: Accounts.
    """

    app = make_app(PLAYER_ERRORS, SESSION_ERRORS, LOGIN_ERRORS, SAVE_ERRORS)
    prefixes = ("/auth/identities", "/auth/player")
    sessions: SessionService
    account: AccountService
    detached: ShieldedTasks
    body_policies = DEFAULT_BODY_POLICIES

    @app.route("/auth/identities", methods=["GET"])
    async def list_identities(self, request: Request) -> bytes:
        caller = await self.detached.run(self.sessions.authenticate(bearer(request.head.single), reading=True))
        found = await self.account.identities(caller)
        return write_json(request, 200, {"identities": [_members(*each) for each in found]})

    @app.route("/auth/identities/<string:provider>", methods=["DELETE"])
    async def unlink_identity(self, request: Request, provider: str) -> None:
        caller = await self.detached.run(self.sessions.authenticate(bearer(request.head.single)))
        await self.detached.run(self.account.unlink(caller, provider))
        request.setResponseCode(204)

    @app.route("/auth/player", methods=["PATCH"])
    async def rename_player(self, request: Request) -> bytes:
        name = _parse_name(read_json(request, PlayerBody).name)
        caller = await self.detached.run(self.sessions.authenticate(bearer(request.head.single)))
        await self.detached.run(self.account.rename(caller, name))
        return write_json(request, 200, {"player": {"id": caller.player_id, "owner": caller.owner, "name": name}})

    @app.route("/auth/player", methods=["DELETE"])
    async def erase_player(self, request: Request) -> None:
        caller = await self.detached.run(self.sessions.authenticate(bearer(request.head.single)))
        await self.detached.run(self.account.erase(caller))
        request.setResponseCode(204)


def _parse_name(text: str | None) -> str | None:
    """Return the display name; raise InvalidRequest, which names the rule."""
    try:
        return None if text is None else parse_display_name(text)
    except DisplayNameInvalid as e:
        raise InvalidRequest([("/name", str(e))]) from None


def _members(identity: SignInMethod, can_sign_in: bool) -> dict[str, object]:
    return {
        "provider": identity.provider,
        "linked_at": rfc3339(identity.linked_ms),
        "last_used_at": rfc3339(identity.last_used_ms),
        "can_sign_in": can_sign_in,
    }
