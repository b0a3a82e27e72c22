"""A start never begins an empty server beside one that exists: it refuses, changes nothing, and names what to do."""

import json
import os
import pwd
import shlex
import shutil

from gamed.config.settings import DATABASE_NOTE
from tests.cli.other_user import python_for_all
from tests.cli.process import GAMED, CommandTestCase, free_port
from tests.support.stores import sqlite_files

MOVED = ("auth.db", "auth.db-wal", "auth.db-shm", "auth.key")


@sqlite_files("files in a folder; a PostgreSQL store has its players wherever the data folder is")
class OtherServerCase(CommandTestCase):
    """A server that was started once, with the player Anna in the folder `data`."""

    def setUp(self) -> None:
        super().setUp()
        self.begin(*self.places)
        self.gamed("players", "add", "Anna", "--password-stdin", stdin="correct horse")

    def begin(self, *places: str) -> None:
        """Start a server with these options, and stop it when it answers."""
        port = free_port()
        process = self.start(*GAMED, *places, "serve", f"--listen=tcp:{port}:interface=127.0.0.1")
        self.await_answer(port, process)
        self.assertEqual(self.stop(process), 0, self.output())

    def refused(self, *places: str) -> str:
        """Return the error of a start, which changes nothing."""
        before = self.files()
        code, out, err = self.run_command(*places, "serve", "--listen=tcp:0:interface=127.0.0.1")
        self.assertEqual((code, out, err.count("\n")), (78, "", 1), err)
        self.assertEqual(self.files(), before)
        return err

    def players(self, *places: str) -> list[str]:
        code, out, err = self.run_command(*places, "players", "list", "--json")
        self.assertEqual((code, err), (0, ""))
        return [player["name"] for player in json.loads(out)]


class NearTests(OtherServerCase):
    def test_one_folder_down(self) -> None:
        """A unit that names the folder above the data is refused, and the printed command serves the players."""
        err = self.refused("--config", str(self.config), "--data", str(self.folder))
        self.assertIn(f"but {self.data} has a server", err)
        _, *words = shlex.split(err.partition("Use that one: ")[2].partition(", or ")[0])
        self.assertEqual(words[-1], "serve")
        self.assertEqual(self.players(*words[:-1]), ["Anna"])
        self.begin(*words[:-1])

    def test_one_folder_up(self) -> None:
        """A folder within the data is refused, also if it is a link to one elsewhere, or elsewhere by its link."""
        inner, elsewhere = self.data / "data", self.folder / "elsewhere"
        self.assertIn(f"but {self.data} has a server", self.refused("--config", str(self.config), "--data", str(inner)))
        elsewhere.mkdir(0o700)
        inner.symlink_to(elsewhere)
        self.refused("--config", str(self.config), "--data", str(inner))
        inner.unlink()
        inner.mkdir(0o700)
        elsewhere.rmdir()
        elsewhere.symlink_to(inner)
        self.refused("--config", str(self.config), "--data", str(elsewhere))

    def test_first_run(self) -> None:
        """Without a configuration nothing is written either, and the variables that are printed have its place."""
        new = self.folder / "etc/authentication.json"
        err = self.refused("--config", str(new), "--data", str(self.folder))
        self.assertIn(f"GAMED_CONFIG={self.config} GAMED_DATA={self.data};", err)

    def test_moved(self) -> None:
        """After `move-data` the folder itself is refused as data: they are one folder down."""
        new = self.folder / "lib"
        self.gamed("move-data", str(new))
        self.assertIn(f"but {new}/data has a server", self.refused("--config", f"{new}/one.json", "--data", str(new)))

    def test_several_processes(self) -> None:
        """Servers that share the folder, and --workers, refuse as well."""
        before = self.files()
        for option in ("--share", "--workers=2"):
            places = ["--config", str(self.config), "--data", str(self.folder)]
            code, _, err = self.run_command(*places, "serve", "--listen=tcp:0:interface=127.0.0.1", option)
            self.assertEqual((code, f"but {self.data} has a server" in err), (78, True), err)
            self.assertEqual(self.files(), before)

    def test_two_servers(self) -> None:
        """Two servers in folders side by side, each with a configuration of its own, are begun as before."""
        for name in ("one", "two"):
            self.begin("--config", f"{self.folder}/{name}.json", "--data", f"{self.folder}/servers/{name}")

    def test_backups(self) -> None:
        """A folder with backups may have a server in it or above it: a backup is no server."""
        self.gamed("backup", str(self.folder / "copies/night"))
        [backup] = (self.folder / "copies/night").iterdir()
        self.begin("--config", str(self.folder / "one.json"), "--data", str(self.folder / "copies/night"))
        self.begin("--config", str(self.folder / "two.json"), "--data", str(backup / "data"))

    def test_restored(self) -> None:
        """A backup that was restored into an empty folder is served from there, also beside the server it is of."""
        self.gamed("backup", str(self.folder / "copies"))
        [backup] = (self.folder / "copies").iterdir()
        new = self.data / "try"
        new.mkdir(0o700)
        shutil.copy(self.data / "auth.key", new)
        places = ("--config", str(self.folder / "try.json"), "--data", str(new))
        code, _, err = self.run_command(*places, "restore", str(backup))
        self.assertEqual((code, err), (0, ""))
        self.begin(*places)
        self.assertEqual(self.players(*places), ["Anna"])

    def test_lost_key(self) -> None:
        """An auth.db that the owner has set aside, because its key is lost, is no server: saves are still here."""
        aside = self.data / "aside"
        aside.mkdir(0o700)
        for name in MOVED:
            if (self.data / name).exists():
                (self.data / name).rename(aside / name)
        self.begin(*self.places)
        self.assertEqual(self.players(*self.places), [])

    def test_lost_key_after_postgresql(self) -> None:
        """That works also in a folder whose databases were on a PostgreSQL server once: its note is still there."""
        (self.data / DATABASE_NOTE).write_text("{}")
        self.test_lost_key()


