"""A backup's folder: whole, closed to others, without the key; and anything less is found."""

import json
from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from gamed.cli.data import backup
from gamed.cli.errors import CommandFailed
from gamed.database import backup_format
from gamed.database.backup_format import BackupError
from gamed.database.errors import DatabaseCorrupt, DatabaseUnavailable
from gamed.database.sqlite import offline
from tests.cli.backup_helpers import KEY, BackupCase, killed_at_step, rows
from tests.sessions.fixtures import ANNA, NOW_MS
from tests.support.covers import covers
from tests.support.databases import ask
from tests.support.stores import sqlite_files


@sqlite_files("copies of its files; tests.cli.test_postgresql_backup has PostgreSQL's dumps")
class WriteTests(BackupCase):
    def test_what_is_in_it(self) -> None:
        """Both stores and the configuration, counted and hashed, for their owner's eyes only."""
        self.where.game.write_text("{}")
        made = self.back_up()
        self.assertEqual(made.path, self.target / "gamed-20270115T080000Z")
        self.assertEqual(made, backup.read(made.path))
        manifest = json.loads((made.path / "manifest.json").read_text())
        self.assertEqual((manifest["players"], manifest["saves"]), (1, 1))
        self.assertEqual(manifest["key"], {"fingerprint": self.keys.fingerprint, "source": "file"})
        hashes = {name: sha256((made.path / name).read_bytes()).hexdigest() for name in manifest["files"]}
        self.assertEqual({name: file["sha256"] for name, file in manifest["files"].items()}, hashes)
        self.assertEqual(set(hashes), {"auth.db", "state.db", "authentication.json", "game.json"})
        modes = {path.name: path.stat().st_mode & 0o777 for path in made.path.iterdir()}
        self.assertEqual(modes, dict.fromkeys([*hashes, "manifest.json"], 0o600))
        self.assertEqual(made.path.stat().st_mode & 0o777, 0o700)
        self.assertEqual(rows(made.path / "auth.db", "SELECT player_id FROM player"), [(ANNA,)])

    @covers("2.2/8")
    def test_never_the_key(self) -> None:
        """Neither the key file nor the key in any form is in a backup (SPEC 2.2/8)."""
        made = self.back_up()
        together = b"".join(path.read_bytes() for path in made.path.iterdir())
        key = KEY.reveal()
        for form in (key, b64encode(key), key.hex().encode()):
            self.assertNotIn(form, together)
        self.assertTrue((self.data / "auth.key").exists())
        self.assertFalse((made.path / "auth.key").exists())

    def test_store_that_cannot_be_copied(self) -> None:
        """Where a store is damaged or missing nothing is left that could be taken for a backup."""
        (self.data / "state.db").write_bytes(b"something else" * 1000)
        with self.assertRaises(DatabaseCorrupt):
            self.back_up()
        (self.data / "state.db").unlink()
        with self.assertRaises(DatabaseUnavailable):
            self.back_up()
        self.assertEqual(list(self.target.iterdir()), [])

    def test_replaced_meanwhile(self) -> None:
        """A restore that replaces the databases between both copies leaves no backup."""
        copy = offline.copy

        def copy_and_restore(source: Path, target: Path, working: Callable[[], None]) -> None:
            copy(source, target, working)
            if source.name == "auth.db":
                for name in ("auth.db", "state.db"):
                    (self.data / name).rename(self.data / f"{name}.previous")
                    (self.data / name).write_bytes(self.first_files[name])

        self.patch(offline, "copy", copy_and_restore)
        with self.assertRaises(CommandFailed) as raised:
            self.back_up()
        self.assertIn("replaced the databases meanwhile", str(raised.exception))
        self.assertEqual(list(self.target.iterdir()), [])

    @covers("threats/54")
    def test_killed(self) -> None:
        """Killed at any step, what has a backup's name is whole; the next backup sweeps what has not."""

        def work() -> None:
            with backup.exclusive(self.target):
                self.back_up()

        step, parts = 1, 0
        while killed_at_step(work, self.target, step):
            for path in self.target.glob("gamed-*"):
                backup.read(path)
            parts += len(list(self.target.glob(".gamed-*")))
            step += 1
        self.assertGreater(parts, 15)
        self.assertEqual(list(self.target.glob(".*")), [])
        self.assertTrue([backup.read(path) for path in self.target.iterdir()])

    def test_one_at_a_time(self) -> None:
        """A second backup into the same folder is refused while the first is being written, and not afterwards."""
        with backup.exclusive(self.target), self.assertRaises(CommandFailed), backup.exclusive(self.target):
            pass
        with backup.exclusive(self.target):
            self.assertEqual(self.back_up().manifest.saves, 1)

    def test_prune(self) -> None:
        """Older backups go, the newest stay, and whatever is no backup."""
        made = [self.back_up(NOW_MS + 1000 * number).path.name for number in range(3)]
        (self.target / "gamed-20200101T000000Z").mkdir()
        (self.target / "mine").mkdir()
        self.assertEqual(backup.prune(self.target, made[2], 2), made[:1])
        left = sorted(path.name for path in self.target.iterdir())
        self.assertEqual(left, ["gamed-20200101T000000Z", *made[1:], "mine"])

    def test_killed_while_pruning(self) -> None:
        """A deletion that is cut off leaves nothing that looks whole."""
        made = [self.back_up(NOW_MS + 1000 * number).path.name for number in range(2)]
        step = 1
        while killed_at_step(lambda: backup.prune(self.target, made[1], 1), self.target, step):
            for path in self.target.glob("gamed-*"):
                backup.read(path)
            step += 1
        self.assertGreater(step, 1)


