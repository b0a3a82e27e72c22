"""`gamed restored` finishes a restore that other tools made: no session and no version of a save may exist twice."""

from collections.abc import Iterator
from functools import partial
from secrets import token_bytes

import click

from gamed.account import store as player_store
from gamed.account.store import NO_BLOCKED_PLAYERS, BlockedPlayers
from gamed.cli import keys
from gamed.cli.context import CommandContext, OfflineDatabases, reports_json
from gamed.cli.interrupt import may_change
from gamed.cli.output import counted
from gamed.cli.service.folder_lock import Lock
from gamed.clock import now_ms
from gamed.database.connection import AUTH, STATE, Connection
from gamed.database.security_events import add_command
from gamed.database.store import Store
from gamed.saves.tables import renew_epochs


@click.command()
@reports_json
def restored(context: CommandContext) -> None:
    """Finish a restore that was made without `gamed restore`, such as by Litestream, pg_restore or a provider.

    No server may use the databases. Every player must sign in again, and every game reads all saves again. Players
    keep the states that the restored databases have. A server on PostgreSQL refuses to start before this was done.
    """
    files = context.open_keyless()
    files.require(AUTH)
    lock = Lock.acquire(files.data, "gamed restored")
    may_change()
    with keys.database_errors(files.store, AUTH), files.store.alone():
        sessions, _ = _finish(files)
    lock.release()
    context.report({"sessions_ended": sessions}, _lines(sessions))


def _finish(files: OfflineDatabases) -> tuple[int, int]:
    for database in (AUTH, STATE):
        with keys.database_errors(files.store, database):
            files.store.prepare(database, partial(click.echo, err=True), lambda: None, migrate=True)
    files.write_state(lambda connection: finish_state(files.store, connection))
    return files.write_auth(
        lambda connection: finish_auth(files.store, connection, NO_BLOCKED_PLAYERS, "restored", files.ran_by)
    )


def finish_state(store: Store, connection: Connection) -> None:
    """Let all games read all saves of a restored `state` again."""
    renew_epochs(connection, token_bytes)
    store.accept_restored(connection, STATE, now_ms())


def finish_auth(
    store: Store, connection: Connection, blocked_now: BlockedPlayers, command: str, ran_by: str
) -> tuple[int, int]:
    """End all sessions of a restored `auth`; return how many there were, and how many players stay blocked."""
    sessions = player_store.sign_out_all(connection, now_ms())
    blocked = player_store.block_again(connection, blocked_now)
    add_command(connection, command, None, ran_by, now_ms())
    store.accept_restored(connection, AUTH, now_ms())
    return sessions, blocked


def _lines(sessions: int) -> Iterator[str]:
    yield f"{counted(sessions, 'session')} ended. Every player must sign in again."
    yield "Players who were blocked or erased after the backup was made are back. Block or erase them again."
    yield "Start the service now."
