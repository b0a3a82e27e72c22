"""The pages about recovery codes: made once, found again after errors, and named after a new password."""

from gamed.account import sentences
from gamed.audit import SecurityEvent
from gamed.database.event_counts import EventCount, EventKey
from gamed.owner.sentences import UNKNOWN, sentence_of
from gamed.pages.model import Text
from gamed.passkeys.limits import CODES as MOST
from tests.account.page_fixtures import HOME
from tests.account.test_links import LinkCase
from tests.login.browser_fixtures import Page
from tests.login.fixtures import ANNA, PASSWORD
from tests.passkeys.authenticator import Authenticator
from tests.passkeys.fixtures import NEW
from tests.passkeys.recovery_fixtures import CODES, RecoveryCase, shown_codes

KEPT = "Your recovery codes still work"


class PageTests(RecoveryCase, LinkCase):
    """The account's pages about a player's codes."""

    def test_reload(self) -> None:
        """The form makes codes once: a reload of the page that shows them leads to the question before."""
        self.browser.sign_in()
        form = self.browser.get(CODES).form("/make-codes")
        codes = shown_codes(self.browser.post(form))
        self.server.clock.advance(1)
        again = self.browser.post(form)
        self.assertEqual((again.status, again.heading, shown_codes(again)), (200, "Recovery codes", []))
        self.assertIn("Hello", self.recover(codes[0]).text)
        self.assertEqual(len(shown_codes(self.browser.post(again.form("/make-codes")))), MOST)

    def test_name_that_cannot_be_read(self) -> None:
        """Codes are made only when the page that shows them has all it needs."""
        self.browser.sign_in()
        form = self.browser.get(CODES).form("/make-codes")
        self.execute("UPDATE local_account SET sealed_name = name_index")
        with self.assertRaisesRegex(AssertionError, "DecryptionFailed"):
            self.browser.post(form)
        self.assertEqual(self.left, 0)

    def test_many_passkeys(self) -> None:
        """Passkeys are added as often as their own limit allows, which that of codes does not lower."""
        self.browser.sign_in()
        for _ in range(5):
            self.browser.post(self.browser.get(CODES).form("/make-codes"))
        self.execute("DELETE FROM recovery_code")
        for number in range(7):
            page = self.add(Authenticator(), name=str(number))
            self.assertEqual(page.status, 200, number)
            self.assertIn("The passkey is added", page.text)
        self.assertEqual((len(self.passkeys), self.left), (7, 0))

    def test_passkey_after_the_last_code(self) -> None:
        """Codes that come with a passkey end no session: those of a player without codes stay."""
        codes = self.made()
        self.recover(codes[0])
        self.execute("DELETE FROM recovery_code")
        self.assertEqual(len(shown_codes(self.add())), MOST)
        self.assertIn("Hello", self.other.get(HOME).text)

    def test_result_is_seen(self) -> None:
        """A right code leads to the account, wherever the sign-in began, and the page says that it was used."""
        codes = self.made()
        for number, path in enumerate((CODES, NEW, f"{HOME}/saves/quick/keep")):
            browser = self.new_account_browser()
            form = browser.get(path).form("/account/recovery")
            page = browser.post(form, {"name": "Anna", "recovery_code": codes[number]})
            self.assertIn(f"Recovery codes left: {MOST - 1 - number}", page.text, path)
            self.assertIn("Hello, Anna", page.text)

    def test_reads_of_the_end_page(self) -> None:
        """The login is read with the codes that are left; a password asks for an offer and a newcomer besides."""
        codes = self.made()
        ways = (("/local", {"password": PASSWORD}, 3), ("/recovery", {"recovery_code": codes[0]}, 2))
        for action, fields, most in ways:
            game, browser = self.game(), self.new_browser()
            sent = browser.post(browser.get(game.url).form(action), {"name": "Anna", **fields}).headers["location"]
            collected = game.collect(finish_code=browser.get(sent).html.partition('class="code">')[2][:7])
            self.assertEqual(collected.json["status"], "complete", action)
            reads, writes = self.transactions()
            self.assertIn("You can go back to the game", browser.get(sent).text)
            self.assertEqual(self.transactions(), (reads + most, writes), action)

    def test_count_of_the_end_page(self) -> None:
        """New codes end what the code opened, so that the page of its sign-in does not count them."""
        codes = self.made()
        game, browser = self.game(), self.new_browser()
        form = browser.get(game.url).form("/recovery")
        sent = browser.post(form, {"name": "Anna", "recovery_code": codes[0]}).headers["location"]
        game.collect(finish_code=browser.get(sent).html.partition('class="code">')[2][:7])
        self.assertIn("Recovery codes left: 9", browser.get(sent).text)
        self.made()
        self.assertNotIn("Recovery codes left", browser.get(sent).text)

    def test_loser(self) -> None:
        """The second of two sign-ins with one code reads that the code was used."""
        [code, *_] = self.made()
        browsers = [self.new_account_browser() for _ in range(2)]
        typed = {"name": "Anna", "recovery_code": code}
        sent = [each.post_only(each.get(HOME).form("/account/recovery"), typed) for each in browsers]
        pages = [each.get(answer.headers["location"]) for each, answer in zip(browsers, sent, strict=True)]
        self.assertIn("Recovery codes left: 9", pages[0].text)
        self.assertIn(sentences.CODE_USED.source, pages[1].text)

    def test_new_password(self) -> None:
        """A new password leaves the codes, and the page says so."""
        codes = self.made()
        self.assertIn(sentences.NOTICES["password-codes"].source, self.change(PASSWORD, "other password 1").text)
        self.add()
        self.assertIn(sentences.NOTICES["password-both"].source, self.change("other password 1", PASSWORD).text)
        self.assertIn("Hello", self.recover(codes[0]).text)

    def change(self, old: str, new: str) -> Page:
        self.server.clock.advance(1)
        return self.browser.post(self.browser.get(HOME).form("/do/password"), {"old": old, "new": new})

    def test_new_password_by_a_link(self) -> None:
        """So does a new password by a reset link."""
        codes = self.made()
        page = self.reset(self.reset_link())
        self.assertIn(KEPT, page.text)
        self.assertNotIn("passkeys", page.text)
        self.assertIn("Hello", self.recover(codes[0]).text)
        self.execute("DELETE FROM recovery_code")
        self.assertNotIn(KEPT, self.reset(self.reset_link()).text)

    def test_activity(self) -> None:
        """New codes are marked, as another person may have made them; what only a later version knows is left out."""
        self.browser.sign_in()
        for event in (SecurityEvent.RECOVERY_CODES_MADE.value, "of_a_later_version"):
            self.execute(
                "INSERT INTO security_event (hour, event, player_id, detail, first_ms, last_ms, times, logged)"
                f" VALUES (0, '{event}', '{ANNA}', '{{}}', 1, 1, 1, 1)"
            )
        page = self.browser.get(HOME)
        self.assertIn("not you?", page.html.partition("Recovery codes made")[2].partition("</li>")[0])
        self.assertNotIn("of_a_later_version", page.text)


class OwnerTests(RecoveryCase):
    """The sentences that the owner reads."""

    def test_known(self) -> None:
        """Each event has a sentence of its own, which is not that of a later version."""
        for event in SecurityEvent:
            self.assertNotEqual(self.sentence(event).source, UNKNOWN.source, event)

    def test_wrong_code(self) -> None:
        """A wrong code for a player's name names the player, as a wrong password does."""
        words = self.sentence(SecurityEvent.SIGN_IN_REFUSED, '{"outcome": "wrong_recovery_code"}')
        self.assertEqual((words.values["player"], "{player}" in words.source), ("Anna", True))
        self.assertIn("recovery code", words.source)
        nobody = self.sentence(SecurityEvent.SIGN_IN_REFUSED, '{"outcome": "wrong_recovery_code"}', "")
        self.assertIn("recovery code", nobody.source)

    def sentence(self, event: SecurityEvent, detail: str = "{}", player_id: str = ANNA) -> Text:
        return sentence_of(EventCount(EventKey(0, event.value, player_id, detail), 0, 0, 1), {ANNA: "Anna"}, {})
