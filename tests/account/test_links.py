"""An invite admits one newcomer, and a reset link sets one password; looking at either uses nothing up."""

from typing import Any

from gamed.account import link_tables, links_store, sentences
from gamed.account.link_model import NewLink, link_index, new_invite_id
from gamed.account.links_store import InvitedAccount, PasswordReset
from gamed.account.store import replace_password, sign_out_all
from gamed.config.model import Registration
from gamed.crypto import Purpose
from gamed.login.sentences import NO_COOKIE
from gamed.outcomes import LoginFailure
from gamed.players import tables as player_tables
from gamed.players.errors import LinkEnded
from gamed.players.names import new_player_id
from gamed.sessions.browser_rules import BROWSER_IDLE_MS, BrowserName, NewBrowserSession
from gamed.sessions.store import LINK_RETAINED_MS, delete_old_sessions
from tests.account.page_fixtures import HOME, AccountBrowser, AccountCase
from tests.login.browser_fixtures import Page
from tests.login.fixtures import ANNA, APPROVAL, CLOSED, PASSWORD
from tests.support.covers import covers
from tests.support.http import Answer
from tests.support.stores import dump

DAY = 24 * 3600
NEW_PASSWORD = "battery staple"


class LinkCase(AccountCase):
    """A test with links that the owner hands out."""

    def invite(self, name: str | None = None, seconds: int = DAY) -> str:
        """Return the path of a new invite."""
        server = self.server
        link = NewLink.generate(server.random, server.now_ms(), seconds)
        self.invite_id = new_invite_id(server.random)
        server.write(lambda c: link_tables.insert_invite(c, server.keys, self.invite_id, link, name))
        return f"/auth/invite/{link.token}"

    def reset_link(self, player_id: str = ANNA, seconds: int = DAY) -> str:
        """Return the path of a new reset link."""
        server = self.server
        link = NewLink.generate(server.random, server.now_ms(), seconds)
        server.write(lambda c: link_tables.insert_reset_link(c, server.keys.indexer, player_id, link))
        return f"/auth/reset/{link.token}"

    def accept(self, path: str, name: str = "Cleo", password: str = PASSWORD) -> Page:
        """Open an invite in local mode and post its form."""
        form = self.browser.get(path).form(path)
        return self.browser.post(form, {"name": name, "password": password})

    def reset(self, path: str, password: str = NEW_PASSWORD) -> Page:
        """Open a reset link and post its form."""
        return self.browser.post(self.browser.get(path).form(path), {"password": password})

    def players(self) -> list[Any]:
        return self.server.rows("SELECT player_id, state FROM player WHERE player_id <> :anna", anna=ANNA)

    def assert_open(self) -> None:
        self.assertEqual(self.server.rows("SELECT ended_ms FROM invite"), [(None,)])


