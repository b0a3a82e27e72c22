"""A player's saves erased: counted as gone at once, then row by row (PROTOCOL 4).

While rows are going nothing can be written: a request that began before, or meanwhile, is told `erased`. At the end
the epoch is drawn once more, so that whoever looked meanwhile starts anew. The shelf's own row stays, also of a player
who is erased altogether: an id that nothing else has any more, the new epoch and the time. By it an upload on its way
knows that it comes too late, and an old cursor that its past is gone.

One player's saves given to another, in one transaction; nothing is copied and nothing current is replaced.

Where both have a save in one slot, the heir's stays current and the other one becomes a conflict copy beside it. What
cannot be told apart from then on, that slot's older history, is erased with the rest of the shelf that was given.

Shelves that go, over the lanes: erased, or handed over (PROTOCOL 3.8, 4).
"""

from functools import partial
from sqlite3 import Connection

from gamed.crypto import Random
from gamed.database.databases import Databases
from gamed.saves import tables
from gamed.saves.erase import EraseCommand, decide_erase
from gamed.saves.limits import Usage
from gamed.saves.model import Cursor, Version, VersionKind, new_epoch
from gamed.saves.write_rules import DeleteDecision
from gamed.structs import Component

ERASE_VERSIONS = 64
ERASE_SLOTS = 256
"""Forgotten by one unit."""


def begin_erase(connection: Connection, player_id: str, epoch: str, now_ms: int) -> None:
    """From now on the shelf counts as empty; made where there is none, for a first save may be under way."""
    query = """
        INSERT INTO player_saves (player_id, epoch, erased_ms, erasing) VALUES (:player_id, :epoch, :now_ms, 1)
        ON CONFLICT (player_id) DO UPDATE
        SET epoch = :epoch, seq = seq + 1, slots = 0, live_bytes = 0, kept_bytes = 0, erased_ms = :now_ms, erasing = 1
    """
    connection.execute(query, {"player_id": player_id, "epoch": epoch, "now_ms": now_ms})


def begin_erase_if(connection: Connection, command: EraseCommand) -> tuple[DeleteDecision, Cursor]:
    """The same, if the shelf is as its player saw it; -> what was judged, and where the shelf stood."""
    summary, values = tables.find_player(connection, command.player_id), {"player_id": command.player_id}
    ((kept,),) = connection.execute("SELECT EXISTS (SELECT 1 FROM save WHERE player_id = :player_id)", values)
    decision = decide_erase(summary, command.condition, empty=not kept)
    if decision is DeleteDecision.DELETES:
        begin_erase(connection, command.player_id, command.new_epoch, command.now_ms)
    return decision, summary.cursor


def unfinished_erasures(connection: Connection) -> str | None:
    """A player whose erasing was broken off, or goes on."""
    query = "SELECT player_id FROM player_saves INDEXED BY player_saves_erasing WHERE erasing = 1"
    row = connection.execute(query).fetchone()
    return None if row is None else str(row[0])


def erase_step(connection: Connection, player_id: str, epoch: str) -> bool | None:
    """Delete some rows of a player whose saves are being erased.

    Return True while there are more, False after the last step, which draws the new epoch and allows writes again, and
    None without doing anything when nothing is being erased, or another caller has ended it.
    """
    if not tables.find_player(connection, player_id).erasing:
        return None
    values = {"player_id": player_id, "versions": ERASE_VERSIONS, "slots": ERASE_SLOTS, "epoch": epoch}
    query = f"SELECT {tables.VERSION_COLUMNS} FROM save_version WHERE player_id = :player_id LIMIT :versions"
    rows = connection.execute(query, values).fetchall()
    for version in map(tables.version_from_row, rows):
        tables.remove_version(connection, player_id, version.slot, version.version)
        if version.blob_id is not None:
            tables.add_references(connection, version.blob_id, -1)
    if rows:
        return True
    some = "(SELECT slot FROM save WHERE player_id = :player_id LIMIT :slots)"
    gone = connection.execute(f"DELETE FROM save WHERE player_id = :player_id AND slot IN {some}", values).rowcount
    if gone == ERASE_SLOTS:
        return True
    query = "UPDATE player_saves SET epoch = :epoch, seq = seq + 1, erasing = 0 WHERE player_id = :player_id"
    connection.execute(query, values)
    return False


def unreferenced(connection: Connection, player_id: str) -> int | None:
    """A blob of an erased shelf: no version has its bytes, and it was not staged after the erase."""
    query = """
        SELECT b.blob_id FROM blob b JOIN player_saves h USING (player_id)
        WHERE player_id = :player_id AND sha256 NOT NULL AND refs = 0 AND created_ms <= erased_ms LIMIT 1
    """
    row = connection.execute(query, {"player_id": player_id}).fetchone()
    return None if row is None else int(row[0])


