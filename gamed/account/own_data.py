"""The data of a player's account other than saves, which the export of the account's page has in me.json.

It holds what the page shows. It never holds a player's number at a provider, an index, a token or an address.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Raw
from msgspec.json import encode, format

from gamed.account.browser_store import AccountPageStore
from gamed.account.service import AccountService
from gamed.audit import RecordedEvent
from gamed.passkeys.ways_store import WaysStore
from gamed.players.names import SignInMethod
from gamed.saves.model import ExportedFile
from gamed.sessions.browser_rules import BrowserInfo
from gamed.sessions.credentials import AuthenticatedSession, SessionInfo
from gamed.sessions.service import SessionService
from gamed.structs import Component
from gamed.timestamps import Now, rfc3339

if TYPE_CHECKING:
    from gamed.passkeys.model import Passkey

FILE_NAME: Final = "me.json"
EVENTS: Final = 1000
"""The most rows of activity, the latest ones: 1 to 4 ms of the read queue. Equal events of one hour share a row."""
_EVENT_MEMBERS: Final = ("provider", "outcome", "scope", "sessions", "created", "left", "command")
"""The values of events that are about the player; `by` is a user of the owner's machine."""


class OwnData(Component, frozen=True, kw_only=True):
    """The reader of all that auth.db has of a player."""

    store: AccountPageStore
    sessions: SessionService
    account: AccountService
    ways: WaysStore
    now_ms: Now

    async def read(self, caller: AuthenticatedSession) -> ExportedFile:
        player_id, now_ms = caller.player_id, self.now_ms()
        names = await self.store.names(player_id)
        members = {
            "format": 1,
            "player": player_id,
            "name": names.account,
            "display_name": names.display,
            "created_at": rfc3339(names.created_ms),
            "exported_at": rfc3339(now_ms),
            "sign_in": [_way(method) for method, _ in await self.account.identities(caller)],
            "passkeys": [_passkey(each) for each in await self.ways.passkeys(player_id)],
            "recovery_codes_left": await self.ways.codes_left(player_id),
            "devices": [_device(each) for each in await self.sessions.list(caller)],
            "browsers": [_browser(each) for each in await self.store.browsers(player_id, now_ms)],
            "activity": _activity(await self.store.activity(player_id, EVENTS)),
        }
        return ExportedFile(FILE_NAME, format(encode(members), indent=1) + b"\n", now_ms)


def _way(method: SignInMethod) -> Mapping[str, object]:
    instants = {"linked_at": rfc3339(method.linked_ms), "last_used_at": rfc3339(method.last_used_ms)}
    return {"provider": method.provider, **instants}


def _passkey(passkey: "Passkey") -> Mapping[str, object]:
    used = None if passkey.last_used_ms is None else rfc3339(passkey.last_used_ms)
    shown = {"name": passkey.name, "created_at": rfc3339(passkey.created_ms), "last_used_at": used}
    return {**shown, "synced": passkey.synced, "backed_up": passkey.backed_up}


def _device(session: SessionInfo) -> Mapping[str, object]:
    instants = _instants(session)
    return {"session_id": session.session_id, "provider": session.provider, **instants, "client": Raw(session.client)}


def _browser(session: BrowserInfo) -> Mapping[str, object]:
    name = {"program": session.browser.program, "system": session.browser.system}
    return {"session_id": session.session_id, "provider": session.provider, **_instants(session), **name}


def _instants(session: SessionInfo | BrowserInfo) -> Mapping[str, str]:
    return {"signed_in_at": rfc3339(session.created_ms), "last_used_at": rfc3339(session.last_used_ms)}


def _activity(events: Sequence[RecordedEvent]) -> Sequence[Mapping[str, object]]:
    return [
        {
            "event": each.event.value,
            "last_at": rfc3339(each.last_ms),
            "times": each.times,
            **{name: each.values[name] for name in _EVENT_MEMBERS if name in each.values},
        }
        for each in events
    ]
