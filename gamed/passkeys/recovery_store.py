"""The store of recovery codes runs each operation as one transaction of auth.db.

The sign-in that a code opens uses it up, in the transaction that makes the session (gamed/login/collect_store.py): of
two sign-ins with one code, in whatever processes, one gets a session.
"""

from functools import partial

from twisted.internet.defer import Deferred

from gamed.crypto import Index, Keys, Purpose
from gamed.database import rate_limits
from gamed.database.connection import Connection
from gamed.database.queues import ReadQueue, WriteQueue
from gamed.passkeys import recovery_tables
from gamed.passkeys.errors import CodesReplaced
from gamed.passkeys.recovery import FoundCode, MakeCommand
from gamed.passkeys.recovery_rules import CodeStock, code_index
from gamed.players import tables as player_tables
from gamed.rate_limit import RateLimit
from gamed.sessions import tables as session_tables
from gamed.structs import Component

CHANGES = RateLimit(interval_ms=60_000, burst=5)
"""How often one player may make new codes: a row of ten inserts each time."""


class RecoveryStore(Component, frozen=True, kw_only=True):
    """The recovery codes of auth.db; every method raises DatabaseError."""

    reads: ReadQueue
    writes: WriteQueue
    keys: Keys

    def find(self, name: Index, typed: str) -> Deferred[FoundCode]:
        """Return the player of an account's name, and the index of the code if it is one of that player.

        An unknown name takes the same reads as a known one.
        """

        def read(connection: Connection) -> FoundCode:
            account = player_tables.find_account(connection, name)
            player_id = "" if account is None else account.player_id
            index = code_index(self.keys.indexer, player_id, typed)
            return FoundCode(player_id, index if recovery_tables.exists(connection, index) else None)

        return self.reads.submit(read)

    def stock(self, player_id: str) -> Deferred[CodeStock | None]:
        """Return the codes that a player has left; None for a player who can have none."""
        return self.reads.submit(partial(recovery_tables.stock_of_local, player_id=player_id))

    def make(self, command: MakeCommand) -> Deferred[int | None]:
        """Replace the player's codes, and end the sessions that the old ones opened; return how many ended.

        Return None, and change nothing, if the session has ended, the player can have none, or has some left that the
        command does not name. Raise CodesReplaced or RateLimited.
        """
        make = partial(make_codes, keys=self.keys, command=command)
        return self.writes.submit(make, keys=(command.caller.player_id, session_tables.LOGINS, rate_limits.LIMITS))


def make_codes(connection: Connection, keys: Keys, command: MakeCommand) -> int | None:
    """Read, decide, write; RecoveryStore.make() describes the rest."""
    player_id, now_ms = command.caller.player_id, command.now_ms
    stock = recovery_tables.stock_of_local(connection, player_id)
    if stock is None or (stock.left and command.replaces is None):
        return None
    if session_tables.living_player(connection, command.caller.session_id, now_ms) != player_id:
        return None
    if command.replaces not in (None, stock.version):
        raise CodesReplaced
    # Only now: a passkey that adds no codes costs none of their tries.
    bucket = keys.indexer.index(Purpose.LIMIT, b"recovery codes", player_id.encode())
    rate_limits.acquire(connection, {bucket: CHANGES}, now_ms)
    ended = () if command.replaces is None else recovery_tables.end_sessions(connection, player_id, now_ms)
    recovery_tables.replace(connection, keys.indexer, player_id, command.new, now_ms)
    return len(ended)
