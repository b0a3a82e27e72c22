"""A PostgreSQL store is backed up as one dump of both schemas; a restore replaces both in one transaction."""

from collections.abc import Callable
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click
from msgspec import Struct
from msgspec.structs import replace

from gamed.account import store as player_store
from gamed.account.store import NO_BLOCKED_PLAYERS, BlockedPlayers
from gamed.cli.data.restored import finish_auth, finish_state
from gamed.cli.errors import CommandFailed, warn
from gamed.cli.terminal import bar
from gamed.database.backup_format import DumpContents
from gamed.database.connection import AUTH, STATE, Connection
from gamed.database.errors import DatabaseError, DatabaseUnavailable, MigrationError
from gamed.database.postgresql import dump
from gamed.database.postgresql.migrations import REPLACED
from gamed.database.store import Store
from gamed.players.keyring import KeyRecord, read_key_record

if TYPE_CHECKING:
    from gamed.database.postgresql.store import PostgresqlStore


def write_dump(store: Store, target: Path) -> tuple[KeyRecord | None, DumpContents]:
    """Write both schemas into a new file, while servers use them, and read it again.

    Return the contents, and the record of the key, without its check value. Raise BackupError or DatabaseError.
    """
    theirs = cast("PostgresqlStore", store)
    with bar("dumping the schemas", sum(store.sizes().values())) as shown:

        def transaction(connection: Connection) -> tuple[KeyRecord | None, DumpContents]:
            ring = read_key_record(connection)
            contents = dump.dump(connection, theirs.address, target, lambda: _show_size(target, shown))
            return None if ring is None else replace(ring, check_value=b""), contents

        # Of any schema: the backup before a change of the schemas is made by the gamed that will make that change.
        found = store.read_unchanged(AUTH, transaction)
    if found is None:
        raise DatabaseUnavailable(store.not_found(AUTH))
    ring, contents = found
    dump.verify(target, contents)
    return ring, contents


def _show_size(target: Path, shown: Callable[[int], object]) -> None:
    if target.exists():
        shown(target.stat().st_size)


class ReplacedSchemas(Struct, frozen=True):
    """The result of a restore."""

    aside: tuple[str, ...]
    """The names of the previous schemas."""
    sessions: int
    blocked: int


def replace_schemas(store: Store, path: Path, written_by: int, instant: str, ran_by: str) -> ReplacedSchemas:
    """Put the schemas of a dump in the place of those of the store, whose names get the instant.

    No server may use the store. `written_by` is the version of pg_dump. Raise BackupError or DatabaseError before
    anything has changed; if the last steps fail, servers refuse to start until `gamed restored` has done them.
    """
    with store.alone():
        blocked_now = _blocked(store)
        names = {database: f"{database}{REPLACED}{instant}" for database in (AUTH, STATE) if store.exists(database)}
        renaming = [f"ALTER SCHEMA {database} RENAME TO {name}" for database, name in names.items()]
        major = int("".join(takewhile(str.isdigit, store.version)))
        dump.load(cast("PostgresqlStore", store).address, path, max(written_by, major), renaming)
        try:
            sessions, blocked = _finish(store, blocked_now, ran_by)
        except (DatabaseError, MigrationError) as e:
            reason = str(e.__cause__ or e).removesuffix(".")
            raise CommandFailed(
                f"The schemas come from the backup, but the restore is not finished: {reason}. Run: gamed restored"
            ) from None
    return ReplacedSchemas(tuple(names.values()), sessions, blocked)


def _finish(store: Store, blocked_now: BlockedPlayers, ran_by: str) -> tuple[int, int]:
    for database in (AUTH, STATE):
        store.prepare(database, partial(click.echo, err=True), lambda: None, migrate=True)
    store.run_transaction(STATE, lambda connection: finish_state(store, connection))
    return store.run_transaction(
        AUTH, lambda connection: finish_auth(store, connection, blocked_now, "restore", ran_by)
    )


def _blocked(store: Store) -> BlockedPlayers:
    """Return the players whom the present schema blocks; none, with a warning, if it cannot be read."""
    try:
        return store.read_unchanged(AUTH, player_store.blocked_players) or NO_BLOCKED_PLAYERS
    except DatabaseError as e:
        warn(f"the blocked players cannot be read ({e}). Block them again; see: gamed players list")
        return NO_BLOCKED_PLAYERS
