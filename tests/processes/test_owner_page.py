"""The owner's page on two workers of one server: of two acts at the same time one wins, and both show what is true."""

import json
import os
import signal
import time
from errno import ENXIO
from html import unescape
from pathlib import Path
from re import search
from secrets import token_bytes
from typing import ClassVar

from gamed.cli.context import CommandContext
from gamed.clock import now_ms
from gamed.crypto import Keys
from gamed.database.connection import Connection
from gamed.owner import site_sentences as sentences
from gamed.owner.model import HOME
from gamed.players import tables
from gamed.sessions.browser_rules import BrowserName, NewBrowserSession
from gamed.sessions.browser_tables import open_browser
from tests.e2e.client import gamed
from tests.e2e.service import Service
from tests.e2e.wire import Answer
from tests.login.browser_fixtures import Page
from tests.ops.test_workers import children, until
from tests.processes.cases import ROUNDS, SharedCase
from tests.processes.wire import KeptConnection, Request
from tests.support.postgresql import cluster
from tests.support.stores import MASTER_KEY

OWNER = "ply_owner0000000000000000"
START_SECONDS = 60
BEING_MADE = "A backup is being made, begun"
TCP = Path("/proc/net/tcp")


def player(number: int) -> str:
    return f"ply_{number:022d}"


class OwnerPageCase(SharedCase):
    """`self.connections` are one to each of two workers; the owner is signed in, and the page is on."""

    game: ClassVar = {"min_free_bytes": 0}
    count = 1

    def make_server(self, number: int) -> Service:
        return Service(self.folder, None, self.environ, arguments=("--workers=2",), log=f"log-{number}")

    def start(self) -> None:
        [self.server] = self.servers
        self.server.start()
        found: dict[str, KeptConnection] = {}
        deadline = time.monotonic() + START_SECONDS
        while len(found) < 2:
            self.assertLess(time.monotonic(), deadline, self.server.text())
            connection = self.connect(0)
            found.setdefault(connection.ask(Request("GET", "/healthz")).headers["gamed-instance"], connection)
        self.connections, self.count = list(found.values()), 2
        self.backups = self.folder / "backups"
        self.backups.mkdir()
        self.cookie = self.fill()
        gamed(self.server, "owner", "page", "on", "--backups", str(self.backups))

    def fill(self) -> str:
        """Make the owner, and players who wait; return the cookie of the owner's browser."""
        os.environ.update(self.server.environ)
        databases = CommandContext(str(self.config), str(self.server.data), development=False).open()
        try:
            return databases.write(_fill)
        finally:
            databases.store.close()

    def request(self, path: str, **fields: str) -> Request:
        """Return a request of the owner's browser: for a page, or with fields of a form."""
        headers = {"Cookie": f"ga={self.cookie}", "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Dest": "document"}
        if not fields:
            return Request("GET", f"{HOME}{path}", headers)
        headers["Content-Type"] = "application/x-www-form-urlencoded"
        body = "&".join(f"{name}={value}" for name, value in {"form": self.form, **fields}.items())
        return Request("POST", f"{HOME}/do/{path}", headers, body.encode())

    def shown(self, number: int, path: str) -> Page:
        answer = self.ask(number, self.request(path))
        self.assertEqual(answer.status, 200, answer.body)
        return Page(answer)

    @property
    def form(self) -> str:
        """Return the hidden field of the page's forms, which both workers accept."""
        if not hasattr(self, "_form"):
            found = search(rb'name="form" value="([^"]+)"', self.ask(0, self.request("/people")).body)
            assert found is not None
            self._form = unescape(found[1].decode())
        return self._form

    def commands(self) -> list[tuple[str, str]]:
        """Return what was done on the page: the command and the player."""
        rows = json.loads(gamed(self.server, "events", "--json"))
        done = [each for each in rows if each["values"].get("by") == f"owner:{OWNER}"]
        each_time = [each for each in done for _ in range(each["times"])]
        return sorted((each["values"]["command"], each["player"] or "") for each in each_time)


def _fill(connection: Connection, keys: Keys) -> str:
    at_ms = now_ms()
    tables.create_player(connection, OWNER, at_ms)
    tables.create_account(connection, keys, player_id=OWNER, name="owner", password="-", now_ms=at_ms)
    tables.set_owner(connection, OWNER)
    for number in range(ROUNDS):
        tables.create_player(connection, player(number), at_ms, "pending", f"{number:06d}")
    new = NewBrowserSession.generate(token_bytes, BrowserName())
    open_browser(connection, keys.indexer, new, player_id=OWNER, provider="local", now_ms=at_ms, verified=True)
    return new.token.reveal().decode()


