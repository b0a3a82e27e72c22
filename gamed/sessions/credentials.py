"""The game's own credentials: access token and refresh credential, made and sealed as a pair (SPEC 5.3, PROTOCOL 1).

A session as its player sees it, and how much a sign-out ends (PROTOCOL 3.7).

A credential as a request brings it: well-formed, or refused before any store is asked (PROTOCOL 1, 3.7).
"""

import struct
from enum import StrEnum

from msgspec import Struct

from gamed.crypto import Keys, Random, Secret
from gamed.sessions.errors import RefreshInvalid, TokenInvalid, TokenMissing
from gamed.structs import Component
from gamed.timestamps import seconds_until
from gamed.tokens import ENTROPY_BYTES, ID_BYTES, MalformedToken, TokenType, parse_token, public_id
from gamed.tokens import generate_token as mint_token

RECENT_MS = 10 * 60_000
_LAYOUT = struct.Struct(">BQQ53s53s")  # layout number, both expiries in epoch milliseconds, both credentials as ASCII
_LAYOUT_NUMBER = 1


class PairMalformed(Exception):
    """Bytes that to_bytes() did not make."""


class SessionPolicy(Struct, frozen=True):
    """How long credentials live, in whole seconds (SPEC 2.1 `session`)."""

    access_seconds: int
    refresh_seconds: int
    max_lifetime_seconds: int | None = None
    """Greatest age of a session since its sign-in, however often it is refreshed; None = no cap."""

    def ends_ms(self, created_ms: int) -> int | None:
        """When a session that began at `created_ms` ends at the latest."""
        return None if self.max_lifetime_seconds is None else created_ms + self.max_lifetime_seconds * 1000

    def expiry_ms(self, seconds: int, now_ms: int, created_ms: int) -> int:
        """`seconds` from now, but never after the session's end."""
        wanted, ends = now_ms + seconds * 1000, self.ends_ms(created_ms)
        return wanted if ends is None else min(wanted, ends)


class AccessToken(Struct, frozen=True):
    """An access token and when it expires, in epoch milliseconds."""

    token: Secret
    expires_ms: int


class CredentialPair(Struct, frozen=True):
    """What one sign-in or one rotation hands out; expiries in epoch milliseconds."""

    access: Secret
    refresh: Secret
    access_expires_ms: int
    refresh_expires_ms: int

    def renewed(self, access: AccessToken) -> "CredentialPair":
        """The same refresh credential beside a fresh access token."""
        return CredentialPair(access.token, self.refresh, access.expires_ms, self.refresh_expires_ms)


class AuthenticatedSession(Struct, frozen=True):
    """Whom an access token speaks for, at the moment it was judged."""

    player_id: str
    session_id: str
    owner: bool
    signed_in_ms: int
    """When this session's sign-in took place."""
    unused: int | None = None
    """The generation that this request is the first to use; it must be marked before the request's effect."""

    def signed_in_recently(self, now_ms: int) -> bool:
        """Whether the sign-in counts for what cannot be undone (PROTOCOL 3.8)."""
        return now_ms - self.signed_in_ms <= RECENT_MS


def mint_access(random: Random, now_ms: int, policy: SessionPolicy, created_ms: int) -> AccessToken:
    """A fresh access token for a session that began at `created_ms`."""
    token = mint_token(TokenType.ACCESS_TOKEN, random(ENTROPY_BYTES))
    return AccessToken(token, policy.expiry_ms(policy.access_seconds, now_ms, created_ms))


def mint(random: Random, now_ms: int, policy: SessionPolicy, created_ms: int) -> CredentialPair:
    """A fresh pair for a session that began at `created_ms` (now, for a new one)."""
    access = mint_access(random, now_ms, policy, created_ms)
    refresh = mint_token(TokenType.REFRESH_CREDENTIAL, random(ENTROPY_BYTES))
    refresh_expires_ms = policy.expiry_ms(policy.refresh_seconds, now_ms, created_ms)
    return CredentialPair(access.token, refresh, access.expires_ms, refresh_expires_ms)


class CredentialIssuer(Component, frozen=True):
    """What credentials are made, found and sealed with."""

    keys: Keys
    policy: SessionPolicy
    random: Random

    def pair(self, now_ms: int, created_ms: int) -> CredentialPair:
        return mint(self.random, now_ms, self.policy, created_ms)

    def access(self, now_ms: int, created_ms: int) -> AccessToken:
        return mint_access(self.random, now_ms, self.policy, created_ms)


def new_session_id(random: Random) -> str:
    return public_id("ses", random(ID_BYTES))


def response_members(pair: CredentialPair, session_id: str, now_ms: int) -> dict[str, object]:
    """The members that the answers of collect, refresh and `players token` share (PROTOCOL 3.5 and 3.7).

    This is the one place where the credentials leave their Secret; the result goes into an answer, nowhere else.
    """
    return {
        "token_type": "Bearer",
        "access_token": pair.access.reveal().decode(),
        "expires_in": seconds_until(pair.access_expires_ms, now_ms),
        "refresh_credential": pair.refresh.reveal().decode(),
        "refresh_expires_in": seconds_until(pair.refresh_expires_ms, now_ms),
        "session_id": session_id,
    }


def to_bytes(pair: CredentialPair) -> bytes:
    """A pair as bytes, only ever to be sealed."""
    expiries = pair.access_expires_ms, pair.refresh_expires_ms
    return _LAYOUT.pack(_LAYOUT_NUMBER, *expiries, pair.access.reveal(), pair.refresh.reveal())


def from_bytes(raw: bytes) -> CredentialPair:
    """The pair that to_bytes() wrote; anything else is PairMalformed."""
    try:
        number, access_ms, refresh_ms, access, refresh = _LAYOUT.unpack(raw)
        if number != _LAYOUT_NUMBER:
            raise PairMalformed(f"layout {number} is not known")
        tokens = (
            parse_token(TokenType.ACCESS_TOKEN, access.decode()),
            parse_token(TokenType.REFRESH_CREDENTIAL, refresh.decode()),
        )
    except (struct.error, UnicodeDecodeError, MalformedToken):
        raise PairMalformed("not the bytes of a pair") from None  # the cause would carry the bytes
    return CredentialPair(*tokens, access_ms, refresh_ms)


class LogoutScope(StrEnum):
    """Which of a player's sessions, seen from the one that asks."""

    THIS = "this"
    OTHERS = "others"
    ALL = "all"


class SessionInfo(Struct, frozen=True):
    """One line of a player's list; instants in epoch milliseconds, `client` the device's own words as JSON."""

    session_id: str
    created_ms: int
    last_used_ms: int
    """The last sign-in or refresh."""
    expires_ms: int
    provider: str
    client: str


def access_token(text: str | None) -> Secret:
    """TokenMissing without one, TokenInvalid when it cannot be one."""
    if text is None:
        raise TokenMissing
    try:
        return parse_token(TokenType.ACCESS_TOKEN, text)
    except MalformedToken:
        raise TokenInvalid from None


def refresh_credential(text: str) -> Secret:
    """RefreshInvalid when it cannot be one."""
    try:
        return parse_token(TokenType.REFRESH_CREDENTIAL, text)
    except MalformedToken:
        raise RefreshInvalid from None
