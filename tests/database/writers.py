"""A process that writes without end until it is killed: `python -m tests.database.writers FOLDER ROUND`.

32 writers store rows of auth.db one after another and print each name once its write was acknowledged.
"""

import os
import sqlite3
import sys
from functools import partial
from pathlib import Path

from twisted.internet import reactor
from twisted.internet.defer import Deferred

from gamed.database.databases import Databases
from tests.support.databases import open_databases, prepare_files

WRITERS = 32


def insert(connection: sqlite3.Connection, row: bytes) -> None:
    connection.execute("INSERT INTO limit_bucket VALUES (:row, 1)", {"row": row})


async def write(stores: Databases, name: str) -> None:
    n = 0
    while True:
        row = f"{name}-{n}"
        await stores.auth.submit(partial(insert, row=row.encode()))
        os.write(1, f"{row}\n".encode())
        n += 1


def main(folder: str, name: str) -> None:
    prepare_files(Path(folder))
    stores = open_databases(reactor, Path(folder))
    for writer in range(WRITERS):
        Deferred.fromCoroutine(write(stores, f"{name}-{writer}"))
    reactor.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
