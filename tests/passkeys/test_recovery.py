"""Players make recovery codes on their account's pages, and get in again with them."""

from re import compile
from secrets import token_bytes

from twisted.trial.unittest import SynchronousTestCase

from gamed.account.service import Removal
from gamed.account.store import delete_player_rows, mark_removed, merge_players
from gamed.crypto import Indexer
from gamed.letter_codes import ALPHABET
from gamed.passkeys.limits import CODES as MOST
from gamed.passkeys.recovery_rules import RecoveryCodes, code_index
from gamed.players.tables import add_local_player
from tests.account.page_fixtures import BERT, HOME
from tests.login.fixtures import ANNA, PASSWORD
from tests.passkeys.authenticator import Authenticator
from tests.passkeys.fixtures import NEW
from tests.passkeys.recovery_fixtures import CODES, NOT_ENOUGH, WRONG, RecoveryCase, shown_codes
from tests.support.covers import covers

VALUES = compile(r' (?:value|data-options)="[^"]*"')
"""The parts that differ in two pages with the same words: typed names, the challenge of a passkey."""


class FormTests(SynchronousTestCase):
    """The form of a code."""

    def test_generated(self) -> None:
        """Ten different codes of four groups, of letters that nobody confuses; no text shows them."""
        made = RecoveryCodes.generate(token_bytes)
        self.assertEqual((len(made.codes), len({*made.codes})), (MOST, MOST))
        for code in made.codes:
            self.assertEqual([len(group) for group in code.split("-")], [5] * 4)
            self.assertEqual({*code} - {*ALPHABET}, {"-"})
        self.assertNotIn(made.codes[0], repr(made))

    def test_typed(self) -> None:
        """Case, spaces and dashes do not count; a letter, another player and a longer text do."""
        indexer, code = Indexer(bytes(32)), "BCDFG-HJKLM-NPQRS-TVWXZ"
        right = code_index(indexer, ANNA, code)
        for typed in (code.lower(), code.replace("-", ""), code.replace("-", " \u2013 "), f" {code} "):
            self.assertEqual(code_index(indexer, ANNA, typed), right)
        for typed in ("", code[:-1], f"{code}B", code.replace("B", "C"), code + " " * 100, "\ud800"):
            self.assertNotEqual(code_index(indexer, ANNA, typed), right)
        self.assertNotEqual(code_index(indexer, BERT, code), right)


