"""The `local_account` table: a name and a password that sign in as one player (SPEC 1.3 `local`).

The name is found by its index and kept sealed; the password is argon2id in PHC form, never a Secret of ours.
"""

from collections.abc import Iterator, Mapping
from sqlite3 import Connection

from msgspec import Struct

from gamed.crypto import Index, Keys, Purpose, Sealer
from gamed.players.errors import NameTaken, PlayerUnknown
from gamed.players.names import name_index
from gamed.storage.auth import players
from gamed.storage.auth.players import Player, State
from gamed.structs import hides

_PLAYER = "p.player_id, p.state, p.owner, p.created_ms, p.last_sign_in_ms"


@hides("password")
class LocalAccount(Struct, frozen=True):
    """What a sign-in needs to know of an account."""

    player_id: str
    password: str
    """argon2id, PHC string."""
    state: State
    """Of the player: only `active` ones may be given a session."""


class NamedPlayer(Struct, frozen=True):
    """A player and the name of the local account, None without one."""

    player: Player
    name: str | None


def find(connection: Connection, index: Index) -> LocalAccount | None:
    """The account under a name (gamed.players.names.name_index)."""
    query = """
        SELECT a.player_id, a.password, p.state
        FROM local_account a JOIN player p ON p.player_id = a.player_id
        WHERE a.name_index = :name_index
    """
    row = connection.execute(query, {"name_index": index}).fetchone()
    return None if row is None else LocalAccount(*row)


def create_account(
    connection: Connection, keys: Keys, *, player_id: str, name: str, password: str, now_ms: int
) -> None:
    """Give a player without one a local account; `name` as parse_name() made it. NameTaken changes nothing."""
    index = name_index(keys.indexer, name)
    if find(connection, index) is not None:
        raise NameTaken
    query = """
        INSERT INTO local_account (name_index, player_id, sealed_name, password, linked_ms, last_used_ms)
        VALUES (:name_index, :player_id, :sealed_name, :password, :now_ms, :now_ms)
    """
    values = {
        "name_index": index,
        "player_id": player_id,
        "sealed_name": keys.sealer.seal(Purpose.ACCOUNT_NAME, player_id, name.encode()),
        "password": password,
        "now_ms": now_ms,
    }
    connection.execute(query, values)


def account_used(connection: Connection, player_id: str, now_ms: int) -> None:
    """Note that the account signed somebody in."""
    connection.execute(
        "UPDATE local_account SET last_used_ms = :now_ms WHERE player_id = :player_id",
        {"player_id": player_id, "now_ms": now_ms},
    )


def set_password(connection: Connection, player_id: str, password: str, now_ms: int) -> None:
    """Another one for the account of this player; argon2id, PHC string."""
    query = "UPDATE local_account SET password = :password, password_ms = :now_ms WHERE player_id = :player_id"
    connection.execute(query, {"player_id": player_id, "password": password, "now_ms": now_ms})


def password_changed(connection: Connection, player_id: str, since_ms: int, now_ms: int) -> bool:
    """Whether this player's account got another password since then; one still to come is of a clock set back."""
    query = """
        SELECT 1 FROM local_account
        WHERE player_id = :player_id AND password_ms >= :since_ms AND password_ms <= :now_ms
    """
    values = {"player_id": player_id, "since_ms": since_ms, "now_ms": now_ms}
    return connection.execute(query, values).fetchone() is not None


def add_local_player(
    connection: Connection, keys: Keys, *, player_id: str, name: str, password: str, now_ms: int
) -> None:
    """A new active player with a local account, as `players add` makes one; NameTaken changes nothing."""
    if find(connection, name_index(keys.indexer, name)) is not None:
        raise NameTaken
    players.create_player(connection, player_id, now_ms)
    create_account(connection, keys, player_id=player_id, name=name, password=password, now_ms=now_ms)


def any_unlinked(connection: Connection) -> bool:
    """Whether some local account is the only way in for its player."""
    query = "SELECT EXISTS (SELECT 1 FROM local_account WHERE player_id NOT IN (SELECT player_id FROM identity))"
    return bool(connection.execute(query).fetchone()[0])


def list_players(connection: Connection, sealer: Sealer, state: State | None = None) -> list[NamedPlayer]:
    """Every player, or those in one state, oldest first, with the local name opened."""
    if state is None:
        return list(_named(connection, sealer, "", {}))
    return list(_named(connection, sealer, "WHERE p.state = :state", {"state": state}))


def find_named(connection: Connection, keys: Keys, name_or_id: str) -> NamedPlayer:
    """The player with this id, or else with this local name; PlayerUnknown when there is neither.

    The id wins: nobody becomes another by choosing a name that looks like an id.
    """
    found = next(_named(connection, keys.sealer, "WHERE p.player_id = :wanted", {"wanted": name_or_id}), None)
    if found is None:
        wanted = {"wanted": name_index(keys.indexer, name_or_id)}
        found = next(_named(connection, keys.sealer, "WHERE a.name_index = :wanted", wanted), None)
    if found is None:
        raise PlayerUnknown(f"There is no player with the name or id {name_or_id!r}.")
    return found


def _named(
    connection: Connection, sealer: Sealer, where: str, values: Mapping[str, str | bytes]
) -> Iterator[NamedPlayer]:
    query = f"""
        SELECT {_PLAYER}, a.sealed_name
        FROM player p LEFT JOIN local_account a ON a.player_id = p.player_id
        {where} ORDER BY p.created_ms, p.player_id
    """
    for *row, sealed in connection.execute(query, values):
        player = players.player_of(row)
        name = None if sealed is None else sealer.unseal(Purpose.ACCOUNT_NAME, player.player_id, sealed).decode()
        yield NamedPlayer(player, name)
