"""The owner's page shows what an owner asks for, bounded and safe, also when a part of the server is not well."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace
from twisted.internet.address import UNIXAddress
from twisted.internet.defer import Deferred, succeed
from twisted.internet.testing import MemoryReactorClock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from gamed.audit import SecurityEvent
from gamed.crypto import Purpose
from gamed.database.connection import Connection
from gamed.database.errors import DatabaseCorrupt
from gamed.database.event_counts import EventCount, EventKey
from gamed.database.last_backup import LastBackup, write_last_backup
from gamed.database.security_events import write_events
from gamed.database.sqlite.store import SqliteStore
from gamed.ops.findings import ok, problem
from gamed.ops.metrics import Counters, Metrics
from gamed.owner.report import EVENTS, MACHINE_MS, PLAYERS, WAITING, MachineReport, OwnerReporter, versions
from gamed.pages.render import PageRenderer
from gamed.players import tables as player_tables
from gamed.service import AdminServer
from tests.account.killed_command import KEYS
from tests.ops.test_admin import ENDPOINT, MACHINE, STATE_TITLE, new_pages
from tests.ops.test_metrics import gauges
from tests.pages.test_texts import words
from tests.support.covers import covers
from tests.support.databases import elsewhere, memory_databases
from tests.support.http import PEER, START_MS, Answer, request_bytes
from tests.support.http import Connection as HttpConnection
from tests.support.stores import POSTGRESQL, sqlite_files

T = TypeVar("T")
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
RECENT = "UPDATE session SET last_used_ms = ? WHERE player_id = ?"
VERSIONS = versions(SqliteStore(data=Path()))


class OwnerPageCase(SynchronousTestCase):
    endpoint = ENDPOINT

    def setUp(self) -> None:
        self.reactor, self.stores, self.now_ms = MemoryReactorClock(), memory_databases(self), START_MS
        self.looks: list[Deferred[MachineReport]] = []
        self.machine: Callable[[], Deferred[MachineReport]] = lambda: succeed(MACHINE)
        reporter = OwnerReporter(self.stores, KEYS, lambda: self.now_ms, self.look, self.reactor, VERSIONS)
        metrics = Metrics(Counters([]), gauges(**self.stores.queues), {})
        labels = {"discord": "Discord"}
        self.admin = AdminServer(self.reactor, self.endpoint, metrics, self.stores, reporter, new_pages(), labels)
        self.admin.open()
        self.site = (self.reactor.tcpServers or self.reactor.unixServers)[0][1]

    def look(self) -> Deferred[MachineReport]:
        self.looks.append(self.machine())
        return self.looks[-1]

    def call(self, path: str = "/", **headers: str) -> HttpConnection:
        peer = UNIXAddress("") if self.endpoint.startswith("unix:") else PEER
        connection = HttpConnection(self.site, self.reactor, peer)
        return connection.send(request_bytes("GET", path, {"Host": "localhost", **headers}))

    def ask(self, path: str = "/", **headers: str) -> Answer:
        return self.call(path, **headers).answer

    def words(self, path: str = "/") -> str:
        """Return the page as a person reads it."""
        return words(self.page(path).encode())

    def page(self, path: str = "/") -> str:
        answer = self.ask(path)
        self.assertEqual(answer.status, 200, answer.body)
        return answer.body.decode()

    def write(self, work: Callable[[Connection], T]) -> T:
        return self.successResultOf(self.stores.auth.submit(work))

    def player_id(self, number: int) -> str:
        return f"ply_{number:022}"

    def add(
        self, number: int, *, name: str = "", shown: str = "", signed_in_ms: int | None = None, asks: str = ""
    ) -> str:
        """Add a player; one who `asks` with an approval code waits since as many minutes as the number."""
        player_id = self.player_id(number)
        state, since_ms = ("pending", START_MS - number * MINUTE_MS) if asks else ("active", START_MS)

        def work(connection: Connection) -> None:
            player_tables.create_player(connection, player_id, since_ms, state, asks or None)  # type: ignore[arg-type]
            if name:
                player_tables.create_account(
                    connection, KEYS, player_id=player_id, name=name, password="-", now_ms=START_MS
                )
            if shown:
                player_tables.set_display_name(connection, KEYS.sealer, player_id, shown)
            if signed_in_ms is not None:
                player_tables.record_sign_in(connection, player_id, signed_in_ms)

        self.write(work)
        return player_id

    def link(self, player_id: str, provider: str) -> None:
        """Link an account at a provider to a player."""
        index = KEYS.indexer.index(Purpose.IDENTITY, player_id.encode(), provider.encode())
        values = {"index": index, "namespace": index, "player_id": player_id, "provider": provider}
        self.write(lambda connection: player_tables.insert_identity(connection, **values, now_ms=START_MS))  # type: ignore[arg-type]

    def record(self, event: SecurityEvent, times: int = 1, age_ms: int = 0, **values: str) -> None:
        """Store equal events."""
        count = EventCount(EventKey.of(event, values, START_MS - age_ms), START_MS - age_ms, START_MS - age_ms, times)
        self.write(lambda connection: write_events(connection, [count], START_MS))

    def add_session(self, player_id: str, number: int, *, revoked: bool = False) -> None:
        query = "INSERT INTO session VALUES (?, ?, NULL, 'local', '{}', 0, 0, 1, 0, 0, NULL, ?, 0, 0, 0, ?, NULL)"
        values = (f"ses_{player_id}{number}", player_id, START_MS + DAY_MS, START_MS if revoked else None)
        self.write(lambda connection: connection.execute(query, values).close())


class ContentTests(OwnerPageCase):
    def test_players(self) -> None:
        """Show each player with names, last sign-in, valid sessions and bytes, the newest sign-in first."""
        anna = self.add(1, name="anna", shown="Anna \U0001f98a", signed_in_ms=START_MS - 3 * DAY_MS)
        ben = self.add(2, name="ben", signed_in_ms=START_MS - 2 * HOUR_MS)
        never = self.add(3)
        for number in range(3):
            self.add_session(anna, number, revoked=number == 2)
        query = "INSERT INTO player_saves (player_id, epoch, live_bytes, kept_bytes) VALUES (?, 'e', 1048576, 524288)"
        self.successResultOf(self.stores.state.submit(lambda connection: connection.execute(query, (anna,)).close()))
        self.link(anna, "discord")
        text = self.page()
        self.assertLess(text.index(ben), text.index(anna))
        self.assertLess(text.index(anna), text.index(never))
        said = self.words()
        self.assertRegex(said, r"Anna \U0001f98a \(anna\) Discord · name and password 12 January 2 devices 1\.5 MiB")
        self.assertRegex(said, r"ben name and password 2 h ago 0 devices 0 B")
        self.assertRegex(said, r"A player without a name never")

    def test_words_of_people(self) -> None:
        """No id of a player, name of an event or key of the log is among the words; ids are titles of the names."""
        anna, nameless = self.add(1, name="anna", signed_in_ms=START_MS), self.add(2, asks="482917")
        for event in SecurityEvent:
            self.record(event, player=anna)
            self.record(event, player=nameless)
        said = self.words()
        self.assertEqual(re.findall(r"ply_\w*|\w+=|\b[a-z]+_[a-z_]+\b", said), [])
        self.assertIn(f'<b title="{nameless}" dir="auto">A player without a name</b>', self.page())

    def test_waiting(self) -> None:
        """Players who wait come first, the oldest request first, with their codes and how they signed in."""
        self.assertNotIn("Waiting for you", self.words())
        self.add(2, asks="111222", name="cleo")
        penny = self.add(12, asks="515072", shown="Penny")
        self.link(penny, "discord")
        said = self.words()
        self.assertRegex(said, r"P Penny asked 12 min ago · Discord Code 515072 C cleo asked 2 min ago .+ Code 111222")
        self.assertLess(said.index("Code 515072"), said.index("Free on this disk"))
        self.assertIn("gamed players approve CODE", said)

    def test_figures(self) -> None:
        """Show how many players there are, how many played in seven days, and the saves of all with their bytes."""
        for number in range(3):
            self.add_session(self.add(number, signed_in_ms=0), number)
        self.write(lambda connection: connection.execute(RECENT, (START_MS - 6 * DAY_MS, self.player_id(0))).close())
        self.write(lambda connection: connection.execute(RECENT, (START_MS - 8 * DAY_MS, self.player_id(1))).close())
        query = """
            INSERT INTO player_saves (player_id, epoch, slots, live_bytes, kept_bytes)
            VALUES ('a', 'e', 3, 1048576, 0), ('b', 'e', 4, 0, 524288)
        """
        self.successResultOf(self.stores.state.submit(lambda connection: connection.execute(query).close()))
        said = self.words()
        self.assertIn("Players 3 1 active in the last 7 days", said)
        self.assertIn("Saves 7 1.5 MiB with older versions", said)

    def test_server(self) -> None:
        """The page has the name and the picture of the server."""
        text = self.page()
        self.assertIn("<title>Your server - Anna&#39;s Arena</title>", text)
        self.assertIn('<link rel="icon" href="/auth/mark">', text)
        self.assertEqual(self.ask("/auth/mark").status, 200)

    def test_states(self) -> None:
        """Mark the owner, and players who may not play."""
        anna, ben = self.add(1, name="anna"), self.add(2, name="ben")
        self.write(lambda connection: player_tables.set_owner(connection, anna))
        self.write(lambda connection: player_tables.set_state(connection, ben, "blocked"))
        text = self.page()
        self.assertIn(">blocked</span>", text)
        self.assertEqual(text.count(">owner</span>"), 1)

    def test_state_of_the_server(self) -> None:
        """Show the last backup, the disk, sizes, findings that need something done, and versions."""
        bad = problem("disk", "1 MiB free: saves are refused", "Free space.")
        self.machine = lambda: succeed(replace(MACHINE, findings=(ok("data", "closed to other users"), bad)))
        self.assertIn("none yet Run: gamed backup DIR", self.words())
        self.write(lambda connection: write_last_backup(connection, LastBackup(START_MS - DAY_MS, 3 * 1024**2)))
        text = self.words()
        self.assertIn("Last backup 14 January 3 MiB", text)
        for said in ("Free on this disk 5 GiB", "auth.db 4 KiB", "disk: 1 MiB free: saves are refused. Free space."):
            self.assertIn(said, text)
        self.assertNotIn("closed to other users", text)
        for name in ("gamed", "Python", "Twisted", "SQLite"):
            self.assertRegex(text, rf"{name} +[0-9]")

    def test_events(self) -> None:
        """Show the latest events of seven days as sentences with names, and how often each happened."""
        anna, bo = self.add(1, name="anna", shown="Anna"), self.add(2, name="bo")
        self.record(SecurityEvent.SIGN_IN_REFUSED, 12, provider="local", outcome="wrong_password")
        self.record(SecurityEvent.SIGN_IN, player=anna, provider="discord", created="no")
        self.record(SecurityEvent.COMMAND, player=bo, command="players block", by="uid:0")
        self.record(SecurityEvent.SIGNED_OUT, player="ply_gone", scope="all")
        self.record(SecurityEvent.ERASED, age_ms=8 * DAY_MS, player="ply_old")
        said = self.words()
        for sentence in (
            "Somebody typed a wrong name or password 12 times just now",
            "Anna signed in with Discord",
            "bo was blocked by the owner",
            "A deleted player signed out everywhere",
        ):
            self.assertIn(sentence, said)
        self.assertNotIn("An account was deleted", said)

    def test_an_event_of_a_later_version(self) -> None:
        """An event that this version does not know is named, as another process may have stored it."""
        count = EventCount(EventKey(0, "moon_landed", "", "{}"), START_MS, START_MS, 1)
        self.write(lambda connection: write_events(connection, [count], START_MS))
        self.assertIn("Something happened that this version does not know: moon_landed", self.words())

    @covers("threats/34")
    def test_header_fields(self) -> None:
        """Forbid scripts, frames and caches; send no CORS fields."""
        answer = self.ask("/", Origin="https://evil.example")
        self.assertEqual(answer.headers["content-security-policy"], PageRenderer().headers["Content-Security-Policy"])
        self.assertEqual(answer.headers["cache-control"], "no-store")
        self.assertEqual(answer.headers["cross-origin-resource-policy"], "same-origin")
        self.assertEqual([name for name in answer.headers if name.startswith("access-control")], [])
        self.assertNotIn(b"<script", answer.body)


class BoundTests(OwnerPageCase):
    def test_many_players(self) -> None:
        """Show 200 players at a time; the links lead to each of the others once."""
        ids = {self.add(n, signed_in_ms=START_MS - (n % 7) * DAY_MS if n % 5 else None) for n in range(PLAYERS * 2 + 5)}
        seen: list[str] = []
        path: str | None = "/"
        pages = 0
        while path is not None and pages < 5:
            text = self.page(path)
            found = re.findall(r'<b title="(ply_[0-9]{22})" ', text)
            self.assertLessEqual(len(found), PLAYERS)
            seen += found
            link = re.search(r'href="(/\?before=[^"#]+)#people"', text)
            path, pages = (link[1] if link else None), pages + 1
        self.assertEqual((pages, len(seen), set(seen)), (3, len(ids), ids))

    def test_wrong_positions(self) -> None:
        """Refuse a link that the page did not make, with a page."""
        for wrong in ("x", "1", "1-", "-ply_a", "1-ply_a!", "1" * 16 + "-ply_a", "1-ply_" + "a" * 65, "%00", ""):
            answer = self.ask(f"/?before={wrong}")
            self.assertEqual((answer.status, answer.headers["content-type"][:9]), (400, "text/html"), wrong)
        self.assertEqual(self.ask("/?before=1-ply_a&before=1-ply_b").status, 400)
        self.assertEqual(self.ask("/?before=" + "9" * 15 + "-ply_a").status, 200)

    def test_many_events(self) -> None:
        """Show the latest 100 events, and name the command that shows all."""
        counts = [
            EventCount(
                EventKey.of(SecurityEvent.SIGNED_OUT, {"player": f"ply_{n}", "scope": "all"}, 0), n, START_MS - n, 1
            )
            for n in range(EVENTS + 30)
        ]
        self.write(lambda connection: write_events(connection, counts, START_MS))
        text = self.page()
        self.assertEqual(text.count("signed out everywhere"), EVENTS)
        self.assertIn("gamed events", text)

    def test_many_waiting(self) -> None:
        """Show 50 players who wait, and name the command that shows all."""
        for number in range(WAITING + 2):
            self.add(number, asks=f"{number:06}")
        said = self.words()
        self.assertEqual(len(re.findall(r"Code \d{6}", said)), WAITING)
        self.assertIn("These are the first 50. For all run: gamed players list --state pending", said)

    @sqlite_files("its query plans; tests.database.postgresql.test_plans has PostgreSQL's")
    def test_plans(self) -> None:
        """Find the players of a page by an index, without reading the others."""

        def plans(connection: Connection) -> list[str]:
            statements: list[str] = []
            connection.set_trace_callback(statements.append)
            player_tables.latest_players(connection, KEYS.sealer, 10, None)
            player_tables.latest_players(connection, KEYS.sealer, 10, (5, "ply_a"))
            player_tables.waiting_players(connection, KEYS.sealer, 10)
            player_tables.named_players(connection, KEYS.sealer, ["ply_a"])
            player_tables.ways_of(connection, ["ply_a"])
            connection.set_trace_callback(None)
            return [str(row[-1]) for sql in statements for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}")]

        found = self.write(plans)
        self.assertEqual([step for step in found if "TEMP B-TREE" in step], [])
        for index in ("player_latest", "player_pending"):
            self.assertTrue(any(index in step for step in found), found)
        other = [step for step in found if step.startswith("SCAN") and " player_" not in step.partition("USING")[2]]
        self.assertEqual(other, [])

    def test_the_machine_is_checked_rarely(self) -> None:
        """Look at files and disk once a minute, however often the page is opened."""
        for _ in range(5):
            self.page()
        self.assertEqual(len(self.looks), 1)
        self.now_ms += MACHINE_MS
        self.page()
        self.assertEqual(len(self.looks), 2)


class TroubleTests(OwnerPageCase):
    def test_a_disk_hangs(self) -> None:
        """Show the rest of the page after three seconds, and start no second check beside the first."""
        self.machine = Deferred
        call = self.call()
        self.reactor.advance(3)
        self.assertIn("This machine was not checked", call.answer.body.decode())
        self.assertIn("This machine was not checked", self.page())
        self.assertEqual(len(self.looks), 1)
        self.looks[0].callback(MACHINE)
        self.assertIn("healthy", self.words())

    def test_a_check_fails(self) -> None:
        """Show the page also if the check of the machine fails."""
        looked: Deferred[MachineReport] = Deferred()
        looked.errback(Failure(PermissionError("no")))
        self.machine = lambda: looked
        self.assertIn("This machine was not checked", self.page())
        self.assertEqual(len(self.flushLoggedErrors(PermissionError)), 1)

    def test_without_state_db(self) -> None:
        """Show the players without sizes, and name the reason."""
        self.add(1, name="anna")
        if POSTGRESQL:
            elsewhere(self.stores.state, "DROP SCHEMA state CASCADE")
        else:
            reads = self.stores.threads[0]
            self.successResultOf(reads.run(lambda connection: connection.execute("DETACH DATABASE state").close()))
        self.stores._state.unavailable_as = DatabaseCorrupt
        text = self.page()
        self.assertIn("anna", text)
        self.assertIn("0 devices not known", self.words())
        self.assertIn("Saves ? not known: the database does not respond", self.words())
        self.assertIn(f"{STATE_TITLE.decode()} does not answer", text)

    def test_without_auth_db(self) -> None:
        """Show what is known without auth.db."""
        self.stores.reads.drain()
        text = self.page()
        self.assertIn("The players are not known: their database does not respond", text)
        self.assertIn("Free on this disk", text)


HOSTILE = (
    "<script>alert(1)</script>",
    "</bdi><img src=x onerror=alert(1)>",
    "\"'><b>&amp;",
    "{when}%s{0}",
    "\u0627\u0644\u0639\u0631\u0628\u064a\u0629",
)


class HostileTests(OwnerPageCase):
    @covers("threats/34")
    def test_names(self) -> None:
        """Show every name as text, in an element that isolates its direction."""
        for number, shown in enumerate(HOSTILE):
            self.add(number, shown=shown)
        text = self.page()
        for tag in ("<script", "<img", "<b>&"):
            self.assertNotIn(tag, text)
        self.assertIn(f'dir="auto">{HOSTILE[-1]}</b>', text)
        self.assertIn('dir="auto">{when}%s{0}</b>', text)
        self.assertEqual(text.count('dir="auto">'), len(HOSTILE))

    @covers("threats/34")
    def test_names_in_sentences(self) -> None:
        """The names of players who wait and of those in sentences are text, too, and so is a provider's label."""
        for number, shown in enumerate(HOSTILE):
            player = self.add(number, shown=shown, asks=f"{number:06}")
            self.record(SecurityEvent.SIGN_IN, player=player, provider="discord")
        text = self.page()
        for tag in ("<script", "<img", "<b>&"):
            self.assertNotIn(tag, text)
        self.assertEqual(text.count('dir="auto">{when}%s{0}</b>'), 2)
        self.assertEqual(text.count("<bdi>{when}%s{0}</bdi>"), 1)

    def test_stored_bidirectional_characters(self) -> None:
        """Keep direction marks of a name that an older version accepted within their element."""
        self.add(1, shown="abc\u202egpj.exe")
        self.assertIn('dir="auto">abc\u202egpj.exe</b>', self.page())


