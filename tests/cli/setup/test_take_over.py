"""`gamed setup` takes a server over: players, saves and sessions are there, and no empty server is ever beside it."""

import json
import os
import signal
import stat
from base64 import b64encode
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from shutil import copytree, rmtree
from sqlite3 import connect
from typing import ClassVar
from zlib import compress, crc32

from gamed.cli.paths import Paths
from tests.cli.process import WAIT_SECONDS, get
from tests.cli.setup.fixtures import HERE, KILLED, SetupCase
from tests.support.examples import examples
from tests.support.ports import free_port
from tests.support.postgresql import cluster
from tests.support.stores import sqlite_files

SAVE = b"level 3, 41 coins"


class TakeOverCase(SetupCase):
    """A server as README's first command leaves it, in a virtual environment of the current folder."""

    configuration: ClassVar[str | None] = None
    """The text of the configuration before the first start; None for that of a first start."""

    def setUp(self) -> None:
        super().setUp()
        folder = self.home / ".venv/bin"
        folder.mkdir(parents=True)
        if not self.as_root and os.geteuid() == 0:
            for each in (folder, folder.parent):
                os.chown(each, self.home.stat().st_uid, self.home.stat().st_gid)
        self.old = Paths(folder / "authentication.json", folder / "data")
        if self.configuration is not None:
            self.old.config.write_text(self.configuration)
            self.give(folder)
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

    def give(self, folder: Path) -> None:
        """Let everything in a folder belong to the user of the test."""
        if os.geteuid() == 0:
            for each in (folder, *folder.rglob("*")):
                os.chown(each, 65534, 65534, follow_symlinks=False)

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
"""The distance between two moments that are tried: two set-ups and their commands take three seconds of a processor."""


