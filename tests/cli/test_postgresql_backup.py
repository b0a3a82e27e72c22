"""`gamed backup`, `restore` and `restored` with the databases on a real PostgreSQL server."""

import contextlib
import json
import os
import re
import shutil
from functools import partial
from http.client import HTTPException
from pathlib import Path
from time import monotonic, sleep
from typing import ClassVar

import psycopg

from gamed.cli.data.backup import hash_file
from gamed.config.settings import DATABASE_NOTE
from gamed.database.connection import AUTH, STATE
from gamed.database.postgresql import dump
from gamed.database.postgresql.migrations import schema_folder, scripts_in
from tests.cli.backup_helpers import command
from tests.cli.process import GAMED, WAIT_SECONDS, environment
from tests.cli.test_postgresql import PostgresqlTestCase
from tests.database.postgresql.engines import address_of
from tests.support.postgresql import PASSWORD, Address, cluster, installed_major

NUMBERS = {name: len(scripts_in(schema_folder(name))) for name in (AUTH, STATE)}
"""The present number of each schema."""
OTHER_KEY = "//////////////////////////////////////////8="
CORRECT = "correct horse\n"
COMPRESSED = re.compile(rb"(?s)\x00..\x00\x00x\x01")
"""The beginning of compressed rows in a dump: their size below 64 KiB, and how zlib begins at level 1."""


GO_BACK = """
    DO $$ BEGIN
        LOCK TABLE auth.heartbeat;
        UPDATE auth.heartbeat SET beats = 0;
        PERFORM pg_terminate_backend(pid, 10000) FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend';
    END $$
"""
"""Both in one transaction: a heartbeat between them would bring the database up to date, and the server would stay.
The lock: a worker that connects again before the end would be compared with the heartbeat of before, and answer."""


class BackupCase(PostgresqlTestCase):
    """A test with a player who has a session and a save, in a copy of the database of the first test."""

    template: ClassVar[str] = ""
    token: ClassVar[str]

    def setUp(self) -> None:
        super().setUp()
        self.target = self.folder / "copies"
        if not BackupCase.template:
            self.fill()
            self.addCleanup(cluster().drop, self.address.database)
        self.use(cluster().database(BackupCase.template))

    def use(self, place: Address, **more: object) -> None:
        """Configure this database."""
        self.address = place
        self.addCleanup(cluster().drop, place.database)
        self.configure(place, **more)

    def fill(self) -> None:
        """Make the database that all tests copy; the first start of each recognizes the copy as a new one."""
        process, port = self.serve()
        self.json_of("players", "add", "Anna", "--password-stdin", stdin=CORRECT)
        BackupCase.token = self.json_of("players", "token", "Anna")["access_token"]
        self.put(port, "auto", b"one")
        self.assertEqual(self.stop(process), 0, self.output())
        for table in ("auth.database_identity", "state.database_identity", "auth.heartbeat"):
            self.rows(f"DELETE FROM {table}")
        BackupCase.template = f"{self.address.database}_filled"
        cluster().execute(f"ALTER DATABASE {self.address.database} RENAME TO {BackupCase.template}")
        shutil.rmtree(self.data)

    def gamed(self, *arguments: str, stdin: str = "") -> tuple[int, str, str]:
        if stdin or "serve" in arguments:
            return super().gamed(*arguments, stdin=stdin)
        return command(Path(self.mktemp()), {**environment(self.environ)}, *self.places, *arguments)

    def put(self, port: int, slot: str, data: bytes, token: str = "") -> None:
        code, body, _ = self.ask(port, "PUT", f"/game/saves/{slot}", token or self.token, data, If_None_Match="*")
        self.assertIn(code, {200, 201}, body)

    def back_up(self) -> Path:
        return Path(self.json_of("backup", str(self.target))["backup"])

    def refused(self, code: int, text: str, *arguments: str) -> None:
        found, out, err = self.gamed(*arguments)
        self.assertEqual((found, out), (code, ""), err)
        self.assertIn(text, err)
        self.assertNotIn("Traceback", err)

    def slots(self) -> list[str]:
        query = "SELECT slot FROM state.save WHERE current_version IS NOT NULL ORDER BY slot"
        return [slot for (slot,) in self.rows(query)]

    def live_sessions(self) -> int:
        return int(self.rows("SELECT count(*) FROM auth.session WHERE revoked_ms IS NULL")[0][0])


