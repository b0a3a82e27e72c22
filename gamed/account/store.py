"""These transactions of auth.db unlink, erase and merge players, and prepare a restored auth.db.

The first step of an erasure or a merge marks the player; gamed.account.service describes the others. The table
`player_merge` names the player who gets the saves. After a restore all sessions are ended, and blocked players stay
blocked.

See docs/protocol.md: Sessions; docs/owners/players.md: Erasing.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from gamed.account import link_tables
from gamed.account.service import AdoptCommand, Removal, UnlinkCommand, Unlinked
from gamed.crypto import Keys, Purpose
from gamed.database import rate_limits, security_events
from gamed.database.connection import Connection
from gamed.passkeys import ways_tables
from gamed.players import keyring, tables
from gamed.players.errors import AdoptRefusal, LastIdentity, MergeRefused, PlayerUnknown
from gamed.players.model import Player
from gamed.players.names import LOCAL, SignInMethod, SignInMethods, is_last, names_of_others
from gamed.rate_limit import RateLimit
from gamed.sessions import tables as session_tables
from gamed.sessions.credentials import PASSKEY, RECOVERY_CODE
from gamed.structs import Component

if TYPE_CHECKING:  # commands write rows without the queues, which need Twisted
    from twisted.internet.defer import Deferred

    from gamed.database.queues import ReadQueue, WriteQueue


class PlayerStore(Component, frozen=True, kw_only=True):
    """The gamed.account.service.AccountStore and PlayerRecords of auth.db; each call is one transaction."""

    reads: "ReadQueue"
    writes: "WriteQueue"
    keys: Keys

    def sign_in_methods(self, player_id: str) -> "Deferred[list[SignInMethod]]":
        return self.reads.submit(partial(tables.sign_in_methods, player_id=player_id))

    def unlink(self, command: UnlinkCommand, methods: SignInMethods) -> "Deferred[Unlinked | LastIdentity]":
        unlink = partial(unlink_method, command=command, enabled=methods)
        return self.writes.submit(unlink, keys=(command.caller.player_id, session_tables.LOGINS))

    def adopt(self, command: AdoptCommand) -> "Deferred[AdoptRefusal | None]":
        adopt = partial(adopt_account, keys=self.keys, command=command)
        return self.writes.submit(adopt, keys=(command.player_id, command.caller.player_id, session_tables.LOGINS))

    def rename(self, player_id: str, name: str | None, now_ms: int) -> "Deferred[bool]":
        rename = partial(rename_player, keys=self.keys, player_id=player_id, name=name, now_ms=now_ms)
        return self.writes.submit(rename, keys=(player_id, rate_limits.LIMITS))

    def rename_device(self, player_id: str, session_id: str, name: str, now_ms: int) -> "Deferred[bool]":
        def transaction(connection: Connection) -> bool:
            _count_rename(connection, self.keys, player_id, now_ms)
            return session_tables.rename_device(connection, player_id, session_id, name, now_ms)

        return self.writes.submit(transaction, keys=(player_id, rate_limits.LIMITS))

    def mark(self, player_id: str, now_ms: int) -> "Deferred[bool]":
        mark = partial(mark_removed, player_id=player_id, now_ms=now_ms)
        return self.writes.submit(mark, keys=(player_id, session_tables.LOGINS))

    def unfinished(self) -> "Deferred[list[Removal]]":
        return self.reads.submit(unfinished_removals)

    def delete_rows(self, removal: Removal) -> "Deferred[bool]":
        return self.writes.submit(
            partial(delete_player_rows, removal=removal), keys=(removal.player_id, session_tables.LOGINS)
        )


def unlink_method(connection: Connection, command: UnlinkCommand, enabled: SignInMethods) -> Unlinked | LastIdentity:
    """Unlink a sign-in method and end the sessions that it opened, the requesting one last.

    A session that may be of another method, but does not show it, ends, too. Return LastIdentity, and change nothing,
    if the player could not sign in with any other method.
    """
    player_id, own_session = command.caller.player_id, command.caller.session_id
    methods = tables.sign_in_methods(connection, player_id)
    gone = next((method for method in methods if method.provider == command.provider), None)
    if gone is None:
        return Unlinked(False)
    if is_last(methods, command.provider, enabled):
        return LastIdentity()
    tables.unlink(connection, player_id, command.provider)
    if command.provider == LOCAL:
        ways_tables.delete_codes(connection, player_id)  # they are typed with its name
    others = names_of_others(methods, gone, enabled)
    if LOCAL in others:
        others |= {RECOVERY_CODE}  # a code is one of the local account, with whose name it was typed
    opened = session_tables.sessions_not_of(connection, player_id, others)
    for session_id in sorted(opened, key=lambda session_id: session_id == own_session):
        session_tables.revoke_any(connection, session_id, command.now_ms)
    return Unlinked(True, len(opened), own_session in opened)


def adopt_account(connection: Connection, keys: Keys, command: AdoptCommand) -> AdoptRefusal | None:
    """Merge the player of an old local account into the caller, as `players merge` does, or return why not.

    An account with a way to sign in of its own is no old one: a password alone does not give it away. Nor does it give
    away the owner's, with which the server would get another owner: only a command on the host does that (SPEC 4/18).
    """
    old_id, heir_id = command.player_id, command.caller.player_id
    if old_id == heir_id:
        return AdoptRefusal.OWN
    checked = command.password_tag
    if tables.password_changed(connection, old_id, command.checked_ms, command.now_ms, checked):
        return AdoptRefusal.PASSWORD
    old, heir = (tables.find_player(connection, each) for each in (old_id, heir_id))
    if old is None or heir is None or not old.state == heir.state == "active":
        return AdoptRefusal.BLOCKED
    if old.owner or ways_tables.has_other_way(connection, old_id):
        return AdoptRefusal.LINKED
    moved = merge_players(connection, keys, old_id, heir_id, command.now_ms).moved
    if LOCAL in moved:  # it is a way to sign in as this player from now on; see owner_tables.is_trusted_way()
        query = "UPDATE local_account SET linked_ms = :now_ms WHERE player_id = :heir_id"
        connection.execute(query, {"heir_id": heir_id, "now_ms": command.now_ms})
    return None


RENAMES = RateLimit(interval_ms=6_000, burst=10)
"""How often one player may change the display name or the name of a device."""


def rename_player(connection: Connection, keys: Keys, player_id: str, name: str | None, now_ms: int) -> bool:
    """Store the display name; return False if the player does not exist. Raise RateLimited."""
    _count_rename(connection, keys, player_id, now_ms)
    return tables.set_display_name(connection, keys.sealer, player_id, name)


def _count_rename(connection: Connection, keys: Keys, player_id: str, now_ms: int) -> None:
    bucket = keys.indexer.index(Purpose.LIMIT, b"rename", player_id.encode())
    rate_limits.acquire(connection, {bucket: RENAMES}, now_ms)


DELETE_ROWS = 500
"""How many rows one transaction deletes: a few milliseconds of the write queue."""
_SESSIONS = """
    DELETE FROM session WHERE session_id IN (SELECT session_id FROM session WHERE player_id = :player_id LIMIT :rows)
