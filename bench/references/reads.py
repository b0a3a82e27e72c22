"""The query of a token and the query of a save, as gamed has them, with the conditions of none: for N and D."""

import time
from pathlib import Path
from sqlite3 import Connection

from gamed.cli.host import Host
from gamed.crypto import Indexer
from gamed.http_rules.conditions import Conditions
from gamed.saves.sight import Look, Sight
from gamed.sessions.presented import access_token
from gamed.storage.auth.sessions import authenticate
from gamed.storage.state.reading import look_at


def indexer_of(folder: Path) -> Indexer:
    """With the key of this folder's auth.db."""
    host = Host(str(folder / "authentication.json"), str(folder / "data"), development=False)
    return host.open().run(lambda connection, keys: keys.indexer)


def player_of(connection: Connection, indexer: Indexer, authorization: str | None) -> str:
    token = access_token((authorization or "").removeprefix("Bearer "))
    return authenticate(connection, indexer, token, time.time_ns() // 1_000_000).player_id


def save_of(connection: Connection, player_id: str, slot: str) -> Sight:
    return look_at(connection, player_id, Look(slot, Conditions(), whole=True))


def head_of(sight: Sight) -> dict[str, str]:
    assert sight.target is not None
    return {"ETag": str(sight.target.entity_tag), "Content-Type": "application/octet-stream"}
