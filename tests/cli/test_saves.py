"""`gamed saves` and `gamed check data`, as an owner runs them on a data folder."""

import json
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from random import randbytes
from zipfile import ZipFile

from gamed.cli.service.folder_lock import SERVE, Lock
from gamed.database.connection import AUTH, STATE, Connection
from gamed.database.sqlite.files import PAGE_BYTES, connect, file_uri
from gamed.players.tables import create_player
from gamed.saves.write_rules import UNCONDITIONAL, Condition, ConditionKind
from tests.cli.process import GAMED, CommandTestCase
from tests.saves.state_machine import StoredSlot, count_errors
from tests.support.databases import ask, prepare_files, unlogged_commands
from tests.support.stores import POSTGRESQL, literal, sqlite_files, store_of

ANNA = "ply_A"
PRESENT, ABSENT = Condition(ConditionKind.PRESENT), Condition(ConditionKind.ABSENT)


def fill(connection: Connection) -> None:
    """Write the saves that each test begins with."""
    stored = StoredSlot(connection=connection)
    for number, data in enumerate((b"one", b"two", b"three")):
        stored.put(PRESENT if number else UNCONDITIONAL, data)
    stored.put(ABSENT, b"refused")
    stored.put(UNCONDITIONAL, b"gone", slot="old")
    stored.delete(PRESENT, slot="old")


class SavesTestCase(CommandTestCase):
    """A data folder with one player: `auto` in three versions and a conflict copy, `old` deleted."""

    def setUp(self) -> None:
        super().setUp()
        self.data = Path(self.folder) / "data"
        self.data.mkdir()
        prepare_files(self.data)
        self.run_transaction(STATE, fill)

    def state(self, sql: str) -> list[tuple[object, ...]]:
        return self.run_transaction(STATE, ask(sql))

    def add_player(self, player_id: str) -> None:
        self.run_transaction(AUTH, lambda connection: create_player(connection, player_id, 0))

    def current(self, slot: str = "auto") -> bytes:
        """Return the bytes of a save, as a game reads them."""
        [(data,)] = self.state(
            "SELECT data FROM save s JOIN save_version v ON v.slot = s.slot AND v.version = s.current_version "
            f"JOIN blob USING (blob_id) WHERE s.slot = '{slot}'"
        )
        assert isinstance(data, bytes)
        return data

    def output_of(self, *arguments: str) -> str:
        """Run a command that succeeds; return its stdout."""
        code, out, err = self.gamed(*arguments)
        self.assertEqual((code, err), (0, ""), out)
        return out


