"""Both configuration files, read and judged; what commands need of them too, so nothing here knows the network.

What every command shares: where its files are, and auth.db with its key where it needs them.

How commands find a player and what they print of one.
"""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from secrets import token_bytes
from sqlite3 import Connection
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from gamed.cli import keys, paths
from gamed.cli.errors import CommandFailed, DatabaseNotFound, echo, warn
from gamed.cli.paths import AUTH_DB, STATE_DB, Paths
from gamed.cli.process import forget, harden, ran_by, switch_to_owner
from gamed.cli.restore_journal import refuse_unfinished
from gamed.clock import now_ms
from gamed.config.authentication import LoadedConfiguration, load
from gamed.config.errors import ConfigError, ConfigErrors
from gamed.config.game import GameSettings, parse_game
from gamed.config.model import Config
from gamed.config.settings import KeySource
from gamed.crypto import Keys
from gamed.database.offline import run_read, run_transaction
from gamed.login.keys import approval_code, same_code
from gamed.players import command_log, keyring
from gamed.players.errors import PlayerError, PlayerUnknown
from gamed.players.tables import NamedPlayer, find_named, list_players
from gamed.timestamps import rfc3339


class OpenedConfiguration(Struct, frozen=True):
    """A configuration that was read and found good."""

    places: Paths
    judged: LoadedConfiguration
    first_run: bool
    game: GameSettings = field(default_factory=GameSettings)
    """The defaults where game.json was not asked for."""


def read_all(places: Paths) -> OpenedConfiguration:
    """Both files; what is wrong with either is said at once."""
    errors: list[ConfigError] = []
    opened, game = None, None
    try:
        opened = read(places)
    except ConfigError as e:
        errors.append(e)
    try:
        text = paths.read_game(places)
        game = GameSettings() if text is None else parse_game(text, str(places.game))
    except ConfigError as e:
        errors.append(e)
    if opened is None or game is None:
        raise errors[0] if len(errors) == 1 else ConfigErrors(errors)
    return replace(opened, game=game)


def read(places: Paths, *, providers: bool = True) -> OpenedConfiguration:
    """Read and judge; the secrets that were asked for are in no environment afterwards."""
    text = paths.read_config(places)
    judged = load(
        paths.FIRST_RUN if text is None else text,
        dict(os.environ),
        paths.read_file,
        str(places.config),
        providers=providers,
    )
    forget(judged.secret_names)
    for warning in judged.warnings:
        warn(warning)
    return OpenedConfiguration(places, judged, first_run=text is None)


T = TypeVar("T")
HINT = (
    "This command needs the key of auth.db, as the service has it. Where systemd keeps it: "
    "systemd-run --pipe --wait -p LoadCredential=NAME:/path/of/the/key gamed ... (NAME as in master_key_env); "
    "etc/gamedctl does that with the unit's own settings"
)


def read_with_key(where: Paths, *, providers: bool = False) -> OpenedConfiguration:
    """Return what a command needs of the configuration; a ConfigError names the way to supply a missing master key.

    Without `providers` their secrets are not read.
    """
    try:
        return read(where, providers=providers)
    except ConfigError as e:
        unset = any(problem.path == ("master_key_env",) for problem in e.problems)
        raise ConfigError(str(where.config), e.problems, HINT if unset else "") from None


class CommandContext(Struct, frozen=True):
    """The options before a command's name."""

    config: str | None
    data: str | None
    development: bool

    def places(self, config: str | None = None, data: str | None = None) -> Paths:
        """Options behind the command's name win."""
        return paths.find(os.environ, config or self.config, data or self.data, development=self.development)

    def open(self) -> "KeyedDatabases":
        """auth.db and its key, or a Refusal."""
        harden()
        where = self.places()
        opened = read_with_key(where)
        runner = ran_by()
        switch_to_owner(where.data)
        refuse_unfinished(where.data)
        config = opened.judged.config
        choice = keys.choose(where.data, config.master_key, token_bytes, config.master_key_origin)
        return KeyedDatabases(where.data, runner, config, choice)

    def open_keyless(self) -> "OfflineDatabases":
        """auth.db for a command that looks nothing up by a name; no key is asked for."""
        harden()
        where, runner = self.places(), ran_by()
        switch_to_owner(where.data)
        refuse_unfinished(where.data)
        return OfflineDatabases(where.data, runner)


