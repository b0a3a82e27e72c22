"""The credentials of a session are an access token and a refresh credential, issued as a pair.

Each rotation starts one more generation of the session. A credential belongs to the generation that it was generated
for, so "current", "immediate predecessor" and "older" in the refresh table of docs/internals/rules.md are the newest
generation, the one before it, and all generations before that one.

A malformed credential of a request is rejected here, before the server reads a database (docs/protocol.md: Sessions).

See SPEC 5/5; docs/protocol.md: Conventions.
"""

import struct
from binascii import a2b_base64
from collections.abc import Callable
from enum import Enum, StrEnum

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gamed.config.model import SessionLifetimes
from gamed.crypto import (
    ENTROPY_BYTES,
    ID_BYTES,
    Keys,
    MalformedToken,
    Random,
    Secret,
    TokenType,
    generate_token,
    parse_token,
    public_id,
)
from gamed.rate_limit import UNLIMITED, RateLimit
from gamed.sessions.errors import RefreshInvalid, SessionError, TokenInvalid, TokenMissing
from gamed.structs import Component
from gamed.timestamps import CLOCKS_MS, seconds_until

MAX_SESSIONS = 100
"""Sessions of one player, and browser sessions: one more ends the least recently used one."""
PLAYER_REFRESHES = 3 * MAX_SESSIONS
"""Refreshes of one player at once: each device may start three times in a row."""
PLAYER_REFRESH_MS = 6000
"""The longest time until the player may refresh once more. Each refresh leaves rows for `refresh_ttl` and a week."""
PASSKEY = "passkey"
"""The value of `provider` for what a passkey opened."""
RECOVERY_CODE = "recovery_code"
"""The value of `provider` for what a recovery code opened."""
RECENT_MS = 10 * 60_000
"""How long after a sign-in a session may start what cannot be undone (docs/protocol.md: Accounts)."""
SHARED_STORE_MS = 30_000
"""How long after a successor's first delivery its predecessor still gets it, although the successor is in use:
two processes of one player that share one stored credential may both have sent the predecessor.

A client refreshes up to 30 seconds before the access token expires, so both do it within that time. A thief who has a
copy gets no more by it than before: two holders of one session, until one of them refreshes again. With several
machines the time is longer by how far their clocks may be apart: else a clock that is ahead ends sessions of players.
"""
TICK_BYTES = 2
TICK_MS = 8
"""Credentials that are issued in one of these steps begin with the same two bytes, the rest is random. The shorter the
step, the fewer pages a batch of them changes; the ticks begin anew after nine minutes, which only mixes them with a few
old ones."""
_STANDARD = bytes.maketrans(b"-_", b"+/")
_LAYOUT = struct.Struct(">BQQ53s53s")  # layout number, both expiries in epoch milliseconds, both credentials as ASCII
_LAYOUT_NUMBER = 1


class MalformedPair(Exception):
    """Bytes that are not the result of to_bytes()."""


class SessionPolicy(Struct, frozen=True):
    """The lifetimes of credentials, in whole seconds (SPEC 2.1 `session`)."""

    access_seconds: int
    refresh_seconds: int
    max_lifetime_seconds: int | None = None
    """Maximum age of a session since its sign-in, however often it is refreshed; None: not limited."""

    @classmethod
    def of(cls, lifetimes: SessionLifetimes) -> "SessionPolicy":
        return cls(lifetimes.access_seconds, lifetimes.refresh_seconds, lifetimes.max_lifetime_seconds)

    def ends_ms(self, created_ms: int) -> int | None:
        """Return when a session that began at `created_ms` reaches its maximum age; None without one."""
        return None if self.max_lifetime_seconds is None else created_ms + self.max_lifetime_seconds * 1000

    def expiry_ms(self, seconds: int, now_ms: int, created_ms: int) -> int:
        """Return the instant `seconds` from now, but not after the session's maximum age."""
        wanted, ends = now_ms + seconds * 1000, self.ends_ms(created_ms)
        return wanted if ends is None else min(wanted, ends)


class CredentialPair(Struct, frozen=True):
    """The two credentials that one sign-in or one rotation issues; expiries in epoch milliseconds."""

    access: Secret
    refresh: Secret
    access_expires_ms: int
    refresh_expires_ms: int


class RotationDecision(Enum):
    """The server's decision about a refresh credential."""

    ROTATE = "start a new generation"
    REPEAT = "return the newest generation once more"
    REUSED = "end the session: a second client holds a copy"
    EXPIRED = "reject: the credential or the session has expired"
    REVOKED = "reject: the session has ended"


class RotationState(Struct, frozen=True):
    """The newest generation of a session; instants in epoch milliseconds."""

    generation: int
    rotated_ms: int
    """When this generation was first delivered; a repeated delivery does not change it."""
    used: bool
    """True once a client has sent one of its credentials: the access token anywhere, or the refresh credential."""
    revoked: bool
    ends_ms: int | None
    """When the session reaches its maximum age; None without one."""

    def rotated(self, now_ms: int) -> "RotationState":
        """Return the next generation, delivered now and not used yet."""
        return replace(self, generation=self.generation + 1, rotated_ms=now_ms, used=False)


