"""The walk: one server from its earlier release to a later one, with its players, their bytes and their sessions.

    .venv/bin/python -m tests.walk.story sqlite|postgresql

Each step ends with a look at everything that the server must still have. A change that adds a feature adds its step.
"""

import re
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from gamed.account.pages import texts as account_texts
from gamed.config.model import PostgresqlAddress
from gamed.database.backup_format import DUMP
from gamed.database.connection import AUTH, STATE
from gamed.database.postgresql import dump
from gamed.database.sqlite.migrations import schema_folder, scripts_in
from tests.cli.process import ROOT
from tests.database.kept_stores import KeptStore, backup_in, kept_stores
from tests.e2e.cases import Player as Person
from tests.e2e.chromium import PROGRAM, Window
from tests.e2e.providers import CLIENT_ID, DISCORD, FAKE_GOOGLE, SECRET
from tests.e2e.wire import ask
from tests.proxies.programs import HOST, program
from tests.support.nodejs import NODE
from tests.support.ports import free_port
from tests.support.postgresql import cluster, programs
from tests.support.python_client import gamed_client as gc
from tests.support.versions import make_later_version
from tests.walk.behind_nginx import PrintedNginx, Requests
from tests.walk.checks import DeviceSession, Player, expect, expect_text, look
from tests.walk.games import JAVASCRIPT, PYTHON, Game
from tests.walk.kept_times import move_to_now
from tests.walk.machine import Machine, Programs, Wrong

NAME = "Cleo"
PERSON = "Chidi"
"""The friend's name at the providers; the kept stores have players of the other ones."""
LINK = re.compile(r"http://127\.0\.0\.1:\d+/auth/invite/\S+")
SCRIPT = "-- oldest: 1\nALTER TABLE {} ADD COLUMN later bigint NOT NULL DEFAULT 7;\n"
LEFT_OUT_SECONDS = 1.2
"""A little more than fail_timeout of the printed nginx.conf: so long nginx leaves a server out after its restart."""
PASSWORD = "correct horse battery"
STEPS: list[Callable[["Story"], None]] = []


def step(method: Callable[["Story"], None]) -> Callable[["Story"], None]:
    """Add a step to the walk, after those above it."""
    STEPS.append(method)
    return method


