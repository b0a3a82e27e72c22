"""The walk: one server from its earlier release to a later one, with its players, their bytes and their sessions.

After each step the runner looks for everything that the server must still have. A change that adds a feature adds its
step.
"""

import re
import shutil
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from hashlib import sha256
from operator import methodcaller
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from gamed.database.connection import AUTH, STATE
from gamed.database.sqlite.migrations import schema_folder, scripts_in
from gamed.pages.languages import Languages
from tests.cli.process import ROOT
from tests.database.kept_stores import kept_stores
from tests.e2e.cases import Player as Person
from tests.e2e.chromium import PROGRAM, Window
from tests.e2e.passkeys import connect_authenticator, type_recovery_code
from tests.e2e.providers import DISCORD, FAKE_GOOGLE, SECRET
from tests.e2e.wire import ask
from tests.proxies.programs import HOST, program
from tests.support.nodejs import NODE
from tests.support.ports import free_port
from tests.support.postgresql import programs
from tests.support.python_client import gamed_client as gc
from tests.support.versions import make_later_version
from tests.walk.behind_nginx import PrintedNginx, Requests
from tests.walk.checks import DeviceSession, Player, expect, expect_text, look
from tests.walk.fixtures import NAME, PASSWORD, WalkFixtures, adopt, at_provider
from tests.walk.games import JAVASCRIPT, PYTHON
from tests.walk.kept import bring, nameless_players
from tests.walk.machine import Wrong

LINK = re.compile(r"http://127\.0\.0\.1:\d+/auth/invite/\S+")
SCRIPT = "ALTER TABLE {} ADD COLUMN later {} NOT NULL DEFAULT 7;\n"
OWNER, GUEST = "olga", "dora"
"""The player who looks after the server on its page, and a second friend, who asks to play."""
LEFT_OUT_SECONDS = 2.5
"""More than nginx leaves a server out after a refused connection: it counts whole seconds, so that `fail_timeout=1s`
may take two. One server stops only after that, or both would be left out."""
STEPS: list[Callable[["Story"], None]] = []


def step(method: Callable[["Story"], None]) -> Callable[["Story"], None]:
    """Add a step to the walk, after those above it."""
    STEPS.append(method)
    return method


