"""N is unchanged Klein and adbapi with five threads, with one query each for token and save. Arguments: PORT FOLDER"""

import sys
from pathlib import Path
from typing import Any

from klein import Klein
from twisted.enterprise.adbapi import ConnectionPool
from twisted.internet import endpoints, reactor
from twisted.web.server import Site

from bench.references.reads import head_of, indexer_of, player_of, save_of
from gamed.database.connection import Connection
from gamed.database.sqlite.files import prepare

FOLDER = Path(sys.argv[2])
INDEXER = indexer_of(FOLDER)
app = Klein()


def pool(name: str) -> ConnectionPool:
    return ConnectionPool("sqlite3", str(FOLDER / "data" / name), check_same_thread=False, cp_openfun=opened, cp_max=5)


def opened(connection: Connection) -> None:
    connection.isolation_level = None
    prepare(connection)


TOKENS, SAVES = pool("auth.db"), pool("state.db")


@app.route("/game/saves/<string:slot>")
async def read(request: Any, slot: str) -> bytes:
    shown = request.getHeader("authorization")
    player_id = await TOKENS.runWithConnection(lambda connection: player_of(connection, INDEXER, shown))
    snapshot = await SAVES.runWithConnection(lambda connection: save_of(connection, player_id, slot))
    for name, value in head_of(snapshot).items():
        request.setHeader(name, value)
    return snapshot.data


if __name__ == "__main__":
    endpoints.TCP4ServerEndpoint(reactor, int(sys.argv[1]), interface="127.0.0.1").listen(Site(app.resource()))
    reactor.run()
