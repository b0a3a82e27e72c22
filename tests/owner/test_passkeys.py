"""The owner's page trusts a passkey that was there when the operator turned it on, and no recovery code."""

from gamed.passkeys import ways_tables
from gamed.players import owner_tables
from tests.account.page_fixtures import HOME as ACCOUNT
from tests.login.fixtures import ANNA, PASSWORD
from tests.owner.site_fixtures import BO, SiteCase
from tests.passkeys.fixtures import PasskeyCase
from tests.passkeys.recovery_fixtures import NOT_ENOUGH, RecoveryCase
from tests.support.covers import covers


class TrustTests(SiteCase, PasskeyCase):
    """Anna is the owner and signed in; she has no passkey yet, and the page is off."""

    page_is_on = False

    def setUp(self) -> None:
        super().setUp()
        self.add_player()
        self.begin()

    def add_player(self) -> None:
        SiteCase.add(self, BO, "bo")

    def make_passkey(self) -> None:
        """Add a passkey; a millisecond passes before and after."""
        self.server.clock.advance(0.001)
        self.assertIn("The passkey is added", PasskeyCase.add(self).text)
        self.server.clock.advance(0.001)

    def is_trusted(self) -> bool:
        """Sign another browser in with the passkey; return whether its session proves who is there."""
        self.browser = self.new_account_browser()
        self.assertIn("Hello, Anna", self.use(self.browser).text)
        query = "SELECT verified FROM browser_session WHERE passkey_id IS NOT NULL ORDER BY created_ms DESC"
        return bool(self.server.rows(query)[0][0])

    def asks_for_code(self) -> bool:
        """Return whether the page asks for a code of the host before it erases a player."""
        return "gamed owner confirm" in self.open(f"/people/{BO}/erase").text

    def test_off(self) -> None:
        """Without the page a passkey is as good as a password."""
        self.make_passkey()
        self.assertTrue(self.is_trusted())

    def test_made_before(self) -> None:
        """A passkey from before the page was turned on needs no code of the host."""
        self.make_passkey()
        self.turn_on()
        self.assertTrue(self.is_trusted())
        self.assertFalse(self.asks_for_code())

    def test_made_since(self) -> None:
        """One that was made since does, until the operator turns the page on again."""
        self.turn_on()
        self.make_passkey()
        self.assertFalse(self.is_trusted())
        self.assertTrue(self.asks_for_code())
        self.server.clock.advance(0.001)
        self.turn_on()
        self.assertTrue(self.is_trusted())
        self.assertFalse(self.asks_for_code())

    def test_trusted_again(self) -> None:
        """It is trusted, too, once the host has trusted all ways of that moment, as `owner claim` does."""
        self.turn_on()
        self.make_passkey()
        self.server.write(lambda c: owner_tables.trust_ways(c, self.server.now_ms()))
        self.assertTrue(self.is_trusted())

    def test_moved_since(self) -> None:
        """A passkey that the owner got by a merge counts as made then, however old it is."""
        self.make_passkey()
        self.turn_on()
        self.server.clock.advance(0.001)
        for player_id, heir_id in ((ANNA, BO), (BO, ANNA)):
            self.server.write(
                lambda c, ids=(player_id, heir_id): ways_tables.move_passkeys(c, *ids, self.server.now_ms())
            )
        self.assertFalse(self.is_trusted())


class RecoveryTests(SiteCase, RecoveryCase):
    """Anna is the owner, the page is on, and somebody has found her recovery codes."""

    def setUp(self) -> None:
        super().setUp()
        SiteCase.add(self, BO, "bo")
        self.begin()

    @covers("threats/85")
    def test_page(self) -> None:
        """A code proves not who is there, so its session sees no page of the owner and does no act there."""
        form = self.open(f"/people/{BO}").form("/do/block")
        self.recover(RecoveryCase.made(self)[0])
        query = "SELECT verified FROM browser_session WHERE provider = 'recovery_code'"
        self.assertEqual(self.server.rows(query), [(0,)])
        self.browser = self.other
        for below in ("", f"/people/{BO}", "/time"):
            page = self.open(below)
            self.assertEqual((page.status, page.heading), (403, "Sign in again"))
            self.assertIn(NOT_ENOUGH, page.text)
        field = self.browser.get(ACCOUNT).forms[0]["fields"]["form"]
        act = {"action": form["action"], "fields": {**form["fields"], "form": field}}
        self.assertEqual((self.act(act).status, self.state(BO)), (403, "active"))
        self.browser.post(page.form("/sign-in"), {"name": "Anna", "password": PASSWORD})
        self.assertEqual(self.open(f"/people/{BO}").status, 200)