class BackupTests(BackupCase):
    def test_contents(self) -> None:
        """A backup beside a running server is one dump of both schemas with the configuration, read again and
        described, for its owner's eyes only."""
        self.serve()
        made = self.back_up()
        manifest = json.loads((made / "manifest.json").read_text())
        self.assertEqual(set(manifest["files"]), {"store.dump", "authentication.json"})
        self.assertEqual((manifest["players"], manifest["saves"]), (1, 1))
        self.assertEqual(manifest["schemas"], NUMBERS)
        [(store_id, fingerprint)] = self.rows("SELECT store_id, fingerprint FROM auth.key_record")
        self.assertEqual(manifest["store"], {"id": store_id, "postgresql": installed_major()})
        self.assertEqual(manifest["key"], {"fingerprint": fingerprint, "source": "master"})
        self.assertEqual({path.stat().st_mode & 0o777 for path in made.iterdir()}, {0o600})
        [(size,)] = self.rows("SELECT bytes FROM auth.last_backup")
        self.assertEqual(size, sum(file["bytes"] for file in manifest["files"].values()))
        checked = self.json_of("restore", "--check", str(made))
        self.assertEqual((checked["whole"], checked["players"], checked["saves"]), (True, 1, 1))
        self.assertEqual(checked["key"], {"fingerprint": fingerprint, "present_key": "fits"})

    def test_lines(self) -> None:
        """The lines for a person name the key and the schemas."""
        code, out, err = self.gamed("backup", str(self.target))
        self.assertEqual((code, err), (0, ""))
        self.assertIn("1 player, 1 save,", out)
        self.assertIn("Keep your master key safe", out)
        code, out, err = self.gamed("restore", "--check", out.splitlines()[0])
        self.assertEqual((code, err), (0, ""))
        self.assertIn(f"schema auth: 1 player, schema {NUMBERS['auth']}", out)
        self.assertIn("; the present key: fits\n", out)

    def test_damaged(self) -> None:
        """A dump that is cut off, and one that is cut off with a fitting manifest, are refused."""
        made = self.back_up()
        file = made / "store.dump"
        whole = file.read_bytes()
        # pg_dump 17 ends with its table of contents, which pg_restore does not read there.
        [*_, last] = COMPRESSED.finditer(whole)
        file.write_bytes(whole[: last.end()])
        self.refused(1, "store.dump changed after the backup was made", "restore", str(made))
        text = (made / "manifest.json").read_text()
        manifest = json.loads(text)
        found = hash_file(file)
        manifest["files"]["store.dump"] = {"bytes": found.bytes, "sha256": found.sha256}
        (made / "manifest.json").write_text(json.dumps(manifest))
        self.refused(1, "is not a complete backup: pg_restore: ", "restore", str(made))
        self.assertEqual(self.live_sessions(), 1)

    def test_newer(self) -> None:
        """A backup whose schemas this version does not know is refused before anything changes."""
        made = self.back_up()
        manifest = json.loads((made / "manifest.json").read_text())
        manifest["schemas"]["state"] = 99
        (made / "manifest.json").write_text(json.dumps(manifest))
        text = f"schema state is 99, this gamed knows {NUMBERS['state']}: it is of a newer gamed"
        self.refused(1, text, "restore", str(made))
        self.assertEqual(self.live_sessions(), 1)

    def test_without_state(self) -> None:
        """Without the schema of the saves no backup is made."""
        self.rows("DROP SCHEMA state CASCADE")
        code, out, err = self.gamed("backup", str(self.target))
        self.assertEqual((code, out), (1, ""))
        self.assertIn("No backup was made: ", err)
        self.assertEqual(list(self.target.iterdir()), [])


