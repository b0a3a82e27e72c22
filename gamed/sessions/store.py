"""The store of sessions runs each call as one transaction of auth.db: a change in the write queue, a read in the other.

A transaction exchanges a refresh credential, or ends sessions at a logout
(docs/internals/storage.md: What is deleted, and when). The cleanup deletes old rows in small steps, because a long
transaction would delay every other write (SPEC 2.1).
"""

from collections.abc import Sequence
from functools import partial

from msgspec import Struct
from twisted.internet.defer import Deferred

from gamed.crypto import Purpose, Secret
from gamed.database.connection import Connection, Transaction
from gamed.database.engine import WriteKeys
from gamed.database.queues import ReadQueue, WriteQueue
from gamed.players.model import State
from gamed.rate_limit import UNLIMITED, PlayerRateLimiter, RateLimit
from gamed.sessions import tables
from gamed.sessions.browser_rules import BROWSER_IDLE_MS
from gamed.sessions.credentials import (
    SHARED_STORE_MS,
    AuthenticatedSession,
    CredentialIssuer,
    LogoutScope,
    Refreshed,
    RefreshRejected,
    RotationDecision,
    RotationState,
    SessionInfo,
    decide,
    from_bytes,
    generate_pair,
    renew_access,
    tick_of,
    to_bytes,
)
from gamed.sessions.errors import (
    PlayerBlocked,
    RefreshExpired,
    RefreshInvalid,
    RefreshReused,
    SessionError,
    SessionRevoked,
    TokenInvalid,
)
from gamed.sessions.recent import AccessKey
from gamed.sessions.tables import DAY_MS
from gamed.structs import Component, redacts


class SessionStore(Component, frozen=True, kw_only=True):
    """The sessions of auth.db.

    Every method raises DatabaseError, authenticate() also SessionError. `refreshes` limits how often one session may
    refresh, `players` how often those of one player may together (docs/owners/configuration.md: Limits). The buckets
    of players are in memory and belong to the thread of the write queue.
    """

    reads: ReadQueue
    writes: WriteQueue
    issuer: CredentialIssuer
    refreshes: RateLimit = UNLIMITED
    players: PlayerRateLimiter | None = None

    def key_of(self, token: Secret) -> AccessKey:
        """Return the key of an access token, without a transaction."""
        return tables.access_key(self.issuer.keys.indexer, token)

    def authenticate(self, token: Secret, now_ms: int) -> Deferred[AuthenticatedSession]:
        indexer = self.issuer.keys.indexer
        return self.reads.submit(partial(tables.authenticate, indexer=indexer, token=token, now_ms=now_ms))

    def mark_used(self, caller: AuthenticatedSession, generation: int, now_ms: int) -> Deferred[None]:
        mark = partial(tables.mark_used, session_id=caller.session_id, generation=generation, now_ms=now_ms)
        return self.writes.submit(mark, keys=_keys_of(caller.player_id, generation))

    def mark_all_used(self, uses: Sequence[tuple[str, int]], now_ms: int) -> Deferred[None]:
        return self.writes.submit(partial(tables.mark_all_used, uses=uses, now_ms=now_ms))

    def refresh(self, credential: Secret, now_ms: int) -> Deferred[Refreshed | RefreshRejected]:
        exchange = partial(
            refresh,
            issuer=self.issuer,
            credential=credential,
            now_ms=now_ms,
            rate=self.refreshes,
            players=self.players,
        )
        # On PostgreSQL a transaction that names its rows runs beside others; its player is read first for that.
        if self.writes.uses_keys:
            return Deferred.fromCoroutine(self._with_keys(exchange, credential))
        return self.writes.submit(exchange)

    async def _with_keys(
        self, exchange: Transaction[Refreshed | RefreshRejected], credential: Secret
    ) -> Refreshed | RefreshRejected:
        """Exchange a credential after reading whose it is: neither its player nor its generation changes."""
        known = await self.reads.submit(partial(find_credential, issuer=self.issuer, credential=credential))
        if known is None:
            return RefreshRejected(RefreshInvalid)
        return await self.writes.submit(exchange, keys=_keys_of(known.player_id, known.generation))

    async def log_out(
        self, access: Secret | None, refresh: Secret | None, scope: LogoutScope, now_ms: int
    ) -> frozenset[str] | RefreshRejected:
        """End the sessions of a scope, by log_out_this() or log_out_more()."""
        credentials = access, refresh

        def transaction(connection: Connection) -> frozenset[str] | RefreshRejected:
            if scope is LogoutScope.THIS:
                return log_out_this(connection, self.issuer, credentials, now_ms)
            return log_out_more(connection, self.issuer, credentials, scope, now_ms)

        # Anyone can send a well-formed credential: one that is unknown must not cost a place among the writers, and
        # without keys a transaction on PostgreSQL keeps out those of all processes.
        players = await self.reads.submit(partial(find_players, issuer=self.issuer, credentials=credentials))
        if not players:
            return await self.reads.submit(transaction)  # which finds nothing to change
        return await self.writes.submit(transaction, keys=(*sorted(players), tables.LOGINS))

    def list(self, player_id: str, now_ms: int) -> Deferred[list[SessionInfo]]:
        return self.reads.submit(partial(tables.list_sessions, player_id=player_id, now_ms=now_ms))

    def end(self, player_id: str, session_id: str, now_ms: int) -> Deferred[bool | None]:
        revoke = partial(tables.revoke_own, player_id=player_id, session_id=session_id, now_ms=now_ms)
        return self.writes.submit(revoke, keys=(player_id, tables.LOGINS))

    def end_others(self, player_id: str, keep: str, now_ms: int) -> Deferred[int]:
        revoke = partial(tables.revoke_all, player_id=player_id, now_ms=now_ms, keep=keep)
        return self.writes.submit(revoke, keys=(player_id, tables.LOGINS))

    def delete_old(self, now_ms: int, rows: int) -> Deferred[int]:
        return self.writes.submit(partial(delete_old_sessions, now_ms=now_ms, rows=rows))

    def read_ended_devices(self, after: str, rows: int) -> Deferred[tuple[Sequence[str], str]]:
        return self.reads.submit(partial(tables.read_ended_devices, after=after, rows=rows))

    def erase_ended_devices(self, first: str, last: str) -> Deferred[int]:
        return self.writes.submit(partial(tables.erase_ended_devices, first=first, last=last))


