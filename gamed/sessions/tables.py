"""The `session` and `access_token` tables: opened, asked at every request, ended (PROTOCOL 3.7).

A session outlives its tokens; each rotation is one more `generation` of it. `used` belongs to the newest one.
"""

from collections.abc import Iterable
from contextlib import suppress
from sqlite3 import Connection

from gamed.crypto import Index, Indexer, Keys, Purpose, Secret
from gamed.players.tables import State
from gamed.sessions.credentials import AccessToken, AuthenticatedSession, CredentialPair, SessionInfo
from gamed.sessions.errors import PlayerBlocked, SessionRevoked, TokenExpired, TokenInvalid


def open_session(
    connection: Connection,
    keys: Keys,
    *,
    session_id: str,
    player_id: str,
    provider: str,
    client: str,
    login_id: str | None,
    pair: CredentialPair,
    now_ms: int,
) -> None:
    """Generation 1 with its pair. `client` is JSON; `login_id` the handoff that made it, None when a command did."""
    query = """
        INSERT INTO session (session_id, player_id, login_id, provider, client, created_ms, last_used_ms,
                             generation, rotated_ms, used, expires_ms)
        VALUES (:session_id, :player_id, :login_id, :provider, :client, :now_ms, :now_ms, 1, :now_ms, 0, :expires_ms)
    """
    values = {
        "session_id": session_id,
        "player_id": player_id,
        "login_id": login_id,
        "provider": provider,
        "client": client,
        "now_ms": now_ms,
        "expires_ms": pair.refresh_expires_ms,
    }
    connection.execute(query, values)
    insert_pair(connection, keys.indexer, session_id, 1, pair)


def insert_pair(
    connection: Connection, indexer: Indexer, session_id: str, generation: int, pair: CredentialPair
) -> None:
    """Both credentials of a new generation become known; the session's own row is the caller's business."""
    insert_access(connection, indexer, session_id, generation, AccessToken(pair.access, pair.access_expires_ms))
    query = """
        INSERT INTO refresh_credential (credential_index, session_id, generation, expires_ms)
        VALUES (:credential_index, :session_id, :generation, :expires_ms)
    """
    values = {
        "credential_index": refresh_index(indexer, pair.refresh),
        "session_id": session_id,
        "generation": generation,
        "expires_ms": pair.refresh_expires_ms,
    }
    connection.execute(query, values)


def insert_access(
    connection: Connection, indexer: Indexer, session_id: str, generation: int, access: AccessToken
) -> None:
    """One more access token of a generation; the earlier ones live on."""
    query = """
        INSERT INTO access_token (token_index, session_id, generation, expires_ms)
        VALUES (:token_index, :session_id, :generation, :expires_ms)
    """
    values = {
        "token_index": access_index(indexer, access.token),
        "session_id": session_id,
        "generation": generation,
        "expires_ms": access.expires_ms,
    }
    connection.execute(query, values)


def access_index(indexer: Indexer, token: Secret) -> Index:
    return indexer.index(Purpose.ACCESS_TOKEN, token.reveal())


def refresh_index(indexer: Indexer, credential: Secret) -> Index:
    return indexer.index(Purpose.REFRESH_CREDENTIAL, credential.reveal())


_CALLER = """
    SELECT t.expires_ms, t.generation, s.session_id, s.player_id, s.created_ms, s.generation, s.used, s.revoked_ms,
           p.state, p.owner
    FROM access_token t JOIN session s ON s.session_id = t.session_id JOIN player p ON p.player_id = s.player_id
    WHERE t.token_index = ?
"""


def authenticate(connection: Connection, indexer: Indexer, token: Secret, now_ms: int) -> AuthenticatedSession:
    """Whom a well-formed access token speaks for; reads only, so it may ride the read lane with other queries.

    Raises TokenInvalid, SessionRevoked, TokenExpired or PlayerBlocked, the first that holds in this order.
    When `Caller.unused` is set, mark_used() must be committed before the request has any effect.
    """
    row = connection.execute(_CALLER, (access_index(indexer, token),)).fetchone()
    if row is None:
        raise TokenInvalid
    expires_ms, generation, session_id, player_id, created_ms, newest, used, revoked_ms, state, owner = row
    if revoked_ms is not None or state == "erasing":
        raise SessionRevoked
    if now_ms >= expires_ms:
        raise TokenExpired
    require_active(state)
    unused = generation if generation == newest and not used else None
    return AuthenticatedSession(player_id, session_id, bool(owner), created_ms, unused)


def require_active(state: State) -> None:
    """A player who is blocked, or not approved yet, is told so."""
    if state != "active":
        raise PlayerBlocked


