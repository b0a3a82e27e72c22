"""A new player chooses the name that games show, in the browser that signed in at a provider.

Only after the callback does the server know who is new, and only then a page can ask. Until the game collects, the
name is sealed with the identity; the first collect stores it with the player. A name that comes later is stored at the
player whom this login made, unless the player has one already: only the player's own session may change it then.

See docs/protocol.md: Accounts.
"""

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gamed.config.model import Registration
from gamed.crypto import DecryptionFailed, Index, Purpose
from gamed.login.browser import BrowserLoginService, RedirectToResult
from gamed.login.errors import LoginEnded, NameSettled, UnknownLoginLink, WrongBrowser
from gamed.login.keys import LOCAL, LoginLookup, ProviderIdentity, decode_identity, login_token
from gamed.login.policy import LoginContext
from gamed.login.store import LoginStore
from gamed.login.transaction import UNDECIDED, LoginIntent, LoginStage, LoginTransaction, Transition
from gamed.players.names import parse_display_name
from gamed.structs import Component, redacts

_DELIVERED = (LoginStage.DELIVERED, LoginStage.COLLECTED)


@redacts("name")
class Newcomer(Struct, frozen=True):
    """The login of a new player, and the name that was chosen so far."""

    login: LoginTransaction
    name: str | None


class NewcomerService(Component, frozen=True, kw_only=True):
    """The service behind the page that asks a new player for a name; `browser` is the index of the cookie."""

    context: LoginContext
    browsers: BrowserLoginService
    store: LoginStore

    async def get(self, token: str, browser: Index | None) -> Newcomer:
        """Return the newcomer of this login; raise UnknownLoginLink, WrongBrowser, LoginEnded or NameSettled."""
        newcomer = await self.find(await self._own(token, browser))
        if newcomer is None or (newcomer.login.stage in _DELIVERED and newcomer.name is not None):
            raise NameSettled
        return newcomer

    def token(self, login: LoginTransaction) -> str:
        """Return the token of the login's link, which addresses the form."""
        return login_token(self.context.keys.indexer, login.login_id)

    async def of_result(self, login_id: str) -> Newcomer | None:
        """Return the newcomer of a login whose result this browser may see."""
        return await self.find(await self.browsers.find(LoginLookup("login_id", login_id)))

    async def find(self, login: LoginTransaction) -> Newcomer | None:
        """Return the newcomer of a login that signed in at a provider, or None."""
        if login.intent is not LoginIntent.LOGIN or login.provider == LOCAL:
            return None
        if login.stage in _DELIVERED:
            created = await self.store.created_player(login.login_id)
            return None if created is None else Newcomer(login, created.display_name)
        if login.stage is not LoginStage.READY or self.context.policy.registration is Registration.CLOSED:
            return None
        identity = self._identity(login)
        if identity is None or await self.store.has_player(Index(identity.index)):
            return None
        return Newcomer(login, identity.display_name)

    async def choose(self, token: str, browser: Index, address: str, text: str) -> RedirectToResult:
        """Store the name for the player of this login; an empty text means none.

        Raise DisplayNameInvalid, RateLimited and what get() raises.
        """
        now_ms, per_minute = self.context.now_ms(), self.context.policy.limits.entries_per_minute
        await self.store.count_request(b"name", address, per_minute, now_ms)
        newcomer = await self.get(token, browser)
        name = parse_display_name(text) if text.strip(" ") else None
        if newcomer.login.stage is LoginStage.READY:
            if (await self._seal(newcomer.login, name)).after.stage is LoginStage.READY:
                return RedirectToResult(newcomer.login.login_id)
            newcomer = await self.get(token, browser)  # the game has collected meanwhile
        if name is not None and not await self.store.name_created_player(newcomer.login.login_id, name):
            raise NameSettled
        return RedirectToResult(newcomer.login.login_id)

    async def _seal(self, login: LoginTransaction, name: str | None) -> Transition:
        """Seal the identity with the name; the first collect reads both."""
        keys, now_ms, identity = self.context.keys, self.context.now_ms(), self._identity(login)
        if identity is None:
            raise NameSettled
        plain = msgspec.json.encode(replace(identity, display_name=name))
        sealed = keys.sealer.seal(Purpose.IDENTIFIED, login.login_id, plain)

        def step(login: LoginTransaction) -> LoginTransaction:
            current = login.at_time(now_ms)
            return replace(current, sealed_identity=sealed) if current.stage is LoginStage.READY else current

        return await self.browsers.advance(LoginLookup("login_id", login.login_id), step)

    def _identity(self, login: LoginTransaction) -> ProviderIdentity | None:
        try:
            raw = self.context.keys.sealer.unseal(Purpose.IDENTIFIED, login.login_id, login.sealed_identity or b"")
        except DecryptionFailed:  # the result page ends such a login
            return None
        identity = decode_identity(raw)
        return identity if isinstance(identity, ProviderIdentity) else None

    async def _own(self, token: str, browser: Index | None) -> LoginTransaction:
        login = await self.browsers.find(LoginLookup.token(self.context.keys.indexer, token))
        if login.stage in UNDECIDED:
            raise UnknownLoginLink
        if not login.belongs_to(browser):
            raise WrongBrowser
        if login.outcome is not None:
            raise LoginEnded(login.outcome, login.client.locale)
        return login
