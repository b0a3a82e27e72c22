"""These transactions of auth.db exchange a refresh credential, and end sessions at a logout (PROTOCOL 3.7)."""

from sqlite3 import Connection

from msgspec import Struct

from gamed.crypto import Purpose, Secret
from gamed.database import rate_limits
from gamed.players.tables import State
from gamed.rate_limit import UNLIMITED, RateLimit
from gamed.sessions import tables
from gamed.sessions.credentials import CredentialIssuer, LogoutScope, from_bytes, to_bytes
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

REJECTIONS = {
    RotationDecision.REVOKED: RefreshRejected(SessionRevoked),
    RotationDecision.EXPIRED: RefreshRejected(RefreshExpired),
}
Credentials = tuple[Secret | None, Secret | None]
"""An access token and a refresh credential, both well-formed; at least one of them is present."""


def refresh(
    connection: Connection, issuer: CredentialIssuer, credential: Secret, now_ms: int, rate: RateLimit = UNLIMITED
) -> Refreshed | RefreshRejected:
    """Exchange a well-formed refresh credential in one transaction.

    Only REUSED, ROTATE and a renewed access token change rows. Raise RateLimited if the session refreshes too often;
    a reused credential ends its session first, whatever the limit.
    """
    checked = check_credential(connection, issuer, credential, now_ms)
    if isinstance(checked, RefreshRejected):
        return checked
    known, decision = checked
    if rate.interval_ms:
        bucket = issuer.keys.indexer.index(Purpose.LIMIT, b"refresh", known.session_id.encode())
        rate_limits.acquire(connection, {bucket: rate}, now_ms)
    if decision is RotationDecision.ROTATE:
        return _rotate(connection, issuer, known, now_ms)
    return _repeat(connection, issuer, known, now_ms)


def log_out_this(
    connection: Connection, issuer: CredentialIssuer, credentials: Credentials, now_ms: int
) -> frozenset[str]:
    """End the session of each credential, and return the players of the sessions that were ended.

    An expired or exchanged credential is accepted too: a logout must not fail because a token expired meanwhile.
    """
    access, refresh = credentials
    found = set()
    if access is not None:
        found.add(tables.session_of_token(connection, issuer.keys.indexer, access))
    if refresh is not None:
        known = find_credential(connection, issuer, refresh)
        found.add(None if known is None else known.session_id)
    ended = (tables.revoke(connection, session_id, now_ms) for session_id in found if session_id is not None)
    return frozenset(player_id for player_id in ended if player_id is not None)


def log_out_more(
    connection: Connection, issuer: CredentialIssuer, credentials: Credentials, scope: LogoutScope, now_ms: int
) -> frozenset[str] | RefreshRejected:
    """End the player's other sessions, or all of them, and return the player if there were any.

    This needs a valid credential; the access token is checked first.
    """
    authenticated = _authenticate(connection, issuer, credentials, now_ms)
    if isinstance(authenticated, RefreshRejected):
        return authenticated
    player_id, session_id = authenticated
    keep = session_id if scope is LogoutScope.OTHERS else None
    return frozenset([player_id] if tables.revoke_all(connection, player_id, now_ms, keep) else [])


@redacts("sealed_successor")
class KnownCredential(Struct, frozen=True):
    """A refresh credential of this server with the state of its session; instants in epoch milliseconds."""

    session_id: str
    player_id: str
    created_ms: int
    rotation: RotationState
    sealed_successor: bytes | None
    """The pair of the newest generation, as long as it is retained; unsealed only to repeat it."""
    generation: int
    """The generation of this credential."""
    expires_ms: int
    """When this credential expires."""
    player_state: State

    def decide(self, now_ms: int) -> RotationDecision:
        """Decide what this credential gets.

        A successor is deleted only long after its time, so without one a repetition is a reuse, even if the clock was
        set back since.
        """
        decision = decide(self.rotation, self.generation, self.expires_ms, now_ms)
        if decision is RotationDecision.REPEAT and self.sealed_successor is None:
            return RotationDecision.REUSED
        return decision


