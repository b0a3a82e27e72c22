"""Commands share this: they read the configuration, open the databases beside the service, find and print players."""

import json
import os
import shlex
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from re import ASCII, compile
from secrets import token_bytes
from typing import Concatenate, ParamSpec, TypeVar

import click
from msgspec import Struct, field
from msgspec.structs import replace

from gamed.cli import keys, paths, terminal
from gamed.cli.data.move_note import refuse_moved
from gamed.cli.data.restore_journal import refuse_unfinished
from gamed.cli.errors import CommandFailed, DatabaseNotFound, SetupError, echo, warn
from gamed.cli.interrupt import may_change
from gamed.cli.paths import AUTH_DB, Paths
from gamed.cli.process import erase_variables, harden, ran_by, switch_to_owner
from gamed.clock import now_ms
from gamed.config.authentication import load
from gamed.config.errors import ConfigError, ConfigErrors, InvalidValue
from gamed.config.game import GameSettings, parse_game
from gamed.config.model import Config, Notify, PostgresqlAddress
from gamed.config.notify import load_notify
from gamed.config.secrets import ReadFile
from gamed.config.settings import KeySource
from gamed.config.store_address import load_store
from gamed.crypto import Keys
from gamed.database.connection import AUTH, STATE, Connection
from gamed.database.security_events import add_command
from gamed.database.store import Store
from gamed.login.keys import typed_approval_code
from gamed.players import keyring
from gamed.players.errors import PlayerError, PlayerUnknown
from gamed.players.model import NamedPlayer
from gamed.players.names import fold, fold_typed
from gamed.players.tables import find_by_approval_code, find_named, list_players
from gamed.stores import open_store
from gamed.timestamps import rfc3339

_ID = compile(r"ply_[A-Za-z0-9_-]{1,64}", ASCII)
P = ParamSpec("P")
T = TypeVar("T")
SUGGESTED_OF = 20_000
"""Among how many players a command looks for similar names: that takes at most a second or two."""
SIMILAR = 0.7
ID_CHARACTERS = 64
DRIVER = "etc/postgresql-constraints.txt"
"""The file that pip reads for a PostgreSQL store: the extra `postgresql` of setup.py, with hashes."""
HINT = (
    "This command needs the key of this server, as the service has it. Where systemd keeps it: "
    "systemd-run --pipe --wait -p LoadCredential=NAME:/path/of/the/key gamed ... (NAME as in master_key_env); "
    "etc/gamedctl does that with the unit's own settings"
)


class OpenedConfiguration(Struct, frozen=True):
    """A configuration that was read and has no errors."""

    places: Paths
    config: Config
    first_run: bool
    """There is no configuration file yet; `config` is the one that the first run will write."""
    game: GameSettings = field(default_factory=GameSettings)
    """The defaults if game.json was not read."""
    catalogues: Mapping[str, bytes] = {}


def read_all(places: Paths) -> OpenedConfiguration:
    """Read authentication.json and game.json; report the errors of both at once."""
    errors: list[ConfigError] = []
    opened, game = None, None
    try:
        opened = read(places)
    except ConfigError as e:
        errors.append(e)
    try:
        game = read_game_settings(places)
    except ConfigError as e:
        errors.append(e)
    if opened is None or game is None:
        raise errors[0] if len(errors) == 1 else ConfigErrors(errors)
    return replace(opened, game=game, catalogues=paths.read_catalogues(places))


def read(places: Paths, *, providers: bool = True, read_mark: ReadFile = paths.read_regular) -> OpenedConfiguration:
    """Read and validate authentication.json; erase the secrets that it names from the environment.

    Without `providers` their secrets are not read. `read_mark` reads the picture, by a path beside the file.
    """
    refuse_moved(places)
    text = paths.read_config(places)
    loaded = load(
        paths.FIRST_RUN if text is None else text,
        dict(os.environ),
        paths.read_file,
        str(places.config),
        providers=providers,
        read_mark=read_mark,
        require_driver=require_driver,
    )
    erase_variables(loaded.secret_names)
    for warning in loaded.warnings:
        warn(warning)
    return OpenedConfiguration(places, loaded.config, first_run=text is None)