class RestoreTests(BackupCase):
    def test_there_and_back(self) -> None:
        """A restore replaces both schemas, keeps the present ones under other names, ends all sessions and lets games
        read everything again; the server then starts as ever."""
        made = self.back_up()
        before = self.rows("SELECT epoch FROM state.player_saves")
        process, port = self.serve()
        self.put(port, "later", b"two")
        self.refused(1, "A gamed serves", "restore", str(made))
        self.assertEqual(self.stop(process), 0, self.output())
        done = self.json_of("restore", str(made))
        self.assertEqual((done["sessions_ended"], self.slots()), (1, ["auto"]))
        for name in done["set_aside"]:
            self.assertRegex(name, r"^schema (auth|state)_before_restore_\d{8}t\d{6}z$")
        [_, state] = [name.removeprefix("schema ") for name in done["set_aside"]]
        self.assertEqual(self.rows(f"SELECT count(*) FROM {state}.save"), [(2,)])
        self.assertNotEqual(self.rows("SELECT epoch FROM state.player_saves"), before)
        process, port = self.serve()
        self.assertEqual(self.ask(port, "GET", "/game/saves", self.token)[0], 401)
        token = self.json_of("players", "token", "Anna")["access_token"]
        self.put(port, "new", b"three", token)
        self.assertEqual(self.slots(), ["auto", "new"])

    def test_new_database(self) -> None:
        """A backup is restored into an empty database, on a machine that has no data folder."""
        made = self.back_up()
        self.use(cluster().database())
        done = self.json_of("restore", str(made))
        self.assertEqual((done["set_aside"], self.slots()), ([], ["auto"]))
        self.serve()

    def test_tried_elsewhere(self) -> None:
        """A try in an empty folder does not replace the databases that the backup's configuration names."""
        made = self.back_up()
        config, self.config = self.config, self.folder / "try" / "authentication.json"
        self.config.parent.mkdir()
        self.data = self.config.parent / "data"
        self.refused(1, "To try the restore, name another database in its store", "restore", str(made))
        self.assertEqual((self.live_sessions(), self.config.exists()), (1, False))
        shutil.copy(config, self.config)
        self.assertEqual(len(self.json_of("restore", str(made))["set_aside"]), 2)

    def test_lost_configuration(self) -> None:
        """Into an empty database a backup brings its configuration, too."""
        made = self.back_up()
        self.config.unlink()
        cluster().execute("DROP SCHEMA auth, state CASCADE", self.address.database)
        self.assertEqual(self.json_of("restore", str(made))["configuration_restored"], [str(self.config)])
        self.assertEqual(self.slots(), ["auto"])

    def test_blocked_players(self) -> None:
        """A player who was blocked after the backup stays blocked."""
        made = self.back_up()
        self.json_of("players", "block", "Anna")
        self.assertEqual(self.json_of("restore", str(made))["blocked_kept"], 1)
        self.assertEqual(self.rows("SELECT state FROM auth.player"), [("blocked",)])

    def test_other_key(self) -> None:
        """A backup that was written with another key is refused before anything changes."""
        made = self.back_up()
        self.environ["GAMED_MASTER_KEY"] = OTHER_KEY
        self.refused(78, "The key of this server does not fit this backup. Nothing was changed.", "restore", str(made))
        self.assertEqual(self.live_sessions(), 1)

    def test_other_engine(self) -> None:
        """A backup of PostgreSQL is not restored into SQLite, nor one of SQLite into PostgreSQL."""
        made = self.back_up()
        members = json.loads(self.config.read_text())
        self.config.write_text(json.dumps({**members, "store": members["store"]}))
        stored = members.pop("store")
        self.config.write_text(json.dumps(members))
        self.refused(1, "This backup is of PostgreSQL", "restore", str(made))
        process, _ = self.serve()
        self.assertEqual(self.stop(process), 0)
        files = self.back_up()
        self.config.write_text(json.dumps({**members, "store": stored}))
        self.refused(1, "This backup is of SQLite", "restore", str(files))
        self.assertEqual(self.slots(), ["auto"])

    def test_other_machine(self) -> None:
        """A server of another machine keeps the databases from being replaced."""
        made = self.back_up()
        self.data = self.folder / "elsewhere"
        self.serve()
        self.data = self.folder / "data"
        for words in (["restore", str(made)], ["restored"]):
            self.refused(1, "Stop all of them", *words)
        self.assertEqual(self.live_sessions(), 1)


