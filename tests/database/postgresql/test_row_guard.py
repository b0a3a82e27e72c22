"""On PostgreSQL a batch writes the rows of its keys only: the guard of the tests finds every other row."""

from collections.abc import Callable

import psycopg
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from gamed.database.connection import AUTH, STATE, Connection
from gamed.database.engine import Database
from gamed.database.group_commit import group_commit
from gamed.database.postgresql.connecting import SessionKind
from gamed.database.postgresql.error_mapping import PostgresqlError
from gamed.players import tables as players
from tests.support import row_guard
from tests.support.postgresql import cluster
from tests.support.stores import kept_sessions, pool

ANNA, BO = "ply_anna", "ply_bo"
PLAYERS = (
    "INSERT INTO auth.player (player_id, state, created_ms) VALUES ('ply_anna', 'active', 1), ('ply_bo', 'active', 1)"
)
SESSION = """
    INSERT INTO auth.session (session_id, player_id, provider, client, created_ms, last_used_ms, generation,
                              rotated_ms, used, expires_ms, expiry_day, tick)
    VALUES ('ses_anna', 'ply_anna', 'local', '{}', 1, 1, 1, 1, 0, 1, 1, 1)
"""
BLOB = "INSERT INTO state.blob (blob_id, player_id, size, refs, created_ms) VALUES (1, 'ply_anna', 1, 0, 1)"
BUCKET = "INSERT INTO limit_bucket (bucket_index, arrival_ms) VALUES (?, 1)"


class RowGuardTest(SynchronousTestCase):
    def setUp(self) -> None:
        self.place = pool().take()
        self.addCleanup(pool().give_back, self.place)
        with psycopg.connect(self.place.conninfo) as connection:
            for sql in (PLAYERS, SESSION, BLOB):
                connection.execute(sql.encode())

    def write(self, keys: tuple[str, ...] | None, transaction: Callable[[Connection], object]) -> object:
        """Run a transaction in a batch with these keys, in the schema `auth`; return its outcome."""
        kind = SessionKind("writer", (AUTH, STATE))
        engine = row_guard.GuardedEngine(kept_sessions(self.place), Database(AUTH), kind)
        connection = engine.open()
        self.addCleanup(connection.close)
        [outcome] = group_commit(engine, connection, [transaction], keys)
        return outcome

    def assert_needs(self, key: str | None, transaction: Callable[[Connection], object]) -> None:
        """Check that a batch without this key cannot run the transaction, and one with it can."""
        outcome = self.write((BO, "others"), transaction)
        assert isinstance(outcome, Failure)
        self.assertIn("row guard", str(outcome.check(PostgresqlError) and outcome.value))
        self.assertTrue(self.flushLoggedErrors(PostgresqlError))
        allowed = self.write(None if key is None else (BO, key), transaction)
        self.assertNotIsInstance(allowed, Failure)

    def test_all_tables(self) -> None:
        """Every table of both schemas is guarded."""
        query = "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE'"
        query += " AND table_schema IN ('auth', 'state') AND table_name <> 'schema_version'"
        found = {(schema, table) for schema, table in cluster().execute(query, self.place.database)}
        self.assertEqual(found, {(schema, table) for schema, tables in row_guard.KEYS.items() for table in tables})

    def test_row_of_a_player(self) -> None:
        """A row with a player needs the key of that player."""
        self.assert_needs(ANNA, lambda connection: players.record_sign_in(connection, ANNA, 2))

    def test_row_of_a_session(self) -> None:
        """A credential needs the key of its session's player."""
        self.assert_needs(
            ANNA,
            lambda connection: connection.rows(
                "INSERT INTO credential (tick, credential_index, refreshes, session_id, generation, expires_ms)"
                " VALUES (1, ?, 0, 'ses_anna', 1, 1)",
                (b"index",),
            ),
        )

    def test_part_of_a_blob(self) -> None:
        """A part of a blob needs the key of the blob's player."""
        insert = "INSERT INTO state.blob_part (blob_id, n, data) VALUES (1, 0, ?)"
        self.assert_needs(ANNA, lambda connection: connection.rows(insert, (b"data",)))

    def test_cascade(self) -> None:
        """The deletion of a player's blob deletes its parts with the same key."""
        self.assertEqual(
            self.write((ANNA,), lambda c: c.rows("INSERT INTO state.blob_part VALUES (1, 0, ?)", (b"",))), []
        )
        self.assert_needs(ANNA, lambda connection: connection.rows("DELETE FROM state.blob"))

    def test_moved_row(self) -> None:
        """A row that moves from one player to another needs the keys of both."""
        self.assert_needs(ANNA, lambda c: c.rows("UPDATE state.blob SET player_id = ?", (BO,)))

    def test_named_keys(self) -> None:
        """A bucket of a limit needs the key of all buckets."""
        self.assert_needs("limits", lambda connection: connection.rows(BUCKET, (b"index",)))

    def test_row_of_all(self) -> None:
        """A row that belongs to no key needs a batch without keys."""
        insert = "INSERT INTO last_backup (one, made_ms, bytes) VALUES (1, 1, 1)"
        self.assert_needs(None, lambda connection: connection.rows(insert))
