"""What signs in as one player, whatever it is: accounts at providers and the local one (PROTOCOL 3.8)."""

from sqlite3 import Connection

from gamed.crypto import Index
from gamed.players.errors import LastIdentity
from gamed.players.identities import LOCAL, Identity, WaysIn, is_last


def listed(connection: Connection, player_id: str) -> list[Identity]:
    """Oldest first."""
    query = """
        SELECT provider, linked_ms, last_used_ms, realm_index FROM identity WHERE player_id = :player_id
        UNION ALL
        SELECT 'local', linked_ms, last_used_ms, NULL FROM local_account WHERE player_id = :player_id
        ORDER BY linked_ms, provider
    """
    rows = connection.execute(query, {"player_id": player_id})
    return [Identity(name, linked, used, None if realm is None else Index(realm)) for name, linked, used, realm in rows]


def unlink(connection: Connection, player_id: str, provider: str, ways: WaysIn) -> bool | LastIdentity:
    """Whether there was one; LastIdentity, and nothing removed, when no other can sign in."""
    identities = listed(connection, player_id)
    if all(identity.provider != provider for identity in identities):
        return False
    if is_last(identities, provider, ways):
        return LastIdentity()
    values = {"player_id": player_id, "provider": provider}
    if provider == LOCAL:
        connection.execute("DELETE FROM local_account WHERE player_id = :player_id", values)
    else:
        connection.execute("DELETE FROM identity WHERE player_id = :player_id AND provider = :provider", values)
    return True
