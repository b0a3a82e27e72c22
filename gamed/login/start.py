"""A game starts a login, or learns why it cannot (docs/protocol.md: Start, Accounts)."""

from collections.abc import Mapping

from msgspec import Struct

from gamed.config.model import Mode, ReturnProofSetting
from gamed.crypto import ENTROPY_BYTES, Secret, TokenType, generate_token
from gamed.login.errors import (
    InvalidStart,
    LoginError,
    LoginProviderUnavailable,
    ProviderUnknown,
    ReauthenticationRequired,
)
from gamed.login.keys import LOCAL, login_token, new_login_id, secret_index, token_index
from gamed.login.policy import LoginContext, LoginQuota, ProviderAccess, address_indexes
from gamed.login.return_rules import ReturnUriInvalid, check_return_uri
from gamed.login.store import LoginStore
from gamed.login.transaction import ClientInfo, ClientInfoTooLong, LoginIntent, LoginTransaction, ProofMethod
from gamed.long_poll import LongPollRegistry
from gamed.providers.base import ProviderUnavailable
from gamed.sessions.errors import SessionError
from gamed.sessions.service import SessionService
from gamed.structs import Component, redacts


@redacts("token")
class StartRequest(Struct, frozen=True):
    """A game's request to start a login; `client` holds the members of `client` as they were sent.

    `token` is the access token of the request; only a link needs one. A game with a `return_uri` has no port.
    """

    provider: str | None
    intent: LoginIntent
    client: Mapping[str, str | None]
    loopback_port: int | None
    address: str
    token: str | None = None
    return_uri: str | None = None
    confirm: bool = False
    """The sign-in confirms something: the server has asked for a recent one."""

    @property
    def return_proof(self) -> ProofMethod:
        """Return the proofs that this game can send."""
        if self.return_uri is not None:
            return ProofMethod.APP_OR_CODE
        return ProofMethod.CODE if self.loopback_port is None else ProofMethod.LOOPBACK_OR_CODE


class StartedLogin(Struct, frozen=True):
    """A new login, the device secret by which the game collects, and the token of the link to open."""

    login: LoginTransaction
    device_secret: Secret
    token: str


class StartService(Component, frozen=True, kw_only=True):
    """The service that starts logins."""

    context: LoginContext
    store: LoginStore
    access: ProviderAccess
    sessions: SessionService
    waiters: LongPollRegistry

    async def start(self, start: StartRequest) -> StartedLogin:
        """Begin a login and return the game's key to its result.

        Raise InvalidStart, ProviderUnknown, LoginProviderUnavailable, ReauthenticationRequired, SessionError,
        RateLimited or TooManyLogins, which write no login. All but the last two count as a start.
        """
        try:
            provider, client, requesting_session_id = await self._validate(start)
        except (LoginError, SessionError):
            await self.count_rejected(start.address)
            raise
        context, policy = self.context, self.context.policy
        secret = generate_token(TokenType.DEVICE_SECRET, context.random(ENTROPY_BYTES))
        login_id, now_ms = new_login_id(context.random), context.now_ms()
        token = login_token(context.keys.indexer, login_id)
        address, wide = address_indexes(context.keys.indexer, start.address)
        login = LoginTransaction(
            login_id=login_id,
            secret_index=secret_index(context.keys.indexer, secret),
            token_index=token_index(context.keys.indexer, token),
            intent=start.intent,
            provider=provider,
            client=client,
            return_proof=ProofMethod.NONE if policy.return_proof is ReturnProofSetting.OFF else start.return_proof,
            loopback_port=start.loopback_port,
            return_uri=start.return_uri,
            address_index=address,
            wide_index=wide,
            created_ms=now_ms,
            expires_ms=now_ms + policy.ttl_seconds * 1000,
            stage_ms=now_ms,
            requesting_session_id=requesting_session_id,
        )
        quota = LoginQuota.of(policy.limits, context.keys.indexer, start.address)
        for ended in await self.store.add(login, quota):
            self.waiters.wake(ended)
        return StartedLogin(login, secret, token)

    async def count_rejected(self, address: str) -> None:
        """Count a start that was rejected for its content; raise RateLimited, which replaces the first error."""
        per_minute = self.context.policy.limits.starts_per_minute
        await self.store.count_request(b"start", address, per_minute, self.context.now_ms())

    async def _validate(self, start: StartRequest) -> tuple[str, ClientInfo, str | None]:
        """Return the provider, the cleaned client, and for a link the session that requests it."""
        provider = self._provider(start)
        try:
            client = ClientInfo.of(start.client, confirms=start.confirm)
        except ClientInfoTooLong as e:
            raise InvalidStart(f"/client/{e.member}", str(e)) from None
        self._check_return(start)
        session_id = await self._check_intent(start)
        # Asked last: an error in the request itself is the same whether the provider answers or not.
        try:
            if provider != LOCAL:
                self.access.providers[provider].require_available()
        except ProviderUnavailable as e:
            raise LoginProviderUnavailable(e.retry_after) from None  # its cause is for the operator
        return provider, client, session_id

    def _check_return(self, start: StartRequest) -> None:
        """Check the address of an app; raise InvalidStart."""
        if start.return_uri is None:
            return
        if start.loopback_port is not None:
            raise InvalidStart("/return_uri", "send return_uri or loopback_port, not both")
        try:
            check_return_uri(start.return_uri, self.context.policy.app_links)
        except ReturnUriInvalid as e:
            raise InvalidStart("/return_uri", str(e)) from None

    def _provider(self, start: StartRequest) -> str:
        if self.context.policy.mode is Mode.LOCAL:
            if start.provider is not None:
                raise ProviderUnknown
            if start.intent is not LoginIntent.LOGIN:
                raise InvalidStart("/intent", "is for servers in oauth mode")
            return LOCAL
        if start.provider is None:
            raise InvalidStart("/provider", "is missing; GET /auth/config lists which there are")
        if start.provider not in self.access.providers:
            raise ProviderUnknown
        return start.provider

    async def _check_intent(self, start: StartRequest) -> str | None:
        """Return the session that requests a link; adopting needs no session, only a local account to adopt."""
        if start.intent is LoginIntent.ADOPT and not await self.store.any_unlinked_account():
            raise InvalidStart("/intent", "there is no local account left to adopt; sign in with a provider")
        if start.intent is not LoginIntent.LINK:
            return None
        session = await self.sessions.authenticate(start.token)
        if not session.signed_in_recently(self.context.now_ms()):
            raise ReauthenticationRequired
        return session.session_id
