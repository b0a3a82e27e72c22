"""`gamed serve` shows what it serves, where its files are, and what the operator can do next."""

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit
from secrets import token_bytes

from gamed import __version__
from gamed.cli.context import OpenedConfiguration
from gamed.cli.errors import echo, warn
from gamed.cli.output import counted
from gamed.cli.paths import Paths, command_line, virtual_environment
from gamed.cli.service.listen import Listener, describe, own_url
from gamed.config.model import Config, Mode
from gamed.config.settings import KEY_FILE, KeySource, LogFormat, Settings
from gamed.crypto import Keys
from gamed.database.connection import AUTH
from gamed.database.errors import DatabaseError
from gamed.open_files import RESERVED_FILES, is_limited, most_connections
from gamed.players.tables import count_players
from gamed.stores import open_store

Report = Callable[[Settings, OpenedConfiguration, Sequence[Listener], int | None], None]
"""A function that shows what a start has prepared."""


def show(
    settings: Settings,
    opened: OpenedConfiguration,
    listeners: Sequence[Listener],
    accounts: int | None,
    *,
    foreground: bool = False,
    temporary: bool = False,
) -> None:
    """Show version and address, configuration, data, the address of `--admin`, and the key.

    `accounts` is as keys.settle() returns it.

    In the foreground of a terminal the first line names Ctrl-C; a temporary key is not worth a copy.
    """
    places, config = opened.places, settings.config
    made = " (made just now)" if opened.first_run else ""
    limits = f" and {places.game.name}" if places.game.exists() else ""
    end = " (Ctrl-C ends it)" if foreground and sys.stdout is not None and sys.stdout.isatty() else ""
    echo(f"gamed {__version__} in {config.mode.value} mode: {_address(config, listeners)}{end}")
    echo(f"configuration {settings.config_path}{limits}{made}")
    if config.store is not None:
        echo(f"store {config.store.url}")
    echo(f"data {settings.data}")
    if settings.admin is not None:
        admin = describe(settings.admin)
        echo(f"figures of this server {own_url([admin]) or admin.path or settings.admin}, for this machine")
    echo(_key(settings) + ("" if temporary else ": keep a copy in another place, no backup has it"))
    if accounts is not None:
        kept = counted(accounts, "local account")
        echo(f"auth.db is written with the master key now: {kept} kept, every player must sign in again")


def _address(config: Config, listeners: Sequence[Listener]) -> str:
    """Return the address of the server; a port that the kernel chooses is known later, and then logged."""
    if config.public_url:
        return config.public_url
    return f"{own_url(listeners) or 'a free port'}, for this machine"


def _key(settings: Settings) -> str:
    fingerprint = Keys.of(settings.master_key, token_bytes).fingerprint
    if settings.key_source is KeySource.FILE:
        what = f"key file {settings.data / KEY_FILE}"
    else:
        what = f"master key from {settings.config.master_key_origin}"
    return f"{what}, fingerprint {fingerprint}"


def advise(opened: OpenedConfiguration, style: LogFormat) -> None:
    """Show one command to run next, and warn of what limits or endangers the server; a program's log has no advice."""
    places = opened.places
    wanted, (_, files) = opened.config.limits.connections, getrlimit(RLIMIT_NOFILE)
    if files != RLIM_INFINITY and is_limited(most := most_connections(wanted, files), wanted):
        needed = wanted + RESERVED_FILES
        warn(
            f"this shell allows {files} open files; limits.connections needs {needed}. The server accepts {most} "
            f"connections at once. Raise that limit (LimitNOFILE={needed} of a unit, ulimit -n {needed})."
        )
    environment = virtual_environment(places.data)
    if environment is not None:
        what = "all players and saves" if opened.config.store is None else "the configuration and all assets"
        warn(
            f"the data is in the virtual environment {environment}: deleting it also deletes {what}. "
            f"Stop the server, then let it stay on this machine: {command_line(places, 'setup')}"
        )
    if style is LogFormat.TEXT:
        if os.geteuid() == 0:
            warn("the server runs as root. Give it a user of its own, as the unit of `gamed unit` does")
        echo(f"next: {command_line(places, *_next(places, opened.config))}")


def _next(places: Paths, config: Config) -> Sequence[str]:
    """Return the command that helps most: add the first player, else check the address or this machine."""
    try:
        with closing(open_store(config, places.data)) as store:
            players = store.run_read(AUTH, count_players)
    except DatabaseError:  # an advice must not prevent the start
        return ("doctor",)
    if config.mode is Mode.LOCAL and not players:
        return ("players", "add", "NAME")
    return ("doctor", "--public") if config.public_url else ("doctor",)
