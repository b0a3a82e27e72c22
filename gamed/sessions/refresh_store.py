"""The `refresh_credential` table: what a presented credential belongs to, and what it gets (PROTOCOL 3.7).

Ending sessions at a player's own wish (PROTOCOL 3.7 logout); each function is one unit.
"""

from sqlite3 import Connection

from msgspec import Struct

from gamed.crypto import Purpose, Secret
from gamed.database import rate_limits
from gamed.players.tables import State
from gamed.rate_limit import UNLIMITED, RateLimit
from gamed.sessions import tables
from gamed.sessions.credentials import CredentialIssuer, CredentialPair, LogoutScope, from_bytes, to_bytes
from gamed.sessions.errors import (
    PlayerBlocked,
    RefreshExpired,
    RefreshInvalid,
    RefreshReused,
    SessionError,
    SessionRevoked,
    TokenInvalid,
)
from gamed.sessions.rotation import Refreshed, RefreshRejected, RotationDecision, RotationState, decide
from gamed.structs import redacts

REFUSALS = {
    RotationDecision.REVOKED: RefreshRejected(SessionRevoked),
    RotationDecision.EXPIRED: RefreshRejected(RefreshExpired),
}


@redacts("sealed_successor")
class KnownCredential(Struct, frozen=True):
    """A known refresh credential and its session as it stands; instants in epoch milliseconds."""

    session_id: str
    player_id: str
    created_ms: int
    line: RotationState
    sealed_successor: bytes | None
    """The newest generation's pair, as long as it is kept; opened for a repeated question only."""
    generation: int
    """The credential's own."""
    expires_ms: int
    """The credential's own."""
    state: State
    """Of the player."""

    def answer(self, now_ms: int) -> RotationDecision:
        """The table's answer. A successor is forgotten only when its time is long over, whatever the clock says now."""
        answer = decide(self.line, self.generation, self.expires_ms, now_ms)
        return (
            RotationDecision.REUSED if answer is RotationDecision.REPEAT and self.sealed_successor is None else answer
        )


def find_credential(connection: Connection, issuer: CredentialIssuer, credential: Secret) -> KnownCredential | None:
    """Look a well-formed credential up; None when it was never issued, or is forgotten by now."""
    query = """
        SELECT s.session_id, s.player_id, s.created_ms, s.generation, s.rotated_ms, s.used, s.revoked_ms,
               s.sealed_successor, r.generation, r.expires_ms, p.state
        FROM refresh_credential r
        JOIN session s ON s.session_id = r.session_id
        JOIN player p ON p.player_id = s.player_id
        WHERE r.credential_index = :credential_index
    """
    index = tables.refresh_index(issuer.keys.indexer, credential)
    row = connection.execute(query, {"credential_index": index}).fetchone()
    if row is None:
        return None
    session_id, player_id, created_ms, newest, rotated_ms, used, revoked_ms, sealed, generation, expires_ms, state = row
    revoked = revoked_ms is not None or state == "erasing"
    line = RotationState(newest, rotated_ms, bool(used), revoked, issuer.policy.ends_ms(created_ms))
    return KnownCredential(session_id, player_id, created_ms, line, sealed, generation, expires_ms, state)


def check_credential(
    connection: Connection, issuer: CredentialIssuer, credential: Secret, now_ms: int
) -> tuple[KnownCredential, RotationDecision] | RefreshRejected:
    """A credential that may still be exchanged, with ROTATE or REPEAT; one that was stolen ends its session."""
    found = find_credential(connection, issuer, credential)
    if found is None:
        return RefreshRejected(RefreshInvalid)
    answer = found.answer(now_ms)
    if answer is RotationDecision.REUSED:
        tables.revoke(connection, found.session_id, now_ms)
        return RefreshRejected(RefreshReused, found.player_id, found.session_id)
    if answer in REFUSALS:
        return REFUSALS[answer]
    return (found, answer) if found.state == "active" else RefreshRejected(PlayerBlocked)


def refresh(
    connection: Connection, issuer: CredentialIssuer, credential: Secret, now_ms: int, rate: RateLimit = UNLIMITED
) -> Refreshed | RefreshRejected:
    """Look up, judge and write in one unit; only REUSED, ROTATE and a renewed access token change anything.

    RateLimited when the session asks too often. A stolen credential is told apart before that is counted.
    """
    accepted = check_credential(connection, issuer, credential, now_ms)
    if isinstance(accepted, RefreshRejected):
        return accepted
    found, answer = accepted
    if rate.interval_ms:
        bucket = issuer.keys.indexer.index(Purpose.LIMIT, b"refresh", found.session_id.encode())
        rate_limits.acquire(connection, {bucket: rate}, now_ms)
    if answer is RotationDecision.ROTATE:
        return _rotate(connection, issuer, found, now_ms)
    return _repeat(connection, issuer, found, now_ms)


