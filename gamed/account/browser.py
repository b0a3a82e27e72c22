"""The services of the player's own page sign in a browser, show the player's data, and change the password.

A sign-in is a login without a game: it belongs to one browser from its start, and nothing of it can be collected.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from gamed.account.browser_store import AccountPageStore, FinishCommand, PasswordCommand, PlayerNames
from gamed.account.return_rules import AccountReturn
from gamed.account.service import AccountService
from gamed.audit import RecordedEvent, SecurityEvent
from gamed.config.model import Mode, Registration
from gamed.crypto import ENTROPY_BYTES, Index, Secret
from gamed.database.errors import DatabaseError
from gamed.login import keys as login_keys
from gamed.login.authorize import AuthorizeService, RedirectToProvider
from gamed.login.browser import Ended, InProgress, RedirectToResult
from gamed.login.collect_rules import CollectCommand, CollectOutcome, NewSession
from gamed.login.errors import ProviderUnknown, ReauthenticationRequired, UnknownLoginLink, WrongBrowser
from gamed.login.keys import LOCAL, ExistingAccount, LoginLookup, PasskeyAccount, RecoveryAccount, new_login_id
from gamed.login.local import FormError, PasswordAuthenticator, SignInForm, SignInRejected
from gamed.login.passkeys import PasskeyAuthenticator, account_row
from gamed.login.policy import LoginContext, LoginQuota, address_indexes
from gamed.login.recovery import RecoveryAuthenticator
from gamed.login.store import LoginStore
from gamed.login.transaction import (
    ClientInfo,
    LoginEvent,
    LoginIntent,
    LoginStage,
    LoginTransaction,
    ProofMethod,
    Transition,
)
from gamed.long_poll import LongPollRegistry
from gamed.outcomes import LoginFailure
from gamed.passkeys.ceremony import PasskeyPrompt
from gamed.passkeys.ways_store import WaysStore
from gamed.players.errors import LinkEnded, LinkUnused
from gamed.players.names import SignInMethod, new_player_id
from gamed.saves.limits import Usage
from gamed.saves.model import SlotEntry
from gamed.saves.service import SaveService
from gamed.sessions.browser_rules import BrowserInfo, BrowserName, NewBrowserSession, parse_browser_token
from gamed.sessions.credentials import AuthenticatedSession, SessionInfo, generate_pair, new_session_id
from gamed.sessions.errors import SessionError, SessionNotFound
from gamed.sessions.service import RevocationListener, SessionService
from gamed.structs import Component, Late, redacts

if TYPE_CHECKING:
    from gamed.passkeys.model import Passkey
    from gamed.passkeys.recovery import RecoveryService
    from gamed.passkeys.recovery_rules import RecoveryCodes
    from gamed.passkeys.service import PasskeyService

SLOTS_AT_ONCE = 50
"""The slots that the page shows at once."""
ACTIVITY_ROWS = 100
"""The events that the page has: the latest ones at once, the others in a list to open."""


@redacts("token")
class BrowserVisit(Struct, frozen=True):
    """A request of a signed-in browser: its token, and its player and session."""

    token: Secret
    caller: AuthenticatedSession


@redacts("token")
class SignedIn(Struct, frozen=True):
    """A finished sign-in; `token` is the new cookie, or None if it was sent before or only linked a provider."""

    token: Secret | None
    linked: bool = False
    invite_unused: bool = False
    """The player existed before and opened an invite, which is still open."""
    player_id: str = ""
    back: AccountReturn | None = None
    """The page from which this player came."""
    codes_left: int | None = None
    """The recovery codes that the player has left, if one of them signed in."""


class NotSignedIn(Struct, frozen=True):
    """A sign-in that failed."""

    ended: Ended
    back: AccountReturn | None = None
    """The page from which the person came, for another try."""
    by_code: bool = False
    """A recovery code was typed."""


class SavesPlace(Struct, frozen=True):
    """Where a page of the saves begins: those with copies to choose from come first, then all by name."""

    copied: str = ""
    """The slot with copies after which it begins."""
    after: str = ""
    """The slot after which it begins; those with copies are behind it then."""


class AccountOverview(Struct, frozen=True):
    """The content of the page."""

    names: PlayerNames
    sessions: Sequence[SessionInfo]
    """The games that are signed in."""
    methods: Sequence[tuple[SignInMethod, bool]]
    """Each with whether it can be used at present."""
    slots: Sequence[SlotEntry] | None
    """A page of them by name, deleted ones too, and one more if there are more; None if state.db cannot be read."""
    usage: Usage
    activity: Sequence[RecordedEvent] = ()
    """Security events of the last 90 days, the latest first; at most ACTIVITY_ROWS."""
    copied: Sequence[SlotEntry] = ()
    """The slots with copies to choose from, which come first; with one more than a page has, `slots` is empty."""
    browsers: Sequence[BrowserInfo] = ()
    own_session: str = ""
    """The browser session that asks."""
    adoptable: bool = False
    """There are accounts from before providers signed in here."""
    owner_page: bool = False
    """The player is the owner, and the page on which the owner looks after the server is on."""
    passkeys: Sequence["Passkey"] = ()
    passkey_host: str = ""
    """The host of the passkeys that can be used, "" where browsers allow none."""
    codes_left: int | None = None
    """The player's recovery codes that were not used; None for a player who can have none."""


