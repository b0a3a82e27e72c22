"""Commands work with the stores of every schema that was in use, by this version and by one with further scripts."""

import json
import shutil
import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing
from hashlib import sha256
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from gamed.config.model import PostgresqlAddress
from gamed.database.backup_format import DUMP
from gamed.database.connection import AUTH, STATE
from gamed.database.postgresql import dump
from gamed.database.sqlite.migrations import schema_folder, scripts_in
from tests.cli.process import ROOT, WAIT_SECONDS, CommandTestCase, free_port, get
from tests.cli.test_postgresql import PostgresqlTestCase
from tests.database.kept_stores import KeptStore, backup_in, kept_stores
from tests.database.make_store import KEY, KEY_ENV
from tests.support.stores import sqlite_files
from tests.support.versions import make_later_version

CLOCK = """
import os, time
now, now_ns, by = time.time, time.time_ns, lambda: int(os.environ.get("CLOCK_SECONDS", 0))
time.time = lambda: now() + by()
time.time_ns = lambda: now_ns() + by() * 10**9
"""
"""A clock that shows the time at which a store was kept: its tokens are valid, and nothing has expired."""
ADDED = {
    AUTH: """
ALTER TABLE player ADD COLUMN later_ways {integer};
UPDATE player SET later_ways = (SELECT count(*) FROM identity WHERE identity.player_id = player.player_id);
""",
    STATE: """
ALTER TABLE player_saves ADD COLUMN later_slots {integer} NOT NULL DEFAULT 0;  -- all slots; also deleted ones
ALTER TABLE save ADD COLUMN later_versions {integer} NOT NULL DEFAULT 0;

UPDATE save SET later_versions = (
    SELECT count(*) FROM save_version WHERE save_version.player_id = save.player_id AND save_version.slot = save.slot
);
UPDATE player_saves SET later_slots = (SELECT count(*) FROM save WHERE save.player_id = player_saves.player_id);
CREATE INDEX save_later ON save (player_id, later_versions) WHERE later_versions > 1;
""",
}
"""Scripts with new columns in tables that have rows, with values computed from other rows, and with an index."""
PASSKEY_MEMBERS = ("player", "name", "host")
NUMBERS = {name: len(scripts_in(schema_folder(name))) for name in (AUTH, STATE)}
COUNTED = "SELECT p.later_slots, s.slot, s.later_versions FROM {}player_saves p JOIN {}save s USING (player_id)"


def make_version(folder: Path) -> None:
    """Make a version with one more script for each schema."""
    integers = {"sqlite": "INTEGER", "postgresql": "bigint"}
    scripts = {
        f"{engine}/schema/{name}/{NUMBERS[name] + 1:03}_later.sql": script.format(integer=integer)
        for engine, integer in integers.items()
        for name, script in ADDED.items()
    }
    make_later_version(folder, scripts)


