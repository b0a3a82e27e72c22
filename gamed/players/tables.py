"""The SQL of players and of their sign-in methods.

- `player`: one row per person who has collected a sign-in, or whom the owner added (docs/protocol.md: Collect). At most
  one player is the server's owner, which the game sees as `player.owner` (SPEC 4/18). The display name is sealed.
- `local_account`: a name and a password that sign in as one player (SPEC 1/5 `local`). The name is sealed, and found by
  its index; the password is stored as argon2id in PHC form.
- `identity`: an account at a provider that signs in as one player (docs/protocol.md: Accounts).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from msgspec import Struct

from gamed.crypto import DecryptionFailed, Index, Keys, Purpose, Sealer
from gamed.database.connection import Connection, rows_in
from gamed.players.errors import NameTaken, PlayerChanged, PlayerUnknown
from gamed.players.model import NamedPlayer, Player, State
from gamed.players.names import LOCAL, SignInMethod, name_index
from gamed.structs import redacts

_APPROVING = """
    approved = CASE WHEN :state = 'active' THEN 1 ELSE approved END,
    approval_code = CASE WHEN :state = 'active' THEN NULL ELSE approval_code END
"""
"""A player who was active once is approved, and stays approved while blocked."""
_COLUMNS = "player_id, state, owner, created_ms, last_sign_in_ms, approval_code"


def create_player(
    connection: Connection, player_id: str, now_ms: int, state: State = "active", approval_code: str | None = None
) -> None:
    """Insert a player who has not signed in yet, and who is not the owner."""
    query = """
        INSERT INTO player (player_id, state, approved, approval_code, created_ms)
        VALUES (:player_id, :state, :approved, :approval_code, :now_ms)
    """
    values = {"player_id": player_id, "state": state, "approved": state != "pending", "now_ms": now_ms}
    connection.execute(query, values | {"approval_code": approval_code})


def first_free_code(connection: Connection, codes: Iterable[str]) -> str | None:
    """Return the first of these approval codes that no player has, or None; the write transaction keeps it free."""
    query = "SELECT 1 FROM player WHERE approval_code = :code"
    return next((code for code in codes if connection.execute(query, {"code": code}).fetchone() is None), None)


def find_player(connection: Connection, player_id: str) -> Player | None:
    query = f"SELECT {_COLUMNS} FROM player WHERE player_id = :player_id"
    row = connection.execute(query, {"player_id": player_id}).fetchone()
    return None if row is None else player_of(row)


def existing_players(connection: Connection, player_ids: Sequence[str]) -> set[str]:
    """Return those of the players who exist, in whatever state."""
    query = "SELECT player_id FROM player WHERE player_id IN "
    return {player_id for (player_id,) in rows_in(connection, query, player_ids)}


def count_players(connection: Connection) -> int:
    """Return the number of players in all states."""
    return int(connection.execute("SELECT count(*) FROM player").fetchone()[0])


def record_sign_in(connection: Connection, player_id: str, now_ms: int) -> None:
    """Record a sign-in: a collected login, or a session that a command made."""
    connection.execute(
        "UPDATE player SET last_sign_in_ms = :now_ms WHERE player_id = :player_id",
        {"player_id": player_id, "now_ms": now_ms},
    )


def set_state(connection: Connection, player_id: str, state: State) -> bool:
    """Set a player's state, which authenticate() reads at each request; return False if the player does not exist."""
    query = f"UPDATE player SET state = :state, {_APPROVING} WHERE player_id = :player_id"
    return connection.execute(query, {"player_id": player_id, "state": state}).rowcount == 1


def change_state(connection: Connection, player_id: str, before: State, after: State) -> bool:
    """Change a player's state if it is `before`; return whether it was."""
    query = f"UPDATE player SET state = :state, {_APPROVING} WHERE player_id = :player_id AND state = :before"
    values = {"player_id": player_id, "before": before, "state": after}
    return connection.execute(query, values).rowcount == 1


