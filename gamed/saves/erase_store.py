"""Transactions that erase a player's saves, or merge them into another player's.

An erase counts at once; then the rows are deleted step by step. Meanwhile nothing can be written: a request that began
before or during the erase gets `erased`. At the end the epoch changes once more, so that clients that read meanwhile
begin again. The player's row of `player_saves` stays: it shows a late upload, and an old cursor, that their saves were
erased. If the player is deleted, it is an id that nothing else has any more, the new epoch and the time. Cleanup
deletes it after DELETED_DAYS: no upload is so late, and a cursor needs a token of the player.

A merge moves rows in steps (merge_store); then what is left is erased.

See docs/owners/players.md: Erasing; docs/protocol.md: Saves.
"""

from collections.abc import Sequence
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING

from gamed.crypto import Random
from gamed.database.connection import Connection
from gamed.saves import blob_tables, merge_store, tables, version_tables
from gamed.saves.commands import EraseCommand
from gamed.saves.merge_store import Merge
from gamed.saves.model import Cursor, new_epoch
from gamed.saves.write_rules import DeleteDecision, decide_erase
from gamed.structs import Component
from gamed.timestamps import Now

if TYPE_CHECKING:  # commands write rows without the queues, which need Twisted
    from gamed.database.databases import Databases

ERASE_VERSIONS = 64
ERASE_SLOTS = 256
"""Deleted by one transaction."""
DELETED_DAYS = 30
"""How long the row of a deleted player stays in `player_saves`; an upload takes a day at most."""
CHECKED_PLAYERS = 512
"""One call of the cleanup looks for rows of deleted players among so many: no index has them, and there may be many."""
DELETED_PLAYERS = 64
"""One transaction deletes so many of these rows."""


class MergeStep(Enum):
    """The outcome of one transaction of a merge."""

    MORE = "more"
    HEIR_ERASING = "heir_erasing"
    """Nothing was done, because an erase of the heir's own saves would erase the new ones; it has to end first."""
    DONE = "done"
    """The player has nothing left but what is to be erased, and that has begun."""


class EraseStore(Component, frozen=True, kw_only=True):
    """The SaveRemoval of gamed.account.service, and the transactions of gamed.saves.erase, in state.db."""

    databases: "Databases"
    random: Random
    now_ms: Now

    async def check_writable(self) -> None:
        await self.databases.state.submit(lambda connection: None, keys=())

    async def erase(self, player_id: str, now_ms: int) -> None:
        epoch = new_epoch(self.random)
        begin = partial(begin_erase, player_id=player_id, epoch=epoch, now_ms=now_ms)
        await self.databases.state.submit(begin, keys=(player_id,))
        await self.finish(player_id)

    async def merge(self, player_id: str, heir_id: str, now_ms: int) -> None:
        epochs = new_epoch(self.random), new_epoch(self.random)
        transaction = partial(merge_saves, merge=Merge(player_id, heir_id, epochs, now_ms))
        while (step := await self.databases.state.submit(transaction, keys=(player_id, heir_id))) is not MergeStep.DONE:
            if step is MergeStep.HEIR_ERASING:
                await self.finish(heir_id)
        await self.finish(player_id)

    async def begin(self, command: EraseCommand) -> tuple[DeleteDecision, Cursor]:
        return await self.databases.state.submit(partial(begin_erase_if, command=command), keys=(command.player_id,))

    async def finish(self, player_id: str) -> bool:
        """Delete what is left of an erase that has begun: rows in small transactions, then their bytes.

        Return whether this ended the erase.
        """
        state = self.databases.state
        step = partial(erase_step, player_id=player_id, epoch=new_epoch(self.random), now_ms=self.now_ms)
        while more := await state.submit(step):  # without keys: after a merge the heir owns bytes of these versions
            pass
        while (blob_id := await state.submit(partial(unreferenced, player_id=player_id), keys=())) is not None:
            await self.databases.blobs.discard(blob_id, player_id)
        self.clear_logs()
        return more is False

    def clear_logs(self) -> None:
        """Let the write-ahead logs lose what was erased, soon after this returns."""
        self.databases.clear_logs()


def begin_erase(connection: Connection, player_id: str, epoch: str, now_ms: int) -> None:
    """Let the saves count as erased; insert the player's row if there is none, as a first save may be on its way."""
    query = """
        INSERT INTO player_saves (player_id, epoch, erased_ms, erasing) VALUES (:player_id, :epoch, :now_ms, 1)
        ON CONFLICT (player_id) DO UPDATE
        SET epoch = excluded.epoch, seq = player_saves.seq + 1, slots = 0, live_bytes = 0, kept_bytes = 0,
            deleted_slots = 0, erased_ms = excluded.erased_ms, erasing = 1
    """
    connection.execute(query, {"player_id": player_id, "epoch": epoch, "now_ms": now_ms})


def begin_erase_if(connection: Connection, command: EraseCommand) -> tuple[DeleteDecision, Cursor]:
    """Begin an erase if its condition allows it; return the decision and the cursor before it."""
    summary, values = tables.find_player(connection, command.player_id), {"player_id": command.player_id}
    ((kept,),) = connection.execute("SELECT EXISTS (SELECT 1 FROM save WHERE player_id = :player_id)", values)
    decision = decide_erase(summary, command.condition, empty=not kept)
    if decision is DeleteDecision.DELETES:
        begin_erase(connection, command.player_id, command.new_epoch, command.now_ms)
    return decision, summary.cursor


