"""The lists of the owner's page among many players: `python -m bench.owner_page [PLAYERS]`, with SQLite's files.

It prints the time of one page of players, of a search that finds nobody, which unseals every name, and the longest
transaction of that search, for which other reads wait.
"""

import sys
from functools import partial
from pathlib import Path
from secrets import token_bytes
from tempfile import TemporaryDirectory
from time import perf_counter

from gamed.crypto import Keys, Secret
from gamed.database.connection import AUTH, Connection
from gamed.database.sqlite.store import SqliteStore
from gamed.owner import reads
from gamed.owner.model import AT_ONCE
from gamed.players import tables
from gamed.sessions.tables import count_sessions

BATCH = 1000


def main() -> None:
    players = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    keys = Keys.of(Secret(bytes(range(32))), token_bytes)
    with TemporaryDirectory() as folder:
        store = SqliteStore(data=Path(folder))
        store.prepare(AUTH, lambda text: None, lambda: None, migrate=True)
        for first in range(0, players, BATCH):
            store.run_transaction(AUTH, partial(_fill, keys=keys, first=first, last=min(players, first + BATCH)))
        with store.open_reader(AUTH) as run:
            began = perf_counter()
            run(partial(_page, keys=keys))
            print(f"a page of {AT_ONCE} among {players} players: {1000 * (perf_counter() - began):.1f} ms")
            after, longest, began = "", 0.0, perf_counter()
            while True:
                slice_began = perf_counter()
                found, after = run(partial(reads.matching, sealer=keys.sealer, after=after, wanted="nobody"))
                longest = max(longest, perf_counter() - slice_began)
                if not after:
                    break
            assert not found
            print(f"a search that finds nobody: {1000 * (perf_counter() - began):.0f} ms")
            print(f"its longest transaction: {1000 * longest:.1f} ms")


def _fill(connection: Connection, keys: Keys, first: int, last: int) -> None:
    for number in range(first, last):
        player_id = f"ply_{number:022}"
        tables.create_player(connection, player_id, number)
        name = {"player_id": player_id, "name": f"account{number}", "password": "-", "now_ms": number}
        tables.create_account(connection, keys, **name)  # type: ignore[arg-type]
        tables.set_display_name(connection, keys.sealer, player_id, f"Player {number}")


def _page(connection: Connection, keys: Keys) -> None:
    found = tables.players_after(connection, keys.sealer, "ply_0", AT_ONCE + 1)
    ids = [each.player.player_id for each in found]
    tables.ways_of(connection, ids)
    count_sessions(connection, ids, 0)
    tables.count_players(connection)


if __name__ == "__main__":
    main()
