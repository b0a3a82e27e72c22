"""P is PocketBase with a collection of saves that each player may read and change.

Its SQLite runs with `synchronous = NORMAL`: it answers a write before the write is on disk.
"""

import json
import subprocess
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from secrets import token_hex, token_urlsafe
from typing import Any

RECORDS = "/api/collections/saves/records/"
NAME = "bench@example.com"
DAY_SECONDS = 24 * 3600
OWN = "@request.auth.id = player"


def command(program: str, folder: Path, port: int) -> list[str]:
    """Return the command of a server that keeps everything in `folder`."""
    return [*_places(program, folder), "serve", "--http", f"127.0.0.1:{port}"]


def create_superuser(program: str, folder: Path) -> str:
    """Create the account that sets the server up, and return its password."""
    password = token_hex(16)  # an argument may not begin with a dash
    words = [*_places(program, folder), "superuser", "upsert", NAME, password]
    subprocess.run(words, check=True, capture_output=True)
    return password


def _places(program: str, folder: Path) -> list[str]:
    places = {"dir": "data", "publicDir": "public", "hooksDir": "hooks", "migrationsDir": "migrations"}
    return [program, *(f"--{option}={folder / name}" for option, name in places.items()), "--automigrate=false"]


class PocketBaseClient:
    """A connection of the superuser."""

    def __init__(self, port: int, password: str) -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=60)
        self._headers = {"Content-Type": "application/json"}
        path = "/api/collections/_superusers/auth-with-password"
        token = self._ask("POST", path, {"identity": NAME, "password": password})["token"]
        self._headers["Authorization"] = f"Bearer {token}"

    def prepare(self, players: int) -> Iterator[str]:
        """Create players with a save each, and yield a line for wrk.lua for each: its last word is the save's id."""
        self._ask("PATCH", "/api/settings", {"logs": {"maxDays": 0}})  # gamed's log of requests is off, too
        self._hash_quickly()
        self._create_saves()
        for number in range(players):
            password = token_urlsafe(16)
            person = {"email": f"player{number}@example.com", "password": password, "passwordConfirm": password}
            player = self._ask("POST", "/api/collections/users/records", person)["id"]
            path = f"/api/collections/users/impersonate/{player}"
            token = self._ask("POST", path, {"duration": DAY_SECONDS})["token"]
            save = self._ask("POST", RECORDS.rstrip("/"), {"player": player, "slot": "auto", "data": "x" * 4096})["id"]
            yield f"{token} - {save}\n"

    def close(self) -> None:
        self._connection.close()

    def _hash_quickly(self) -> None:
        """Lower bcrypt's cost: no measured request has a password, and each player's hash would take 0.1 s."""
        fields = self._ask("GET", "/api/collections/users")["fields"]
        fields = [{**each, "cost": 4} if each["type"] == "password" else each for each in fields]
        self._ask("PATCH", "/api/collections/users", {"fields": fields})

    def _create_saves(self) -> None:
        users = self._ask("GET", "/api/collections/users")["id"]
        fields = [
            {"name": "player", "type": "relation", "collectionId": users, "maxSelect": 1, "required": True},
            {"name": "slot", "type": "text"},
            {"name": "data", "type": "text", "max": 65536},
        ]
        unique = "CREATE UNIQUE INDEX saves_slot ON saves (player, slot)"
        rules = {"viewRule": OWN, "updateRule": OWN}
        described = {"name": "saves", "type": "base", **rules, "fields": fields, "indexes": [unique]}
        self._ask("POST", "/api/collections", described)

    def _ask(self, method: str, path: str, value: object = None) -> Any:
        body = None if value is None else json.dumps(value)
        self._connection.request(method, path, body, self._headers)
        answer = self._connection.getresponse()
        data = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"PocketBase answers {method} {path} with {answer.status}: {data[:500]!r}")
        return json.loads(data)