class Story(WalkFixtures):
    """The steps from top to bottom; the docstring of each is its line in the output."""

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
        self.home = self.machine("home")

    @step
    def guide(self) -> None:
        """The guide's folders and its first start, on the store of each earlier release, the oldest last."""
        self.home.install()
        self.home.configure()
        for kept in reversed(kept_stores()):
            if self.players:
                self.home.stop()
            self.players = bring(self.home, kept, self.folder)
            if self.postgresql and kept.numbers != kept_stores()[-1].numbers:
                expect_text(
                    "the refusal of a start without --migrate", "gamed serve --migrate", self.home.refused_start()
                )
            self.home.start_by_guide(*["--migrate"] * self.postgresql)
            self.players += nameless_players(self.home)
            look(self.home, self.players)

    @step
    def invite(self) -> None:
        """The owner configures the address; a friend opens the invite in Chromium and gets to their page."""
        self.restart(public_url=self.home.base)
        url = LINK.findall(self.home.gamed("players", "invite", "--name", NAME))[0]
        window = Window()
        window.open(url)
        window.step(lambda page: page.get_by_label("Password").fill(PASSWORD))
        window.press("Create account")
        window.wait_for("Sign out")
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
    def account(self) -> None:
        """The friend opens the account in German, renames a device, and deletes a save and brings it back."""
        say, page = Languages().get("de").gettext, f"{self.home.base}/auth/account"
        window = Window()
        window.open(page)
        window.sign_in(NAME, PASSWORD)
        window.wait_for("Sign out everywhere else")
        window.open(f"{self.home.base}/auth/language/de/account")
        [device, *_] = self.home.json("sessions", "list", NAME)
        window.open(f"{page}/devices/{device['session_id']}")
        window.step(lambda shown: shown.get_by_label(say("Name of the device")).fill("Deck"))
        window.press(say("Save name"))
        window.wait_for(say("The device is renamed."))
        window.open(f"{page}/saves/level/delete")
        window.press(say("Delete this save"))
        window.wait_for(say("deleted"))
        window.step(lambda shown: shown.get_by_role("button", name=say("Bring back")).first.click())
        window.wait_for(say("The save is restored. Games that are running get it at once."))
        window.close()
        named = {each["client"].get("device_name") for each in self.home.json("sessions", "list", NAME)}
        expect("whether a device has its new name", True, "Deck" in named)
        self.desk.await_read("level", b"level 3")
        self.write(self.desk, "level", b"brought back")
        self.sofa.await_read("level", b"brought back")

    @step
    def owner_page(self) -> None:
        """A second friend asks; the owner approves and blocks on the owner's page, and restores a save of the first."""
        self.home.gamed("players", "add", OWNER, "--password-stdin", stdin=f"{PASSWORD}\n")
        self.home.gamed("owner", "claim", OWNER)
        self.home.gamed("owner", "page", "on")
        self.restart(public_url=self.home.base, login={"registration": "approval"})
        friend = Window()
        self._ask_as(friend, Window.create_account)
        window = Window()
        window.open(f"{self.home.base}/auth/owner")
        window.sign_in(OWNER, PASSWORD)
        window.wait_for("Waiting for you")
        self._press(window, f"Approve: {GUEST}", "Approved.")
        listed = {each["name"]: each["id"] for each in self.home.json("players", "list")}
        self.players += [Player(name, listed[name]) for name in (OWNER, GUEST)]
        expect("the sign-in of the approved friend", "complete", self._ask_as(friend, Window.sign_in))
        friend.close()
        guest = self.player(GUEST)
        self.token(guest)
        window.open(f"{self.home.base}/auth/owner/people/{guest.id}")
        self._press(window, "Block", "Blocked.")
        guest.state = "blocked"
        [_, before, *_] = self.home.json("saves", "versions", self.cleo.id, "level")
        window.open(f"{self.home.base}/auth/owner/saves/{self.cleo.id}/level")
        self._press(window, f"Restore: Version {before['version']}", "The save is restored.")
        window.close()
        for game in (self.desk, self.sofa):
            game.await_read("level", b"level 3")
        self.restart(public_url=self.home.base)
        self.write(self.desk, "level", b"after the owner")
        self.sofa.await_read("level", b"after the owner")

    def _ask_as(self, window: Window, enter: Callable[[Window, str, str], None]) -> str:
        """Sign the second friend in without a game; return the status, or the code of the problem."""
        login = ask(self.home.port, "POST", "/auth/login", json_body={}).json
        window.open(login["login_url"])
        enter(window, GUEST, PASSWORD)
        body = {"finish_code": window.code()}
        path = "/auth/login/collect"
        answer = ask(self.home.port, "POST", path, json_body=body, bearer=login["device_secret"]).json
        return str(answer.get("problem", {}).get("code") or answer["status"])

    def _press(self, window: Window, name: str, said: str) -> None:
        """Press the button of exactly this name on the owner's page, and wait for what the page says."""
        window.step(lambda page: page.get_by_role("button", name=name, exact=True).first.click())
        window.wait_for(said)

    @step
    def passkey(self) -> None:
        """The owner adds a passkey, signs in by it, and then by a recovery code, which counts once."""
        site = f"http://localhost:{self.home.port}"  # browsers have no passkeys for an address
        page = f"{site}/auth/account"
        self.restart(public_url=site)
        window = Window()
        window.open(page)
        window.sign_in(OWNER, PASSWORD)
        window.wait_for(f"Hello, {OWNER}")
        window.step(connect_authenticator)
        window.open(f"{page}/passkeys/new")
        window.press("Add a passkey")
        window.wait_for("Your recovery codes")
        code = window.step(lambda shown: shown.locator(".codes li").first.inner_text())
        self._sign_out(window, page)
        window.press("Sign in with a passkey")
        window.wait_for(f"Hello, {OWNER}")
        for said in ("Recovery codes left: 9", "Wrong name or recovery code."):
            self._sign_out(window, page)
            window.step(partial(type_recovery_code, name=OWNER, code=code))
            window.wait_for(said)
        window.close()
        self.restart(public_url=self.home.base)

    def _sign_out(self, window: Window, page: str) -> None:
        """End the browser's session, and show the sign-in page."""
        window.open(page)
        window.step(lambda shown: shown.get_by_role("button", name="Sign out", exact=True).first.click())
        window.open(page)

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
            expect("gamed health, of the server of the guide's data folder", "ok\n", self.home.gamed("health"))
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
        where: dict[str, Any] = {"open_browser": lambda url: opened.append(window.later(partial(steps, url)))}
        client.sign_in(Person(), provider=DISCORD.name, adopt=True, **where)
        opened[0].result(60)
        window.close()
        expect("the player after the adoption", self.cleo.id, client.credential.player_id)
        self.desk.start()
        self.write(self.desk, "level", b"level 7")
        agree = methodcaller("press", "Continue with Google")
        self.desk.at_browser("link", agree, at_provider, provider=FAKE_GOOGLE.name)
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
        exported = self.home.disk / "bert.zip"
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
        listed = self.home.gamed("saves", "list", anna.id)
        expect_text("the saves of the erased player", f"{anna.id} has no saves", listed)

    # -- the data move --

    @step
    def backup(self) -> None:
        """A backup is restored on another machine: players and bytes are there, all sessions have ended."""
        made = Path(self.home.json("backup", str(self.home.disk))["backup"])
        away = self.machine("away")
        away.secrets = self.home.secrets
        away.install()
        away.configure(**self.with_providers(), public_url=away.base)
        # The guide's user may not write beside the configuration, so that `restore` cannot bring this file.
        away.config.with_name("game.json").write_bytes((made / "game.json").read_bytes())
        away.gamed("restore", str(made))
        away.start_by_guide()
        copies = []
        for player in self.players:
            ended = [DeviceSession(session.access, session.refresh, ended=True) for session in player.sessions]
            copies.append(Player(player.name, player.id, player.saves, ended, player.state))
            if player.state == "active":
                self.token(copies[-1], away)
        look(away, copies)
        away.stop()

    @step
    def migrate(self) -> None:
        """A later version with one more script for each schema starts; on PostgreSQL only with --migrate."""
        scripts = {}
        for name, table in ((AUTH, "player"), (STATE, "save")):
            number = len(scripts_in(schema_folder(name))) + 1
            for engine, integer in (("sqlite", "INTEGER"), ("postgresql", "bigint")):
                scripts[f"{engine}/schema/{name}/{number:03}_later.sql"] = SCRIPT.format(table, integer)
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
        kept = self.home.json("passkeys", "list", OWNER)
        found = len(kept["passkeys"]), [each["left"] for each in kept["recovery_codes"]]
        expect("the owner's passkeys and recovery codes", (1, [9]), found)

    @step
    def rolling(self) -> None:
        """Two servers behind nginx are restarted in turn, twice; no request meanwhile gets anything but 200."""
        for game in (self.desk, self.sofa):
            game.close()
        self.games.clear()
        self.home.stop()
        self.home.close_socket()
        self.home.configure(**self.with_providers(), public_url=f"https://{HOST}")
        ports = [self.home.port, free_port()]
        for port in ports:
            self.home.start_instance(port)
        nginx = PrintedNginx(self.folder, self.home.gamed("nginx"), ports[::-1])
        self.closing.append(nginx)
        with Requests(nginx, self.cleo.sessions[-1].access) as requests:
            for port in (*ports, *ports):
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
