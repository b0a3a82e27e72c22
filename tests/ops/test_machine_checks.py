"""Checks of the machine and their findings (SPEC 2.1; docs/owners/configuration.md: Limits, Saves and assets)."""

from ipaddress import ip_network

from msgspec.structs import replace
from twisted.trial.unittest import SynchronousTestCase

from gamed.config.model import Checkpoints, Config
from gamed.database.sqlite.files import EXTERNAL_LIMIT_BYTES
from gamed.database.sqlite.store import SqliteStore
from gamed.database.store import ServerFacts
from gamed.ops import machine_checks
from gamed.ops.findings import (
    FailureCause,
    HttpFailure,
    HttpReply,
    Level,
    any_problem,
    lines,
    ok,
    problem,
    skipped,
    summary,
    warning,
)
from gamed.ops.machine_checks import FileFacts
from tests.support.databases import data_folder
from tests.support.stores import sqlite_files

OK, SKIPPED, WARNING, PROBLEM = Level.OK, Level.SKIPPED, Level.WARNING, Level.PROBLEM
MIB = 1024 * 1024
GONE = HttpFailure(FailureCause.REFUSED, "Connection refused")
AT_HOME = Config()
PUBLIC = Config(public_url="https://play.example.org")


class LocalTests(SynchronousTestCase):
    def test_files(self) -> None:
        """Check the owner and mode of each file; no other user may read the key."""
        for facts, secret, level in (
            (FileFacts(0o600, 7), True, OK),
            (FileFacts(0o600, 7), False, OK),
            (FileFacts(0o640, 7), False, WARNING),
            (FileFacts(0o640, 7), True, PROBLEM),
            (FileFacts(0o604, 7), True, PROBLEM),
            (FileFacts(0o600, 0), False, PROBLEM),
        ):
            self.assertEqual(
                machine_checks.check_file("auth.db", "/d/auth.db", facts, 7, secret=secret).level, level, facts
            )
        for found, level in (
            (FileFacts(0o700, 7), OK),
            (FileFacts(0o750, 7), WARNING),
            (FileFacts(0o700, 0), PROBLEM),
            (None, PROBLEM),
        ):
            self.assertEqual(machine_checks.check_folder("/d", found, 7).level, level, found)
        for mode, level in ((0o640, OK), (0o644, OK), (0o666, PROBLEM)):
            self.assertEqual(machine_checks.check_config_file("/c", FileFacts(mode, 0)).level, level)

    @sqlite_files("its lock files; the locks of PostgreSQL are not files")
    def test_lock_files(self) -> None:
        """A lock file that other users can open is shown, as they could stop all writes; a private one is not."""
        data = data_folder(self)
        data.chmod(0o700)
        for name, mode in (("auth.db.lock", 0o600), ("state.db.lock", 0o604), ("maintenance.lock", 0o600)):
            (data / name).touch()
            (data / name).chmod(mode)
        found = [(finding.check, finding.level) for finding in machine_checks.check_files(data, SqliteStore(data=data))]
        self.assertEqual(found, [("data", OK), ("state.db.lock", WARNING)])

    @sqlite_files("its write-ahead log; PostgreSQL's server has its own")
    def test_checkpoints(self) -> None:
        """A write-ahead log that another program should have copied, and did not, is shown as a warning."""
        data = data_folder(self)
        external = Config(checkpoints=Checkpoints.EXTERNAL)
        for size, level in ((None, OK), (EXTERNAL_LIMIT_BYTES, OK), (EXTERNAL_LIMIT_BYTES + 1, WARNING)):
            if size is not None:
                with open(data / "state.db-wal", "ab") as log:
                    log.truncate(size)
            [found] = machine_checks.check_checkpoints(external, SqliteStore(data=data))
            self.assertEqual((found.check, found.level), ("checkpoints", level))
        self.assertEqual(machine_checks.check_checkpoints(Config(), SqliteStore(data=data)), [])

    def test_disk(self) -> None:
        """Below min_free_bytes saves are refused; a warning comes before."""
        for free, level in ((600, OK), (512, OK), (511, WARNING), (256, WARNING), (255, PROBLEM)):
            self.assertEqual(machine_checks.check_disk(free * MIB, 256 * MIB).level, level, free)
        self.assertEqual(machine_checks.check_disk(0, 0).level, OK)

    def test_clock(self) -> None:
        """A clock more than two minutes off fails sign-ins, in either direction; unknown is said."""
        for offset_ms, level, words in (
            (None, SKIPPED, "not tried"),
            (0, OK, ""),
            (-10_999, OK, ""),
            (11_000, WARNING, "behind"),
            (-120_000, WARNING, "ahead of"),
            (121_000, PROBLEM, "behind"),
            (-121_000, PROBLEM, "ahead of"),
        ):
            finding = machine_checks.check_clock(offset_ms)
            self.assertEqual((finding.level, words in finding.text), (level, True), offset_ms)

    def test_stores(self) -> None:
        """An error that SQLite finds is a problem, shown with its first line."""
        self.assertEqual(machine_checks.check_store("auth.db", 7, []).level, OK)
        finding = machine_checks.check_store("auth.db", 7, ["row 3 missing from index"])
        self.assertEqual((finding.level, "row 3 missing" in finding.text), (PROBLEM, True))

    def test_database_server(self) -> None:
        """A server that is nearly full, whose clock drifts, or that cannot recognize damage, is a warning."""
        well = ServerFacts("15.8", True, 7, 97, 1, True, True, True, 3)
        self.assertEqual({finding.level for finding in machine_checks.check_database_server(well)}, {OK})
        for change, check in (
            ({"connections": 88}, "connections"),
            ({"skew_ms": 11_000}, "database clock"),
            ({"checksums": False}, "checksums"),
            ({"autovacuum": False}, "autovacuum"),
        ):
            findings = machine_checks.check_database_server(replace(well, **change))
            self.assertEqual([each.check for each in findings if each.level is WARNING], [check])
        for change, words in (
            ({"standbys": 0}, "no standby"),
            ({"synchronous": False}, "1 standbys (asynchronous)"),
            ({"encrypted": False}, "not encrypted"),
        ):
            findings = machine_checks.check_database_server(replace(well, **change))
            self.assertIn(words, " ".join(each.text for each in findings), change)

    def test_assets(self) -> None:
        """A channel without its release is a problem, and the first is shown."""
        self.assertEqual(machine_checks.check_assets(2, []).level, OK)
        finding = machine_checks.check_assets(2, ["channel stable: lost", "channel beta: lost"])
        self.assertEqual((finding.level, finding.text), (PROBLEM, "channel stable: lost"))

    def test_open_files(self) -> None:
        """Enough files for the connections that are allowed."""
        self.assertEqual(
            [machine_checks.check_open_files(most, 20_256).level for most in (20_256, 20_255)], [OK, WARNING]
        )

    def test_server(self) -> None:
        """A server that has ended is a warning, one that does not answer or is not healthy a problem."""
        for answer, level in (
            (None, WARNING),
            (GONE, WARNING),
            (HttpFailure(FailureCause.TIMEOUT, "timed out"), PROBLEM),
            (HttpReply(200, {"gamed-instance": "0a1b2c3d"}, b"ok"), OK),
            (HttpReply(503), PROBLEM),
            (HttpReply(200, {}, b"ok"), PROBLEM),
        ):
            self.assertEqual(machine_checks.check_server(answer).level, level, answer)

    def test_trusted_proxies(self) -> None:
        """They fit where the server listens, and are no whole network of players."""
        for config, networks, here, level in (
            (AT_HOME, None, True, OK),
            (PUBLIC, None, True, OK),
            (PUBLIC, None, None, OK),
            (PUBLIC, None, False, WARNING),
            (PUBLIC, ["192.0.2.7/32"], True, WARNING),
            (PUBLIC, ["192.0.2.7/32"], False, OK),
            (PUBLIC, ["192.0.2.7/32", "::1/128"], True, OK),
            (PUBLIC, ["0.0.0.0/0"], False, WARNING),
            (AT_HOME, ["2000::/3"], True, WARNING),
        ):
            named = {} if networks is None else {"trusted_proxies": tuple(map(ip_network, networks))}
            self.assertEqual(
                machine_checks.check_proxies(replace(config, **named), local=here).level, level, (networks, here)
            )

    def test_provider(self) -> None:
        """Any answer but an error of its own shows that a provider is there."""
        for answer, level in ((HttpReply(200), OK), (HttpReply(400), OK), (HttpReply(503), WARNING), (GONE, PROBLEM)):
            self.assertEqual(machine_checks.check_provider("discord", "discovery", answer).level, level)
        self.assertIn(
            "https://play.example.org/auth/google/callback", machine_checks.redirect_uri(PUBLIC, "google").text
        )
        steam = machine_checks.redirect_uri(PUBLIC, "steam", registered=False).text
        uri = "https://play.example.org/auth/steam/callback"
        self.assertEqual(steam, f"nothing is registered there; browsers return to {uri}")


