"""These tests collect for known, new, adopted and linked identities (docs/protocol.md: Collect, Accounts)."""

from typing import Any

from msgspec.structs import replace

from gamed.config.model import Registration
from gamed.crypto import Purpose
from gamed.login.browser import Finished, RedirectToResult, SignInPrompt
from gamed.login.callback_rules import CallbackRejected
from gamed.login.collect import Complete, Failed, Linked
from gamed.login.errors import InvalidStart, LoginCollected, ReauthenticationRequired
from gamed.login.local import FormError, FormRejected
from gamed.login.start import StartedLogin
from gamed.login.transaction import DELIVERED_MS, LoginIntent, LoginStage
from gamed.outcomes import LoginFailure
from gamed.passkeys import tables as passkey_tables
from gamed.passkeys.model import Credential, NewPasskey
from gamed.players import tables as player_tables
from gamed.sessions.credentials import RECENT_MS, LogoutScope
from gamed.sessions.errors import TokenExpired, TokenInvalid, TokenMissing
from tests.login.examples import BROWSER, OTHER, START_MS
from tests.login.fake_provider import ISSUER, FakeProvider
from tests.login.fixtures import ANNA, APPROVAL, PASSWORD, LoginCase, LoginServer, done
from tests.support.covers import covers

IDENTITY = "SELECT player_id, provider, linked_ms, last_used_ms FROM identity ORDER BY linked_ms"


class AdmissionCase(LoginCase):
    def collected(self, server: LoginServer, started: StartedLogin) -> Any:
        return server.collect(started, code=server.code(started))

    def player(self, server: LoginServer, who: str = "anna") -> str:
        return str(self.collected(server, server.signed_in(who)).result.player_id)


class Identities(AdmissionCase):
    def test_known_again(self) -> None:
        """The first sign-in creates player and identity, the next one finds them and records the use."""
        server = self.oauth_server(FakeProvider())
        first = self.collected(server, server.signed_in("anna"))
        server.clock.advance(5)
        second = self.collected(server, server.signed_in("anna"))
        self.assertEqual(first.result.player_id, second.result.player_id)
        self.assertEqual([first.result.created, second.result.created], [True, False])
        expected = (first.result.player_id, "discord", START_MS, START_MS + 5000)
        self.assertEqual(server.rows(IDENTITY), [expected])
        self.assertNotEqual(self.player(server, "bo"), first.result.player_id)

    def test_by_issuer_not_by_name(self) -> None:
        """The same name with another issuer is another namespace: no account changes hands, and the log warns."""
        server = self.oauth_server(fake := FakeProvider("corp", issuer=ISSUER))
        player_id = self.player(server)
        realm = server.keys.indexer.index(Purpose.IDENTITY, b"oidc", ISSUER.encode())
        self.assertEqual(done(server.store.orphaned_identities({realm})), 0)
        fake.issuer = "https://other.example"
        self.assertNotEqual(self.player(server), player_id)
        other = server.keys.indexer.index(Purpose.IDENTITY, b"oidc", b"https://other.example")
        self.assertEqual(done(server.store.orphaned_identities({other})), 1)
        self.assertEqual(done(server.store.orphaned_identities(frozenset())), 2)

    def test_a_provider_renamed(self) -> None:
        """Another name for the same issuer has the same players."""
        server = self.oauth_server(FakeProvider("corp", issuer=ISSUER))
        player_id = self.player(server)
        server.providers.clear()
        server.providers["work"] = FakeProvider("work", issuer=ISSUER)
        self.assertEqual(self.player(server), player_id)

    def test_registration(self) -> None:
        """Closed: no new player. Approval: the new player waits; once approved, signs in."""
        server = self.oauth_server(FakeProvider(), registration=Registration.CLOSED)
        self.assertEqual(self.collected(server, server.signed_in()), Failed(LoginFailure.REGISTRATION_CLOSED))
        self.assertEqual((server.rows(IDENTITY), server.rows("SELECT count(*) FROM player")), ([], [(1,)]))
        server = self.oauth_server(FakeProvider(), registration=APPROVAL)
        for _ in range(2):
            self.assertEqual(self.collected(server, server.signed_in()).outcome, LoginFailure.PLAYER_PENDING)
        [(player_id, *_)] = server.rows(IDENTITY)
        server.write(lambda c: player_tables.set_state(c, player_id, "active"))
        complete = self.collected(server, server.signed_in())
        self.assertEqual((complete.result.player_id, complete.result.created), (player_id, False))

    def test_known_while_closed(self) -> None:
        """Closed registration refuses new players, not existing ones."""
        server = self.oauth_server(FakeProvider())
        self.player(server)
        server.terms = replace(server.terms, registration=Registration.CLOSED)
        server.collects = server.new_collects()
        self.assertIsInstance(self.collected(server, server.signed_in()), Complete)

    def test_blocked(self) -> None:
        """A blocked player gets no session, and keeps the identity."""
        server = self.oauth_server(FakeProvider())
        player_id = self.player(server)
        server.write(lambda c: player_tables.set_state(c, player_id, "blocked"))
        self.assertEqual(self.collected(server, server.signed_in()), Failed(LoginFailure.PLAYER_BLOCKED))
        self.assertEqual(server.rows("SELECT count(*) FROM identity"), [(1,)])