def lift_block(connection: Connection, player_id: str) -> State | None:
    """Set a blocked player to `active`, or `pending` if never approved; return the new state, None if not blocked."""
    query = """
        UPDATE player SET state = CASE WHEN approved = 1 THEN 'active' ELSE 'pending' END
        WHERE player_id = :player_id AND state = 'blocked' RETURNING state
    """
    row = connection.execute(query, {"player_id": player_id}).fetchone()
    return None if row is None else row[0]


def moderate(connection: Connection, player_id: str, before: State, after: State | None) -> str:
    """Change a player's state from `before` to `after`; with None delete the request of one who waits for approval.

    Return what to call the new state. Raise PlayerChanged, and change nothing, if the state is another one by now.
    """
    player = find_player(connection, player_id)
    if player is None or player.state != before:
        raise PlayerChanged("gone" if player is None else player.state)
    if after is None:
        remove_pending(connection, player_id)
        return "forgotten"
    if before == "blocked" and after == "active":
        return lift_block(connection, player_id) or before
    change_state(connection, player_id, before, after)
    return after


def remove_pending(connection: Connection, player_id: str) -> bool:
    """Delete a player who was never approved, so has neither sessions nor saves; return False if there is none."""
    query = "DELETE FROM player WHERE player_id = :player_id AND state = 'pending'"
    return connection.execute(query, {"player_id": player_id}).rowcount == 1


def set_note(connection: Connection, sealer: Sealer, player_id: str, note: str) -> None:
    """Store the owner's note about a player, sealed; "" deletes it."""
    sealed = sealer.seal(Purpose.NOTE, player_id, note.encode()) if note else None
    query = "UPDATE player SET sealed_note = :sealed_note WHERE player_id = :player_id"
    connection.execute(query, {"player_id": player_id, "sealed_note": sealed})


def note_of(connection: Connection, sealer: Sealer, player_id: str) -> str | None:
    query = "SELECT sealed_note FROM player WHERE player_id = :player_id AND sealed_note IS NOT NULL"
    row = connection.execute(query, {"player_id": player_id}).fetchone()
    return None if row is None else sealer.unseal(Purpose.NOTE, player_id, row[0]).decode()


def set_display_name(connection: Connection, sealer: Sealer, player_id: str, name: str | None) -> bool:
    """Store a result of parse_display_name(), sealed; None deletes it. Return False if the player does not exist."""
    sealed = None if name is None else sealer.seal(Purpose.DISPLAY_NAME, player_id, name.encode())
    query = """
        UPDATE player SET sealed_display_name = :sealed WHERE player_id = :player_id AND state <> 'erasing'
    """
    return connection.execute(query, {"player_id": player_id, "sealed": sealed}).rowcount == 1


def display_name_of(connection: Connection, sealer: Sealer, player_id: str) -> str | None:
    """Return the name that the game shows for a player, or None."""
    query = "SELECT sealed_display_name FROM player WHERE player_id = :player_id"
    row = connection.execute(query, {"player_id": player_id}).fetchone()
    return None if row is None else unseal_display_name(sealer, player_id, row[0])


def unseal_display_name(sealer: Sealer, player_id: str, sealed: bytes | None) -> str | None:
    """Return the display name; None also if it cannot be decrypted, which must not keep the player out."""
    try:
        return None if sealed is None else sealer.unseal(Purpose.DISPLAY_NAME, player_id, sealed).decode()
    except DecryptionFailed:
        return None


def player_of(row: Sequence[Any]) -> Player:
    """Return the player of a row of player_id, state, owner, created_ms, last_sign_in_ms, approval_code."""
    player_id, state, owner, *others = row
    return Player(player_id, state, bool(owner), *others)


_NAMED = """
    SELECT p.player_id, p.state, p.owner, p.created_ms, p.last_sign_in_ms, p.approval_code, p.sealed_display_name,
        a.sealed_name
    FROM player p LEFT JOIN local_account a ON a.player_id = p.player_id
"""


@redacts("password")
class LocalAccount(Struct, frozen=True):
    """The part of a local account that a sign-in needs."""

    player_id: str
    password: str
    """argon2id, as a PHC string."""
    state: State
    """The player's state: only an active player may get a session."""

    @property
    def password_tag(self) -> bytes:
        """Return the tag of the password, to be sealed with the proof that it was typed."""
        return password_tag(self.password)