class InviteTests(LinkCase):
    def test_every_registration(self) -> None:
        """An invite makes an active player whatever the registration is, and signs the browser in."""
        for registration in Registration:
            self.serve(registration=registration)
            self.browser = self.new_account_browser()
            page = self.accept(self.invite())
            self.assertEqual((page.status, page.heading[:7]), (200, "Hello, "), page.text)
            [(player_id, state)] = self.players()
            self.assertEqual(state, "active")
            [signed_in] = [line for line in self.server.security if line.startswith("sign_in ")]
            self.assertIn(f"player={player_id} session=brs_", signed_in)
            [used] = [line for line in self.server.security if line.startswith("invite_used ")]
            self.assertEqual(used, f"invite_used player={player_id} invite={self.invite_id} provider=local")

    def test_account(self) -> None:
        """The account signs in from a game afterwards, without approval."""
        self.serve(registration=APPROVAL)
        self.browser = self.new_account_browser()
        self.accept(self.invite())
        game = self.game()
        self.new_browser().sign_in(game.url, "Cleo")
        self.assertIn("Hello, ", self.new_account_browser().sign_in("Cleo").heading)

    def test_name(self) -> None:
        """The owner's name for the newcomer is suggested for the account, and is the one that games show."""
        path = self.invite("Cleo")
        self.assertEqual(self.browser.get(path).form(path)["fields"]["name"], "Cleo")
        self.accept(path, "cleo7")
        [(player_id, _)] = self.players()
        shown = self.server.write(lambda c: player_tables.display_name_of(c, self.server.keys.sealer, player_id))
        self.assertEqual(shown, "Cleo")

    def test_name_that_no_account_can_have(self) -> None:
        """A name with a space is shown by games, and suggests no name for the account."""
        path = self.invite("Cleo the Great")
        self.assertEqual(self.browser.get(path).form(path)["fields"]["name"], "")
        self.assertIn("Hello, ", self.accept(path).heading)

    def test_browser_of_another_player(self) -> None:
        """An invite ends the session that the browser had before: its cookie signs Anna in no longer."""
        self.browser.sign_in()
        annas = dict(self.browser.cookies)
        self.accept(self.invite())
        [(player_id, _)] = self.players()
        self.assertEqual(self.server.rows("SELECT player_id FROM browser_session"), [(player_id,)])
        old = self.new_account_browser()
        old.cookies.update(annas)
        self.assertIn("/auth/account/sign-in", old.get(HOME).html)

    @covers("threats/67")
    def test_looking_uses_nothing(self) -> None:
        """Any number of requests for the page leave the invite open, as those of a mail scanner do."""
        path = self.invite()
        for _ in range(5):
            page = AccountBrowser(self.site).get(path)
            self.assertEqual((page.status, page.heading), (200, "You are invited"))
            self.assertIn("This link is yours alone and works once. Opening this page does not use it up.", page.text)
        self.assertEqual(self.site.request("HEAD", path).status, 405)
        self.assert_open()
        self.assertIn("Hello, ", self.accept(path).heading)

    @covers("threats/67")
    def test_used_once(self) -> None:
        """A used invite shows every browser that it is over, also after the form is posted again."""
        path = self.invite()
        form = self.browser.get(path).form(path)
        other = self.new_account_browser()
        others = other.get(path).form(path)
        self.browser.post(form, {"name": "Cleo", "password": PASSWORD})
        for page in (
            other.get(path),
            other.post(others, {"name": "Dora", "password": PASSWORD}),
            self.browser.post(form, {"name": "Cleo", "password": PASSWORD}),
        ):
            self.assertEqual((page.status, page.heading), (410, "This link does not work"))
            self.assertIn(" and it ", page.text)
        self.assertEqual(len(self.players()), 1)

    def own(self, page: Page) -> bool:
        """Return whether a used invite leads to the account, and to no other page."""
        self.assertEqual((page.status, page.heading), (410, "This link does not work"))
        sentence = sentences.INVITE_USED if HOME in page.links else sentences.LINK_OVER
        self.assertIn(sentence.source, page.text)
        self.assertEqual(page.links, [HOME if HOME in page.links else "/"])
        return HOME in page.links

    def test_used_by_this_person(self) -> None:
        """A used invite leads the person who used it to the account while they are signed in, and nobody else."""
        self.server.clock.advance(1)  # later than the sign-up of Anna, who is another player
        path = self.invite()
        form = self.browser.get(path).form(path)
        self.accept(path)
        again = {"name": "Cleo", "password": PASSWORD}
        self.assertTrue(self.own(self.browser.get(path)))
        self.assertTrue(self.own(self.browser.post(form, again)))
        anna, forged, signed_out = (self.new_account_browser() for _ in range(3))
        anna.sign_in()
        forged.cookies["__Host-ga"] = "gbs_" + "A" * 49
        token = self.browser.token or ""
        signed_out.cookies["__Host-ga"] = token[:10] + ("B" if token[10] != "B" else "C") + token[11:]
        self.assertEqual([self.own(each.get(path)) for each in (anna, forged, signed_out)], [False] * 3)
        self.server.clock.advance(BROWSER_IDLE_MS / 1000)
        self.assertFalse(self.own(self.browser.get(path)))

    def test_used_at_a_provider(self) -> None:
        """The same holds for an invite that was used by a sign-in at a provider."""
        self.serve_providers()
        path = self.invite()
        away = self.browser.post(self.browser.get(path).form(path), {"provider": "discord"})
        self.assertEqual(self.browser.get(self.at_provider(away, "bo")).status, 200)
        self.assertTrue(self.own(self.browser.get(path)))
        self.assertFalse(self.own(self.new_account_browser().get(path)))
        other = self.invite()
        self.server.write(lambda c: link_tables.end_invite(c, self.invite_id, self.server.now_ms() - 1))
        self.assertFalse(self.own(self.browser.get(other)))

    def test_two_at_once(self) -> None:
        """An invite admits the first of two transactions that use it; the second leaves no player."""
        token = self.invite().rpartition("/")[2]
        server, made = self.server, []
        for name in ("Cleo", "Dora"):
            browser, player_id = NewBrowserSession.generate(server.random, BrowserName()), new_player_id(server.random)
            account = InvitedAccount(token, player_id, name, "phc", browser)
            try:
                server.write(
                    lambda c, account=account: links_store.create_invited_account(
                        c, server.keys, account, server.now_ms()
                    )
                )
                made.append(player_id)
            except LinkEnded:
                pass
        self.assertEqual(self.players(), [(made[0], "active")])
        self.assertEqual(server.rows("SELECT player_id FROM browser_session"), [(made[0],)])

    def test_wrong_form(self) -> None:
        """A name that is taken or not allowed, or a bad password, shows the form again and uses nothing up."""
        path = self.invite()
        for name, password in (("Anna", PASSWORD), ("", PASSWORD), ("a" * 40, PASSWORD), ("Cleo", "short")):
            page = self.accept(path, name, password)
            self.assertEqual((page.status, page.heading), (200, "You are invited"))
            self.assertIn('role="alert"', page.html)
            self.assertEqual(page.form(path)["fields"]["name"], name)
            self.assertNotIn(password, page.html)
        self.assert_open()
        self.assertEqual(self.players(), [])

    def test_ended(self) -> None:
        """An expired invite and a revoked one are over; an unknown and a malformed one are not known."""
        expired = self.invite(seconds=60)
        form = self.browser.get(expired).form(expired)
        self.server.clock.advance(60)
        self.assertEqual(self.browser.get(expired).status, 410)
        self.assertEqual(self.browser.post(form, {"name": "Cleo", "password": PASSWORD}).status, 410)
        revoked = self.invite()
        self.server.write(lambda c: link_tables.end_invite(c, self.invite_id, self.server.now_ms()))
        self.assertEqual(self.browser.get(revoked).status, 410)
        for token in ("A" * 22, "short", "A" * 23, "%C3%A9" * 22, "A" * 5000):
            page = self.browser.get(f"/auth/invite/{token}")
            self.assertEqual((page.status, sentences.LINK_UNKNOWN.source in page.text), (404, True), token)
        self.assertEqual(self.browser.get(self.reset_link().replace("reset", "invite")).status, 404)
        self.assertEqual(self.players(), [])

    @covers("threats/67")
    def test_foreign_form(self) -> None:
        """A form from another site, another browser or without its field changes nothing."""
        path = self.invite()
        form, typed = self.browser.get(path).form(path), {"name": "Cleo", "password": PASSWORD}
        stranger = self.new_account_browser()
        stranger.get(path)
        bare = {**form, "fields": {"name": "", "password": ""}}
        refused = (
            self.browser.post(form, typed, Sec_Fetch_Site="cross-site"),
            self.browser.post(form, typed, Sec_Fetch_Dest="iframe"),
            stranger.post(form, typed),
            self.browser.post(bare, typed),
        )
        self.assertEqual([page.status for page in refused], [403] * 4)
        self.assertEqual(self.browser.get(path, Sec_Fetch_Dest="iframe").status, 403)
        self.assertEqual(self.browser.get(path, Sec_Purpose="prefetch").status, 503)
        self.assert_open()

    def test_without_cookies(self) -> None:
        """A browser that keeps no cookies reads the reason, and the link stays open."""
        for path in (self.invite(), self.reset_link()):
            form = self.browser.get(path).form(path)
            self.browser.cookies.clear()
            page = self.browser.post(form, {"name": "Cleo", "password": PASSWORD})
            self.assertEqual((page.status, NO_COOKIE.source in page.text), (403, True))
        self.assert_open()

    def test_headers(self) -> None:
        """The page is not stored, not framed, has no script, and sends its address to no other site."""
        for path in (self.invite(), self.reset_link()):
            answer: Answer = self.browser.ask("GET", path)
            self.assertEqual(answer.headers["referrer-policy"], "no-referrer")
            self.assertEqual(answer.headers["cache-control"], "no-store")
            self.assertIn("frame-ancestors 'none'", answer.headers["content-security-policy"])
            self.assertNotIn("<script", answer.body.decode())

    def test_limits(self) -> None:
        """Requests of one address are limited as on the pages of sign-ins."""
        limits = type(self.server.terms.limits)(0, 0, 0, 2, 0, 0, 0)
        self.serve(limits=limits)
        for kind in ("invite", "reset"):
            self.server.clock.advance(3600)
            statuses = [self.browser_of().get(f"/auth/{kind}/{'A' * 22}").status for _ in range(3)]
            self.assertEqual(statuses, [404, 404, 429])

    def browser_of(self) -> AccountBrowser:
        return AccountBrowser(self.site)

    @covers("threats/67")
    def test_at_rest(self) -> None:
        """The database has neither the token nor the name of an invite, and neither is in the log."""
        path = self.invite("Cleo")
        self.accept(path)
        token = path.rpartition("/")[2]
        text = self.server.write(dump)
        for secret in (token, "Cleo"):
            self.assertNotIn(secret, text)
            self.assertNotIn(secret, "\n".join(self.server.security))
        index = link_index(self.server.keys.indexer, Purpose.INVITE, token)
        self.assertEqual(self.server.rows("SELECT token_index FROM invite"), [(index,)])

    def test_name_goes(self) -> None:
        """The name of an invite goes when it is used, revoked or expired: a player may be erased before the row is."""
        self.accept(self.invite("Cleo"))
        self.invite("Dilek")
        self.server.write(lambda c: link_tables.end_invite(c, self.invite_id, self.server.now_ms()))
        self.invite("Emre")
        self.assertEqual(self.named(), [(self.invite_id,)])
        self.server.write(lambda c: delete_old_sessions(c, self.server.now_ms() + DAY * 1000, 100))
        self.assertEqual(self.named(), [(self.invite_id,)])
        self.server.write(lambda c: delete_old_sessions(c, self.server.now_ms() + DAY * 1000 + 1, 100))
        self.assertEqual(self.named(), [])

    def named(self) -> list[Any]:
        return self.server.rows("SELECT invite_id FROM invite WHERE sealed_name IS NOT NULL")

    def test_deleted_later(self) -> None:
        """Links are deleted thirty days after their expiry, and all at once by a restore."""
        self.invite()
        self.reset_link()
        expired_ms = self.server.now_ms() + DAY * 1000
        for now_ms, left in ((expired_ms + LINK_RETAINED_MS, 2), (expired_ms + LINK_RETAINED_MS + 1, 0)):
            self.server.write(lambda c, now_ms=now_ms: delete_old_sessions(c, now_ms, 100))
            self.assertEqual(self.count(), left)
        self.invite()
        self.reset_link()
        self.server.write(lambda c: sign_out_all(c, self.server.now_ms()))
        self.assertEqual(self.count(), 0)

    def count(self) -> int:
        query = "SELECT (SELECT count(*) FROM invite) + (SELECT count(*) FROM reset_link)"
        return int(self.server.rows(query)[0][0])


