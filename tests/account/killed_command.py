"""This process erases or merges a player and kills itself: `python -m tests.account.killed_command DATA WHAT AFTER`.

WHAT is erase, merge, or steps, which is a merge that moves one row at once. AFTER is the number of transactions that
are committed before the kill -9.
"""

import os
import signal
import sys
from pathlib import Path

from gamed.account import store as player_store
from gamed.account.service import RemovalService
from gamed.cli.context import OfflineDatabases
from gamed.cli.people.removal import CommandPlayerRecords, CommandSaveRemoval, run_inline
from gamed.crypto import Keys, Secret
from gamed.saves import merge_store
from tests.sessions.fixtures import ANNA, BERT, NOW_MS, Counting
from tests.support.stores import store_of

KEYS = Keys.of(Secret(bytes(32)), Counting())


class KillingDatabases(OfflineDatabases):
    """The databases of a command that is killed after so many transactions."""

    left = 0

    def _run(self, run, name, transaction):
        done = super()._run(run, name, transaction)
        if run.__name__ == "run_transaction":
            KillingDatabases.left -= 1
            if KillingDatabases.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return done


def remove(files: OfflineDatabases, what: str) -> None:
    """Do what the commands do."""
    removal = RemovalService(
        records=CommandPlayerRecords(store=files), saves=CommandSaveRemoval(files=files), now_ms=lambda: NOW_MS
    )
    if what == "erase":
        run_inline(removal.erase(ANNA))
        return
    if what == "steps":
        merge_store.MOVED_COPIES = merge_store.MOVED_VERSIONS = 1
    files.write_auth(lambda connection: player_store.merge_players(connection, KEYS, ANNA, BERT, NOW_MS))
    run_inline(removal.resume())


if __name__ == "__main__":
    data, what, after = sys.argv[1:]
    KillingDatabases.left = int(after)
    remove(KillingDatabases(store_of(Path(data)), Path(data), "uid:0"), what)