class LookTests(SavesTestCase):
    def test_ls(self) -> None:
        """One line below the headings for each save, the deleted ones too; the same for scripts."""
        headings, auto, old = self.output_of("saves", "list", ANNA).splitlines()
        self.assertEqual(headings.split(), ["SLOT", "VERSION", "WRITTEN", "SIZE", "CONFLICT", "COPIES"])
        self.assertRegex(auto, r"^auto +3 +just now +5 B +4$")
        self.assertRegex(old, r"^old +2 +just now +deleted +-$")
        first, second = json.loads(self.output_of("saves", "list", ANNA, "--json"))
        self.assertEqual((first["slot"], first["version"], first["conflicts"]), ("auto", 3, [4]))
        self.assertEqual((second["slot"], second["version"]), ("old", 2))

    def test_ls_of_a_lost_version(self) -> None:
        """A save whose current version is lost is listed as damaged and not as deleted."""
        lost = "DELETE FROM save_version WHERE slot = 'auto' AND version = 3"
        self.assertEqual(self.run_transaction(STATE, lambda c: c.execute(lost).rowcount), 1)
        [row] = [line for line in self.output_of("saves", "list", ANNA).splitlines() if line.startswith("auto")]
        self.assertEqual(row.split(), ["auto", "-", "-", "damaged", "-"])

    def test_versions(self) -> None:
        """Newest first, with kind, size and hash."""
        found = json.loads(self.output_of("saves", "versions", ANNA, "auto", "--json"))
        self.assertEqual([version["kind"] for version in found], ["conflict", "write", "write", "write"])
        self.assertEqual([version["current"] for version in found], [False, True, False, False])
        lines = self.output_of("saves", "versions", ANNA, "auto").splitlines()
        self.assertIn(sha256(b"three").hexdigest()[:16], lines[2])
        self.assertEqual(lines[0].split(), ["VERSION", "KIND", "WRITTEN", "SIZE", "HASH"])
        self.assertIn("current", lines[2])

    def test_stats(self) -> None:
        """Print the totals of all players."""
        found = json.loads(self.output_of("saves", "stats", "--json"))
        self.assertEqual((found["players_with_saves"], found["saves"], found["current_bytes"]), (1, 1, 5))
        self.assertEqual(found["largest"], [{"player": ANNA, "bytes": 5 + 3 + 3 + 7 + 4 + 5 * 512}])

    def test_stats_count_every_player(self) -> None:
        """A player who never saved is a player, too, and differs from those who have saves."""
        self.add_player("ply_B")
        self.add_player(ANNA)
        found = json.loads(self.output_of("saves", "stats", "--json"))
        self.assertEqual((found["players"], found["players_with_saves"]), (2, 1))
        self.state("UPDATE player_saves SET slots = 0, live_bytes = 0, kept_bytes = 0")
        found = json.loads(self.output_of("saves", "stats", "--json"))
        self.assertEqual((found["players"], found["players_with_saves"]), (2, 0))

    def test_stats_for_a_person(self) -> None:
        """Each size has its unit."""
        self.add_player(ANNA)
        shown = self.output_of("saves", "stats").splitlines()
        lines = {name: size.split() for name, _, size in (line.partition("  ") for line in shown)}
        self.assertEqual(lines["players"], ["1"])
        self.assertEqual(lines["their current versions"], ["5", "B"])
        self.assertEqual(lines["their history"], ["2.5", "KiB"])
        self.assertEqual(lines[ANNA], ["2.5", "KiB"])

    def test_ls_of_a_player_without_saves(self) -> None:
        """A player who never saved has an empty list: [] for a script, a sentence for a person, exit code 0."""
        self.add_player("ply_B")
        self.assertEqual(json.loads(self.output_of("saves", "list", "ply_B", "--json")), [])
        self.assertEqual(self.output_of("saves", "list", "ply_B"), "ply_B has no saves\n")

    def test_nobody(self) -> None:
        """A player without saves, a slot without a save, no slot at all: one sentence, exit code 1."""
        for arguments, words in (
            (("list", "ply_nobody"), "There is no player ply_nobody"),
            (("list", "ply_nobody", "--json"), "There is no player ply_nobody"),
            (("export", "ply_nobody", "nobody.zip"), "never saved anything"),
            (("versions", ANNA, "never"), "never had a save never"),
            (("versions", ANNA, "NUL"), "A slot's name"),
            (("restore", ANNA, "auto", "9"), "no version 9 of auto"),
            (("restore", ANNA, "old", "2"), "is a delete; version 1 is what it deleted"),
            (("undelete", ANNA, "auto"), "is not deleted: version 3"),
            (("undelete", ANNA, "never"), "never existed"),
        ):
            code, out, err = self.gamed("saves", *arguments)
            self.assertEqual((code, out), (1, ""))
            self.assertIn(words, err)
            self.assertTrue(err.startswith("gamed: ") and err.count("\n") == 1, err)


class NamedTests(CommandTestCase):
    def test_ls_by_name(self) -> None:
        """A player who was added and never saved has an empty list, found by the local name; a stranger has none."""
        process, _ = self.serve()
        self.assertEqual(self.stop(process), 0)
        self.gamed("players", "add", "Anna", "--password-stdin", stdin="correct horse\n")
        self.assertEqual(self.gamed("saves", "list", "anna", "--json"), (0, "[]\n", ""))
        code, out, err = self.gamed("saves", "list", "ben", "--json")
        self.assertEqual((code, out, "no player with the name or id 'ben'" in err), (1, "", True), err)