class KilledTests(BackupCase):
    def test_nothing_changed(self) -> None:
        """A restore that is killed before its commit changes nothing, although its programs still run."""
        made = self.back_up()
        place = self.address.database
        with psycopg.connect(self.address.conninfo) as connection:
            connection.execute("ALTER SCHEMA auth RENAME TO other")
            process = self.start(*GAMED, *self.places, "restore", str(made))
            waits = f"SELECT pid FROM pg_stat_activity WHERE datname = '{place}' AND wait_event_type = 'Lock'"
            self.until(lambda: bool(cluster().execute(waits)))
            process.kill()
            process.wait()
            connection.rollback()
        self.until(lambda: not cluster().backends(place))
        names = self.rows("SELECT nspname FROM pg_namespace WHERE nspname ~ '^(auth|state)' ORDER BY nspname")
        self.assertEqual((names, self.live_sessions()), ([("auth",), ("state",)], 1))
        self.serve()


class PasswordTests(BackupCase):
    def test_arguments(self) -> None:
        """The password is in no argument of the programs that run."""
        self.use(self.address, store_password_env="STORE_PASSWORD")
        self.environ["STORE_PASSWORD"] = PASSWORD
        process = self.start(*GAMED, *self.places, "backup", str(self.target))
        lines = []
        while process.poll() is None:
            lines += _command_lines(f"dbname='{self.address.database}'")
        self.assertEqual(process.returncode, 0, self.output())
        self.assertTrue(any(b"pg_dump" in line for line in lines), lines)
        self.assertNotIn(PASSWORD.encode(), b"".join(lines))


def _command_lines(mark: str) -> list[bytes]:
    """Return the arguments of all processes that have this text among them."""
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            found.append(Path(f"/proc/{pid}/cmdline").read_bytes())
    return [line for line in found if mark.encode() in line]


class OutsideTests(BackupCase):
    def restore_outside(self) -> None:
        """Replace both schemas as an operator does with pg_dump and psql, after a server has used them."""
        process, _ = self.serve()
        self.assertEqual(self.stop(process), 0)
        made = self.back_up()
        self.rows("DROP SCHEMA auth CASCADE")
        self.rows("DROP SCHEMA state CASCADE")
        dump.load(address_of(self.address), made / "store.dump", 15, [])

    def test_refused(self) -> None:
        """After a restore without gamed the server refuses to start, until the operator has finished the restore."""
        self.restore_outside()
        expected = "is a copy, which was restored without gamed. Stop all servers that use it, then run: gamed restored"
        self.refused(78, expected, "serve", "--listen=tcp:0:interface=127.0.0.1")
        self.assertEqual(self.json_of("restored"), {"sessions_ended": 1})
        self.assertEqual(self.live_sessions(), 0)
        _, port = self.serve()
        self.assertEqual(self.ask(port, "GET", "/game/saves", self.token)[0], 401)

    def test_went_back(self) -> None:
        """A server whose database is older than its own note refuses to start, until the restore is finished."""
        process, _ = self.serve()
        self.until((self.data / DATABASE_NOTE).exists)
        process.kill()
        process.wait()
        self.rows("UPDATE auth.heartbeat SET beats = 0")
        self.refused(78, "older than when gamed last served it", "serve", "--listen=tcp:0:interface=127.0.0.1")
        self.json_of("restored")
        self.serve()

    def has_started(self, services: int) -> bool:
        return self.output().count("service_started") == services

    def test_went_back_meanwhile(self) -> None:
        """A running server whose database comes back in an older state answers nothing from it, and ends with 78, as
        do several workers: systemd does not start it again."""
        for services, options in ((1, ()), (2, ("--workers", "2"))):
            process, port = self.serve(*options)
            self.until((self.data / DATABASE_NOTE).exists)
            # A worker that is still starting is refused before its service runs, in other words.
            self.until(partial(self.has_started, services))
            self.rows(GO_BACK)
            answers, deadline = set(), monotonic() + WAIT_SECONDS
            while process.poll() is None:
                self.assertLess(monotonic(), deadline, self.output())
                with contextlib.suppress(OSError, HTTPException):
                    answers.add(self.ask(port, "GET", "/game/saves", self.token)[0])
                sleep(0.01)
            self.assertEqual((process.returncode, answers - {503}), (78, set()), self.output())
            self.assertIn("database_went_back", self.output())
            self.json_of("restored")
            (self.data / DATABASE_NOTE).unlink()

    def test_restart(self) -> None:
        """Any number of starts, stops and kills is no restore."""
        for _ in range(2):
            process, _ = self.serve()
            process.kill()
            process.wait()
        self.serve()
