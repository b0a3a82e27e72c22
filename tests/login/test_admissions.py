"""Who an identity signs in, at the first proven collect: known, new, adopted, linked, or nobody (PROTOCOL 3.5, 3.8)."""

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
from gamed.players import tables as player_tables
from gamed.sessions.credentials import RECENT_MS, LogoutScope
from gamed.sessions.errors import TokenExpired, TokenInvalid, TokenMissing
from tests.login.examples import BROWSER, OTHER, START_MS
from tests.login.fake_provider import ISSUER, FarProvider
from tests.login.fixtures import ANNA, APPROVAL, PASSWORD, Desk, HandoffCase, done
from tests.support.covers import covers

IDENTITY = "SELECT player_id, provider, linked_ms, last_used_ms FROM identity ORDER BY linked_ms"


class AdmissionCase(HandoffCase):
    def collected(self, desk: Desk, started: StartedLogin) -> Any:
        return desk.collect(started, code=desk.code(started))

    def player(self, desk: Desk, who: str = "anna") -> str:
        return str(self.collected(desk, desk.signed_in(who)).result.player_id)


class Identities(AdmissionCase):
    def test_known_again(self) -> None:
        """The first sign-in makes player and identity, the next finds them and notes the use."""
        desk = self.oauth(FarProvider())
        first = self.collected(desk, desk.signed_in("anna"))
        desk.clock.advance(5)
        second = self.collected(desk, desk.signed_in("anna"))
        self.assertEqual(first.result.player_id, second.result.player_id)
        self.assertEqual([first.result.created, second.result.created], [True, False])
        expected = (first.result.player_id, "discord", START_MS, START_MS + 5000)
        self.assertEqual(desk.rows(IDENTITY), [expected])
        self.assertNotEqual(self.player(desk, "bo"), first.result.player_id)

    def test_by_issuer_not_by_name(self) -> None:
        """The same name with another issuer is another realm: nobody inherits an account, and the owner is told."""
        desk = self.oauth(far := FarProvider("corp", issuer=ISSUER))
        player_id = self.player(desk)
        realm = desk.keys.indexer.index(Purpose.IDENTITY, b"oidc", ISSUER.encode())
        self.assertEqual(done(desk.store.orphaned_identities({realm})), 0)
        far.issuer = "https://other.example"
        self.assertNotEqual(self.player(desk), player_id)
        other = desk.keys.indexer.index(Purpose.IDENTITY, b"oidc", b"https://other.example")
        self.assertEqual(done(desk.store.orphaned_identities({other})), 1)
        self.assertEqual(done(desk.store.orphaned_identities(frozenset())), 2)

    def test_a_provider_renamed(self) -> None:
        """Another name for the same issuer: the same players."""
        desk = self.oauth(FarProvider("corp", issuer=ISSUER))
        player_id = self.player(desk)
        desk.providers.clear()
        desk.providers["work"] = FarProvider("work", issuer=ISSUER)
        self.assertEqual(self.player(desk), player_id)

    def test_registration(self) -> None:
        """Closed: nobody new, nothing written. Approval: the newcomer is there, and waits; approved, signs in."""
        desk = self.oauth(FarProvider(), registration=Registration.CLOSED)
        self.assertEqual(self.collected(desk, desk.signed_in()), Failed(LoginFailure.REGISTRATION_CLOSED))
        self.assertEqual((desk.rows(IDENTITY), desk.rows("SELECT count(*) FROM player")), ([], [(1,)]))
        desk = self.oauth(FarProvider(), registration=APPROVAL)
        for _ in range(2):
            self.assertEqual(self.collected(desk, desk.signed_in()), Failed(LoginFailure.PLAYER_PENDING))
        [(player_id, *_)] = desk.rows(IDENTITY)
        desk.write(lambda c: player_tables.set_state(c, player_id, "active"))
        complete = self.collected(desk, desk.signed_in())
        self.assertEqual((complete.result.player_id, complete.result.created), (player_id, False))

    def test_known_while_closed(self) -> None:
        """Closed keeps newcomers out, not those who are here."""
        desk = self.oauth(FarProvider())
        self.player(desk)
        desk.terms = replace(desk.terms, registration=Registration.CLOSED)
        desk.collects = desk.new_collects()
        self.assertIsInstance(self.collected(desk, desk.signed_in()), Complete)

    def test_blocked(self) -> None:
        """No session, and the identity stays theirs."""
        desk = self.oauth(FarProvider())
        player_id = self.player(desk)
        desk.write(lambda c: player_tables.set_state(c, player_id, "blocked"))
        self.assertEqual(self.collected(desk, desk.signed_in()), Failed(LoginFailure.PLAYER_BLOCKED))
        self.assertEqual(desk.rows("SELECT count(*) FROM identity"), [(1,)])


