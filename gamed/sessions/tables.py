"""The SQL of the tables `session` and `credential` (docs/protocol.md: Sessions).

A session outlives its tokens; each rotation is one more `generation` of it. The column `used` describes the newest one.
"""

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress

from gamed.crypto import Index, Indexer, Keys, Purpose, Secret
from gamed.database.connection import Connection, is_storable, rows_in
from gamed.sessions import browser_tables
from gamed.sessions.browser_rules import is_browser_session, is_browser_token
from gamed.sessions.credentials import (
    MAX_SESSIONS,
    RECOVERY_CODE,
    AuthenticatedSession,
    CredentialPair,
    SessionInfo,
    tick_of,
    with_device_name,
)
from gamed.sessions.errors import PlayerBlocked, SessionRevoked, TokenExpired, TokenInvalid
from gamed.sessions.recent import AccessKey

DAY_MS = 24 * 3600 * 1000
LOGINS = "logins"
"""The key of all logins (gamed.database.engine), because their limits count them together."""


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
    passkey_id: str | None = None,
) -> Sequence[str]:
    """Insert a session with its first pair; return the sessions that ended because the player had MAX_SESSIONS.

    `client` is JSON; `login_id` is the login that made the session, or None if a command did; `passkey_id` is the
    passkey that signed in, if one did.
    """
    ended = _make_room(connection, player_id, now_ms)  # before the insert: the new one is not the least used of 100
    query = """
        INSERT INTO session (session_id, player_id, login_id, provider, client, created_ms, last_used_ms,
                             generation, rotated_ms, used, expires_ms, expiry_day, tick, passkey_id)
        VALUES (:session_id, :player_id, :login_id, :provider, :client, :now_ms, :now_ms,
                1, :now_ms, 0, :expires_ms, :expires_ms / :day_ms, :tick, :passkey_id)
    """
    values = {
        "session_id": session_id,
        "player_id": player_id,
        "login_id": login_id,
        "provider": provider,
        "client": client,
        "now_ms": now_ms,
        "expires_ms": pair.refresh_expires_ms,
        "day_ms": DAY_MS,
        "tick": tick_of(pair.refresh),
        "passkey_id": passkey_id,
    }
    connection.execute(query, values)
    insert_pair(connection, keys.indexer, session_id, 1, pair)
    return ended


ENDED_SESSIONS = 100
"""A player's sessions that ended last, of which a sign-in keeps the rows: so there are always few rows to read."""
PRUNED_CREDENTIALS = 200
"""How many credentials of older ones a sign-in deletes, for each session that is too many; a session of a month has
thousands."""
MOST_PRUNED = 1000
"""How many of them and of their sessions it deletes at most: on PostgreSQL each two are one statement."""


def _make_room(connection: Connection, player_id: str, now_ms: int) -> Sequence[str]:
    """End the least recently used sessions of a player until one more may begin; return them.

    Of those that ended before, delete all but the last ones: their credentials then are unknown.
    """
    query = """
        SELECT session_id, generation, tick, last_used_ms, revoked_ms, expires_ms FROM session
        WHERE player_id = :player_id
    """
    living, ended = [], []
    for *session, used_ms, revoked_ms, expires_ms in connection.execute(query, {"player_id": player_id}).fetchall():
        if revoked_ms is None and expires_ms > now_ms:
            living.append((used_ms, session[0]))
        else:
            ended.append((expires_ms if revoked_ms is None else revoked_ms, session))
    least_used = [session_id for _, session_id in sorted(living)[: max(0, len(living) + 1 - MAX_SESSIONS)]]
    for session_id in least_used:
        revoke(connection, session_id, now_ms)
    too_many = max(0, len(ended) + len(least_used) - ENDED_SESSIONS)
    # In proportion: with a fixed number, sessions that have more credentials than that would pile up.
    left = min(PRUNED_CREDENTIALS * too_many, MOST_PRUNED)
    for _, (session_id, generation, tick) in sorted(ended)[:too_many]:
        left -= 1 + _delete_credentials_of(connection, (session_id, generation, tick), left)
        if left <= 0:
            break
        connection.execute("DELETE FROM login WHERE session_id = :session_id", {"session_id": session_id})
        connection.execute("DELETE FROM session WHERE session_id = :session_id", {"session_id": session_id})
    return least_used


