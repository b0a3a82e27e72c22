"""Ending sessions at a player's own wish (PROTOCOL 3.7 logout); each function is one unit."""

from sqlite3 import Connection

from gamed.crypto import Secret
from gamed.sessions.credentials import Issuer
from gamed.sessions.errors import SessionError, TokenInvalid
from gamed.sessions.rotation import Refusal
from gamed.sessions.session import Scope
from gamed.storage.auth import rotations, sessions

Credentials = tuple[Secret | None, Secret | None]
"""An access token and a refresh credential, both well-formed; at least one."""


def log_out_this(connection: Connection, issuer: Issuer, credentials: Credentials, now_ms: int) -> frozenset[str]:
    """End the session of each credential, be the credential live, expired or exchanged; whose sessions these were.

    Who holds a credential may always give it back: a sign-out must not fail because the token ran out meanwhile.
    """
    access, refresh = credentials
    found = set()
    if access is not None:
        found.add(sessions.session_of_token(connection, issuer.keys.indexer, access))
    if refresh is not None:
        presented = rotations.present(connection, issuer, refresh)
        found.add(None if presented is None else presented.session_id)
    ended = (sessions.revoke(connection, session_id, now_ms) for session_id in found if session_id is not None)
    return frozenset(player_id for player_id in ended if player_id is not None)


def log_out_more(
    connection: Connection, issuer: Issuer, credentials: Credentials, scope: Scope, now_ms: int
) -> frozenset[str] | Refusal:
    """End the player's other sessions, or all; only for a live credential, and the access token is asked first."""
    judged = _live(connection, issuer, credentials, now_ms)
    if isinstance(judged, Refusal):
        return judged
    player_id, session_id = judged
    keep = session_id if scope is Scope.OTHERS else None
    return frozenset([player_id] if sessions.revoke_all(connection, player_id, now_ms, keep) else [])


def _live(connection: Connection, issuer: Issuer, credentials: Credentials, now_ms: int) -> tuple[str, str] | Refusal:
    """Player and session of the first credential that is live, marked used; else why the last one asked is not."""
    access, refresh = credentials
    refusal = Refusal(TokenInvalid)
    if access is not None:
        try:
            caller = sessions.authenticate(connection, issuer.keys.indexer, access, now_ms)
        except SessionError as e:
            refusal = Refusal(type(e))
        else:
            if caller.unused is not None:
                sessions.mark_used(connection, caller.session_id, caller.unused, now_ms)
            return caller.player_id, caller.session_id
    if refresh is None:
        return refusal
    accepted = rotations.accept(connection, issuer, refresh, now_ms)
    if isinstance(accepted, Refusal):
        return accepted
    found, _ = accepted
    sessions.mark_used(connection, found.session_id, found.generation, now_ms)
    return found.player_id, found.session_id
