"""`gamed move-data` moves everything or nothing, and the old place names the new one."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from contextlib import closing
from pathlib import Path

from gamed.assets.store import publish_lock
from gamed.cli.data.move_data import move
from gamed.cli.data.move_note import JOURNAL, NOTE, STAGED, moved_to, places_in, refuse_moved
from gamed.cli.errors import CommandFailed, SetupError
from gamed.cli.paths import Paths
from gamed.cli.service.folder_lock import LOCK_FILE, SERVE, Lock
from gamed.database.sqlite.files import connect, file_uri
from tests.cli.backup_helpers import BackupCase, killed_at_step, put
from tests.cli.process import GAMED, WAIT_SECONDS, CommandTestCase, environment, folder_of, free_port, get
from tests.support.covers import covers
from tests.support.stores import sqlite_files

OBJECT = "assets/objects/ab/abcd"


@sqlite_files("its files; with PostgreSQL the databases stay where they are")
class MoveCase(BackupCase):
    """A server with players, saves, assets, a game.json and old copies, whose last writes are in the log of SQLite."""

    def setUp(self) -> None:
        super().setUp()
        self.where.config.chmod(0o640)
        self.where.game.write_text("{}")
        (self.data / OBJECT).parent.mkdir(parents=True, mode=0o700)
        (self.data / "assets/channels").mkdir(mode=0o755)
        (self.data / "assets/tmp").mkdir()
        (self.data / OBJECT).write_bytes(b"level 1" * 1000)
        (self.data / OBJECT).chmod(0o640)
        (self.data / "auth.db.v1").write_bytes(b"old")
        (self.data / "more").symlink_to("../elsewhere")
        os.utime(self.data / "assets/channels", ns=(1, 1_700_000_000_123_456_789))
        self.new = self.folder / "new"

    def contents(self, data: Path) -> dict[str, object]:
        """Return everything in a data folder that a move has to keep."""
        files = {
            str(path.relative_to(data)): (path.read_bytes(), path.stat().st_mode, path.stat().st_mtime_ns)
            for path in sorted(data.rglob("*"))
            if path.is_file() and path.suffix not in (".db", ".lock") and not re.search(r"\.db-|\.moved", path.name)
        }
        return {**files, "players": self.players(str(data / "auth.db")), "slots": self.slots(str(data / "state.db"))}

    def refused(self, folder: Path | None = None) -> str:
        """Return the error of a move that changed nothing."""
        before = self.contents(self.data)
        error = self.assertRaises((CommandFailed, SetupError), move, self.where, folder or self.new)
        self.assertEqual(self.contents(self.data), before)
        self.assertIsNone(moved_to(self.where))
        return str(error)


class MovedTests(MoveCase):
    def test_everything(self) -> None:
        """Databases, key, assets, old copies and both settings are in the new place, unchanged; a note stays behind."""
        before = self.contents(self.data)
        config = self.where.config.read_bytes()
        done = move(self.where, self.new)
        new = places_in(self.new)
        self.assertEqual(self.contents(new.data), before)
        self.assertEqual((new.config.read_bytes(), new.config.stat().st_mode & 0o777), (config, 0o640))
        self.assertEqual(new.game.read_text(), "{}")
        self.assertEqual((new.data / "assets/channels").stat().st_mtime_ns, 1_700_000_000_123_456_789)
        self.assertEqual((new.data / "assets/channels").stat().st_mode & 0o777, 0o755)
        self.assertEqual(sorted(os.listdir(self.new)), ["authentication.json", "data", "game.json"])
        self.assertEqual(sorted(os.listdir(self.data)), [LOCK_FILE, NOTE])
        self.assertFalse(self.where.config.exists() or self.where.game.exists())
        self.assertGreater(done.files or 0, 5)

    def test_links(self) -> None:
        """A link out of the folder leads to the same place; a link within it stays relative."""
        (self.data / "inside").symlink_to("auth.db.v1")
        move(self.where, self.new)
        data = places_in(self.new).data
        self.assertEqual(os.readlink(data / "more"), str(self.folder / "elsewhere"))
        self.assertEqual(os.readlink(data / "inside"), "auth.db.v1")

    def test_log_of_sqlite(self) -> None:
        """Rows that only the logs of SQLite have are in the new files, and the logs themselves are not copied."""
        with closing(connect(file_uri(self.data / "state.db", "rw"))) as reader:
            put(reader, "later", b"two")
            self.assertGreater((self.data / "state.db-wal").stat().st_size, 0)
            move(self.where, self.new)
        data = places_in(self.new).data
        self.assertFalse((data / "state.db-wal").exists())
        self.assertEqual(self.slots(str(data / "state.db")), ["auto", "later"])

    def test_owner(self) -> None:
        """Root moves the files of another user, who owns the copies and the new folder."""
        if os.geteuid() != 0:
            return
        for path in (self.data, *self.data.rglob("*"), self.where.config):
            os.chown(path, 10001, 10002, follow_symlinks=False)
        move(self.where, self.new)
        new = places_in(self.new)
        for path in (self.new, new.config, new.data, *new.data.rglob("*"), self.data / NOTE):
            state = path.lstat()
            self.assertEqual((state.st_uid, state.st_gid), (10001, 10002), path)

    def test_folder_of_another_user(self) -> None:
        """A folder that was made for the service's user stays that user's, with everything that root moves there."""
        if os.geteuid() != 0:
            return
        for uid in (0, 10001):
            folder = self.folder / f"of-{uid}"
            folder.mkdir(mode=0o700)
            os.chown(folder, 10003, 10004)
            os.chown(self.data, uid, uid)
            os.chown(self.data / "auth.db", uid, uid)
            self.moved_once(folder)
            for path in (folder, *folder.rglob("*")):
                state = path.lstat()
                self.assertEqual((state.st_uid, state.st_gid), (10003, 10004), path)

    def moved_once(self, folder: Path) -> None:
        """Move a copy of the data, so that a test can move them again."""
        copy = Paths(self.folder / "copy/authentication.json", self.folder / "copy/data")
        shutil.rmtree(copy.config.parent, ignore_errors=True)
        copy.config.parent.mkdir()
        shutil.copytree(self.data, copy.data, symlinks=True)
        os.chown(copy.data, self.data.stat().st_uid, self.data.stat().st_gid)
        shutil.copy(self.where.config, copy.config)
        move(copy, folder)

    def test_a_link_during_the_copy(self) -> None:
        """The folder's user, who puts a link in the place of what root fills, gets nothing of root's."""
        if os.geteuid() != 0:
            return
        victim = self.folder / "of-root"
        victim.mkdir(mode=0o755)
        (victim / "passwd").write_text("root")
        objects = self.data / OBJECT
        for number in range(1500):
            objects.with_name(f"o{number}").write_bytes(b"level")
        self.new.mkdir(mode=0o700)
        os.chown(self.new, 10003, 10004)
        script = (
            f"import os\nwhile not os.path.exists('{STAGED}'): pass\n"
            f"os.rename('{STAGED}', 'away')\nos.symlink('{victim}', '{STAGED}')"
        )
        user = ["setpriv", "--reuid=10003", "--regid=10004", "--clear-groups"]
        attack = subprocess.Popen([*user, "/usr/bin/python3", "-Sc", script], cwd=self.new)
        self.addCleanup(attack.wait)
        self.addCleanup(attack.kill)
        error = self.assertRaises(CommandFailed, move, self.where, self.new)
        self.assertIn("was replaced during the copy. Nothing was moved.", str(error))
        self.assertEqual((attack.wait(WAIT_SECONDS), os.readlink(self.new / STAGED)), (0, str(victim)))
        self.assertIsNone(moved_to(self.where))
        self.assertEqual(os.listdir(victim), ["passwd"])
        self.assertEqual({path.lstat().st_uid for path in (victim, victim / "passwd")}, {0})

    def test_journal_of_another_user(self) -> None:
        """Root does not finish a move whose journal another user may have written: it names what is deleted."""
        if os.geteuid() != 0:
            return
        (self.new / STAGED).mkdir(parents=True)
        names = json.dumps({"config": str(self.where.config), "data": str(self.data), "names": ["../outside"]})
        (self.new / STAGED / JOURNAL).write_text(names)
        os.chown(self.new / STAGED, 10003, 10004)
        (self.folder / "outside").touch()
        (self.data / NOTE).write_text(json.dumps({"moved_to": str(self.new)}))
        error = self.assertRaises(CommandFailed, move, self.where, self.new)
        self.assertIn("Finish the move as the user who began it", str(error))
        self.assertTrue((self.folder / "outside").exists())

    def test_link_to_another_users_file(self) -> None:
        """A configuration file that its user made a link to a file of root is refused: the copy would be the user's."""
        if os.geteuid() != 0:
            return
        secret = self.folder / "secret"
        secret.write_text("{}")
        secret.chmod(0o600)
        self.where.game.unlink()
        self.where.game.symlink_to(secret)
        os.chown(self.where.game, 10003, 10004, follow_symlinks=False)
        self.assertIn("is a link to the file of another user", self.refused())

    def test_another_disk(self) -> None:
        """The new folder may be an empty disk, with the folder that a file system makes there."""
        if os.geteuid() != 0:
            return
        self.new.mkdir()
        self.addCleanup(subprocess.run, ["umount", "--lazy", str(self.new)], check=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64M,mode=700", "tmpfs", str(self.new)], check=True)
        (self.new / "lost+found").mkdir()
        before = self.contents(self.data)
        move(self.where, self.new)
        self.assertEqual(self.contents(places_in(self.new).data), before)

    def test_again(self) -> None:
        """The same command again changes nothing; another folder is refused."""
        move(self.where, self.new)
        before = self.contents(places_in(self.new).data)
        self.assertIsNone(move(self.where, self.new).files)
        self.assertEqual(self.contents(places_in(self.new).data), before)
        error = self.assertRaises(SetupError, move, self.where, self.folder / "other")
        self.assertIn(f"was already moved to {self.new}", str(error))

    def test_waiting_command(self) -> None:
        """A command that opened a database before the move cannot write to the deleted file as if it counted."""
        with closing(connect(file_uri(self.data / "auth.db", "rw"))) as early:
            early.execute("SELECT count(*) FROM player").fetchall()
            move(self.where, self.new)
            with self.assertRaises(Exception):  # noqa: B017  which of SQLite's errors depends on its version
                early.execute("INSERT INTO player (player_id, state, created_ms) VALUES ('ply_x', 'active', 1)")


class RefusedTests(MoveCase):
    def test_running(self) -> None:
        """A folder that a server holds is not moved."""
        lock = Lock.acquire(self.data, SERVE)
        self.addCleanup(lock.release)
        self.assertIn(f"A gamed serves {self.data} (process {os.getpid()}). Stop it first.", self.refused())
        self.assertFalse(self.new.exists())

    def test_filled(self) -> None:
        """A folder with a file is refused by the file's name."""
        self.new.mkdir()
        (self.new / "notes.txt").touch()
        self.assertIn("not empty: it has notes.txt", self.refused())
        self.assertEqual(os.listdir(self.new), ["notes.txt"])

    def test_inside(self) -> None:
        """A folder in the data folder is refused, also through a link."""
        (self.folder / "link").symlink_to(self.data)
        for folder in (self.data / "new", self.folder / "link/new", self.data):
            self.assertIn("in the data folder", self.refused(folder))
        self.assertFalse((self.data / "new").exists())

    def test_virtual_environment(self) -> None:
        """A folder in a virtual environment is refused: the data would be deleted with it, as before."""
        self.new.mkdir()
        (self.new / "pyvenv.cfg").touch()
        self.assertIn("virtual environment", self.refused(self.new / "data"))

    def test_no_parent(self) -> None:
        """A folder in a missing folder is refused."""
        self.assertIn("does not exist. Make that folder first.", self.refused(self.new / "deep"))

    def test_not_a_folder(self) -> None:
        """A file in place of the folder is refused."""
        self.new.touch()
        self.assertIn("Not a directory", self.refused())

    def test_other_move(self) -> None:
        """A folder with an unfinished move of other data is refused."""
        (self.new / STAGED).mkdir(parents=True)
        (self.new / STAGED / JOURNAL).write_text('{"config": "/x/authentication.json", "data": "/x/data", "names": []}')
        self.assertIn("is not finished. Finish that one first", self.refused())

    def test_publishing(self) -> None:
        """Assets that another command writes are not moved."""
        with publish_lock(self.data / "assets"):
            self.assertIn("another command works on", self.refused())

    def test_pipe(self) -> None:
        """A pipe in the data folder cannot be copied and is named."""
        os.mkfifo(self.data / "pipe")
        error = self.assertRaises(CommandFailed, move, self.where, self.new)
        self.assertIn("pipe is not a file", str(error))
        self.assertFalse(self.new.exists())

    def test_no_database(self) -> None:
        """A folder that no server has used is not moved."""
        where = Paths(self.where.config, self.folder / "empty")
        where.data.mkdir()
        self.assertRaises(CommandFailed, move, where, self.new)

    def test_permission(self) -> None:
        """A configuration in a folder where this user cannot delete is refused with the folder."""
        if os.geteuid() != 0:
            return
        folder = folder_of(self)
        folder.chmod(0o755)
        where = Paths(folder / "authentication.json", folder / "data")
        shutil.copytree(self.data, where.data, symlinks=True)
        shutil.copy(self.where.config, where.config)
        where.config.chmod(0o644)
        for path in (where.data, *where.data.iterdir()):
            os.chown(path, 10001, 10001, follow_symlinks=False)

        def unprivileged() -> None:
            os.setgroups([])
            os.setgid(10001)
            os.setuid(10001)
            error = self.assertRaises(CommandFailed, move, where, folder / "new")
            self.assertIn(f"This user cannot delete files in {folder}", str(error))

        self.assertFalse(killed_at_step(unprivileged, folder, 0))

    def test_no_room(self) -> None:
        """A disk that is too small is refused before anything is copied."""
        self.small_disk("1M")
        self.assertIn(" free, and the move needs", self.refused())

    def test_disk_becomes_full(self) -> None:
        """A disk that becomes full while the copy is made is left empty, and a later run works."""
        limit = 64 * 1024

        def limited() -> None:
            import resource

            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            self.assertRaises(CommandFailed, move, self.where, self.new)
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

        before = self.contents(self.data)
        killed_at_step(limited, self.folder, 0)
        self.assertFalse(self.new.exists())
        self.assertEqual(self.contents(self.data), before)
        move(self.where, self.new)
        self.assertEqual(self.contents(places_in(self.new).data), before)

    def small_disk(self, size: str) -> None:
        self.new.mkdir()
        self.addCleanup(subprocess.run, ["umount", "--lazy", str(self.new)], check=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", str(self.new)], check=True)


@covers("threats/54")
class KilledMoveTests(MoveCase):
    def test_every_step(self) -> None:
        """A move that is killed at any step has moved nothing or can be finished, and a second run moves everything."""
        before, step, committed = self.contents(self.data), 1, []
        kept = self.folder / "kept"
        shutil.copytree(self.data, kept, symlinks=True)
        settings = {path: path.read_bytes() for path in (self.where.config, self.where.game)}
        while killed_at_step(lambda: move(self.where, self.new), self.folder, step):
            committed.append(moved_to(self.where) is not None)
            if committed[-1]:
                self.assertRaises(SetupError, refuse_moved, self.where)
            else:
                refuse_moved(self.where)
                self.assertEqual(self.contents(self.data), before, step)
            new = places_in(self.new)
            if new.config.exists() and (self.new / STAGED / JOURNAL).exists():
                self.assertRaises(SetupError, refuse_moved, new)
            move(self.where, self.new)
            self.assertEqual(self.contents(new.data), before, step)
            refuse_moved(new)
            self.assertEqual(sorted(os.listdir(self.new)), ["authentication.json", "data", "game.json"], step)
            self.assertEqual(sorted(os.listdir(self.data)), [LOCK_FILE, NOTE], step)
            shutil.rmtree(self.new)
            shutil.rmtree(self.data)
            shutil.copytree(kept, self.data, symlinks=True)
            for path, content in settings.items():
                path.write_bytes(content)
            self.assertEqual([path.name for path in self.folder.glob("*.moved*")], ["authentication.json.moved"], step)
            (self.folder / "authentication.json.moved").unlink()
            step += 1
        self.assertEqual(committed, sorted(committed))
        self.assertGreater(committed.count(False), 20)
        self.assertGreater(committed.count(True), 10)


class CommandTests(CommandTestCase):
    """A server whose data are moved by the command itself."""

    def setUp(self) -> None:
        super().setUp()
        process, _ = self.serve()
        self.stop(process)
        self.new = self.folder / "srv"

    def served(self, *places: str) -> None:
        """Check that a server with these options has the player Anna."""
        port = free_port()
        process = self.start(*GAMED, *places, "serve", f"--listen=tcp:{port}:interface=127.0.0.1")
        self.await_answer(port, process)
        code, out, err = self.run_command(*places, "players", "list", "--json")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual([player["name"] for player in json.loads(out)], ["Anna"])
        self.stop(process)

    def test_moved(self) -> None:
        """The server runs at the new place by its configuration alone; at the old one it refuses and names the new."""
        self.gamed("players", "add", "Anna", "--password-stdin", stdin="correct horse")
        code, out, err = self.gamed("move-data", str(self.new), "--json")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(json.loads(out)["config"], f"{self.new}/authentication.json")
        self.served("--config", f"{self.new}/authentication.json")
        for places in (self.places, self.places[:2]):
            code, out, err = self.run_command(*places, "serve", "--listen=tcp:0:interface=127.0.0.1")
            self.assertEqual((code, out), (78, ""))
            self.assertIn(f"--config {self.new}/authentication.json", err)
        for command in (
            ("players", "list"),
            ("saves", "stats"),
            ("backup", str(self.folder / "b")),
            ("check", "config"),
        ):
            code, out, err = self.gamed(*command)
            self.assertEqual((code, out), (78, ""), command)
            self.assertIn("was moved to", err)
        code, out, err = self.gamed("doctor")
        self.assertEqual((code, out.count("problem  "), "gamed serve" in out + err), (78, 1, False), out)
        self.assertIn(f"was moved to {self.new}", out)
        code, out, err = self.run_command(*self.places[:2], "--data", f"{self.new}/data", "players", "list")
        self.assertEqual((code, out), (78, ""))
        self.assertIn(f"The configuration {self.config} was moved to {self.new}. Use it there with --config ", err)
        self.assertEqual(sorted(path.name for path in self.data.iterdir()), [LOCK_FILE, NOTE])

    def test_arguments(self) -> None:
        """A relative path is wrong usage, and the error has the absolute one; a running server is named."""
        code, out, err = self.gamed("move-data", "srv")
        self.assertEqual((code, out), (2, ""))
        self.assertIn(f"Give the whole path: {self.new}", err)
        process, port = self.serve()
        code, out, err = self.gamed("move-data", str(self.new))
        self.assertEqual((code, out), (1, ""))
        self.assertEqual(err, f"gamed: A gamed serves {self.data} (process {process.pid}). Stop it first.\n")
        self.assertEqual(get(port, "/healthz")[0], 200)
        self.stop(process)

    def test_killed(self) -> None:
        """A process that is killed at any moment of a long move loses nothing, and the second run moves everything."""
        self.gamed("players", "add", "Anna", "--password-stdin", stdin="correct horse")
        objects = self.data / "assets/objects/ab"
        objects.mkdir(parents=True)
        (self.data / "assets/tmp").mkdir()
        for number in range(300):
            (objects / str(number)).write_bytes(os.urandom(100_000))
        before = {path.name: path.read_bytes() for path in objects.iterdir()}
        killed = 0
        for delay in (0.0, 0.05, 0.15, 0.3, 0.6):
            process = subprocess.Popen(
                [*GAMED, *self.places, "move-data", str(self.new)],
                cwd=self.folder,
                env=environment(self.environ),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            deadline = time.monotonic() + WAIT_SECONDS
            while not (self.new / STAGED).exists() and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.005)
            time.sleep(delay)
            process.send_signal(signal.SIGKILL)
            killed += process.wait(WAIT_SECONDS) == -signal.SIGKILL
        self.assertGreater(killed, 0)
        code, _, err = self.gamed("move-data", str(self.new))
        self.assertEqual((code, err), (0, ""))
        new = self.new / "data/assets/objects/ab"
        self.assertEqual({path.name: path.read_bytes() for path in new.iterdir()}, before)
        self.served("--config", f"{self.new}/authentication.json")
