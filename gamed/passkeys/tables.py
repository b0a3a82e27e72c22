"""The SQL of passkeys, but for what ways_tables.py has.

- `passkey`: at most MAX_PASSKEYS rows of a player. The id of a credential is found by its index, and stored sealed.
- `passkey_challenge`: challenges whose response was accepted, until they would be too old anyway.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from gamed.crypto import DecryptionFailed, Index, Indexer, Keys, Purpose
from gamed.database.connection import Connection
from gamed.passkeys.ceremony import CEREMONY_MS, Ceremony
from gamed.passkeys.model import Credential, NewPasskey, Passkey, StoredPasskey, Use
from gamed.sessions import tables as session_tables
from gamed.timestamps import CLOCKS_MS

_LISTED = "passkey_id, sealed_name, rp_id, synced, backed_up, created_ms, last_used_ms"


def insert(
    connection: Connection,
    keys: Keys,
    new: NewPasskey,
    *,
    passkey_id: str,
    player_id: str,
    rp_id: str,
    name: str,
    now_ms: int,
) -> None:
    query = """
        INSERT INTO passkey (credential_index, passkey_id, player_id, rp_id, sealed_credential, sealed_name, sign_count,
                             synced, backed_up, created_ms)
        VALUES (:credential_index, :passkey_id, :player_id, :rp_id, :sealed_credential, :sealed_name, :sign_count,
                :synced, :backed_up, :now_ms)
    """
    credential = msgspec.msgpack.encode(new.credential)
    values = {
        "credential_index": credential_index(keys.indexer, new.credential.credential_id),
        "passkey_id": passkey_id,
        "player_id": player_id,
        "rp_id": rp_id,
        "sealed_credential": keys.sealer.seal(Purpose.PASSKEY, passkey_id, credential),
        "sealed_name": keys.sealer.seal(Purpose.PASSKEY_NAME, passkey_id, name.encode()),
        "sign_count": new.sign_count,
        "synced": int(new.synced),
        "backed_up": int(new.backed_up),
        "now_ms": now_ms,
    }
    connection.execute(query, values)


def find(connection: Connection, keys: Keys, credential_id: bytes) -> StoredPasskey | None:
    """Return the passkey of a credential; raise DecryptionFailed."""
    query = """
        SELECT passkey_id, player_id, sealed_credential, sign_count, synced FROM passkey
        WHERE credential_index = :credential_index
    """
    index = credential_index(keys.indexer, credential_id)
    row = connection.execute(query, {"credential_index": index}).fetchone()
    if row is None:
        return None
    passkey_id, player_id, sealed, sign_count, synced = row
    return StoredPasskey(passkey_id, player_id, _credential(keys, passkey_id, sealed), sign_count, bool(synced))


def owner_of(connection: Connection, indexer: Indexer, credential_id: bytes) -> str | None:
    """Return the player who has the passkey of a credential, or None."""
    query = "SELECT player_id FROM passkey WHERE credential_index = :credential_index"
    row = connection.execute(query, {"credential_index": credential_index(indexer, credential_id)}).fetchone()
    return None if row is None else str(row[0])


def list_of(connection: Connection, keys: Keys, player_id: str) -> list[Passkey]:
    """Return a player's passkeys, the oldest first."""
    query = f"SELECT {_LISTED} FROM passkey WHERE player_id = :player_id ORDER BY created_ms, passkey_id"
    return [_listed(keys, row) for row in connection.execute(query, {"player_id": player_id})]


def credentials_of(connection: Connection, keys: Keys, player_id: str) -> list[Credential]:
    """Return the credentials of a player's passkeys, the oldest first, without those that cannot be decrypted."""
    query = """
        SELECT passkey_id, sealed_credential FROM passkey WHERE player_id = :player_id ORDER BY created_ms, passkey_id
    """
    found = []
    for passkey_id, sealed in connection.execute(query, {"player_id": player_id}):
        with suppress(DecryptionFailed):  # a changed row must not keep the player from making another passkey
            found.append(_credential(keys, passkey_id, sealed))
    return found


def hosts_of(connection: Connection, player_id: str) -> dict[str, str]:
    """Return the host of each passkey of a player, by the passkey's id."""
    return dict(
        connection.execute(
            "SELECT passkey_id, rp_id FROM passkey WHERE player_id = :player_id", {"player_id": player_id}
        )
    )


def count_others(connection: Connection, rp_id: str) -> int:
    """Return how many passkeys are of another host, which are void."""
    query = "SELECT count(*) FROM passkey WHERE rp_id <> :rp_id"
    return int(connection.execute(query, {"rp_id": rp_id}).fetchone()[0])


def record_use(connection: Connection, passkey_id: str, use: Use, now_ms: int) -> None:
    query = """
        UPDATE passkey SET sign_count = :sign_count, backed_up = :backed_up, last_used_ms = :now_ms
        WHERE passkey_id = :passkey_id
    """
    values = {"sign_count": use.sign_count, "backed_up": int(use.backed_up), "now_ms": now_ms}
    connection.execute(query, {**values, "passkey_id": passkey_id})


