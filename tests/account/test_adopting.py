"""A player who signs in with a provider brings the account into theirs that they had in local mode."""

from typing import Any

from twisted.internet.defer import fail

from gamed.account import sentences
from gamed.account.service import AdoptCommand
from gamed.account.store import adopt_account, merge_players
from gamed.database.errors import DatabaseUnreachable, new_error
from gamed.login import sentences as login_sentences
from gamed.login.local import FormError
from gamed.players import tables as player_tables
from gamed.players.errors import AdoptRefusal
from gamed.sessions.credentials import RECENT_MS, AuthenticatedSession
from tests.account.page_fixtures import BERT, HOME, AccountCase
from tests.login.browser_fixtures import Page
from tests.login.fixtures import ANNA, PASSWORD, PASSWORD_HASH, done
from tests.support.covers import covers

OLD, NEW = b"\x01old", b"\x02new"
SUMMARY = "Played here before with a name and password?"


class AdoptCase(AccountCase):
    """Anna has an account of local mode, with a save; she has signed in at a provider, as a new player."""

    def setUp(self) -> None:
        self.begin()

    def begin(self, **terms: int) -> None:
        self.serve_providers(**terms)
        self.deck = self.play(device_name="Deck")
        self.put(self.deck, "auto", OLD)
        self.new = self.play_at("discord")
        self.home = self.sign_in_at("discord")
        self.server.clock.advance(1)

    def adopt(self, name: str = "Anna", password: str = PASSWORD) -> Page:
        form = self.home.form("/adopt")
        return self.browser.post(form, {"old_account": name, "old_password": password})

    def players(self) -> list[str]:
        return [player_id for (player_id,) in self.server.rows("SELECT player_id FROM player ORDER BY player_id")]

    def unchanged(self) -> None:
        """Assert that both accounts are as before."""
        self.assertEqual(self.players(), sorted([ANNA, self.player_id]))
        self.assertEqual(self.read(self.deck, "auto"), OLD)
        self.assertEqual(self.server.rows("SELECT player_id FROM local_account"), [(ANNA,)])


class AdoptTests(AdoptCase):
    def test_adopt(self) -> None:
        """The saves and the name of the old account are those of this one; the old account and its devices are gone."""
        page = self.adopt()
        self.assertIn(sentences.NOTICES["adopted"].source, page.text)
        self.assertEqual(self.players(), [self.player_id])
        self.assertEqual(self.read(self.new, "auto"), OLD)
        self.assertEqual(self.site.request("GET", "/auth/sessions", self.deck).status, 401)
        self.assertEqual(self.server.rows("SELECT player_id FROM local_account"), [(self.player_id,)])
        self.assertIn(f"players_merged player={self.player_id} from={ANNA}", self.server.security)
        query = "SELECT linked_ms FROM local_account WHERE player_id = :player_id"
        self.assertEqual(self.server.rows(query, player_id=self.player_id), [(self.server.now_ms(),)])
        self.assertNotIn(SUMMARY, page.text)

    def test_both_have_a_save(self) -> None:
        """Where both have a save, this account's stays current and the old one's is a copy to choose."""
        self.put(self.new, "auto", NEW)
        page = self.adopt()
        self.assertIn("2 copies to choose from", page.text)
        self.assertEqual(self.read(self.new, "auto"), NEW)
        self.browser.post(self.browser.get(f"{HOME}/saves/auto").form("/keep"))
        self.assertEqual(self.read(self.new, "auto"), OLD)

    def test_waiting_game(self) -> None:
        """A game that waits for changes gets the saves at once."""
        cursor = self.site.request("GET", "/game/saves", self.new).json["cursor"]
        call = self.site.send("GET", f"/game/saves?since={cursor}", {**self.new, "Prefer": "wait=20"})
        self.assertEqual(call.answers, [])
        self.adopt()
        self.assertEqual([save["slot"] for save in call.answer.json["saves"]], ["auto"])

    def test_interrupted(self) -> None:
        """The next process finishes an adoption that another one began before it ended."""
        now_ms = self.server.now_ms()
        caller = AuthenticatedSession(self.player_id, "", False, now_ms)
        command = AdoptCommand(caller, ANNA, now_ms, now_ms)
        self.assertIsNone(self.server.write(lambda c: adopt_account(c, self.server.keys, command)))
        self.assertEqual(self.site.request("GET", "/game/saves/auto", self.new).code, "save_not_found")
        self.assertEqual(done(self.account.removals.resume()), 1)
        self.assertEqual((self.read(self.new, "auto"), self.players()), (OLD, [self.player_id]))

    def test_after_unfinished_merge(self) -> None:
        """Saves that a merge has not moved to the old account yet arrive here, not at an id that nobody has."""
        self.server.write(lambda c: player_tables.create_player(c, BERT, self.server.now_ms()))
        self.put(self.play(BERT), "other", b"\x01bert's")
        now_ms = self.server.now_ms()
        self.server.write(lambda c: merge_players(c, self.server.keys, BERT, ANNA, now_ms))
        self.server.clock.advance(1)
        self.assertIn(sentences.NOTICES["adopted"].source, self.adopt().text)
        self.assertEqual(self.read(self.new, "other"), b"\x01bert's")
        self.assertEqual(self.players(), [self.player_id])
        saves = done(self.server.databases.reads.submit(lambda c: c.rows("SELECT DISTINCT player_id FROM save")))
        self.assertEqual(saves, [(self.player_id,)])

    def test_postponed(self) -> None:
        """An adoption that has begun is not shown as one that failed: the clean-up ends it."""
        state = self.server.databases.state
        submit, calls = state.submit, []

        def fail_later(*args: Any, **kwargs: Any) -> Any:
            """Accept the check before the mark alone."""
            calls.append(args)
            return submit(*args, **kwargs) if len(calls) == 1 else fail(new_error(DatabaseUnreachable))

        state.submit = fail_later  # type: ignore[method-assign]
        page = self.adopt()
        state.submit = submit  # type: ignore[method-assign]
        self.assertEqual(page.status, 200)
        self.assertIn(sentences.NOTICES["adopted"].source, page.text)
        self.assertEqual(done(self.account.removals.resume()), 1)
        self.assertEqual((self.read(self.new, "auto"), self.players()), (OLD, [self.player_id]))