"""


class MergeResult(Struct, frozen=True):
    """The sign-in methods that a merge moved, by provider; passkeys are `passkey`."""

    moved: tuple[str, ...]
    left: tuple[str, ...]
    """Providers of which the heir has an account already, and `passkey` if the heir has no room for all passkeys.

    What is left is deleted with the merged player.
    """


def mark_removed(connection: Connection, player_id: str, now_ms: int) -> bool:
    """Mark a player as being erased, end every session and delete its login; repeatable.

    Return False if the player does not exist.
    From then on every token and every sign-in of this player is rejected.
    """
    session_tables.delete_logins(connection, player_id)  # before the mark, which ends browser sessions
    if not tables.set_state(connection, player_id, "erasing"):
        return False
    tables.clear_owner(connection, player_id)
    session_tables.revoke_all(connection, player_id, now_ms)
    return True


def unfinished_removals(connection: Connection) -> list[Removal]:
    """Return every player who is marked, those with an heir first.

    A merge into a player comes before the removal of that player, whose saves include those that still have to arrive.
    """
    heirs: dict[str, str] = dict(connection.execute("SELECT player_id, heir_id FROM player_merge ORDER BY player_id"))
    erasing = """
        SELECT player_id FROM player
        WHERE state = 'erasing' AND player_id NOT IN (SELECT player_id FROM player_merge) ORDER BY player_id
    """
    # Not by `started_ms`: two merges may begin within one millisecond, and a clock may be set back between them. A
    # player who is marked gets nothing more, so the one with the longer way to the last heir began first.
    merges = sorted(heirs.items(), key=lambda merge: -_merges_after(heirs, merge[0]))
    return [*(Removal(*merge) for merge in merges), *(Removal(*row) for row in connection.execute(erasing))]


def _merges_after(heirs: Mapping[str, str], player_id: str) -> int:
    """Return how many unfinished merges lead from a player to the last heir."""
    count = 0
    while player_id in heirs and count <= len(heirs):
        player_id, count = heirs[player_id], count + 1
    return count


def delete_player_rows(connection: Connection, removal: Removal) -> bool:
    """Delete up to DELETE_ROWS rows; return whether some are left. The row with the mark is deleted last."""
    left, values = DELETE_ROWS, {"player_id": removal.player_id}
    left -= session_tables.delete_credentials(connection, removal.player_id, left)
    if left > 0:
        session_tables.delete_logins(connection, removal.player_id)  # of a request that the mark overtook
        left -= connection.execute(_SESSIONS, values | {"rows": left}).rowcount
    if left > 0:  # one generation may have more credentials than were left
        left -= security_events.delete_player(connection, removal.player_id, left)
    if left <= 0:
        return True
    connection.execute("DELETE FROM player WHERE player_id = :player_id AND state = 'erasing'", values)
    connection.execute("DELETE FROM player_merge WHERE player_id = :player_id", values)
    return False


def require_mergeable(player_id: str, heir: Player) -> None:
    """Raise MergeRefused unless a player may be merged into the heir."""
    if player_id == heir.player_id:
        raise MergeRefused("OLD and NEW are the same player. Name two different players.")
    if heir.state == "pending":
        raise MergeRefused("NEW waits for approval. Run first: gamed players approve")


def merge_players(connection: Connection, keys: Keys, player_id: str, heir_id: str, now_ms: int) -> MergeResult:
    """Move a player's sign-in methods to the heir, and mark the player; the saves follow in later transactions.

    An heir without a display name gets the player's. After the loss of an auth.db only state.db knows the player.
    Raise PlayerUnknown if the heir does not exist.
    """
    heir = tables.find_player(connection, heir_id)
    if heir is None or heir.state == "erasing":
        raise PlayerUnknown(f"Player {heir_id} does not exist. Name another player to merge into.")
    merged = _move_methods(connection, keys, player_id, heir_id, now_ms)
    old = tables.find_player(connection, player_id)
    mark_removed(connection, player_id, now_ms)
    ways_tables.delete_codes(connection, player_id)  # indexed under this player; the heir makes new ones
    shown = tables.display_name_of(connection, keys.sealer, player_id)
    if shown is not None and tables.display_name_of(connection, keys.sealer, heir_id) is None:
        tables.set_display_name(connection, keys.sealer, heir_id, shown)
    if old is not None and old.owner:
        tables.set_owner(connection, heir_id)
    query = "INSERT INTO player_merge (player_id, heir_id, started_ms) VALUES (:player_id, :heir_id, :now_ms)"
    connection.execute(query, {"player_id": player_id, "heir_id": heir_id, "now_ms": now_ms})
    return merged


def _move_methods(connection: Connection, keys: Keys, player_id: str, heir_id: str, now_ms: int) -> MergeResult:
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
    if ways_tables.move_passkeys(connection, player_id, heir_id, now_ms):
        moved.append(PASSKEY)
    if ways_tables.count_passkeys(connection, player_id):
        left.append(PASSKEY)
    return MergeResult(tuple(moved), tuple(left))


def _move_account(connection: Connection, keys: Keys, sealed: bytes, values: dict[str, str]) -> None:
    """Move a local account; its sealed name is bound to the player's row, so it is sealed again."""
    name = keys.sealer.unseal(Purpose.ACCOUNT_NAME, values["player_id"], sealed)
    query = """
        UPDATE local_account SET player_id = :heir_id, sealed_name = :sealed_name WHERE player_id = :player_id
    """
    connection.execute(query, values | {"sealed_name": keys.sealer.seal(Purpose.ACCOUNT_NAME, values["heir_id"], name)})