def session_of_token(connection: Connection, indexer: Indexer, token: Secret) -> str | None:
    """The session of an access token, dead or alive: enough to end it, never to use it."""
    query = "SELECT session_id FROM access_token WHERE token_index = :token_index"
    row = connection.execute(query, {"token_index": access_index(indexer, token)}).fetchone()
    return None if row is None else row[0]


def living_player(connection: Connection, session_id: str, now_ms: int) -> str | None:
    """Whose session this is, if it has neither ended nor expired, and its player is not being erased."""
    query = """
        SELECT s.player_id FROM session s JOIN player p ON p.player_id = s.player_id
        WHERE s.session_id = :session_id AND s.revoked_ms IS NULL AND s.expires_ms > :now_ms AND p.state <> 'erasing'
    """
    row = connection.execute(query, {"session_id": session_id, "now_ms": now_ms}).fetchone()
    return None if row is None else str(row[0])


def mark_used(connection: Connection, session_id: str, generation: int, now_ms: int) -> None:
    """The newest generation was presented: once per rotation, nothing when it was marked or has been rotated away.

    The first use of generation 1 also ends its handoff: `delivered` becomes `collected` (PROTOCOL 3.5). SessionRevoked
    for a session that ended since its token was read: a use that is not on disk has no effect.
    """
    query = """
        UPDATE session SET used = 1
        WHERE session_id = :session_id AND generation = :generation AND used = 0
    """
    ended = "SELECT 1 FROM session WHERE session_id = :session_id AND revoked_ms IS NOT NULL"
    if connection.execute(ended, {"session_id": session_id}).fetchone():
        raise SessionRevoked
    marked = connection.execute(query, {"session_id": session_id, "generation": generation}).rowcount == 1
    if marked and generation == 1:
        close_handoff(connection, session_id, now_ms)


def mark_all_used(connection: Connection, uses: Iterable[tuple[str, int]], now_ms: int) -> None:
    """Mark many generations, by session; those of sessions that have ended are left out."""
    for session_id, generation in uses:
        with suppress(SessionRevoked):
            mark_used(connection, session_id, generation, now_ms)


_CLOSE = """
    UPDATE login
    SET stage = 'collected', stage_ms = :now_ms, sealed_result = NULL, sealed_proof = NULL, sealed_identity = NULL
    WHERE stage = 'delivered' AND session_id
"""
"""The login that made a session has nothing left to hand out; what it kept sealed is erased."""


def close_handoff(connection: Connection, session_id: str, now_ms: int) -> None:
    """`delivered` becomes `collected` (PROTOCOL 3.5)."""
    connection.execute(f"{_CLOSE} = :session_id", {"session_id": session_id, "now_ms": now_ms})


def revoke(connection: Connection, session_id: str, now_ms: int) -> str | None:
    """End one session for good; the player whose session it was, None when it had ended before or never was."""
    query = """
        UPDATE session SET revoked_ms = :now_ms, sealed_successor = NULL
        WHERE session_id = :session_id AND revoked_ms IS NULL
        RETURNING player_id
    """
    rows = connection.execute(query, {"session_id": session_id, "now_ms": now_ms}).fetchall()
    if not rows:
        return None
    close_handoff(connection, session_id, now_ms)
    return str(rows[0][0])


def revoke_all(connection: Connection, player_id: str, now_ms: int, keep: str | None = None) -> int:
    """End every session of a player but `keep`; how many there were, and there may be very many."""
    living = "player_id = :player_id AND revoked_ms IS NULL AND session_id IS NOT :keep"
    values = {"player_id": player_id, "keep": keep, "now_ms": now_ms}
    # only a session that was never used can have a handoff that is still delivered
    unused = f"SELECT session_id FROM session WHERE {living} AND generation = 1 AND used = 0"
    connection.execute(f"{_CLOSE} IN ({unused})", values)
    query = f"UPDATE session SET revoked_ms = :now_ms, sealed_successor = NULL WHERE {living}"
    return connection.execute(query, values).rowcount


def revoke_own(connection: Connection, player_id: str, session_id: str, now_ms: int) -> bool | None:
    """Whether a session of this player ended by it, and not before; None if it is not this player's."""
    query = "SELECT 1 FROM session WHERE session_id = :session_id AND player_id = :player_id"
    if connection.execute(query, {"session_id": session_id, "player_id": player_id}).fetchone() is None:
        return None
    return revoke(connection, session_id, now_ms) is not None


def list_sessions(connection: Connection, player_id: str, now_ms: int) -> list[SessionInfo]:
    """A player's sessions that are neither revoked nor expired, last used first."""
    query = """
        SELECT session_id, created_ms, last_used_ms, expires_ms, provider, client FROM session
        WHERE player_id = :player_id AND revoked_ms IS NULL AND expires_ms > :now_ms
        ORDER BY last_used_ms DESC, session_id
    """
    return [SessionInfo(*row) for row in connection.execute(query, {"player_id": player_id, "now_ms": now_ms})]
