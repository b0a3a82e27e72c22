"""Players marked for deletion, and the `player_merge` table: the player who gets the saves of each (PROTOCOL 3.8).

A mark is the first step of several; see gamed.players.service.

Players over the lanes: their ways to sign in, their departure, and what commands did to them; each call one unit.

auth.db out of a backup made fit to be served: nobody is signed in, and who is kept out stays out (PROTOCOL 3.7).
"""

from collections.abc import Mapping, Sequence
from sqlite3 import Connection
from typing import Any

from msgspec import Struct
from twisted.internet.defer import Deferred

from gamed.crypto import Keys, Purpose
from gamed.database.queues import ReadQueue, WriteQueue
from gamed.players import command_log, keyring, tables
from gamed.players.command_log import CommandLogEntry
from gamed.players.errors import LastIdentity, PlayerUnknown
from gamed.players.names import SignInMethod, SignInMethods
from gamed.players.service import Removal
from gamed.sessions import tables as session_tables
from gamed.structs import Component

DELETE_ROWS = 500
"""How many rows one unit removes at most: a few milliseconds of the write lane."""
_TOKENS = (
    """
    DELETE FROM refresh_credential WHERE credential_index IN (
        SELECT r.credential_index FROM session s JOIN refresh_credential r ON r.session_id = s.session_id
        WHERE s.player_id = :player_id LIMIT :rows)
    """,
    """
    DELETE FROM access_token WHERE token_index IN (
        SELECT t.token_index FROM session s JOIN access_token t ON t.session_id = s.session_id
        WHERE s.player_id = :player_id LIMIT :rows)
    """,
    "DELETE FROM session WHERE session_id IN (SELECT session_id FROM session WHERE player_id = :player_id LIMIT :rows)",
)


class MergeResult(Struct, frozen=True):
    """What an heir got of another player's ways to sign in."""

    moved: tuple[str, ...]
    left: tuple[str, ...]
    """Providers of which the heir has an account already; these accounts sign nobody in any more."""


def mark_removed(connection: Connection, player_id: str, now_ms: int) -> bool:
    """From now on no token and no sign-in of this player is good; repeatable. False when there is no such player."""
    if not tables.set_state(connection, player_id, "erasing"):
        return False
    tables.clear_owner(connection, player_id)
    session_tables.revoke_all(connection, player_id, now_ms)
    return True


def unfinished_removals(connection: Connection) -> list[Removal]:
    """Everyone who is marked, those with an heir first."""
    heirs = "SELECT player_id, heir_id FROM player_merge ORDER BY started_ms, player_id"
    erasing = """
        SELECT player_id FROM player INDEXED BY player_erasing
        WHERE state = 'erasing' AND player_id NOT IN (SELECT player_id FROM player_merge) ORDER BY player_id
    """
    return [Removal(*row) for query in (heirs, erasing) for row in connection.execute(query)]


def delete_player_rows(connection: Connection, departure: Removal) -> bool:
    """Up to FORGET_ROWS rows; whether there are more. The mark itself goes last."""
    left, values = DELETE_ROWS, {"player_id": departure.player_id}
    for query in _TOKENS:
        left -= connection.execute(query, values | {"rows": left}).rowcount
    if left <= 0:
        return True
    connection.execute("DELETE FROM player WHERE player_id = :player_id AND state = 'erasing'", values)
    connection.execute("DELETE FROM player_merge WHERE player_id = :player_id", values)
    return False


def merge_players(connection: Connection, keys: Keys, player_id: str, heir_id: str, now_ms: int) -> MergeResult:
    """The heir gets the ways to sign in, and later the saves; the player, if auth.db knows it at all, is marked.

    A player of a lost auth.db is known by its saves only. PlayerUnknown when there is no heir.
    """
    heir = tables.find_player(connection, heir_id)
    if heir is None or heir.state == "erasing":
        raise PlayerUnknown(f"There is no player {heir_id} to attach anything to.")
    attached = _move_identities(connection, keys, player_id, heir_id)
    old = tables.find_player(connection, player_id)
    mark_removed(connection, player_id, now_ms)
    if old is not None and old.owner:
        tables.set_owner(connection, heir_id)
    query = "INSERT INTO player_merge (player_id, heir_id, started_ms) VALUES (:player_id, :heir_id, :now_ms)"
    connection.execute(query, {"player_id": player_id, "heir_id": heir_id, "now_ms": now_ms})
    return attached


def _move_identities(connection: Connection, keys: Keys, player_id: str, heir_id: str) -> MergeResult:
    values = {"player_id": player_id, "heir_id": heir_id}
    query = """
        UPDATE identity SET player_id = :heir_id
        WHERE player_id = :player_id AND provider NOT IN (SELECT provider FROM identity WHERE player_id = :heir_id)
        RETURNING provider
    """
    moved = [provider for (provider,) in connection.execute(query, values).fetchall()]
    rest = connection.execute("SELECT provider FROM identity WHERE player_id = :player_id", values).fetchall()
    left = [provider for (provider,) in rest]
    sealed = "SELECT sealed_name FROM local_account WHERE player_id = :player_id"
    account = connection.execute(sealed, values).fetchone()
    if account is not None:
        taken = connection.execute("SELECT 1 FROM local_account WHERE player_id = :heir_id", values).fetchone()
        (left if taken else moved).append("local")
        if not taken:
            _move_account(connection, keys, account[0], values)
    return MergeResult(tuple(moved), tuple(left))