@sqlite_files("copies of its files; tests.cli.test_postgresql_backup has PostgreSQL's dumps")
class ReadTests(BackupCase):
    def setUp(self) -> None:
        super().setUp()
        self.made = self.back_up().path

    def refused(self, word: str, path: Path | None = None) -> None:
        with self.assertRaises(BackupError) as caught:
            backup.read(path or self.made)
        self.assertIn(word, str(caught.exception))

    def test_damaged(self) -> None:
        """One bit, one byte less, a file that is gone: each is found and named, for every file."""
        for name in ("auth.db", "state.db", "authentication.json"):
            path = self.made / name
            whole = path.read_bytes()
            for harm in (lambda data: data[:-1] + bytes([data[-1] ^ 1]), lambda data: data[:-1], lambda data: b""):
                path.write_bytes(harm(whole))
                self.refused(f"{name} changed after the backup was made")
            path.unlink()
            self.refused(f"{name} is missing")
            path.write_bytes(whole)
        self.assertEqual(backup.read(self.made).path, self.made)

    def test_without_a_manifest(self) -> None:
        """A folder that is no backup, or not whole."""
        (self.made / "manifest.json").unlink()
        self.refused("manifest.json is missing")

    def test_believed_by_its_hash_alone(self) -> None:
        """A store is examined even where its hash is right: damage, the other store, another program's file."""
        for harm, word in (
            (lambda data: data[:16384] + bytes(100) + data[16484:], "auth.db is damaged"),
            (lambda data: (self.made / "state.db").read_bytes(), "is not gamed's auth.db"),
            (lambda data: b"no database at all", "auth.db is damaged"),
            (lambda data: data[:60] + (99).to_bytes(4, "big") + data[64:], "it is of a newer gamed"),
        ):
            whole = (self.made / "auth.db").read_bytes()
            self.replace("auth.db", harm)
            self.refused(word)
            self.replace("auth.db", lambda data, whole=whole: whole)

    def test_one_store(self) -> None:
        """A store's copy alone, by the name that it has before a migration too; anything else is refused."""
        alone = self.folder / "state.db.v1"
        alone.write_bytes((self.made / "state.db").read_bytes())
        found = backup.read(alone)
        self.assertEqual((list(found.stores), found.examined["state.db"].rows), (["state.db"], 1))
        self.refused("not the folder of a backup, and not a copy", self.where.config)

    def replace(self, name: str, harm: Callable[[bytes], bytes]) -> None:
        """Replace a file of the backup, with a manifest that has its hash."""
        path, manifest = self.made / name, self.made / backup_format.MANIFEST
        path.write_bytes(data := harm(path.read_bytes()))
        members = json.loads(manifest.read_text())
        members["files"][name] = {"bytes": len(data), "sha256": sha256(data).hexdigest()}
        manifest.write_text(json.dumps(members))


@sqlite_files("copies of its files; tests.cli.test_postgresql_backup has PostgreSQL's dumps")
class BrokenOffTests(BackupCase):
    def test_by_its_owner(self) -> None:
        """Ctrl-C in the middle of a copy is no fault of SQLite's."""

        def interrupt() -> None:
            raise KeyboardInterrupt

        many = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 5000)"
        self.auth(ask(f"INSERT INTO limit_bucket {many} SELECT CAST(n AS BLOB), n FROM c"))
        with self.assertRaises(KeyboardInterrupt):
            offline.copy(self.data / "auth.db", self.target / "auth.db", interrupt)
        with self.assertRaises(KeyboardInterrupt):
            offline.examine(self.data / "auth.db", "auth", interrupt)