def _keys_of(player_id: str, generation: int) -> WriteKeys:
    """Return the keys of a use of this generation: the first one also ends the login that made the session."""
    return (player_id, tables.LOGINS) if generation == 1 else (player_id,)


REJECTIONS = {
    RotationDecision.REVOKED: RefreshRejected(SessionRevoked),
    RotationDecision.EXPIRED: RefreshRejected(RefreshExpired),
}
Credentials = tuple[Secret | None, Secret | None]
"""An access token and a refresh credential, both well-formed; at least one of them is present."""


def refresh(
    connection: Connection,
    issuer: CredentialIssuer,
    credential: Secret,
    now_ms: int,
    *,
    rate: RateLimit = UNLIMITED,
    players: PlayerRateLimiter | None = None,
) -> Refreshed | RefreshRejected:
    """Exchange a well-formed refresh credential in one transaction.

    Raise RateLimited if the session refreshes too often, or the player's sessions together do; a reused credential
    ends its session first, whatever the limit.
    """
    checked = check_credential(connection, issuer, credential, now_ms)
    if isinstance(checked, RefreshRejected):
        return checked
    known, decision = checked
    # After the decision: a reuse ends its session also for a client that sends too much.
    arrival_ms = rate.acquire(known.refresh_arrival_ms, now_ms) if rate.interval_ms else known.refresh_arrival_ms
    if players is not None:
        # In memory: a row would cost each refresh as much as its credentials do. A batch that starts over counts twice.
        players.acquire(known.player_id, now_ms)
    if decision is RotationDecision.ROTATE:
        return _rotate(connection, issuer, known, now_ms, arrival_ms)
    if arrival_ms != known.refresh_arrival_ms:  # a repetition counts, too, or it would have no limit
        query = "UPDATE session SET refresh_arrival_ms = :arrival_ms WHERE session_id = :session_id"
        connection.execute(query, {"session_id": known.session_id, "arrival_ms": arrival_ms})
    return _repeat(connection, issuer, known, now_ms)


def find_players(connection: Connection, issuer: CredentialIssuer, credentials: Credentials) -> set[str]:
    """Return the players of these credentials, also of expired and exchanged ones; of an unknown one, none."""
    access, refresh = credentials
    found = set()
    if access is not None and (token := tables.find_token(connection, issuer.keys.indexer, access)) is not None:
        found.add(token[1])
    if refresh is not None and (known := find_credential(connection, issuer, refresh)) is not None:
        found.add(known.player_id)
    return found


