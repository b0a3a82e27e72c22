"""What all scenarios of a run share: the driver's processes, the real server, a folder."""

from __future__ import annotations

import json
import secrets
import shlex
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

from .browser import Browser
from .driver import Driver
from .service import Service

PASSWORD = "correct horse battery"


def posted(port: int, path: str, body: dict[str, Any], bearer: str | None = None) -> dict[str, Any]:
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {bearer}"} if bearer else {})}
    try:
        connection.request("POST", path, json.dumps(body), headers)
        value: dict[str, Any] = json.loads(connection.getresponse().read())
        return value
    finally:
        connection.close()


class World:
    """`close` ends all of it. Processes start when a scenario needs them, and live on for the next."""

    def __init__(
        self, driver: str | Sequence[str], gamed: Sequence[str] | None = None, lender: World | None = None
    ) -> None:
        """`gamed`: the command of the server; `lender`: another world, whose server this one uses."""
        self._lender = lender
        self.command = shlex.split(driver) if isinstance(driver, str) else list(driver)
        self._gamed = gamed
        self.folder = Path(mkdtemp(prefix="gamed-conformance-"))
        self._drivers: dict[str, Driver] = {}
        self._own: Service | None = None

    def close(self) -> None:
        self.kill_all()
        if self._own is not None:
            self._own.kill()
        rmtree(self.folder, ignore_errors=True)

    def driver(self, number: str = "1") -> Driver:
        if number not in self._drivers:
            self._drivers[number] = Driver(self.command)
        return self._drivers[number]

    def kill(self, number: str) -> None:
        """As a power cut; the next command finds a new process."""
        self._drivers.pop(number).close()

    def kill_all(self) -> None:
        for number in list(self._drivers):
            self.kill(number)

    @property
    def drivers(self) -> list[Driver]:
        return list(self._drivers.values())

    @property
    def service(self) -> Service:
        """Running, whatever the scenario before did."""
        if self._lender:
            return self._lender.service
        if self._own is None:
            self._own = Service(self.folder / "service", self._gamed)
        if not self._own.runs:
            self._own.start()
        return self._own

    @property
    def known_service(self) -> Service | None:
        """As it is, also killed; None where no scenario needed one yet."""
        return self._lender.known_service if self._lender else self._own

    def player(self) -> dict[str, Any]:
        """A new account at the real server; its first session is kept for who asks for one."""
        player = {"name": f"player-{secrets.token_hex(8)}"}
        return {**player, "first": self._signed_in(player, create=True)}

    def session(self, player: dict[str, Any]) -> dict[str, Any]:
        """A sign-in of its own: what collect answers to the game."""
        first: dict[str, Any] | None = player.pop("first", None)
        return first or self._signed_in(player)

    def _signed_in(self, player: Mapping[str, str], create: bool = False) -> dict[str, Any]:
        port = self.service.port
        started = posted(port, "/auth/login", {"client": {"name": "conformance"}})
        page = Browser(port).sign_in(started["login_url"], player["name"], PASSWORD, create)
        body = {"wait": 5, "seen": "proof_required", "finish_code": page["code"]}
        return posted(port, "/auth/login/collect", body, started["device_secret"])


def made_up(player: str = "ply_made_up") -> dict[str, Any]:
    """Return a collect result that no server has sent."""
    return {
        "status": "complete",
        "token_type": "Bearer",
        "access_token": f"gat_{secrets.token_urlsafe(36)}",
        "expires_in": 900,
        "refresh_credential": f"grc_{secrets.token_urlsafe(36)}",
        "refresh_expires_in": 2592000,
        "session_id": f"ses_{secrets.token_urlsafe(12)}",
        "provider": "local",
        "player": {"id": player, "created": True, "owner": False},
    }