BLOCKED_COLUMNS = {
    "player": (
        "player_id",
        "state",
        "approved",
        "sealed_note",
        "sealed_display_name",
        "created_ms",
        "last_sign_in_ms",
    ),
    "identity": ("identity_index", "player_id", "provider", "realm_index", "linked_ms", "last_used_ms"),
    "local_account": ("name_index", "player_id", "sealed_name", "password", "linked_ms", "last_used_ms"),
}
"""The columns by which the server recognizes a blocked player; the player's own row comes first."""


class BlockedPlayers(Struct, frozen=True):
    """The blocked players of the auth.db that a restore replaces."""

    check_value: bytes | None
    """The check value of the key that indexed and sealed the rows."""
    rows: Mapping[str, Sequence[tuple[Any, ...]]]


NO_BLOCKED_PLAYERS = BlockedPlayers(None, {table: () for table in BLOCKED_COLUMNS})


def blocked_players(connection: Connection) -> BlockedPlayers:
    record = keyring.read_key_record(connection)
    rows = {}
    for table, columns in BLOCKED_COLUMNS.items():
        names = ", ".join(f"{table}.{column}" for column in columns)
        query = f"SELECT {names} FROM {table} JOIN player p USING (player_id) WHERE p.state = 'blocked'"
        rows[table] = connection.execute(query).fetchall()
    return BlockedPlayers(None if record is None else record.check_value, rows)


