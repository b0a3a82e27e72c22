"""The cleanups keep auth.db small over a simulated year (PROTOCOL 3.7 to 3.9)."""

from gamed.login.collect import Complete
from gamed.outcomes import LoginFailure
from gamed.players import command_log
from tests.login.fake_provider import FarProvider
from tests.login.fixtures import APPROVAL, Desk, HandoffCase, done

DAY_SECONDS = 24 * 3600
DAYS = 365
SETTLED = 45
"""Days after which each day deletes as many rows as it adds: a refresh credential and its week live longest."""
TABLES = (
    *("player", "identity", "local_account", "session", "access_token", "refresh_credential"),
    *("login", "authorization_attempt", "limit_bucket", "player_merge", "command_log"),
)


class YearTests(HandoffCase):
    def test_auth_db_is_bounded(self) -> None:
        """After a year no table and not the file is larger than after the first weeks, with sign-ins, refreshes, unused
        links, pending players and limits."""
        desk = self.oauth(FarProvider(), registration=APPROVAL)
        self.let_in(desk)
        rows, pages = [], []
        for day in range(DAYS):
            self.day(desk, day)
            self.sweep(desk)
            rows.append([desk.rows(f"SELECT count(*) FROM {table}")[0][0] for table in TABLES])
            pages.append(desk.rows("PRAGMA main.page_count")[0][0])
        for table, counts in zip(TABLES, zip(*rows, strict=True), strict=True):
            self.assertLessEqual(max(counts), max(counts[:SETTLED]), table)
        self.assertLessEqual(max(pages), max(pages[:SETTLED]) * 1.2)
        self.assertGreater(sum(rows[-1]), 50)  # it was no empty year

    def let_in(self, desk: Desk) -> None:
        """Approve one player."""
        started = desk.signed_in("anna")
        desk.collect(started, code=desk.code(started))
        desk.write(lambda connection: connection.execute("UPDATE player SET state = 'active'").close())

    def day(self, desk: Desk, day: int) -> None:
        started = desk.signed_in("anna")
        answer = desk.collect(started, code=desk.code(started))
        assert isinstance(answer, Complete), answer
        credential = answer.result.pair.refresh.reveal().decode()
        for _ in range(3):
            desk.clock.advance(DAY_SECONDS / 4)
            refreshed = done(desk.sessions.refresh(credential))
            credential = str(refreshed["refresh_credential"])
            done(desk.sessions.authenticate(str(refreshed["access_token"])))
        desk.start()
        newcomer = desk.signed_in(f"stranger {day}")
        self.assertEqual(desk.collect(newcomer, code=desk.code(newcomer)).outcome, LoginFailure.PLAYER_PENDING)
        desk.write(lambda connection: command_log.add_entry(connection, "players block", None, "uid:0", desk.now_ms()))
        desk.clock.advance(DAY_SECONDS / 4)

    def sweep(self, desk: Desk) -> None:
        """As the service does every minute."""
        done(desk.lifecycle.expire())
        done(desk.sessions.clean_up())
        done(desk.store.delete_idle_buckets(desk.now_ms()))
        waiting = desk.write(command_log.waiting_entries)
        desk.write(lambda connection: command_log.delete_entries(connection, waiting[-1].number))