class Adopting(AdmissionCase):
    def adopting(self, desk: Desk, who: str = "anna", **typed: str) -> StartedLogin:
        started = desk.start(intent=LoginIntent.ADOPT)
        typed = {"name": "Anna", "password": PASSWORD, **typed}
        desk.returned(desk.depart(started, **typed), who=who)
        return started

    def test_to_the_end(self) -> None:
        """Name and password once, then the provider: the same player, from now on by the provider alone."""
        desk = self.oauth(FarProvider())
        started = self.adopting(desk)
        before = desk.rows(IDENTITY)
        complete = self.collected(desk, started)
        self.assertEqual((before, complete.result.player_id, complete.result.created), ([], ANNA, False))
        self.assertEqual(self.player(desk), ANNA)
        self.assertEqual(desk.rows("SELECT count(*) FROM player"), [(1,)])

    def test_only_while_there_is_something_to_adopt(self) -> None:
        """Every local account has another way in: there is nothing left to ask a password for."""
        desk = self.oauth(FarProvider())
        self.collected(desk, self.adopting(desk))
        with self.assertRaises(InvalidStart):
            desk.start(intent=LoginIntent.ADOPT)

    def test_never_straight(self) -> None:
        """The page comes first, whoever opens it; without name and password nobody is sent on."""
        desk = self.oauth(far := FarProvider())
        started = desk.start(port=51004, intent=LoginIntent.ADOPT)
        self.assertIsInstance(desk.enter(started), SignInPrompt)
        self.assertEqual(desk.go(started), FormRejected(started.login, FormError.WRONG))
        self.assertEqual(far.journeys, [])

    @covers("threats/11")
    def test_wrong_passwords(self) -> None:
        """The same sentence for an unknown name; counted as at any sign-in; the login lives."""
        desk = Desk(self.oauth().terms, passwords_per_minute=2, providers={"discord": (far := FarProvider())})
        started = desk.start(intent=LoginIntent.ADOPT)
        for name, password in (("Anna", "wrong horse"), ("nobody", PASSWORD)):
            self.assertEqual(desk.go(started, name=name, password=password).error, FormError.WRONG)
        self.assertEqual(desk.go(started, name="Anna", password="wrong horse").error, FormError.WRONG)
        limited = desk.go(started, name="Anna", password=PASSWORD)
        self.assertEqual((limited.error, limited.retry_after), (FormError.LIMIT, 30))
        self.assertEqual(far.journeys, [])
        desk.clock.advance(30)
        desk.depart(started, name="Anna", password=PASSWORD)

    def test_whose_browser_it_was(self) -> None:
        """The password of one browser does not speak for the trip of another."""
        desk = self.oauth(FarProvider())
        started = desk.start(intent=LoginIntent.ADOPT)
        state = desk.depart(started, name="Anna", password=PASSWORD)
        with self.assertRaises(CallbackRejected):
            desk.returned(state, OTHER, who="mallory")
        self.assertEqual(desk.go(started, OTHER), FormRejected(desk.login(started), FormError.WRONG))
        self.assertEqual(desk.returned(state, BROWSER, who="anna"), RedirectToResult(started.login.login_id))

    def test_somebodys_already(self) -> None:
        """An identity that signs in a player is never moved to another."""
        desk = self.oauth(FarProvider())
        player_id = self.player(desk, "anna")
        self.assertEqual(self.collected(desk, self.adopting(desk, "anna")), Failed(LoginFailure.IDENTITY_IN_USE))
        self.assertEqual([row[0] for row in desk.rows(IDENTITY)], [player_id])

    def test_one_of_each_provider(self) -> None:
        """A second account of the same provider is refused, be it another one or the same."""
        for second in ("bo", "anna"):
            desk = self.oauth(FarProvider())
            late = self.adopting(desk, second)
            self.collected(desk, self.adopting(desk, "anna"))
            self.assertEqual(self.collected(desk, late), Failed(LoginFailure.PROVIDER_ALREADY_LINKED))
            self.assertEqual(len(desk.rows(IDENTITY)), 1)

    def test_blocked(self) -> None:
        """A blocked player adopts nothing."""
        desk = self.oauth(FarProvider())
        started = self.adopting(desk)
        desk.write(lambda c: player_tables.set_state(c, ANNA, "blocked"))
        self.assertEqual(self.collected(desk, started), Failed(LoginFailure.PLAYER_BLOCKED))
        self.assertEqual(desk.rows(IDENTITY), [])

    def test_closed(self) -> None:
        """Adopting is no registration."""
        desk = self.oauth(FarProvider(), registration=Registration.CLOSED)
        self.assertIsInstance(self.collected(desk, self.adopting(desk)), Complete)