class KeptCase(CommandTestCase):
    """A folder for the files of a kept store, and the questions that all its tests ask."""

    kept: KeptStore
    found: Mapping[str, Any]

    def unpack(self, kept: KeptStore, *, later: bool) -> None:
        """Take a kept store in place of the one before; use the later version, or this one."""
        if self.data.exists():
            for path in self.folder.iterdir():
                if path.name not in {"site", "version"}:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
        self.kept, self.found = kept, kept.unpack(self.folder)
        self.environ = {KEY_ENV: KEY, "PYTHONPATH": str(ROOT)}
        if later:
            self.environ["PYTHONPATH"] = str(self.folder / "version")
            if not (self.folder / "version").exists():
                make_version(self.folder / "version")
            self.fork_with(self.environ["PYTHONPATH"])
        self.later = later

    def missing(self, name: str) -> int:
        """Return how many scripts this store has not seen that the version has which the test uses."""
        return NUMBERS[name] + self.later - self.kept.numbers[name]

    def set_clock(self) -> None:
        """Show the processes the time at which the store was kept."""
        site = self.folder / "site"
        site.mkdir(exist_ok=True)
        (site / "sitecustomize.py").write_text(CLOCK)
        self.environ["PYTHONPATH"] = f"{site}:{self.environ['PYTHONPATH']}"
        self.environ["CLOCK_SECONDS"] = str(self.found["made_ms"] // 1000 + 60 - int(time.time()))
        self.fork_with(self.environ["PYTHONPATH"])

    def json_of(self, *arguments: str, code: int = 0) -> Any:
        ended, out, err = self.gamed(*arguments, "--json")
        self.assertEqual(ended, code, (arguments, out, err))
        return json.loads(out)

    def error_of(self, *arguments: str, code: int) -> str:
        """Return the error of a command that refuses this store."""
        ended, out, err = self.gamed(*arguments)
        self.assertEqual((ended, "Traceback" in err), (code, False), (arguments, out, err))
        return err

    def refused(self, *options: str) -> str:
        return self.error_of("serve", f"--listen=tcp:{free_port()}:interface=127.0.0.1", *options, code=78)

    def require_served(self, *options: str, tokens: bool, restored: bool = False) -> None:
        """Check that `gamed serve` starts, and has the players and the bytes; with `tokens` the sessions, too.

        After a restore there are no recovery codes.
        """
        process, port = self.serve(*options)
        names = {each["name"]: each for each in self.json_of("players", "list")}
        self.assertEqual(set(names), {*self.found["players"], None})  # two have no local account
        self.assertEqual(names["Zoë"]["state"], "blocked")
        for name, slots in self.found["saves"].items():
            token = self.found["players"][name] if tokens else self.json_of("players", "token", name)
            self.require_saves(port, token["access_token"], slots)
            if tokens:
                self.require_refresh(port, token["refresh_credential"])
        keys = self.json_of("passkeys", "list")
        listed = [{name: each[name] for name in ("player", "name", "host")} for each in keys["passkeys"]]
        expected = self.found.get("passkeys", [])  # stores before auth6 have none
        self.assertCountEqual(listed, expected)
        self.assertEqual(keys["recovery_codes"], [] if restored else self.found.get("recovery_codes", []))
        self.assertEqual(self.json_of("check", "data"), {"errors": [], "repaired": 0})
        found = {each["check"]: each for each in json.loads(self.gamed("doctor", "--json")[1])["findings"]}
        checks = [found[name]["level"] for name in found if AUTH in name.split()[-1] or STATE in name.split()[-1]]
        self.assertEqual(set(checks), {"ok"}, found)
        self.assertEqual(self.stop(process), 0, self.output())
        self.assertNotIn("Traceback", self.output())

    def require_saves(self, port: int, token: str, slots: Mapping[str, str]) -> None:
        for slot, expected in slots.items():
            status, body = get(port, f"/game/saves/{slot}", token)
            self.assertEqual((status, sha256(body).hexdigest()), (200, expected), slot)
        if "auto" in slots:
            status, listed = get(port, "/game/saves/auto/versions", token)
            self.assertEqual((status, len(json.loads(listed)["versions"])), (200, self.found["versions"]))

    def require_refresh(self, port: int, credential: str) -> None:
        with closing(HTTPConnection("127.0.0.1", port, timeout=WAIT_SECONDS)) as connection:
            body = json.dumps({"refresh_credential": credential})
            connection.request("POST", "/auth/session/refresh", body, {"Content-Type": "application/json"})
            self.assertEqual(connection.getresponse().status, 200)

    def require_computed(self, rows: list[tuple[Any, ...]]) -> None:
        """Check what the later script has computed from the rows of the kept store."""
        if self.later:
            counts = {slot: (slots, versions) for slots, slot, versions in rows}
            self.assertEqual((counts["auto"], counts["replaced"]), ((3, self.found["versions"]), (2, 2)))
        else:
            self.assertEqual(rows, [])


@sqlite_files("its files; the class below has PostgreSQL's")
class SqliteTests(KeptCase):
    def computed(self) -> list[tuple[Any, ...]]:
        if not self.later:
            return []
        with closing(sqlite3.connect(self.data / "state.db")) as connection:
            return connection.execute(COUNTED.format("", "")).fetchall()

    def test_served(self) -> None:
        """A start brings the store to its schemas, copies each file before that, and has everything in it."""
        for kept in kept_stores():
            for later in (False, True):
                self.unpack(kept, later=later)
                self.set_clock()
                for _ in range(2):
                    self.require_served(tokens=True)
                self.require_computed(self.computed())
                copies = {f"{name}.db.v{kept.numbers[name]}" for name in (AUTH, STATE) if self.missing(name)}
                self.assertEqual({path.name for path in self.data.glob("*.v*")}, copies)

    def test_restored(self) -> None:
        """A restore brings a backup to the present schemas; every player can sign in and has the bytes."""
        for kept in kept_stores():
            for later in (False, True):
                self.unpack(kept, later=later)
                self.set_clock()
                shutil.rmtree(self.data)
                backup = str(backup_in(self.folder, "sqlite"))
                self.assertEqual(self.json_of("restore", "--check", backup)["schemas"], kept.numbers)
                self.json_of("restore", backup)
                self.require_served(tokens=False, restored=True)
                self.require_computed(self.computed())
                self.assertEqual([*self.data.glob("*.v*")], [])

    def test_copy_restored(self) -> None:
        """The file that a start has copied is restored with the version before, or with the present one."""
        [*_, kept] = kept_stores()
        self.forked = False  # as an operator starts them; the other tests fork
        for later in (False, True):
            self.unpack(kept, later=True)
            self.set_clock()
            self.require_served(tokens=True)
            if not later:
                self.environ["PYTHONPATH"] = f"{self.folder / 'site'}:{ROOT}"
                self.assertIn("is newer than this gamed", self.refused())
                self.assertIn("is newer than this gamed", self.error_of("check", "data", code=78))
            for name in (AUTH, STATE):
                self.json_of("restore", str(self.data / f"{name}.db.v{kept.numbers[name]}"))
            self.later = later
            self.require_served(tokens=False, restored=True)
            self.require_computed(self.computed())

    def test_before_the_start(self) -> None:
        """Before the first start of a later version doctor and check data say that it changes the files."""
        for kept in kept_stores():
            self.unpack(kept, later=True)
            before = self.contents()
            text = f"state.db has schema {kept.numbers[STATE]}, and this gamed works with {NUMBERS[STATE] + 1}"
            found = {each["check"]: each for each in self.json_of("doctor")["findings"]}
            self.assertEqual(found["state.db"]["level"], "warning")
            self.assertIn(text, found["state.db"]["text"])
            self.assertIn("Start the service once", found["state.db"]["text"])
            text = f"auth.db has schema {kept.numbers[AUTH]}, and this gamed works with {NUMBERS[AUTH] + 1}"
            self.assertIn(text, self.error_of("check", "data", code=78))
            self.assertEqual(self.contents(), before)
            where = self.folder / "kept"
            where.mkdir()
            ended, out, err = self.gamed("backup", str(where), "--json")
            self.assertEqual((ended, json.loads(out)["schemas"]), (0, kept.numbers), err)
            self.assertIn("the backup is complete, but auth.db could not record it", err)

    def contents(self) -> dict[str, bytes]:
        return {name: (self.data / name).read_bytes() for name in ("auth.db", "state.db")}

    def test_other_schema(self) -> None:
        """Doctor, check data, backup and restore refuse what serve refuses, with the same words."""
        [*_, kept] = kept_stores()
        for sql, which in (
            ("ALTER TABLE save DROP COLUMN deleted_ms", "table save"),
            ("DROP TABLE save_version", "index save_version_conflict"),
            ("DROP TABLE blob_part", "table blob_part"),
            ("CREATE TABLE slot (n INTEGER)", "table slot"),
        ):
            for later in (False, True):
                self.unpack(kept, later=later)
                with closing(sqlite3.connect(self.data / "state.db", isolation_level=None)) as connection:
                    connection.execute("PRAGMA foreign_keys = OFF")
                    connection.execute(sql)
                text = f"state.db was made by another version of gamed: its {which} is missing or differs"
                self.assertIn(text, self.refused())
                self.assertIn(text, self.error_of("check", "data", code=78))
                levels = {each["level"] for each in self.findings() if text in each["text"]}
                self.assertEqual(levels, {"problem"})
                where = self.folder / "kept"
                where.mkdir()
                err = self.error_of("backup", str(where), code=1)
                self.assertIn(text, err)
                self.assertNotIn("check data", err)
                copy = self.folder / "state.db"
                shutil.copy(self.data / "state.db", copy)
                for command in (("restore", "--check", str(copy)), ("restore", str(copy))):
                    self.assertIn(text, self.error_of(*command, code=1))

    def findings(self) -> list[dict[str, str]]:
        ended, out, err = self.gamed("doctor", "--json")
        self.assertEqual((ended, "Traceback" in err), (1, False), out + err)
        found: list[dict[str, str]] = json.loads(out)["findings"]
        return found

    def test_of_another_program(self) -> None:
        """A file of another program, and the other database, are refused by all of them with the same words."""
        [*_, kept] = kept_stores()
        for source in ("auth.db", None):
            self.unpack(kept, later=False)
            path = self.data / "state.db"
            path.unlink()
            if source is None:
                with closing(sqlite3.connect(path)) as connection:
                    connection.execute("CREATE TABLE theirs (n INTEGER)")
            else:
                shutil.copy(self.data / source, path)
            text = f"{path} is not gamed's state.db"
            self.assertIn(text, self.refused())
            self.assertIn(text, self.error_of("check", "data", code=78))
            self.assertIn(text, "".join(each["text"] for each in self.findings()))


class PostgresqlTests(PostgresqlTestCase, KeptCase):
    """The store is made by the PostgreSQL dump of each kept one."""

    def load(self, kept: KeptStore, *, later: bool, data: bool = True) -> None:
        self.unpack(kept, later=later)
        shutil.rmtree(self.data)
        self.configure(self.address)
        for name in (AUTH, STATE):
            self.rows(f"DROP SCHEMA IF EXISTS {name} CASCADE")
        if data:
            backup = backup_in(self.folder, "postgresql") / DUMP
            dump.load(PostgresqlAddress(self.address.keywords), backup, 0, [])

    def computed(self) -> list[tuple[Any, ...]]:
        return self.rows(COUNTED.format("state.", "state.")) if self.later else []

    def test_served(self) -> None:
        """Without --migrate an older store is refused by all commands alike; with it everything is there."""
        for kept in kept_stores():
            for later in (False, True):
                self.load(kept, later=later)
                if self.missing(AUTH) or self.missing(STATE):
                    self.require_refused()
                self.require_served("--migrate", tokens=False)
                self.require_computed(self.computed())

    def require_refused(self) -> None:
        name = AUTH if self.missing(AUTH) else STATE
        known = NUMBERS[name] + self.later
        text = f"has schema {self.kept.numbers[name]}, "
        for err in (self.refused(), self.error_of("check", "data", code=78)):
            self.assertIn(text, err)
            self.assertIn("gamed serve --migrate", err)
        findings = {each["check"]: each for each in json.loads(self.gamed("doctor", "--json")[1])["findings"]}
        finding = findings[f"schema {name}"]
        self.assertEqual(finding["level"], "problem")
        self.assertIn(f"{text}this gamed works with {known}", finding["text"])
        self.assertIn("gamed serve --migrate", finding["text"])
        self.assertEqual(self.rows(f"SELECT max(number) FROM {name}.schema_version"), [(self.kept.numbers[name],)])

    def test_restored(self) -> None:
        """A restore brings a backup to the present schemas; every player can sign in and has the bytes."""
        for kept in kept_stores():
            for later in (False, True):
                self.load(kept, later=later, data=False)
                backup = str(backup_in(self.folder, "postgresql"))
                self.assertEqual(self.json_of("restore", "--check", backup)["schemas"], kept.numbers)
                ended, out, err = self.gamed("restore", backup)
                self.assertEqual(ended, 0, out + err)
                self.assertEqual(err.count("changes its schema"), self.missing(AUTH) + self.missing(STATE), err)
                self.require_served(tokens=False, restored=True)
                self.require_computed(self.computed())

    def test_backup_before(self) -> None:
        """The backup that the later version asks for before --migrate is made by that version, too."""
        [*_, kept] = kept_stores()
        self.load(kept, later=True)
        where = self.folder / "kept"
        where.mkdir()
        ended, out, err = self.gamed("backup", str(where), "--json")
        self.assertEqual((ended, json.loads(out or "{}").get("schemas")), (0, kept.numbers), err)

    def test_other_schema(self) -> None:
        """Doctor and check data refuse what serve refuses with the same words, also a store of an older number."""
        [*_, kept] = kept_stores()
        for sql, which in (
            ("ALTER TABLE state.save DROP COLUMN deleted_ms", "column save.deleted_ms"),
            ("DROP TABLE state.blob_part", "table blob_part"),
        ):
            for later in (False, True):
                self.load(kept, later=later)
                self.rows(sql)
                text = f"was made by another version of gamed: its {which} is missing or differs"
                self.assertIn(text, self.refused())
                self.assertIn(text, self.error_of("check", "data", code=78))
                found = {each["check"]: each for each in json.loads(self.gamed("doctor", "--json")[1])["findings"]}
                self.assertIn(text, found["schema state"]["text"])

    def test_other_schema_moved(self) -> None:
        """A store that serve refuses is not moved, in either direction, although its number is the present one."""
        [*_, kept] = kept_stores()
        self.load(kept, later=False)
        self.rows("ALTER TABLE state.save DROP COLUMN deleted_ms")
        text = "was made by another version of gamed: its {} is missing or differs"
        err = self.error_of("move-store", "--to", "sqlite", code=78)
        self.assertIn(text.format("column save.deleted_ms"), err)
        self.load(kept, later=False, data=False)
        kept.unpack(self.folder)
        self.config.write_text(json.dumps({"mode": "local", "master_key_env": KEY_ENV}))
        with closing(sqlite3.connect(self.data / "state.db", isolation_level=None)) as connection:
            connection.execute("ALTER TABLE save DROP COLUMN deleted_ms")
        err = self.error_of("move-store", "--to", self.address.url, code=78)
        self.assertIn(text.format("table save"), err)
        self.assertEqual(self.rows("SELECT 1 FROM pg_namespace WHERE nspname IN ('auth', 'state')"), [])

    def test_moved(self) -> None:
        """Files of an older schema are refused by move-store, with what to do; afterwards everything is moved."""
        for kept in kept_stores():
            self.load(kept, later=True, data=False)
            kept.unpack(self.folder)
            self.config.write_text(json.dumps({"mode": "local", "master_key_env": KEY_ENV}))
            err = self.error_of("move-store", "--to", self.address.url, code=78)
            self.assertIn("Start the service once", err)
            self.assertEqual(self.rows("SELECT 1 FROM pg_namespace WHERE nspname IN ('auth', 'state')"), [])
            process, _ = self.serve()
            self.assertEqual(self.stop(process), 0, self.output())
            self.json_of("move-store", "--to", self.address.url)
            self.configure(self.address)
            self.require_served(tokens=False)
            self.require_computed(self.computed())
