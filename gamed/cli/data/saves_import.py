"""`gamed saves import` writes the saves of an export beside the running service.

See docs/owners/moving-in.md: What the player sees.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from hashlib import sha256
from pathlib import Path
from secrets import token_bytes
from shutil import disk_usage
from tempfile import TemporaryFile
from typing import BinaryIO, cast

import click
from msgspec import Struct
from msgspec.structs import replace

from gamed.cli.context import CommandContext, OfflineDatabases, read_game_settings, reports_json
from gamed.cli.data.save_archive import PART_BYTES, Archive, ArchivedSave, open_archive
from gamed.cli.errors import CommandFailed
from gamed.cli.output import counted, who_argument
from gamed.cli.terminal import steps_shown
from gamed.clock import now_ms
from gamed.config.game import SaveLimits
from gamed.database import blob_rows
from gamed.database.connection import Connection
from gamed.database.errors import BlobCorrupt, BlobNotFound
from gamed.players.tables import find_player
from gamed.readable import size
from gamed.saves import tables, write_store
from gamed.saves.commands import BytesMissing, WriteCommand, WriteContext, WriteResult
from gamed.saves.errors import SaveError
from gamed.saves.model import SaveContent, new_epoch
from gamed.saves.validation import check_media_type, check_meta
from gamed.saves.write_rules import WRITES, Condition, ConditionKind, WriteDecision

ATTEMPTS = 4
"""The bytes may be deleted or stored by a game between two transactions, as for gamed.saves.service.ATTEMPTS."""


class SaveToImport(Struct, frozen=True):
    """A save of the export with the description of its bytes, all of which were read once."""

    archived: ArchivedSave
    content: SaveContent


@click.command("import", short_help="Write the saves of an export to a player.")
@who_argument
@click.argument("source", metavar="EXPORT", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Only print what would be written.")
@reports_json
def import_(context: CommandContext, who: str, source: Path, dry_run: bool) -> None:
    """Write the saves of EXPORT to a player: a ZIP file of `gamed saves export`, or a folder with its files.

    It writes the version of each save that was current. If the player has no such save, that version becomes current.
    If another version is current, it becomes a conflict copy, and the player chooses in the game or on the account
    page. The limits of game.json hold.
    """
    files, player_id = context.open_for(who)
    limits = read_game_settings(context.places()).saves
    _check_player(files, player_id)
    with open_archive(source) as archive:
        saves = list(_described(archive, limits))
        _check_room(files, limits, saves)
        importer = Importer.of(files, player_id, limits)
        if not dry_run:
            files.write_auth(lambda connection: files.record(connection, "saves import", player_id))
        with steps_shown(saves, "importing") as shown:
            done = [(each, importer.preview(each) if dry_run else importer.write(archive, each)) for each in shown]
    refused = [each.archived.slot for each, outcome in done if _result(outcome) == "refused"]
    members = [_members(each, outcome) for each, outcome in done]
    report = {"player": player_id, "dry_run": dry_run, "saves": members, "older": archive.older}
    context.report(report, _lines(done, archive.older, dry_run=dry_run), indent=2)
    if refused:
        raise CommandFailed(f"These saves were not imported: {', '.join(refused)}")


def _check_player(files: OfflineDatabases, player_id: str) -> None:
    player = files.read_auth(lambda connection: find_player(connection, player_id))
    if player is None or player.state == "erasing":
        raise CommandFailed(f"There is no player {player_id}. See: gamed players list")


def _described(archive: Archive, limits: SaveLimits) -> Iterator[SaveToImport]:
    """Read all bytes once, so that nothing is written of an export that is damaged or too large."""
    if len(archive.saves) > limits.slots:
        raise CommandFailed(
            f"The export has {counted(len(archive.saves), 'save')}, and a player may have {limits.slots} (slots in "
            "game.json). Nothing was changed."
        )
    total = 0
    for save in archive.saves:
        digest, length, blank = sha256(), 0, True
        for part in archive.read(save):
            digest.update(part)
            length, total = length + len(part), total + len(part)
            blank = blank and not part.strip(b"\0")
            if length > limits.save_bytes:
                raise _refused(save, f"has more than {size(limits.save_bytes)} (save_bytes in game.json)")
            if total > limits.bytes:
                raise _refused(save, f"and those before it have more than {size(limits.bytes)} (bytes in game.json)")
        if blank and not limits.allow_blank_saves:
            raise _refused(save, "is empty or all zeros, as after a crash (allow_blank_saves in game.json)")
        meta = None if save.meta is None else json.dumps(save.meta, separators=(",", ":"))
        try:
            media_type, meta = check_media_type(save.content_type), check_meta(meta, limits.meta_bytes)
        except SaveError as e:
            raise CommandFailed(f"{save.name}: {e} Nothing was changed.") from None
        yield SaveToImport(save, SaveContent(digest.digest(), length, media_type, meta))


def _refused(save: ArchivedSave, flaw: str) -> CommandFailed:
    return CommandFailed(f"{save.name} {flaw}. Nothing was changed.")


def _check_room(files: OfflineDatabases, limits: SaveLimits, saves: list[SaveToImport]) -> None:
    """Raise CommandFailed if the disk would have less room than the server leaves free; PostgreSQL has its own."""
    if not files.store.files:
        return
    needed, free = sum(each.content.size for each in saves), disk_usage(files.data).free
    if free - needed < limits.min_free_bytes:
        raise CommandFailed(
            f"{files.data} has {size(free)} free. The import needs {size(needed)}, and min_free_bytes in game.json is "
            f"{size(limits.min_free_bytes)}. Nothing was changed."
        )


class Importer(Struct, frozen=True):
    """Writes saves of one player by the rules of a PUT with `If-None-Match: *`, each in a transaction of its own.

    So a save that the player has already is never replaced: other bytes become a conflict copy.
    """

    files: OfflineDatabases
    limits: SaveLimits
    entry: WriteContext
    new_epoch: str

    @classmethod
    def of(cls, files: OfflineDatabases, player_id: str, limits: SaveLimits) -> "Importer":
        epoch = files.read_state(lambda connection: tables.find_player(connection, player_id)).cursor.epoch
        entry = WriteContext(player_id, epoch)
        return cls(files, replace(limits, writes_per_minute=0), entry, new_epoch(token_bytes))

    def preview(self, save: SaveToImport) -> WriteDecision:
        """Return what the rules would decide now; the player's limits are only checked by the write."""
        command = self._command(save)
        _, state = self.files.read_state(
            lambda connection: tables.load_slot(connection, command.context.player_id, command.slot)
        )
        return self.files.read_state(lambda connection: write_store.decide(connection, command, state))

    def write(self, archive: Archive, save: SaveToImport) -> WriteResult | SaveError:
        """Write a save; raise CommandFailed if its bytes are not those that were read before."""
        with ExitStack() as opened:
            command, blob = self._command(save), None
            spool = cast(BinaryIO, opened.enter_context(TemporaryFile(dir=self.files.data)))
            _copy(archive, save, spool)
            if save.content.size <= PART_BYTES:
                spool.seek(0)
                command = replace(command, data=spool.read())
            for _ in range(ATTEMPTS):
                outcome = self.files.write_state(partial(self._transaction, command=command))
                if not isinstance(outcome, BytesMissing):
                    return outcome
                if outcome.known_blob is not None and self.files.read_state(
                    partial(_is_intact, blob=outcome.known_blob)
                ):
                    command = replace(command, checked_blob=outcome.known_blob)
                elif blob is None:
                    blob = self._append(spool, save.content.size)
                    opened.callback(self._discard, blob)
                    command = replace(command, appended_blob=blob)
        raise CommandFailed(f"A game is writing {save.archived.slot}. Run this again in a moment.")

    def _command(self, save: SaveToImport) -> WriteCommand:
        absent = Condition(ConditionKind.ABSENT)
        return WriteCommand(self.entry, save.archived.slot, absent, save.content, now_ms(), self.new_epoch)

    def _transaction(self, connection: Connection, command: WriteCommand) -> WriteResult | BytesMissing | SaveError:
        return write_store.write_save(connection, self.limits, command)

    def _append(self, spool: BinaryIO, length: int) -> int:
        """Store bytes as a blob that no version has yet, in short transactions; a later cleanup deletes a leftover."""
        blob = self.files.write_state(
            partial(blob_rows.begin, player_id=self.entry.player_id, size=length, now_ms=now_ms())
        )
        for first in range(0, blob_rows.count(length), blob_rows.STEP_PARTS):
            self.files.write_state(partial(blob_rows.append, blob_id=blob, spool=spool, first=first))
        return blob

    def _discard(self, blob: int) -> None:
        """Delete the blob unless a version has it."""
        while self.files.write_state(partial(blob_rows.delete_parts, blob_id=blob)):
            pass


