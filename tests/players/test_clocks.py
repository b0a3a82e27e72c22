"""Instants that a machine with another clock wrote: what ends a proof, and what begins one (gamed.timestamps)."""

from msgspec.structs import replace
from twisted.trial.unittest import SynchronousTestCase

from gamed.crypto import Keys, Secret
from gamed.database.connection import AUTH
from gamed.passkeys import tables as passkey_tables
from gamed.passkeys.ceremony import CEREMONY_MS, Ceremony
from gamed.passkeys.errors import PasskeyRefused
from gamed.players import owner_tables, tables
from gamed.players.model import CodeCheck
from gamed.players.owner_tables import CODE_MS, ConfirmationCode
from gamed.players.tables import password_changed, password_tag
from gamed.sessions.browser_rules import BROWSER_IDLE_MS, BrowserName, NewBrowserSession
from gamed.sessions.browser_tables import authenticate_browser, list_browsers, open_browser, player_of_browser
from gamed.sessions.errors import TokenExpired
from gamed.timestamps import CLOCKS_MS
from tests.sessions.fixtures import ANNA, NOW_MS, Counting
from tests.support.covers import covers
from tests.support.stores import open_database

OLD, NEW = "$argon2id$old", "$argon2id$new"
MINUTE_MS = 60_000


class ClockCase(SynchronousTestCase):
    """A player on several machines, whatever engine the test has; `alone()` puts it on one."""

    def setUp(self) -> None:
        self.connection = open_database(AUTH)
        self.addCleanup(self.connection.close)
        self.connection.clocks_ms = CLOCKS_MS
        self.keys = Keys.of(Secret(bytes(32)), Counting())
        player = {"player_id": ANNA, "name": "Anna", "password": OLD}
        tables.add_local_player(self.connection, self.keys, **player, now_ms=NOW_MS - 60 * MINUTE_MS)

    def alone(self) -> None:
        self.connection.clocks_ms = 0


@covers("threats/89")
class PasswordTests(ClockCase):
    """A sign-in that began at NOW_MS, and the password of the account."""

    def changed(self, password_ms: int, tag: bytes = b"", *, now_ms: int = NOW_MS + MINUTE_MS) -> bool:
        tables.set_password(self.connection, ANNA, NEW, password_ms)
        return password_changed(self.connection, ANNA, NOW_MS, now_ms, tag)

    def test_one_machine(self) -> None:
        """A change since the beginning counts, an earlier one does not, nor one before the clock was set back."""
        self.alone()
        for tag in (b"", password_tag(NEW)):
            found = [self.changed(NOW_MS + each, tag) for each in (-1, 0, MINUTE_MS, MINUTE_MS + 1)]
            self.assertEqual(found, [False, True, True, False])

    def test_typed_password(self) -> None:
        """Another password than the typed one counts as changed, whatever the clocks show."""
        for each in (-(10**9), -CLOCKS_MS, -1, 0, CLOCKS_MS, 10**9):
            self.assertTrue(self.changed(NOW_MS + each, password_tag(OLD)))

    def test_new_password(self) -> None:
        """The typed password is valid at once on each machine after its change, so that devices can sign in again."""
        for each in (-CLOCKS_MS, -1, MINUTE_MS + 1, MINUTE_MS + CLOCKS_MS):
            self.assertFalse(self.changed(NOW_MS + each, password_tag(NEW)))

    def test_no_tag(self) -> None:
        """Without the typed password a change counts as later if the clocks allow it, in either direction."""
        edges = -CLOCKS_MS - 1, -CLOCKS_MS, 0, MINUTE_MS + CLOCKS_MS, MINUTE_MS + CLOCKS_MS + 1
        self.assertEqual([self.changed(NOW_MS + each) for each in edges], [False, True, True, True, False])

    def test_unlinked(self) -> None:
        """A password that was removed is changed."""
        tables.unlink(self.connection, ANNA, "local")
        self.assertTrue(password_changed(self.connection, ANNA, NOW_MS, NOW_MS, password_tag(OLD)))

    def test_tags(self) -> None:
        """Passwords have tags that differ, of 16 bytes."""
        self.assertEqual((len(password_tag(OLD)), password_tag(OLD) == password_tag(NEW)), (16, False))