_INSERT_CREDENTIAL = """
    INSERT INTO credential (
        tick, credential_index, refreshes, session_id, generation, previous_tick, expires_ms
    ) VALUES (?, ?, ?, ?, ?, ?, ?)
"""


def insert_pair(
    connection: Connection,
    indexer: Indexer,
    session_id: str,
    generation: int,
    pair: CredentialPair,
    *,
    previous_tick: int | None = None,
) -> None:
    """Insert both credentials of a new generation, of which the one before has `previous_tick`.

    The caller updates the row of the session.
    """
    insert_access(connection, indexer, session_id, generation, pair)
    key, expires_ms = refresh_key(indexer, pair.refresh), pair.refresh_expires_ms
    connection.execute(_INSERT_CREDENTIAL, (*key, 1, session_id, generation, previous_tick, expires_ms))


def insert_access(
    connection: Connection, indexer: Indexer, session_id: str, generation: int, pair: CredentialPair
) -> None:
    """Insert the access token of a pair for a generation; earlier ones stay valid."""
    key, expires_ms = access_key(indexer, pair.access), pair.access_expires_ms
    connection.execute(_INSERT_CREDENTIAL, (*key, 0, session_id, generation, None, expires_ms))


def access_key(indexer: Indexer, token: Secret) -> AccessKey:
    """Return the tick and the index with which `credential` has an access token."""
    return tick_of(token), indexer.index(Purpose.ACCESS_TOKEN, token.reveal())


def refresh_key(indexer: Indexer, credential: Secret) -> tuple[int, Index]:
    """Return the tick and the index with which `credential` has a refresh credential."""
    return tick_of(credential), indexer.index(Purpose.REFRESH_CREDENTIAL, credential.reveal())


def delete_credentials(connection: Connection, player_id: str, limit: int) -> int:
    """Delete about `limit` credentials of a player's sessions, which have ended; return how many were deleted.

    Once this returns less than `limit`, none are left.
    """
    query = "SELECT session_id, generation, tick FROM session WHERE player_id = :player_id LIMIT :limit"
    deleted = 0
    for session in connection.execute(query, {"player_id": player_id, "limit": limit}).fetchall():
        if deleted < limit:
            deleted += _delete_credentials_of(connection, session, limit - deleted)
    return deleted


def _delete_credentials_of(connection: Connection, session: tuple[str, int, int | None], limit: int) -> int:
    """Delete the credentials of one session, newest generation first; its row keeps the progress."""
    session_id, generation, tick = session
    delete = "DELETE FROM credential WHERE tick = ? AND session_id = ? AND generation = ? RETURNING previous_tick"
    deleted = 0
    while tick is not None and deleted < limit:
        rows = connection.execute(delete, (tick, session_id, generation)).fetchall()
        deleted, generation = deleted + len(rows), generation - 1
        tick = next((previous for (previous,) in rows if previous is not None), None)
    if deleted:
        progress = "UPDATE session SET generation = ?, tick = ? WHERE session_id = ?"
        connection.execute(progress, (0 if tick is None else generation, tick or 0, session_id))
    return deleted


_SESSION_OF_TOKEN = """
    SELECT t.expires_ms, t.generation, s.session_id, s.player_id, s.created_ms, s.generation, s.used, s.revoked_ms,
           p.state, p.owner, s.client, s.provider
    FROM credential t JOIN session s ON s.session_id = t.session_id JOIN player p ON p.player_id = s.player_id
    WHERE t.tick = ? AND t.credential_index = ?
"""