def _is_intact(connection: Connection, blob: int) -> bool:
    try:
        blob_rows.check(connection, blob)
    except (BlobCorrupt, BlobNotFound):
        return False
    return True


def _copy(archive: Archive, save: SaveToImport, spool: BinaryIO) -> None:
    digest, length = sha256(), 0
    for part in archive.read(save.archived):
        digest.update(part)
        spool.write(part)
        if (length := length + len(part)) > save.content.size:
            break
    if digest.digest() != save.content.sha256:
        raise CommandFailed(f"{save.archived.name} has changed during the import. Run it again.")


Outcome = WriteResult | WriteDecision | SaveError


def _result(outcome: Outcome) -> str:
    if isinstance(outcome, SaveError) or (isinstance(outcome, WriteResult) and outcome.dropped):
        return "refused"
    decision = outcome.decision if isinstance(outcome, WriteResult) else outcome
    if decision.rule in WRITES:
        return "written"
    return "copy" if decision.stores_copy else "there"


def _reason(outcome: Outcome) -> str:
    return str(outcome) if isinstance(outcome, SaveError) else "The player's history has no room for it."


def _members(save: SaveToImport, outcome: Outcome) -> dict[str, object]:
    return {
        "slot": save.archived.slot,
        "from_version": save.archived.number,
        "bytes": save.content.size,
        "result": _result(outcome),
        **({"reason": _reason(outcome)} if _result(outcome) == "refused" else {}),
    }


def _lines(done: list[tuple[SaveToImport, Outcome]], older: int, *, dry_run: bool) -> Iterator[str]:
    words = {
        "written": "would be written" if dry_run else "is written",
        "copy": "would be kept as a conflict copy" if dry_run else "is kept as a conflict copy",
        "there": "is there already",
        "refused": "is left out",
    }
    for save, outcome in done:
        reason = f": {_reason(outcome)}" if _result(outcome) == "refused" else ""
        yield f"{save.archived.slot} ({size(save.content.size)}) {words[_result(outcome)]}{reason}"
    if older:
        yield f"{counted(older, 'other version')} of the export left out"
    if dry_run:
        yield "nothing was changed (--dry-run)"
    elif not done:
        yield "the export has no saves"