def unfinished_erase(connection: Connection) -> str | None:
    """Return a player whose erase has begun and not ended."""
    query = "SELECT player_id FROM player_saves WHERE erasing = 1"
    row = connection.execute(query).fetchone()
    return None if row is None else str(row[0])


def erase_step(connection: Connection, player_id: str, epoch: str, now_ms: Now) -> bool | None:
    """Delete some rows of a player whose saves are being erased.

    Return True while there are more, False after the last step, which draws the new epoch and allows writes again, and
    None without doing anything when nothing is being erased, or another caller has ended it.
    """
    if not tables.find_player(connection, player_id).erasing:
        return None
    values = {"player_id": player_id, "versions": ERASE_VERSIONS, "slots": ERASE_SLOTS}
    query = f"SELECT {version_tables.VERSION_COLUMNS} FROM save_version WHERE player_id = :player_id LIMIT :versions"
    rows = connection.execute(query, values).fetchall()
    for version in map(version_tables.version_from_row, rows):
        version_tables.delete_version(connection, player_id, version.slot, version.version)
        if version.blob_id is not None:
            blob_tables.remove_reference(connection, version.blob_id)
    if rows:
        return True
    some = "(SELECT slot FROM save WHERE player_id = :player_id LIMIT :slots)"
    deleted = connection.execute(f"DELETE FROM save WHERE player_id = :player_id AND slot IN {some}", values).rowcount
    if deleted == ERASE_SLOTS:
        return True
    # From now on `erased_ms` is the end of the erase, because a write that authenticates its token in its transaction
    # does not know the epoch at its beginning. The clock is read here, since requests begin while this step waits.
    query = """
        UPDATE player_saves SET epoch = :epoch, seq = seq + 1, erasing = 0,
            erased_ms = CASE WHEN erased_ms < :ended_ms THEN :ended_ms ELSE erased_ms END
        WHERE player_id = :player_id
    """
    connection.execute(query, {"player_id": player_id, "epoch": epoch, "ended_ms": now_ms()})
    return False


def erased_players(connection: Connection, after: str, before_ms: int) -> tuple[Sequence[str], str | None]:
    """Return the next players without any saves whose erase ended before an instant, of CHECKED_PLAYERS rows.

    Return also the last of these rows, None if there are no more.
    """
    query = """
        SELECT player_id, erasing = 0 AND slots = 0 AND deleted_slots = 0 AND coalesce(erased_ms < :before_ms, 1 = 0)
        FROM player_saves WHERE player_id > :after ORDER BY player_id LIMIT :players
    """
    values = {"after": after, "before_ms": before_ms, "players": CHECKED_PLAYERS}
    rows = connection.execute(query, values).fetchall()
    last = rows[-1][0] if len(rows) == CHECKED_PLAYERS else None
    return [player_id for player_id, erased in rows if erased], last


def delete_players(connection: Connection, player_ids: Sequence[str], before_ms: int) -> None:
    """Delete the rows of players who do not exist any more, except those that have saves after all.

    A player without a row in auth.db can have saves: after auth.db was lost, `gamed players merge` gives them to
    another. `player_ids` are DELETED_PLAYERS at most.
    """
    marks = ", ".join("?" * DELETED_PLAYERS)  # always so many, the last one repeated: one statement to prepare
    query = f"""
        DELETE FROM player_saves WHERE player_id IN ({marks}) AND erasing = 0 AND erased_ms < ?
            AND NOT EXISTS (SELECT 1 FROM save s WHERE s.player_id = player_saves.player_id)
            AND NOT EXISTS (SELECT 1 FROM save_version v WHERE v.player_id = player_saves.player_id)
    """
    connection.execute(query, (*player_ids, *[player_ids[-1]] * (DELETED_PLAYERS - len(player_ids)), before_ms))


def unreferenced(connection: Connection, player_id: str) -> int | None:
    """Return a blob of erased saves: it has no references, and was not staged after the erase."""
    query = """
        SELECT b.blob_id FROM blob b JOIN player_saves h USING (player_id)
        WHERE player_id = :player_id AND sha256 IS NOT NULL AND refs = 0 AND created_ms <= erased_ms LIMIT 1
    """
    row = connection.execute(query, {"player_id": player_id}).fetchone()
    return None if row is None else int(row[0])


def merge_saves(connection: Connection, merge: Merge) -> MergeStep:
    """Give some of a player's saves to another player; repeatable, because what is left counts as erased at the end."""
    if tables.find_player(connection, merge.player_id).erasing:
        return MergeStep.DONE
    if tables.find_player(connection, merge.heir_id).erasing:
        return MergeStep.HEIR_ERASING
    tables.create_player(connection, merge.heir_id, merge.epochs[1])
    if merge_store.move_rows(connection, merge):
        return MergeStep.MORE
    merge_store.end_writes(connection, merge)
    begin_erase(connection, merge.player_id, merge.epochs[0], merge.now_ms)
    return MergeStep.DONE


def slots_of(connection: Connection, player_id: str) -> list[str]:
    """Return the player's slots, deleted ones included."""
    query = "SELECT slot FROM save WHERE player_id = :player_id ORDER BY slot"
    return [slot for (slot,) in connection.execute(query, {"player_id": player_id})]