class Adopting(AdmissionCase):
    def adopting(self, server: LoginServer, who: str = "anna", **start: str) -> StartedLogin:
        started = server.start(intent=LoginIntent.ADOPT, **start)
        state = server.redirect_state(started, name="Anna", password=PASSWORD)
        server.finish_callback(state, who=who, provider=started.login.provider)
        return started

    def test_to_the_end(self) -> None:
        """Name and password once, then the provider: the same player, afterwards by the provider alone."""
        server = self.oauth_server(FakeProvider())
        started = self.adopting(server)
        before = server.rows(IDENTITY)
        complete = self.collected(server, started)
        self.assertEqual((before, complete.result.player_id, complete.result.created), ([], ANNA, False))
        self.assertEqual(self.player(server), ANNA)
        self.assertEqual(server.rows("SELECT count(*) FROM player"), [(1,)])

    def test_only_while_there_is_something_to_adopt(self) -> None:
        """With no local account left to adopt, a start is refused."""
        server = self.oauth_server(FakeProvider())
        self.collected(server, self.adopting(server))
        with self.assertRaises(InvalidStart):
            server.start(intent=LoginIntent.ADOPT)

    def test_always_with_a_page(self) -> None:
        """Adopting always shows the page; without name and password no browser is redirected."""
        server = self.oauth_server(fake := FakeProvider())
        started = server.start(port=51004, intent=LoginIntent.ADOPT)
        self.assertIsInstance(server.open_link(started), SignInPrompt)
        self.assertEqual(server.press_continue(started), FormRejected(started.login, FormError.WRONG))
        self.assertEqual(fake.requests, [])

    @covers("threats/11")
    def test_wrong_passwords(self) -> None:
        """A wrong password and an unknown name give the same error and count; the login continues."""
        server = LoginServer(
            self, self.oauth_server().terms, passwords_per_minute=2, providers={"discord": (fake := FakeProvider())}
        )
        started = server.start(intent=LoginIntent.ADOPT)
        for name, password in (("Anna", "wrong horse"), ("nobody", PASSWORD)):
            self.assertEqual(server.press_continue(started, name=name, password=password).error, FormError.WRONG)
        self.assertEqual(server.press_continue(started, name="Anna", password="wrong horse").error, FormError.WRONG)
        limited = server.press_continue(started, name="Anna", password=PASSWORD)
        self.assertEqual((limited.error, limited.retry_after), (FormError.LIMIT, 30))
        self.assertEqual(fake.requests, [])
        server.clock.advance(30)
        server.redirect_state(started, name="Anna", password=PASSWORD)

    def test_whose_browser_it_was(self) -> None:
        """The password typed in one browser does not count for the attempt of another."""
        server = self.oauth_server(FakeProvider())
        started = server.start(intent=LoginIntent.ADOPT)
        state = server.redirect_state(started, name="Anna", password=PASSWORD)
        with self.assertRaises(CallbackRejected):
            server.finish_callback(state, OTHER, who="mallory")
        self.assertEqual(server.press_continue(started, OTHER), FormRejected(server.login(started), FormError.WRONG))
        self.assertEqual(server.finish_callback(state, BROWSER, who="anna"), RedirectToResult(started.login.login_id))

    def test_owned_identity(self) -> None:
        """An identity of one player is never moved to another."""
        server = self.oauth_server(FakeProvider())
        player_id = self.player(server, "anna")
        self.assertEqual(self.collected(server, self.adopting(server, "anna")), Failed(LoginFailure.IDENTITY_IN_USE))
        self.assertEqual([row[0] for row in server.rows(IDENTITY)], [player_id])

    @covers("threats/11")
    def test_adopted_before(self) -> None:
        """An old password adds no account to a player who has one of a provider, also one that is not offered now."""
        server = self.oauth_server(FakeProvider(), FakeProvider("google"))
        late = self.adopting(server, "mallory", provider="google")
        self.collected(server, self.adopting(server, "anna"))
        self.assertEqual(self.collected(server, late), Failed(LoginFailure.PROVIDER_ALREADY_LINKED))
        bo = {"player_id": "ply_" + "B" * 22, "name": "Bo", "password": "-"}  # or no such login could begin
        server.write(lambda c: player_tables.add_local_player(c, server.keys, **bo, now_ms=server.now_ms()))
        del server.providers["discord"]
        after = self.adopting(server, "mallory", provider="google")
        self.assertEqual(self.collected(server, after), Failed(LoginFailure.PROVIDER_ALREADY_LINKED))
        self.assertEqual([row[:2] for row in server.rows(IDENTITY)], [(ANNA, "discord")])
        self.assertEqual(server.rows("SELECT provider FROM session"), [("discord",)])

    def test_owner(self) -> None:
        """The owner brings an old account along like any player, once."""
        server = self.oauth_server(FakeProvider())
        server.write(lambda c: player_tables.set_owner(c, ANNA))
        late = self.adopting(server, "mallory")
        complete = self.collected(server, self.adopting(server, "anna"))
        self.assertEqual((complete.result.player_id, complete.result.owner), (ANNA, True))
        self.assertEqual(self.collected(server, late), Failed(LoginFailure.PROVIDER_ALREADY_LINKED))

    @covers("threats/11")
    def test_with_passkey(self) -> None:
        """Nor to one who has a passkey."""
        server = self.oauth_server(FakeProvider())
        late = self.adopting(server, "mallory")
        new = NewPasskey(Credential(b"id", b"key", b"handle"), sign_count=0, synced=True, backed_up=True)
        of = {"passkey_id": "psk_1", "player_id": ANNA, "rp_id": "play.example", "name": "laptop"}
        server.write(lambda c: passkey_tables.insert(c, server.keys, new, **of, now_ms=START_MS))
        self.assertEqual(self.collected(server, late), Failed(LoginFailure.PROVIDER_ALREADY_LINKED))
        self.assertEqual(server.rows(IDENTITY), [])

    def test_one_of_each_provider(self) -> None:
        """A second account of the same provider is refused, whether another or the same."""
        for second in ("bo", "anna"):
            server = self.oauth_server(FakeProvider())
            late = self.adopting(server, second)
            self.collected(server, self.adopting(server, "anna"))
            self.assertEqual(self.collected(server, late), Failed(LoginFailure.PROVIDER_ALREADY_LINKED))
            self.assertEqual(len(server.rows(IDENTITY)), 1)

    def test_blocked(self) -> None:
        """A blocked player cannot adopt."""
        server = self.oauth_server(FakeProvider())
        started = self.adopting(server)
        server.write(lambda c: player_tables.set_state(c, ANNA, "blocked"))
        self.assertEqual(self.collected(server, started), Failed(LoginFailure.PLAYER_BLOCKED))
        self.assertEqual(server.rows(IDENTITY), [])

    def test_closed(self) -> None:
        """Adopting works with closed registration."""
        server = self.oauth_server(FakeProvider(), registration=Registration.CLOSED)
        self.assertIsInstance(self.collected(server, self.adopting(server)), Complete)