class AccountSignIn(Component, frozen=True, kw_only=True):
    """The sign-ins of browsers for the page, and the links of further providers."""

    context: LoginContext
    logins: LoginStore
    store: AccountPageStore
    authorize: AuthorizeService
    passwords: PasswordAuthenticator
    passkeys: PasskeyAuthenticator
    recovery: RecoveryAuthenticator
    waiters: LongPollRegistry

    async def authenticate(self, cookie: str | None) -> BrowserVisit:
        """Return the visit of a browser with this cookie; raise SessionError or DatabaseError."""
        token, now_ms = parse_browser_token(cookie), self.context.now_ms()
        state = await self.store.authenticate(token, now_ms)
        if state.needs_touch:
            with suppress(DatabaseError):  # on a full disk the page can be read, and its session ends earlier
                await self.store.touch(token, state.caller.player_id, now_ms)
        return BrowserVisit(token, state.caller)

    async def count_request(self, address: str) -> None:
        """Count a request for the page; raise RateLimited."""
        per_minute = self.context.policy.limits.entries_per_minute
        await self.logins.count_request(b"account", address, per_minute, self.context.now_ms())

    async def at_provider(
        self,
        form: SignInForm,
        provider: str,
        requester: AuthenticatedSession | None = None,
        *,
        invite_id: str | None = None,
        back: AccountReturn | None = None,
    ) -> RedirectToProvider | RedirectToResult:
        """Begin a sign-in at a provider, or with a requester a link of that provider to the requester's player.

        At its end the browser returns to the page `back`. With an invite the sign-in of a newcomer uses that invite
        when it ends, and makes the player.

        Raise ProviderUnknown, ReauthenticationRequired, RateLimited or TooManyLogins.
        """
        if provider not in self.context.policy.providers:
            raise ProviderUnknown
        now_ms = self.context.now_ms()
        if requester is not None and not requester.signed_in_recently(now_ms):
            raise ReauthenticationRequired
        login = self._new_login(form, provider, now_ms, None if requester is None else requester.session_id)
        login = replace(login, invite_id=invite_id, sealed_result=self._sealed(login.login_id, back))
        await self._add(login, form.address)
        return await self.authorize.redirect(login, form)

    async def locally(self, form: SignInForm, back: AccountReturn | None = None) -> RedirectToResult:
        """Sign in with a name and a password; raise SignInRejected, RateLimited or TooManyLogins."""
        now_ms = self.context.now_ms()  # before the check, so that a password change meanwhile counts
        account = await self.passwords.authenticate(form)
        return await self._signed_in(form, account, now_ms, back)

    async def by_passkey(
        self, form: SignInForm, fields: Mapping[str, str], back: AccountReturn | None = None
    ) -> RedirectToResult:
        """Sign in with a passkey; raise SignInRejected, RateLimited or TooManyLogins. Do not cancel this."""
        now_ms = self.context.now_ms()
        account = await self.passkeys.authenticate(form, account_row(form.browser), fields)
        return await self._signed_in(form, account, now_ms, back)

    async def by_recovery_code(
        self, form: SignInForm, typed: str, back: AccountReturn | None = None
    ) -> RedirectToResult:
        """Sign in with a name and a recovery code; raise SignInRejected, RateLimited or TooManyLogins."""
        now_ms = self.context.now_ms()
        account = await self.recovery.authenticate(form, typed)
        return await self._signed_in(form, account, now_ms, back)

    async def _signed_in(
        self,
        form: SignInForm,
        account: ExistingAccount | PasskeyAccount | RecoveryAccount,
        now_ms: int,
        back: AccountReturn | None,
    ) -> RedirectToResult:
        """Add a login that has identified its player at `now_ms`."""
        login = self._new_login(form, LOCAL, now_ms, None)
        login = replace(login, sealed_result=self._sealed(login.login_id, back))
        identity, proof = login_keys.seal_identity(self.context.keys, self.context.random, login.login_id, account)
        opened = login.apply(LoginEvent.OPEN, now_ms).bound_to(form.browser, now_ms)
        await self._add(opened.identified(identity, proof, now_ms), form.address)
        return RedirectToResult(login.login_id)

    async def finish(
        self, login_id: str, browser: Index | None, cookie: str | None, request_id: str, name: BrowserName
    ) -> SignedIn | InProgress | NotSignedIn:
        """End the sign-in in its own browser of this name, whose session until now was that of `cookie`.

        Do not cancel this. Raise UnknownLoginLink or WrongBrowser; for a sign-in with an invite that failed LinkEnded,
        or LinkUnused if the invite is still open.
        """
        if browser is None:
            raise WrongBrowser
        context, now_ms = self.context, self.context.now_ms()
        key = LoginLookup("login_id", login_id)
        # This request is not counted, so a foreign one must not write, nor one that would change nothing.
        found = await self.logins.find(key)
        if found is None or found.intent is not LoginIntent.ACCOUNT:
            raise UnknownLoginLink
        if not found.belongs_to(browser):
            raise WrongBrowser
        pair = generate_pair(context.random, now_ms, context.policy.session, now_ms)
        new_session = NewSession(new_player_id(context.random), new_session_id(context.random), pair)
        collect = CollectCommand(key, None, new_session, Registration.CLOSED, now_ms)
        new_browser = NewBrowserSession.generate(context.random, name)
        outcome: CollectOutcome | None = CollectOutcome(Transition(found, found))
        if found.stage is LoginStage.READY or found != found.at_time(now_ms):
            outcome = await self.store.finish(FinishCommand(collect, browser, new_browser, token_of(cookie)))
        if outcome is None:
            raise UnknownLoginLink
        login = outcome.transition.after
        if not login.belongs_to(browser):
            raise WrongBrowser
        if outcome.transition.stage_changed:
            self._record(outcome, new_browser.session_id, request_id)
        if login.outcome is not None and login.invite_id is not None:
            raise LinkEnded if login.outcome is LoginFailure.REGISTRATION_CLOSED else LinkUnused
        if login.outcome is not None:
            ended = Ended(login.outcome, login.approval_code, login.links)
            return NotSignedIn(ended, self._unsealed(login), outcome.by_code)
        if login.stage is not LoginStage.COLLECTED:
            return InProgress()
        if login.links:
            return SignedIn(None, linked=True)
        if not outcome.transition.stage_changed:
            return SignedIn(None)
        unused, player_id = login.invite_id is not None and outcome.invite_id is None, outcome.player_id or ""
        back = self._back(outcome.transition.before, player_id)
        return SignedIn(new_browser.token, False, unused, player_id, back, outcome.codes_left)

    def _sealed(self, login_id: str, back: AccountReturn | None) -> bytes | None:
        return None if back is None else back.seal(self.context.keys, login_id).encode()

    def _back(self, login: LoginTransaction, player_id: str) -> AccountReturn | None:
        """Return the page of a login that has just ended, unless another player came from it."""
        back = self._unsealed(login)
        return back if back is not None and back.is_for(player_id) else None

    def _unsealed(self, login: LoginTransaction) -> AccountReturn | None:
        sealed = (login.sealed_result or b"").decode()
        return AccountReturn.unseal(self.context.keys, login.login_id, sealed, self.context.now_ms())

    async def end_browser(self, visit: BrowserVisit, session_id: str) -> None:
        """End one of the player's browser sessions; raise SessionNotFound for all others."""
        player_id = visit.caller.player_id
        if not await self.store.end_browser(player_id, session_id):
            raise SessionNotFound
        self.context.audit.record(SecurityEvent.SESSION_REVOKED, player=player_id, session=session_id)

    async def sign_out(self, visit: BrowserVisit) -> None:
        """End the session of this browser."""
        if await self.store.sign_out(visit.token, visit.caller.player_id) is not None:
            self.context.audit.record(SecurityEvent.SIGNED_OUT, player=visit.caller.player_id, scope="this")

    def _new_login(
        self, form: SignInForm, provider: str, now_ms: int, requesting_session_id: str | None
    ) -> LoginTransaction:
        """Return a login that belongs to the form's browser; its indexes are those of random bytes that are discarded.

        So no device secret can collect it, and no link can open it.
        """
        context, policy = self.context, self.context.policy
        login_id = new_login_id(context.random)
        address, wide = address_indexes(context.keys.indexer, form.address)
        return LoginTransaction(
            login_id=login_id,
            secret_index=login_keys.secret_index(context.keys.indexer, Secret(context.random(ENTROPY_BYTES))),
            token_index=login_keys.token_index(context.keys.indexer, context.random(ENTROPY_BYTES).hex()),
            intent=LoginIntent.ACCOUNT,
            provider=provider,
            client=ClientInfo(),
            return_proof=ProofMethod.NONE,
            loopback_port=None,
            address_index=address,
            wide_index=wide,
            created_ms=now_ms,
            expires_ms=now_ms + policy.ttl_seconds * 1000,
            stage_ms=now_ms,
            requesting_session_id=requesting_session_id,
            browser_index=form.browser,
        )

    async def _add(self, login: LoginTransaction, address: str) -> None:
        quota = LoginQuota.of(self.context.policy.limits, self.context.keys.indexer, address)
        for ended in await self.logins.add(login, quota):
            self.waiters.wake(ended)

    def _record(self, outcome: CollectOutcome, session_id: str, request_id: str) -> None:
        login, player, audit = outcome.transition.after, outcome.player_id or "", self.context.audit
        if outcome.undecryptable is not None:
            audit.record(SecurityEvent.DECRYPTION_FAILED, **outcome.undecryptable)
        if login.outcome is not None:
            values = {"player": player, "provider": login.provider, "outcome": login.outcome.value}
            audit.record(SecurityEvent.SIGN_IN_REFUSED, **values, request=request_id)
        elif login.links and login.stage is LoginStage.COLLECTED:
            audit.record(SecurityEvent.IDENTITY_LINKED, player=player, provider=login.provider)
        elif login.stage is LoginStage.COLLECTED:
            created = "no" if outcome.invite_id is None else "yes"
            values = {"player": player, "session": session_id, "provider": outcome.way, "created": created}
            audit.record(SecurityEvent.SIGN_IN, **values)
            if outcome.codes_left is not None:
                left = {"player": player, "session": session_id, "left": str(outcome.codes_left)}
                audit.record(SecurityEvent.RECOVERY_CODE_USED, **left)
            if outcome.invite_id is not None:
                used = {"player": player, "invite": outcome.invite_id, "provider": login.provider}
                audit.record(SecurityEvent.INVITE_USED, **used)
        for ended in outcome.ended:
            audit.record(SecurityEvent.SESSION_LIMIT_REACHED, player=player, session=ended)


