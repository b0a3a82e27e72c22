"""The key of auth.db is chosen before anything is written: the master key, the key file, or an error (SPEC 2.2).

The key file lies beside auth.db, for its owner only; it holds the key of local mode while no master key is named.
"""

import os
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, count
from pathlib import Path
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from gamed.cli.errors import CommandFailed, SetupError, warn
from gamed.cli.paths import not_written, read_file, write_whole
from gamed.config.errors import InvalidValue
from gamed.config.secrets import master_key
from gamed.config.settings import KEY_FILE, KeySource
from gamed.crypto import KEY_BYTES, CryptoError, Keys, Random, Secret
from gamed.database.connection import AUTH, Connection
from gamed.database.errors import DatabaseBusy, DatabaseError, DatabaseUnreachable, DiskFull, MigrationError
from gamed.database.store import Store
from gamed.disk import sync_folder
from gamed.players import keyring
from gamed.structs import redacts
from gamed.timestamps import Now

RETIRED = "auth.key.retired"
T = TypeVar("T")


def read(data: Path) -> Secret | None:
    """Read the key file; return None if there is no such file."""
    path = data / KEY_FILE
    try:
        raw = read_file(str(path))
    except FileNotFoundError:
        return None
    except OSError as e:
        raise SetupError(f"The key file {path} cannot be read ({e.strerror}).") from None
    try:
        key = master_key(raw.removesuffix(b"\n"))
    except InvalidValue as e:
        reason = str(e).replace("the master key", "it")
        raise SetupError(f"The key file {path} cannot be used. Restore it from your copy: {reason}") from None
    _close_to_others(path)
    return key


def write(data: Path, key: Secret) -> None:
    """Write the key file; it is on disk before anything is written with the key."""
    try:
        write_whole(data / KEY_FILE, b64encode(key.reveal()) + b"\n", 0o600)
    except OSError as e:
        raise not_written(data / KEY_FILE, e, "Name another data folder with --data DIR") from None


def retire(data: Path) -> None:
    """Rename the key file once auth.db has a master key; older backups of auth.db still need the old key."""
    if (data / KEY_FILE).exists():
        names = chain([RETIRED], (f"{RETIRED}.{number}" for number in count(2)))
        (data / KEY_FILE).rename(next(data / name for name in names if not (data / name).exists()))
        sync_folder(data)


def _close_to_others(path: Path) -> None:
    state = path.stat()
    if state.st_mode & 0o077 and state.st_uid == os.geteuid():
        path.chmod(0o600)
        warn(f"other users could read {path}. Now only its owner can")


@redacts("key", "before")
class KeyChoice(Struct, frozen=True):
    """The key that was chosen to serve with, and what must be done to use it."""

    key: Secret
    source: KeySource
    before: Secret | None = None
    """The key file's key, if auth.db is still written with it and must be rewritten with `key`."""
    made: bool = False
    """The key file must be written first."""
    fresh: bool = False
    """There is no auth.db yet, or it is empty: this key was compared with none."""


def choose(store: Store, data: Path, master: Secret | None, random: Random, origin: str = "") -> KeyChoice:
    """Return the key to serve with; write nothing. Raise SetupError if auth.db is written with another key.

    `origin` names for messages where the master key was found.
    """
    with database_errors(store, AUTH):
        ring = store.read_unchanged(AUTH, keyring.read_key_record)
    filed = read(data) if store.files else None  # a database server needs a master key
    choice = _candidate(data, master, filed, ring, random)
    if ring is None:
        return replace(choice, fresh=True)
    _refuse_other(data, choice, ring, random, origin, store.describe(AUTH), keyring.lost_key_advice(store))
    return choice


def refuse_misfit(data: Path, master: Secret | None, ring: keyring.KeyRecord, random: Random, origin: str = "") -> None:
    """Raise SetupError if no key at hand is the one that a backup with this key record is written with."""
    choice = _candidate(data, master, read(data), ring, random)
    _refuse_other(data, choice, ring, random, origin, "It")


def _refuse_other(  # noqa: PLR0917
    data: Path, choice: KeyChoice, ring: keyring.KeyRecord, random: Random, origin: str, where: str, if_lost: str = ""
) -> None:
    keys = Keys.of(choice.key, random)
    if choice.before is None and keys.check != ring.check_value:
        found = f"the key file {data / KEY_FILE}" if choice.source is KeySource.FILE else origin
        message = keyring.mismatch_message(ring, keys, choice.source, where, origin=found, if_lost=if_lost)
        raise SetupError(message)


def settle(store: Store, data: Path, choice: KeyChoice, random: Random, now_ms: Now) -> int | None:
    """Write the chosen key to auth.db; return the number of local accounts kept if it replaced another key."""
    if choice.made:
        write(data, choice.key)
    keys = Keys.of(choice.key, random)

    def transaction(connection: Connection) -> int | None:
        kept = None
        if choice.before is not None:
            before = Keys.of(choice.before, random)
            record = keyring.read_key_record(connection)
            if record is not None and record.check_value == before.check:
                # A change of the key is rare, and all commands import this module.
                from gamed.passkeys import tables as passkey_tables

                passkey_tables.rekey(connection, before, keys)
            kept = keyring.rekey(connection, before, keys, now_ms())
        keyring.check_key(connection, keys, choice.source, now_ms(), store)
        return kept

    with database_errors(store, AUTH):
        kept = store.run_transaction(AUTH, transaction)
    if choice.source is KeySource.MASTER:  # also when a start before this one was cut off right here
        retire(data)
    return kept


@contextmanager
def database_errors(store: Store, database: str) -> Iterator[None]:
    """Turn errors of `auth` or `state` or its key into CommandFailed if a retry may succeed, else into SetupError."""
    where = store.describe(database)
    try:
        yield
    except (DatabaseBusy, DatabaseUnreachable, DiskFull) as e:
        raise CommandFailed(f"{where} cannot be used now: {e}") from None
    except DatabaseError as e:
        raise SetupError(f"{where} cannot be used: {e}") from None
    except store.errors as e:
        raise SetupError(f"{where} cannot be used: {e}") from None
    except (MigrationError, keyring.KeyRecordError) as e:
        raise SetupError(str(e)) from None
    except CryptoError as e:
        raise SetupError(f"{where} is not consistent: {e}. Restore it from a backup.") from None


def _candidate(
    data: Path, master: Secret | None, filed: Secret | None, ring: keyring.KeyRecord | None, random: Random
) -> KeyChoice:
    """Return the key that the operator's settings call for, without comparing it."""
    if master is not None:
        carried = filed is not None and ring is not None and Keys.of(filed, random).check == ring.check_value
        return KeyChoice(master, KeySource.MASTER, before=filed if carried else None)
    if filed is not None:
        return KeyChoice(filed, KeySource.FILE)
    if ring is None:
        return KeyChoice(Secret(random(KEY_BYTES)), KeySource.FILE, made=True)
    if ring.source is KeySource.MASTER:
        raise SetupError(
            f"auth.db is written with a master key (fingerprint {ring.fingerprint}), and the configuration names none. "
            "Set master_key_env, and the variable that it names."
        )
    raise SetupError(
        f"The key file {data / KEY_FILE} is missing, and auth.db is written with it "
        f"(fingerprint {ring.fingerprint}). Restore it from your copy, which you keep apart from the backups."
    )