class CodesTests(RecoveryCase):
    """A player's own codes."""

    def test_made_on_wish(self) -> None:
        """The account offers codes, shows them once, and says how many are left."""
        self.browser.sign_in()
        self.assertIn("Recovery codes left: 0", self.browser.get(HOME).text)
        codes = self.made()
        self.assertEqual((len(codes), self.left), (MOST, MOST))
        self.assertIn("Recovery codes left: 10", self.browser.get(HOME).text)
        for path in (HOME, CODES):
            self.assertEqual(shown_codes(self.browser.get(path)), [])
        self.assertEqual(len(self.events("recovery_codes_made")), 1)
        self.assertNotIn(codes[0], "".join(self.server.security))

    def test_page_is_not_stored(self) -> None:
        """No cache keeps the page with the codes, and it offers no address to load it again."""
        self.browser.sign_in()
        page = self.browser.post(self.browser.get(CODES).form("/make-codes"))
        self.assertEqual(page.headers["cache-control"], "no-store")
        self.assertEqual(page.languages, [])
        self.assertIn("Anna", page.text)

    def test_made_with_the_first_passkey(self) -> None:
        """The first passkey comes with codes; the next one leaves them as they are."""
        self.browser.sign_in()
        page = self.add()
        self.assertIn("The passkey is added", page.text)
        self.assertEqual((len(shown_codes(page)), self.left), (MOST, MOST))
        self.assertEqual(shown_codes(self.add(Authenticator())), [])
        self.assertIn("Hello", self.recover(shown_codes(page)[0]).text)

    @covers("threats/84")
    def test_at_rest(self) -> None:
        """The database has no code in clear."""
        codes = self.made()
        stored = repr(self.server.rows("SELECT * FROM recovery_code"))
        for code in codes:
            self.assertNotIn(code, stored)
            self.assertNotIn(code.replace("-", ""), stored)

    @covers("threats/83")
    def test_each_once(self) -> None:
        """A code opens one session, in which the page says so; used again it is a wrong one."""
        codes = self.made()
        page = self.recover(codes[0].lower().replace("-", " "))
        self.assertIn("You signed in with a recovery code. Recovery codes left: 9", page.text)
        self.assertNotIn("You signed in with", self.other.get(HOME).text)
        again = self.recover(codes[0], self.new_account_browser())
        self.assertEqual(again.status, 200)
        self.assertIn(WRONG, again.text)
        self.assertEqual(self.left, MOST - 1)
        [used] = self.events("recovery_code_used")
        self.assertIn("left=9", used)
        self.assertIn("provider=recovery_code", self.events("sign_in ")[-1])
        self.assertIn("wrong_recovery_code", self.events("sign_in_refused")[-1])

    def test_all_ten(self) -> None:
        """Each of the ten signs in, and then none."""
        codes = self.made()
        for code in codes:
            self.server.clock.advance(60)
            self.assertIn("Hello, Anna", self.recover(code, self.new_account_browser()).text)
        self.assertEqual(self.left, 0)

    def test_game(self) -> None:
        """A code signs a game in; the page says so at the end."""
        codes = self.made()
        game, browser = self.game(), self.new_browser()
        result = browser.post(browser.get(game.url).form("/recovery"), {"name": "Anna", "recovery_code": codes[0]})
        self.assertEqual(result.status, 303, result.text)
        shown = browser.get(result.headers["location"])
        self.assertEqual(self.left, MOST)
        collected = game.collect(finish_code=shown.html.partition('class="code">')[2][:7])
        self.assertEqual((collected.json["player"]["id"], self.left), (ANNA, MOST - 1))
        ended = browser.get(result.headers["location"]).text
        self.assertIn("Recovery codes left: 9", ended)
        self.assertIn(NOT_ENOUGH, ended)
        token = {"Authorization": f"Bearer {collected.json['access_token']}"}
        self.assertEqual(self.site.get("/auth/sessions", token).json["sessions"][0]["provider"], "recovery_code")
        self.assertEqual(len(self.events("recovery_code_used")), 1)

    def test_new_ones_void_the_old(self) -> None:
        """New codes replace those that were left, and end the sessions that old ones opened."""
        old = self.made()
        self.recover(old[0])
        new = self.made()
        self.assertEqual((len({*old, *new}), self.left), (2 * MOST, MOST))
        self.assertIn("Sign in to see your devices", self.other.get(HOME).text)
        self.assertIn(WRONG, self.recover(old[1]).text)
        self.assertIn("Hello", self.recover(new[1]).text)

    def test_void_before_the_game_collects(self) -> None:
        """A sign-in whose code was replaced before the game collected is refused."""
        codes = self.made()
        game, browser = self.game(), self.new_browser()
        form = browser.get(game.url).form("/recovery")
        page = browser.get(browser.post(form, {"name": "Anna", "recovery_code": codes[0]}).headers["location"])
        self.made()
        collected = game.collect(finish_code=page.html.partition('class="code">')[2][:7])
        self.assertEqual(collected.json["problem"]["code"], "session_revoked")

    @covers("threats/83")
    def test_two_sign_ins_with_one_code(self) -> None:
        """Two games whose browsers typed one code get one session: the first that collects."""
        codes, collected = self.made(), []
        sign_ins = [(self.game(), self.new_browser()) for _ in range(2)]
        shown = []
        for game, browser in sign_ins:
            form = browser.get(game.url).form("/recovery")
            result = browser.post(form, {"name": "Anna", "recovery_code": codes[0]})
            shown.append(browser.get(result.headers["location"]).html.partition('class="code">')[2][:7])
        for (game, _), code in zip(sign_ins, shown, strict=True):
            collected.append(game.collect(finish_code=code).json["status"])
        self.assertEqual((collected, self.left), (["complete", "failed"], MOST - 1))

    def test_own_data(self) -> None:
        """The player's export says how many are left, and has none of them."""
        codes = self.made()
        data = self.browser.ask("GET", f"{HOME}/export").body
        self.assertNotIn(codes[0].encode(), data)
        self.assertEqual(self.own_data()["recovery_codes_left"], MOST)

    def test_rate_of_making(self) -> None:
        """A player makes new codes five times, then once a minute."""
        self.browser.sign_in()
        statuses = [self.browser.post(self.browser.get(CODES).form("/make-codes")).status for _ in range(7)]
        self.assertEqual(statuses, [200] * 5 + [429] * 2)


