"""Fixtures of the tests of commits."""

import json
from hashlib import sha256
from typing import Any

from tests.saves.helpers import SaveCase
from tests.support.http import Answer

JSON = {"Content-Type": "application/json"}


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def write(slot: str, data: bytes, base: str | None = None, **members: Any) -> dict[str, Any]:
    """Return an entry that writes; without a base it is for an empty slot."""
    condition = {"if_none_match": "*"} if base is None else {"if_match": base}
    return {"slot": slot, "sha256": digest(data), **condition, **members}


def delete(slot: str, base: str = "*") -> dict[str, Any]:
    return {"slot": slot, "if_match": base, "delete": True}


class CommitCase(SaveCase):
    """A test case whose requests, such as `self.stage(b"...")`, are Anna's."""

    def stage(self, *bodies: bytes) -> None:
        for data in bodies:
            self.assertEqual(self.put_blob(data).status, 201)

    def put_blob(self, data: bytes, headers: dict[str, str] | None = None, name: str | None = None) -> Answer:
        return self.ask("PUT", f"/game/blobs/{name or digest(data)}", headers, data)

    def head_blob(self, data: bytes) -> Answer:
        return self.ask("HEAD", f"/game/blobs/{digest(data)}")

    def commit(self, *writes: Any, **members: Any) -> Answer:
        return self.ask("POST", "/game/commit", JSON, json.dumps({"writes": writes, **members}).encode())

    def commit_staged(self, *writes: Any, bodies: tuple[bytes, ...]) -> Answer:
        self.stage(*bodies)
        return self.commit(*writes)

    def listed(self) -> list[dict[str, Any]]:
        saves: list[dict[str, Any]] = self.ask("GET", "/game/saves").json["saves"]
        return saves
