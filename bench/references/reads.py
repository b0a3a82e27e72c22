"""N and D use gamed's query of a token and of a save, without conditions."""

import time
from pathlib import Path

from gamed.cli.context import CommandContext
from gamed.crypto import Indexer
from gamed.database.connection import Connection
from gamed.http.conditional import Conditions
from gamed.saves.commands import ReadRequest, SlotSnapshot
from gamed.saves.store import read_slot
from gamed.sessions.credentials import parse_access_token
from gamed.sessions.tables import authenticate


def indexer_of(folder: Path) -> Indexer:
    """With the key of this folder's auth.db."""
    host = CommandContext(str(folder / "authentication.json"), str(folder / "data"), development=False)
    return host.open().read(lambda connection, keys: keys.indexer)


def player_of(connection: Connection, indexer: Indexer, authorization: str | None) -> str:
    token = parse_access_token((authorization or "").removeprefix("Bearer "))
    return authenticate(connection, indexer, token, time.time_ns() // 1_000_000).player_id


def save_of(connection: Connection, player_id: str, slot: str) -> SlotSnapshot:
    return read_slot(connection, player_id, ReadRequest(slot, Conditions(), with_bytes=True))


def head_of(snapshot: SlotSnapshot) -> dict[str, str]:
    assert snapshot.target is not None
    return {"ETag": str(snapshot.target.entity_tag), "Content-Type": "application/octet-stream"}