class ProofTests(RecoveryCase):
    """The things that a session by a code may not do."""

    @covers("threats/81", "threats/85")
    def test_no_recent_sign_in(self) -> None:
        """A session by a code does nothing that needs a recent sign-in; the page says why, and the ways on."""
        self.added()
        page = self.recover(self.made()[0])
        forms = {
            "delete": {"word": "delete"},
            "make-codes": {},
            "add-passkey": {"passkey_name": "New"},
            "remove-passkey": {"passkey_id": self.id_of()},
            "password": {"old": PASSWORD, "new": "another password"},
            "unlink": {"provider": "local"},
        }
        for action, fields in forms.items():
            form = {"action": f"{HOME}/do/{action}", "fields": {"form": page.form("/sign-out")["fields"]["form"]}}
            refused = self.other.post(form, fields)
            self.assertEqual((refused.status, refused.heading), (403, "Sign in again"), action)
            self.assertIn(NOT_ENOUGH, refused.text)
            self.assertNotIn("recovery_code", refused.html)
        for path in (CODES, NEW, f"{HOME}/export"):
            self.assertEqual(self.other.get(path).status, 403, path)
            self.assertIn(NOT_ENOUGH, self.other.get(path).text)
        self.assertEqual((len(self.passkeys), self.left), (1, MOST - 1))
        self.assertIn("Hello", self.new_account_browser().sign_in().text)

    @covers("threats/85")
    def test_way_on(self) -> None:
        """The page that refuses leads to a passkey after a sign-in with the password."""
        self.recover(self.made()[0])
        form = self.other.get(NEW).form("/sign-in")
        page = self.other.post(form, {"name": "Anna", "password": PASSWORD})
        self.assertEqual(page.heading, "Add a passkey")

    @covers("threats/85")
    def test_as_second_proof(self) -> None:
        """A code that is sent from the page that asks for a new sign-in opens a session, and proves nothing more."""
        codes = self.made()
        self.server.clock.advance(601)
        page = self.browser.post(self.browser.get(HOME).form("/do/delete"), {"word": "delete"})
        self.assertEqual((page.status, page.heading), (403, "Sign in again"))
        self.assertEqual([f for f in page.forms if f["action"].endswith("/recovery")], [])
        form = {**page.form("/sign-in"), "action": f"{HOME}/recovery"}
        after = self.browser.post(form, {"name": "Anna", "recovery_code": codes[0]})
        self.assertIn("Recovery codes left: 9", after.text)
        page = self.browser.post(self.browser.get(HOME).form("/do/delete"), {"word": "delete"})
        self.assertEqual((page.status, page.heading), (403, "Sign in again"))
        self.assertEqual(self.server.rows("SELECT state FROM player"), [("active",)])

    @covers("threats/85")
    def test_game_session(self) -> None:
        """A game's session by a code plays, but deletes no player, erases and exports no saves, and unlinks nothing."""
        codes = self.made()
        game, browser = self.game(), self.new_browser()
        form = browser.get(game.url).form("/recovery")
        shown = browser.get(browser.post(form, {"name": "Anna", "recovery_code": codes[0]}).headers["location"])
        collected = game.collect(finish_code=shown.html.partition('class="code">')[2][:7]).json
        token = {"Authorization": f"Bearer {collected['access_token']}"}
        self.assertEqual(self.site.request("PUT", "/game/saves/auto", token, b"level 3").status, 201)
        tag = self.site.get("/game/", token).headers["etag"]
        refused = (
            ("DELETE", "/auth/player", {}),
            ("DELETE", "/auth/identities/local", {}),
            ("DELETE", "/game/", {"If-Match": tag}),
            ("DELETE", "/game/", {"If-Match": "*"}),
            ("GET", "/game/export", {}),
        )
        for method, path, condition in refused:
            answer = self.site.request(method, path, {**token, **condition})
            self.assertEqual((answer.status, answer.json["code"]), (403, "reauthentication_required"), path)
            self.assertIn("recovery code", answer.json["detail"])
        self.assertEqual(self.site.get("/game/saves/auto", token).body, b"level 3")

    @covers("threats/85")
    def test_game_confirms(self) -> None:
        """Where a game asks again, the page has no form for a code, takes none, and says what helps."""
        codes = self.made()
        game, browser = self.game(confirm=True), self.new_browser()
        page = browser.get(game.url)
        self.assertNotIn("recovery_code", page.html)
        self.assertIn(NOT_ENOUGH, page.text)
        form = {**page.form("/local"), "action": f"{game.url}/recovery"}
        refused = browser.post(form, {"name": "Anna", "recovery_code": codes[0]})
        self.assertEqual((refused.status, self.left), (200, MOST))
        self.assertEqual(refused.text.count(NOT_ENOUGH), 2)
        self.assertNotIn("recovery_code", refused.html)
        signed_in = browser.post(refused.form("/local"), {"name": "Anna", "password": PASSWORD})
        shown = browser.get(signed_in.headers["location"])
        collected = game.collect(finish_code=shown.html.partition('class="code">')[2][:7]).json
        token = {"Authorization": f"Bearer {collected['access_token']}"}
        self.assertEqual(self.site.request("DELETE", "/auth/player", token).status, 204)

    def test_password_stays_dear(self) -> None:
        """A password in the field of the code signs nobody in, and neither does a code in that of the password."""
        codes = self.made()
        self.assertIn(WRONG, self.recover(PASSWORD).text)
        self.assertIn("Wrong name or password.", self.other.sign_in(password=codes[0]).text)


