"""`gamed setup` takes a server over: players, saves and sessions are there, and no empty server is ever beside it."""

import json
import os
import signal
import stat
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from shutil import copytree, rmtree
from sqlite3 import connect

from gamed.cli.paths import Paths
from tests.cli.process import WAIT_SECONDS, get
from tests.cli.setup.fixtures import HERE, KILLED, SetupCase
from tests.support.examples import examples
from tests.support.ports import free_port
from tests.support.stores import sqlite_files

SAVE = b"level 3, 41 coins"


class TakeOverCase(SetupCase):
    """A server as README's first command leaves it, in a virtual environment of the current folder."""

    def setUp(self) -> None:
        super().setUp()
        folder = self.home / ".venv/bin"
        folder.mkdir(parents=True)
        if not self.as_root and os.geteuid() == 0:
            for each in (folder, folder.parent):
                os.chown(each, self.home.stat().st_uid, self.home.stat().st_gid)
        self.old = Paths(folder / "authentication.json", folder / "data")
        words = ["--config", str(self.old.config), "--data", str(self.old.data)]
        listen = f"--listen=tcp:{self.port}:interface=127.0.0.1"
        process = self.start_as(self.python, "-c", HERE, *words, "serve", listen)
        self.await_answer(self.port, process)
        code, _, err = self.gamed(*words, "players", "add", "Anna", "--password-stdin", stdin="correct horse battery")
        self.assertEqual(code, 0, err)
        code, out, err = self.gamed(*words, "players", "token", "Anna", "--json")
        self.assertEqual(code, 0, err)
        self.token = json.loads(out)["access_token"]
        connection = HTTPConnection("127.0.0.1", self.port, timeout=WAIT_SECONDS)
        connection.request(
            "PUT", "/game/saves/auto", SAVE, {"Authorization": f"Bearer {self.token}", "If-None-Match": "*"}
        )
        self.assertIn(connection.getresponse().status, (200, 201))
        connection.close()
        self.assertEqual(self.stop(process), 0, self.output())

    def check_taken_over(self) -> None:
        """The unit serves Anna, her session and her save; the old place names the new one."""
        self.assertEqual(self.players(self.new), ["Anna"])
        process = self.serve_unit()
        self.assertEqual(get(self.port, "/game/saves/auto", self.token), (200, SAVE))
        self.assertEqual(self.stop(process), 0, self.output())
        words = ["--config", str(self.old.config), "--data", str(self.old.data)]
        code, _, err = self.gamed(*words, "players", "list")
        self.assertEqual(code, 78)
        self.assertIn(f"--config {self.new.config}", err)
        self.assertIn(f"it has to be {self.new.data}", err)


STEP = examples(few=7, many=1)
"""The distance of two moments that are tried: two set-ups and their commands take three seconds of a processor."""


def count_players(path: Path) -> int:
    """Return the number of players in a file of SQLite that no server uses."""
    with closing(connect(f"file:{path}?mode=ro", uri=True)) as database:
        return int(database.execute("SELECT count(*) FROM player").fetchone()[0])