class Story:
    """The server of the walk with everything around it, and what it must have."""

    def __init__(self, engine: str, folder: Path) -> None:
        self.engine, self.folder = engine, folder
        self.postgresql = engine == "postgresql"
        self.programs = Programs(folder / "for-all")
        self.machines: list[Machine] = []
        self.players: list[Player] = []
        self.games: list[Game] = []
        self.bases: dict[str, str] = {}
        """The address of each provider."""
        self.closing: list[Any] = []
        """What else runs: each has close()."""
        self.home = self.machine("home")

    # -- an owner sets the server up --

    @step
    def tools(self) -> None:
        """All programs are there."""
        for name in ("nginx", "setpriv"):
            program(name)
        for path in (PROGRAM, NODE):
            if not Path(path).exists():
                raise Wrong(f"{path} is missing. Install it: CONTRIBUTING.md, Set up.")
        programs()

    @step
    def guide(self) -> None:
        """The guide's folders and its first start, on the store of each earlier release, the oldest last."""
        self.home.install()
        self.home.configure()
        for kept in reversed(kept_stores()):
            if self.players:
                self.home.stop()
            self.bring(kept)
            if self.postgresql and kept.numbers != kept_stores()[-1].numbers:
                expect_text(
                    "the refusal of a start without --migrate", "gamed serve --migrate", self.home.refused_start()
                )
            self.home.start_by_guide(*["--migrate"] * self.postgresql)
            self.meet_players_without_name()
            look(self.home, self.players)

    @step
    def invite(self) -> None:
        """The owner configures the address; a friend opens the invite in Chromium and gets to their page."""
        self.restart(public_url=self.home.base)
        url = LINK.findall(self.home.gamed("players", "invite", "--name", NAME))[0]
        window = Window()
        window.open(url)
        window.step(lambda page: page.get_by_label("Password").fill(PASSWORD))
        window.press(account_texts.INVITE_CREATE)
        window.wait_for(account_texts.SIGN_OUT)
        window.close()
        [made] = [each for each in self.home.json("players", "list") if each["name"] == NAME]
        self.cleo = Player(NAME, made["id"])
        self.players.append(self.cleo)
        self.token(self.cleo)

    # -- a game plays on two devices --

    @step
    def play(self) -> None:
        """A game in Python signs in at the browser; its own loop sends what it writes."""
        self.desk = self.game(PYTHON)
        self.desk.at_browser("sign_in", lambda window: window.sign_in(NAME, PASSWORD))
        self.desk.begin()
        self.write(self.desk, "level", b"level 1")

    @step
    def offline(self) -> None:
        """The game plays on while the server is away, and its loop sends all when the server is back."""
        self.home.stop()
        self.desk.write("level", b"level 2")
        self.desk.expect_unsent("level")
        self.home.start_by_guide()
        self.desk.await_sent("level")
        self.cleo.saved("level", b"level 2")

    @step
    def second_device(self) -> None:
        """A game in JavaScript on a second device goes on where the first one is, and back."""
        self.sofa = self.game(JAVASCRIPT)
        self.sofa.at_browser("sign_in", lambda window: window.sign_in(NAME, PASSWORD))
        self.sofa.begin()
        self.sofa.await_read("level", b"level 2")
        self.write(self.sofa, "level", b"level 3")
        self.desk.await_read("level", b"level 3")

    @step
    def start_again(self) -> None:
        """All sessions are revoked; after a new sign-in the second `start` of each game sends what was written."""
        self.home.gamed("sessions", "revoke", NAME)
        for session in self.cleo.sessions:
            session.ended = True
        self.token(self.cleo)
        for game in (self.desk, self.sofa):
            game.await_signed_out()
            slot = game.language.lower()
            game.write(slot, b"before the second start")
            game.at_browser("sign_in", lambda window: window.sign_in(NAME, PASSWORD))
            game.start()
            game.await_sent(slot)
            self.cleo.saved(slot, b"before the second start")
        self.write(self.desk, "level", b"level 4")
        self.sofa.await_read("level", b"level 4")

    # -- the server runs as a unit, with providers --

    @step
    def unit(self) -> None:
        """The server stops, and starts twice as the printed units say, with their environment and socket."""
        for level in (b"level 5", b"level 6"):
            self.home.stop()
            self.home.start_by_unit()
            self.write(self.desk, "level", level)
            self.sofa.await_read("level", level)

    @step
    def providers(self) -> None:
        """Discord and Google are configured; the friend keeps the player, links the other provider and uses it."""
        for stand in (DISCORD, FAKE_GOOGLE):
            self.home.secrets[stand.variable] = SECRET
        self.home.write_secrets()
        self.home.stop()
        self.home.configure(**self.with_providers(), public_url=self.home.base)
        self.home.start_by_unit()
        client, window = gc.GamedClient(self.home.base, app="walk", folder=self.desk.folder), Window()
        opened: list[Future[list[object]]] = []
        steps = partial(adopt, window)
        client.sign_in(Person(), open_browser=lambda url: opened.append(window.later(partial(steps, url))), adopt=True)
        opened[0].result(60)
        window.close()
        expect("the player after the adoption", self.cleo.id, client.whoami()["player_id"])
        self.desk.start()
        self.write(self.desk, "level", b"level 7")
        self.desk.at_browser("link", at_provider, provider=FAKE_GOOGLE.name)
        self.sofa.at_browser("sign_in", at_provider, provider=FAKE_GOOGLE.name)
        self.sofa.start()
        self.sofa.await_read("level", b"level 7")

    # -- people leave --

    @step
    def unlink(self) -> None:
        """The friend unlinks Google: the session that it opened ends, all others go on."""
        self.desk.do("unlink", provider=FAKE_GOOGLE.name)
        self.sofa.await_signed_out()
        self.sofa.at_browser("sign_in", at_provider, provider=DISCORD.name)
        self.sofa.start()
        self.write(self.sofa, "level", b"level 8")
        self.desk.await_read("level", b"level 8")

    @step
    def block(self) -> None:
        """The owner blocks a player, whose sessions are refused and whose bytes stay."""
        bert = self.player("bert")
        self.home.gamed("players", "block", bert.id)
        bert.state = "blocked"
        exported = self.home.folder / "bert.zip"
        self.home.gamed("saves", "export", bert.id, str(exported))
        with ZipFile(exported) as found:
            hashes = {sha256(found.read(name)).hexdigest() for name in found.namelist()}
        expect("the bytes of the blocked player that an export lacks", set(), set(bert.saves.values()) - hashes)

    @step
    def erase(self) -> None:
        """The owner erases a player: neither the player, nor the saves, nor the sessions are left."""
        anna = self.player("anna")
        self.home.gamed("players", "erase", anna.id, "--yes")
        self.players.remove(anna)
        for session in anna.sessions:
            found = ask(self.home.port, "GET", "/game/saves", bearer=session.access)
            expect("the status of a request by the erased player", 401, found.status)
        expect_text("saves of the erased player", anna.id, self.home.gamed("saves", "list", anna.id, code=1))

    # -- the data move --

    @step
    def backup(self) -> None:
        """A backup is restored on another machine: players and bytes are there, all sessions have ended."""
        kept = self.folder / "backup"
        kept.mkdir()
        self.home.own(kept)
        made = Path(self.home.json("backup", str(kept))["backup"])
        away = self.machine("away")
        away.secrets = self.home.secrets
        away.install()
        away.configure(**self.with_providers(), public_url=away.base)
        away.gamed("restore", str(made))
        away.start_by_guide()
        copies = [Player(each.name, each.id, dict(each.saves), [], each.state) for each in self.players]
        for each, copy in zip(self.players, copies, strict=True):
            copy.sessions = [DeviceSession(session.access, session.refresh, ended=True) for session in each.sessions]
            if copy.state == "active":
                self.token(copy, away)
        look(away, copies)
        away.stop()

    @step
    def migrate(self) -> None:
        """A later version with one more script for each schema starts; on PostgreSQL only with --migrate."""
        scripts = {
            f"{engine}/schema/{name}/{len(scripts_in(schema_folder(name))) + 1:03}_later.sql": SCRIPT.format(table)
            for engine in ("sqlite", "postgresql")
            for name, table in ((AUTH, "player"), (STATE, "save"))
        }
        self.programs.use(make_later_version(self.folder / "later", scripts))
        shutil.copytree(ROOT / "etc", self.folder / "later" / "etc")
        self.home.stop()
        if self.postgresql:
            expect_text("the refusal of a start without --migrate", "gamed serve --migrate", self.home.refused_start())
        self.home.start_by_unit(*["--migrate"] * self.postgresql)
        self.write(self.desk, "level", b"level 9")
        self.home.stop()
        self.home.start_by_unit()
        self.sofa.await_read("level", b"level 9")

    @step
    def rolling(self) -> None:
        """Two servers behind nginx are restarted in turn, twice; no request meanwhile gets anything but 200."""
        for game in (self.desk, self.sofa):
            game.close()
        self.games.clear()
        self.home.stop()
        self.home.close_socket()
        self.home.configure(**self.with_providers(), public_url=f"https://{HOST}")
        others = [self.home.port, free_port()]
        for port in others:
            self.home.start_instance(port)
        nginx = PrintedNginx(self.folder, self.home.gamed("nginx"), others)
        self.closing.append(nginx)
        with Requests(nginx, self.cleo.sessions[-1].access) as requests:
            for port in (*others, *others):
                self.home.stop(port)
                self.home.start_instance(port)
                time.sleep(LEFT_OUT_SECONDS)
        expect("the statuses of the requests behind nginx", {200}, set(requests.statuses))

    @step
    def check(self) -> None:
        """`gamed check data` finds nothing wrong, and no log has a traceback."""
        expect("gamed check data", {"errors": [], "repaired": 0}, self.home.json("check", "data"))
        for machine in self.machines:
            expect("a traceback in a log", False, "Traceback" in machine.log.read_text("utf-8", "replace"))

    # -- helpers --

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

    def meet_players_without_name(self) -> None:
        """Note the two players of a kept store that have neither an account of this server nor saves."""
        known = {player.id for player in self.players}
        listed = self.home.json("players", "list")
        others = [Player("unnamed", each["id"]) for each in listed if each["id"] not in known and each["name"] is None]
        expect("the number of players without a name", 2, len(others))
        self.players += others

    def bring(self, kept: KeptStore) -> None:
        """Put a kept store in the place of the present one, and note what it has."""
        unpacked = self.folder / kept.name
        found = kept.unpack(unpacked)
        shutil.rmtree(self.home.data)
        self.home.data.mkdir(mode=0o700)
        (self.home.config.with_name("game.json")).write_bytes((unpacked / "game.json").read_bytes())
        if self.home.address is None:
            for name in ("auth.db", "state.db"):
                (self.home.data / name).write_bytes((unpacked / "data" / name).read_bytes())
        else:
            for name in (AUTH, STATE):
                cluster().execute(f"DROP SCHEMA IF EXISTS {name} CASCADE", self.home.address.database)
            dumped = backup_in(unpacked, "postgresql") / DUMP
            dump.load(PostgresqlAddress(self.home.address.keywords), dumped, 0, [])
        move_to_now(self.home, found["made_ms"])
        self.home.own(self.home.data)
        self.players = []
        for name, token in found["players"].items():
            made = Player(name, token["id"], dict(found["saves"].get(name, {})), [DeviceSession.of(token)])
            self.players.append(made)
        self.player("Zoë").state = "blocked"

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


def walk(engine: str) -> int:
    """Take all steps on this engine; return the exit code."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gamed-walk-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        story = Story(engine, folder)
        try:
            for number, each in enumerate(STEPS, 1):
                start = time.monotonic()
                title = f"{engine:10} {number:2}/{len(STEPS)}  {each.__doc__}"
                try:
                    each(story)
                    if story.players:
                        look(story.home, story.players)
                except Exception as e:
                    print(f"FAILED {time.monotonic() - start:5.1f} s  {title}", flush=True)
                    report(story, e)
                    return 1
                print(f"ok     {time.monotonic() - start:5.1f} s  {title}", flush=True)
        finally:
            story.close()
    print(f"{len(STEPS)} steps on {engine}, {time.monotonic() - began:.0f} s")
    return 0


def report(story: Story, error: Exception) -> None:
    """Print what was looked for and found, and the end of each log."""
    print(error if isinstance(error, Wrong) else "".join(traceback.format_exception(error)))
    for machine in story.machines:
        print(f"-- the log of {machine.folder.name}\n{machine.log_tail()}")
    for game in story.games:
        print(f"-- the {game.language} game\n{game.said()}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(walk(sys.argv[1]))