def _move_account(connection: Connection, keys: Keys, sealed: bytes, values: dict[str, str]) -> None:
    """A sealed name is bound to its player's row, so it is sealed anew."""
    name = keys.sealer.unseal(Purpose.ACCOUNT_NAME, values["player_id"], sealed)
    query = """
        UPDATE local_account SET player_id = :heir_id, sealed_name = :sealed_name WHERE player_id = :player_id
    """
    connection.execute(query, values | {"sealed_name": keys.sealer.seal(Purpose.ACCOUNT_NAME, values["heir_id"], name)})


class SqlitePlayerStore(Component, frozen=True):
    """Identities of gamed.players.service, Records of gamed.players.service."""

    _reads: ReadQueue
    _writes: WriteQueue

    def listed(self, player_id: str) -> Deferred[list[SignInMethod]]:
        return self._reads.submit(lambda connection: tables.sign_in_methods(connection, player_id))

    def unlink(self, player_id: str, provider: str, ways: SignInMethods) -> Deferred[bool | LastIdentity]:
        return self._writes.submit(lambda connection: tables.unlink(connection, player_id, provider, ways))

    def mark(self, player_id: str, now_ms: int) -> Deferred[bool]:
        return self._writes.submit(lambda connection: mark_removed(connection, player_id, now_ms))

    def unfinished(self) -> Deferred[list[Removal]]:
        return self._reads.submit(unfinished_removals)

    def forget(self, departure: Removal) -> Deferred[bool]:
        return self._writes.submit(lambda connection: delete_player_rows(connection, departure))

    def host_actions(self) -> Deferred[list[CommandLogEntry]]:
        return self._reads.submit(command_log.waiting_entries)

    def host_actions_told(self, number: int) -> Deferred[None]:
        return self._writes.submit(lambda connection: command_log.mark_forwarded(connection, number))


BLOCKED_COLUMNS = {
    "player": ("player_id", "state", "approved", "sealed_note", "created_ms", "last_sign_in_ms"),
    "identity": ("identity_index", "player_id", "provider", "realm_index", "linked_ms", "last_used_ms"),
    "local_account": ("name_index", "player_id", "sealed_name", "password", "linked_ms", "last_used_ms"),
}
"""Of each player who is blocked, what is needed to know them again; a player's own row first."""


class BlockedPlayers(Struct, frozen=True):
    """Everybody whom the file that is in use keeps out."""

    check_value: bytes | None
    """Of the key that found and sealed what is in the rows."""
    rows: Mapping[str, Sequence[tuple[Any, ...]]]


NO_BLOCKED_PLAYERS = BlockedPlayers(None, {table: () for table in BLOCKED_COLUMNS})


def blocked_players(connection: Connection) -> BlockedPlayers:
    ring = keyring.read_key_record(connection)
    rows = {}
    for table, columns in BLOCKED_COLUMNS.items():
        names = ", ".join(f"{table}.{column}" for column in columns)
        query = f"SELECT {names} FROM {table} JOIN player p USING (player_id) WHERE p.state = 'blocked'"
        rows[table] = connection.execute(query).fetchall()
    return BlockedPlayers(None if ring is None else ring.check_value, rows)


def block_again(connection: Connection, theirs: BlockedPlayers) -> int:
    """Block them here, too; how many were not. Who is not known here comes along, where one key fits both files."""
    players = [dict(zip(BLOCKED_COLUMNS["player"], row, strict=True)) for row in theirs.rows["player"]]
    for each in players:  # a newer answer to whether the owner ever let them in
        connection.execute("UPDATE player SET approved = :approved WHERE player_id = :player_id", each)
    query = "UPDATE player SET state = 'blocked' WHERE player_id = :player_id AND state IN ('active', 'pending')"
    kept = sum(connection.execute(query, each).rowcount for each in players)
    ring = keyring.read_key_record(connection)
    if ring is None or ring.check_value != theirs.check_value:
        return kept
    for table, columns in BLOCKED_COLUMNS.items():
        names, places = ", ".join(columns), ", ".join(f":{name}" for name in columns)
        insert = f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({places})"
        known = [dict(zip(columns, row, strict=True)) for row in theirs.rows[table]]
        added = sum(connection.execute(insert, each).rowcount for each in known)
        kept += added if table == "player" else 0
    return kept


def sign_out_all(connection: Connection, now_ms: int) -> int:
    """Every session ends, every sign-in under way is forgotten; how many sessions were alive."""
    alive = "SELECT count(*) FROM session WHERE revoked_ms IS NULL AND expires_ms > :now_ms"
    ((count,),) = connection.execute(alive, {"now_ms": now_ms}).fetchall()
    end = "UPDATE session SET revoked_ms = :now_ms, sealed_successor = NULL WHERE revoked_ms IS NULL"
    connection.execute(end, {"now_ms": now_ms})
    for table in ("login", "limit_bucket"):  # a login's attempts go along with it
        connection.execute(f"DELETE FROM {table}")
    return int(count)