def find_account(connection: Connection, index: Index) -> LocalAccount | None:
    """Return the account with this index of its name (gamed.players.names.name_index)."""
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
    """Insert a local account for a player without one; `name` is a result of parse_name(). Raise NameTaken."""
    index = name_index(keys.indexer, name)
    # Read first: a violated constraint would fail the whole transaction on PostgreSQL.
    if find_account(connection, index) is not None:
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


def record_account_use(connection: Connection, player_id: str, now_ms: int) -> None:
    connection.execute(
        "UPDATE local_account SET last_used_ms = :now_ms WHERE player_id = :player_id",
        {"player_id": player_id, "now_ms": now_ms},
    )


def set_password(connection: Connection, player_id: str, password: str, now_ms: int) -> None:
    """Replace the password of a player's account; `password` is argon2id as a PHC string."""
    query = "UPDATE local_account SET password = :password, password_ms = :now_ms WHERE player_id = :player_id"
    connection.execute(query, {"player_id": player_id, "password": password, "now_ms": now_ms})


def password_tag(password: str) -> bytes:
    """Return 16 bytes that differ for each password that was set, as its salt does; seal them with a proof of it."""
    return sha256(password.encode()).digest()[:16]


def password_changed(connection: Connection, player_id: str, since_ms: int, now_ms: int, checked: bytes = b"") -> bool:
    """Return whether the player's account got another password since then, or was unlinked.

    `checked` is the tag of the password that was right, which tells without any clock. A proof without it, such as for
    an adoption, ends also with a change up to CLOCKS_MS before it, if the machine that wrote it may be another one:
    else its owner could use an old password whenever that machine's clock is behind. Later than `now_ms` is a change
    by such a machine, or, beyond CLOCKS_MS or on one machine, one before the clock was set back, which does not count.
    """
    query = "SELECT password, password_ms FROM local_account WHERE player_id = :player_id"
    row = connection.execute(query, {"player_id": player_id}).fetchone()
    if row is None:
        return True
    password, password_ms = row
    if checked and password_tag(password) != checked:
        return True
    # With the tag, the clocks add only changes before the password was typed. A margin would refuse for a minute the
    # devices that sign in again after a change.
    margin_ms = 0 if checked else connection.clocks_ms
    return bool(since_ms - margin_ms <= password_ms <= now_ms + margin_ms)


def add_local_player(
    connection: Connection, keys: Keys, *, player_id: str, name: str, password: str, now_ms: int
) -> None:
    """Insert an active player with a local account, as `players add` does; raise NameTaken."""
    if find_account(connection, name_index(keys.indexer, name)) is not None:
        raise NameTaken
    create_player(connection, player_id, now_ms)
    create_account(connection, keys, player_id=player_id, name=name, password=password, now_ms=now_ms)


def any_unlinked(connection: Connection) -> bool:
    """Return whether some local account is the only sign-in method of its player."""
    query = """
        SELECT EXISTS (
            SELECT 1 FROM local_account
            WHERE player_id NOT IN (SELECT player_id FROM identity) AND player_id NOT IN (SELECT player_id FROM passkey)
        )
    """
    return bool(connection.execute(query).fetchone()[0])


def list_players(connection: Connection, sealer: Sealer, state: State | None = None) -> list[NamedPlayer]:
    """Return all players, or those in one state, the oldest first, with the local name unsealed."""
    if state is None:
        return list(_named(connection, sealer, "", {}))
    return list(_named(connection, sealer, "WHERE p.state = :state", {"state": state}))


def latest_players(
    connection: Connection, sealer: Sealer, rows: int, before: tuple[int, str] | None = None
) -> list[NamedPlayer]:
    """Return up to `rows` players, the newest sign-in first; `before` is the last sign-in and the id of one of them.

    A player who never signed in counts as one who did at 0.
    """
    signed_in = "coalesce(p.last_sign_in_ms, 0)"
    where = "" if before is None else f"WHERE ({signed_in}, p.player_id) < (:before_ms, :before_id)"
    before_ms, before_id = before or (0, "")
    values: dict[str, str | bytes | int] = {"before_ms": before_ms, "before_id": before_id, "rows": rows}
    return list(_named(connection, sealer, where, values, f"ORDER BY {signed_in} DESC, p.player_id DESC LIMIT :rows"))