def block_again(connection: Connection, theirs: BlockedPlayers) -> int:
    """Block these players in a restored auth.db; return how many were not blocked in it.

    Players whom this auth.db does not know are inserted, if both files are written with the same key.
    """
    players = [dict(zip(BLOCKED_COLUMNS["player"], row, strict=True)) for row in theirs.rows["player"]]
    for each in players:  # the replaced file is newer: it knows whether the owner approved them
        connection.execute("UPDATE player SET approved = :approved WHERE player_id = :player_id", each)
    query = "UPDATE player SET state = 'blocked' WHERE player_id = :player_id AND state IN ('active', 'pending')"
    kept = sum(connection.execute(query, each).rowcount for each in players)
    record = keyring.read_key_record(connection)
    if record is None or record.check_value != theirs.check_value:
        return kept
    for table, columns in BLOCKED_COLUMNS.items():
        names, places = ", ".join(columns), ", ".join(f":{name}" for name in columns)
        insert = f"INSERT INTO {table} ({names}) VALUES ({places}) ON CONFLICT DO NOTHING"
        known = [dict(zip(columns, row, strict=True)) for row in theirs.rows[table]]
        added = sum(connection.execute(insert, each).rowcount for each in known)
        kept += added if table == "player" else 0
    return kept


def replace_password(connection: Connection, player_id: str, password: str, now_ms: int) -> None:
    """Set the password of an account, and end its reset links and all its sessions; `password` is argon2id as PHC."""
    tables.set_password(connection, player_id, password, now_ms)
    link_tables.end_reset_links(connection, player_id, now_ms)
    session_tables.revoke_all(connection, player_id, now_ms)


def sign_out_all(connection: Connection, now_ms: int) -> int:
    """End every session and delete every login; return how many sessions had neither ended nor expired."""
    alive = "SELECT count(*) FROM session WHERE revoked_ms IS NULL AND expires_ms > :now_ms"
    ((count,),) = connection.execute(alive, {"now_ms": now_ms}).fetchall()
    connection.execute(f"{session_tables.END_SESSIONS} WHERE revoked_ms IS NULL", {"now_ms": now_ms})
    # The attempts of a login are deleted with it; a link that was used since the backup would be valid again. Used
    # challenges of passkeys stay as they were: one that was used since is accepted again within its ten minutes, but
    # only in the same browser, or login, and from a copy of the response. A recovery code that was used or made void
    # since would sign in again, so all are deleted.
    for table in ("browser_session", "login", "limit_bucket", "invite", "reset_link", "owner_code", "recovery_code"):
        connection.execute(f"DELETE FROM {table}")
    return int(count)