class LanguageTests(OwnerPageCase):
    def language(self, path: str = "/", **headers: str) -> str:
        return self.ask(path, **headers).body.decode().partition('<html lang="')[2].partition('"')[0]

    def test_order(self) -> None:
        """The choice in this browser counts before the language that the browser asks for."""
        german = {"Accept-Language": "de"}
        self.assertEqual(self.language(), "en")
        self.assertEqual(self.language(**german), "de")
        self.assertEqual(self.language(**german, Cookie="language=ja"), "ja")
        self.assertEqual(self.language(**german, Cookie="language=xx"), "de")

    def test_chosen(self) -> None:
        """The link of a page sets the cookie for a year and leads back to the same part of the list."""
        for path, link in (("/", "/language/de"), ("/?before=5-ply_a", "/language/de/5-ply_a")):
            self.assertIn(f'href="{link}"', self.page(path))
            answer = self.ask(link)
            self.assertEqual((answer.status, answer.headers["location"]), (303, path))
            self.assertEqual(answer.cookies, ["language=de; Path=/; HttpOnly; SameSite=Lax; Max-Age=31536000"])

    @covers("threats/34")
    def test_nowhere_else(self) -> None:
        """No link leads to another place or sets another value."""
        for path in (
            "xx",
            "DE",
            "de%3b%20a",
            "de/evil.example",
            "de/5-ply_a%0d%0aX",
            "de//evil.example",
            "de/1-ply_a/x",
        ):
            answer = self.ask(f"/language/{path}")
            self.assertEqual((path, answer.status, answer.cookies), (path, 404, []))

    @covers("threats/34")
    def test_other_sites(self) -> None:
        """No picture, frame or prefetch of another site chooses."""
        for fields in ({"Sec-Fetch-Dest": "image"}, {"Sec-Fetch-Dest": "iframe"}, {"Sec-Purpose": "prefetch"}):
            answer = self.ask("/language/de", **fields)
            self.assertEqual((answer.status, answer.cookies), (404, []), fields)


class UnixTests(OwnerPageCase):
    endpoint = "unix:/nowhere/admin.sock"

    def test_any_name(self) -> None:
        """Answer to any well-formed Host on a unix socket, which no browser can open."""
        for host in ("gamed", "localhost", "whatever.example"):
            self.assertEqual(self.ask("/", Host=host).status, 200, host)
        self.assertEqual(self.ask("/", Host="a b").status, 400)