class ProviderInviteTests(LinkCase):
    def setUp(self) -> None:
        super().setUp()
        self.serve_providers(registration=CLOSED)

    def go(self, path: str, person: str = "bo", provider: str = "discord") -> Page:
        """Open an invite, choose a provider and sign in there."""
        return self.browser.get(self.at_provider(self.leave(path, provider), person))

    def leave(self, path: str, provider: str = "discord") -> Page:
        form = self.browser.get(path).form(path)
        return self.browser.post(form, {"provider": provider})

    def test_newcomer(self) -> None:
        """A newcomer chooses a provider, signs in there, and is an active player with the suggested name."""
        for number, (provider, person) in enumerate((("discord", "anna"), ("google", "bo"))):
            self.browser = self.new_account_browser()
            page = self.go(self.invite(person.title()), person, provider)
            self.assertEqual((page.status, page.heading), (200, f"Hello, {person.title()}"), page.text)
            self.assertEqual([state for _, state in self.players()], ["active"] * (number + 1))
            used = [line for line in self.server.security if line.startswith("invite_used ")]
            self.assertIn(f"invite={self.invite_id} provider={provider}", used[-1])

    def test_used_by_the_sign_in(self) -> None:
        """Leaving for the provider uses nothing up; the end of the sign-in does, so of two only one gets in."""
        path = self.invite()
        first, second = self.new_account_browser(), self.new_account_browser()
        ends = []
        for browser, person in ((first, "anna"), (second, "bo")):
            self.browser = browser
            ends.append((browser, self.at_provider(self.leave(path), person)))
        self.assert_open()
        pages = [browser.get(callback) for browser, callback in ends]
        self.assertEqual([page.status for page in pages], [200, 410])
        self.assertIn(sentences.LINK_OVER.source, pages[1].text)
        self.assertEqual(len(self.players()), 1)
        self.assertIsNone(second.token)

    def test_player_already(self) -> None:
        """A person who is a player signs in to the own page, and the invite stays open."""
        self.go(self.invite())
        path = self.invite()
        self.browser = self.new_account_browser()
        page = self.go(path)
        self.assertEqual(page.heading, "Your account")
        self.assertIn(sentences.NOTICES["known"].source, page.text)
        self.assertEqual(self.server.rows("SELECT count(*) FROM invite WHERE ended_ms IS NULL"), [(1,)])
        self.assertEqual(len(self.players()), 1)

    def test_declined(self) -> None:
        """A sign-in that is cancelled at the provider leaves the invite open, and its page says so."""
        away = self.leave(self.invite())
        state = away.headers["location"].partition("state=")[2].partition("&")[0]
        page = self.browser.get(f"/auth/discord/callback?state={state}&error=access_denied")
        self.assertIn(sentences.INVITE_UNUSED.source, page.text)
        self.assert_open()

    def test_revoked_meanwhile(self) -> None:
        """An invite that is revoked while the person signs in admits no player."""
        callback = self.at_provider(self.leave(self.invite()), "bo")
        self.server.write(lambda c: link_tables.end_invite(c, self.invite_id, self.server.now_ms()))
        self.assertEqual((self.browser.get(callback).status, self.players()), (410, []))

    def test_finished_twice(self) -> None:
        """The end of the sign-in, opened again, leads to the page and uses no second invite."""
        self.invite()
        self.go(self.invite())
        [(login_id,)] = self.server.rows("SELECT login_id FROM login")
        self.assertEqual(self.browser.get(f"{HOME}/done?login_id={login_id}").heading, "Your account")
        self.assertEqual(self.server.rows("SELECT count(*) FROM invite WHERE ended_ms IS NULL"), [(1,)])

    def test_without_invite(self) -> None:
        """A newcomer without an invite is still not admitted."""
        self.assertIn(
            sentences.ENDED[LoginFailure.REGISTRATION_CLOSED][1].source, self.sign_in_at("discord", "bo").text
        )
        self.assertEqual(self.players(), [])

    def test_unknown_provider(self) -> None:
        """A form that names no provider of this server is refused."""
        path = self.invite()
        for provider in ("", "local", "nobody"):
            self.assertEqual(self.leave(path, provider).status, 403)
        self.assert_open()

    def test_no_game_knows_of_it(self) -> None:
        """The login holds the id of the invite, and no game can start one of its kind."""
        self.leave(self.invite())
        self.assertEqual(self.server.rows("SELECT intent, invite_id FROM login"), [("account", self.invite_id)])
        body = {"intent": "account", "provider": "discord"}
        self.assertEqual(self.site.post_json("/auth/login", body).code, "invalid_request")


