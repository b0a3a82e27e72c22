"""A player signs in with a passkey on the page of a login or of the account, where another would type a password.

See WebAuthn Level 2, 7.2; docs/owners/configuration.md: Limits.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gamed.audit import SecurityEvent
from gamed.crypto import Index
from gamed.login.keys import PasskeyAccount
from gamed.login.local import PER_ADDRESS_FACTOR, FormError, SignInForm, SignInRejected
from gamed.login.policy import LoginContext, per_address
from gamed.login.store import LoginStore
from gamed.passkeys.ceremony import Ceremony, PasskeyPrompt, sign_in_prompt
from gamed.passkeys.errors import PasskeyRefused
from gamed.passkeys.ways_store import WaysStore
from gamed.rate_limit import RateLimit, RateLimited
from gamed.sessions.credentials import PASSKEY, RECENT_MS
from gamed.structs import Component, Late

if TYPE_CHECKING:
    from gamed.passkeys.service import PasskeyService


def login_row(login_id: str, browser: Index) -> str:
    """Return what a ceremony on the page of a login is bound to."""
    return f"login:{login_id}:{browser.hex()}"


def account_row(browser: Index) -> str:
    """Return what a ceremony on the page before the account is bound to."""
    return f"account:{browser.hex()}"


class PasskeyAuthenticator(Component, frozen=True, kw_only=True):
    """The check of a posted passkey, with the rate limit of passwords per address."""

    context: LoginContext
    store: LoginStore
    ways: WaysStore
    service: Late["PasskeyService"]

    def prompt(self, row: str) -> PasskeyPrompt | None:
        """Return the parts of a page; None where browsers allow no passkeys."""
        site, context = self.ways.site, self.context
        if site is None:
            return None
        return sign_in_prompt(site, Ceremony.begin(context.random, context.now_ms()), context.keys, row)

    async def is_offered(self, login_id: str) -> bool:
        """Return whether the end of a login offers a passkey: it made a local account less than ten minutes ago.

        The game has the sign-in already, so nothing waits for the answer.
        """
        if self.ways.site is None:
            return False
        created = await self.store.created_player(login_id)
        if created is None or created.name is None or self.context.now_ms() - created.player.created_ms > RECENT_MS:
            return False
        return not await self.ways.has_usable(created.player.player_id)

    async def authenticate(self, form: SignInForm, row: str, fields: Mapping[str, str]) -> PasskeyAccount:
        """Return the player of the passkey; raise SignInRejected. Do not cancel this."""
        rate = RateLimit.per_minute(self.context.policy.limits.passwords_per_minute).times(PER_ADDRESS_FACTOR)
        buckets = per_address(self.context.keys.indexer, b"password", form.address, rate)
        try:
            await self.store.acquire(buckets, self.context.now_ms())
        except RateLimited as e:
            self._record("too_many_passwords", form)
            raise SignInRejected(FormError.LIMIT, e.retry_after) from None
        try:
            proven = await self.service.get().prove(row, fields)
        except PasskeyRefused as e:
            self._record(f"passkey_{e.refusal.value}", form, e.player_id)
            raise SignInRejected(FormError.PASSKEY) from None
        return PasskeyAccount(proven.player_id, proven.passkey_id)

    def _record(self, outcome: str, form: SignInForm, player_id: str = "") -> None:
        values = {"provider": PASSKEY, "outcome": outcome, "request": form.request_id}
        if player_id:
            values["player"] = player_id
        self.context.audit.record(SecurityEvent.SIGN_IN_REFUSED, **values)
