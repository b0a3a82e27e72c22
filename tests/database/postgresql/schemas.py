"""Sessions for tests of PostgreSQL's schemas, each test with an empty database of its own."""

from twisted.trial.unittest import SynchronousTestCase

from gamed.database.connection import AUTH, STATE
from gamed.database.postgresql.connecting import Connector, SessionKind
from gamed.database.postgresql.migrations import prepare_schema
from gamed.database.postgresql.session import PlainSession
from tests.database.postgresql.engines import address_of, wall_ms
from tests.support.postgresql import cluster

KIND = SessionKind("test", (AUTH, STATE), lock_ms=60_000, idle_ms=0)


class EmptyCase(SynchronousTestCase):
    """A test with an empty database."""

    def setUp(self) -> None:
        self.place = cluster().database()
        self.addCleanup(lambda: cluster().drop(self.place.database))
        self.session = self.connect()
        self.progress: list[str] = []

    def connect(self) -> PlainSession:
        """Return a new session, which ends with the test."""
        session = PlainSession(Connector(address_of(self.place), wall_ms).open(KIND))
        self.addCleanup(session.close)
        return session


class SchemaCase(EmptyCase):
    """A test with both schemas."""

    def setUp(self) -> None:
        super().setUp()
        for database in (AUTH, STATE):
            prepare_schema(self.session, database, database, self.progress.append, lambda: None, migrate=False)