class ResetTests(LinkCase):
    def test_password(self) -> None:
        """The new password signs in and the old one does not; every game and browser is signed out."""
        game = self.play()
        self.browser.sign_in()
        visitor, self.browser = self.browser, self.new_account_browser()
        path = self.reset_link()
        self.assertIn("Anna", self.browser.get(path).text)
        page = self.reset(path)
        self.assertEqual((page.status, page.heading), (200, "Your new password is set"))
        self.assertIn("Sign in to see your devices and saves.", visitor.get(HOME).text)
        self.assertEqual(self.site.request("GET", "/auth/sessions", game).code, "session_revoked")
        self.server.clock.advance(1)
        self.assertIsNotNone(self.signed_in_with(NEW_PASSWORD))
        self.assertIsNone(self.signed_in_with(PASSWORD))
        self.assertIn(f"password_changed player={ANNA}", self.server.security)

    def signed_in_with(self, password: str) -> str | None:
        browser = self.new_account_browser()
        browser.sign_in(password=password)
        return browser.token

    def test_pending_login(self) -> None:
        """A sign-in with the old password that a game has not collected ends, too."""
        game, browser = self.game(), self.new_browser()
        shown = browser.get(browser.sign_in(game.url).headers["location"])
        code = shown.html.partition('class="code">')[2][:7]
        self.reset(self.reset_link())
        self.assertEqual(game.collect(finish_code=code).json["problem"]["code"], "session_revoked")

    @covers("threats/67")
    def test_used_once(self) -> None:
        """A used link is over; so is an older one of the same account, and one from before another change."""
        first, second = self.reset_link(), self.reset_link()
        self.assertEqual(self.browser.get(first).status, 410)
        self.reset(second)
        self.assertEqual(self.browser.get(second).status, 410)
        third = self.reset_link()
        self.server.write(lambda c: replace_password(c, ANNA, "phc", self.server.now_ms()))
        self.assertEqual(self.browser.get(third).status, 410)

    def test_two_at_once(self) -> None:
        """A reset link works in the first of two transactions; the second sets no password."""
        token, server = self.reset_link().rpartition("/")[2], self.server
        reset = PasswordReset(token, "first")
        server.write(lambda c: links_store.reset_password(c, server.keys, reset, server.now_ms()))
        with self.assertRaises(LinkEnded):
            again = PasswordReset(token, "second")
            server.write(lambda c: links_store.reset_password(c, server.keys, again, server.now_ms()))
        self.assertEqual(server.rows("SELECT password FROM local_account"), [("first",)])

    def test_wrong_password(self) -> None:
        """A password that is not allowed shows the form again, and the link stays open."""
        path = self.reset_link()
        page = self.reset(path, "short")
        self.assertEqual((page.status, page.heading), (200, "Choose a new password"))
        self.assertIn('role="alert"', page.html)
        self.assertEqual(self.reset(path).heading, "Your new password is set")

    def test_blocked(self) -> None:
        """A blocked player sets no password."""
        path = self.reset_link()
        form = self.browser.get(path).form(path)
        self.server.write(lambda c: player_tables.set_state(c, ANNA, "blocked"))
        for page in (self.browser.get(path), self.browser.post(form, {"password": NEW_PASSWORD})):
            self.assertEqual((page.status, sentences.LINK_BLOCKED.source in page.text), (403, True))
        self.assertEqual(self.server.rows("SELECT password_ms FROM local_account"), [(0,)])

    def test_ended(self) -> None:
        """An expired link is over, and an unknown or malformed one is not known."""
        path = self.reset_link(seconds=60)
        self.server.clock.advance(60)
        self.assertEqual(self.browser.get(path).status, 410)
        for token in ("A" * 22, "short", "A" * 23):
            self.assertEqual(self.browser.get(f"/auth/reset/{token}").status, 404)

    def test_account_gone(self) -> None:
        """A link is over once its player has no local account any more."""
        path = self.reset_link()
        self.server.write(lambda c: bool(c.execute("DELETE FROM local_account")))
        self.assertEqual(self.browser.get(path).status, 410)
