"""`gamed move-store` moves both databases from files to PostgreSQL, or back, all of them or nothing.

One transaction fills the target. It is committed once all rows were read again and are the same, and `gamed check data`
would find no error. Then the source gets another name, so that no server begins empty databases in its place.
"""

import json
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import click

from gamed.cli import paths
from gamed.cli.context import CommandContext, reports_json, require_driver
from gamed.cli.data import restore_journal
from gamed.cli.data.move_note import refuse_moved
from gamed.cli.errors import CommandFailed, DatabaseNotFound
from gamed.cli.interrupt import may_change
from gamed.cli.output import counted, utf8
from gamed.cli.paths import Paths, command_line
from gamed.cli.process import erase_variables, harden, ran_by, switch_to_owner
from gamed.cli.service.folder_lock import Lock
from gamed.config.errors import ConfigError
from gamed.config.model import PostgresqlAddress
from gamed.config.store_address import load_store
from gamed.database.connection import AUTH
from gamed.database.sqlite.store import SqliteStore
from gamed.readable import size

if TYPE_CHECKING:
    from gamed.cli.data.store_copy import StoreMove

SQLITE = "sqlite"


@click.command("move-store")
@click.option(
    "--to", "target", metavar="STORE", type=utf8, required=True, help="postgresql://user@host/database, or sqlite."
)
@click.option(
    "--password-env", metavar="NAME", type=utf8, help="The variable of PostgreSQL's password, as store_password_env."
)
@reports_json
def move_store(context: CommandContext, target: str, password_env: str | None) -> None:
    """Move both databases to PostgreSQL, or back to files in the data folder; no server may run.

    The target must not have databases of gamed yet. All rows are copied there, read again and compared, and the saves
    are checked against their hashes. The previous files or schemas stay under other names. If the command is
    interrupted, the previous ones are as they were; run it again.
    """
    harden()
    places, runner = context.places(), ran_by()
    refuse_moved(places)
    configured = _configured(places)
    address = _address(configured, target, password_env)
    switch_to_owner(places.data)
    if target == SQLITE:
        paths.open_data(places.data)
    elif not places.data.is_dir():
        raise DatabaseNotFound(SqliteStore(data=places.data), AUTH)
    from gamed.cli.data.store_copy import (  # late: psycopg may be missing
        move_to_postgresql,
        move_to_sqlite,
        open_session,
    )

    lock = Lock.acquire(places.data, "gamed move-store")
    may_change()
    with open_session(address) as session:
        if target == SQLITE:
            done = move_to_sqlite(places.data, session, address.url, runner)
        else:
            restore_journal.refuse_unfinished(places.data)
            done = move_to_postgresql(places.data, session, address.url, runner)
    lock.release()
    place = str(places.data) if target == SQLITE else address.url
    settings = {"store": target} | ({} if password_env is None else {"store_password_env": password_env})
    context.report(
        _members(done, place), [*_lines(done, place), *_next_steps(places, settings, configured is not None)]
    )


def _members(done: "StoreMove", place: str) -> dict[str, object]:
    tables = {name: {"rows": each.rows, "sha256": each.sha256} for name, each in done.digests.items()}
    return {"store": place, "tables": tables, "previous": list(done.previous)}


def _lines(done: "StoreMove", place: str) -> Iterator[str]:
    if not done.digests:
        yield f"An earlier move to {place} is finished."
    else:
        rows = sum(each.rows for each in done.digests.values())
        copied = size(sum(each.size for each in done.digests.values()))
        yield f"Copied {counted(rows, 'row')}, {copied}, to {place}, and compared the hashes."
    yield f"The previous databases are {' and '.join(done.previous)}. Delete them when the server works."


def _next_steps(places: Paths, settings: Mapping[str, str], is_configured: bool) -> Iterator[str]:
    if settings["store"] == SQLITE:
        yield f"Remove store and store_password_env from {places.config}."
    elif not is_configured:
        lines = "".join(f"\n  {json.dumps(name)}: {json.dumps(value)}," for name, value in settings.items())
        yield f"Write this into {places.config}, as the first members:{lines}"
    yield f"Start the service then, with systemctl start gamed or with: {command_line(places, 'serve')}"


def _configured(places: Paths) -> PostgresqlAddress | None:
    """Return the store of the configuration; None if the databases are files."""
    text = paths.read_config(places)
    if text is None:
        return None
    return _load(text, str(places.config))


def _load(text: str, file: str) -> PostgresqlAddress | None:
    address, names = load_store(text, dict(os.environ), paths.read_file, file, require_driver)
    erase_variables(names)
    return address


def _address(configured: PostgresqlAddress | None, target: str, password_env: str | None) -> PostgresqlAddress:
    if configured is not None and password_env is not None:
        raise click.UsageError("Leave out --password-env: the configuration names the variable of the password.")
    if target == SQLITE:
        if configured is None:
            raise CommandFailed("The configuration has no store: the databases are files already.")
        return configured
    members = {"store": target} | ({} if password_env is None else {"store_password_env": password_env})
    if configured is not None:  # its password is for this address alone
        named = _parsed({"store": target})
        if named.conninfo != configured.conninfo:
            raise CommandFailed(f"The configuration names another store, {configured.url}. Name that one with --to.")
        return configured
    return _parsed(members)


def _parsed(members: Mapping[str, str]) -> PostgresqlAddress:
    try:
        address = _load(json.dumps(members), "--to")
    except ConfigError as e:
        reasons = "; ".join(problem.message for problem in e.problems)
        raise click.UsageError(f"--to: {reasons}") from None
    assert address is not None
    return address
