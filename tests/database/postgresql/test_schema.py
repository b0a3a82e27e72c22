"""PostgreSQL's schemas do by themselves what SQLite's do: count, number, clean up; and they report changes."""

from threading import Thread
from time import sleep
from typing import Any

import psycopg

from gamed.audit import SecurityEvent
from gamed.database import blob_rows
from gamed.database.event_counts import EventCount, EventKey
from gamed.database.security_events import write_events
from tests.database.postgresql.schemas import SchemaCase

WAITING = """
    SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
"""


class Case(SchemaCase):
    def insert(self, table: str, **values: Any) -> None:
        places = ", ".join(f":{name}" for name in values)
        self.session.rows(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({places})", values)

    def insert_player(self, player_id: str = "ply_1") -> None:
        self.insert("player", player_id=player_id, state="active", created_ms=0)

    def insert_login(self, login_id: str = "lgn_1", stage: str = "pending") -> None:
        secrets = {name: f"{login_id}{name}".encode() for name in ("secret_index", "token_index", "address_index")}
        texts = {"provider": "local", "client": "{}", "return_proof": "none", "instance_id": "", "intent": "login"}
        numbers = dict.fromkeys(("created_ms", "expires_ms", "stage_ms", "expires_or_purge_at_ms"), 0)
        self.insert("login", login_id=login_id, stage=stage, **secrets, **texts, **numbers)

    def insert_session(self, session_id: str = "ses_1", player_id: str = "ply_1") -> None:
        names = ("created_ms", "last_used_ms", "generation", "rotated_ms", "used", "expires_ms", "expiry_day", "tick")
        texts = {"session_id": session_id, "player_id": player_id, "provider": "local", "client": "{}"}
        self.insert("session", **texts, **dict.fromkeys(names, 0))

    def insert_saves(self, player_id: str = "ply_1") -> None:
        self.insert("player_saves", player_id=player_id, epoch="e")


class TriggerTest(Case):
    def counts(self) -> dict[str, int]:
        return {stage: logins for stage, logins in self.session.rows("SELECT stage, logins FROM login_count") if logins}

    def test_counted_logins(self) -> None:
        """The number of logins in each stage is counted, whatever statement adds, changes or deletes them."""
        for number in range(3):
            self.insert_login(f"lgn_{number}")
        self.assertEqual(self.counts(), {"pending": 3})
        self.session.rows("UPDATE login SET stage = 'ready' WHERE login_id <> 'lgn_0'")
        self.assertEqual(self.counts(), {"pending": 1, "ready": 2})
        self.session.rows("DELETE FROM login WHERE login_id = 'lgn_2'")
        self.assertEqual(self.counts(), {"pending": 1, "ready": 1})

    def test_counted_by_two(self) -> None:
        """Two transactions that count logins of the same stages in another order do not deadlock."""
        self.insert_login("lgn_1")
        self.insert_login("lgn_2", "ready")
        others, errors = self.connect(), list[Exception]()
        self.session.rows("BEGIN")
        self.session.rows("UPDATE login SET stage = 'failed' WHERE login_id = 'lgn_1'")

        def count() -> None:
            try:
                others.rows("BEGIN")
                others.rows("UPDATE login SET stage = 'pending' WHERE login_id = 'lgn_2'")
                others.rows("COMMIT")
            except Exception as e:
                errors.append(e)

        thread = Thread(target=count)
        thread.start()
        while self.session.rows(WAITING) == [(0,)]:
            sleep(0.01)
        self.insert_login("lgn_3", "ready")
        self.session.rows("COMMIT")
        thread.join()
        self.assertEqual(errors, [])
        self.assertEqual(self.counts(), {"pending": 1, "ready": 1, "failed": 1})

    def test_stopped_player(self) -> None:
        """A player who is no longer active is signed out of every browser; another change of the player is not one."""
        self.insert_player()
        names = {"cookie_index": b"c", "session_id": "ses_1", "player_id": "ply_1", "provider": "local"}
        self.insert("browser_session", **names, created_ms=0, last_used_ms=0)
        self.session.rows("UPDATE player SET state = 'active', owner = 1")
        self.assertEqual(self.session.rows("SELECT count(*) FROM browser_session"), [(1,)])
        self.session.rows("UPDATE player SET state = 'blocked'")
        self.assertEqual(self.session.rows("SELECT count(*) FROM browser_session"), [(0,)])

    def test_numbered_events(self) -> None:
        """An event that is counted again takes no number, since the numbers say how many rows are kept."""
        self.session.rows("SET search_path = auth")
        for outcome in ("one", "one", "one", "two"):
            key = EventKey.of(SecurityEvent.COMMAND, {"command": outcome}, 0)
            write_events(self.session, [EventCount(key, 0, 0, 1)], 0)
        found = self.session.rows("SELECT number, times FROM security_event ORDER BY 1")
        self.assertEqual(found, [(1, 3), (2, 1)])

    def test_name_of_the_store(self) -> None:
        """Each store gets 16 random hexadecimal digits as its name."""
        names = set()
        for _ in range(2):
            self.insert("key_record", one=1, check_value=b"", fingerprint="", source="file", created_ms=0)
            [(name,)] = self.session.rows("DELETE FROM key_record RETURNING store_id")
            self.assertRegex(name, "^[0-9a-f]{16}$")
            names.add(name)
        self.assertEqual(len(names), 2)


class BlobNumberTest(Case):
    def begin(self, connection: Any = None) -> int:
        return blob_rows.begin(connection or self.session, "ply_1", 1, 0)

    def test_never_reused(self) -> None:
        """A blob never gets the number of another, not even of the newest one after that was deleted."""
        first = self.begin()
        self.session.rows("DELETE FROM blob")
        self.assertGreater(self.begin(), first)

    def test_two_writers(self) -> None:
        """Two transactions that add blobs at the same time get different numbers, and wait for neither."""
        others = self.connect()
        for connection in (self.session, others):
            connection.rows("BEGIN")
        numbers = [self.begin(each) for each in (self.session, others) * 3]
        for connection in (others, self.session):
            connection.rows("COMMIT")
        self.assertEqual(len(set(numbers)), 6)
        self.assertEqual(self.session.rows("SELECT count(*) FROM blob"), [(6,)])


class NotificationTest(Case):
    def setUp(self) -> None:
        super().setUp()
        self.insert_player()
        self.listener = psycopg.connect(self.place.conninfo, autocommit=True)
        self.addCleanup(self.listener.close)
        for name in ("logins", "sessions", "saves"):
            self.listener.execute(f"LISTEN gamed_{name}".encode())

    def notified(self, *statements: str) -> list[str]:
        """Return the channels of the notifications of one transaction with these statements."""
        self.session.rows("BEGIN")
        for statement in statements:
            self.session.rows(statement)
        self.session.rows("COMMIT")
        return self.channels()

    def channels(self) -> list[str]:
        return sorted(channel for channel, _ in self.notifications())

    def notifications(self) -> list[tuple[str, str]]:
        """Return the channel and payload of each notification since the last call."""
        self.listener.execute("SELECT 1")
        return [(each.channel, each.payload) for each in self.listener.notifies(timeout=0)]

    def test_changes(self) -> None:
        """A change that a client may wait for is reported on the channel of its topic."""
        self.insert_login()
        self.insert_session()
        self.insert_session("ses_2")
        self.assertEqual(self.channels(), [])
        self.insert_saves()
        self.assertEqual(self.channels(), ["gamed_saves"])
        for statement, channel in {
            "UPDATE login SET stage = 'ready'": "gamed_logins",
            "DELETE FROM login": "gamed_logins",
            "UPDATE session SET revoked_ms = 1 WHERE session_id = 'ses_1'": "gamed_sessions",
            "DELETE FROM session WHERE session_id = 'ses_1'": "gamed_sessions",
            "UPDATE player SET state = 'blocked'": "gamed_sessions",
            "DELETE FROM player": "gamed_sessions",
            "UPDATE player_saves SET seq = seq + 1": "gamed_saves",
            "UPDATE player_saves SET epoch = 'f'": "gamed_saves",
            "DELETE FROM player_saves": "gamed_saves",
        }.items():
            self.assertEqual(self.notified(statement), [channel], statement)

    def test_writer(self) -> None:
        """A notification names the connection that wrote, so that its process can ignore its own."""
        self.session.rows("SET application_name = 'gamed abc auth'")
        self.insert_saves()
        self.assertEqual(self.notifications(), [("gamed_saves", "gamed abc auth")])

    def test_nothing_to_report(self) -> None:
        """A change that no client waits for is not reported, nor is a statement that changes no row."""
        self.insert_login()
        self.insert_session()
        self.insert_saves()
        self.channels()
        for statement in (
            "UPDATE login SET stage = 'pending', wrong_codes = 1",
            "UPDATE login SET stage = 'ready' WHERE login_id = 'another'",
            "UPDATE session SET used = 1, generation = 2, revoked_ms = NULL",
            "DELETE FROM session WHERE session_id = 'another'",
            "UPDATE player SET state = 'active', last_sign_in_ms = 3",
            "UPDATE player_saves SET seq = seq, write_arrival_ms = 7",
        ):
            self.assertEqual(self.notified(statement), [], statement)

    def test_one_per_transaction(self) -> None:
        """However many rows a transaction changes, it reports each topic once."""
        for number in range(50):
            self.insert_login(f"lgn_{number}")
            self.insert_saves(f"ply_{number}")
        self.channels()
        found = self.notified(
            "UPDATE login SET stage = 'ready'", "UPDATE player_saves SET seq = 2", "UPDATE player_saves SET seq = 3"
        )
        self.assertEqual(found, ["gamed_logins", "gamed_saves"])
