"""No request and no periodic task reads a whole table, so that its cost does not grow with the stored data."""

import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

from twisted.internet.defer import ensureDeferred

from gamed.account import store as player_store
from gamed.account.build import build_account
from gamed.database.databases import Databases
from gamed.database.sqlite.files import SqliteConnection
from gamed.login.store import LoginStore
from gamed.saves.cleanup import CleanupTask
from gamed.saves.tables import copied_slots
from gamed.saves.version_tables import newest_written
from tests.saves.commit_helpers import CommitCase, delete, write
from tests.saves.helpers import ABSENT, BIG, tag
from tests.sessions.fixtures import ANNA, BERT
from tests.sessions.server import text
from tests.support.components import service_context
from tests.support.stores import sqlite_files

SMALL = {
    "player_merge",
    "deleted_blob",
    "key_record",
    "ticket_key",
    "login_count",
    "retention",
    "constant_row",
    "newest",
    "current",
    "others",
    "searched",
}
"""Tables and subqueries that have a few rows at most, or of which only the first rows are read."""


ONCE_A_PLAYER = "DELETE FROM login WHERE session_id IN (SELECT session_id FROM session WHERE player_id"
"""The beginning of the statement that an erased player causes once.

An index of its columns would cost each login two pages; there are at most `live_logins` rows and those of an hour.
"""


class Explained(SqliteConnection):
    """A connection that records the query plan of each statement."""

    plans: dict[str, list[str]]

    def execute(self, sql: str, values: Any = (), /) -> sqlite3.Cursor:
        if sql.lstrip()[:6] in ("SELECT", "INSERT", "UPDATE", "DELETE") and "sqlite_schema" not in sql:
            rows = super().execute(f"EXPLAIN QUERY PLAN {sql}", values).fetchall()
            self.plans[sql] = [step for *_, step in rows]
        return super().execute(sql, values)


@sqlite_files("its query plans; those of a small table say nothing on PostgreSQL")
class PlanTest(CommitCase):
    def make_stores(self) -> Databases:
        stores = super().make_stores()
        self.plans: dict[str, list[str]] = {}
        for thread in stores.threads:
            engine = thread.engine
            engine.connection_class = type("Noted", (Explained, engine.connection_class), {"plans": self.plans})
        return stores

    def scans(self) -> Iterator[tuple[str, str]]:
        """Yield each step that reads a table or a whole index, with its statement, except for partial indexes."""
        query = "SELECT name FROM {}.sqlite_schema WHERE type = 'index' AND sql LIKE '% WHERE %'"
        partial = {name for table in ("main", "state") for (name,) in self.rows(query.format(table))}
        for sql, steps in self.plans.items():
            for step in steps:
                words = step.split()
                if " ".join(sql.split()).startswith(ONCE_A_PLAYER):
                    continue
                if words[0] == "SCAN" and words[1] not in {*SMALL, "CONSTANT", "page"} and words[1][0] != "(":
                    yield from () if words[-1] in partial else [(step, " ".join(sql.split()))]

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return self.successResultOf(self.server.rows(query))

    def test_requests(self) -> None:
        """No request of a game about saves, blobs or the session reads a whole table."""
        for data in (b"one", BIG):
            slot = f"of-{len(data)}"
            self.put(slot, data, ABSENT)
            self.put(slot, data + b"2", {"If-Match": tag(1, data)})
            self.put(slot, data + b"3", {"If-Match": tag(1, data)})
            self.get(slot, {"Range": "bytes=0-1", "If-Range": "Sun, 06 Nov 1994 08:49:37 GMT"})
            self.versions(slot)
            self.ask("POST", f"/game/saves/{slot}/versions/1/restore", {"If-Match": "*"})
            self.ask("DELETE", f"/game/saves/{slot}/versions/3")
            self.delete(slot, {"If-Match": "*"})
            self.get(slot)
            self.stage(data)
        self.commit(write("auto", b"one"), write("large", BIG))
        self.commit(write("auto", b"one", "nothing"), delete("large", "*"))
        for path in ("/game/", "/game/saves", "/game/saves?since=0.0", "/game/export"):
            self.ask("GET", path)
        slots = ["auto", "large", "of-3"]
        for read in (lambda c: copied_slots(c, ANNA, "", 50), lambda c: newest_written(c, ANNA, slots)):
            self.successResultOf(self.stores.state.submit(read))
        _, pair = self.successResultOf(self.server.open())
        self.successResultOf(ensureDeferred(self.server.sessions.refresh(text(pair.refresh))))
        self.ask("DELETE", "/game/", {"If-Match": self.ask("GET", "/game/").headers["etag"]})
        self.assertGreater(len(self.plans), 50)
        self.assertEqual(list(self.scans()), [])

    def test_periodic_work(self) -> None:
        """No periodic task reads a whole table, whether there is something to do or not."""
        self.put("auto", b"one", ABSENT)
        self.put("auto", b"two", {"If-Match": '"9-0000000000000000"'})
        self.successResultOf(self.server.open(BERT))
        ended, _ = self.successResultOf(self.server.open(client='{"device":"phone"}'))
        end = "UPDATE session SET revoked_ms = 0 WHERE session_id = :ended"
        self.successResultOf(
            self.stores.auth.submit(lambda connection: connection.execute(end, {"ended": ended}).close())
        )
        self.successResultOf(self.stores.auth.submit(lambda connection: player_store.mark_removed(connection, BERT, 0)))
        server, now_ms = self.server, lambda: self.server.now_ms + 365 * 24 * 3600 * 1000
        context = service_context(server.issuer.keys, self.stores, server.audit, now_ms)
        players = build_account(context, server.revoked.append)
        logins = LoginStore(reads=self.stores.reads, writes=self.stores.auth, keys=server.issuer.keys)
        works: list[Callable[[], Any]] = [
            players.clean_up,
            CleanupTask(self.stores, self.limits, now_ms, lambda size: b"\xfe" * size, lambda player_id: None).clean_up,
            server.sessions.clean_up,
            lambda: logins.delete_idle_buckets(now_ms()),
        ]
        for work in works:
            self.successResultOf(ensureDeferred(work()))
        self.assertGreater(len(self.plans), 30)
        self.assertEqual(list(self.scans()), [])
        self.assertEqual(self.rows("SELECT player_id FROM player"), [(ANNA,)])