def read_notify(places: Paths) -> tuple[Notify | None, str]:
    """Return the webhook for messages to the owner, and the server's name; nothing else of the configuration matters.

    The URL's variable is erased from the environment; raise ConfigError.
    """
    refuse_moved(places)
    text = paths.read_config(places)
    if text is None:
        return None, ""
    notify, name, variable = load_notify(text, dict(os.environ), paths.read_file, str(places.config))
    erase_variables([variable] if variable else [])
    return notify, name


def require_driver() -> None:
    """Raise InvalidValue if psycopg, the libpq that it needs, or greenlet cannot be imported."""
    try:
        for name in ("psycopg.pq", "greenlet"):  # by name: without a PostgreSQL store nothing of it is loaded
            import_module(name)
    except ImportError:
        pip = shlex.join([sys.executable, "-m", "pip", "install", "--require-hashes", "-r", str(paths.shipped(DRIVER))])
        raise InvalidValue(f"PostgreSQL needs the libraries psycopg and greenlet. Install them with: {pip}") from None


def read_address(places: Paths) -> PostgresqlAddress | None:
    """Return the address of the databases for a command that needs no key; None for those in the data folder.

    Nothing else of the configuration matters. It may be missing or unreadable where the databases are in the folder.
    """
    try:
        text = paths.read_config(places)
    except (ConfigError, SetupError):
        if (places.data / AUTH_DB).exists():
            return None
        raise
    if text is None or ('"store"' not in text and "\\" not in text):
        return None
    address, names = load_store(text, dict(os.environ), paths.read_file, str(places.config), require_driver)
    erase_variables(names)
    return address


def read_with_key(
    places: Paths, *, providers: bool = False, read_mark: ReadFile = paths.read_regular
) -> OpenedConfiguration:
    """Read authentication.json like `read`; a ConfigError also names the way to supply a missing master key."""
    try:
        return read(places, providers=providers, read_mark=read_mark)
    except ConfigError as e:
        unset = any(problem.path == ("master_key_env",) for problem in e.problems)
        raise ConfigError(str(places.config), e.problems, HINT if unset else "") from None


def read_game_settings(places: Paths) -> GameSettings:
    """Read game.json; return the defaults if there is no such file."""
    text = paths.read_game(places)
    return GameSettings() if text is None else parse_game(text, str(places.game))


class CommandContext(Struct, frozen=True):
    """The options that come before a command's name."""

    config: str | None
    data: str | None
    development: bool
    as_json: bool = False
    """The option --json of the command itself, which `reports_json` adds."""

    def places(self, config: str | None = None, data: str | None = None) -> Paths:
        """Return the paths; the arguments are options behind the command's name, which win."""
        return paths.find(os.environ, config or self.config, data or self.data, development=self.development)

    def open(self) -> "KeyedDatabases":
        """Return the databases with the key of auth.db; raise SetupError or ConfigError if the key cannot be had."""
        harden()
        places = self.places()
        opened = read_with_key(places)
        runner = ran_by()
        switch_to_owner(places.data)
        refuse_unfinished(places.data)
        return KeyedDatabases.of(opened, runner)

    def open_keyless(self) -> "OfflineDatabases":
        """Return the databases for a command that looks up no name and so needs no key."""
        harden()
        places, runner = self.places(), ran_by()
        refuse_moved(places)
        address = read_address(places)
        switch_to_owner(places.data)
        refuse_unfinished(places.data)
        return OfflineDatabases(open_store(Config(store=address), places.data), places.data, runner)

    def open_for_names(self) -> "OfflineDatabases":
        """Return the databases with the key if it can be had, so that players have names; else without it."""
        harden()
        places, runner = self.places(), ran_by()
        try:
            opened = read_with_key(places)
        except (ConfigError, SetupError):
            return self.open_keyless()
        switch_to_owner(places.data)
        refuse_unfinished(places.data)
        try:
            return KeyedDatabases.of(opened, runner)
        except (SetupError, CommandFailed):  # not open_keyless(): the password of the store is erased by now
            return OfflineDatabases(open_store(opened.config, places.data), places.data, runner)

    def open_for(self, who: str) -> "tuple[OfflineDatabases, str]":
        """Return the databases and a player's id: this id, which needs no key, or that of the player with this name.

        For a person the databases have the key if it can be had, so that a text names the player.
        """
        if _ID.fullmatch(who):
            return self.open_keyless() if self.as_json else self.open_for_names(), who
        store = self.open()
        return store, store.read(lambda connection, keys: get_player(connection, keys, who)).player.player_id

    def report(
        self, result: object, lines: str | Iterable[str], indent: int | None = None, *, paged: bool = False
    ) -> None:
        """Print the result of a command: as JSON for a script with --json, else as lines for a person.

        With `paged`, lines that a terminal has no room for are shown in a pager.
        """
        if self.as_json:
            echo(json.dumps(result, indent=indent))
            return
        printed = [lines] if isinstance(lines, str) else lines
        if paged:
            terminal.show(list(printed), echo)
            return
        for line in printed:
            echo(line)


