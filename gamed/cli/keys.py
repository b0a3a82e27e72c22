"""Which key auth.db gets, decided before anything is written: the master key, the key file, or a refusal (SPEC 2.2)."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from gamed.cli import key_file
from gamed.cli.files import AUTH_DB
from gamed.cli.refusal import NotDone, Refusal
from gamed.config.settings import KeySource
from gamed.crypto import KEY_BYTES, CryptoError, Keys, Random, Secret
from gamed.instants import Now
from gamed.storage.auth import keyring
from gamed.storage.command import once
from gamed.storage.errors import translate, translated
from gamed.storage.files import connect, file_uri, reading_uri
from gamed.storage.migrations import MigrationError, version_of
from gamed.store import StoreBusy, StoreError, StoreFull
from gamed.structs import hides

T = TypeVar("T")


@hides("key", "before")
class Choice(Struct, frozen=True):
    """The key to serve with."""

    key: Secret
    source: KeySource
    before: Secret | None = None
    """The key file's key, when auth.db is still written with it and must be written anew with `key`."""
    made: bool = False
    """The key file must be written first."""
    fresh: bool = False
    """There is no auth.db yet, or nothing in it: no key was compared with this one."""


def choose(data: Path, master: Secret | None, random: Random, origin: str = "") -> Choice:
    """Return the key to serve with; reads only. Raise Refusal if no key at hand is the one auth.db is written with.

    `origin` names for messages where the master key was found.
    """
    ring = _read_only(data / AUTH_DB, keyring.read)
    filed = key_file.read(data)
    choice = _candidate(data, master, filed, ring, random)
    if ring is None:
        return replace(choice, fresh=True)
    _refuse_other(data, choice, ring, random, origin)
    return choice


def refuse_misfit(data: Path, master: Secret | None, ring: keyring.Keyring, random: Random, origin: str = "") -> None:
    """Raise Refusal if no key at hand is the one that an auth.db with this keyring is written with; reads only."""
    choice = _candidate(data, master, key_file.read(data), ring, random)
    _refuse_other(data, choice, ring, random, origin)


def _refuse_other(data: Path, choice: Choice, ring: keyring.Keyring, random: Random, origin: str) -> None:
    keys = Keys.of(choice.key, random)
    if choice.before is None and keys.check != ring.check_value:
        found = f"the key file {data / key_file.FILE_NAME}" if choice.source is KeySource.FILE else origin
        raise Refusal(keyring.mismatch(ring, keys, choice.source, found))


def settle(data: Path, choice: Choice, random: Random, now_ms: Now) -> int | None:
    """Write down which key auth.db has; the number of local accounts carried over, when it got another one."""
    if choice.made:
        key_file.write(data, choice.key)
    keys = Keys.of(choice.key, random)

    def unit(connection: sqlite3.Connection) -> int | None:
        kept = None
        if choice.before is not None:
            kept = keyring.rekey(connection, Keys.of(choice.before, random), keys, now_ms())
        keyring.check(connection, keys, choice.source, now_ms())
        return kept

    with refusing(data / AUTH_DB):
        kept = once(data / AUTH_DB, unit)
    if choice.source is KeySource.MASTER:  # also when a start before this one was cut off right here
        key_file.retire(data)
    return kept


@contextmanager
def refusing(path: Path) -> Iterator[None]:
    """What a store or key says against being used, as one sentence."""
    try:
        yield
    except (StoreBusy, StoreFull) as e:
        raise NotDone(f"{path} cannot be used now: {e}") from None
    except (StoreError, sqlite3.Error) as e:
        raise Refusal(f"{path} cannot be used: {e}") from None
    except (MigrationError, keyring.KeyringError) as e:
        raise Refusal(str(e)) from None
    except CryptoError as e:
        raise Refusal(f"{path} does not hold together: {e}. Restore it from a backup.") from None


def _candidate(
    data: Path, master: Secret | None, filed: Secret | None, ring: keyring.Keyring | None, random: Random
) -> Choice:
    """The key that the owner's settings call for, fitting or not."""
    if master is not None:
        carried = filed is not None and ring is not None and Keys.of(filed, random).check == ring.check_value
        return Choice(master, KeySource.MASTER, before=filed if carried else None)
    if filed is not None:
        return Choice(filed, KeySource.FILE)
    if ring is None:
        return Choice(Secret(random(KEY_BYTES)), KeySource.FILE, made=True)
    if ring.source is KeySource.MASTER:
        raise Refusal(
            f"auth.db is written with a master key (fingerprint {ring.fingerprint}), and the configuration names none: "
            "set master_key_env, and the variable that it names."
        )
    raise Refusal(
        f"The key file {data / key_file.FILE_NAME} is missing, and auth.db is written with it "
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
