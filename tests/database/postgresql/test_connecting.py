"""A session is opened only with a server on which a commit is certain, and with the settings that make it so."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from socket import socket
from threading import Thread
from time import monotonic, sleep

from twisted.trial.unittest import SynchronousTestCase

from gamed.config.model import PostgresqlAddress
from gamed.crypto import Secret
from gamed.database.connection import STATE, Connection
from gamed.database.engine import Database
from gamed.database.errors import DatabaseError, DatabaseUnavailable, DatabaseUnreachable
from gamed.database.group_commit import group_commit
from gamed.database.postgresql import connecting
from gamed.database.postgresql.connecting import Connector, SessionKind, refuse
from gamed.database.postgresql.connection import PostgresqlConnection
from gamed.database.postgresql.engine import PostgresqlEngine
from gamed.database.postgresql.error_mapping import PostgresqlError, kind_of
from gamed.database.postgresql.session import PlainSession
from gamed.timestamps import Now
from tests.database.postgresql.engines import address_of, wall_ms
from tests.support.ports import free_port
from tests.support.postgresql import Address, Cluster

KIND = SessionKind("gamed test", schemas=(STATE,))
SETTLED = ("150006", "UTF8", "on", "on", "f", "1000000")


@cache
def own_cluster() -> Cluster:
    """Return a cluster whose settings these tests change."""
    return Cluster(tcp=True)


class RefusalTest(SynchronousTestCase):
    def refusal(self, before_ms: int = 1_000_000, after_ms: int = 1_000_000, **changed: str) -> str:
        """Return why a server with these settings is refused; an empty text if it is not."""
        names = ("version", "encoding", "fsync", "full_page_writes", "standby", "server_ms")
        try:
            refuse([changed.get(name, value) for name, value in zip(names, SETTLED, strict=True)], before_ms, after_ms)
        except PostgresqlError as e:
            return str(e)
        return ""

    def test_good_server(self) -> None:
        """Accept a server with the usual settings, and a clock that differs by half a minute."""
        self.assertEqual(self.refusal(), "")
        self.assertEqual((self.refusal(970_000, 970_000), self.refusal(1_030_000, 1_031_000)), ("", ""))

    def test_slow_answer(self) -> None:
        """Accept a server whose answer took long, if its clock was right at some moment in between."""
        self.assertEqual(self.refusal(900_000, 1_100_000), "")

    def test_clocks(self) -> None:
        """Refuse a server whose clock differs by more than half a minute, in both directions."""
        for instant in (969_000, 1_031_000):
            self.assertIn("differ by 31 seconds. Set both", self.refusal(instant, instant))

    def test_settings(self) -> None:
        """Refuse a server that may lose what it has committed, that is too old, or that has another encoding."""
        self.assertIn("fsync=off", self.refusal(fsync="off"))
        self.assertIn("full_page_writes=off", self.refusal(full_page_writes="off"))
        self.assertIn("PostgreSQL 13 is too old", self.refusal(version="130011"))
        self.assertIn("encoding SQL_ASCII", self.refusal(encoding="SQL_ASCII"))

    def test_standby(self) -> None:
        """Refuse a standby, which may become the primary a moment later."""
        self.assertIn("(25006)", self.refusal(standby="t"))


class ConnectingTest(SynchronousTestCase):
    def setUp(self) -> None:
        self.cluster = own_cluster()
        self.place = self.cluster.database()

    @contextmanager
    def configured(self, **settings: str) -> Iterator[None]:
        """Change settings of the running server, and change them back."""
        before = {name: self.cluster.execute(f"SHOW {name}")[0][0] for name in settings}
        self.configure(settings)
        try:
            yield
        finally:
            self.configure(before)

    def configure(self, settings: Mapping[str, str]) -> None:
        self.cluster.configure(settings)
        self.cluster.reload()
        for name, value in settings.items():
            while self.cluster.execute(f"SHOW {name}") != [(value,)]:
                sleep(0.01)

    def connect(self, address: PostgresqlAddress | None = None, now_ms: Now = wall_ms) -> PostgresqlConnection:
        connection = PostgresqlConnection(Connector(address or address_of(self.place), now_ms), KIND)
        self.addCleanup(connection.close)
        return connection

    def assert_refused(
        self, text: str, address: PostgresqlAddress | None = None, now_ms: Now = wall_ms
    ) -> DatabaseError:
        with self.assertRaises(DatabaseUnavailable) as raised:
            self.connect(address, now_ms)
        self.assertIn(text, str(raised.exception.__cause__))
        return raised.exception

    def test_settings(self) -> None:
        """Set in each session what the server's configuration may have otherwise."""
        with self.configured(synchronous_commit="off", statement_timeout="7s", lock_timeout="0"):
            connection = self.connect()
            for name, value in (
                ("synchronous_commit", "on"),
                ("statement_timeout", "0"),
                ("lock_timeout", "4s"),
                ("idle_in_transaction_session_timeout", "2s"),
                ("search_path", "state"),
                ("application_name", "gamed test"),
                ("client_encoding", "UTF8"),
            ):
                self.assertEqual(connection.rows(f"SHOW {name}"), [(value,)], name)

    def test_refused_setting(self) -> None:
        """Do without a setting that the server's system or version does not have."""
        self.assertEqual(self.connect().rows("SHOW client_connection_check_interval"), [("5s",)])
        for name, value in (("client_connection_check_interval", "-5000"), ("client_connection_checks", "5000")):
            self.patch(connecting, "_WHERE_POSSIBLE", {name: value})
            connection = self.connect()
            self.assertEqual(connection.rows("SHOW client_connection_check_interval"), [("0",)])
            self.assertEqual(connection.rows("SHOW lock_timeout"), [("4s",)])

    def test_refused_value(self) -> None:
        """Refuse a server that does not take a setting on which a commit depends."""
        self.patch(connecting, "_SETTINGS", {"synchronous_commit": "always"})
        self.assert_refused("synchronous_commit")

    def test_unsafe_server(self) -> None:
        """Refuse a server without fsync or without full pages, and use it once they are on."""
        for name in ("fsync", "full_page_writes"):
            with self.configured(**{name: "off"}):
                self.assert_refused(f"{name}=off")
        self.assertEqual(self.connect().rows("SELECT 1"), [(1,)])

    def test_encoding(self) -> None:
        """Refuse a database whose texts are not UTF-8."""
        sql = (
            "CREATE DATABASE latin OWNER gamed TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE_PROVIDER libc LOCALE 'C'"
        )
        self.cluster.execute(sql)
        self.addCleanup(self.cluster.drop, "latin")
        self.assert_refused("encoding SQL_ASCII", address_of(self.cluster.address("latin")))

    def test_clock(self) -> None:
        """Refuse a server whose clock is not that of this machine."""
        self.assert_refused("differ by 60 seconds", now_ms=lambda: wall_ms() - 60_500)

    def test_standby(self) -> None:
        """Refuse a server that accepts no writes; a later attempt may succeed."""
        with self.configured(default_transaction_read_only="on"):
            error = self.assert_refused("")
        self.assertIsInstance(error, DatabaseUnreachable)

    def test_connection_limit(self) -> None:
        """Name the number of connections that gamed needs if the role may have no more."""
        self.cluster.execute(f"ALTER ROLE {self.place.user} CONNECTION LIMIT 0")
        self.addCleanup(self.cluster.execute, f"ALTER ROLE {self.place.user} CONNECTION LIMIT -1")
        error = self.assert_refused(connecting.CONNECTIONS_NEEDED)
        self.assertIsInstance(error, DatabaseUnreachable)
        self.assertIn("seven connections", str(error.__cause__))
        self.assertNotIn("(lost)", str(error.__cause__))

    def test_other_host(self) -> None:
        """Use the second host if the first one refuses the connection."""
        place = self.cluster.database(tcp=True)
        hosts = {"host": "127.0.0.1,127.0.0.1", "port": f"{free_port()},{place.port}", "sslmode": "disable"}
        found = self.connect(self.with_password(place, **hosts)).rows("SELECT 1")
        self.assertEqual(found, [(1,)])

    def test_silent_host(self) -> None:
        """Give up a host that accepts the connection and is silent, and use the second one."""
        self.patch(connecting, "CONNECT_SECONDS", 2)
        place = self.cluster.database(tcp=True)
        with socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            ports = f"{silent.getsockname()[1]},{place.port}"
            hosts = {"host": "127.0.0.1,127.0.0.1", "port": ports, "sslmode": "disable"}
            self.assertEqual(self.connect(self.with_password(place, **hosts)).rows("SELECT 1"), [(1,)])

    def with_password(self, place: Address, **conninfo: str) -> PostgresqlAddress:
        return PostgresqlAddress(dict(address_of(place, **conninfo).conninfo), Secret(place.password.encode()))

    def test_pause(self) -> None:
        """Make no second attempt within a second after one that failed."""
        asked: list[int] = []

        def late_ms() -> int:
            asked.append(wall_ms())
            return 0

        connector = Connector(address_of(self.place), late_ms)
        for _ in range(3):
            self.assertRaises(DatabaseUnavailable, connector.open, KIND)
        self.assertEqual(len(asked), 2)  # before and after the answer of one attempt

    def test_not_replicated(self) -> None:
        """Count a COMMIT as failed that is on the primary, but was not confirmed by the standby."""
        self.cluster.execute("CREATE SCHEMA state AUTHORIZATION gamed", self.place.database)
        engine = PostgresqlEngine(Connector(address_of(self.place), wall_ms), Database(STATE), KIND)
        connection = engine.open()
        self.addCleanup(connection.close)

        def create(opened: Connection) -> None:
            opened.execute("CREATE TABLE kept (n bigint)")

        with self.configured(synchronous_standby_names="nobody"):
            canceller = Thread(target=self.cancel_the_wait)
            canceller.start()
            [outcome] = group_commit(engine, connection, [create])
            canceller.join()
        self.assertIsInstance(outcome.value, DatabaseUnreachable)
        self.assertIn("canceling wait for synchronous replication", str(outcome.value.__cause__))
        [found] = group_commit(engine, connection, [lambda opened: opened.rows("SELECT count(*) FROM kept")])
        self.assertEqual(found, [(0,)])

    def test_plain_session_not_replicated(self) -> None:
        """Count the COMMIT of a session for whole tables in the same way, but no earlier statement's warning."""
        session = PlainSession(Connector(address_of(self.place), wall_ms).open(KIND))
        self.addCleanup(session.close)
        session.rows("BEGIN")
        session.rows("CREATE SCHEMA IF NOT EXISTS public")
        session.rows("DO 'BEGIN RAISE WARNING ''in passing''; END'")
        session.commit()
        session.rows("BEGIN")
        session.rows("CREATE SCHEMA state")
        with self.configured(synchronous_standby_names="nobody"):
            canceller = Thread(target=self.cancel_the_wait)
            canceller.start()
            with self.assertRaises(PostgresqlError) as raised:
                session.commit()
            canceller.join()
        self.assertIs(kind_of(raised.exception.code), DatabaseUnreachable)

    def test_plain_session_rolled_back(self) -> None:
        """Report a COMMIT that rolled back, because a statement had failed before."""
        session = PlainSession(Connector(address_of(self.place), wall_ms).open(KIND))
        self.addCleanup(session.close)
        session.rows("BEGIN")
        self.assertRaises(PostgresqlError, session.rows, "SELECT 1 / 0")
        self.assertRaises(PostgresqlError, session.commit)
        session.rows("SELECT 1")

    def cancel_the_wait(self) -> None:
        """Cancel the wait for a standby as an administrator does."""
        sql = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        deadline = monotonic() + 10
        while not self.cluster.execute(sql) and monotonic() < deadline:
            sleep(0.05)