class ChangeTests(SavesTestCase):
    def test_restore_and_undelete(self) -> None:
        """Make a restored version current, and record the command for the server's log."""
        self.assertEqual(
            self.output_of("saves", "restore", ANNA, "auto", "1"),
            "auto is version 5 now, with the 3 B of version 1\n",
        )
        self.assertEqual(self.current(), b"one")
        self.assertEqual(json.loads(self.output_of("saves", "undelete", ANNA, "old", "--json"))["version"], 3)
        self.assertEqual(self.current("old"), b"gone")
        self.assertEqual(self.run_transaction(STATE, count_errors), [])
        recorded = [command for command, *_ in self.run_transaction(AUTH, unlogged_commands)]
        self.assertEqual(recorded, ["saves restore", "saves undelete"])

    def test_own_run(self) -> None:
        """Each command makes its changes in a run of its own: cursors know it if the files went back before it."""
        for _ in range(2):
            self.output_of("saves", "restore", ANNA, "auto", "1")
            self.output_of("saves", "restore", ANNA, "auto", "2")
        [(runs,)] = self.state("SELECT runs FROM player_saves")
        ids = [runs[begin : begin + 6] for begin in range(0, len(runs), 20)]
        self.assertEqual((len(ids), len({*ids})), (4, 4))
        self.assertEqual(self.state("SELECT run FROM server_run"), [(ids[0],)])

    def test_export(self) -> None:
        """A zip with a manifest and every version, for its owner's eyes only; nothing is written over."""
        file = Path(self.folder) / "anna.zip"
        self.output_of("saves", "export", ANNA, str(file))
        with ZipFile(file) as archive:
            manifest = json.loads(archive.read("manifest.json"))
            kept = {version["file"]: version["sha256"] for version in manifest["versions"] if version["file"]}
            self.assertEqual({name: sha256(archive.read(name)).hexdigest() for name in kept}, kept)
        self.assertEqual(sorted(kept), [*(f"saves/auto/{number}" for number in (1, 2, 3, 4)), "saves/old/1"])
        self.assertEqual(file.stat().st_mode & 0o777, 0o600)
        for place, words in ((file, "exists. Name another"), (file.parent / "nowhere" / "a.zip", "There is no folder")):
            code, _, err = self.gamed("saves", "export", ANNA, str(place))
            self.assertEqual((code, words in err), (1, True))
        self.assertEqual([path.name for path in file.parent.glob("*.part")], [])

    def test_export_without_room(self) -> None:
        """Where the disk takes no more, it is said which, and nothing is left there."""
        data = randbytes(200_000)
        now = f"size = {len(data)}, sha256 = {literal(sha256(data).digest())} WHERE blob_id = 1"
        self.state(f"UPDATE blob SET data = {literal(data)}, {now}")
        self.state(f"UPDATE save_version SET {now}")
        file = Path(self.folder) / "anna.zip"
        limited = ["sh", "-c", 'ulimit -f 160; exec "$@"', "sh", *GAMED]
        code, out, err = self.run_command(*self.places, "saves", "export", ANNA, str(file), of=limited)
        self.assertEqual((code, out), (1, ""))
        self.assertIn(f"{file.parent} cannot hold the file (File too large). Nothing was written.", err)
        self.assertEqual([path.name for path in file.parent.iterdir() if "zip" in path.name], [])

    def test_export_of_damaged_bytes(self) -> None:
        """Name a damaged save and leave it out; export the rest."""
        self.state(f"UPDATE blob SET data = {literal(b'ONE')} WHERE blob_id = 1")
        file = Path(self.folder) / "anna.zip"
        code, out, err = self.gamed("saves", "export", ANNA, str(file), "--json")
        self.assertEqual((code, json.loads(out)["damaged"]), (1, ["auto 1"]))
        self.assertIn("damaged and left out: auto 1", err)
        with ZipFile(file) as archive:
            self.assertNotIn("saves/auto/1", archive.namelist())
            self.assertEqual(archive.read("saves/auto/3"), b"three")

    def test_erase(self) -> None:
        """Erase everything but the fact; without a terminal only with a second confirmation."""
        code, _, err = self.gamed("saves", "erase", ANNA)
        self.assertEqual((code, "--yes" in err), (2, True))
        numbers = "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 20)"
        self.state(f"INSERT INTO blob_part {numbers} SELECT 1, n, {literal(bytes(1))} FROM c")
        self.output_of("saves", "erase", ANNA, "--yes")
        self.assertEqual(self.output_of("saves", "list", ANNA), f"{ANNA} has no saves\n")
        for table in ("save", "save_version", "blob", "blob_part"):
            self.assertEqual(self.state(f"SELECT count(*) FROM {table}"), [(0,)])
        [(slots, erasing, erased)] = self.state("SELECT slots, erasing, erased_ms IS NOT NULL FROM player_saves")
        self.assertEqual((slots, erasing, erased), (0, 0, 1))

    def test_no_answer(self) -> None:
        """End the question without an answer as an interruption that changed nothing."""
        code, _, err = self.gamed_at_terminal("\x04", "saves", "erase", ANNA)
        self.assertEqual((code, err.splitlines()[-1]), (130, "gamed: Interrupted. Nothing was changed."))
        self.assertEqual(self.current(), b"three")