def _rotate(connection: Connection, issuer: CredentialIssuer, found: KnownCredential, now_ms: int) -> Refreshed:
    """The presented generation is used by this; the next one begins unused and is kept for a repeated question."""
    if found.generation == 1:
        tables.close_handoff(connection, found.session_id, now_ms)
    line, pair = found.line.rotated(now_ms), issuer.pair(now_ms, found.created_ms)
    query = """
        UPDATE session
        SET generation = :generation, rotated_ms = :rotated_ms, used = :used, sealed_successor = :sealed_successor,
            expires_ms = :expires_ms, last_used_ms = :rotated_ms
        WHERE session_id = :session_id
    """
    values = {
        "generation": line.generation,
        "rotated_ms": line.rotated_ms,
        "used": line.used,
        "sealed_successor": _sealed(issuer, found.session_id, pair),
        "expires_ms": pair.refresh_expires_ms,
        "session_id": found.session_id,
    }
    connection.execute(query, values)
    tables.insert_pair(connection, issuer.keys.indexer, found.session_id, line.generation, pair)
    return Refreshed(found.session_id, pair)


def _repeat(connection: Connection, issuer: CredentialIssuer, found: KnownCredential, now_ms: int) -> Refreshed:
    """The successor as it was handed out; when its access token died meanwhile, with a fresh one."""
    assert found.sealed_successor is not None  # answer() saw to it
    pair = from_bytes(issuer.keys.sealer.unseal(Purpose.SUCCESSOR, found.session_id, found.sealed_successor))
    if now_ms < pair.access_expires_ms:
        return Refreshed(found.session_id, pair)
    access = issuer.access(now_ms, found.created_ms)
    pair = pair.renewed(access)
    query = """
        UPDATE session SET sealed_successor = :sealed_successor, last_used_ms = :now_ms WHERE session_id = :session_id
    """
    values = {
        "sealed_successor": _sealed(issuer, found.session_id, pair),
        "now_ms": now_ms,
        "session_id": found.session_id,
    }
    connection.execute(query, values)
    tables.insert_access(connection, issuer.keys.indexer, found.session_id, found.line.generation, access)
    return Refreshed(found.session_id, pair)


def _sealed(issuer: CredentialIssuer, session_id: str, pair: CredentialPair) -> bytes:
    return issuer.keys.sealer.seal(Purpose.SUCCESSOR, session_id, to_bytes(pair))


Credentials = tuple[Secret | None, Secret | None]
"""An access token and a refresh credential, both well-formed; at least one."""


def log_out_this(
    connection: Connection, issuer: CredentialIssuer, credentials: Credentials, now_ms: int
) -> frozenset[str]:
    """End the session of each credential, be the credential live, expired or exchanged; whose sessions these were.

    Who holds a credential may always give it back: a sign-out must not fail because the token ran out meanwhile.
    """
    access, refresh = credentials
    found = set()
    if access is not None:
        found.add(tables.session_of_token(connection, issuer.keys.indexer, access))
    if refresh is not None:
        presented = find_credential(connection, issuer, refresh)
        found.add(None if presented is None else presented.session_id)
    ended = (tables.revoke(connection, session_id, now_ms) for session_id in found if session_id is not None)
    return frozenset(player_id for player_id in ended if player_id is not None)


def log_out_more(
    connection: Connection, issuer: CredentialIssuer, credentials: Credentials, scope: LogoutScope, now_ms: int
) -> frozenset[str] | RefreshRejected:
    """End the player's other sessions, or all; only for a live credential, and the access token is asked first."""
    judged = _live(connection, issuer, credentials, now_ms)
    if isinstance(judged, RefreshRejected):
        return judged
    player_id, session_id = judged
    keep = session_id if scope is LogoutScope.OTHERS else None
    return frozenset([player_id] if tables.revoke_all(connection, player_id, now_ms, keep) else [])


def _live(
    connection: Connection, issuer: CredentialIssuer, credentials: Credentials, now_ms: int
) -> tuple[str, str] | RefreshRejected:
    """Player and session of the first credential that is live, marked used; else why the last one asked is not."""
    access, refresh = credentials
    refusal = RefreshRejected(TokenInvalid)
    if access is not None:
        try:
            caller = tables.authenticate(connection, issuer.keys.indexer, access, now_ms)
        except SessionError as e:
            refusal = RefreshRejected(type(e))
        else:
            if caller.unused is not None:
                tables.mark_used(connection, caller.session_id, caller.unused, now_ms)
            return caller.player_id, caller.session_id
    if refresh is None:
        return refusal
    accepted = check_credential(connection, issuer, refresh, now_ms)
    if isinstance(accepted, RefreshRejected):
        return accepted
    found, _ = accepted
    tables.mark_used(connection, found.session_id, found.generation, now_ms)
    return found.player_id, found.session_id
