"""The SQL of links that are valid once: an invite admits one new player, a reset link sets one account's password.

A row holds the index of the link's token, never the token. It stays for a while after the link has ended, so that the
page can say that the link is over.
"""

from collections.abc import Sequence
from typing import Any

from gamed.account.link_model import Invite, NewLink, ResetLink, link_index
from gamed.crypto import DecryptionFailed, Indexer, Keys, Purpose, Sealer
from gamed.database.connection import Connection


def insert_invite(connection: Connection, keys: Keys, invite_id: str, link: NewLink, name: str | None) -> None:
    query = """
        INSERT INTO invite (token_index, invite_id, sealed_name, created_ms, expires_ms)
        VALUES (:token_index, :invite_id, :sealed_name, :created_ms, :expires_ms)
    """
    values = {
        "token_index": link_index(keys.indexer, Purpose.INVITE, link.token),
        "invite_id": invite_id,
        "sealed_name": None if name is None else keys.sealer.seal(Purpose.INVITE, invite_id, name.encode()),
        "created_ms": link.created_ms,
        "expires_ms": link.expires_ms,
    }
    connection.execute(query, values)


_INVITE_COLUMNS = "expires_ms, ended_ms, invite_id, sealed_name, created_ms"


def find_invite(connection: Connection, keys: Keys, token: str) -> Invite | None:
    """Return the invite of a token, also one that has ended."""
    query = f"SELECT {_INVITE_COLUMNS} FROM invite WHERE token_index = :token_index"
    values = {"token_index": link_index(keys.indexer, Purpose.INVITE, token)}
    row = connection.execute(query, values).fetchone()
    return None if row is None else _invite(keys.sealer, row)


def find_invite_by_id(connection: Connection, keys: Keys, invite_id: str) -> Invite | None:
    query = f"SELECT {_INVITE_COLUMNS} FROM invite WHERE invite_id = :invite_id"
    row = connection.execute(query, {"invite_id": invite_id}).fetchone()
    return None if row is None else _invite(keys.sealer, row)


def open_invites(connection: Connection, keys: Keys, now_ms: int) -> list[Invite]:
    """Return the invites that can still be used, the oldest first."""
    query = f"""
        SELECT {_INVITE_COLUMNS} FROM invite
        WHERE ended_ms IS NULL AND expires_ms > :now_ms ORDER BY created_ms, invite_id
    """
    return [_invite(keys.sealer, row) for row in connection.execute(query, {"now_ms": now_ms})]


def page_of_invites(connection: Connection, keys: Keys, now_ms: int, after: tuple[int, str], rows: int) -> list[Invite]:
    """Return up to `rows` invites that can still be used behind one with this instant and id, the newest first."""
    query = f"""
        SELECT {_INVITE_COLUMNS} FROM invite
        WHERE ended_ms IS NULL AND expires_ms > :now_ms AND (created_ms, invite_id) < (:after_ms, :after_id)
        ORDER BY created_ms DESC, invite_id DESC LIMIT :rows
    """
    values = {"now_ms": now_ms, "after_ms": after[0], "after_id": after[1], "rows": rows}
    return [_invite(keys.sealer, row) for row in connection.execute(query, values)]


def count_open_invites(connection: Connection, now_ms: int) -> int:
    query = "SELECT count(*) FROM invite WHERE expires_ms > :now_ms AND ended_ms IS NULL"
    return int(connection.execute(query, {"now_ms": now_ms}).fetchone()[0])


def end_invite(connection: Connection, invite_id: str, now_ms: int) -> bool:
    """Use or revoke an invite; return False if it is not open. Of two transactions only one gets True.

    Its name goes at once: it became the player's, who may be erased before the row is.
    """
    query = """
        UPDATE invite SET ended_ms = :now_ms, sealed_name = NULL
        WHERE invite_id = :invite_id AND ended_ms IS NULL AND expires_ms > :now_ms
    """
    return connection.execute(query, {"invite_id": invite_id, "now_ms": now_ms}).rowcount == 1


def insert_reset_link(connection: Connection, indexer: Indexer, player_id: str, link: NewLink) -> None:
    """Insert a reset link, which ends the earlier ones of the account."""
    end_reset_links(connection, player_id, link.created_ms)
    query = """
        INSERT INTO reset_link (token_index, player_id, created_ms, expires_ms)
        VALUES (:token_index, :player_id, :created_ms, :expires_ms)
    """
    values = {
        "token_index": link_index(indexer, Purpose.RESET, link.token),
        "player_id": player_id,
        "created_ms": link.created_ms,
        "expires_ms": link.expires_ms,
    }
    connection.execute(query, values)


def find_reset_link(connection: Connection, indexer: Indexer, token: str) -> ResetLink | None:
    """Return the reset link of a token, also one that has ended."""
    query = """
        SELECT r.expires_ms, r.ended_ms, r.player_id, p.state
        FROM reset_link r JOIN player p ON p.player_id = r.player_id WHERE r.token_index = :token_index
    """
    row = connection.execute(query, {"token_index": link_index(indexer, Purpose.RESET, token)}).fetchone()
    return None if row is None else ResetLink(*row)


def end_reset_links(connection: Connection, player_id: str, now_ms: int) -> None:
    """End the reset links of an account, because its password is set or a newer link replaces them."""
    query = "UPDATE reset_link SET ended_ms = :now_ms WHERE player_id = :player_id AND ended_ms IS NULL"
    connection.execute(query, {"player_id": player_id, "now_ms": now_ms})


def _invite(sealer: Sealer, row: Sequence[Any]) -> Invite:
    """Return the invite of a row, without its name if that cannot be decrypted: the name is only a suggestion."""
    expires_ms, ended_ms, invite_id, sealed, created_ms = row
    try:
        name = None if sealed is None else sealer.unseal(Purpose.INVITE, invite_id, sealed).decode()
    except DecryptionFailed:
        name = None
    return Invite(expires_ms, ended_ms, invite_id, name, created_ms)
