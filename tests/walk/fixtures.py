"""The fixtures that the steps of the walk share: machines, players, games, providers, and how the friend signs in."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.e2e.chromium import Window
from tests.e2e.providers import CLIENT_ID, DISCORD, FAKE_GOOGLE
from tests.support.ports import free_port
from tests.support.postgresql import cluster
from tests.walk.checks import DeviceSession, Player
from tests.walk.games import Game
from tests.walk.machine import Machine, Programs

NAME, PASSWORD = "Cleo", "correct horse battery"
"""The account of the friend whom the owner invites."""
PERSON = "Chidi"
"""The friend at the providers; the kept stores have players of the other ones."""


class WalkFixtures:
    """All that a walk has made; `home` is the machine of the story, `cleo` the friend."""

    home: Machine
    cleo: Player

    def __init__(self, engine: str, folder: Path) -> None:
        self.postgresql, self.folder = engine == "postgresql", folder
        self.programs = Programs()
        self.machines: list[Machine] = []
        self.players: list[Player] = []
        self.games: list[Game] = []
        self.bases: dict[str, str] = {}
        """The address of each provider."""
        self.closing: list[Any] = []
        """Providers and proxies that run; each has close()."""

    def restart(self, **members: object) -> None:
        """Change the configuration, as the guide's "Later changes" do."""
        self.home.stop()
        self.home.configure(**members)
        self.home.start_by_guide()

    def game(self, command: Sequence[str]) -> Game:
        game = Game(command, self.home.base, self.folder / f"device-{len(self.games)}")
        self.games.append(game)
        return game

    def write(self, game: Game, slot: str, data: bytes) -> None:
        """Let a game of the friend write, and its loop send."""
        game.write(slot, data)
        game.await_sent(slot)
        self.cleo.saved(slot, data)

    def with_providers(self) -> dict[str, object]:
        """Return the members of a configuration with both providers, which are started at the first call."""
        for stand in (DISCORD, FAKE_GOOGLE):
            if stand.name not in self.bases:
                port = free_port()
                base = self.bases[stand.name] = f"http://127.0.0.1:{port}"
                redirect_uri = f"{self.home.base}/auth/{stand.name}/callback"
                self.closing.append(stand.start(port, base, redirect_uri))
        entries = {
            stand.name: {
                "client_id": CLIENT_ID,
                "client_secret_env": stand.variable,
                **stand.members(self.bases[stand.name]),
            }
            for stand in (DISCORD, FAKE_GOOGLE)
        }
        return {"mode": "oauth", "providers": entries}

    def machine(self, name: str) -> Machine:
        address = cluster().database() if self.postgresql else None
        made = Machine(self.folder / name, self.programs, address)
        self.machines.append(made)
        return made

    def player(self, name: str) -> Player:
        [found] = [player for player in self.players if player.name == name]
        return found

    def token(self, player: Player, machine: Machine | None = None) -> DeviceSession:
        """Sign in on another device of a player."""
        session = DeviceSession.of((machine or self.home).json("players", "token", player.id))
        player.sessions.append(session)
        return session

    def close(self) -> None:
        for each in (*self.games, *self.closing, *self.machines):
            each.close()


def at_provider(window: Window) -> None:
    window.press(f"Continue as {PERSON}")


def adopt(window: Window, url: str) -> None:
    """Enter name and password of the account that the player had before, and sign in at the provider."""
    window.open(url)
    window.step(lambda page: page.get_by_label("Name").fill(NAME))
    window.step(lambda page: page.get_by_label("Password").fill(PASSWORD))
    window.press("Continue with Discord")
    at_provider(window)
