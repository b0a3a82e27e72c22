"""The checks of the walk after each step: the players, their bytes, their sessions."""

import time
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from msgspec import Struct, field

from tests.e2e.wire import Answer, ask
from tests.walk.machine import Machine, Wrong

PATIENCE_SECONDS = 60.0
PAUSE_SECONDS = 0.05


class DeviceSession(Struct):
    """The credentials of one device."""

    access: str
    refresh: str
    ended: bool = False
    """Whether the server must refuse them."""

    @classmethod
    def of(cls, token: dict[str, Any]) -> "DeviceSession":
        return cls(token["access_token"], token["refresh_credential"])


class Player(Struct):
    """A player as the server must have them."""

    name: str
    id: str
    saves: dict[str, str] = field(default_factory=dict)
    """The SHA-256 of the current bytes of each slot."""
    sessions: list[DeviceSession] = field(default_factory=list)
    state: str = "active"

    def saved(self, slot: str, data: bytes) -> None:
        """Note what a game has saved."""
        self.saves[slot] = sha256(data).hexdigest()


def expect(what: str, wanted: object, found: object) -> None:
    """Raise Wrong, with both, unless they are equal."""
    if wanted != found:
        raise Wrong(f"{what}\n  looked for: {wanted!r}\n  found:      {found!r}")


def expect_text(what: str, wanted: str, found: str) -> None:
    """Raise Wrong, with both, unless the text has these words."""
    if wanted not in found:
        raise Wrong(f"{what}\n  looked for: {wanted!r}\n  found:      {found!r}")


def until(what: str, wanted: object, read: Callable[[], object]) -> None:
    """Read again and again until the value is as wanted; raise Wrong after a minute."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (found := read()) != wanted and time.monotonic() < deadline:
        time.sleep(PAUSE_SECONDS)
    expect(f"{what}, for {PATIENCE_SECONDS:.0f} s", wanted, found)


def look(machine: Machine, players: list[Player]) -> None:
    """Check that this server has exactly these players, with these bytes and these sessions."""
    listed = {each["id"]: each["state"] for each in machine.players()}
    expect("the players of `gamed players list`", {each.id: each.state for each in players}, listed)
    for player in players:
        for session in player.sessions:
            _look_at_session(machine.port, player, session)


def _look_at_session(port: int, player: Player, session: DeviceSession) -> None:
    wanted = 401 if session.ended else 403 if player.state == "blocked" else 200
    answer = ask(port, "POST", "/auth/session/refresh", json_body={"refresh_credential": session.refresh})
    expect(f"the status of a refresh by {player.name}", wanted, answer.status)
    if wanted == 200:
        session.access, session.refresh = answer.json["access_token"], answer.json["refresh_credential"]
        found = {slot: sha256(_get(port, session, slot).body).hexdigest() for slot in player.saves}
        expect(f"the SHA-256 of each save of {player.name}", player.saves, found)
    listed = ask(port, "GET", "/game/saves", bearer=session.access)
    expect(f"the status of GET /game/saves by {player.name}", wanted, listed.status)
    if wanted == 200:
        slots = {each["slot"] for each in listed.json["saves"]}
        expect(f"the slots of {player.name}", set(player.saves), slots)


def _get(port: int, session: DeviceSession, slot: str) -> Answer:
    return ask(port, "GET", f"/game/saves/{slot}", bearer=session.access)