@sqlite_files("the databases of a server that moves are files")
class HomeTests(TakeOverCase):
    def test_first_server(self) -> None:
        """The server of the first command moves, with its port, its limits and the texts of its pages."""
        (self.old.config.with_name("game.json")).write_text('{"keep_days": 7}')
        out = self.set_up()
        self.assertIn(f"There is a server in {self.old.data}; it is moved", out)
        self.assertEqual(json.loads(self.new.game.read_text()), {"keep_days": 7})
        self.assertEqual(json.loads(self.new.config.read_text())["session"]["access_ttl"], "15m")
        self.assertFalse((self.old.data / "auth.db").exists())
        self.assertEqual([path.name for path in self.new.data.parent.iterdir()], ["gamed"])
        self.check_taken_over()

    def test_named(self) -> None:
        """A server at a place of its own is taken over once options name it."""
        elsewhere = self.home / "games"
        self.old.config.parent.rename(elsewhere)
        self.old = Paths(elsewhere / "authentication.json", elsewhere / "data")
        self.set_up("--config", str(self.old.config), "--data", str(self.old.data))
        self.check_taken_over()

    def test_inside(self) -> None:
        """A server that `move-data` has put into the new data folder is taken over, too."""
        words = ["--config", str(self.old.config), "--data", str(self.old.data)]
        self.new.data.parent.mkdir(parents=True)
        self.give(self.home / ".local")
        code, _, err = self.gamed(*words, "move-data", str(self.new.data))
        self.assertEqual(code, 0, err)
        self.set_up()
        self.assertEqual(self.players(self.new), ["Anna"])
        self.assertFalse((self.new.data / "data").exists())

    def test_two_servers(self) -> None:
        """A server at a place of its own does not replace the one that stays."""
        self.set_up()
        other = Paths(self.home / "other.json", self.home / "other")
        self.begin(other)
        err = self.refused("--config", str(other.config), "--data", str(other.data))
        self.assertIn("has a server already, and so has", err)

    def test_moments(self) -> None:
        """kill -9 at changes: the server is at one place, never an empty one elsewhere; the next run ends it."""
        kept, moment = self.folder / "kept", 1 - STEP
        copytree(self.home, kept, symlinks=True)
        while True:
            moment, self.port = moment + STEP, free_port()
            answers = self.answered()
            self.environ["AT"] = str(moment)
            code, _, err = self.gamed("setup", *answers, program=KILLED)
            del self.environ["AT"]
            if code == 0:
                break
            self.assertEqual(code, -signal.SIGKILL, err)
            self.assertNotIn(0, self.stores(), moment)
            code, _, err = self.gamed("setup", *answers)
            self.assertEqual(code, 0, f"{moment}: {err}")
            self.assertEqual(self.stores(), [1], moment)
            self.assertEqual(count_players(self.new.data / "auth.db"), 1, moment)
            self.assertEqual([path.name for path in self.new.data.parent.iterdir()], ["gamed"], moment)
            rmtree(self.home)
            copytree(kept, self.home, symlinks=True)
            self.give(self.home)
        self.assertGreater(moment, 40)
        self.check_taken_over()

    def stores(self) -> list[int]:
        """Return the number of players of each auth.db that is anywhere; there has to be one."""
        files = (path for path in self.home.rglob("auth.db") if path.stat().st_size)  # a move empties what it leaves
        found = [count_players(path) for path in files]
        self.assertNotEqual(found, [])
        return found

    def give(self, folder: Path) -> None:
        """Let everything in a copied folder belong to the user of the test."""
        if os.geteuid() == 0:
            for each in (folder, *folder.rglob("*")):
                os.chown(each, 65534, 65534, follow_symlinks=False)


@sqlite_files("the databases of a new server are files")
class KilledNewTests(SetupCase):
    def test_moments(self) -> None:
        """kill -9 at changes of a new server's set-up: the next run ends it, with the key that was made first."""
        moment = 1 - STEP
        while True:
            moment, self.port = moment + STEP, free_port()
            answers = self.answered()
            self.environ["AT"] = str(moment)
            code, _, err = self.gamed("setup", *answers, program=KILLED)
            del self.environ["AT"]
            if code == 0:
                break
            self.assertEqual(code, -signal.SIGKILL, err)
            key = self.new.data / "auth.key"
            made = key.read_bytes() if key.exists() and (self.new.data / "auth.db").stat().st_size else None
            code, out, err = self.gamed("setup", *answers)
            self.assertEqual(code, 0, f"{moment}: {err}")
            self.assertEqual(self.players(self.new), [], moment)
            self.assertIn(made, (None, key.read_bytes()), moment)
            self.assertIn("/auth/invite/", out, moment)
            for each in (self.home / ".config", self.home / ".local", self.backups):
                rmtree(each)
        self.assertGreater(moment, 25)


@sqlite_files("the databases of a server that moves are files")
class RootTests(TakeOverCase):
    as_root = True

    def setUp(self) -> None:
        if os.geteuid() != 0:
            self.skipTest("only root can let /etc and /var/lib be other folders for one process")
        super().setUp()

    def test_first_server(self) -> None:
        """The server that root started becomes the user's, keeps its key, and is served by the unit."""
        self.set_up(players="internet", address="https://play.example.net", join="approval")
        data = self.place(self.new.data)
        uid = data.stat().st_uid
        self.assertNotEqual(uid, 0)
        self.assertEqual({path.stat().st_uid for path in data.rglob("*")}, {uid})
        self.assertTrue((data / "auth.key").exists())
        self.assertFalse(self.place("/etc/gamed/credentials").exists())
        config = self.place(self.new.config)
        self.assertEqual(stat.S_IMODE(config.stat().st_mode), 0o640)
        self.assertEqual(json.loads(config.read_text())["login"]["registration"], "approval")
        self.check_taken_over()

    def test_moments(self) -> None:
        """kill -9 now and then, as root: the next run ends it, and nothing belongs to root."""
        kept = self.folder / "kept"
        copytree(self.home, kept, symlinks=True)
        for moment in range(3, 60, 3 * STEP):
            self.port = free_port()
            answers = self.answered()
            self.environ["AT"] = str(moment)
            code = self.gamed("setup", *answers, program=KILLED)[0]
            del self.environ["AT"]
            if code == 0:
                break
            code, _, err = self.gamed("setup", *answers)
            self.assertEqual(code, 0, err)
            self.assertEqual(self.players(self.new), ["Anna"], moment)
            self.assertNotIn(0, {path.stat().st_uid for path in self.place(self.new.data).rglob("*")})
            rmtree(self.folder / "root")
            rmtree(self.home)
            copytree(kept, self.home, symlinks=True)
