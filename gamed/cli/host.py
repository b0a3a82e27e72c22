"""What every command shares: where its files are, and auth.db with its key where it needs them."""

import os
from collections.abc import Callable
from pathlib import Path
from secrets import token_bytes
from sqlite3 import Connection
from typing import TypeVar

from msgspec import Struct

from gamed.cli import keys, places, reading
from gamed.cli.exchange import refuse_unfinished
from gamed.cli.files import AUTH_DB, STATE_DB
from gamed.cli.harden import harden
from gamed.cli.places import Places
from gamed.cli.refusal import NoStore, NotDone
from gamed.cli.user import become_owner, ran_by
from gamed.clock import now_ms
from gamed.config.model import Config
from gamed.config.problems import ConfigError
from gamed.config.settings import KeySource
from gamed.crypto import Keys
from gamed.players.errors import PlayerError
from gamed.storage.auth import host_actions, keyring
from gamed.storage.command import look, once

T = TypeVar("T")
HINT = (
    "This command needs the key of auth.db, as the service has it. Where systemd keeps it: "
    "systemd-run --pipe --wait -p LoadCredential=NAME:/path/of/the/key gamed ... (NAME as in master_key_env); "
    "etc/gamedctl does that with the unit's own settings"
)


def read_with_key(where: Places, *, providers: bool = False) -> reading.Opened:
    """Return what a command needs of the configuration; a ConfigError names the way to supply a missing master key.

    Without `providers` their secrets are not read.
    """
    try:
        return reading.read(where, providers=providers)
    except ConfigError as e:
        unset = any(problem.path == ("master_key_env",) for problem in e.problems)
        raise ConfigError(str(where.config), e.problems, HINT if unset else "") from None


class Host(Struct, frozen=True):
    """The options before a command's name."""

    config: str | None
    data: str | None
    development: bool

    def places(self, config: str | None = None, data: str | None = None) -> Places:
        """Options behind the command's name win."""
        return places.find(os.environ, config or self.config, data or self.data, development=self.development)

    def open(self) -> "Store":
        """auth.db and its key, or a Refusal."""
        harden()
        where = self.places()
        opened = read_with_key(where)
        runner = ran_by()
        become_owner(where.data)
        refuse_unfinished(where.data)
        config = opened.judged.config
        choice = keys.choose(where.data, config.master_key, token_bytes, config.master_key_origin)
        return Store(where.data, runner, config, choice)

    def open_keyless(self) -> "Files":
        """auth.db for a command that looks nothing up by a name; no key is asked for."""
        harden()
        where, runner = self.places(), ran_by()
        become_owner(where.data)
        refuse_unfinished(where.data)
        return Files(where.data, runner)


class Files(Struct, frozen=True):
    """Both stores, to be worked on beside the running service."""

    data: Path
    ran_by: str

    def auth(self, unit: Callable[[Connection], T]) -> T:
        """One transaction on auth.db; NotDone with the reason when it cannot be done."""
        return self._do(once, self.data / AUTH_DB, unit)

    def state(self, unit: Callable[[Connection], T]) -> T:
        """One transaction on state.db."""
        return self._do(once, self.data / STATE_DB, unit)

    def look(self, unit: Callable[[Connection], T]) -> T:
        """What a unit reads in auth.db."""
        return self._do(look, self.data / AUTH_DB, unit)

    def look_at_state(self, unit: Callable[[Connection], T]) -> T:
        """What a unit reads in state.db."""
        return self._do(look, self.data / STATE_DB, unit)

    def tell(self, connection: Connection, command: str, player_id: str | None) -> None:
        """Within a unit: the service's log will say who ran what."""
        host_actions.add(connection, command, player_id, self.ran_by, now_ms())

    def _do(
        self, run: Callable[[Path, Callable[[Connection], T]], T], path: Path, unit: Callable[[Connection], T]
    ) -> T:
        if not path.exists():
            raise NoStore(path.name, self.data)
        try:
            with keys.refusing(path):
                return run(path, unit)
        except PlayerError as e:
            raise NotDone(str(e)) from None


class Store(Files, frozen=True):
    """The same, with the key of auth.db at hand."""

    config: Config
    _choice: keys.Choice

    @property
    def keys(self) -> Keys:
        """Of the key that auth.db is written with; NotDone when there is none yet."""
        if self._choice.made:
            raise NoStore(AUTH_DB, self.data)
        return Keys.of(self._choice.before or self._choice.key, token_bytes)

    def run(self, unit: Callable[[Connection, Keys], T]) -> T:
        """One transaction on auth.db, with the key checked inside it; NotDone when it cannot be done."""
        keys_now = self.keys
        source = KeySource.FILE if self._choice.before is not None else self._choice.source

        def checked(connection: Connection) -> T:
            keyring.check(connection, keys_now, source, now_ms())
            return unit(connection, keys_now)

        return self.auth(checked)

    def read(self, unit: Callable[[Connection, Keys], T]) -> T:
        """What a unit reads in auth.db with the key, which was found to fit."""
        keys_now = self.keys
        return self.look(lambda connection: unit(connection, keys_now))
