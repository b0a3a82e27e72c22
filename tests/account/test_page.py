"""The player's own page signs a browser in and out, and nothing but its cookie opens it."""

from msgspec.structs import replace
from twisted.trial.unittest import SynchronousTestCase

from gamed.account import sentences
from gamed.account import store as player_store
from gamed.account.views import SaveFace
from gamed.config.game import SaveLimits
from gamed.crypto import Index, Secret
from gamed.database.connection import Connection
from gamed.login.keys import LoginLookup
from gamed.outcomes import LoginFailure
from gamed.pages import render
from gamed.players import tables as player_tables
from gamed.sessions import tables as session_tables
from gamed.sessions.browser_rules import BROWSER_IDLE_MS, BROWSER_TOTAL_MS
from gamed.sessions.store import delete_old_sessions
from tests.account.page_fixtures import HOME, AccountCase
from tests.login.browser_fake_provider import GOOGLE
from tests.login.browser_fixtures import Page
from tests.login.fixtures import ANNA, APPROVAL, OFF, PASSWORD, done
from tests.login.gallery import RENDERER
from tests.support.covers import covers
from tests.support.stores import sqlite_files


class SignInTests(AccountCase):
    def test_local(self) -> None:
        """A local account signs in, and the browser gets a session of its own."""
        self.assertIn("Sign in to see your devices and saves.", self.browser.get(HOME).text)
        page = self.browser.sign_in()
        self.assertEqual((page.status, page.heading[:7]), (200, "Hello, "))
        self.assertIn("Anna", page.text)
        self.assertTrue((self.browser.token or "").startswith("gbs_"))
        [line] = [line for line in self.server.security if line.startswith("sign_in ")]
        self.assertIn(f"player={ANNA} session=brs_", line)

    def test_since(self) -> None:
        """The page says since when the player is here, with the year once that is another one."""
        page = self.browser.sign_in()
        self.assertIn("Playing here since 15 January", page.text)
        self.assertNotIn("since 15 January 2", page.text)
        self.server.write(lambda c: c.execute("UPDATE player SET created_ms = created_ms - 31622400000").rowcount)
        self.assertIn("Playing here since 14 January 2026", self.browser.get(HOME).text)

    def test_provider(self) -> None:
        """A player of a provider signs in with the same account, through the callback that games use."""
        self.serve_providers()
        self.play_at("discord")
        away = self.browser.post(self.browser.get(HOME).form("/sign-in", provider="discord"))
        self.assertIn("redirect_uri=https%3A%2F%2Fgame.example%2Fauth%2Fdiscord%2Fcallback", away.headers["location"])
        page = self.browser.get(self.at_provider(away))
        self.assertEqual((page.status, page.heading), (200, "Your account"))
        self.assertIn("Discord", page.text)

    def test_without_proof(self) -> None:
        """The page does not depend on the return proof that games need."""
        self.serve(return_proof=OFF)
        self.browser = self.new_account_browser()
        self.assertIn("Hello, ", self.browser.sign_in().heading)

    def test_wrong_password(self) -> None:
        """A wrong password shows the form again, with the name but not the password, and opens no session."""
        page = self.browser.sign_in(password="something else")
        self.assertEqual((page.status, page.form("/sign-in")["fields"]["name"]), (200, "Anna"))
        self.assertNotIn("something else", page.html)
        self.assertIsNone(self.browser.token)
        self.assertEqual(self.server.rows("SELECT * FROM browser_session"), [])

    def test_passwords_are_limited(self) -> None:
        """Guessing a password is as limited as on the page of a game's sign-in."""
        self.serve(passwords_per_minute=3)
        self.browser = self.new_account_browser()
        statuses = [self.browser.sign_in(password="something else").status for _ in range(4)]
        self.assertEqual(statuses, [200, 200, 200, 429])

    def test_nobody(self) -> None:
        """An account at a provider that no player has signs no player in, and creates none."""
        self.serve_providers()
        page = self.sign_in_at("discord", "bo")
        self.assertIn(sentences.ENDED[LoginFailure.REGISTRATION_CLOSED][1].source, page.text)
        self.assertEqual((self.browser.token, self.server.rows("SELECT count(*) FROM player")), (None, [(1,)]))

    def test_declined(self) -> None:
        """A sign-in that was cancelled at the provider shows a page with the way to try again."""
        self.serve_providers()
        away = self.browser.post(self.browser.get(HOME).form("/sign-in", provider="discord"))
        state = away.headers["location"].partition("&state=")[2].partition("&")[0]
        page = self.browser.get(f"/auth/discord/callback?state={state}&error=access_denied")
        self.assertIn(sentences.ENDED[LoginFailure.PROVIDER_DENIED][1].source, page.text)
        self.assertIn(HOME, page.links)

    def ends(self, page: Page, outcome: LoginFailure) -> None:
        """Assert that a sign-in ended with this outcome in its own words, with a way on."""
        title, sentence = sentences.ENDED[outcome]
        self.assertEqual((page.status, page.heading), (200, title.source))
        self.assertIn(sentence.source, page.text)
        self.assertIn(HOME, page.links)
        self.assertIsNone(self.browser.token)

    def test_blocked(self) -> None:
        """A blocked player reads that they are blocked, whatever the way to sign in."""
        self.server.write(lambda c: player_tables.set_state(c, ANNA, "blocked"))
        self.ends(self.browser.sign_in(), LoginFailure.PLAYER_BLOCKED)
        self.serve_providers()
        self.play_at("discord")
        self.server.write(lambda c: player_tables.set_state(c, self.player_id, "blocked"))
        self.ends(self.sign_in_at("discord"), LoginFailure.PLAYER_BLOCKED)

    def test_misconfigured(self) -> None:
        """A provider that does not accept this server's secret is not ready."""
        self.serve_oauth(replace(GOOGLE, client_secret=Secret(b"another one")))
        self.browser = self.new_account_browser()
        self.ends(self.sign_in_at("google"), LoginFailure.PROVIDER_MISCONFIGURED)

    def test_every_outcome(self) -> None:
        """Each outcome of a sign-in has its own sentence on the way back, such as that the server's clock is wrong."""
        self.serve_providers()
        for outcome in LoginFailure:
            self.browser.post(self.browser.get(HOME).form("/sign-in", provider="discord"))
            query = "SELECT login_id, browser_index FROM login WHERE stage = 'authorizing'"
            [(login_id, browser)] = self.server.rows(query)
            done(self.server.browsers.fail(LoginLookup("login_id", login_id), Index(bytes(browser)), outcome))
            self.ends(self.browser.get(f"{HOME}/done?login_id={login_id}"), outcome)

    def test_without_cookies(self) -> None:
        """A browser that keeps no cookies reads the reason, at the sign-in and at a form of the account."""
        form = self.browser.get(HOME).form("/sign-in")
        self.browser.cookies.clear()
        page = self.browser.post(form, {"name": "Anna", "password": PASSWORD})
        self.assertEqual((page.status, sentences.NO_COOKIE.source in page.text), (403, True))
        form = self.browser.sign_in().form("/name")
        del self.browser.cookies["__Host-gl"]
        form["fields"]["form"] = "A" * 43
        page = self.browser.post(form, {"name": "x"})
        self.assertEqual((page.status, sentences.NO_COOKIE.source in page.text), (403, True))

    def test_pending_player(self) -> None:
        """A player who waits for approval sees the code to tell the owner."""
        self.serve(registration=APPROVAL, return_proof=OFF)
        game = self.game()
        self.new_browser().create(game.url, "Cleo")
        code = game.collect().json["problem"]["approval_code"]
        self.browser = self.new_account_browser()
        page = self.browser.sign_in("Cleo")
        self.assertIn(f"{'Tell the owner this number:'} {code}", page.text)
        self.assertIsNone(self.browser.token)

    def test_no_game_collects_it(self) -> None:
        """The database holds only indexes of the sign-in, and no link of it can be opened."""
        self.browser.sign_in()
        [(stage, sealed)] = self.server.rows("SELECT stage, sealed_result FROM login")
        self.assertEqual((stage, sealed), ("collected", None))
        for body in ({"intent": "account"}, {"intent": "account", "provider": "discord"}):
            self.assertEqual(self.site.post_json("/auth/login", body).code, "invalid_request")

    @covers("threats/67")
    def test_other_browser(self) -> None:
        """Another browser cannot end the sign-in, nor one without cookies."""
        form = self.browser.get(HOME).form("/sign-in")
        answer = self.browser.post_only(form, {"name": "Anna", "password": "correct horse"})
        done = answer.headers["location"].replace("/auth/login/done", f"{HOME}/done")
        for browser in (self.new_account_browser(), self.new_account_browser()):
            browser.get(HOME)
            self.assertEqual(browser.get(done).status, 409)
            self.assertIsNone(browser.token)
        self.assertEqual(self.new_account_browser().get(done).status, 409)
        self.assertIn("Hello, ", self.browser.get(done).heading)

    def test_finished_once(self) -> None:
        """The end of a sign-in, opened again, sets no second cookie."""
        form = self.browser.get(HOME).form("/sign-in")
        done = self.browser.post_only(form, {"name": "Anna", "password": "correct horse"}).headers["location"]
        self.browser.get(done)
        token = self.browser.token
        again = self.browser.ask("GET", done.replace("/auth/login/done", f"{HOME}/done"))
        self.assertEqual((again.status, again.cookies, self.browser.token), (303, [], token))

    def test_ended_without_a_write(self) -> None:
        """The end of a sign-in, opened again in its own browser, takes no place among the writers."""
        self.serve_providers()
        self.play_at("discord")
        away = self.browser.post(self.browser.get(HOME).form("/sign-in", provider="discord"))
        under_way = self.server.rows("SELECT login_id FROM login WHERE stage = 'authorizing'")[0][0]
        state = away.headers["location"].partition("&state=")[2].partition("&")[0]
        self.browser.get(f"/auth/discord/callback?state={state}&error=access_denied")
        self.sign_in_at("discord")
        [collected] = self.server.rows("SELECT login_id FROM login WHERE stage = 'collected' AND intent = 'account'")
        for login_id, status in ((under_way, 200), (*collected, 303)):
            before = self.server.databases.auth.transactions
            for _ in range(20):
                answer = self.browser.ask("GET", f"{HOME}/done?login_id={login_id}")
                self.assertEqual((answer.status, answer.cookies), (status, []))
            self.assertEqual(self.server.databases.auth.transactions, before)

    def test_unknown_sign_in(self) -> None:
        """An unknown sign-in, and one of a game, cannot be ended here."""
        self.browser.get(HOME)
        game = self.game()
        for login_id in ("", "lgn_1", game.login["login_id"], "x" * 300, "lgn_%00"):
            self.assertEqual(self.browser.get(f"{HOME}/done?login_id={login_id}").status, 404)

    @sqlite_files("its trace of statements")
    def test_refused_without_a_write(self) -> None:
        """An unknown sign-in, and one of another browser, are refused without a transaction that writes."""
        form = self.browser.get(HOME).form("/sign-in")
        done = self.browser.post_only(form, {"name": "Anna", "password": PASSWORD}).headers["location"]
        own = done.replace("/auth/login/done", f"{HOME}/done")
        stranger = self.new_account_browser()
        stranger.get(HOME)
        statements: list[str] = []
        self.server.write(lambda connection: connection.set_trace_callback(statements.append))
        statements.clear()
        self.assertEqual(stranger.get(f"{HOME}/done?login_id=lgn_1").status, 404)
        self.assertEqual(stranger.get(own).status, 409)
        self.assertEqual(statements, [])
        self.assertIn("Hello, ", self.browser.get(own).heading)
        self.assertNotEqual(statements, [])

    def test_password_changed_meanwhile(self) -> None:
        """A password that was changed after it was typed signs no player in."""
        form = self.browser.get(HOME).form("/sign-in")
        done = self.browser.post_only(form, {"name": "Anna", "password": "correct horse"}).headers["location"]
        self.server.write(lambda c: player_tables.set_password(c, ANNA, "x", self.server.now_ms()))
        self.assertIn(sentences.ENDED[LoginFailure.SESSION_REVOKED][1].source, self.browser.get(done).text)
        self.assertIsNone(self.browser.token)
        [line] = [line for line in self.server.security if line.startswith("sign_in_refused")]
        self.assertIn(f"outcome={LoginFailure.SESSION_REVOKED.value}", line)

    def test_too_many_requests(self) -> None:
        """Requests of one address are limited as on the pages of sign-ins."""
        limits = self.server.terms.limits
        self.serve(limits=type(limits)(0, 0, 0, 2, 0, 0, 0))
        browser = self.new_account_browser()
        self.assertEqual([browser.get(HOME).status for _ in range(3)], [200, 200, 429])


