"""The SQL of what the owner's page needs from the host: its switch, and the codes that confirm an act.

- `owner_page`: one row while the page is on. No route writes it, so no sign-in can turn the page on.
- `owner_code`: the code of `gamed owner confirm`. It proves that the person at the page can also run commands on the
  host, where a sign-in at a provider with an open session proves nothing.
"""

from typing import Final

from msgspec import Struct

from gamed.crypto import Indexer, Purpose, Random
from gamed.database.connection import Connection
from gamed.players import tables
from gamed.players.model import CodeCheck
from gamed.structs import redacts

CODE_DIGITS: Final = 8
CODE_MS: Final = 10 * 60_000
CODE_ATTEMPTS: Final = 5  # of 100,000,000 codes: five guesses hit once in 20,000,000
_TYPED_CHARACTERS: Final = 32


class OwnerPageSwitch(Struct, frozen=True):
    """The row of a page that is on: since when, and where it makes backups, None for nowhere."""

    on_ms: int
    backup_folder: str | None


@redacts("code")
class ConfirmationCode(Struct, frozen=True):
    """A code that is shown once, with the instant of its end."""

    code: str
    expires_ms: int

    @classmethod
    def generate(cls, random: Random, now_ms: int) -> "ConfirmationCode":
        number = int.from_bytes(random(16), "big") % 10**CODE_DIGITS  # of 128 bits, so that all codes are as likely
        return cls(f"{number:0{CODE_DIGITS}}", now_ms + CODE_MS)

    @property
    def shown(self) -> str:
        """Return the code in two groups, as a person reads it."""
        return f"{self.code[: CODE_DIGITS // 2]} {self.code[CODE_DIGITS // 2 :]}"


def read_switch(connection: Connection) -> OwnerPageSwitch | None:
    """Return the row, None while the page is off."""
    row = connection.execute("SELECT on_ms, backup_folder FROM owner_page").fetchone()
    return None if row is None else OwnerPageSwitch(*row)


def turn_on(connection: Connection, switch: OwnerPageSwitch) -> None:
    query = """
        INSERT INTO owner_page (one, on_ms, backup_folder) VALUES (1, :on_ms, :backup_folder)
        ON CONFLICT (one) DO UPDATE SET on_ms = excluded.on_ms, backup_folder = excluded.backup_folder
    """
    connection.execute(query, {"on_ms": switch.on_ms, "backup_folder": switch.backup_folder})


def trust_ways(connection: Connection, now_ms: int) -> None:
    """Let all ways to sign in that are linked by now prove who the owner is, if the page is on."""
    connection.execute("UPDATE owner_page SET on_ms = :now_ms WHERE one = 1", {"now_ms": now_ms})


def is_trusted_way(connection: Connection, player_id: str, provider: str) -> bool:
    """Return whether the page may take a sign-in this way as proof of who is there.

    Somebody at the owner's unlocked browser can link an account of their own, which asks them for a password that they
    know. So a way counts only if it was linked when the operator last opened the page, or chose the owner, on the host.
    """
    switch = read_switch(connection)
    if switch is None:
        return True
    methods = tables.sign_in_methods(connection, player_id)
    return any(each.provider == provider and each.linked_ms <= switch.on_ms for each in methods)


def turn_off(connection: Connection) -> bool:
    """Delete the row and the code; return False if the page was off."""
    connection.execute("DELETE FROM owner_code WHERE one = 1")
    return connection.execute("DELETE FROM owner_page WHERE one = 1").rowcount == 1


def store_code(connection: Connection, indexer: Indexer, code: ConfirmationCode) -> None:
    """Store a new code, which ends the one before."""
    query = """
        INSERT INTO owner_code (one, code_index, expires_ms, attempts) VALUES (1, :code_index, :expires_ms, 0)
        ON CONFLICT (one) DO UPDATE SET
            code_index = excluded.code_index, expires_ms = excluded.expires_ms, attempts = 0
    """
    connection.execute(query, {"code_index": _index(indexer, code.code), "expires_ms": code.expires_ms})


def use_code(connection: Connection, indexer: Indexer, typed: str, now_ms: int) -> CodeCheck:
    """Use up the code if this is the one; count a wrong one, which must be committed, so it is a value.

    A code that is too old, or had CODE_ATTEMPTS wrong ones, is deleted.
    """
    digits = "".join(typed[:_TYPED_CHARACTERS].split())
    row = connection.execute("SELECT code_index, expires_ms, attempts FROM owner_code").fetchone()
    if row is None:
        return CodeCheck.NONE
    code_index, expires_ms, attempts = row
    # One from a machine whose clock is ahead lives longer by as much; it has no more than its CODE_ATTEMPTS then.
    latest_ms = now_ms + CODE_MS + connection.clocks_ms
    if not now_ms < expires_ms <= latest_ms or attempts >= CODE_ATTEMPTS:
        connection.execute("DELETE FROM owner_code WHERE one = 1")
        return CodeCheck.NONE
    if bytes(code_index) == _index(indexer, digits):
        connection.execute("DELETE FROM owner_code WHERE one = 1")
        return CodeCheck.RIGHT
    connection.execute("UPDATE owner_code SET attempts = attempts + 1 WHERE one = 1")
    return CodeCheck.WRONG


def _index(indexer: Indexer, code: str) -> bytes:
    return indexer.index(Purpose.CONFIRMATION, code.encode())