def decide(state: RotationState, generation: int, expires_ms: int, now_ms: int, clocks_ms: int = 0) -> RotationDecision:
    """Decide what a credential of `generation` that expires at `expires_ms` gets.

    The machine that has rotated last may have a clock that is `clocks_ms` behind or ahead.

    The order matters: an ended session stays ended. An expired credential gives its holder nothing, so it does not end
    the session of a player whose device was restored from an old backup.
    """
    if state.revoked:
        return RotationDecision.REVOKED
    if now_ms >= expires_ms or (state.ends_ms is not None and now_ms >= state.ends_ms):
        return RotationDecision.EXPIRED
    if generation == state.generation:
        return RotationDecision.ROTATE
    # While the newest generation is unused, its client may never have got it: the answer was lost on the way. Sending
    # the newest or an older one proves that a successor arrived, so only a copy can still send what it replaced.
    shared = not state.used or now_ms - state.rotated_ms <= SHARED_STORE_MS + clocks_ms
    if generation == state.generation - 1 and shared:
        return RotationDecision.REPEAT
    return RotationDecision.REUSED


class Refreshed(Struct, frozen=True):
    """The credentials that a refresh returns, whether they are new or repeated."""

    session_id: str
    pair: CredentialPair


class RefreshRejected(Struct, frozen=True):
    """A rejected refresh credential, with the reason.

    It is a return value: an exception would roll back the end of a session whose credential was reused.
    """

    error: type[SessionError]
    ended: str | None = None
    """The player whose session was ended because of this credential."""
    session_id: str | None = None
    """That session."""


class _ClientWords(Struct, frozen=True):
    """The members of a device's description that name it."""

    name: str | None = None
    device_name: str | None = None


_CLIENT = msgspec.json.Decoder(_ClientWords)
DEVICE_CHARACTERS = 64
"""The most characters of a device's name, as of each member of the description."""


def with_device_name(client: str, name: str) -> str:
    """Return a device's description, which is JSON, with another `device_name`."""
    try:
        members = msgspec.json.decode(client, type=dict[str, object])
    except msgspec.DecodeError:  # a damaged row
        members = {}
    return msgspec.json.encode({**members, "device_name": name}).decode()


class AuthenticatedSession(Struct, frozen=True):
    """The player and session of an access token, as they were when the server validated the token."""

    player_id: str
    session_id: str
    owner: bool
    signed_in_ms: int
    """When this session's sign-in took place."""
    first_use_of: int | None = None
    """The generation that this request is the first to use: mark it as used before the request has an effect.

    None if the generation was used before, or is not the newest one.
    """
    client: str = "{}"
    """The JSON that the device sent about itself."""
    verified: bool = False
    """Whether the person at the browser typed the password, or a provider has proved that it asked them to sign in."""
    recovered: bool = False
    """Whether a recovery code opened the session."""

    @property
    def device(self) -> str | None:
        """Return what the device calls itself, or else its program; None if it sent neither."""
        try:
            words = _CLIENT.decode(self.client)
        except msgspec.DecodeError:  # a damaged row must not prevent a save
            return None
        named = words.device_name or words.name
        return named and named[:DEVICE_CHARACTERS]

    def signed_in_recently(self, now_ms: int) -> bool:
        """Return whether the sign-in is recent enough for what cannot be undone (docs/protocol.md: Accounts).

        One by a recovery code never is: a code opens a session, and proves nothing else. Nor is one of a clock that was
        ahead, which would stay recent until its instant comes.
        """
        return not self.recovered and -CLOCKS_MS <= now_ms - self.signed_in_ms <= RECENT_MS


def generate_pair(random: Random, now_ms: int, policy: SessionPolicy, created_ms: int) -> CredentialPair:
    """Generate both credentials for a session that began at `created_ms`, which is now for a new session."""
    tick = now_ms // TICK_MS % 256**TICK_BYTES
    access = _generate(TokenType.ACCESS_TOKEN, tick, random)
    refresh = _generate(TokenType.REFRESH_CREDENTIAL, tick, random)
    access_expires_ms = policy.expiry_ms(policy.access_seconds, now_ms, created_ms)
    refresh_expires_ms = policy.expiry_ms(policy.refresh_seconds, now_ms, created_ms)
    return CredentialPair(access, refresh, access_expires_ms, refresh_expires_ms)


def renew_access(
    pair: CredentialPair, random: Random, now_ms: int, policy: SessionPolicy, created_ms: int
) -> CredentialPair:
    """Return the pair with a new access token of the same tick, for a session that began at `created_ms`."""
    access = _generate(TokenType.ACCESS_TOKEN, tick_of(pair.refresh), random)
    expires_ms = policy.expiry_ms(policy.access_seconds, now_ms, created_ms)
    return replace(pair, access=access, access_expires_ms=expires_ms)