def players_after(connection: Connection, sealer: Sealer, after: str, rows: int) -> list[NamedPlayer]:
    """Return up to `rows` players with an id behind this one, in the order of their ids."""
    values: dict[str, str | bytes | int] = {"after": after, "rows": rows}
    return list(_named(connection, sealer, "WHERE p.player_id > :after", values, "ORDER BY p.player_id LIMIT :rows"))


def newest_waiting(connection: Connection, until_ms: int) -> tuple[int, int | None]:
    """Count the players who wait for approval; also return when the newest of them came, up to `until_ms`."""
    query = """
        SELECT count(*), max(CASE WHEN created_ms <= :until_ms THEN created_ms END)
        FROM player WHERE state = 'pending'
    """
    count, newest = connection.execute(query, {"until_ms": until_ms}).fetchone()
    return int(count), newest


def list_waiting(connection: Connection, sealer: Sealer, after_ms: int, until_ms: int, rows: int) -> list[NamedPlayer]:
    """Return up to `rows` players who wait for approval and came in this time, the newest first."""
    where = "WHERE p.state = 'pending' AND p.created_ms > :after_ms AND p.created_ms <= :until_ms"
    values: dict[str, str | bytes | int] = {"after_ms": after_ms, "until_ms": until_ms, "rows": rows}
    return list(_named(connection, sealer, where, values, "ORDER BY p.created_ms DESC, p.player_id LIMIT :rows"))


def waiting_players(connection: Connection, sealer: Sealer, rows: int) -> list[NamedPlayer]:
    """Return up to `rows` players who wait for approval, the oldest request first."""
    return list(
        _named(connection, sealer, "WHERE p.state = 'pending'", {"rows": rows}, "ORDER BY p.created_ms LIMIT :rows")
    )


def named_players(connection: Connection, sealer: Sealer, player_ids: Sequence[str]) -> list[NamedPlayer]:
    """Return these players in any order; unknown ids are left out."""
    rows = rows_in(connection, f"{_NAMED} WHERE p.player_id IN ", player_ids)
    return [_unsealed(sealer, row) for row in rows]


def ways_of(connection: Connection, player_ids: Sequence[str]) -> dict[str, list[str]]:
    """Return the names of the sign-in methods of these players by id, providers first."""
    identities = rows_in(connection, "SELECT player_id, provider FROM identity WHERE player_id IN ", player_ids)
    accounts = rows_in(connection, "SELECT player_id FROM local_account WHERE player_id IN ", player_ids)
    ways: dict[str, list[str]] = {}
    for player_id, provider in [*sorted(identities), *((player_id, LOCAL) for (player_id,) in accounts)]:
        ways.setdefault(player_id, []).append(provider)
    return ways


def find_named(connection: Connection, keys: Keys, name_or_id: str) -> NamedPlayer:
    """Find the player with this id, otherwise with this local name; raise PlayerUnknown if there is neither.

    The id comes first, so that a player cannot impersonate another one by a name that looks like an id.
    """
    found = next(_named(connection, keys.sealer, "WHERE p.player_id = :wanted", {"wanted": name_or_id}), None)
    if found is None:
        wanted = {"wanted": name_index(keys.indexer, name_or_id)}
        found = next(_named(connection, keys.sealer, "WHERE a.name_index = :wanted", wanted), None)
    if found is None:
        raise PlayerUnknown(f"There is no player with the name or id {name_or_id!r}.", name_or_id)
    return found


def find_by_approval_code(connection: Connection, keys: Keys, code: str) -> NamedPlayer:
    """Find the player who waits with this code; raise PlayerUnknown."""
    found = next(_named(connection, keys.sealer, "WHERE p.approval_code = :wanted", {"wanted": code}), None)
    if found is None:
        raise PlayerUnknown(f"No player has the approval code {code}.")
    return found


def _named(
    connection: Connection,
    sealer: Sealer,
    where: str,
    values: Mapping[str, str | bytes | int],
    order: str = "ORDER BY p.created_ms, p.player_id",
) -> Iterator[NamedPlayer]:
    for row in connection.execute(f"{_NAMED} {where} {order}", values):
        yield _unsealed(sealer, row)


