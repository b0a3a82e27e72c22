"""The `key_record` table names the key that auth.db is written with; `rekey` changes that key (SPEC 2.2/9 to 2.2/14).

Every function runs in a transaction of the caller, who rolls back after an exception.
"""

from msgspec import Struct

from gamed.config.settings import KeySource
from gamed.crypto import Keys, Purpose
from gamed.database.connection import AUTH, Connection
from gamed.database.store import Store
from gamed.players.names import name_index


class KeyRecordError(Exception):
    """A key that does not fit auth.db; nothing was changed. `str(error)` is a text for the owner."""


class KeyMismatch(KeyRecordError):
    """A key that is not the one that auth.db is written with."""


class RekeyRefused(KeyRecordError):
    """A new key for an auth.db with rows that no other key could find."""


class KeyRecord(Struct, frozen=True):
    """The record of auth.db about its key."""

    check_value: bytes
    fingerprint: str
    source: KeySource


def read_key_record(connection: Connection) -> KeyRecord | None:
    """Return the record, or None before the first start."""
    row = connection.execute("SELECT check_value, fingerprint, source FROM key_record").fetchone()
    return None if row is None else KeyRecord(row[0], row[1], KeySource(row[2]))


def read_store_id(connection: Connection) -> str:
    """Return the id that auth.db was given with its first key, and has in every copy."""
    [(store_id,)] = connection.execute("SELECT store_id FROM key_record").fetchall()
    return str(store_id)


def read_created_ms(connection: Connection) -> int | None:
    """Return when auth.db was given its key, which is at the first start; None before that."""
    row = connection.execute("SELECT created_ms FROM key_record").fetchone()
    return None if row is None else int(row[0])


def check_key(connection: Connection, keys: Keys, source: KeySource, now_ms: int, store: Store) -> None:
    """Record the key at the first start; at every later start raise KeyMismatch unless it is the same key."""
    record = read_key_record(connection)
    if record is None:
        _write(connection, keys, source, now_ms)
        return
    if record.check_value != keys.check:
        raise KeyMismatch(mismatch_message(record, keys, source, store.describe(AUTH), if_lost=lost_key_advice(store)))
    if record.source is not source:  # the same key, supplied another way
        _write(connection, keys, source, now_ms)


def rekey(connection: Connection, old: Keys, new: Keys, now_ms: int) -> int:
    """Change from the key file to a master key; return how many local accounts there are.

    Names and the owner's notes are unsealed with the old key, then indexed and sealed with the new one. Sessions,
    logins, links, recovery codes and limits are deleted, because the new key could not find them. A repeated call only
    counts.
    """
    record = read_key_record(connection)
    if record is not None and record.check_value == new.check:
        return _count(connection, "local_account")
    if record is None or record.check_value != old.check:
        raise KeyMismatch("The key file beside auth.db is not the one auth.db was written with. Put that file back.")
    if _count(connection, "identity"):  # the external identities are not stored, so they cannot be indexed again
        raise RekeyRefused(
            "auth.db identifies players by their accounts at a provider, and those cannot be moved to another key. "
            "Start with the key that auth.db was written with."
        )
    kept = _move_accounts(connection, old, new)
    _move_sealed(connection, old, new, "sealed_note", Purpose.NOTE)
    _move_sealed(connection, old, new, "sealed_display_name", Purpose.DISPLAY_NAME)
    links = ("invite", "reset_link", "owner_code", "recovery_code")
    for table in ("session", "credential", "browser_session", "login", "limit_bucket", *links):
        connection.execute(f"DELETE FROM {table}")
    _write(connection, new, KeySource.MASTER, now_ms)
    return kept


def _move_accounts(connection: Connection, old: Keys, new: Keys) -> int:
    rows = connection.execute("SELECT player_id, sealed_name FROM local_account").fetchall()
    query = """
        UPDATE local_account SET name_index = :name_index, sealed_name = :sealed_name WHERE player_id = :player_id
    """
    for player_id, sealed in rows:
        name = old.sealer.unseal(Purpose.ACCOUNT_NAME, player_id, sealed)
        values = {
            "name_index": name_index(new.indexer, name.decode()),
            "sealed_name": new.sealer.seal(Purpose.ACCOUNT_NAME, player_id, name),
            "player_id": player_id,
        }
        connection.execute(query, values)
    return len(rows)


def _move_sealed(connection: Connection, old: Keys, new: Keys, column: str, purpose: Purpose) -> None:
    """Seal a column of the players' table again."""
    rows = connection.execute(f"SELECT player_id, {column} FROM player WHERE {column} IS NOT NULL").fetchall()
    query = f"UPDATE player SET {column} = :sealed WHERE player_id = :player_id"
    for player_id, sealed in rows:
        value = old.sealer.unseal(purpose, player_id, sealed)
        connection.execute(query, {"sealed": new.sealer.seal(purpose, player_id, value), "player_id": player_id})


def _write(connection: Connection, keys: Keys, source: KeySource, now_ms: int) -> None:
    query = """
        INSERT INTO key_record (one, check_value, fingerprint, source, created_ms)
        VALUES (1, :check_value, :fingerprint, :source, :now_ms)
        ON CONFLICT (one) DO UPDATE
        SET check_value = excluded.check_value, fingerprint = excluded.fingerprint, source = excluded.source,
            created_ms = excluded.created_ms
    """
    values = {
        "check_value": keys.check,
        "fingerprint": keys.fingerprint,
        "source": source.value,
        "now_ms": now_ms,
    }
    connection.execute(query, values)


def _count(connection: Connection, table: str) -> int:
    return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def mismatch_message(
    record: KeyRecord, keys: Keys, source: KeySource, where: str, *, origin: str = "", if_lost: str = ""
) -> str:
    """Return the message for an owner who supplied these keys, found in `origin`, for `where`, which has this record.

    `if_lost` is the advice if the right master key is lost.
    """
    this = f"the one in {origin}" if origin else "this one"
    message = (
        f"{where} is written with another key (fingerprint {record.fingerprint}) than {this} ({keys.fingerprint}). "
    )
    if record.source is KeySource.FILE:
        return message + "Put back the key file that was made beside this auth.db."
    if source is KeySource.FILE:
        message += "It needs a master key, and authentication.json names none: set master_key_env and that variable. "
    return f"{message}Supply the master key it was written with. {if_lost}".rstrip()


def lost_key_advice(store: Store) -> str:
    """Return the next step of an owner who has lost the key of this store's `auth`."""
    return (
        f"If that key is lost, {store.name(AUTH)} cannot be read any more: {store.set_aside(AUTH)} and start again; "
        "players then sign in anew. Nothing was changed."
    )
