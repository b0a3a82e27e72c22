"""A commit counts if it is known to be where it has to be; what PostgreSQL reports beside it changes nothing."""

import re
from functools import partial

from twisted.logger import LogEvent, capturedLogs, formatEvent
from twisted.python.failure import Failure

from gamed.database.connection import Connection
from gamed.database.errors import DatabaseUnreachable
from gamed.database.group_commit import group_commit
from gamed.database.postgresql.error_mapping import PostgresqlError
from tests.database.postgresql.engines import EngineCase, RelayedCase

RAISED = re.compile(rb"Fpl_exec[.]c\0L(\d+)\0Rexec_stmt_raise\0")
"""The fields of a warning that name the place in PostgreSQL's sources, here of those that a trigger raises."""


def half_full(answer: bytes) -> bytes:
    """Return an answer as if its warnings came from a queue of notifications that is half full."""
    return RAISED.sub(rb"Fx.c\0L\1\0RasyncQueueFillWarning\0", answer)


def put(connection: Connection, n: int = 1) -> int:
    """Insert a row without waiting for the result."""
    connection.execute("INSERT INTO kept (n) VALUES (?)", (n,))
    return n


class CommitCase(EngineCase):
    """A test of batches of one transaction."""

    def raise_at(self, moment: str, raised: str) -> None:
        """Let the server raise something when a row was inserted: at once, or at the commit."""
        kind, when = ("CONSTRAINT", "DEFERRABLE INITIALLY DEFERRED") if moment == "commit" else ("", "")
        body = f"BEGIN RAISE {raised}; RETURN NULL; END"
        for sql in (
            f"CREATE FUNCTION state.raises() RETURNS trigger LANGUAGE plpgsql AS '{body}'",
            f"CREATE {kind} TRIGGER raises AFTER INSERT ON state.kept {when} FOR EACH ROW EXECUTE FUNCTION raises()",
        ):
            self.cluster.execute(f"SET search_path = state; {sql}", self.place.database)

    def write(self, n: int = 1) -> object:
        """Return the result of inserting a row, or the class of the error."""
        [self.outcome] = group_commit(self.engine, self.connection, [partial(put, n=n)], ("p1",))
        return self.outcome.type if isinstance(self.outcome, Failure) else self.outcome


def names(events: list[LogEvent]) -> list[str]:
    """Return the names of logged events."""
    return [str(formatEvent(event)).partition(" ")[0] for event in events]


class WarningTest(CommitCase):
    def test_of_a_statement(self) -> None:
        """A warning about a statement before the commit says nothing about the commit."""
        self.raise_at("once", "WARNING ''must be vacuumed''")
        self.assertEqual((self.write(), self.stored()), (1, [1]))

    def test_unknown(self) -> None:
        """A commit with a warning that gamed does not know may not be replicated: it counts as failed."""
        self.raise_at("commit", "WARNING ''not on the standby''")
        self.assertIs(self.write(), DatabaseUnreachable)
        self.assertIn("not on the standby", str(self.outcome.value.__cause__))

    def test_once(self) -> None:
        """The warning of one commit does not count for the next one."""
        self.raise_at("commit", "WARNING ''not on the standby''")
        self.write()
        self.cluster.execute("DROP FUNCTION state.raises CASCADE", self.place.database)
        self.assertEqual(self.write(2), 2)

    def test_other_severities(self) -> None:
        """A commit with a notice is a commit."""
        self.raise_at("commit", "NOTICE ''in passing''")
        self.assertEqual(self.write(), 1)


class HalfFullTest(RelayedCase, CommitCase):
    def test_half_full(self) -> None:
        """A commit while the queue of notifications is half full is a commit; the log tells the owner what to do."""
        self.raise_at(
            "commit", "WARNING ''NOTIFY queue is 51%% full'' USING DETAIL = ''The server process with PID 7''"
        )
        self.relay.change = half_full
        with capturedLogs() as events:
            self.assertEqual(self.write(2), 2)
        self.assertEqual(self.stored(), [2])
        self.assertEqual(names(events), ["notify_queue_filling"])
        self.assertIn("51% full. The server process with PID 7", str(formatEvent(events[0])))


class FullQueueTest(CommitCase):
    def setUp(self) -> None:
        super().setUp()
        self.raise_at("commit", "EXCEPTION ''too many notifications'' USING ERRCODE = ''54000''")

    def test_full(self) -> None:
        """A commit that the full queue of notifications refuses may be tried again; the log tells it once."""
        with capturedLogs() as events:
            for _ in range(2):
                self.assertIs(self.write(), DatabaseUnreachable)
        self.assertEqual((names(events), self.stored()), (["notify_queue_full"], []))

    def test_again(self) -> None:
        """After a commit that succeeded, a full queue is logged again."""
        self.write()
        self.cluster.execute("ALTER TABLE state.kept DISABLE TRIGGER raises", self.place.database)
        self.assertEqual(self.write(), 1)
        self.cluster.execute("ALTER TABLE state.kept ENABLE TRIGGER raises", self.place.database)
        with capturedLogs() as events:
            self.write(2)
        self.assertEqual(names(events), ["notify_queue_full"])

    def test_statement(self) -> None:
        """A statement that exceeds another limit is a defect of its own transaction."""
        self.cluster.execute("DROP FUNCTION state.raises CASCADE", self.place.database)
        self.raise_at("once", "EXCEPTION ''index row size'' USING ERRCODE = ''54000''")
        self.assertIs(self.write(), PostgresqlError)
