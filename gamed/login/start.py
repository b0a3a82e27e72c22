"""A game begins a handoff, or is told why it cannot (PROTOCOL 3.1, 3.8)."""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from gamed.config.model import Mode, ReturnProofSetting
from gamed.crypto import Indexer, Random, Secret
from gamed.login.errors import (
    InvalidStart,
    LoginError,
    LoginProviderUnavailable,
    ProviderUnknown,
    ReauthenticationRequired,
)
from gamed.login.interfaces import LoginStore
from gamed.login.keys import LOCAL, login_token, new_login_id, secret_index, token_index
from gamed.login.local import Limits
from gamed.login.policy import LoginPolicy, LoginQuota, address_indexes
from gamed.login.transaction import ClientInfo, ClientInfoTooLong, LoginIntent, LoginTransaction, ProofMethod
from gamed.long_poll import LongPollRegistry
from gamed.providers import base
from gamed.providers.base import IdentityProvider
from gamed.sessions.credentials import AuthenticatedSession
from gamed.sessions.errors import SessionError
from gamed.structs import Component, redacts
from gamed.timestamps import Now
from gamed.tokens import ENTROPY_BYTES, TokenType, generate_token


class Authenticator(Protocol):
    async def authenticate(self, token: str | None) -> AuthenticatedSession:
        """Whom an access token speaks for; SessionError."""


class LocalAccountQuery(Protocol):
    async def unlinked(self) -> bool:
        """Whether any local account is the only way in for its player."""


@redacts("token")
class StartRequest(Struct, frozen=True):
    """What a game asks for; `words` are the members of `client` as they came, `address` is where it came from.

    `token` is the access token that was sent along, which counts for a link only.
    """

    provider: str | None
    intent: LoginIntent
    words: Mapping[str, str | None]
    loopback_port: int | None
    address: str
    token: str | None = None


class StartedLogin(Struct, frozen=True):
    """What the game is told: its key to the result, and the token of the link to open."""

    login: LoginTransaction
    device_secret: Secret
    token: str


class StartService(Component, frozen=True):
    _logins: LoginStore
    _callers: Authenticator
    _adoptables: LocalAccountQuery
    _providers: Mapping[str, IdentityProvider]
    """By their names; empty in local mode."""
    _indexer: Indexer
    _random: Random
    _now_ms: Now
    _terms: LoginPolicy
    _waits: LongPollRegistry
    _limits: Limits

    async def start(self, start: StartRequest) -> StartedLogin:
        """Begin a login and return the game's key to its result.

        InvalidStart, ProviderUnknown, ProviderUnavailable, ReauthenticationRequired, RateLimited, Crowded or a
        SessionError write none. Those that are about what the game asks for count as a start.
        """
        try:
            provider, client = self._judged(start), _cleaned(start.words)
            requesting_session_id = await self._admitted(start)
            self._require_available(provider)
        except (LoginError, SessionError):
            await self.count_refused(start.address)
            raise
        secret = generate_token(TokenType.DEVICE_SECRET, self._random(ENTROPY_BYTES))
        login_id, now_ms = new_login_id(self._random), self._now_ms()
        token = login_token(self._indexer, login_id)
        address, wide = address_indexes(self._indexer, start.address)
        login = LoginTransaction(
            login_id=login_id,
            secret_index=secret_index(self._indexer, secret),
            token_index=token_index(self._indexer, token),
            intent=start.intent,
            provider=provider,
            client=client,
            return_proof=self._proof(start.loopback_port),
            loopback_port=start.loopback_port,
            address_index=address,
            wide_index=wide,
            created_ms=now_ms,
            expires_ms=now_ms + self._terms.ttl_seconds * 1000,
            stage_ms=now_ms,
            requesting_session_id=requesting_session_id,
        )
        for ended in await self._logins.add(login, self._crowd(start.address)):
            self._waits.wake(ended)
        return StartedLogin(login, secret, token)

    async def count_refused(self, address: str) -> None:
        """Count a start that was refused for what it asks; raise RateLimited, which is then the answer instead."""
        buckets = self._crowd(address).buckets
        if buckets:
            await self._limits.take(buckets, self._now_ms())

    def _crowd(self, address: str) -> LoginQuota:
        return LoginQuota.of(self._terms.limits, self._indexer, address)

    def _judged(self, start: StartRequest) -> str:
        if self._terms.mode is Mode.LOCAL:
            if start.provider is not None:
                raise ProviderUnknown
            if start.intent is not LoginIntent.LOGIN:
                raise InvalidStart("/intent", "is for servers in oauth mode")
            return LOCAL
        if start.provider is None:
            raise InvalidStart("/provider", "is missing; GET /auth/config lists which there are")
        if start.provider not in self._providers:
            raise ProviderUnknown
        return start.provider

    async def _admitted(self, start: StartRequest) -> str | None:
        """The session that asks for a link; to adopt an account needs none, only that there are some."""
        if start.intent is LoginIntent.ADOPT and not await self._adoptables.unlinked():
            raise InvalidStart("/intent", "there is no local account left to adopt; sign in with a provider")
        if start.intent is not LoginIntent.LINK:
            return None
        caller = await self._callers.authenticate(start.token)
        if not caller.signed_in_recently(self._now_ms()):
            raise ReauthenticationRequired
        return caller.session_id

    def _require_available(self, name: str) -> None:
        provider = self._providers.get(name)
        try:
            if provider is not None:
                provider.require_available()
        except base.ProviderUnavailable as e:
            raise LoginProviderUnavailable(e.retry_after) from None  # its cause is for the owner

    def _proof(self, port: int | None) -> ProofMethod:
        if self._terms.return_proof is ReturnProofSetting.OFF:
            return ProofMethod.NONE
        return ProofMethod.CODE if port is None else ProofMethod.LOOPBACK_OR_CODE


def _cleaned(words: Mapping[str, str | None]) -> ClientInfo:
    try:
        return ClientInfo.of(words)
    except ClientInfoTooLong as e:
        raise InvalidStart(f"/client/{e.word}", str(e)) from None
