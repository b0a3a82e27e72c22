"""This process erases or merges a player and kills itself: `python -m tests.players.killed_command DATA WHAT AFTER`.

WHAT is erase or merge; AFTER is the number of transactions that are committed before the kill -9.
"""

import os
import signal
import sys
from pathlib import Path

from gamed.cli.context import OfflineDatabases
from gamed.cli.removal import CommandSaveRemoval, HostRecords, at_once
from gamed.crypto import Keys, Secret
from gamed.players import store as player_store
from gamed.players.service import RemovalService
from tests.sessions.fixtures import ANNA, BERT, NOW_MS, Counting

KEYS = Keys.of(Secret(bytes(32)), Counting())


class KillingDatabases(OfflineDatabases):
    """The databases of a command that is killed after so many transactions."""

    left = 0

    def _do(self, run, path, unit):
        done = super()._do(run, path, unit)
        if run.__name__ == "run_transaction":
            KillingDatabases.left -= 1
            if KillingDatabases.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return done


def remove(files: OfflineDatabases, what: str) -> None:
    """Do what the commands do."""
    removal = RemovalService(HostRecords(files), CommandSaveRemoval(files), lambda: NOW_MS)
    if what == "erase":
        at_once(removal.erase(ANNA))
        return
    files.auth(lambda connection: player_store.merge_players(connection, KEYS, ANNA, BERT, NOW_MS))
    at_once(removal.resume())


if __name__ == "__main__":
    data, what, after = sys.argv[1:]
    KillingDatabases.left = int(after)
    remove(KillingDatabases(Path(data), "uid:0"), what)