def make_png() -> bytes:
    """Return a picture of one pixel."""
    chunks = ((b"IHDR", bytes.fromhex("00000001000000010800000000")), (b"IDAT", compress(b"\0\0")), (b"IEND", b""))
    body = (len(data).to_bytes(4, "big") + kind + data + crc32(kind + data).to_bytes(4, "big") for kind, data in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(body)


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
        self.set_up(*self.elsewhere())
        self.check_taken_over()

    def elsewhere(self) -> list[str]:
        """Move the server to a place of its own, that only options or a unit name; return the options."""
        place = self.home / "games"
        self.old.config.parent.rename(place)
        self.old = Paths(place / "authentication.json", place / "data")
        return ["--config", str(self.old.config), "--data", str(self.old.data)]

    def write_unit(self, name: str, text: str) -> Path:
        file = self.home / ".config/systemd/user" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        self.give(self.home / ".config")
        return file

    def test_unit(self) -> None:
        """A server at a place of its own is taken over if a unit of gamed names it, by variables or options."""
        words = self.elsewhere()
        code, out, err = self.gamed(*words, "unit", "service")
        self.assertEqual(code, 0, err)
        self.assertIn(f"Environment=GAMED_DATA={self.old.data}", out)
        unit = self.write_unit("gamed.service", out)
        code, out, err = self.gamed("setup", "--dry-run", *self.answered())
        self.assertIn(f"move     {self.old.data} to", out, err)
        first = "# gamed.service, printed by: gamed unit service"
        unit.write_text(f"{first}\n[Service]\nExecStart=gamed {' '.join(words)}\n")
        self.set_up()
        self.check_taken_over()
        self.assertIn("it stays, and these answers are its settings", self.set_up())

    def test_unit_without_disk(self) -> None:
        """A unit that names a data folder which is not there is a disk that is not mounted: no empty server begins."""
        self.elsewhere()
        unit = self.write_unit("gamed.service", f"[Service]\nEnvironment=GAMED_DATA={self.home}/disk/data\n")
        self.assertIn(f"{unit} names the data folder {self.home}/disk/data, which has no server now", self.refused())

    def test_added_settings(self) -> None:
        """Settings that were added to the unit would win over the new one's, so they are named."""
        words = self.elsewhere()
        added = self.write_unit("gamed.service.d/place.conf", f"[Service]\nEnvironment=GAMED_DATA={self.old.data}\n")
        err = self.refused()
        self.assertIn(f"{added} names {self.old.data}, also for the unit that this writes", err)
        self.assertIn(f"--data {self.old.data} setup", err)
        added.unlink()
        self.set_up(*words)
        self.check_taken_over()

    def test_listener(self) -> None:
        """A listener that the new unit has not is named."""
        words = ["--config", str(self.old.config), "--data", str(self.old.data)]
        path = self.home / "gamed.sock"
        listen = [f"--listen=unix:{path}", f"--listen=tcp:{self.port}:interface=127.0.0.1"]
        process = self.start_as(self.python, "-c", HERE, *words, "serve", *listen)
        self.await_answer(self.port, process)
        self.assertEqual(self.stop(process), 0, self.output())
        self.assertIn(f"It listened at unix:{path}; now it listens at 127.0.0.1:{self.port} alone.", self.set_up())

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

    def test_other_files(self) -> None:
        """A target that the data cannot become by one rename is refused before anything is changed."""
        words = ["--config", str(self.old.config), "--data", str(self.old.data)]
        disk = self.home / "disk"
        disk.mkdir()
        self.new.data.parent.mkdir(parents=True)
        self.new.data.symlink_to(disk)
        self.assertIn(f"{self.new.data} is a link", self.refused())
        self.new.data.unlink()
        self.give(self.home / ".local")
        code, _, err = self.gamed(*words, "move-data", str(self.new.data))
        self.assertEqual(code, 0, err)
        for name in ("authentication.json.bak", "data.old"):
            (self.new.data / name).write_text("")
            self.assertIn(f"has no server, but {name}", self.refused())
            (self.new.data / name).unlink()

    def test_link_beside(self) -> None:
        """A link beside the old configuration is not followed: it could be to a file of anybody."""
        link = self.old.config.with_name("de.po")
        link.symlink_to("/etc/passwd")
        self.assertIn(f"{link} cannot be copied", self.refused(code=78))
        link.unlink()
        os.mkfifo(link)
        self.assertIn(f"{link} cannot be copied", self.refused(code=78))

    def test_picture(self) -> None:
        """`--dry-run` prints no picture, and the set-up copies it."""
        config = json.loads(self.old.config.read_text())
        self.old.config.write_text(json.dumps(config | {"look": {"mark": "mark.png"}}))
        picture = make_png()
        self.old.config.with_name("mark.png").write_bytes(picture)
        code, out, err = self.gamed("setup", "--dry-run", *self.answered())
        self.assertEqual(code, 0, err)
        self.assertIn("mark.png (0640, yours)\n(a copy, not shown)\n", out)
        self.set_up()
        self.assertEqual(self.new.config.with_name("mark.png").read_bytes(), picture)

    def test_two_servers(self) -> None:
        """A server at a place of its own does not replace the one that stays."""
        self.set_up()
        other = Paths(self.home / "other.json", self.home / "other")
        self.begin(other)
        err = self.refused("--config", str(other.config), "--data", str(other.data))
        self.assertIn("has a server already, and so has", err)


@sqlite_files("the databases of a server that moves are files")
class MomentsTests(TakeOverCase):
    configuration = '{"mode": "local", "session": {"access_ttl": "24h"}}'
    """The player's token is used after the last of the moments."""

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


@sqlite_files("the databases of a server that moves are files")
class SharedTests(SetupCase):
    """The server has its configuration where the new one has it, and only its data elsewhere."""

    def setUp(self) -> None:
        super().setUp()
        self.old = Paths(self.new.config, self.new.config.parent / "data")
        self.new.config.parent.mkdir(parents=True)
        if os.geteuid() == 0:
            for each in (self.new.config.parent, self.home / ".config"):
                os.chown(each, 65534, 65534)
        self.begin(self.old)
        self.new.game.write_text('{"keep_days": 7}')
        os.chown(self.new.game, self.home.stat().st_uid, -1)

    def check(self) -> None:
        self.assertEqual(self.players(self.new), ["Anna"])
        self.assertEqual(json.loads(self.new.config.read_text())["server_name"], "Rose Street 7")
        self.assertEqual(json.loads(self.new.game.read_text()), {"keep_days": 7})
        self.assertEqual([path.name for path in self.new.data.parent.iterdir()], ["gamed"])
        words = ["--config", str(self.old.config), "--data", str(self.old.data)]
        self.assertIn(f"it has to be {self.new.data}", self.gamed(*words, "players", "list")[2])

    def test_moves(self) -> None:
        """Only the data move; configuration and limits are there as before, and the unit serves them."""
        self.set_up()
        self.check()
        process = self.serve_unit()
        self.assertEqual(self.stop(process), 0, self.output())

    def test_moments(self) -> None:
        """kill -9 at changes of the move: the next run ends it, with the configuration that was there."""
        kept = self.folder / "kept"
        copytree(self.home, kept, symlinks=True)
        for moment in range(5, 100, STEP):
            self.port = free_port()
            answers = self.answered()
            self.environ["AT"] = str(moment)
            code = self.gamed("setup", *answers, program=KILLED)[0]
            del self.environ["AT"]
            if code == 0:
                break
            code, _, err = self.gamed("setup", *answers)
            self.assertEqual(code, 0, f"{moment}: {err}")
            self.check()
            rmtree(self.home)
            copytree(kept, self.home, symlinks=True)
            if os.geteuid() == 0:
                for each in (self.home, *self.home.rglob("*")):
                    os.chown(each, 65534, 65534, follow_symlinks=False)
        self.assertGreater(moment, 40)


@sqlite_files("the databases of a server that moves are files")
class SharedRootTests(SetupCase):
    as_root = True

    def setUp(self) -> None:
        if os.geteuid() != 0:
            self.skipTest("only root can let /etc and /var/lib be other folders for one process")
        super().setUp()

    def test_inside(self) -> None:
        """So does a server of the machine with its data in a folder of the new data folder, at changes of kill -9."""
        old = Paths(self.new.config, self.new.data / "data")
        self.gamed("--help")  # makes the copies
        self.place(self.new.data).mkdir(mode=0o700)
        self.place(self.new.config.parent).mkdir(mode=0o750)
        self.begin(old)
        self.place(self.new.game).write_text('{"keep_days": 7}')
        kept = self.folder / "kept"
        copytree(self.folder / "root", kept, symlinks=True)
        for moment in range(30, 300, 3 * STEP):
            self.port = free_port()
            answers = self.answered()
            self.environ["AT"] = str(moment)
            ended = self.gamed("setup", *answers, program=KILLED)[0] == 0
            del self.environ["AT"]
            if not ended:
                code, _, err = self.gamed("setup", *answers)
                self.assertEqual(code, 0, f"{moment}: {err}")
            self.assertEqual(self.players(self.new), ["Anna"], moment)
            self.assertEqual(json.loads(self.place(self.new.game).read_text()), {"keep_days": 7})
            self.assertEqual([path.name for path in self.place("/var/lib").glob("gamed*")].count("gamed.setup"), 0)
            if ended:
                break
            rmtree(self.folder / "root")
            copytree(kept, self.folder / "root", symlinks=True)
        self.assertTrue(ended)


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
        credentials = self.place("/etc/gamed/credentials")  # empty, for the secrets that come later
        self.assertEqual((list(credentials.iterdir()), credentials.stat().st_mode & 0o777), ([], 0o700))
        unit = self.place("/etc/systemd/system/gamed.service").read_text()
        self.assertIn("\nLoadCredential=GAMED:/etc/gamed/credentials\n", unit)
        config = self.place(self.new.config)
        self.assertEqual(stat.S_IMODE(config.stat().st_mode), 0o640)
        self.assertEqual(json.loads(config.read_text())["login"]["registration"], "approval")
        self.check_taken_over()

    def test_sudo(self) -> None:
        """Under sudo the server is found that the person has begun before, whose home folder HOME does not name."""
        home = self.folder / "anna"
        home.mkdir()
        (self.home / ".venv").rename(home / ".venv")
        self.old = Paths(home / ".venv/bin/authentication.json", home / ".venv/bin/data")
        with self.place("/etc/passwd").open("a") as file:
            file.write(f"anna:x:12345:12345::{home}:/bin/sh\n")
        out = self.gamed("setup", "--dry-run", *self.answered())[1]
        self.assertIn(f"There is a server in {self.old.data}, which stays apart. To move that one", out)
        self.environ["SUDO_USER"] = "anna"
        self.assertIn(f"There is a server in {self.old.data}; it is moved", self.set_up())
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


class PostgresqlTests(SetupCase):
    """A server with its databases on a PostgreSQL server, and its key in a variable."""

    as_root = True

    def setUp(self) -> None:
        if os.geteuid() != 0:
            self.skipTest("only root can let /etc and /var/lib be other folders for one process")
        super().setUp()
        address = cluster().database()
        self.addCleanup(cluster().drop, address.database)
        folder = self.home / ".venv/bin"
        folder.mkdir(parents=True)
        self.old = Paths(folder / "authentication.json", folder / "data")
        members = {"mode": "local", "master_key_env": "GAMED_MASTER_KEY", "store": address.url}
        self.old.config.write_text(json.dumps(members))
        self.environ["GAMED_MASTER_KEY"] = self.secret = b64encode(bytes(range(32))).decode()
        self.begin(self.old)

    def test_moves(self) -> None:
        """Only the folder moves; the key becomes a credential, and the unit serves the players of the databases."""
        self.environ.pop("GAMED_MASTER_KEY")
        self.assertIn("whom only their own key can read. Set GAMED_MASTER_KEY", self.refused(code=78))
        self.environ["GAMED_MASTER_KEY"] = self.secret
        out = self.set_up()
        self.environ.pop("GAMED_MASTER_KEY")
        self.assertNotIn(self.secret, out)
        self.assertNotIn("/auth/invite/", out)  # there is Anna
        self.assertEqual(self.place("/etc/gamed/credentials/MASTER_KEY").read_text(), f"{self.secret}\n")
        self.assertEqual(self.players(self.new), ["Anna"])
        self.assertFalse(self.place("/var/lib/gamed/auth.db").exists())
        backup = self.place("/etc/systemd/system/gamed-backup.service").read_text()
        self.assertNotIn("PrivateNetwork=yes", backup)
        process = self.serve_unit()
        self.assertEqual(self.stop(process), 0, self.output())
        words = ["--config", str(self.old.config), "--data", str(self.old.data)]
        self.assertIn(f"it has to be {self.new.data}", self.gamed(*words, "players", "list")[2])