class Linking(AdmissionCase):
    def two(self) -> tuple[Desk, str, str]:
        """A player of Discord, their token, and Google as another way in."""
        desk = self.oauth(FarProvider(), FarProvider("google", issuer=ISSUER))
        complete = self.collected(desk, desk.signed_in("anna"))
        return desk, complete.result.player_id, complete.result.pair.access.reveal().decode()

    def linking(self, desk: Desk, token: str, who: str = "anna") -> StartedLogin:
        return desk.signed_in(who, provider="google", intent=LoginIntent.LINK, token=token)

    def test_to_the_end(self) -> None:
        """No session is made; from now on both sign in the same player; a lost answer is given again."""
        desk, player_id, token = self.two()
        started = self.linking(desk, token)
        sessions_before = desk.rows("SELECT session_id FROM session")
        self.assertEqual(self.collected(desk, started), Linked("google"))
        self.assertEqual(desk.collect(started), Linked("google"))
        self.assertEqual(desk.rows("SELECT session_id FROM session"), sessions_before)
        self.assertEqual(desk.done_page(started), Finished(signed_in=True, linked=True))
        self.assertEqual(self.collected(desk, desk.signed_in("anna", provider="google")).result.player_id, player_id)
        desk.clock.advance(DELIVERED_MS / 1000)
        with self.assertRaises(LoginCollected):
            desk.collect(started)

    @covers("threats/11")
    def test_nothing_without_proof(self) -> None:
        """Until the game shows it, nothing is linked."""
        desk, _, token = self.two()
        self.linking(desk, token)
        self.assertEqual(len(desk.rows(IDENTITY)), 1)

    @covers("threats/11")
    def test_who_may_start(self) -> None:
        """A live access token, of a sign-in not longer ago than ten minutes."""
        desk, _, token = self.two()
        for wrong, error in ((None, TokenMissing), ("gat_x", TokenInvalid)):
            with self.assertRaises(error):
                desk.start(intent=LoginIntent.LINK, token=wrong)
        desk.clock.advance(RECENT_MS / 1000)
        desk.start(intent=LoginIntent.LINK, token=token)
        desk.clock.advance(0.001)
        with self.assertRaises(ReauthenticationRequired):
            desk.start(intent=LoginIntent.LINK, token=token)
        desk.clock.advance(300)
        with self.assertRaises(TokenExpired):
            desk.start(intent=LoginIntent.LINK, token=token)
        self.assertEqual(len(desk.rows("SELECT 1 FROM login WHERE intent = 'link'")), 1)

    def test_the_page_names_the_player(self) -> None:
        """The id, or the name of the local account; never straight to the provider."""
        desk, player_id, token = self.two()
        started = desk.start(port=51004, intent=LoginIntent.LINK, token=token)
        self.assertEqual(desk.enter(started), SignInPrompt(started.login, player_id))

    def test_the_asking_session_ends(self) -> None:
        """Before the collect: session_revoked, nothing linked. Before the link is opened: at once."""
        desk, _, token = self.two()
        started, unopened = self.linking(desk, token), desk.start(intent=LoginIntent.LINK, token=token)
        done(desk.sessions.log_out(token, None, LogoutScope.THIS))
        self.assertEqual(self.collected(desk, started), Failed(LoginFailure.SESSION_REVOKED))
        self.assertEqual(len(desk.rows(IDENTITY)), 1)
        self.assertEqual(desk.enter(unopened), RedirectToResult(unopened.login.login_id))
        self.assertEqual(desk.collect(unopened), Failed(LoginFailure.SESSION_REVOKED))
        self.assertEqual(desk.log.lines, ["failed discord session_revoked req-1: the requesting session has ended"])

    @covers("threats/11")
    def test_taken(self) -> None:
        """Somebody else's account stays theirs; a second one of the same provider is refused."""
        desk, _, token = self.two()
        bo = lambda: self.collected(desk, desk.signed_in("bo", provider="google")).result.player_id  # noqa: E731
        other = bo()
        self.assertEqual(self.collected(desk, self.linking(desk, token, "bo")), Failed(LoginFailure.IDENTITY_IN_USE))
        self.assertEqual(self.collected(desk, self.linking(desk, token, "anna")), Linked("google"))
        for who in ("anna", "chidi"):
            outcome = self.collected(desk, self.linking(desk, token, who))
            self.assertEqual(outcome, Failed(LoginFailure.PROVIDER_ALREADY_LINKED))
        self.assertEqual(bo(), other)

    def test_blocked(self) -> None:
        """A player who was blocked meanwhile gets no other way in."""
        desk, player_id, token = self.two()
        started = self.linking(desk, token)
        desk.write(lambda c: player_tables.set_state(c, player_id, "blocked"))
        self.assertEqual(self.collected(desk, started), Failed(LoginFailure.PLAYER_BLOCKED))

    def test_cancelled(self) -> None:
        """Before the collect nothing comes of it."""
        desk, _, token = self.two()
        started = self.linking(desk, token)
        desk.cancel(started)
        self.assertEqual(desk.collect(started), Failed(LoginFailure.LOGIN_CANCELLED))
        self.assertIs(desk.login(started).stage, LoginStage.CANCELLED)
        self.assertEqual(len(desk.rows(IDENTITY)), 1)