class EndTests(RecoveryCase):
    """Codes of players who are blocked, merged, erased, or leave local accounts."""

    def test_blocked(self) -> None:
        """A blocked player's code signs nobody in, and is not used up."""
        codes = self.made()
        self.execute("UPDATE player SET state = 'blocked'")
        self.assertIn("You cannot play here", self.recover(codes[0]).text)
        self.assertEqual((self.other.token, self.left), (None, MOST))
        self.execute("UPDATE player SET state = 'active'")
        self.assertIn("Hello", self.recover(codes[0]).text)

    def test_merged(self) -> None:
        """The codes of a merged player are gone; the player who keeps existing makes new ones."""
        codes = self.made()
        self.create_bert()
        self.server.write(lambda c: merge_players(c, self.server.keys, ANNA, BERT, self.server.now_ms()))
        self.assertEqual(self.left, 0)
        self.assertIn(WRONG, self.recover(codes[0]).text)
        self.assertIn("Hello", self.recover(self.made(self.new_account_browser())[0]).text)

    def test_erased(self) -> None:
        """An erased player's codes sign nobody in from the mark on, and are deleted."""
        codes = self.made()
        self.server.write(lambda c: mark_removed(c, ANNA, self.server.now_ms()))
        self.recover(codes[0])
        self.assertIsNone(self.other.token)
        while self.server.write(lambda c: delete_player_rows(c, Removal(ANNA))):
            pass
        self.assertEqual(self.left, 0)

    def test_without_a_name(self) -> None:
        """A player without a local account has no name to type, so none are offered."""
        self.added()
        self.execute("DELETE FROM local_account")
        self.assertNotIn("Recovery codes", self.browser.get(HOME).text)
        self.assertEqual(self.browser.get(CODES).status, 404)

    def test_providers(self) -> None:
        """Beside providers there are no codes, and no form for one."""
        self.serve_providers()
        self.play_at()
        self.sign_in_at()
        self.assertNotIn("Recovery codes", self.browser.get(HOME).text)
        self.assertEqual(shown_codes(self.add()), [])
        self.assertEqual(self.browser.get(CODES).status, 404)
        page = self.new_account_browser().get(HOME)
        self.assertNotIn("recovery", page.html)
        form = {**page.form("/sign-in"), "action": f"{HOME}/recovery"}
        visitor = self.new_account_browser()
        form["fields"]["form"] = visitor.get(HOME).form("/sign-in")["fields"]["form"]
        self.assertEqual(visitor.post(form, {"name": "Anna", "recovery_code": "x"}).status, 404)