class CookieTests(AccountCase):
    def setUp(self) -> None:
        super().setUp()
        self.browser.sign_in()

    def ended(self) -> None:
        """Assert that the page asks to sign in, and that the index of the cookie is gone or void."""
        self.assertIn("Sign in to see your devices and saves.", self.browser.get(HOME).text)

    def test_attributes(self) -> None:
        """The cookie is bound to the host, hidden from scripts, and not sent with other sites' forms."""
        form = self.browser.get(HOME).form("/sign-out")
        self.browser.post(form)
        done = self.browser.post_only(
            self.browser.get(HOME).form("/sign-in"), {"name": "Anna", "password": "correct horse"}
        ).headers["location"]
        [cookie] = self.browser.ask("GET", done.replace("/auth/login/done", f"{HOME}/done")).cookies
        self.assertRegex(cookie, r"^__Host-ga=gbs_[A-Za-z0-9_-]{49}; Path=/; Secure; HttpOnly; SameSite=Lax$")

    def test_only_an_index_is_stored(self) -> None:
        """The database has neither the cookie nor anything that it could be made from."""
        token = (self.browser.token or "").encode()
        for row in self.server.rows("SELECT * FROM browser_session"):
            for value in row:
                self.assertNotIn(token, value if isinstance(value, bytes) else str(value).encode())

    @covers("threats/67")
    def test_new_at_each_sign_in(self) -> None:
        """A new sign-in makes a new cookie and ends the session of the old one; a planted cookie is never adopted."""
        first = self.browser.token or ""
        self.browser.post(self.browser.get(HOME).form("/sign-out"))
        planted = self.new_account_browser()
        planted.cookies["__Host-ga"] = first
        planted.sign_in()
        self.assertNotEqual(planted.token, first)
        second = planted.token or ""
        form = self.browser.get(HOME).form("/sign-in")
        planted.cookies["__Host-gl"] = self.browser.cookies["__Host-gl"]
        planted.post(form, {"name": "Anna", "password": "correct horse"})
        self.assertEqual(self.server.rows("SELECT count(*) FROM browser_session"), [(1,)])
        thief = self.new_account_browser()
        thief.cookies["__Host-ga"] = second
        self.assertIn("Sign in to see your devices and saves.", thief.get(HOME).text)

    def test_idle(self) -> None:
        """The session ends 30 minutes after the last request, and a request keeps it."""
        for _ in range(3):
            self.server.clock.advance(BROWSER_IDLE_MS / 1000 - 61)
            self.assertIn("Hello, ", self.browser.get(HOME).heading)
            self.assertIn("Anna", self.browser.get(HOME).text)
        self.server.clock.advance(BROWSER_IDLE_MS / 1000)
        self.ended()

    def test_total(self) -> None:
        """The session ends 12 hours after the sign-in, however often it was used."""
        for _ in range(BROWSER_TOTAL_MS // (20 * 60_000) - 1):
            self.server.clock.advance(20 * 60)
            self.assertIn("Anna", self.browser.get(HOME).text)
        self.server.clock.advance(20 * 60)
        self.ended()

    def test_clock_set_back(self) -> None:
        """A session that seems to begin in the future does not count."""
        self.server.shift_ms = -3_600_000
        self.ended()

    def test_sign_out(self) -> None:
        """Signing out ends the session, and lets the browser forget the cookie and its copies of pages."""
        token = self.browser.token or ""
        answer = self.browser.post_only(self.browser.get(HOME).form("/sign-out"))
        self.assertEqual((answer.status, answer.headers["clear-site-data"]), (303, '"cache"'))
        self.assertIn("__Host-ga=; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=0", answer.cookies)
        self.browser.cookies["__Host-ga"] = token
        self.ended()
        self.assertIn(f"signed_out player={ANNA} scope=this", self.server.security)

    def ended_by(self, work: object) -> None:
        self.server.write(work)
        self.ended()
        self.assertEqual(self.server.rows("SELECT * FROM browser_session"), [])

    def test_block(self) -> None:
        """Blocking the player ends the session, and unblocking does not bring it back."""
        self.ended_by(lambda c: player_tables.set_state(c, ANNA, "blocked"))
        self.server.write(lambda c: player_tables.lift_block(c, ANNA))
        self.ended()

    def test_erase(self) -> None:
        """Erasing the player ends the session."""
        self.ended_by(lambda c: player_store.mark_removed(c, ANNA, self.server.now_ms()))

    def test_revoke(self) -> None:
        """Signing the player out on the server, as a new password does, ends the session."""
        self.ended_by(lambda c: session_tables.revoke_all(c, ANNA, self.server.now_ms()))

    def test_restore(self) -> None:
        """Restoring a backup ends every session."""
        self.ended_by(lambda c: player_store.sign_out_all(c, self.server.now_ms()))

    def test_game_signs_out_everywhere_else(self) -> None:
        """A game that signs out everywhere else ends the sessions of browsers, too."""
        game = self.play()
        answer = self.site.post_json("/auth/session/logout", {"scope": "others"}, game)
        self.assertEqual(answer.status, 204)
        self.ended()

    def test_cleanup(self) -> None:
        """Sessions that have ended are deleted."""
        self.server.clock.advance(BROWSER_IDLE_MS / 1000 + 1)
        now_ms = self.server.now_ms()

        def transaction(connection: Connection) -> int:
            return delete_old_sessions(connection, now_ms, 500)

        self.assertEqual(self.server.write(transaction), 1)
        self.assertEqual(self.server.rows("SELECT * FROM browser_session"), [])

    @covers("threats/67")
    def test_api_ignores_it(self) -> None:
        """No route of the game's API accepts the cookie, as a cookie or as a token."""
        token = self.browser.token
        sent = {"Cookie": f"__Host-ga={token}; __Host-gl={self.browser.cookies['__Host-gl']}"}
        paths = ("/game/", "/game/saves", "/game/saves/auto", "/game/export", "/auth/sessions", "/auth/identities")
        for path in paths:
            self.assertEqual(self.site.request("GET", path, sent).code, "token_missing", path)
            bearer = {"Authorization": f"Bearer {token}"}
            self.assertEqual(self.site.request("GET", path, bearer).code, "token_invalid", path)
        self.assertEqual(self.site.request("DELETE", "/auth/player", sent).code, "token_missing")

    def test_wrong_cookies(self) -> None:
        """A cookie of another form, or that was never sent, opens nothing."""
        token = self.browser.token or ""
        for wrong in ("", "x", token[:-1], token + "x", "gat_" + token[4:], token[:10] + "BBBB" + token[14:]):
            self.browser.cookies["__Host-ga"] = wrong
            self.ended()

    def test_signed_out_elsewhere(self) -> None:
        """Every address below the page leads a browser without a session to the sign-in."""
        browser = self.new_account_browser()
        for path in ("", "/saves/auto", "/saves/auto/versions/1", "/saves/auto/versions/1/delete", "/export"):
            page = browser.get(HOME + path)
            self.assertEqual((page.status, "Sign in to see your devices" in page.text), (200, True), path)


class ForgeryTests(AccountCase):
    def setUp(self) -> None:
        super().setUp()
        self.game = self.play(device_name="Deck")  # type: ignore[assignment]
        self.home = self.browser.sign_in()

    @covers("threats/67")
    def test_headers(self) -> None:
        """The page cannot be framed or stored, has no script, and sends no referrer."""
        for name, value in RENDERER.headers.items():
            self.assertEqual(self.home.headers[name.lower()], value)
        self.assertEqual(self.home.headers["cache-control"], "no-store")
        self.assertEqual(self.home.headers["referrer-policy"], "no-referrer")
        self.assertNotIn("script", self.home.tags)

    def test_form_field(self) -> None:
        """A form without the field, with another one, or with that of a sign-in changes nothing."""
        form = self.home.form("/sign-out-others")
        fields = form["fields"]
        for wrong in ("", "A" * 43, self.new_account_browser().get(HOME).form("/sign-in")["fields"]["form"]):
            form["fields"] = {**fields, "form": wrong}
            page = self.browser.post(form)
            self.assertEqual((page.status, sentences.FORM_REFUSED.source in page.text), (403, True))
        form["fields"] = {}
        self.assertEqual(self.browser.post(form).status, 403)
        self.assertEqual(len(self.site.request("GET", "/auth/sessions", self.game).json["sessions"]), 1)

    @covers("threats/67")
    def test_form_of_an_older_session(self) -> None:
        """A form of the session before does not work in the next one."""
        form = self.home.form("/sign-out-others")
        self.browser.post(self.home.form("/sign-out"))
        self.browser.sign_in()
        self.assertEqual(self.browser.post(form).status, 403)

    @covers("threats/67")
    def test_other_sites(self) -> None:
        """A form or a download that another site's page sends is refused; so is a page in a frame."""
        form = self.home.form("/sign-out-others")
        for site in ("cross-site", "same-site"):
            self.assertEqual(self.browser.post(form, Sec_Fetch_Site=site).status, 403)
            self.assertEqual(self.browser.get(f"{HOME}/export", Sec_Fetch_Site=site).status, 403)
        self.assertEqual(self.browser.post(form, Sec_Fetch_Dest="iframe").status, 403)
        self.assertEqual(self.browser.get(HOME, Sec_Fetch_Dest="iframe").status, 403)
        self.assertEqual(self.browser.get(HOME, Sec_Purpose="prefetch").status, 503)
        self.assertEqual(self.browser.get(HOME, Sec_Fetch_Site="cross-site", Sec_Fetch_Dest="document").status, 200)

    def test_sign_in_form(self) -> None:
        """A sign-in that another site's page sends is refused: it would sign the browser in as another person."""
        browser = self.new_account_browser()
        form = browser.get(HOME).form("/sign-in")
        typed = {"name": "Anna", "password": "correct horse"}
        self.assertEqual(browser.post(form, typed, Sec_Fetch_Site="cross-site").status, 403)
        self.assertEqual(browser.post({**form, "fields": {}}, typed).status, 403)
        browser.cookies.clear()
        self.assertEqual(browser.post(form, typed).status, 403)

    def test_unknown_action(self) -> None:
        """An unknown action is not found, with or without a session."""
        for browser in (self.browser, self.new_account_browser()):
            form = {**self.home.form("/sign-out"), "action": f"{HOME}/do/explode"}
            self.assertEqual(browser.post(form).status, 404)

    def test_stale_session(self) -> None:
        """A form that is sent after the session has ended asks to sign in again, and changes nothing."""
        form = self.home.form("/sign-out-others")
        self.server.clock.advance(BROWSER_IDLE_MS / 1000)
        page = self.browser.post(form)
        self.assertEqual(
            (page.status, "You are signed out here. Nothing was changed. Sign in again." in page.text), (403, True)
        )
        self.assertEqual(self.server.rows("SELECT count(*) FROM session WHERE revoked_ms IS NULL"), [(1,)])


class TurnTests(AccountCase):
    save_limits = SaveLimits(writes_per_minute=0)

    def setUp(self) -> None:
        super().setUp()
        self.patch(render, "PART_SECONDS", 60.0)  # only rows end a part, not a busy machine

    def test_account(self) -> None:
        """While an account of many devices and saves is rendered, the reactor does other work after every few rows."""
        self.browser.sign_in()
        few = self.turns(HOME)
        games = [self.play() for _ in range(30)]
        for number in range(30):
            self.assertEqual(self.put(games[0], f"slot-{number}", b"one").status, 201)
        self.assertGreater(self.turns(HOME), few + 10)

    def test_versions(self) -> None:
        """So it is on the page of a save with many versions."""
        self.browser.sign_in()
        game = self.play()
        etag = self.put(game, "auto", b"0").headers["etag"]
        few = self.turns(f"{HOME}/saves/auto")
        for number in range(1, 40):
            etag = self.put(game, "auto", b"%d" % number, If_Match=etag).headers["etag"]
        self.assertGreater(self.turns(f"{HOME}/saves/auto"), few + 2)


class FaceTests(SynchronousTestCase):
    """The members of Save-Meta that a save shows (docs/protocol.md: Saves)."""

    def test_members(self) -> None:
        """A save shows title, place and time; texts in one line, numbers as texts."""
        face = SaveFace.of({"title": " Chapter\n4 ", "place": 7, "playtime_seconds": 90.5})
        self.assertEqual(face, SaveFace("Chapter 4", "7", 90))

    def test_other_forms(self) -> None:
        """A member of another form is left out, whatever it is."""
        for odd in (None, True, [], {}, "", " ", "\u202e"):
            self.assertEqual(SaveFace.of({"title": odd, "place": odd, "playtime_seconds": odd}), SaveFace(), odd)
        for seconds in (-1, 1e300, float("inf"), float("nan"), "90"):
            self.assertEqual(SaveFace.of({"playtime_seconds": seconds}), SaveFace(), seconds)
        for meta in (None, [], "title"):
            self.assertEqual(SaveFace.of(meta), SaveFace())

    def test_cut(self) -> None:
        """A text of 64 visible characters is shown whole; a longer one ends in an ellipsis, within these 64."""
        self.assertEqual(SaveFace.of({"title": "x" * 64}).title, "x" * 64)
        self.assertEqual(SaveFace.of({"title": "x" * 65}).title, "x" * 63 + "\u2026")
        self.assertEqual(SaveFace.of({"title": "x" * 62 + " yz"}).title, "x" * 62 + "\u2026")