def reports_json(command: Callable[Concatenate[CommandContext, P], None]) -> Callable[P, None]:
    """Add --json to a command, and pass it the CommandContext, which reports its result."""

    def choose(ctx: click.Context, _: click.Parameter, chosen: bool) -> None:
        if chosen:
            ctx.obj = replace(ctx.obj, as_json=True)

    option = click.option("--json", is_flag=True, expose_value=False, callback=choose, help="Print JSON for scripts.")
    return option(click.pass_obj(command))


@cache
def own_run() -> str:
    """Return the id of this process as a run (gamed/saves/model.py)."""
    from gamed.saves.model import new_run

    return new_run(token_bytes)


class OfflineDatabases(Struct, frozen=True):
    """The databases, which the running service may use at the same time.

    Each call runs one short transaction and raises CommandFailed or SetupError with the reason if it fails.
    """

    store: Store
    data: Path
    ran_by: str

    def write_auth(self, transaction: Callable[[Connection], T]) -> T:
        """Run a write transaction on auth.db."""
        may_change()
        return self._run(self.store.run_transaction, AUTH, transaction)

    def write_state(self, transaction: Callable[[Connection], T]) -> T:
        """Run a write transaction on state.db as a run of its own: perhaps the files went back, and no server began."""
        from gamed.saves.tables import begin_run  # late: most commands do not write saves

        def in_own_run(connection: Connection) -> T:
            begin_run(connection, own_run())
            return transaction(connection)

        may_change()
        return self._run(self.store.run_transaction, STATE, in_own_run)

    def read_auth(self, transaction: Callable[[Connection], T]) -> T:
        """Run a read transaction on auth.db."""
        return self._run(self.store.run_read, AUTH, transaction)

    def read_state(self, transaction: Callable[[Connection], T]) -> T:
        """Run a read transaction on state.db."""
        return self._run(self.store.run_read, STATE, transaction)

    def require(self, database: str) -> None:
        """Raise DatabaseNotFound unless the database exists."""
        if not self.store.exists(database):
            raise DatabaseNotFound(self.store, database)

    def names_of(self, player_ids: Collection[str]) -> Mapping[str, str]:
        """Return what to call players: a local name, a shown name with the id, or the id; only the key shows names."""
        return {player_id: player_id for player_id in player_ids}

    def record(self, connection: Connection, command: str, player_id: str | None) -> None:
        """Record who ran which command, for the service's log; call this within a transaction on auth.db."""
        add_command(connection, command, player_id, self.ran_by, now_ms())

    def _run(
        self, run: Callable[[str, Callable[[Connection], T]], T], database: str, transaction: Callable[[Connection], T]
    ) -> T:
        self.require(database)
        try:
            with keys.database_errors(self.store, database):
                return run(database, transaction)
        except PlayerUnknown as e:
            raise CommandFailed(f"{e}{self._similar(e.wanted)}") from None
        except PlayerError as e:
            raise CommandFailed(str(e)) from None

    def _similar(self, wanted: str) -> str:
        """Return a sentence with the players that may be meant, or nothing; only the key shows names."""
        return ""