def authenticate(connection: Connection, indexer: Indexer, token: Secret, now_ms: int) -> AuthenticatedSession:
    """Return the session of a well-formed access token; this only reads, so it may run in the read queue.

    The token of a browser session works, too. No client can send one as an access token, because it has another form.
    Raise TokenInvalid, SessionRevoked, TokenExpired or PlayerBlocked, the first that applies in this order. If
    `first_use_of` is set, mark_used() must be committed before the request has an effect.
    """
    if is_browser_token(token):
        return browser_tables.authenticate_browser(connection, indexer, token, now_ms)
    return authenticate_key(connection, access_key(indexer, token), now_ms)


def authenticate_key(connection: Connection, key: AccessKey, now_ms: int) -> AuthenticatedSession:
    """Return the session of the access token with this key, as authenticate() does."""
    row = connection.execute(_SESSION_OF_TOKEN, key).fetchone()
    if row is None:
        raise TokenInvalid
    expires_ms, generation, session_id, player_id, created_ms, newest, used, revoked_ms, state, owner, *others = row
    client, provider = others
    if revoked_ms is not None or state == "erasing":
        raise SessionRevoked
    if now_ms >= expires_ms:
        raise TokenExpired
    if state != "active":
        raise PlayerBlocked
    first_use_of = generation if generation == newest and not used else None
    recovered = provider == RECOVERY_CODE
    return AuthenticatedSession(
        player_id, session_id, bool(owner), created_ms, first_use_of, client, recovered=recovered
    )


def find_token(connection: Connection, indexer: Indexer, token: Secret) -> tuple[str, str] | None:
    """Return session and player of an access token, even of an expired one: enough to end the session, not to use it.

    Return None for an unknown token.
    """
    query = """
        SELECT s.session_id, s.player_id FROM credential t JOIN session s ON s.session_id = t.session_id
        WHERE t.tick = ? AND t.credential_index = ?
    """
    row: tuple[str, str] | None = connection.execute(query, access_key(indexer, token)).fetchone()
    return row


def living_player(connection: Connection, session_id: str, now_ms: int) -> str | None:
    """Return the player of a session that has neither ended nor expired, unless the player is being erased.

    This may be a browser session.
    """
    if is_browser_session(session_id):
        return browser_tables.player_of_browser(connection, session_id, now_ms)
    query = """
        SELECT s.player_id FROM session s JOIN player p ON p.player_id = s.player_id
        WHERE s.session_id = :session_id AND s.revoked_ms IS NULL AND s.expires_ms > :now_ms AND p.state <> 'erasing'
    """
    row = connection.execute(query, {"session_id": session_id, "now_ms": now_ms}).fetchone()
    return None if row is None else str(row[0])


def living_sessions(connection: Connection, session_ids: Sequence[str]) -> set[str]:
    """Return those of these sessions that have not ended and whose players may use them."""
    query = """
        SELECT s.session_id FROM session s JOIN player p ON p.player_id = s.player_id
        WHERE s.revoked_ms IS NULL AND p.state = 'active' AND s.session_id IN
    """
    return {session_id for (session_id,) in rows_in(connection, query, session_ids)}


def mark_used(connection: Connection, session_id: str, generation: int, now_ms: int) -> None:
    """Mark the newest generation as used; change nothing if it is marked already, or if another one is the newest.

    The first use of generation 1 also ends its login: `delivered` becomes `collected` (docs/protocol.md: Collect).
    Raise SessionRevoked if the session ended since its token was read: a use that is not on disk must not have an
    effect.
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
        close_login(connection, session_id, now_ms)


def mark_all_used(connection: Connection, uses: Iterable[tuple[str, int]], now_ms: int) -> None:
    """Mark one generation of each of these sessions as used; skip sessions that have ended."""
    # One transaction for all of them; a session that ended meanwhile must not keep the others from being written.
    for session_id, generation in uses:
        with suppress(SessionRevoked):
            mark_used(connection, session_id, generation, now_ms)


_CLOSE = """
    UPDATE login
    SET stage = 'collected', stage_ms = :now_ms, sealed_result = NULL, sealed_proof = NULL, sealed_identity = NULL,
        return_uri = NULL
    WHERE stage = 'delivered' AND session_id