class RaceTests(OwnerPageCase):
    def test_decisions(self) -> None:
        """Approved in one tab and blocked in the other, a player gets one of both, and one event says which."""
        acts = ("approve", "block")
        decided: list[tuple[str, str]] = []

        def once(number: int) -> int:
            requests = [self.request(act, player=player(number), state="pending") for act in acts]
            won = self.winner(self.race(*requests), 303, 409)
            decided.append((f"players {acts[won]}", player(number)))
            return won

        self.rounds(once)
        self.assertEqual(self.commands(), sorted(decided))
        listed = json.loads(gamed(self.server, "players", "list", "--json"))
        states = {each["id"]: each["state"] for each in listed}
        for command, player_id in decided:
            self.assertEqual(states[player_id], "active" if command == "players approve" else "blocked")

    def test_erasures(self) -> None:
        """Erased in one tab and merged in the other, a player is gone once: the second form finds nobody."""
        last = player(ROUNDS - 1)
        for number in range(ROUNDS):
            self.ask(number % 2, self.request("approve", player=player(number), state="pending"), 303)

        def once(number: int) -> int:
            if number == ROUNDS - 1:
                return 0
            erase = self.request("erase", player=player(number))
            merge = self.request("merge", player=player(number), heir=last)
            return self.winner(self.race(erase, merge), 303, 404)

        self.rounds(once)
        done = [command for command, _ in self.commands()]
        self.assertEqual(done.count("players erase") + done.count("players merge"), ROUNDS - 1)
        self.assertEqual(len(json.loads(gamed(self.server, "players", "list", "--json"))), 2)

    def test_turned_off(self) -> None:
        """After `gamed owner page off` no worker shows the page, nor does a form do anything."""
        form = self.request("approve", player=player(0), state="pending")
        gamed(self.server, "owner", "page", "off")
        for number in (0, 1):
            self.ask(number, self.request(""), 404)
            self.ask(number, form, 404)
        self.assertEqual(self.commands(), [])


class BackupCase(OwnerPageCase):
    """The configuration becomes a pipe, so that a backup waits for it, after it has copied the databases."""

    def begun(self, *, both: bool = False) -> list[Answer]:
        """Begin a backup at the first worker, or at both at the same time; return the answers once it waits."""
        self.text = self.config.read_bytes()
        self.config.unlink()
        os.mkfifo(self.config)
        request = self.request("backup", player="")
        answers = self.race(request, request) if both else [self.ask(0, request, 303)]
        until(self.reads_pipe)
        return answers

    def reads_pipe(self) -> bool:
        """Return whether a process reads the pipe; let it wait then, and give other readers the file again."""
        try:
            self.pipe = os.open(self.config, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as e:
            self.assertEqual(e.errno, ENXIO)
            return False
        self.config.unlink()
        self.config.write_bytes(self.text)
        return True

    def finish(self) -> None:
        """Let the backup that waits go on; return when the other worker shows its end."""
        os.write(self.pipe, self.text)
        os.close(self.pipe)
        self.wait_for_end()

    def wait_for_end(self) -> None:
        until(lambda: BEING_MADE not in self.shown(1, "/backups").text)

    def complete(self) -> list[str]:
        return sorted(path.parent.name for path in self.backups.glob("gamed-*Z/manifest.json"))

    def make_and_show(self) -> str:
        """Make a backup, and assert that both workers show it, and begin none meanwhile; return its name."""
        self.begun()
        for number in (1, 0):
            page = self.shown(number, "/backups")
            self.assertIn(BEING_MADE, page.text)
            self.assertIn("Copied so far:", page.text)
            refused = self.ask(number, self.request("backup", player=""), 409)
            self.assertIn(sentences.RUNS.source, Page(refused).text)
        self.finish()
        [name] = self.complete()
        for number in (0, 1):
            self.assertIn(name, self.shown(number, "/backups").text)
        self.assertEqual(self.commands(), [("backup", "")])
        checked = gamed(self.server, "restore", "--check", str(self.backups / name))
        self.assertIn("player", checked)
        return name


class BackupTests(BackupCase):
    def test_made(self) -> None:
        """While one worker makes a backup, both show how much is copied and begin none; then both list it."""
        self.make_and_show()

    def test_at_the_same_time(self) -> None:
        """One of two tabs that begin a backup at the same time does, and the other one says that it runs."""
        self.winner(self.begun(both=True), 303, 409)
        self.finish()
        self.assertEqual(len(self.complete()), 1)
        self.assertNotIn("was not made", self.shown(1, "/backups").text)

    def test_killed(self) -> None:
        """A worker that is killed while it makes a backup leaves one that was interrupted; the other makes the next."""
        self.begun()
        os.kill(self.pid_of(0), signal.SIGKILL)
        os.close(self.pipe)
        until(lambda: "was interrupted" in self.shown(1, "/backups").text)
        self.ask(1, self.request("backup", player=""), 303)
        self.wait_for_end()
        self.assertEqual(len(self.complete()), 1)
        self.assertEqual([path for path in self.backups.iterdir() if path.name.endswith(".part")], [])

    def pid_of(self, number: int) -> int:
        """Return the worker that has this connection."""
        near = self.connections[number].port
        for line in TCP.read_text().splitlines()[1:]:
            words = line.split()
            local, remote, inode = words[1], words[2], words[9]
            if int(local[-4:], 16) == self.server.port and int(remote[-4:], 16) == near:
                return next(pid for pid in children(self.server.pid) if f"socket:[{inode}]" in _opened(pid))
        raise AssertionError("no worker has the connection")


def _opened(pid: int) -> set[str]:
    return {os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir()}


class PostgresqlTests(BackupCase):
    """The same with the databases on a PostgreSQL server, whatever the other tests have."""

    environ: ClassVar = {"GAMED_MASTER_KEY": MASTER_KEY}

    def make_server(self, number: int) -> Service:
        self.address = cluster().database()
        self.addCleanup(cluster().drop, self.address.database)
        return super().make_server(number)

    def configuration(self) -> dict[str, object]:
        return {**super().configuration(), "store": self.address.url, "master_key_env": "GAMED_MASTER_KEY"}

    def test_made(self) -> None:
        """The page's backup is one dump, which both workers show while it is made, and the command can restore."""
        name = self.make_and_show()
        manifest = json.loads((self.backups / name / "manifest.json").read_text())
        self.assertEqual(set(manifest["files"]), {"store.dump", "authentication.json", "game.json"})