class FormTests(AdoptCase):
    def test_said_before(self) -> None:
        """The page says what will happen; it has the form while some account has only a name and a password."""
        for part in (SUMMARY, "Its saves become yours.", "you choose between the two here", "cannot be undone"):
            self.assertIn(part, self.home.text)
        self.server.write(lambda c: c.execute("DELETE FROM local_account").rowcount)
        self.assertNotIn(SUMMARY, self.browser.get(HOME).text)

    def test_local_mode(self) -> None:
        """A server in local mode has no such form and no such action."""
        self.serve()
        self.browser = self.new_account_browser()
        self.home = self.browser.sign_in()
        self.assertNotIn(SUMMARY, self.home.text)
        form = {**self.home.form("/sign-out"), "action": f"{HOME}/do/adopt"}
        page = self.browser.post(form, {"old_account": "Anna", "old_password": PASSWORD})
        self.assertEqual((page.status, self.players()), (404, [ANNA]))


class RefusedTests(AdoptCase):
    def refused(self, page: Page, sentence: str, status: int = 400) -> None:
        """Assert that the form is shown again with a sentence and the name, and never the password."""
        self.assertEqual((page.status, sentence in page.text), (status, True), page.text)
        self.assertEqual(page.form("/adopt")["fields"]["old_account"], "Anna")
        self.assertNotIn(PASSWORD, page.html)
        self.assertIn("<details open>", page.html)

    @covers("threats/11")
    def test_wrong_password(self) -> None:
        """A wrong password changes nothing, and is recorded as at a sign-in; so is one of an unknown name."""
        page = self.adopt(password="something else")
        self.refused(page, login_sentences.REFUSED[FormError.WRONG].source, 200)
        unknown = self.adopt("Nobody", "something else")
        self.assertIn(login_sentences.REFUSED[FormError.WRONG].source, unknown.text)
        lines = [line for line in self.server.security if "outcome=wrong_password" in line]
        self.assertEqual([f"player={ANNA}" in line for line in lines], [True, False])
        self.unchanged()

    def test_limit(self) -> None:
        """Guessing is limited as at a sign-in."""
        self.begin(passwords_per_minute=2)
        statuses = [self.adopt(password="something else").status for _ in range(3)]
        self.assertEqual(statuses, [200, 200, 429])
        self.assertEqual(self.adopt().status, 429)
        self.unchanged()

    def test_needs_a_recent_sign_in(self) -> None:
        """Ten minutes after the sign-in the page asks for another one, and has the name again, not the password."""
        self.server.clock.advance(RECENT_MS / 1000 + 1)
        asked = self.adopt()
        self.assertEqual((asked.status, asked.heading), (403, "Sign in again"))
        self.assertNotIn(PASSWORD, asked.html)
        away = self.browser.post(asked.form("/sign-in", provider="discord"))
        page = self.browser.get(self.at_provider(away))
        self.assertEqual(page.form("/adopt")["fields"]["old_account"], "Anna")
        self.assertNotIn(PASSWORD, page.html)
        self.assertIn(sentences.NOTICES["again"].source, page.text)
        self.unchanged()

    def test_own_account(self) -> None:
        """The account that is part of this one already stays."""
        self.adopt()
        self.refused(self.adopt(), sentences.ADOPT_REFUSED[AdoptRefusal.OWN].source)

    @covers("threats/11")
    def test_other_way_to_sign_in(self) -> None:
        """An account with a provider of its own is not taken by its password."""
        linked = "INSERT INTO identity SELECT :i, :p, 'google', realm_index, linked_ms, last_used_ms FROM identity"
        self.server.write(lambda c: c.execute(linked, {"i": b"g" * 32, "p": ANNA}).rowcount)
        self.refused(self.adopt(), sentences.ADOPT_REFUSED[AdoptRefusal.LINKED].source)
        self.unchanged()

    def test_owner(self) -> None:
        """The owner's account stays the owner's: its password alone, typed on a public page, gives no server away."""
        self.server.write(lambda c: player_tables.set_owner(c, ANNA))
        self.refused(self.adopt(), sentences.ADOPT_REFUSED[AdoptRefusal.LINKED].source)
        self.unchanged()
        self.assertEqual(self.server.rows("SELECT player_id FROM player WHERE owner = 1"), [(ANNA,)])

    def test_blocked(self) -> None:
        """A blocked player's account stays blocked."""
        self.server.write(lambda c: player_tables.set_state(c, ANNA, "blocked"))
        self.refused(self.adopt(), sentences.ADOPT_REFUSED[AdoptRefusal.BLOCKED].source)
        self.assertEqual(self.players(), sorted([ANNA, self.player_id]))

    def test_changed_meanwhile(self) -> None:
        """A password that was changed after it was checked gives nothing away."""
        now_ms = self.server.now_ms()
        self.server.write(lambda c: player_tables.set_password(c, ANNA, PASSWORD_HASH, now_ms))
        command = AdoptCommand(AuthenticatedSession(self.player_id, "", False, now_ms), ANNA, now_ms, now_ms)
        refusal = self.server.write(lambda c: adopt_account(c, self.server.keys, command))
        self.assertIs(refusal, AdoptRefusal.PASSWORD)
        self.unchanged()