"""
"""Marks the login that made a session as collected, and erases its sealed values and the address of the app."""


def close_login(connection: Connection, session_id: str, now_ms: int) -> None:
    """Change the login of a session from `delivered` to `collected` (docs/protocol.md: Collect)."""
    connection.execute(f"{_CLOSE} = :session_id", {"session_id": session_id, "now_ms": now_ms})


END_SESSIONS = "UPDATE session SET revoked_ms = :now_ms, sealed_successor = NULL, client = '{}'"
"""Ends sessions. The row stays for weeks, to answer `session_revoked`; the device, often a person's name, does not."""


def revoke(connection: Connection, session_id: str, now_ms: int) -> str | None:
    """End one session; return its player, or None if it had ended before or does not exist."""
    query = f"""
        {END_SESSIONS} WHERE session_id = :session_id AND revoked_ms IS NULL
        RETURNING player_id
    """
    rows = connection.execute(query, {"session_id": session_id, "now_ms": now_ms}).fetchall()
    if not rows:
        return None
    close_login(connection, session_id, now_ms)
    return str(rows[0][0])


def revoke_all(connection: Connection, player_id: str, now_ms: int, keep: str | None = None) -> int:
    """End every session of a player but `keep`, with a fixed number of statements; return how many there were.

    Browser sessions end, too.
    """
    living = "player_id = :player_id AND revoked_ms IS NULL AND session_id IS DISTINCT FROM :keep"
    values = {"player_id": player_id, "keep": keep, "now_ms": now_ms}
    # only a session that was never used can have a login that is still `delivered`
    unused = f"SELECT session_id FROM session WHERE {living} AND generation = 1 AND used = 0"
    connection.execute(f"{_CLOSE} IN ({unused})", values)
    ended = connection.execute(f"{END_SESSIONS} WHERE {living}", values).rowcount
    return ended + browser_tables.end_browsers_of(connection, player_id, keep)


def read_ended_devices(connection: Connection, after: str, rows: int) -> tuple[Sequence[str], str]:
    """Return which of the `rows` sessions that follow `after` have ended with a device, and the last one examined.

    That is "" once no session follows.
    """
    query = """
        SELECT session_id, revoked_ms IS NOT NULL AND client <> '{}' FROM session
        WHERE session_id > :after ORDER BY session_id LIMIT :rows
    """
    found = connection.rows(query, {"after": after, "rows": rows})
    return [session_id for session_id, ended in found if ended], str(found[-1][0]) if len(found) == rows else ""


def erase_ended_devices(connection: Connection, first: str, last: str) -> int:
    """Erase the devices of the ended sessions from `first` to `last`; return how many had one."""
    query = """
        UPDATE session SET client = '{}'
        WHERE session_id >= :first AND session_id <= :last AND revoked_ms IS NOT NULL AND client <> '{}'
    """
    return connection.execute(query, {"first": first, "last": last}).rowcount


def sessions_not_of(connection: Connection, player_id: str, providers: Collection[str]) -> Sequence[str]:
    """Return the sessions, and browser sessions, that a sign-in at none of these providers opened.

    Those that a command opened are left out: no sign-in did. So are those of a passkey, which end with it.
    """
    query = """
        SELECT session_id, provider FROM session
        WHERE player_id = :player_id AND revoked_ms IS NULL AND login_id IS NOT NULL AND passkey_id IS NULL
        UNION ALL
        SELECT session_id, provider FROM browser_session WHERE player_id = :player_id AND passkey_id IS NULL
    """
    rows = connection.execute(query, {"player_id": player_id}).fetchall()
    return [session_id for session_id, provider in rows if provider not in providers]


