"""The shared objects of all scenarios of a run: the driver's processes, the real server, a folder."""

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
from .service import Gamed, Service, ServiceWithProviders

PASSWORD = "correct horse battery"
UNTIL_SECONDS = 40.0
"""Longer than a request for changes (25 s) and the pauses after some failures."""


PERSON = "chidi"
"""A person of the development provider who has no account at the server yet."""


def requested(
    port: int, method: str, path: str, body: dict[str, Any] | None, bearer: str | None = None
) -> dict[str, Any]:
    """Return the answer's JSON, or an empty object."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"Content-Type": "application/json"} if body is not None else {}
    try:
        authorization = {"Authorization": f"Bearer {bearer}"} if bearer else {}
        connection.request(method, path, None if body is None else json.dumps(body), {**headers, **authorization})
        value: dict[str, Any] = json.loads(connection.getresponse().read() or "{}")
        return value
    finally:
        connection.close()


class World:
    """`close` ends all of it. Processes start when a scenario needs them, and are kept for the next one."""

    def __init__(
        self,
        driver: str | Sequence[str],
        gamed: Gamed | None = None,
        lender: World | None = None,
        until_seconds: float = UNTIL_SECONDS,
        parent: Path | None = None,
    ) -> None:
        """`gamed` is the server's program; `lender` is another world, whose server this one uses.

        `until_seconds` is how long the steps `until` wait. The clients' and the server's files are below `parent`, by
        default the folder for temporary files.
        """
        self._lender, self.until_seconds = lender, until_seconds
        self.command = shlex.split(driver) if isinstance(driver, str) else list(driver)
        self._gamed = gamed
        self.folder = Path(mkdtemp(prefix="gamed-conformance-", dir=parent))
        self.others: dict[str, Sequence[str]] = {}
        """Commands of the processes that have another client's driver, by their number."""
        self._drivers: dict[str, Driver] = {}
        self._own: dict[str, Service] = {}
        """The servers by their mode."""

    def close(self) -> None:
        self.kill_all()
        for service in self._own.values():
            service.kill()
        rmtree(self.folder, ignore_errors=True)

    def driver(self, number: str = "1") -> Driver:
        if number not in self._drivers:
            self._drivers[number] = Driver(self.others.get(number, self.command))
        return self._drivers[number]

    def kill(self, number: str) -> None:
        """Kill the process as a power cut does; the next command finds a new one."""
        self._drivers.pop(number).close()

    def kill_all(self) -> None:
        for number in list(self._drivers):
            self.kill(number)

    @property
    def drivers(self) -> list[Driver]:
        return list(self._drivers.values())

    def service(self, mode: str) -> Service:
        """Return the server of this mode, running, whatever an earlier scenario did to it."""
        if self._lender:
            return self._lender.service(mode)
        if mode not in self._own:
            kind = Service if mode == "local" else ServiceWithProviders
            self._own[mode] = kind(self.folder / f"service-{mode}", self._gamed)
        if not self._own[mode].runs:
            self._own[mode].start()
        return self._own[mode]

    def known_service(self, mode: str) -> Service | None:
        """Return the server as it is, also killed; None if no scenario needed one yet."""
        return self._lender.known_service(mode) if self._lender else self._own.get(mode)

    def player(self, mode: str) -> dict[str, Any]:
        """Make an account at the real server; its first session is kept for `session`.

        In `oauth` mode it is Chidi's at the provider named discord, and new: an account of before is deleted.
        """
        if mode == "local":
            player = {"mode": mode, "name": f"player-{secrets.token_hex(8)}"}
            return {**player, "first": self._signed_in(player, create=True)}
        for provider in ("discord", "google"):
            old = self._signed_in({"mode": mode, "person": PERSON, "provider": provider})
            requested(self.service(mode).port, "DELETE", "/auth/player", None, old["access_token"])
        player = {"mode": mode, "person": PERSON, "provider": "discord"}
        return {**player, "first": self._signed_in(player)}

    def session(self, player: dict[str, Any]) -> dict[str, Any]:
        """Sign the player in once more; return the answer of collect."""
        first: dict[str, Any] | None = player.pop("first", None)
        return first or self._signed_in(player)

    def _signed_in(self, player: Mapping[str, str], create: bool = False) -> dict[str, Any]:
        port = self.service(player["mode"]).port
        provider = {name: player[name] for name in ("provider",) if name in player}
        started = requested(port, "POST", "/auth/login", {"client": {"name": "conformance"}, **provider})
        page = signed_in(Browser(port), started["login_url"], player, create)
        body = {"wait": 5, "seen": "proof_required", "finish_code": page["code"]}
        return requested(port, "POST", "/auth/login/collect", body, started["device_secret"])


def signed_in(window: Browser, url: str, player: Mapping[str, str], create: bool = False) -> dict[str, Any]:
    """Return the page after this player signed in."""
    if "person" in player:
        return window.sign_in_at_provider(url, player["person"])
    return window.sign_in(url, player["name"], PASSWORD, create)


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