def merge_saves(connection: Connection, player_id: str, heir_id: str, epochs: tuple[str, str], now_ms: int) -> bool:
    """`epochs`: of the shelf that is given away, and of the heir's if it has none yet.

    False while rows of the heir's own are being erased: they would take along what comes. Repeatable: the shelf given
    away is being erased afterwards, and gives nothing a second time.
    """
    if tables.find_player(connection, player_id).erasing:
        return True
    if tables.find_player(connection, heir_id).erasing:
        return False
    tables.create_player(connection, heir_id, epochs[1])
    _give_blobs(connection, player_id, heir_id)
    taken = {slot for (slot,) in _slots(connection, heir_id)}
    for (slot,) in _slots(connection, player_id):
        if slot in taken:
            _give_copy(connection, player_id, heir_id, slot, now_ms)
        else:
            _give_slot(connection, player_id, heir_id, slot)
    begin_erase(connection, player_id, epochs[0], now_ms)
    return True


def slots_of(connection: Connection, player_id: str) -> int:
    """How many slots a player ever wrote to that are kept."""
    return len(_slots(connection, player_id))


def _slots(connection: Connection, player_id: str) -> list[tuple[str]]:
    query = "SELECT slot FROM save WHERE player_id = :player_id ORDER BY slot"
    return connection.execute(query, {"player_id": player_id}).fetchall()


def _give_blobs(connection: Connection, player_id: str, heir_id: str) -> None:
    """The bytes change hands where they are; what the heir has too is referred to there."""
    query = "SELECT blob_id, sha256 FROM blob WHERE player_id = :player_id AND sha256 NOT NULL"
    for blob_id, sha256 in connection.execute(query, {"player_id": player_id}).fetchall():
        known = tables.find_blob(connection, heir_id, sha256)
        if known is None:
            values = {"blob_id": blob_id, "heir_id": heir_id}
            connection.execute("UPDATE blob SET player_id = :heir_id WHERE blob_id = :blob_id", values)
        elif moved := tables.move_blob(connection, blob_id, known):
            tables.add_references(connection, known, moved)
            tables.add_references(connection, blob_id, -moved)


def _give_slot(connection: Connection, player_id: str, heir_id: str, slot: str) -> None:
    head = tables.slot_state(connection, player_id, slot).current
    live = head.size if head else 0
    kept = sum(version.size for version in tables.list_versions(connection, player_id, slot)) - live
    seq, _ = tables.change_player(connection, heir_id, Usage(1 if head else 0, live, kept))
    values = {"player_id": player_id, "heir_id": heir_id, "slot": slot, "seq": seq}
    where = "WHERE player_id = :player_id AND slot = :slot"
    connection.execute(f"UPDATE save SET player_id = :heir_id, seq = :seq {where}", values)
    connection.execute(f"UPDATE save_version SET player_id = :heir_id {where}", values)


def _give_copy(connection: Connection, player_id: str, heir_id: str, slot: str, now_ms: int) -> None:
    theirs, state = tables.slot_state(connection, player_id, slot).current, tables.slot_state(connection, heir_id, slot)
    if theirs is None or theirs.content is None or theirs.blob_id is None:
        return
    if (
        state.current is not None
        and state.current.content is not None
        and state.current.content.sha256 == theirs.content.sha256
    ):
        return
    number = state.last_version + 1
    copy = Version(slot, number, None, None, VersionKind.CONFLICT, theirs.blob_id, theirs.content, now_ms, now_ms)
    tables.insert_version(connection, heir_id, copy)
    tables.add_references(connection, theirs.blob_id, +1)
    seq, _ = tables.change_player(connection, heir_id, Usage(history_bytes=copy.size))
    tables.touch_slot(connection, heir_id, slot, last_version=number, seq=seq, prune_at_ms=now_ms)


class SqliteEraseStore(Component, frozen=True):
    """gamed.players.service.SaveRemoval, and gamed.saves.erase.EraseStore."""

    _stores: Databases
    _random: Random

    async def check_writable(self) -> None:
        await self._stores.state.submit(lambda connection: None)

    async def erase(self, player_id: str, now_ms: int) -> None:
        epoch = new_epoch(self._random)
        await self._stores.state.submit(partial(begin_erase, player_id=player_id, epoch=epoch, now_ms=now_ms))
        await self.finish(player_id)

    async def merge(self, player_id: str, heir_id: str, now_ms: int) -> None:
        epochs = new_epoch(self._random), new_epoch(self._random)
        unit = partial(merge_saves, player_id=player_id, heir_id=heir_id, epochs=epochs, now_ms=now_ms)
        while not await self._stores.state.submit(unit):
            await self.finish(heir_id)
        await self.finish(player_id)

    async def begin(self, command: EraseCommand) -> tuple[DeleteDecision, Cursor]:
        return await self._stores.state.submit(partial(begin_erase_if, command=command))

    async def finish(self, player_id: str) -> bool:
        """Delete what is left of an erase that has begun: rows in small units, then the bytes they had.

        Return whether this ended the erase.
        """
        state, epoch = self._stores.state, new_epoch(self._random)
        while more := await state.submit(partial(erase_step, player_id=player_id, epoch=epoch)):
            pass
        while (blob_id := await state.submit(partial(unreferenced, player_id=player_id))) is not None:
            await self._stores.blobs.discard(blob_id)
        return more is False
