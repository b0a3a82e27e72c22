"""Engines for tests of PostgreSQL, each with an empty database of its own."""

from collections.abc import Callable, Mapping
from functools import cache
from time import time_ns

from twisted.trial.unittest import SynchronousTestCase

from gamed.config.model import PostgresqlAddress
from gamed.crypto import Secret
from gamed.database.connection import STATE
from gamed.database.engine import Database
from gamed.database.postgresql.connecting import Connector, SessionKind
from gamed.database.postgresql.connection import PostgresqlConnection
from gamed.database.postgresql.engine import PostgresqlEngine
from tests.support.postgresql import PASSWORD, Address, Cluster, cluster
from tests.support.relay import Relay

Joined = Callable[[PostgresqlConnection], object]


def wall_ms() -> int:
    """Return the time that the server's clock should have, too."""
    return time_ns() // 1_000_000


def address_of(place: Address, **conninfo: str) -> PostgresqlAddress:
    """Return the address of a database as the configuration has it."""
    values = {"host": place.host, "port": str(place.port), "user": place.user, "dbname": place.database}
    return PostgresqlAddress({**values, **conninfo})


class EngineCase(SynchronousTestCase):
    """A test with a schema `state`, which has one table."""

    def setUp(self) -> None:
        self.cluster = self.make_cluster()
        self.place = self.cluster.database()
        self.cluster.execute("CREATE SCHEMA state AUTHORIZATION gamed", self.place.database)
        self.engine = self.make_engine()
        self.connection = self.open(self.engine)
        self.engine.begin_writing(self.connection, ())
        self.connection.execute("CREATE TABLE kept (n bigint PRIMARY KEY, data bytea, text text)")
        self.connection.commit()

    def make_cluster(self) -> Cluster:
        """Return the cluster for the database of the test."""
        return cluster()

    def make_engine(self, joined: Joined = lambda connection: None, **values: object) -> PostgresqlEngine:
        """Return an engine that writes `state`; `values` are those of its sessions."""
        kind = SessionKind("gamed state", **{"schemas": (STATE,), **values})  # type: ignore[arg-type]
        return PostgresqlEngine(Connector(self.address(), wall_ms), Database(STATE), kind, joined)

    def address(self) -> PostgresqlAddress:
        """Return the address of the database of the test."""
        return address_of(self.place)

    def open(self, engine: PostgresqlEngine) -> PostgresqlConnection:
        """Return a new connection, which ends with the test."""
        connection = engine.open()
        self.addCleanup(connection.close)
        return connection

    def stored(self) -> list[int]:
        """Return the numbers of all rows, read by another session."""
        return [n for (n,) in self.cluster.execute("SELECT n FROM state.kept ORDER BY n", self.place.database)]

    def values(self, parameters: Mapping[str, object], columns: str) -> object:
        """Return the row of a SELECT without a table."""
        return self.connection.execute(f"SELECT {columns}", parameters).fetchone()


@cache
def tcp_cluster() -> Cluster:
    """Return the cluster of this process that listens on 127.0.0.1, too."""
    return Cluster(tcp=True)


class RelayedCase(EngineCase):
    """A test of an engine whose server's answers can be changed on their way."""

    def make_cluster(self) -> Cluster:
        self.relay = Relay(tcp_cluster().port)
        self.addCleanup(self.relay.close)
        return tcp_cluster()

    def address(self) -> PostgresqlAddress:
        place = Address("127.0.0.1", self.relay.port, self.place.database)
        return PostgresqlAddress(address_of(place).conninfo, Secret(PASSWORD.encode()))
