"""The services of links that are valid once: an invite admits a newcomer, a reset link sets a forgotten password.

A link is only read until a form of its page is posted, because mail programs open links before a person does.
"""

from msgspec import Struct

from gamed.account.browser import AccountSignIn, token_of
from gamed.account.link_model import Invite
from gamed.account.links_store import InvitedAccount, LinkStore, PasswordReset
from gamed.audit import SecurityEvent
from gamed.crypto import Secret
from gamed.login.authorize import RedirectToProvider
from gamed.login.browser import RedirectToResult
from gamed.login.local import FormError, PasswordAuthenticator, SignInForm, SignInRejected
from gamed.login.policy import LoginContext
from gamed.login.store import LoginStore
from gamed.passkeys.ways_store import WaysStore
from gamed.players.errors import LinkEnded, NameMalformed, NameTaken, OwnInviteUsed
from gamed.players.names import LOCAL, OtherWays, new_player_id, parse_name
from gamed.sessions.browser_rules import BrowserName, NewBrowserSession
from gamed.sessions.service import RevocationListener
from gamed.structs import Component


class OpenInvite(Struct, frozen=True):
    """An invite that can be used; `account_name` is a suggestion, "" if there is none that is allowed."""

    invite: Invite
    account_name: str


class InviteService(Component, frozen=True, kw_only=True):
    """The service of invites; it raises LinkUnknown or LinkEnded for a link in vain, and RateLimited."""

    context: LoginContext
    store: LinkStore
    logins: LoginStore
    passwords: PasswordAuthenticator
    sign_in: AccountSignIn

    async def open(self, token: str, address: str, cookie: str | None) -> OpenInvite:
        """Return the invite of a token for its page, in the browser with this cookie; this uses nothing up."""
        await _count(self.context, self.logins, b"entry", address)
        invite = await self._find(token, cookie)
        try:
            return OpenInvite(invite, "" if invite.name is None else parse_name(invite.name))
        except NameMalformed:
            return OpenInvite(invite, "")

    async def create_account(self, form: SignInForm, cookie: str | None, name: BrowserName) -> Secret:
        """Create the newcomer's account and sign this browser in, whose session until now was that of `cookie`.

        Return its new token.

        Do not cancel this. Raise SignInRejected, which leaves the invite open.
        """
        context = self.context
        await _count(context, self.logins, b"departure", form.address)
        await self._find(form.token, cookie)
        account = await self.passwords.new_account(form, invited=True)
        player_id, browser = new_player_id(context.random), NewBrowserSession.generate(context.random, name)
        ended = token_of(cookie)
        invited = InvitedAccount(form.token, player_id, account.name, account.password_hash, browser, ended)
        try:
            invite = await self.store.create_account(invited, context.now_ms())
        except NameTaken:
            raise SignInRejected(FormError.NAME_TAKEN) from None
        used = {"player": player_id, "invite": invite.invite_id, "provider": LOCAL}
        context.audit.record(SecurityEvent.INVITE_USED, **used)
        signed_in = {"player": player_id, "session": browser.session_id, "provider": LOCAL, "created": "yes"}
        context.audit.record(SecurityEvent.SIGN_IN, **signed_in)
        return browser.token

    async def at_provider(
        self, form: SignInForm, provider: str, cookie: str | None
    ) -> RedirectToProvider | RedirectToResult:
        """Begin the sign-in that uses the invite when it ends; raise ProviderUnknown or TooManyLogins."""
        await _count(self.context, self.logins, b"departure", form.address)
        invite = await self._find(form.token, cookie)
        return await self.sign_in.at_provider(form, provider, invite_id=invite.invite_id)

    async def _find(self, token: str, cookie: str | None) -> Invite:
        """Return the open invite; raise OwnInviteUsed if the person who used it opens it again, signed in."""
        try:
            return await self.store.open_invite(token, self.context.now_ms())
        except LinkEnded:
            browser = token_of(cookie)
            if browser is not None and await self.store.is_own_invite(token, browser, self.context.now_ms()):
                raise OwnInviteUsed from None
            raise


class ResetService(Component, frozen=True, kw_only=True):
    """The service of reset links; it raises LinkUnknown, LinkEnded or PlayerMayNotSignIn, and RateLimited."""

    context: LoginContext
    store: LinkStore
    logins: LoginStore
    passwords: PasswordAuthenticator
    ways: WaysStore
    revoked: RevocationListener

    async def open(self, token: str, address: str) -> str:
        """Return the name of the account for the page; this uses nothing up."""
        await _count(self.context, self.logins, b"entry", address)
        return (await self.store.open_reset_link(token, self.context.now_ms())).name or ""

    async def set_password(self, form: SignInForm) -> OtherWays:
        """Set the password and end everything that `gamed players password` ends.

        Return the ways to sign in that still work. Do not cancel this. Raise SignInRejected, which leaves the link
        open.
        """
        context = self.context
        await _count(context, self.logins, b"departure", form.address)
        await self.store.open_reset_link(form.token, context.now_ms())
        password = await self.passwords.hash_new(form.password)
        player_id = await self.store.reset_password(PasswordReset(form.token, password), context.now_ms())
        context.audit.record(SecurityEvent.PASSWORD_CHANGED, player=player_id)
        self.revoked(player_id)
        return await self.ways.kept(player_id)


async def _count(context: LoginContext, logins: LoginStore, purpose: bytes, address: str) -> None:
    """Count a request as one for the link of a login; raise RateLimited."""
    per_minute = context.policy.limits.entries_per_minute
    await logins.count_request(purpose, address, per_minute, context.now_ms())