class CheckTests(SavesTestCase):
    def test_well(self) -> None:
        """All is well: exit code 0, and a word."""
        first, *others = self.output_of("check", "data").splitlines()
        self.assertEqual((first, bool(others)), ("no errors", POSTGRESQL))  # which needs amcheck for its indexes
        self.assertEqual(json.loads(self.output_of("check", "data", "--json")), {"errors": [], "repaired": 0})

    def test_wrong_counts(self) -> None:
        """Found, and with --fix put right."""
        for sql in (
            "UPDATE player_saves SET kept_bytes = 99",
            "UPDATE blob SET refs = 7 WHERE blob_id = 1",
            "UPDATE save SET last_version = 1",
            "UPDATE save_version SET retired_ms = NULL",
        ):
            self.state(sql)
        code, _, err = self.gamed("check", "data")
        self.assertEqual(code, 1)
        self.assertNotIn("Damaged bytes", err)
        for words in ("usage that is counted wrong", "wrong count of references", "too low", "gamed check data --fix"):
            self.assertIn(words, err)
        self.assertIn("no errors", self.output_of("check", "data", "--fix"))
        self.assertEqual(self.run_transaction(STATE, count_errors), [])

    def test_damaged_bytes(self) -> None:
        """One turned byte is found, with the version it belongs to."""
        self.state(f"UPDATE blob SET data = {literal(b'ONE')} WHERE blob_id = 1")
        code, out, err = self.gamed("check", "data", "--json")
        self.assertEqual((code, json.loads(out)["errors"]), (1, ["damaged bytes: ply_A auto 1"]))
        self.assertRegex(err, r"^gamed: 1 error\nDamaged bytes are repaired .*gamed saves restore")
        self.assertIn(f"restore {store_of(self.data).name(STATE)} from a backup", err)
        self.assertNotIn("--fix", err)

    @sqlite_files("a damaged file; tests.cli.test_postgresql has damaged indexes and references")
    def test_damaged_file(self) -> None:
        """A torn page is found by SQLite's own check; nothing is tried with such a file."""
        path = self.data / "state.db"
        with closing(connect(file_uri(path, "rw"))) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        raw = bytearray(path.read_bytes())
        raw[PAGE_BYTES * 2 :] = b"\xa5" * len(raw[PAGE_BYTES * 2 :])
        path.write_bytes(raw)
        for how in ((), ("--fix",)):
            code, _, err = self.gamed("check", "data", *how)
            self.assertEqual(code, 1, err)
            self.assertIn("backup", err)
        self.assertEqual(path.read_bytes(), raw)

    def test_fix_beside_the_service(self) -> None:
        """--fix needs the folder for itself."""
        lock = Lock.acquire(self.data, SERVE)
        self.addCleanup(lock.release)
        code, _, err = self.gamed("check", "data", "--fix")
        self.assertEqual((code, "Stop it first." in err), (1, True), GAMED)