class AnswerTests(SynchronousTestCase):
    def test_date(self) -> None:
        """The date of an answer in milliseconds; one that is none is no clock."""
        date = "Fri, 15 Jan 2027 08:00:00 GMT"
        self.assertEqual(HttpReply(200, {"date": date}).date_ms(), 1_800_000_000_000)
        for headers in ({}, {"date": "soon"}, {"date": "Fri, 99 Jan 2027 08:00:00 GMT"}):
            self.assertIsNone(HttpReply(200, headers).date_ms())

    def test_json(self) -> None:
        """Return no members for a body that is not an object."""
        for body, members in ((b'{"a":1}', {"a": 1}), (b"[]", {}), (b"\xff", {}), (b"", {})):
            self.assertEqual(HttpReply(200, {}, body).json(), members)


class FindingTests(SynchronousTestCase):
    def test_words(self) -> None:
        """A line each, the advice below; the end counts what is bad."""
        found = [ok("a", "good"), warning("b", "so", "Do."), problem("c", "bad", "Repair."), skipped("d", "no")]
        self.assertEqual(
            list(lines(found)),
            [
                "ok       a: good",
                "warning  b: so",
                "         -> Do.",
                "problem  c: bad",
                "         -> Repair.",
                "skipped  d: not tried: no",
            ],
        )
        self.assertEqual((summary(found), any_problem(found)), ("1 problem, 1 warning", True))
        self.assertEqual((summary(found[:1]), any_problem(found[:2])), ("0 problems, 0 warnings", False))
        self.assertEqual(found[1].members(), {"check": "b", "level": "warning", "text": "so", "advice": "Do."})
