"""The `refresh_credential` table: what a presented credential belongs to, and what it gets (PROTOCOL 3.7)."""

from sqlite3 import Connection

from msgspec import Struct

from gamed.crypto import Purpose, Secret
from gamed.limits import UNLIMITED, Rate
from gamed.sessions.credentials import Issuer, Pair, from_bytes, to_bytes
from gamed.sessions.errors import PlayerBlocked, RefreshExpired, RefreshInvalid, RefreshReused, SessionRevoked
from gamed.sessions.rotation import Answer, Line, Refreshed, Refusal, judge
from gamed.storage.auth import limits, sessions
from gamed.storage.auth.players import State
from gamed.structs import hides

REFUSALS = {
    Answer.REVOKED: Refusal(SessionRevoked),
    Answer.EXPIRED: Refusal(RefreshExpired),
}


@hides("sealed_successor")
class Presented(Struct, frozen=True):
    """A known refresh credential and its session as it stands; instants in epoch milliseconds."""

    session_id: str
    player_id: str
    created_ms: int
    line: Line
    sealed_successor: bytes | None
    """The newest generation's pair, as long as it is kept; opened for a repeated question only."""
    generation: int
    """The credential's own."""
    expires_ms: int
    """The credential's own."""
    state: State
    """Of the player."""

    def answer(self, now_ms: int) -> Answer:
        """The table's answer. A successor is forgotten only when its time is long over, whatever the clock says now."""
        answer = judge(self.line, self.generation, self.expires_ms, now_ms)
        return Answer.REUSED if answer is Answer.REPEAT and self.sealed_successor is None else answer


def present(connection: Connection, issuer: Issuer, credential: Secret) -> Presented | None:
    """Look a well-formed credential up; None when it was never issued, or is forgotten by now."""
    query = """
        SELECT s.session_id, s.player_id, s.created_ms, s.generation, s.rotated_ms, s.used, s.revoked_ms,
               s.sealed_successor, r.generation, r.expires_ms, p.state
        FROM refresh_credential r
        JOIN session s ON s.session_id = r.session_id
        JOIN player p ON p.player_id = s.player_id
        WHERE r.credential_index = :credential_index
    """
    index = sessions.refresh_index(issuer.keys.indexer, credential)
    row = connection.execute(query, {"credential_index": index}).fetchone()
    if row is None:
        return None
    session_id, player_id, created_ms, newest, rotated_ms, used, revoked_ms, sealed, generation, expires_ms, state = row
    revoked = revoked_ms is not None or state == "erasing"
    line = Line(newest, rotated_ms, bool(used), revoked, issuer.policy.ends_ms(created_ms))
    return Presented(session_id, player_id, created_ms, line, sealed, generation, expires_ms, state)


def accept(
    connection: Connection, issuer: Issuer, credential: Secret, now_ms: int
) -> tuple[Presented, Answer] | Refusal:
    """A credential that may still be exchanged, with ROTATE or REPEAT; one that was stolen ends its session."""
    found = present(connection, issuer, credential)
    if found is None:
        return Refusal(RefreshInvalid)
    answer = found.answer(now_ms)
    if answer is Answer.REUSED:
        sessions.revoke(connection, found.session_id, now_ms)
        return Refusal(RefreshReused, found.player_id, found.session_id)
    if answer in REFUSALS:
        return REFUSALS[answer]
    return (found, answer) if found.state == "active" else Refusal(PlayerBlocked)


def refresh(
    connection: Connection, issuer: Issuer, credential: Secret, now_ms: int, rate: Rate = UNLIMITED
) -> Refreshed | Refusal:
    """Look up, judge and write in one unit; only REUSED, ROTATE and a renewed access token change anything.

    RateLimited when the session asks too often. A stolen credential is told apart before that is counted.
    """
    accepted = accept(connection, issuer, credential, now_ms)
    if isinstance(accepted, Refusal):
        return accepted
    found, answer = accepted
    if rate.interval_ms:
        bucket = issuer.keys.indexer.index(Purpose.LIMIT, b"refresh", found.session_id.encode())
        limits.take(connection, {bucket: rate}, now_ms)
    if answer is Answer.ROTATE:
        return _rotate(connection, issuer, found, now_ms)
    return _repeat(connection, issuer, found, now_ms)


def _rotate(connection: Connection, issuer: Issuer, found: Presented, now_ms: int) -> Refreshed:
    """The presented generation is used by this; the next one begins unused and is kept for a repeated question."""
    if found.generation == 1:
        sessions.close_handoff(connection, found.session_id, now_ms)
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
    sessions.insert_pair(connection, issuer.keys.indexer, found.session_id, line.generation, pair)
    return Refreshed(found.session_id, pair)


def _repeat(connection: Connection, issuer: Issuer, found: Presented, now_ms: int) -> Refreshed:
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
    sessions.insert_access(connection, issuer.keys.indexer, found.session_id, found.line.generation, access)
    return Refreshed(found.session_id, pair)


def _sealed(issuer: Issuer, session_id: str, pair: Pair) -> bytes:
    return issuer.keys.sealer.seal(Purpose.SUCCESSOR, session_id, to_bytes(pair))