def revoke_any(connection: Connection, session_id: str, now_ms: int) -> None:
    """End one session, which may be a browser session."""
    if is_browser_session(session_id):
        browser_tables.end_browser_session(connection, session_id)
    else:
        revoke(connection, session_id, now_ms)


def delete_logins(connection: Connection, player_id: str) -> None:
    """Delete the logins that made sessions of a player, that these requested, or that await the player's approval."""
    query = """
        DELETE FROM login
        WHERE session_id IN (SELECT session_id FROM session WHERE player_id = :player_id)
           OR requesting_session_id IN (SELECT session_id FROM session WHERE player_id = :player_id)
           OR requesting_session_id IN (SELECT session_id FROM browser_session WHERE player_id = :player_id)
           OR approval_code IN (SELECT approval_code FROM player WHERE player_id = :player_id)
           OR login_id IN (SELECT login_id FROM authorization_attempt WHERE player_id = :player_id)
    """
    connection.execute(query, {"player_id": player_id})


def revoke_own(connection: Connection, player_id: str, session_id: str, now_ms: int) -> bool | None:
    """End a session of this player; return False if it had ended before, None if it is not this player's."""
    if not is_storable(session_id):
        return None
    query = "SELECT 1 FROM session WHERE session_id = :session_id AND player_id = :player_id"
    if connection.execute(query, {"session_id": session_id, "player_id": player_id}).fetchone() is None:
        return None
    return revoke(connection, session_id, now_ms) is not None


def rename_device(connection: Connection, player_id: str, session_id: str, name: str, now_ms: int) -> bool:
    """Replace the device's name in a valid session of this player; return False if the player has no such session.

    It takes the place of the name that the device reported, which is read in many places and never sent again.
    """
    if not is_storable(session_id):
        return False
    query = """
        SELECT client FROM session
        WHERE session_id = :session_id AND player_id = :player_id AND revoked_ms IS NULL AND expires_ms > :now_ms
    """
    row = connection.execute(query, {"session_id": session_id, "player_id": player_id, "now_ms": now_ms}).fetchone()
    if row is None:
        return False
    values = {"client": with_device_name(str(row[0]), name), "session_id": session_id}
    connection.execute("UPDATE session SET client = :client WHERE session_id = :session_id", values)
    return True


def count_sessions(connection: Connection, player_ids: Iterable[str], now_ms: int) -> dict[str, int]:
    """Return how many sessions are valid, by player id; players without one are left out."""
    query = """
        SELECT count(*) FROM session WHERE player_id = :player_id AND revoked_ms IS NULL AND expires_ms > :now_ms
    """
    counts = {
        player_id: int(connection.execute(query, {"player_id": player_id, "now_ms": now_ms}).fetchone()[0])
        for player_id in player_ids
    }
    return {player_id: count for player_id, count in counts.items() if count}


def count_active(connection: Connection, since_ms: int) -> int:
    """Return how many players signed in or refreshed since then; it reads every session."""
    query = "SELECT count(DISTINCT player_id) FROM session WHERE last_used_ms >= :since_ms"
    return int(connection.execute(query, {"since_ms": since_ms}).fetchone()[0])


def last_uses(connection: Connection) -> dict[str, int]:
    """Return when each player last signed in or refreshed, by player id; for commands, as it reads every session."""
    return dict(connection.execute("SELECT player_id, max(last_used_ms) FROM session GROUP BY player_id").fetchall())


def list_sessions(connection: Connection, player_id: str, now_ms: int) -> list[SessionInfo]:
    """Return a player's sessions that are neither revoked nor expired, the last used first."""
    query = """
        SELECT session_id, created_ms, last_used_ms, expires_ms, provider, client FROM session
        WHERE player_id = :player_id AND revoked_ms IS NULL AND expires_ms > :now_ms
        ORDER BY last_used_ms DESC, session_id
    """
    return [SessionInfo(*row) for row in connection.execute(query, {"player_id": player_id, "now_ms": now_ms})]
