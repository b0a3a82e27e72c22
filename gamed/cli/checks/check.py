"""`gamed check data` checks both databases from end to end and repairs wrong counts."""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from secrets import token_bytes

import click

from gamed.cli import keys
from gamed.cli.context import CommandContext, OfflineDatabases, reports_json
from gamed.cli.errors import CommandFailed
from gamed.cli.output import counted
from gamed.cli.service.folder_lock import Lock
from gamed.cli.setup.config import check_config
from gamed.cli.terminal import GOOD, painted, steps_shown
from gamed.database import blob_rows
from gamed.database.connection import AUTH, STATE, Connection
from gamed.database.errors import BlobCorrupt, BlobNotFound, DatabaseCorrupt
from gamed.database.store import Run, Store
from gamed.ops.machine import damage_steps
from gamed.saves import integrity
from gamed.saves.model import new_epoch

DAMAGED = "damaged bytes"


class CheckGroup(click.Group):
    """The group `check`, once a command with options: the error without a command names the one that has them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing and (not args or args[0] in {"--fix", "--json"}):
            other = "" if args else f", or: {ctx.command_path} config"
            raise click.UsageError(f"Missing command. Use: {' '.join([ctx.command_path, 'data', *args])}{other}", ctx)
        return super().parse_args(ctx, args)


@click.group(cls=CheckGroup, commands=[check_config])
def check() -> None:
    """Check the configuration, or the stored data."""


@check.command(short_help="Check both databases from end to end.")
@click.option("--fix", is_flag=True, help="Repair wrong counts; the service must not run.")
@reports_json
def data(context: CommandContext, fix: bool) -> None:
    """Check both databases from end to end: their structure, the stored counts, and the hash of every save.

    The exit code is 0 if there are no errors, else 1, with a line for each error. While the service runs, the check
    takes longer.
    """
    files = context.open_keyless()
    lock = Lock.acquire(files.data, "gamed check data --fix") if fix else None
    for database in (AUTH, STATE):
        with keys.database_errors(files.store, database):
            files.store.check_schema(database)  # as a start does; the statements of the checks need every table
    with files.store.alone() if fix else nullcontext():
        repaired, found = 0, [*_structure(files, AUTH), *_structure(files, STATE)]
        if not found:  # a damaged file is not written to
            repaired = files.write_state(partial(integrity.repair, epoch=new_epoch(token_bytes))) if fix else 0
            with keys.database_errors(files.store, STATE), files.store.open_reader(STATE) as run:
                found = find_in_saves(run)
    if lock is not None:
        lock.release()
    text = [f"{repaired} counts repaired"] if repaired else []
    context.report(
        {"errors": found, "repaired": repaired},
        text if found else [*text, painted("no errors", GOOD), *_unchecked(files)],
    )
    if found:
        shown = [] if context.as_json else found
        raise CommandFailed("\n".join([*shown, counted(len(found), "error"), *_advice(found, files.store, fix=fix)]))


def _unchecked(files: OfflineDatabases) -> list[str]:
    with files.store.open_reader(STATE) as run:
        text = run(files.store.unchecked)
    return [] if text is None else [text]


def _advice(found: Sequence[str], store: Store, *, fix: bool) -> Iterator[str]:
    counts = tuple(each.description for each in integrity.CHECKS if each.repair)
    if not fix and any(error.startswith(counts) for error in found):
        yield "To repair wrong counts, stop the service and run: gamed check data --fix"
    if any(error.startswith(DAMAGED) for error in found):
        yield (
            "Damaged bytes are repaired when the game saves the same bytes again. Otherwise make another version "
            f"current (gamed saves versions, gamed saves restore), or restore {store.name(STATE)} from a backup."
        )


def _structure(files: OfflineDatabases, database: str) -> list[str]:
    store, name = files.store, files.store.name(database)
    files.require(database)
    with keys.database_errors(store, database):
        try:
            with store.open_reader(database) as run, steps_shown(damage_steps(store, database, run), name) as steps:
                return [finding.text for step in steps for finding in step()]
        except DatabaseCorrupt as e:
            return [f"{name}: {e}"]


def find_in_saves(run: Run) -> list[str]:
    """Return a line for each wrong count of `state`, and for each save whose bytes do not have their hash."""
    found: list[str] = []
    with steps_shown(integrity.CHECKS, "counts") as checks:
        for each in checks:
            found += run(partial(integrity.find_errors, check=each))
    with steps_shown(_damaged(run), "saves", run(integrity.count_blobs)) as blobs:
        for users in blobs:
            found += [f"{DAMAGED}: {user}" for user in users]
    return found


def _damaged(run: Run) -> Iterator[list[str]]:
    """Yield for each blob the versions whose bytes are damaged, mostly none; each read checks many blobs."""
    last = 0
    while blobs := run(partial(integrity.blobs_after, blob_id=last)):
        yield from run(partial(_users_of, blobs=blobs))
        last = blobs[-1]


def _users_of(connection: Connection, blobs: Sequence[int]) -> list[list[str]]:
    return [_users(connection, blob_id) for blob_id in blobs]


def _users(connection: Connection, blob_id: int) -> list[str]:
    try:
        blob_rows.check(connection, blob_id)
    except BlobNotFound:  # deleted since
        return []
    except BlobCorrupt:
        return integrity.users_of(connection, blob_id) or [f"blob {blob_id}, which no version has"]
    return []