def _unsealed(sealer: Sealer, row: Sequence[Any]) -> NamedPlayer:
    *members, shown, sealed = row
    player = player_of(members)
    name = None if sealed is None else sealer.unseal(Purpose.ACCOUNT_NAME, player.player_id, sealed).decode()
    return NamedPlayer(player, name, unseal_display_name(sealer, player.player_id, shown))


def identity_owner(connection: Connection, index: Index) -> str | None:
    """Return the player of this identity, or None if it is not linked."""
    query = "SELECT player_id FROM identity WHERE identity_index = :identity_index"
    row = connection.execute(query, {"identity_index": index}).fetchone()
    return None if row is None else str(row[0])


def has_identity(connection: Connection, player_id: str, provider: str) -> bool:
    query = "SELECT EXISTS (SELECT 1 FROM identity WHERE player_id = :player_id AND provider = :provider)"
    return bool(connection.execute(query, {"player_id": player_id, "provider": provider}).fetchone()[0])


def insert_identity(
    connection: Connection, *, index: Index, namespace: Index, player_id: str, provider: str, now_ms: int
) -> None:
    """Link an identity to a player; `provider` is the provider's name in authentication.json."""
    query = """
        INSERT INTO identity (identity_index, player_id, provider, realm_index, linked_ms, last_used_ms)
        VALUES (:identity_index, :player_id, :provider, :realm_index, :now_ms, :now_ms)
    """
    values = {
        "identity_index": index,
        "player_id": player_id,
        "provider": provider,
        "realm_index": namespace,
        "now_ms": now_ms,
    }
    connection.execute(query, values)


def record_identity_use(connection: Connection, index: Index, now_ms: int) -> None:
    query = "UPDATE identity SET last_used_ms = :now_ms WHERE identity_index = :identity_index"
    connection.execute(query, {"identity_index": index, "now_ms": now_ms})


def orphaned_identities(connection: Connection, namespaces: Collection[Index]) -> int:
    """Count the identities that are not in the namespace of a configured provider."""
    counts = connection.execute("SELECT realm_index, count(*) FROM identity GROUP BY realm_index").fetchall()
    return sum(count for namespace, count in counts if namespace not in namespaces)


def find_owner(connection: Connection) -> str | None:
    """Return the player id of the owner, or None."""
    row = connection.execute("SELECT player_id FROM player WHERE owner = 1").fetchone()
    return None if row is None else str(row[0])


def set_owner(connection: Connection, player_id: str) -> None:
    """Make a player the owner; the caller makes sure that no other player is."""
    connection.execute("UPDATE player SET owner = 1 WHERE player_id = :player_id", {"player_id": player_id})


def clear_owner(connection: Connection, player_id: str) -> bool:
    """Make a player an ordinary one; return whether the player was the owner."""
    query = "UPDATE player SET owner = 0 WHERE player_id = :player_id AND owner = 1"
    return connection.execute(query, {"player_id": player_id}).rowcount == 1


def sign_in_methods(connection: Connection, player_id: str) -> list[SignInMethod]:
    """Return a player's sign-in methods, the oldest first."""
    query = """
        SELECT provider, linked_ms, last_used_ms, realm_index FROM identity WHERE player_id = :player_id
        UNION ALL
        SELECT 'local', linked_ms, last_used_ms, NULL FROM local_account WHERE player_id = :player_id
        ORDER BY linked_ms, provider
    """
    rows = connection.execute(query, {"player_id": player_id})
    return [
        SignInMethod(name, linked, used, None if namespace is None else Index(namespace))
        for name, linked, used, namespace in rows
    ]


def unlink(connection: Connection, player_id: str, provider: str) -> None:
    """Delete a player's sign-in method."""
    values = {"player_id": player_id, "provider": provider}
    if provider == LOCAL:
        connection.execute("DELETE FROM local_account WHERE player_id = :player_id", values)
    else:
        connection.execute("DELETE FROM identity WHERE player_id = :player_id AND provider = :provider", values)