class AccountPage(Component, frozen=True, kw_only=True):
    """The content of the page, and the change of a password, which no game sees."""

    context: LoginContext
    store: AccountPageStore
    sessions: SessionService
    account: AccountService
    saves: SaveService
    passwords: PasswordAuthenticator
    ways: WaysStore
    passkeys: Late["PasskeyService"]
    recovery: Late["RecoveryService"]
    revoked: RevocationListener

    async def overview(self, visit: BrowserVisit, place: SavesPlace) -> AccountOverview:
        """Return everything that a page shows; without state.db the saves are missing."""
        caller = visit.caller
        names = await self.store.names(caller.player_id)
        sessions = await self.sessions.list(caller)
        browsers = await self.store.browsers(caller.player_id, self.context.now_ms())
        methods = await self.account.identities(caller)
        slots: Sequence[SlotEntry] | None = None
        usage, copied = Usage(), list[SlotEntry]()
        with suppress(DatabaseError):
            _, summary = await self.saves.read_summary(visit.token, reading=True)
            usage = summary.usage
            if not place.after:
                copied = list(await self.saves.copied_slots(visit.token, place.copied, SLOTS_AT_ONCE + 1))
            wanted = 0 if len(copied) > SLOTS_AT_ONCE else SLOTS_AT_ONCE + 1
            slots = await self.saves.slots_by_name(visit.token, place.after, wanted)
        activity = await self.store.activity(caller.player_id, ACTIVITY_ROWS)
        adoptable = self.context.policy.mode is Mode.OAUTH and await self.store.any_unlinked()
        owner_page = caller.owner and await self.store.owner_page_is_on()
        own = caller.session_id
        return AccountOverview(
            names,
            sessions,
            methods,
            slots,
            usage,
            activity,
            copied,
            browsers,
            own,
            adoptable,
            owner_page,
            await self.ways.passkeys(caller.player_id),
            self.ways.site.rp_id if self.ways.site else "",
            await self.ways.codes_left(caller.player_id),
        )

    async def make_codes(self, visit: BrowserVisit, replaces: str | None = None) -> "RecoveryCodes | None":
        """Return new recovery codes of the visitor, with the name that is typed with one.

        The name is read first: an error afterwards would leave codes that no page has shown. The rest is as
        RecoveryService.make() describes it. Do not cancel this. Raise CodesReplaced or RateLimited.
        """
        name = await self.account_name(visit)
        made = await self.recovery.get().make(visit.caller, replaces)
        return made and replace(made, account=name or "")

    async def passkey_prompt(self, visit: BrowserVisit, server: str) -> PasskeyPrompt:
        """Return the parts of the page that makes a passkey on the server of this name.

        Raise PasskeysOff or PasskeysFull.
        """
        names = await self.store.names(visit.caller.player_id)
        player = names.account or names.display or server
        return await self.passkeys.get().registration_prompt(visit.caller, server, player)

    async def adopt(self, visit: BrowserVisit, form: SignInForm) -> None:
        """Bring the old local account of this name and password into the visitor's account.

        Do not cancel this. Raise SignInRejected, AdoptionRefused or AccountReauthenticationRequired.
        """
        checked_ms = self.context.now_ms()
        typed = replace(form, session_id=visit.caller.session_id)
        account = await self.passwords.authenticate(typed)
        await self.account.adopt(visit.caller, account.player_id, checked_ms, account.password_tag)

    async def account_name(self, visit: BrowserVisit) -> str | None:
        return (await self.store.names(visit.caller.player_id)).account

    async def change_password(self, visit: BrowserVisit, form: SignInForm, new: str, browser: BrowserName) -> Secret:
        """Set a new password, and end all sessions; return the new token of the browser of this name.

        `form` has the old password and no name. Do not cancel this. Raise SignInRejected; PASSWORD_MALFORMED is about
        the new password.
        """
        context, checked_ms = self.context, self.context.now_ms()
        name = await self.account_name(visit)
        typed = replace(form, name=name or "", session_id=visit.caller.session_id)
        account = await self.passwords.authenticate(typed)
        if account.player_id != visit.caller.player_id:
            raise SignInRejected(FormError.WRONG)
        password = await self.passwords.hash_new(new)
        new_browser = NewBrowserSession.generate(context.random, browser)
        now_ms, checked = context.now_ms(), account.password_tag
        command = PasswordCommand(visit.token, password, new_browser, checked_ms, now_ms, checked)
        player_id = await self.store.change_password(command, visit.caller.player_id)
        if player_id is None:
            raise SignInRejected(FormError.WRONG)
        context.audit.record(SecurityEvent.PASSWORD_CHANGED, player=player_id)
        self.revoked(player_id)
        return new_browser.token


def token_of(cookie: str | None) -> Secret | None:
    """Return the token of a browser's cookie; None if it is absent or malformed."""
    try:
        return parse_browser_token(cookie)
    except SessionError:
        return None