class BrowserTests(ClockCase):
    """A browser session that began at NOW_MS."""

    def setUp(self) -> None:
        super().setUp()
        self.new = NewBrowserSession.generate(Counting(), BrowserName())
        player = {"player_id": ANNA, "provider": "local", "verified": True}
        open_browser(self.connection, self.keys.indexer, self.new, **player, now_ms=NOW_MS)

    def lives(self, now_ms: int) -> bool:
        """Return whether it does, which all three queries know."""
        listed = list_browsers(self.connection, ANNA, now_ms)
        player_id = player_of_browser(self.connection, self.new.session_id, now_ms)
        try:
            authenticate_browser(self.connection, self.keys.indexer, self.new.token, now_ms)
        except TokenExpired:
            self.assertEqual((listed, player_id), ([], None))
            return False
        self.assertEqual((len(listed), player_id), (1, ANNA))
        return True

    def test_several_machines(self) -> None:
        """It lives at a machine whose clock is behind, and not before that."""
        self.assertEqual([self.lives(NOW_MS - each) for each in (0, CLOCKS_MS, CLOCKS_MS + 1)], [True, True, False])
        self.assertFalse(self.lives(NOW_MS + BROWSER_IDLE_MS))

    def test_one_machine(self) -> None:
        """It has ended if the clock of the only machine was set back."""
        self.alone()
        self.assertEqual([self.lives(NOW_MS - each) for each in (0, 1)], [True, False])


class CodeTests(ClockCase):
    """A confirmation code that was made at NOW_MS."""

    def used(self, now_ms: int) -> CodeCheck:
        code = ConfirmationCode.generate(Counting(), NOW_MS)
        owner_tables.store_code(self.connection, self.keys.indexer, code)
        return owner_tables.use_code(self.connection, self.keys.indexer, code.code, now_ms)

    def test_several_machines(self) -> None:
        """It is right where the clock is behind, for as long as it lives."""
        for now_ms in (NOW_MS - CLOCKS_MS, NOW_MS, NOW_MS + CODE_MS - 1):
            self.assertIs(self.used(now_ms), CodeCheck.RIGHT)
        for now_ms in (NOW_MS - CLOCKS_MS - 1, NOW_MS + CODE_MS):
            self.assertIs(self.used(now_ms), CodeCheck.NONE)

    def test_one_machine(self) -> None:
        """It has ended if the clock of the only machine was set back."""
        self.alone()
        self.assertIs(self.used(NOW_MS - 1), CodeCheck.NONE)


class CeremonyTests(ClockCase):
    """A page with a passkey's challenge that was made at NOW_MS."""

    def test_machine_behind(self) -> None:
        """Its response is taken where the clock is behind."""
        ceremony = Ceremony.begin(Counting(), NOW_MS)
        sealed = ceremony.seal(self.keys, "row")
        for now_ms in (NOW_MS - CLOCKS_MS, NOW_MS + CEREMONY_MS - 1):
            self.assertEqual(Ceremony.unseal(self.keys, "row", sealed, now_ms), ceremony)
        for now_ms in (NOW_MS - CLOCKS_MS - 1, NOW_MS + CEREMONY_MS):
            self.assertRaises(PasskeyRefused, Ceremony.unseal, self.keys, "row", sealed, now_ms)

    def test_used_once(self) -> None:
        """A machine whose clock is ahead does not forget a challenge that another one would still take."""
        ceremony = Ceremony.begin(Counting(), NOW_MS)
        other = replace(ceremony, challenge=b"other")
        end_ms = NOW_MS + CEREMONY_MS
        for challenge, now_ms, first in (
            (ceremony, NOW_MS, True),
            (other, end_ms - 1 + CLOCKS_MS, True),
            (ceremony, end_ms - 1, False),
        ):
            used = passkey_tables.use_challenge(self.connection, self.keys.indexer, challenge, now_ms)
            self.assertIs(used, first)
