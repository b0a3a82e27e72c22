"""D is unchanged Klein with the same queries in the reactor's thread, which blocks meanwhile. Arguments: PORT FOLDER"""

import sys
from pathlib import Path
from sqlite3 import Connection, connect
from typing import Any

from klein import Klein
from twisted.internet import endpoints, reactor
from twisted.web.server import Site

from bench.references.reads import head_of, indexer_of, player_of, save_of
from gamed.database.sqlite.files import prepare

FOLDER = Path(sys.argv[2])
INDEXER = indexer_of(FOLDER)
app = Klein()


def opened(name: str) -> Connection:
    connection = connect(FOLDER / "data" / name, isolation_level=None)
    prepare(connection)
    return connection


AUTH, STATE = opened("auth.db"), opened("state.db")


@app.route("/game/saves/<string:slot>")
def read(request: Any, slot: str) -> bytes:
    snapshot = save_of(STATE, player_of(AUTH, INDEXER, request.getHeader("authorization")), slot)
    for name, value in head_of(snapshot).items():
        request.setHeader(name, value)
    return snapshot.data


if __name__ == "__main__":
    endpoints.TCP4ServerEndpoint(reactor, int(sys.argv[1]), interface="127.0.0.1").listen(Site(app.resource()))
    reactor.run()