class Linking(AdmissionCase):
    def two(self) -> tuple[LoginServer, str, str]:
        """Return a player of Discord, their token, and Google as another provider."""
        server = self.oauth_server(FakeProvider(), FakeProvider("google", issuer=ISSUER))
        complete = self.collected(server, server.signed_in("anna"))
        return server, complete.result.player_id, complete.result.pair.access.reveal().decode()

    def linking(self, server: LoginServer, token: str, who: str = "anna") -> StartedLogin:
        return server.signed_in(who, provider="google", intent=LoginIntent.LINK, token=token)

    def test_to_the_end(self) -> None:
        """A link makes no session; both accounts sign in the same player; a repeated collect returns the same."""
        server, player_id, token = self.two()
        started = self.linking(server, token)
        sessions_before = server.rows("SELECT session_id FROM session")
        self.assertEqual(self.collected(server, started), Linked("google"))
        self.assertEqual(server.collect(started), Linked("google"))
        self.assertEqual(server.rows("SELECT session_id FROM session"), sessions_before)
        self.assertEqual(server.result(started), Finished(True, linked=True, provider="google", player=player_id))
        self.assertEqual(
            self.collected(server, server.signed_in("anna", provider="google")).result.player_id, player_id
        )
        server.clock.advance(DELIVERED_MS / 1000)
        with self.assertRaises(LoginCollected):
            server.collect(started)

    @covers("threats/11")
    def test_nothing_without_proof(self) -> None:
        """Without a proof nothing is linked."""
        server, _, token = self.two()
        self.linking(server, token)
        self.assertEqual(len(server.rows(IDENTITY)), 1)

    @covers("threats/11")
    def test_who_may_start(self) -> None:
        """A link needs a live access token of a sign-in within the last ten minutes."""
        server, _, token = self.two()
        for wrong, error in ((None, TokenMissing), ("gat_x", TokenInvalid)):
            with self.assertRaises(error):
                server.start(intent=LoginIntent.LINK, token=wrong)
        server.clock.advance(RECENT_MS / 1000)
        server.start(intent=LoginIntent.LINK, token=token)
        server.clock.advance(0.001)
        with self.assertRaises(ReauthenticationRequired):
            server.start(intent=LoginIntent.LINK, token=token)
        server.clock.advance(300)
        with self.assertRaises(TokenExpired):
            server.start(intent=LoginIntent.LINK, token=token)
        self.assertEqual(len(server.rows("SELECT 1 FROM login WHERE intent = 'link'")), 1)

    def test_the_page_names_the_player(self) -> None:
        """The page shows the player's id or account name, and is never skipped."""
        server, player_id, token = self.two()
        started = server.start(port=51004, intent=LoginIntent.LINK, token=token)
        self.assertEqual(server.open_link(started), SignInPrompt(started.login, player_id))

    def test_the_asking_session_ends(self) -> None:
        """The requesting session ends: session_revoked at the collect, or at once when the link is opened."""
        server, _, token = self.two()
        started, unopened = self.linking(server, token), server.start(intent=LoginIntent.LINK, token=token)
        done(server.sessions.log_out(token, None, LogoutScope.THIS))
        self.assertEqual(self.collected(server, started), Failed(LoginFailure.SESSION_REVOKED))
        self.assertEqual(len(server.rows(IDENTITY)), 1)
        self.assertEqual(server.open_link(unopened), RedirectToResult(unopened.login.login_id))
        self.assertEqual(server.collect(unopened), Failed(LoginFailure.SESSION_REVOKED))
        self.assertEqual(server.log.lines, ["failed discord session_revoked req-1: the requesting session has ended"])

    @covers("threats/11")
    def test_taken(self) -> None:
        """An identity of another player stays theirs; a second one of the same provider is refused."""
        server, _, token = self.two()
        bo = lambda: self.collected(server, server.signed_in("bo", provider="google")).result.player_id  # noqa: E731
        other = bo()
        self.assertEqual(
            self.collected(server, self.linking(server, token, "bo")), Failed(LoginFailure.IDENTITY_IN_USE)
        )
        self.assertEqual(self.collected(server, self.linking(server, token, "anna")), Linked("google"))
        for who in ("anna", "chidi"):
            outcome = self.collected(server, self.linking(server, token, who))
            self.assertEqual(outcome, Failed(LoginFailure.PROVIDER_ALREADY_LINKED))
        self.assertEqual(bo(), other)

    def test_blocked(self) -> None:
        """A player who was blocked meanwhile gets no other identity."""
        server, player_id, token = self.two()
        started = self.linking(server, token)
        server.write(lambda c: player_tables.set_state(c, player_id, "blocked"))
        self.assertEqual(self.collected(server, started), Failed(LoginFailure.PLAYER_BLOCKED))

    def test_cancelled(self) -> None:
        """A cancel before the collect links nothing."""
        server, _, token = self.two()
        started = self.linking(server, token)
        server.cancel(started)
        self.assertEqual(server.collect(started), Failed(LoginFailure.LOGIN_CANCELLED))
        self.assertIs(server.login(started).stage, LoginStage.CANCELLED)
        self.assertEqual(len(server.rows(IDENTITY)), 1)
