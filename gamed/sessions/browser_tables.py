"""The SQL of the table `browser_session`: browsers that are signed in on the player's own page.

A browser session ends after 30 minutes without a request, and 12 hours after its sign-in. A trigger of the schema ends
it when its player is blocked or erased.
"""

from collections.abc import Sequence

from gamed.crypto import Index, Indexer, Purpose, Secret
from gamed.database.connection import Connection, is_storable
from gamed.sessions.browser_rules import BROWSER_IDLE_MS, BROWSER_TOTAL_MS, BrowserInfo, BrowserName, NewBrowserSession
from gamed.sessions.credentials import MAX_SESSIONS, RECOVERY_CODE, AuthenticatedSession
from gamed.sessions.errors import PlayerBlocked, TokenExpired, TokenInvalid

TOUCH_MS = 60_000
"""The last use is written at most once in this time, so that most pages are a read and no write."""
_ALIVE = """
    b.last_used_ms + :idle_ms > :now_ms AND b.created_ms + :total_ms > :now_ms AND b.created_ms <= :latest_ms
    AND p.state = 'active'
"""


def open_browser(
    connection: Connection,
    indexer: Indexer,
    new: NewBrowserSession,
    *,
    player_id: str,
    provider: str,
    now_ms: int,
    verified: bool,
    passkey_id: str | None = None,
) -> Sequence[str]:
    """Insert a browser session; return the sessions that ended because the player had MAX_SESSIONS of them.

    `verified`: the person typed the password or used the passkey `passkey_id`, or the provider has proved that it asked
    the person to sign in.
    """
    # LIMIT: SQLite has no OFFSET without it, and its LIMIT -1 is not PostgreSQL's.
    least_used = """
        DELETE FROM browser_session WHERE session_id IN (
            SELECT session_id FROM browser_session WHERE player_id = :player_id
            ORDER BY last_used_ms DESC, session_id DESC LIMIT 1000000 OFFSET :kept)
        RETURNING session_id
    """
    ended = connection.execute(least_used, {"player_id": player_id, "kept": MAX_SESSIONS - 1}).fetchall()
    query = """
        INSERT INTO browser_session (
            cookie_index, session_id, player_id, provider, agent, created_ms, last_used_ms, verified,
            passkey_id)
        VALUES (:cookie_index, :session_id, :player_id, :provider, :agent, :now_ms, :now_ms, :verified, :passkey_id)
    """
    values: dict[str, object] = {
        "cookie_index": _index(indexer, new.token),
        "session_id": new.session_id,
        "player_id": player_id,
    }
    values |= {"provider": provider, "agent": new.browser.to_text(), "now_ms": now_ms, "verified": int(verified)}
    values["passkey_id"] = passkey_id
    connection.execute(query, values)
    return [session_id for (session_id,) in ended]


def authenticate_browser(connection: Connection, indexer: Indexer, token: Secret, now_ms: int) -> AuthenticatedSession:
    """Return the session of a browser's token; raise TokenInvalid, TokenExpired or PlayerBlocked."""
    query = """
        SELECT b.session_id, b.player_id, b.created_ms, b.last_used_ms, p.state, p.owner, b.verified, b.provider
        FROM browser_session b JOIN player p ON p.player_id = b.player_id WHERE b.cookie_index = :cookie_index
    """
    row = connection.execute(query, {"cookie_index": _index(indexer, token)}).fetchone()
    if row is None:
        raise TokenInvalid
    session_id, player_id, created_ms, last_used_ms, state, owner, verified, provider = row
    latest_ms = now_ms + connection.clocks_ms
    if not (now_ms - BROWSER_IDLE_MS < last_used_ms and now_ms - BROWSER_TOTAL_MS < created_ms <= latest_ms):
        raise TokenExpired
    if state != "active":
        raise PlayerBlocked
    recovered = provider == RECOVERY_CODE
    return AuthenticatedSession(
        player_id, session_id, bool(owner), created_ms, verified=bool(verified), recovered=recovered
    )


