"""The key of local mode when no master key is named: a file beside auth.db, for its owner only (SPEC 2.2).

Which key auth.db gets, decided before anything is written: the master key, the key file, or a refusal (SPEC 2.2).
"""

import os
import sqlite3
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import chain, count
from pathlib import Path
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from gamed.assets.store import sync_folder
from gamed.cli.errors import CommandFailed, SetupError, warn
from gamed.cli.paths import AUTH_DB, not_written, read_file, write_whole
from gamed.config.errors import InvalidValue
from gamed.config.secrets import master_key
from gamed.config.settings import KeySource
from gamed.crypto import KEY_BYTES, CryptoError, Keys, Random, Secret
from gamed.database.connection import connect, file_uri, reading_uri
from gamed.database.error_mapping import translate, translated
from gamed.database.errors import DatabaseBusy, DatabaseError, DiskFull
from gamed.database.migrations import MigrationError, version_of
from gamed.database.offline import run_transaction
from gamed.players import keyring
from gamed.structs import redacts
from gamed.timestamps import Now

FILE_NAME = "auth.key"
RETIRED = "auth.key.retired"


def read(data: Path) -> Secret | None:
    """The key, or None when there is no such file."""
    path = data / FILE_NAME
    try:
        raw = read_file(str(path))
    except FileNotFoundError:
        return None
    except OSError as e:
        raise SetupError(f"The key file {path} cannot be read ({e.strerror}).") from None
    try:
        key = master_key(raw.removesuffix(b"\n"))
    except InvalidValue as wrong:
        said = str(wrong).replace("the master key", "it")
        raise SetupError(f"The key file {path} cannot be used; put it back from where you keep it: {said}") from None
    _close_to_others(path)
    return key


def write(data: Path, key: Secret) -> None:
    """On disk before anything else is written with it."""
    try:
        write_whole(data / FILE_NAME, b64encode(key.reveal()) + b"\n", 0o600)
    except OSError as e:
        raise not_written(data / FILE_NAME, e, "name another data folder with --data DIR") from None


def retire(data: Path) -> None:
    """Once auth.db is written with a master key: kept, for a backup of auth.db from before, as is any before it."""
    if (data / FILE_NAME).exists():
        names = chain([RETIRED], (f"{RETIRED}.{number}" for number in count(2)))
        (data / FILE_NAME).rename(next(data / name for name in names if not (data / name).exists()))
        sync_folder(data)


def _close_to_others(path: Path) -> None:
    state = path.stat()
    if state.st_mode & 0o077 and state.st_uid == os.geteuid():
        path.chmod(0o600)
        warn(f"others could read {path}; now only its owner can")


T = TypeVar("T")


@redacts("key", "before")
class KeyChoice(Struct, frozen=True):
    """The key to serve with."""

    key: Secret
    source: KeySource
    before: Secret | None = None
    """The key file's key, when auth.db is still written with it and must be written anew with `key`."""
    made: bool = False
    """The key file must be written first."""
    fresh: bool = False
    """There is no auth.db yet, or nothing in it: no key was compared with this one."""


def choose(data: Path, master: Secret | None, random: Random, origin: str = "") -> KeyChoice:
    """Return the key to serve with; reads only. Raise Refusal if no key at hand is the one auth.db is written with.

    `origin` names for messages where the master key was found.
    """
    ring = _read_only(data / AUTH_DB, keyring.read_key_record)
    filed = read(data)
    choice = _candidate(data, master, filed, ring, random)
    if ring is None:
        return replace(choice, fresh=True)
    _refuse_other(data, choice, ring, random, origin)
    return choice


def refuse_misfit(data: Path, master: Secret | None, ring: keyring.KeyRecord, random: Random, origin: str = "") -> None:
    """Raise Refusal if no key at hand is the one that an auth.db with this keyring is written with; reads only."""
    choice = _candidate(data, master, read(data), ring, random)
    _refuse_other(data, choice, ring, random, origin)


def _refuse_other(data: Path, choice: KeyChoice, ring: keyring.KeyRecord, random: Random, origin: str) -> None:
    keys = Keys.of(choice.key, random)
    if choice.before is None and keys.check != ring.check_value:
        found = f"the key file {data / FILE_NAME}" if choice.source is KeySource.FILE else origin
        raise SetupError(keyring.mismatch_message(ring, keys, choice.source, found))


def settle(data: Path, choice: KeyChoice, random: Random, now_ms: Now) -> int | None:
    """Write down which key auth.db has; the number of local accounts carried over, when it got another one."""
    if choice.made:
        write(data, choice.key)
    keys = Keys.of(choice.key, random)

    def unit(connection: sqlite3.Connection) -> int | None:
        kept = None
        if choice.before is not None:
            kept = keyring.rekey(connection, Keys.of(choice.before, random), keys, now_ms())
        keyring.check_key(connection, keys, choice.source, now_ms())
        return kept

    with refusing(data / AUTH_DB):
        kept = run_transaction(data / AUTH_DB, unit)
    if choice.source is KeySource.MASTER:  # also when a start before this one was cut off right here
        retire(data)
    return kept


@contextmanager
def refusing(path: Path) -> Iterator[None]:
    """What a store or key says against being used, as one sentence."""
    try:
        yield
    except (DatabaseBusy, DiskFull) as e:
        raise CommandFailed(f"{path} cannot be used now: {e}") from None
    except (DatabaseError, sqlite3.Error) as e:
        raise SetupError(f"{path} cannot be used: {e}") from None
    except (MigrationError, keyring.KeyRecordError) as e:
        raise SetupError(str(e)) from None
    except CryptoError as e:
        raise SetupError(f"{path} does not hold together: {e}. Restore it from a backup.") from None


def _candidate(
    data: Path, master: Secret | None, filed: Secret | None, ring: keyring.KeyRecord | None, random: Random
) -> KeyChoice:
    """The key that the owner's settings call for, fitting or not."""
    if master is not None:
        carried = filed is not None and ring is not None and Keys.of(filed, random).check == ring.check_value
        return KeyChoice(master, KeySource.MASTER, before=filed if carried else None)
    if filed is not None:
        return KeyChoice(filed, KeySource.FILE)
    if ring is None:
        return KeyChoice(Secret(random(KEY_BYTES)), KeySource.FILE, made=True)
    if ring.source is KeySource.MASTER:
        raise SetupError(
            f"auth.db is written with a master key (fingerprint {ring.fingerprint}), and the configuration names none: "
            "set master_key_env, and the variable that it names."
        )
    raise SetupError(
        f"The key file {data / FILE_NAME} is missing, and auth.db is written with it "
        f"(fingerprint {ring.fingerprint}): put it back from where you keep it, apart from the backups."
    )


def _read_only(path: Path, unit: Callable[[sqlite3.Connection], T]) -> T | None:
    """What the unit reads in a file that this leaves as it is; None when there is no file, or nothing in it yet."""
    if not path.exists():
        return None
    with refusing(path):
        try:
            return _looked_at(reading_uri(path), unit)
        except sqlite3.Error as e:
            if getattr(e, "sqlite_errorcode", None) != sqlite3.SQLITE_READONLY_ROLLBACK:
                raise translate(e) from None
        with translated():  # a start was cut off while it made the file; only a writer can take that back
            return _looked_at(file_uri(path, "rw"), unit)


def _looked_at(uri: str, unit: Callable[[sqlite3.Connection], T]) -> T | None:
    with closing(connect(uri)) as connection:
        return unit(connection) if version_of(connection) else None