def _generate(kind: TokenType, tick: int, random: Random) -> Secret:
    return generate_token(kind, tick.to_bytes(TICK_BYTES, "big") + random(ENTROPY_BYTES - TICK_BYTES))


def tick_of(credential: Secret) -> int:
    """Return the tick of a well-formed access token or refresh credential, even if no server issued it."""
    return int.from_bytes(a2b_base64(credential.reveal()[4:8].translate(_STANDARD))[:TICK_BYTES], "big")


def refreshes_of_player(per_minute: int, access_seconds: int) -> RateLimit:
    """Return how often the sessions of one player may refresh together; `per_minute` is the limit of one session.

    A device refreshes 30 seconds before its access token expires; MAX_SESSIONS need three quarters of this rate.
    """
    if per_minute == 0:
        return UNLIMITED
    needed_ms = max(1, access_seconds - 30) * 1000 * 3 // (4 * MAX_SESSIONS)
    return RateLimit(min(PLAYER_REFRESH_MS, needed_ms), max(PLAYER_REFRESHES, 5 * per_minute))


class CredentialIssuer(Component, frozen=True, kw_only=True):
    """The keys, the lifetimes and the random source that credentials are generated, found and sealed with."""

    keys: Keys
    policy: SessionPolicy
    random: Random


def new_session_id(random: Random) -> str:
    return public_id("ses", random(ID_BYTES))


def response_members(pair: CredentialPair, session_id: str, now_ms: int) -> dict[str, object]:
    """Return the members that the responses of collect, refresh and `players token` share.

    Only this function reveals credentials. Write its result into a response and nowhere else.

    See docs/protocol.md: Collect, Sessions.
    """
    access, refresh = pair.access.reveal().decode(), pair.refresh.reveal().decode()
    return {
        "token_type": "Bearer",
        "access_token": access,
        "expires_in": seconds_until(pair.access_expires_ms, now_ms),
        "refresh_credential": refresh,
        "refresh_expires_in": seconds_until(pair.refresh_expires_ms, now_ms),
        "session_id": session_id,
    }


def to_bytes(pair: CredentialPair) -> bytes:
    """Encode a pair as bytes, which must be sealed before they are stored."""
    expiries = pair.access_expires_ms, pair.refresh_expires_ms
    return _LAYOUT.pack(_LAYOUT_NUMBER, *expiries, pair.access.reveal(), pair.refresh.reveal())


def from_bytes(raw: bytes) -> CredentialPair:
    """Decode the result of to_bytes(); raise MalformedPair for other bytes."""
    try:
        number, access_ms, refresh_ms, access, refresh = _LAYOUT.unpack(raw)
        if number != _LAYOUT_NUMBER:
            raise MalformedPair(f"unknown layout {number}")
        tokens = (
            parse_token(TokenType.ACCESS_TOKEN, access.decode()),
            parse_token(TokenType.REFRESH_CREDENTIAL, refresh.decode()),
        )
    except (struct.error, UnicodeDecodeError, MalformedToken):
        raise MalformedPair("not a pair of credentials") from None  # the cause would carry the bytes
    return CredentialPair(*tokens, access_ms, refresh_ms)


class LogoutScope(StrEnum):
    """Which of a player's sessions a logout ends, as seen from the session that requests it."""

    THIS = "this"
    OTHERS = "others"
    ALL = "all"


class SessionInfo(Struct, frozen=True):
    """A session in its player's list; instants in epoch milliseconds.

    `client` is the JSON that the device sent about itself.
    """

    session_id: str
    created_ms: int
    last_used_ms: int
    """The last sign-in or refresh."""
    expires_ms: int
    provider: str
    client: str


def bearer(single: Callable[[str], str | None]) -> str | None:
    """Return the credential of the one Authorization field with the scheme Bearer, not validated, or None.

    `single` returns the value of a field that was sent exactly once. A credential in the query, in a cookie or in the
    content does not count (docs/protocol.md: Conventions; RFC 6750 2.1).
    """
    scheme, _, credential = (single("authorization") or "").partition(" ")
    return credential.strip(" ") or None if scheme.lower() == "bearer" else None


def access_token(single: Callable[[str], str | None]) -> Secret:
    """Return the well-formed access token of a request; raise TokenMissing or TokenInvalid without a database."""
    return parse_access_token(bearer(single))


def parse_access_token(text: str | None) -> Secret:
    """Return the access token; raise TokenMissing for None, and TokenInvalid if it is malformed."""
    if text is None:
        raise TokenMissing
    try:
        return parse_token(TokenType.ACCESS_TOKEN, text)
    except MalformedToken:
        raise TokenInvalid from None


def parse_refresh_credential(text: str) -> Secret:
    """Return the refresh credential; raise RefreshInvalid if it is malformed."""
    try:
        return parse_token(TokenType.REFRESH_CREDENTIAL, text)
    except MalformedToken:
        raise RefreshInvalid from None
