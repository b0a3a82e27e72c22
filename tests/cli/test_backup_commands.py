"""`gamed backup` and `gamed restore` as an owner runs them, on a service that runs and is played on."""

import json
import os
import shlex
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from resource import RLIMIT_FSIZE, getrlimit, setrlimit
from shutil import disk_usage
from threading import Event, active_count
from time import sleep
from typing import Any

from gamed.cli.data import restore_journal
from gamed.database.backup_format import STORES
from tests.cli.backup_helpers import BackupCase, command
from tests.cli.process import CommandTestCase
from tests.config.fixtures import KEY_TEXT, LOCAL, changed
from tests.e2e.wire import Answer, ask
from tests.support.covers import covers
from tests.support.stores import sqlite_files

WRITERS = 3


@sqlite_files("its files; tests.cli.test_postgresql_backup has PostgreSQL's dumps")
class ServedTests(CommandTestCase):
    port, token = 0, ""

    def gamed(self, *arguments: str, stdin: str = "") -> tuple[int, str, str]:
        if stdin or active_count() > 1:  # no copy of a process with threads
            return super().gamed(*arguments, stdin=stdin)
        return command(Path(self.mktemp()), self.environ, *self.places, *arguments)

    def json_of(self, *arguments: str) -> dict[str, Any]:
        """Run a command that succeeds; return its JSON."""
        code, out, err = self.gamed(*arguments, "--json")
        self.assertEqual(code, 0, err)
        return dict(json.loads(out))

    def test_played_on(self) -> None:
        """Copied while games write; restored, at the next start at the latest; a game learns that its session ended
        and its past is gone."""
        (self.folder / "game.json").write_text('{"writes_per_minute": 0}')
        service, self.port = self.serve()
        self.assertEqual(self.gamed("players", "add", "Anna", "--password-stdin", stdin="correct horse\n")[0], 0)
        self.token = str(self.json_of("players", "token", "Anna")["access_token"])
        self.put("before", b"acknowledged")
        cursor = self.http("GET", "/game/saves").json["cursor"]
        made, seen = self.copied_under_load()
        code, _, err = self.gamed("restore", made)
        self.assertEqual(
            (code, err), (1, f"gamed: A gamed serves {self.data} (process {service.pid}). Stop it first.\n")
        )
        self.put("after", b"too late")
        self.assertEqual(self.stop(service), 0)

        checked = self.json_of("restore", "--check", made)
        self.assertEqual((checked["whole"], checked["players"]), (True, 1))
        self.assertEqual(checked["key"]["present_key"], "fits")
        done = self.json_of("restore", made)
        self.assertEqual((len(done["set_aside"]), done["sessions_ended"]), (2, 1))

        self.interrupt_restore(made)
        service, self.port = self.serve()
        self.assertIn(f"finished an interrupted restore: the databases now come from {made}", self.output())
        answer = self.http("GET", "/game/saves")
        self.assertEqual((answer.status, answer.json["code"]), (401, "session_revoked"))
        self.token = str(self.json_of("players", "token", "Anna")["access_token"])
        listed = self.http("GET", f"/game/saves?since={cursor}").json
        self.assertTrue(listed["reset"])
        versions = {save["slot"]: save["version"] for save in listed["saves"]}
        self.assertNotIn("after", versions)
        self.assertEqual(versions["before"], 1)
        self.assertEqual({slot: True for slot in seen}, {slot: versions[slot] >= seen[slot] for slot in seen})
        self.assertEqual(self.gamed("check", "data")[:2], (0, "no errors\n"))
        self.stop(service)
        self.assertIn("command command=restore", self.output())

    def interrupt_restore(self, made: str) -> None:
        """Leave the files of a restore that was killed just before its end."""
        (self.data / "state.db").rename(restore_journal.begin(self.data) / "state.db")
        restore_journal.commit(self.data, restore_journal.RestoreJournal(made, ".before-restore-1", STORES))

    def copied_under_load(self) -> tuple[str, dict[str, int]]:
        """Make a backup while clients write; return its folder, and the versions acknowledged before."""
        newest: dict[str, int] = {}
        enough, first = Event(), [Event() for _ in range(WRITERS)]

        def write(number: int) -> None:
            slot = f"slot{number}"
            while not enough.is_set() or slot not in newest:
                newest[slot] = self.put(slot, os.urandom(20_000), again=slot in newest)
                first[number].set()
                sleep(0.02)

        with ThreadPoolExecutor(WRITERS) as writers:
            work = [writers.submit(write, number) for number in range(WRITERS)]
            try:
                self.assertTrue(all(each.wait(60) for each in first))
                seen = dict(newest)
                made = str(self.json_of("backup", str(self.folder / "copies"))["backup"])
            finally:
                enough.set()
            for each in work:
                each.result()
        self.assertGreater(sum(newest.values()), sum(seen.values()))
        return made, seen

    def http(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        return ask(self.port, method, path, body=body, bearer=self.token, headers=headers)

    def put(self, slot: str, data: bytes, *, again: bool = False) -> int:
        """Write a save; return the version that the server acknowledged."""
        answer = self.http("PUT", f"/game/saves/{slot}", data, {("If-Match" if again else "If-None-Match"): "*"})
        self.assertIn(answer.status, (200, 201), answer.body)
        return int(answer.json["version"])


@sqlite_files("its files; tests.cli.test_postgresql_backup has PostgreSQL's dumps")
class CommandTests(BackupCase):
    def setUp(self) -> None:
        super().setUp()
        self.environ: dict[str, str] = {}
        self.made = str(self.back_up().path)

    def gamed(self, *arguments: str) -> tuple[int, str, str]:
        places = ("--config", str(self.where.config), "--data", str(self.data))
        return command(self.folder, self.environ, *places, *arguments)

    def refused(self, code: int, word: str, *arguments: str) -> None:
        ended, _, err = self.gamed(*arguments)
        self.assertEqual((ended, word in err, "Traceback" in err), (code, True, False), err)

    def stores(self) -> dict[str, bytes]:
        return {name: (self.data / name).read_bytes() for name in ("auth.db", "state.db")}

    def test_places(self) -> None:
        """Not inside the data folder, and not without the configuration; nothing is left."""
        self.refused(1, "is in the data folder", "backup", str(self.data / "copies"))
        (self.folder / "link").symlink_to(self.data)
        self.refused(1, "is in the data folder", "backup", str(self.folder / "link"))
        self.where.config.rename(self.folder / "elsewhere")
        self.refused(1, "to copy.", "backup", str(self.target))
        self.assertEqual([str(path) for path in self.target.iterdir()], [self.made])

    def test_no_room(self) -> None:
        """A disk that is full, before the backup begins or in its middle, is said to be; nothing is left."""
        before = getrlimit(RLIMIT_FSIZE)
        setrlimit(RLIMIT_FSIZE, (100_000, before[1]))
        try:
            self.refused(1, "is full, or a disk fails", "backup", str(self.target))
        finally:
            setrlimit(RLIMIT_FSIZE, before)
        self.patch(shutil, "disk_usage", lambda path: disk_usage(path)._replace(free=4096))
        self.refused(1, "has 4 KiB free", "backup", str(self.target))
        before_it = self.stores()
        self.refused(1, "has 4 KiB free", "restore", self.made)
        self.assertEqual(self.stores(), before_it)
        self.assertEqual([str(path) for path in self.target.iterdir()], [self.made])

    @covers("2.2/8")
    def test_keep(self) -> None:
        """Older backups are deleted once the new one exists; the output says what else to keep safe."""
        code, out, err = self.gamed("backup", str(self.target), "--keep", "1")
        self.assertEqual((code, err), (0, ""))
        self.assertIn(f"Keep a copy of {self.data / 'auth.key'} safe", out)
        self.assertEqual(self.gamed("backup", str(self.target), "--keep", "0")[0], 2)
        self.assertEqual(out.splitlines()[-1], f"deleted {Path(self.made).name}")
        self.assertEqual([str(path) for path in self.target.iterdir()], [out.splitlines()[0]])

    def test_wrong_key(self) -> None:
        """Another key file, a master key instead of it, none: 78, and both stores untouched; --check only says so."""
        key, before = self.data / "auth.key", self.stores()
        right = key.read_text()
        key.write_text(KEY_TEXT)
        self.refused(78, "does not fit this backup", "restore", self.made)
        code, out, _ = self.gamed("restore", "--check", self.made)
        self.assertEqual((code, out.splitlines()[-1].rpartition(": ")[2]), (0, "does not fit"))
        key.unlink()
        self.refused(78, "does not fit this backup", "restore", self.made)
        self.where.config.write_text(json.dumps(changed(LOCAL, master_key_env="GAMED_MASTER_KEY")))
        self.refused(78, "GAMED_MASTER_KEY", "restore", self.made)
        checked = json.loads(self.gamed("restore", "--check", self.made, "--json")[1])
        self.assertEqual(checked["key"], {"fingerprint": self.keys.fingerprint, "present_key": "unknown"})
        self.environ = {"GAMED_MASTER_KEY": KEY_TEXT}
        self.refused(78, "does not fit this backup", "restore", self.made)
        self.assertEqual(self.stores(), before)
        self.environ = {"GAMED_MASTER_KEY": right.strip()}
        self.assertEqual(self.gamed("restore", self.made)[::2], (0, ""))

    def test_not_whole(self) -> None:
        """Refuse an incomplete backup, and keep the present files."""
        before = self.stores()
        with open(f"{self.made}/state.db", "r+b") as file:
            file.truncate(9000)
        self.refused(1, "state.db changed after the backup was made", "restore", self.made)
        self.refused(1, "state.db changed after the backup was made", "restore", "--check", self.made)
        self.refused(1, f"is a folder of backups. Name one, such as {self.made}.", "restore", str(self.target))
        self.refused(1, "manifest.json is missing", "restore", str(self.folder))
        self.assertEqual(self.stores(), before)

    def test_picture(self) -> None:
        """The picture of the pages, which no backup has, is read from beside the new configuration."""
        members = {"mode": "local", "look": {"mark": "mark.svg"}}
        (self.folder / "mark.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"/>')
        self.where.config.write_text(json.dumps(members))
        made = str(self.back_up().path)
        self.where.config.unlink()
        picture = (self.folder / "mark.svg").rename(self.folder / "elsewhere.svg")
        self.refused(78, f"No backup has the picture. Put it beside {self.where.config}.", "restore", made)
        picture.rename(self.folder / "mark.svg")
        self.assertEqual(self.gamed("restore", made)[::2], (0, ""))
        self.assertEqual(json.loads(self.where.config.read_text()), members)

    def test_picture_elsewhere(self) -> None:
        """A picture with a path of its own is read from there."""
        picture = self.folder / "pictures/mark.svg"
        picture.parent.mkdir()
        picture.write_text('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"/>')
        self.where.config.write_text(json.dumps({"mode": "local", "look": {"mark": str(picture)}}))
        made = str(self.back_up().path)
        self.where.config.unlink()
        self.assertEqual(self.gamed("restore", made)[::2], (0, ""))

    def test_next_command(self) -> None:
        """The last words of a restore are the command that starts this server, and no empty one elsewhere."""
        code, out, err = self.gamed("restore", self.made)
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(shlex.split(out.splitlines()[-1])[-3:], ["--config", str(self.where.config), "serve"])

    def test_cut_off(self) -> None:
        """An interrupted restore stops every other command; run again, it is finished, and reports that."""
        self.change_after_backup()
        restore_journal.begin(self.data)
        for name in STORES:
            (self.data / "restore.new" / name).write_bytes((Path(self.made) / name).read_bytes())
        restore_journal.commit(self.data, restore_journal.RestoreJournal(self.made, ".before-restore-1", STORES))
        self.refused(78, "A restore was interrupted", "saves", "stats")
        self.refused(78, "A restore was interrupted", "backup", str(self.target))
        code, out, err = self.gamed("restore", self.made, "--json")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(json.loads(out)["set_aside"], [str(self.data / f"{name}.before-restore-1") for name in STORES])
        self.assertEqual(self.slots(), ["auto"])
        self.assertEqual(self.gamed("check", "data")[:2], (0, "no errors\n"))