def rename(connection: Connection, keys: Keys, passkey_id: str, player_id: str, name: str) -> bool:
    """Store another name of this player's passkey; return False if the player has none with this id."""
    query = "UPDATE passkey SET sealed_name = :sealed WHERE passkey_id = :passkey_id AND player_id = :player_id"
    sealed = keys.sealer.seal(Purpose.PASSKEY_NAME, passkey_id, name.encode())
    values = {"sealed": sealed, "passkey_id": passkey_id, "player_id": player_id}
    return connection.execute(query, values).rowcount == 1


def delete(connection: Connection, passkey_id: str, player_id: str) -> bool:
    """Delete this player's passkey; return False if the player has none with this id."""
    query = "DELETE FROM passkey WHERE passkey_id = :passkey_id AND player_id = :player_id"
    return connection.execute(query, {"passkey_id": passkey_id, "player_id": player_id}).rowcount == 1


def use_challenge(connection: Connection, indexer: Indexer, ceremony: Ceremony, now_ms: int) -> bool:
    """Use up a challenge; return False if it was used before.

    Its row stays for CLOCKS_MS longer than any machine takes the ceremony: else a process with a clock that is ahead
    would delete it, and one with a clock that is behind would take the same response again. A process whose clock was
    set ahead deletes by that of the database.
    """
    before_ms = now_ms - max(0, connection.ahead_ms)
    connection.execute("DELETE FROM passkey_challenge WHERE expires_ms <= :before_ms", {"before_ms": before_ms})
    query = """
        INSERT INTO passkey_challenge (challenge_index, expires_ms) VALUES (:challenge_index, :expires_ms)
        ON CONFLICT (challenge_index) DO NOTHING
    """
    index = indexer.index(Purpose.PASSKEY_CEREMONY, ceremony.challenge)
    values = {"challenge_index": index, "expires_ms": ceremony.made_ms + CEREMONY_MS + CLOCKS_MS}
    return connection.execute(query, values).rowcount == 1


def sessions_of(connection: Connection, passkey_id: str, player_id: str) -> Sequence[str]:
    """Return the player's sessions, and browser sessions, that this passkey opened and that have not ended."""
    query = """
        SELECT session_id FROM session
        WHERE player_id = :player_id AND passkey_id = :passkey_id AND revoked_ms IS NULL
        UNION ALL
        SELECT session_id FROM browser_session WHERE player_id = :player_id AND passkey_id = :passkey_id
    """
    rows = connection.execute(query, {"passkey_id": passkey_id, "player_id": player_id}).fetchall()
    return [session_id for (session_id,) in rows]


def reset(connection: Connection, player_id: str, now_ms: int) -> tuple[int, int]:
    """Delete all passkeys of a player and end the sessions that they opened; return the numbers of both."""
    query = """
        SELECT session_id FROM session
        WHERE player_id = :player_id AND passkey_id IS NOT NULL AND revoked_ms IS NULL
        UNION ALL
        SELECT session_id FROM browser_session WHERE player_id = :player_id AND passkey_id IS NOT NULL
    """
    values = {"player_id": player_id}
    opened = connection.execute(query, values).fetchall()
    for (session_id,) in opened:
        session_tables.revoke_any(connection, session_id, now_ms)
    return connection.execute("DELETE FROM passkey WHERE player_id = :player_id", values).rowcount, len(opened)


def rekey(connection: Connection, old: Keys, new: Keys) -> None:
    """Index and seal all passkeys with another key."""
    query = """
        UPDATE passkey SET credential_index = :credential_index, sealed_credential = :sealed_credential,
            sealed_name = :sealed_name
        WHERE passkey_id = :passkey_id
    """
    for passkey_id, sealed, name in connection.execute(
        "SELECT passkey_id, sealed_credential, sealed_name FROM passkey"
    ).fetchall():
        raw = old.sealer.unseal(Purpose.PASSKEY, passkey_id, sealed)
        shown = old.sealer.unseal(Purpose.PASSKEY_NAME, passkey_id, name)
        values = {
            "credential_index": credential_index(new.indexer, _credential(old, passkey_id, sealed).credential_id),
            "sealed_credential": new.sealer.seal(Purpose.PASSKEY, passkey_id, raw),
            "sealed_name": new.sealer.seal(Purpose.PASSKEY_NAME, passkey_id, shown),
            "passkey_id": passkey_id,
        }
        connection.execute(query, values)
    connection.execute("DELETE FROM passkey_challenge")


def credential_index(indexer: Indexer, credential_id: bytes) -> Index:
    return indexer.index(Purpose.PASSKEY, credential_id)


def _credential(keys: Keys, passkey_id: str, sealed: bytes) -> Credential:
    raw = keys.sealer.unseal(Purpose.PASSKEY, passkey_id, sealed)
    return msgspec.msgpack.decode(raw, type=Credential)


def _listed(keys: Keys, row: Sequence[Any]) -> Passkey:
    passkey_id, sealed, rp_id, synced, backed_up, *instants = row
    name = ""
    with suppress(DecryptionFailed):  # a changed row must neither keep the player out nor the passkey from its removal
        name = keys.sealer.unseal(Purpose.PASSKEY_NAME, passkey_id, sealed).decode()
    return Passkey(passkey_id, name, rp_id, bool(synced), bool(backed_up), *instants)