class KeyedDatabases(OfflineDatabases, frozen=True):
    """The databases, with the key of auth.db."""

    config: Config
    _choice: keys.KeyChoice

    @classmethod
    def of(cls, opened: OpenedConfiguration, ran_by: str) -> "KeyedDatabases":
        """Return the databases of a configuration that was read, with the key that it names."""
        data, config = opened.places.data, opened.config
        store = open_store(config, data)
        choice = keys.choose(store, data, config.master_key, token_bytes, config.master_key_origin)
        return cls(store, data, ran_by, config, choice)

    @property
    def keys(self) -> Keys:
        """Return the keys that auth.db is written with; raise CommandFailed if there are none yet."""
        if self._choice.made:
            raise DatabaseNotFound(self.store, AUTH)
        return Keys.of(self._choice.before or self._choice.key, token_bytes)

    def write(self, transaction: Callable[[Connection, Keys], T]) -> T:
        """Run a write transaction on auth.db, in which the key is checked first."""
        keys_now = self.keys
        source = KeySource.FILE if self._choice.before is not None else self._choice.source

        def checked(connection: Connection) -> T:
            keyring.check_key(connection, keys_now, source, now_ms(), self.store)
            return transaction(connection, keys_now)

        return self.write_auth(checked)

    def read(self, transaction: Callable[[Connection, Keys], T]) -> T:
        """Run a read transaction on auth.db; the key was compared when it was chosen."""
        keys_now = self.keys
        return self.read_auth(lambda connection: transaction(connection, keys_now))

    def names_of(self, player_ids: Collection[str]) -> Mapping[str, str]:
        if not player_ids:
            return {}
        try:
            listed = self.read(lambda connection, keys: list_players(connection, keys.sealer))
        except CommandFailed:  # a server that was never started
            listed = []
        names = {each.player.player_id: named_in_words(each) for each in listed}
        return {player_id: names.get(player_id, player_id) for player_id in player_ids}

    def _similar(self, wanted: str) -> str:
        from difflib import get_close_matches  # late: only mistakes need it

        players = self.read(lambda connection, keys: list_players(connection, keys.sealer))
        names = {fold(each.name): each.name for each in players[:SUGGESTED_OF] if each.name}
        ids = [each.player.player_id for each in players[:SUGGESTED_OF]]
        found = [names[each] for each in get_close_matches(fold_typed(wanted), names, cutoff=SIMILAR)]
        if wanted.startswith("ply_"):
            found += get_close_matches(wanted[:ID_CHARACTERS], ids, n=1, cutoff=SIMILAR)
        return f" Did you mean {' or '.join(found)}?" if found else ""


def get_player(connection: Connection, keys: Keys, who: str) -> NamedPlayer:
    """Return the player with this id or local name; raise CommandFailed if the player is being erased."""
    named = find_named(connection, keys, who)
    if named.player.state == "erasing":
        raise CommandFailed("This player is being erased. Name another player.")
    return named


def get_account(connection: Connection, keys: Keys, who: str) -> NamedPlayer:
    """Return the player, as get_player() does; raise CommandFailed for a player without a local account."""
    named = get_player(connection, keys, who)
    if named.name is None:
        raise CommandFailed("This player has no local account.")
    return named


def get_pending_player(connection: Connection, keys: Keys, who: str) -> NamedPlayer:
    """Return the player with this code, id or local name; raise CommandFailed if they do not wait for approval.

    Six digits are always a code, so that a mistyped code never finds a new player who chose such a name.
    """
    code = typed_approval_code(who)
    try:
        named = get_player(connection, keys, who) if code is None else find_by_approval_code(connection, keys, code)
    except PlayerUnknown:
        raise CommandFailed(
            f"No player with the code, name or id {who!r} waits for approval. See: gamed players list --pending"
        ) from None
    if named.player.state != "pending":
        raise CommandFailed(f"This player is {named.player.state} and does not wait for approval.")
    return named


def player_members(named: NamedPlayer, keys: Keys) -> dict[str, object]:
    player, last = named.player, named.player.last_sign_in_ms
    waiting = player.state == "pending"
    return {
        "id": player.player_id,
        "name": named.name,
        "display_name": named.display_name,
        "state": player.state,
        "owner": player.owner,
        "created_at": rfc3339(player.created_ms),
        "last_sign_in_at": None if last is None else rfc3339(last),
        **({"code": player.approval_code} if waiting else {}),
    }


def display_name(named: NamedPlayer) -> str:
    """Return the local name with the id, or the id alone."""
    return f"{named.name} ({named.player.player_id})" if named.name else named.player.player_id


def named_in_words(named: NamedPlayer) -> str:
    """Return the local name, which no other player has, else the shown name with the id, or the id alone."""
    if named.name or not named.display_name:
        return named.name or named.player.player_id
    return f"{named.display_name} ({named.player.player_id})"