class OfflineDatabases(Struct, frozen=True):
    """Both stores, to be worked on beside the running service."""

    data: Path
    ran_by: str

    def auth(self, unit: Callable[[Connection], T]) -> T:
        """One transaction on auth.db; NotDone with the reason when it cannot be done."""
        return self._do(run_transaction, self.data / AUTH_DB, unit)

    def state(self, unit: Callable[[Connection], T]) -> T:
        """One transaction on state.db."""
        return self._do(run_transaction, self.data / STATE_DB, unit)

    def look(self, unit: Callable[[Connection], T]) -> T:
        """What a unit reads in auth.db."""
        return self._do(run_read, self.data / AUTH_DB, unit)

    def look_at_state(self, unit: Callable[[Connection], T]) -> T:
        """What a unit reads in state.db."""
        return self._do(run_read, self.data / STATE_DB, unit)

    def tell(self, connection: Connection, command: str, player_id: str | None) -> None:
        """Within a unit: the service's log will say who ran what."""
        command_log.add_entry(connection, command, player_id, self.ran_by, now_ms())

    def _do(
        self, run: Callable[[Path, Callable[[Connection], T]], T], path: Path, unit: Callable[[Connection], T]
    ) -> T:
        if not path.exists():
            raise DatabaseNotFound(path.name, self.data)
        try:
            with keys.refusing(path):
                return run(path, unit)
        except PlayerError as e:
            raise CommandFailed(str(e)) from None


class KeyedDatabases(OfflineDatabases, frozen=True):
    """The same, with the key of auth.db at hand."""

    config: Config
    _choice: keys.KeyChoice

    @property
    def keys(self) -> Keys:
        """Of the key that auth.db is written with; NotDone when there is none yet."""
        if self._choice.made:
            raise DatabaseNotFound(AUTH_DB, self.data)
        return Keys.of(self._choice.before or self._choice.key, token_bytes)

    def run(self, unit: Callable[[Connection, Keys], T]) -> T:
        """One transaction on auth.db, with the key checked inside it; NotDone when it cannot be done."""
        keys_now = self.keys
        source = KeySource.FILE if self._choice.before is not None else self._choice.source

        def checked(connection: Connection) -> T:
            keyring.check_key(connection, keys_now, source, now_ms())
            return unit(connection, keys_now)

        return self.auth(checked)

    def read(self, unit: Callable[[Connection, Keys], T]) -> T:
        """What a unit reads in auth.db with the key, which was found to fit."""
        keys_now = self.keys
        return self.look(lambda connection: unit(connection, keys_now))


def found(connection: Connection, keys: Keys, who: str) -> NamedPlayer:
    """By id or local name; NotDone for a player who is being erased."""
    named = find_named(connection, keys, who)
    if named.player.state == "erasing":
        raise CommandFailed("This player is being erased.")
    return named


def pending(connection: Connection, keys: Keys, who: str) -> NamedPlayer:
    """By the code that the player's page shows, by id or by local name; NotDone for one who does not wait."""
    waiting = list_players(connection, keys.sealer, "pending")
    by_code = [named for named in waiting if same_code(approval_code(keys.indexer, named.player.player_id), who)]
    if len(by_code) > 1:
        raise CommandFailed("Two newcomers have this code; give the id: gamed players list --pending")
    try:
        named = by_code[0] if by_code else found(connection, keys, who)
    except PlayerUnknown:
        raise CommandFailed(
            f"Nobody waits with the code, name or id {who!r}; see: gamed players list --pending"
        ) from None
    if named.player.state != "pending":
        raise CommandFailed(f"This player is {named.player.state} and does not wait for you.")
    return named


def described(named: NamedPlayer, keys: Keys) -> dict[str, object]:
    """A player in JSON."""
    player, last = named.player, named.player.last_sign_in_ms
    waiting = player.state == "pending"
    return {
        "id": player.player_id,
        "name": named.name,
        "state": player.state,
        "owner": player.owner,
        "created_at": rfc3339(player.created_ms),
        "last_sign_in_at": None if last is None else rfc3339(last),
        **({"code": approval_code(keys.indexer, player.player_id)} if waiting else {}),
    }


def report(done: Mapping[str, object], text: str, *, as_json: bool) -> None:
    """What a command did, for a script or for a person."""
    echo(json.dumps(done) if as_json else text)


def called(named: NamedPlayer) -> str:
    """What a person calls them."""
    return f"{named.name} ({named.player.player_id})" if named.name else named.player.player_id
