"""A process that begins a player's departure and dies in it: `python -m tests.players.dying DATA WHAT AFTER`.

WHAT is erase or attach; AFTER is the number of transactions that are committed before it dies of kill -9.
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


class Mortal(OfflineDatabases):
    """The stores of a command that has so many transactions to live."""

    left = 0

    def _do(self, run, path, unit):
        done = super()._do(run, path, unit)
        if run.__name__ == "once":
            Mortal.left -= 1
            if Mortal.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return done


def leave(files: OfflineDatabases, what: str) -> None:
    """As the commands do."""
    leaving = RemovalService(HostRecords(files), CommandSaveRemoval(files), lambda: NOW_MS)
    if what == "erase":
        at_once(leaving.erase(ANNA))
        return
    files.auth(lambda connection: player_store.merge_players(connection, KEYS, ANNA, BERT, NOW_MS))
    at_once(leaving.resume())


if __name__ == "__main__":
    data, what, after = sys.argv[1:]
    Mortal.left = int(after)
    leave(Mortal(Path(data), "uid:0"), what)