def check_credential(
    connection: Connection, issuer: CredentialIssuer, credential: Secret, now_ms: int
) -> tuple[KnownCredential, RotationDecision] | RefreshRejected:
    """Return a credential that may be exchanged, with ROTATE or REPEAT; end the session of one that was reused."""
    known = find_credential(connection, issuer, credential)
    if known is None:
        return RefreshRejected(RefreshInvalid)
    decision = known.decide(now_ms)
    if decision is RotationDecision.REUSED:
        tables.revoke(connection, known.session_id, now_ms)
        return RefreshRejected(RefreshReused, known.player_id, known.session_id)
    if decision in REJECTIONS:
        return REJECTIONS[decision]
    return (known, decision) if known.player_state == "active" else RefreshRejected(PlayerBlocked)


def find_credential(connection: Connection, issuer: CredentialIssuer, credential: Secret) -> KnownCredential | None:
    """Find a well-formed credential; return None if it was never issued, or if its row was deleted."""
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
    rotation = RotationState(newest, rotated_ms, bool(used), revoked, issuer.policy.ends_ms(created_ms))
    return KnownCredential(session_id, player_id, created_ms, rotation, sealed, generation, expires_ms, state)


def _rotate(connection: Connection, issuer: CredentialIssuer, known: KnownCredential, now_ms: int) -> Refreshed:
    """Start the next generation, unused, and retain its pair so that a repeated request gets it again."""
    if known.generation == 1:
        tables.close_login(connection, known.session_id, now_ms)
    rotation, pair = known.rotation.rotated(now_ms), issuer.pair(now_ms, known.created_ms)
    query = """
        UPDATE session
        SET generation = :generation, rotated_ms = :rotated_ms, used = :used, sealed_successor = :sealed_successor,
            expires_ms = :expires_ms, last_used_ms = :rotated_ms
        WHERE session_id = :session_id
    """
    values = {
        "generation": rotation.generation,
        "rotated_ms": rotation.rotated_ms,
        "used": rotation.used,
        "sealed_successor": issuer.keys.sealer.seal(Purpose.SUCCESSOR, known.session_id, to_bytes(pair)),
        "expires_ms": pair.refresh_expires_ms,
        "session_id": known.session_id,
    }
    connection.execute(query, values)
    tables.insert_pair(connection, issuer.keys.indexer, known.session_id, rotation.generation, pair)
    return Refreshed(known.session_id, pair)


def _repeat(connection: Connection, issuer: CredentialIssuer, known: KnownCredential, now_ms: int) -> Refreshed:
    """Return the successor once more; replace its access token if that has expired meanwhile."""
    assert known.sealed_successor is not None  # decide() returns REUSED without one
    sealer = issuer.keys.sealer
    pair = from_bytes(sealer.unseal(Purpose.SUCCESSOR, known.session_id, known.sealed_successor))
    if now_ms < pair.access_expires_ms:
        return Refreshed(known.session_id, pair)
    access = issuer.access(now_ms, known.created_ms)
    pair = pair.renewed(access)
    query = """
        UPDATE session SET sealed_successor = :sealed_successor, last_used_ms = :now_ms WHERE session_id = :session_id
    """
    values = {
        "sealed_successor": sealer.seal(Purpose.SUCCESSOR, known.session_id, to_bytes(pair)),
        "now_ms": now_ms,
        "session_id": known.session_id,
    }
    connection.execute(query, values)
    tables.insert_access(connection, issuer.keys.indexer, known.session_id, known.rotation.generation, access)
    return Refreshed(known.session_id, pair)


def _authenticate(
    connection: Connection, issuer: CredentialIssuer, credentials: Credentials, now_ms: int
) -> tuple[str, str] | RefreshRejected:
    """Return player and session of the first valid credential, marked as used, or why the last one is not valid."""
    access, refresh = credentials
    rejected = RefreshRejected(TokenInvalid)
    if access is not None:
        try:
            caller = tables.authenticate(connection, issuer.keys.indexer, access, now_ms)
        except SessionError as e:
            rejected = RefreshRejected(type(e))
        else:
            if caller.first_use_of is not None:
                tables.mark_used(connection, caller.session_id, caller.first_use_of, now_ms)
            return caller.player_id, caller.session_id
    if refresh is None:
        return rejected
    checked = check_credential(connection, issuer, refresh, now_ms)
    if isinstance(checked, RefreshRejected):
        return checked
    known, _ = checked
    tables.mark_used(connection, known.session_id, known.generation, now_ms)
    return known.player_id, known.session_id