class OtherPlacesTests(OtherServerCase):
    def test_variables(self) -> None:
        """A shell whose variables name other places than systemd's unit is refused, and the other way round."""
        other = self.folder / "one/two"
        shell = {"GAMED_CONFIG": f"{other}/authentication.json", "GAMED_DATA": f"{other}/players"}
        unit = {"CONFIGURATION_DIRECTORY": str(self.folder), "STATE_DIRECTORY": str(self.data)}
        self.environ = {**unit, **shell}
        self.assertIn(f"but {self.data} has a server", self.refused())
        self.environ = {"GAMED_CONFIG": str(self.config), "STATE_DIRECTORY": f"{other}/players:{self.data}"}
        self.assertIn(f"but {self.data} has a server", self.refused())
        self.environ = {"GAMED_CONFIG": str(self.config), "GAMED_DATA": f"{other}/players"}
        self.assertIn(f"but {self.data} has a server", self.refused(), "the folder beside the configuration")

    def test_option(self) -> None:
        """An option that names another configuration begins another server: the owner has decided that."""
        self.environ = {"GAMED_CONFIG": str(self.config), "GAMED_DATA": str(self.data)}
        other = self.folder / "one/two"
        self.begin("--config", f"{other}/authentication.json", "--data", f"{other}/players")

    def test_configuration_elsewhere(self) -> None:
        """The printed command has the configuration of the folder that was found, also if it is not beside it."""
        there = self.folder / "var/lib/gamed"
        there.parent.mkdir(parents=True)
        self.data.rename(there)
        etc = self.folder / "etc/gamed/authentication.json"
        etc.parent.mkdir(parents=True)
        self.config.rename(etc)
        other = self.folder / "one/two"
        self.environ = {
            "GAMED_CONFIG": f"{other}/authentication.json",
            "GAMED_DATA": f"{other}/players",
            "CONFIGURATION_DIRECTORY": str(etc.parent),
            "STATE_DIRECTORY": str(there),
        }
        _, *words = shlex.split(self.refused().partition("Use that one: ")[2].partition(", or ")[0])
        self.assertEqual(self.players(*words[:-1]), ["Anna"])
        self.begin(*words[:-1])

    def test_advice(self) -> None:
        """The options begin another server, as printed; later starts need only the variables."""
        other = self.folder / "one/two"
        unit = {"CONFIGURATION_DIRECTORY": str(self.folder), "STATE_DIRECTORY": str(self.data)}
        variables = {"GAMED_CONFIG": f"{other}/authentication.json", "GAMED_DATA": f"{other}/players"}
        self.environ = {**unit, **variables}
        self.assertIn("only the first start needs the options", self.refused())
        self.environ = unit
        self.begin("--config", variables["GAMED_CONFIG"], "--data", variables["GAMED_DATA"])
        self.environ = {**unit, **variables}
        self.begin()

    def test_old_copy(self) -> None:
        """An old copy in the data folder is named as one to move out, and then the start works."""
        data = self.folder / "one/two"
        data.mkdir(0o700, parents=True)
        self.data.rename(data / "copy")
        places = ("--config", str(self.folder / "other.json"), "--data", str(data))
        self.assertIn(f"If it is an old copy, move that folder out of {data} instead.", self.refused(*places))
        (data / "copy").rename(self.folder / "far")
        self.begin(*places)

    def test_store_was_removed(self) -> None:
        """A folder whose server has its databases on PostgreSQL begins no files when `store` is missing."""
        folder = self.folder / "one/two"
        folder.mkdir(0o700, parents=True)
        (folder / DATABASE_NOTE).write_text("{}")
        config = self.folder / "other.json"
        config.write_text('{"mode": "local"}')
        err = self.refused("--config", str(config), "--data", str(folder))
        self.assertIn(f"Put store back into {config}", err)

    def test_unreadable_folder(self) -> None:
        """A folder beside that this user cannot enter, and a loop of links, are not a server."""
        self.folder.chmod(0o755)
        python, environ = python_for_all()
        data = self.folder / "one/two"
        closed = data / "closed"
        closed.mkdir(0o700, parents=True)
        (closed / "auth.db").write_bytes(b"players")
        (data / "loop").symlink_to(data / "loop")
        (data / "file").touch()
        config = self.folder / "two/authentication.json"
        config.parent.mkdir()
        user = pwd.getpwnam("nobody") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
        change: list[str] = []
        if os.geteuid() == 0:
            change = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
            for path in (data, config.parent):
                os.chown(path, user.pw_uid, user.pw_gid)
        else:
            closed.chmod(0)
            self.addCleanup(closed.chmod, 0o700)
        self.environ = environ
        port = free_port()
        run = [
            *change,
            python,
            "-c",
            "from gamed.cli import main; main()",
            "--config",
            str(config),
            "--data",
            str(data),
        ]
        process = self.start(*run, "serve", f"--listen=tcp:{port}:interface=127.0.0.1")
        self.await_answer(port, process)
        self.assertEqual(self.stop(process), 0, self.output())
        self.assertTrue((data / "auth.db").exists())
