"""A player, or an address without an account, adds few rows of security events, however much it does."""

from collections import Counter

from gamed.database.event_counts import EventCount
from gamed.database.security_events import list_activity, list_events
from gamed.players.tables import add_local_player
from tests.account.page_fixtures import HOME
from tests.login.fixtures import ANNA, PASSWORD_HASH, done
from tests.passkeys.authenticator import Authenticator
from tests.passkeys.recovery_fixtures import RecoveryCase
from tests.support.covers import covers

ROUNDS, PLAYERS = 12, 5
DAY = 24 * 3600


class EventRowTests(RecoveryCase):
    def stored(self) -> list[EventCount]:
        """Return what is stored once the events that wait are written."""
        done(self.server.audit.flush())
        return self.server.write(lambda connection: list_events(connection, 0))

    def change_much(self) -> None:
        """Do once what a player can do without end, as a thief of a session can."""
        device = Authenticator()
        self.browser.sign_in()
        self.add(device)
        passkey_id = self.id_of()
        page = self.browser.get(f"{HOME}/passkeys/{passkey_id}")
        self.browser.post(page.form("/rename-passkey"), {"passkey_name": "Tablet"})
        self.use(self.new_account_browser(), device)
        self.execute("UPDATE passkey SET sign_count = 1000")  # as if a copy of the device had signed in so often
        self.use(self.new_account_browser(), device)
        self.remove(passkey_id)
        self.made()
        self.recover("BBBBB-BBBBB-BBBBB-BBBBB")
        self.other.sign_in(password="wrong password")
        self.site.request("PATCH", "/auth/player", {**self.play(), "Content-Type": "application/json"}, b'{"name":"A"}')
        self.browser.post(self.browser.get(HOME).form("/sign-out"))

    @covers("threats/82")
    def test_player(self) -> None:
        """Count what a player repeats in one hour, whichever passkeys it is about, with every warning."""
        self.change_much()
        once = self.stored()
        for _ in range(ROUNDS - 1):
            self.server.clock.advance(60)
            self.change_much()
        rows = self.stored()
        self.assertEqual({each.key.event for each in rows}, {each.key.event for each in once})
        times = Counter({each.key.event: each.times for each in rows})
        self.assertEqual(times["passkey_count_back"], ROUNDS)
        self.assertEqual(times["passkey_added"], ROUNDS)
        self.assertEqual(len(rows), len(once))
        mine = self.server.write(lambda connection: list_activity(connection, ANNA, 100))
        self.assertEqual(len(mine), len(rows))

    def test_guesser(self) -> None:
        """A day of wrong passwords for every name adds one row for each player, and those of unknown names."""
        names = [f"player-{number}" for number in range(PLAYERS)]
        for number, name in enumerate(names):
            account = {"player_id": f"ply_{number:022d}", "name": name, "password": PASSWORD_HASH}
            self.server.write(
                lambda c, account=account: add_local_player(c, self.server.keys, **account, now_ms=self.server.now_ms())
            )
        midnight = self.server.now_ms() % (DAY * 1000) // 1000
        self.server.clock.advance(DAY - midnight)
        for _ in range(24):
            for name in [*names, *(f"nobody-{name}" for name in names)]:
                self.other.sign_in(name, "wrong password")
            self.stored()
            self.server.clock.advance(3600)
        rows = self.stored()
        self.assertEqual(sum(each.times for each in rows), 24 * 2 * PLAYERS)
        self.assertEqual([each.times for each in rows if each.key.player_id], [24] * PLAYERS)
        self.assertEqual([each.times for each in rows if not each.key.player_id], [PLAYERS] * 24)
