"""The cleanups keep auth.db small over a simulated year (docs/internals/storage.md: What is deleted, and when)."""

from gamed.database.security_events import add_command, mark_logged
from gamed.login.collect import Complete
from gamed.outcomes import LoginFailure
from tests.login.fake_provider import FakeProvider
from tests.login.fixtures import APPROVAL, LoginCase, LoginServer, done
from tests.support.stores import POSTGRESQL

DAY_SECONDS = 24 * 3600
DAYS = 120 if POSTGRESQL else 365
"""The rest of the year shows that the file does not grow; PostgreSQL has none."""
SETTLED = 45
"""Days after which each day deletes as many rows as it adds: a refresh credential and its week live longest."""
TABLES = (
    *("player", "identity", "local_account", "session", "credential"),
    *("login", "authorization_attempt", "limit_bucket", "player_merge"),
    "security_event WHERE logged = 0",
)


class YearTests(LoginCase):
    def test_auth_db_is_bounded(self) -> None:
        """After a year no table and not the file is larger than after the first weeks, with sign-ins, refreshes, unused
        links, pending players and limits."""
        server = self.oauth_server(FakeProvider(), registration=APPROVAL)
        self.let_in(server)
        rows, pages = [], []
        for day in range(DAYS):
            self.day(server, day)
            self.sweep(server)
            rows.append([server.rows(f"SELECT count(*) FROM {table}")[0][0] for table in TABLES])
            if not POSTGRESQL:  # which reuses the space when autovacuum comes by
                pages.append(server.rows("PRAGMA main.page_count")[0][0])
        for table, counts in zip(TABLES, zip(*rows, strict=True), strict=True):
            self.assertLessEqual(max(counts), max(counts[:SETTLED]), table)
        self.assertLessEqual(max(pages, default=0), max(pages[:SETTLED], default=0) * 1.2)
        self.assertGreater(sum(rows[-1]), 50)  # it was no empty year

    def let_in(self, server: LoginServer) -> None:
        """Approve one player."""
        started = server.signed_in("anna")
        server.collect(started, code=server.code(started))
        server.write(lambda connection: connection.execute("UPDATE player SET state = 'active'").close())

    def day(self, server: LoginServer, day: int) -> None:
        started = server.signed_in("anna")
        answer = server.collect(started, code=server.code(started))
        assert isinstance(answer, Complete), answer
        credential = answer.result.pair.refresh.reveal().decode()
        for _ in range(3):
            server.clock.advance(DAY_SECONDS / 4)
            refreshed = done(server.sessions.refresh(credential))
            credential = str(refreshed["refresh_credential"])
            done(server.sessions.authenticate(str(refreshed["access_token"])))
        server.start()
        newcomer = server.signed_in(f"stranger {day}")
        self.assertEqual(server.collect(newcomer, code=server.code(newcomer)).outcome, LoginFailure.PLAYER_PENDING)
        server.write(lambda connection: add_command(connection, "players block", None, "uid:0", server.now_ms()))
        server.clock.advance(DAY_SECONDS / 4)

    def sweep(self, server: LoginServer) -> None:
        """Expire and delete as the service does every minute."""
        done(server.lifecycle.expire())
        done(server.sessions.clean_up())
        done(server.store.delete_idle_buckets(server.now_ms()))
        server.write(mark_logged)