class HostileTests(RecoveryCase):
    """Codes that nobody made, by the thousand."""

    @covers("threats/84")
    def test_same_answers(self) -> None:
        """An unknown or malformed name, another player's and a wrong code have one page, after equally many reads."""
        codes, form, answers = self.made(), self.other.get(HOME).form("/account/recovery"), set()
        for name, code in (("Anna", "BCDFG" * 4), ("Nobody", codes[0]), ("\x01", codes[0]), ("Anna", "")):
            before = self.transactions()
            page = self.other.post(form, {"name": name, "recovery_code": code})
            self.assertIn(WRONG, page.text)
            taken = [now - then for now, then in zip(self.transactions(), before, strict=True)]
            answers.add((page.status, VALUES.sub("", page.html), *taken))
        self.assertEqual(len(answers), 1, [each[2:] for each in answers])
        self.assertEqual(self.left, MOST)

    @covers("threats/84")
    def test_code_of_another_player(self) -> None:
        """A code signs in its own player alone."""
        codes = self.made()
        named = {"player_id": BERT, "name": "Bert", "password": "x"}
        self.server.write(lambda c: add_local_player(c, self.server.keys, **named, now_ms=self.server.now_ms()))
        self.assertIn(WRONG, self.recover(codes[0], name="Bert").text)
        self.assertEqual(self.left, MOST)

    @covers("threats/84")
    def test_a_thousand_wrong_codes(self) -> None:
        """They wait for the limit of passwords, with which they count, of the account and the address."""
        self.serve(passwords_per_minute=10)
        self.browser, self.other = self.new_account_browser(), self.new_account_browser()
        codes = self.made()
        form = self.other.get(HOME).form("/account/recovery")
        statuses = [self.other.post(form, {"name": "Anna", "recovery_code": "BCDFG" * 4}).status for _ in range(1000)]
        tried = statuses.count(200)
        self.assertLessEqual(tried, 10)
        self.assertEqual({*statuses[tried:]}, {429})
        refused = self.other.post(form, {"name": "Anna", "recovery_code": codes[0]})
        self.assertIn("Too many tries.", refused.text)
        self.assertIn("Too many tries.", self.other.sign_in().text)
        self.assertEqual(self.left, MOST)

    def test_passwords_count(self) -> None:
        """Wrong passwords leave no tries for codes."""
        self.serve(passwords_per_minute=3)
        self.browser, self.other = self.new_account_browser(), self.new_account_browser()
        for _ in range(3):
            self.other.sign_in(password="wrong password")
        self.assertIn("Too many tries.", self.recover("x").text)

    @covers("threats/84")
    def test_large_input(self) -> None:
        """64 KiB are refused before they are read, and a long text in the form is no code."""
        form = self.other.get(HOME).form("/account/recovery")
        large = self.other.post(form, {"name": "Anna", "recovery_code": "B" * 65536})
        self.assertEqual(large.status, 413)
        long = self.other.post(form, {"name": "Anna", "recovery_code": "\u2013" * 800})
        self.assertIn(WRONG, long.text)

    def test_foreign_form(self) -> None:
        """Another site's page, or a form of another browser, uses no code."""
        codes = self.made()
        form, fields = self.other.get(HOME).form("/account/recovery"), {"name": "Anna", "recovery_code": codes[0]}
        self.assertEqual(self.other.post(form, fields, Sec_Fetch_Site="cross-site").status, 403)
        self.assertEqual(self.new_account_browser().post(form, fields).status, 403)
        self.assertEqual(self.left, MOST)
