"""The `key_record` table names the key that auth.db is written with; `rekey` changes that key (SPEC 2.2.3 to 2.2.5).

Every function is one unit of a transaction that the caller began; when it raises, the caller rolls back.
"""

from sqlite3 import Connection

from msgspec import Struct

from gamed.config.settings import KeySource
from gamed.crypto import Keys, Purpose
from gamed.players.names import name_index


class KeyRecordError(Exception):
    """A key that does not fit auth.db; nothing was changed. `str(error)` tells the owner what to do."""


class KeyMismatch(KeyRecordError):
    """auth.db is written with another key than the one supplied."""


class RekeyRefused(KeyRecordError):
    """auth.db holds what no other key could find again."""


class KeyRecord(Struct, frozen=True):
    """What auth.db says about its key."""

    check_value: bytes
    fingerprint: str
    source: KeySource


def read_key_record(connection: Connection) -> KeyRecord | None:
    """None before the first start."""
    row = connection.execute("SELECT check_value, fingerprint, source FROM key_record").fetchone()
    return None if row is None else KeyRecord(row[0], row[1], KeySource(row[2]))


def key_fits(connection: Connection, keys: Keys) -> bool:
    """Whether auth.db is written with these keys; reads only, and a file no service ever opened fits none."""
    ring = read_key_record(connection)
    return ring is not None and ring.check_value == keys.check


def check_key(connection: Connection, keys: Keys, source: KeySource, now_ms: int) -> None:
    """The first start keeps the key's check value; every later one must bring the same key, else KeyMismatch."""
    ring = read_key_record(connection)
    if ring is None:
        _write(connection, keys, source, now_ms)
        return
    if ring.check_value != keys.check:
        raise KeyMismatch(mismatch_message(ring, keys, source))
    if ring.source is not source:  # the same key, supplied another way
        _write(connection, keys, source, now_ms)


def rekey(connection: Connection, old: Keys, new: Keys, now_ms: int) -> int:
    """From the key file to a master key, in the caller's one transaction; how many local accounts were kept.

    Names are opened with the old key, found and sealed again under the new one, as are the owner's notes. Sessions,
    logins and limits go: nothing of them could be found again. Repeating it after it was done only counts.
    """
    ring = read_key_record(connection)
    if ring is not None and ring.check_value == new.check:
        return _count(connection, "local_account")
    if ring is None or ring.check_value != old.check:
        raise KeyMismatch("The key file beside auth.db is not the one auth.db was written with; put it back.")
    if _count(connection, "identity"):  # only a master key ever indexed these, and they cannot be indexed again
        raise RekeyRefused(
            "auth.db knows players by their accounts at a provider, and those cannot be carried to another key. "
            "Start with the key that auth.db was written with."
        )
    kept = _move_accounts(connection, old, new)
    _move_notes(connection, old, new)
    for table in ("session", "login", "limit_bucket"):
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


def _move_notes(connection: Connection, old: Keys, new: Keys) -> None:
    rows = connection.execute("SELECT player_id, sealed_note FROM player WHERE sealed_note IS NOT NULL").fetchall()
    query = "UPDATE player SET sealed_note = :sealed_note WHERE player_id = :player_id"
    for player_id, sealed in rows:
        note = old.sealer.unseal(Purpose.NOTE, player_id, sealed)
        sealed_note = new.sealer.seal(Purpose.NOTE, player_id, note)
        connection.execute(query, {"sealed_note": sealed_note, "player_id": player_id})


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


def mismatch_message(ring: KeyRecord, keys: Keys, source: KeySource, origin: str = "") -> str:
    """Return the message for an owner who supplied these keys, found in `origin`, for an auth.db with this ring."""
    this = f"the one in {origin}" if origin else "this one"
    said = f"auth.db is written with another key (fingerprint {ring.fingerprint}) than {this} ({keys.fingerprint}). "
    if ring.source is KeySource.FILE:
        return said + "Put back the key file that was made beside this auth.db."
    if source is KeySource.FILE:
        said += "It needs a master key, and authentication.json names none: set master_key_env and that variable. "
    return said + (
        "Supply the master key it was written with. If that key is lost, auth.db cannot be read any more: "
        "move auth.db away and start again; players then sign in anew. Nothing was changed."
    )
