"""The periodic work for players finishes removals and logs commands (docs/owners/monitoring.md)."""

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from gamed.account import store as player_store
from gamed.account.build import build_account
from gamed.audit import SecurityEvent
from gamed.database import security_events
from gamed.database.connection import Connection
from gamed.database.errors import DatabaseError, DatabaseUnavailable
from gamed.database.security_events import add_command
from gamed.database.sqlite.offline import run_transaction
from gamed.ops.stored_events import CommandLogger
from tests.database.damaged import Server, prepare
from tests.login.fixtures import done
from tests.sessions.fixtures import ANNA, NOW_MS
from tests.sessions.server import SessionTestCase
from tests.support.components import service_context
from tests.support.databases import data_folder, file_databases, unwritable
from tests.support.stores import POSTGRESQL, sqlite_files


class PeriodicTests(SessionTestCase):
    def setUp(self) -> None:
        super().setUp()
        server = self.server
        context = service_context(server.issuer.keys, server.databases, server.audit, lambda: NOW_MS)
        self.players = build_account(context, server.revoked.append)

    def erase_by_command(self) -> None:
        """Do what a command does before it is killed."""

        def transaction(connection: Connection) -> None:
            add_command(connection, "players erase", ANNA, "uid:0", NOW_MS)
            player_store.mark_removed(connection, ANNA, NOW_MS)

        self.wait(self.server.databases.auth.submit(transaction))

    def test_killed_command(self) -> None:
        """The command is logged once, and the erasure is finished."""
        self.erase_by_command()
        for _ in range(2):
            self.wait(self.players.clean_up())
        events = [line.split()[0] for line in self.server.audit.lines]
        self.assertEqual(events, ["command", "erased"])
        self.assertEqual(self.wait(self.server.rows("SELECT count(*) FROM player")), [(0,)])

    def test_saves_unavailable(self) -> None:
        """If state.db is unavailable, commands are still logged; the error is raised, and the rest is done later."""
        self.erase_by_command()
        self.server.databases._state.unavailable_as = DatabaseUnavailable
        self.refused(self.players.clean_up(), DatabaseUnavailable)
        self.assertEqual(len(self.server.audit.lines), 1)
        self.server.databases._state.unavailable_as = None
        self.wait(self.players.clean_up())
        self.assertEqual(len(self.server.audit.lines), 2)


@sqlite_files("a service without sockets, whose threads are the test's own; its clock is the same")
class UsualIntervals(SynchronousTestCase):
    def test_once_a_minute(self) -> None:
        """The service reads once a minute what commands have done; tests.e2e.test_erased does not wait for that."""
        prepare(data := data_folder(self))
        service = Server(data).service
        for task in service._periodic_tasks:
            task.start()
        auth = data / "auth.db"
        run_transaction(auth, lambda c: add_command(c, "players block", ANNA, "uid:0", NOW_MS))
        logged = []
        for seconds in (59, 1):
            service._context.reactor.advance(seconds)
            logged += run_transaction(auth, lambda c: c.execute("SELECT logged FROM security_event").fetchall())
        self.assertEqual(logged, [(0,), (1,)])


class CommandLines(list[str]):
    """An audit log of the commands alone."""

    def record(self, event: SecurityEvent, **values: str) -> None:
        self.append(values["command"])


class TwoProcesses(SynchronousTestCase):
    """Two services on one data folder."""

    def test_each_command_is_logged_once(self) -> None:
        """A process that read a command before another process logged it does not log it again."""
        folder, lines = data_folder(self), CommandLines()
        stores = [file_databases(self, data=folder) for _ in range(2)]
        first, second = (CommandLogger(reads=each.reads, writes=each.auth, audit=lines) for each in stores)
        done(stores[0].auth.submit(lambda c: add_command(c, "players block", ANNA, "uid:0", NOW_MS)))
        done(stores[0].auth.pause())
        late = Deferred.fromCoroutine(first.log())
        self.assertEqual(done(second.log()), ["players block"])
        stores[0].auth.resume()
        self.assertEqual(self.successResultOf(late), [])
        self.assertEqual(lines, ["players block"])

    def test_the_oldest_comes_first(self) -> None:
        """Commands are logged in the order in which they ran, also more than one transaction takes."""
        self.patch(security_events, "LOGGED_ROWS", 2)
        stores, lines = file_databases(self), CommandLines()
        commands = [f"command {number}" for number in range(5)]
        for command in commands:
            done(stores.auth.submit(lambda c, text=command: add_command(c, text, None, "uid:0", NOW_MS)))
        self.assertEqual(done(CommandLogger(reads=stores.reads, writes=stores.auth, audit=lines).log()), commands)
        self.assertEqual(lines, commands)

    def test_failed_commit(self) -> None:
        """A command whose deletion is not committed is not logged; a later attempt logs it."""
        stores, lines = file_databases(self), CommandLines()
        logger = CommandLogger(reads=stores.reads, writes=stores.auth, audit=lines)
        done(stores.auth.submit(lambda c: add_command(c, "players block", None, "uid:0", NOW_MS)))
        writable = unwritable(stores.auth)
        self.failureResultOf(Deferred.fromCoroutine(logger.log()), DatabaseError)
        self.assertEqual(lines, [])
        writable()
        for connection in [] if POSTGRESQL else stores.auth.thread.pool.connections.values():
            connection.execute("PRAGMA query_only = OFF")
        done(logger.log())
        self.assertEqual(lines, ["players block"])