def player_of_browser(connection: Connection, session_id: str, now_ms: int) -> str | None:
    """Return the player of a browser session that has neither ended nor expired."""
    query = f"""
        SELECT b.player_id FROM browser_session b JOIN player p ON p.player_id = b.player_id
        WHERE b.session_id = :session_id AND {_ALIVE}
    """
    row = connection.execute(query, {"session_id": session_id, **_life(connection, now_ms)}).fetchone()
    return None if row is None else str(row[0])


def list_browsers(connection: Connection, player_id: str, now_ms: int) -> list[BrowserInfo]:
    """Return a player's browser sessions that have not expired, the last used first."""
    query = f"""
        SELECT b.session_id, b.agent, b.created_ms, b.last_used_ms, b.provider
        FROM browser_session b JOIN player p ON p.player_id = b.player_id
        WHERE b.player_id = :player_id AND {_ALIVE} ORDER BY b.last_used_ms DESC, b.session_id
    """
    rows = connection.execute(query, {"player_id": player_id, **_life(connection, now_ms)}).fetchall()
    return [BrowserInfo(session_id, BrowserName.stored(agent), *others) for session_id, agent, *others in rows]


def needs_touch(connection: Connection, indexer: Indexer, token: Secret, now_ms: int) -> bool:
    """Return whether the last use of a browser session should be written."""
    query = "SELECT 1 FROM browser_session WHERE cookie_index = :cookie_index AND last_used_ms <= :before_ms"
    values = {"cookie_index": _index(indexer, token), "before_ms": now_ms - TOUCH_MS}
    return connection.execute(query, values).fetchone() is not None


def touch_browser(connection: Connection, indexer: Indexer, token: Secret, now_ms: int) -> None:
    query = "UPDATE browser_session SET last_used_ms = :now_ms WHERE cookie_index = :cookie_index"
    connection.execute(query, {"cookie_index": _index(indexer, token), "now_ms": now_ms})


def end_browser(connection: Connection, indexer: Indexer, token: Secret) -> str | None:
    """End the browser session of a token; return its player, or None if there is no such session."""
    query = "DELETE FROM browser_session WHERE cookie_index = :cookie_index RETURNING player_id"
    rows = connection.execute(query, {"cookie_index": _index(indexer, token)}).fetchall()
    return str(rows[0][0]) if rows else None


def end_browser_session(connection: Connection, session_id: str) -> None:
    connection.execute("DELETE FROM browser_session WHERE session_id = :session_id", {"session_id": session_id})


def end_own_browser(connection: Connection, player_id: str, session_id: str) -> bool:
    """End a browser session of this player; return False if the player has none with this id."""
    query = "DELETE FROM browser_session WHERE session_id = :session_id AND player_id = :player_id"
    values = {"session_id": session_id, "player_id": player_id}
    return is_storable(session_id) and connection.execute(query, values).rowcount == 1


def end_browsers_of(connection: Connection, player_id: str, keep: str | None) -> int:
    """End the browser sessions of a player but the one with the id `keep`; return how many there were."""
    query = "DELETE FROM browser_session WHERE player_id = :player_id AND session_id IS DISTINCT FROM :keep"
    return connection.execute(query, {"player_id": player_id, "keep": keep}).rowcount


def _life(connection: Connection, now_ms: int) -> dict[str, int]:
    """Return the values of _ALIVE.

    A session from the future is that of a machine whose clock is ahead, which ends later by as much, or, further ahead,
    one from before the clock was set back: it has ended.
    """
    latest_ms = now_ms + connection.clocks_ms
    return {"now_ms": now_ms, "latest_ms": latest_ms, "idle_ms": BROWSER_IDLE_MS, "total_ms": BROWSER_TOTAL_MS}


def _index(indexer: Indexer, token: Secret) -> Index:
    return indexer.index(Purpose.BROWSER_SESSION, token.reveal())