def log_out_this(
    connection: Connection, issuer: CredentialIssuer, credentials: Credentials, now_ms: int
) -> frozenset[str]:
    """End the session of each credential, and return the players of the sessions that were ended.

    An expired or exchanged credential is accepted too: a logout must not fail because a token expired meanwhile.
    """
    access, refresh = credentials
    found = set()
    if access is not None:
        token = tables.find_token(connection, issuer.keys.indexer, access)
        found.add(None if token is None else token[0])
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
    tick: int
    refresh_arrival_ms: int
    """The bucket that limits how often the session refreshes."""


def check_credential(
    connection: Connection, issuer: CredentialIssuer, credential: Secret, now_ms: int
) -> tuple[KnownCredential, RotationDecision] | RefreshRejected:
    """Return a credential that may be exchanged, with ROTATE or REPEAT; end the session of one that was reused."""
    known = find_credential(connection, issuer, credential)
    if known is None:
        return RefreshRejected(RefreshInvalid)
    decision = decide(known.rotation, known.generation, known.expires_ms, now_ms, connection.clocks_ms)
    if decision is RotationDecision.REPEAT and known.sealed_successor is None:
        # a successor is deleted only long after its time, so this is a reuse, even if the clock was set back since
        decision = RotationDecision.REUSED
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
               s.sealed_successor, r.generation, r.expires_ms, p.state, r.tick, s.refresh_arrival_ms
        FROM credential r
        JOIN session s ON s.session_id = r.session_id
        JOIN player p ON p.player_id = s.player_id
        WHERE r.tick = ? AND r.credential_index = ?
    """
    row = connection.execute(query, tables.refresh_key(issuer.keys.indexer, credential)).fetchone()
    if row is None:
        return None
    session_id, player_id, created_ms, newest, rotated_ms, used, revoked_ms, sealed, *row = row
    generation, expires_ms, state, tick, arrival_ms = row
    revoked = revoked_ms is not None or state == "erasing"
    rotation = RotationState(newest, rotated_ms, bool(used), revoked, issuer.policy.ends_ms(created_ms))
    return KnownCredential(
        session_id, player_id, created_ms, rotation, sealed, generation, expires_ms, state, tick, arrival_ms
    )


def _rotate(
    connection: Connection, issuer: CredentialIssuer, known: KnownCredential, now_ms: int, arrival_ms: int
) -> Refreshed:
    """Start the next generation, unused, and retain its pair so that a repeated request gets it again.

    `arrival_ms` is the session's bucket with this refresh.
    """
    if known.generation == 1:
        tables.close_login(connection, known.session_id, now_ms)
    rotation = known.rotation.rotated(now_ms)
    pair = generate_pair(issuer.random, now_ms, issuer.policy, known.created_ms)
    query = """
        UPDATE session
        SET generation = :generation, rotated_ms = :rotated_ms, used = :used, sealed_successor = :sealed_successor,
            expires_ms = :expires_ms, last_used_ms = :rotated_ms, tick = :tick, refresh_arrival_ms = :arrival_ms
        WHERE session_id = :session_id
    """
    values = {
        "generation": rotation.generation,
        "rotated_ms": rotation.rotated_ms,
        "used": rotation.used,
        "sealed_successor": issuer.keys.sealer.seal(Purpose.SUCCESSOR, known.session_id, to_bytes(pair)),
        "expires_ms": pair.refresh_expires_ms,
        "tick": tick_of(pair.refresh),
        "arrival_ms": arrival_ms,
        "session_id": known.session_id,
    }
    connection.execute(query, values)
    # The cleanup's index is on the day: on `expires_ms` each refresh would move its entry to another page.
    if (day := pair.refresh_expires_ms // DAY_MS) != known.expires_ms // DAY_MS:
        query = "UPDATE session SET expiry_day = :day WHERE session_id = :session_id"
        connection.execute(query, {"day": day, "session_id": known.session_id})
    generation, previous = rotation.generation, known.tick
    tables.insert_pair(connection, issuer.keys.indexer, known.session_id, generation, pair, previous_tick=previous)
    return Refreshed(known.session_id, pair)


def _repeat(connection: Connection, issuer: CredentialIssuer, known: KnownCredential, now_ms: int) -> Refreshed:
    """Return the successor once more; replace its access token if that has expired meanwhile."""
    assert known.sealed_successor is not None  # check_credential() returns REUSED without one
    sealer = issuer.keys.sealer
    pair = from_bytes(sealer.unseal(Purpose.SUCCESSOR, known.session_id, known.sealed_successor))
    if now_ms < pair.access_expires_ms:
        return Refreshed(known.session_id, pair)
    pair = renew_access(pair, issuer.random, now_ms, issuer.policy, known.created_ms)
    query = """
        UPDATE session SET sealed_successor = :sealed_successor, last_used_ms = :now_ms WHERE session_id = :session_id
    """
    values = {
        "sealed_successor": sealer.seal(Purpose.SUCCESSOR, known.session_id, to_bytes(pair)),
        "now_ms": now_ms,
        "session_id": known.session_id,
    }
    connection.execute(query, values)
    tables.insert_access(connection, issuer.keys.indexer, known.session_id, known.rotation.generation, pair)
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


ACCESS_RETAINED_MS = DAY_MS
"""For a day after its expiry a token is answered `token_expired`, not `token_invalid`."""
REFRESH_RETAINED_MS = 7 * ACCESS_RETAINED_MS
"""The same for a refresh credential and its session, ended or expired."""
PENDING_RETAINED_MS = 30 * ACCESS_RETAINED_MS
"""After this a player whom the owner has not approved may ask again; so strangers cannot fill the file."""
LINK_RETAINED_MS = 30 * ACCESS_RETAINED_MS
"""For so long after its expiry the page of an invite or reset link says that the link is over."""

_DELETE_OLD = (
    # The successor of a used generation is not returned again; check_credential() covers a clock that was set back.
    """
    UPDATE session SET sealed_successor = NULL WHERE session_id IN (
        SELECT session_id FROM session
        WHERE used = 1 AND sealed_successor IS NOT NULL AND rotated_ms < :shared_before_ms LIMIT :rows)
    """,
    """
    DELETE FROM credential WHERE (tick, credential_index) IN (
        SELECT tick, credential_index FROM credential
        WHERE refreshes = 0 AND expires_ms < :access_before_ms LIMIT :rows)
    """,
    """
    DELETE FROM credential WHERE (tick, credential_index) IN (
        SELECT tick, credential_index FROM credential
        WHERE refreshes = 1 AND expires_ms < :refresh_before_ms LIMIT :rows)
    """,
    # A session goes last. A credential without it counts as unknown.
    """
    DELETE FROM session WHERE session_id IN (
        SELECT s.session_id FROM session s
        WHERE s.expiry_day <= :refresh_before_day AND s.expires_ms < :refresh_before_ms
        AND NOT EXISTS (SELECT 1 FROM credential c WHERE c.tick = s.tick AND c.session_id = s.session_id) LIMIT :rows)
    """,
    """
    DELETE FROM browser_session WHERE cookie_index IN (
        SELECT cookie_index FROM browser_session WHERE last_used_ms < :browser_before_ms LIMIT :rows)
    """,
    """
    DELETE FROM player WHERE player_id IN (
        SELECT player_id FROM player
        WHERE state = 'pending' AND created_ms < :pending_before_ms LIMIT :rows)
    """,
    """
    UPDATE invite SET sealed_name = NULL WHERE token_index IN (
        SELECT token_index FROM invite WHERE expires_ms < :now_ms AND sealed_name IS NOT NULL LIMIT :rows)
    """,
    """
    DELETE FROM invite WHERE token_index IN (
        SELECT token_index FROM invite WHERE expires_ms < :link_before_ms LIMIT :rows)
    """,
    """
    DELETE FROM reset_link WHERE token_index IN (
        SELECT token_index FROM reset_link WHERE expires_ms < :link_before_ms LIMIT :rows)
    """,
)


def delete_old_sessions(connection: Connection, now_ms: int, rows: int) -> int:
    """Delete up to `rows` old rows; return how many there were, so 0 means that none are left."""
    # `rows` bounds the whole, not each statement: the transaction is to take a few milliseconds of the write queue.
    left = rows
    for query in _DELETE_OLD:
        values = {
            "now_ms": now_ms,
            "shared_before_ms": now_ms - 2 * (SHARED_STORE_MS + connection.clocks_ms),
            "access_before_ms": now_ms - ACCESS_RETAINED_MS,
            "refresh_before_ms": now_ms - REFRESH_RETAINED_MS,
            "refresh_before_day": (now_ms - REFRESH_RETAINED_MS) // DAY_MS,
            "browser_before_ms": now_ms - BROWSER_IDLE_MS,
            "pending_before_ms": now_ms - PENDING_RETAINED_MS,
            "link_before_ms": now_ms - LINK_RETAINED_MS,
            "rows": left,
        }
        left -= connection.execute(query, values).rowcount
    return rows - left
