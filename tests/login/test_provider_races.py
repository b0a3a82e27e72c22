"""These tests let a callback and another party act at once: the first commit decides.

See docs/internals/login-states.md.
"""

from functools import partial
from itertools import permutations
from typing import Any

from msgspec.structs import replace
from twisted.internet.defer import Deferred, fail

from gamed.database.errors import DatabaseBusy
from gamed.login.browser import RedirectToResult
from gamed.login.callback import AlreadyConsumed
from gamed.login.collect import CollectRequest, Complete, Failed, Pending
from gamed.login.errors import LoginEnded, WrongBrowser
from gamed.login.keys import PresentedProof
from gamed.login.local import SignInForm
from gamed.login.start import StartedLogin
from gamed.login.transaction import EXCHANGE_MS, LoginStage
from gamed.outcomes import LoginFailure
from tests.login.examples import BROWSER, OTHER
from tests.login.fake_provider import FakeProvider
from tests.login.fixtures import LoginCase, LoginServer, done
from tests.login.test_races import together
from tests.support.covers import covers


@covers("2.3/8")
class Callbacks(LoginCase):
    def begun(self) -> tuple[LoginServer, FakeProvider, StartedLogin, str]:
        server = self.oauth_server(fake := FakeProvider())
        started = server.start()
        return server, fake, started, server.redirect_state(started)

    @covers("threats/14")
    def test_two_codes_for_one_state(self) -> None:
        """Some providers redirect twice: one code is exchanged, the other callback finds the result."""
        for codes in permutations(("anna", "bo")):
            server, fake, started, state = self.begun()
            acts = [partial(server.callback, state, who=who) for who in codes]
            results = together(server, *acts)
            self.assertEqual(
                results, [RedirectToResult(started.login.login_id), AlreadyConsumed(started.login.login_id, own=True)]
            )
            self.assertEqual([call["code"] for call in fake.calls], [f"{codes[0]}|{state}".encode()])

    def test_two_browsers(self) -> None:
        """Two browsers with an attempt each, in both orders: one identity, one proof."""
        for first, second in permutations((BROWSER, OTHER)):
            server, fake, started, _ = self.begun()
            acts = [partial(server.callback, server.redirect_state(started, who), who) for who in (first, second)]
            results = together(server, *acts)
            self.assertEqual(
                results, [RedirectToResult(started.login.login_id), AlreadyConsumed(started.login.login_id, own=False)]
            )
            self.assertEqual(len(fake.calls), 1)
            self.assertTrue(server.login(started).belongs_to(first))

    def test_against_an_end(self) -> None:
        """After a cancel or decline no code is sent; a cancel after the callback still ends the exchange."""
        for end, outcome in (("cancel", LoginFailure.LOGIN_CANCELLED), ("decline", LoginFailure.LOGIN_DENIED)):
            server, fake, started, state = self.begun()
            act = self.ending(server, started, end)
            _, over = together(server, act, partial(server.callback, state))
            self.assertIsInstance(over, LoginEnded)
            self.assertEqual((server.collect(started), fake.calls), (Failed(outcome), []))
        server, fake, started, state = self.begun()
        together(server, partial(server.callback, state), self.ending(server, started, "cancel"))
        self.assertEqual(server.collect(started), Failed(LoginFailure.LOGIN_CANCELLED))
        self.assertEqual(server.rows("SELECT sealed_identity FROM login"), [(None,)])
        server, fake, started, state = self.begun()
        back, declined = together(
            server, partial(server.callback, state), partial(server.browsers.decline, started.token, OTHER)
        )
        self.assertIsInstance(back, RedirectToResult)
        self.assertIsInstance(declined, WrongBrowser)
        self.assertIs(server.login(started).stage, LoginStage.READY)

    def ending(self, server: LoginServer, started: StartedLogin, how: str) -> Any:
        if how == "cancel":
            return partial(server.lifecycle.cancel, server.secret(started))
        return partial(server.browsers.decline, started.token, BROWSER)

    def test_against_the_sweep(self) -> None:
        """At the last millisecond the callback is in time, at the next the login has expired."""
        for late in (False, True):
            server, fake, _, state = self.begun()
            server.clock.advance(600 if late else 599.999)
            _, back = together(server, server.lifecycle.expire, partial(server.callback, state))
            self.assertIsInstance(back, LoginEnded if late else RedirectToResult)
            self.assertEqual(len(fake.calls), 0 if late else 1)

    def test_against_a_sixth_attempt(self) -> None:
        """A callback just after its attempt was replaced is unknown; just before, it gets the login."""
        server, fake, started, state = self.begun()
        for _ in range(4):
            server.redirect_state(started)
        results = together(server, partial(server.callback, state), partial(self.another, server, started))
        self.assertIsInstance(results[0], RedirectToResult)
        self.assertEqual(len(fake.calls), 1)

    async def another(self, server: LoginServer, started: StartedLogin) -> Any:
        return await server.authorize.continue_(SignInForm(started.token, OTHER, "198.51.100.1"))


class Restarts(LoginCase):
    def test_a_game_that_is_back_before_the_recovery(self) -> None:
        """A game that asks during the recovery never receives `exchanging` for an interrupted exchange."""
        server = self.oauth_server(fake := FakeProvider(holding=True))
        started = server.start()
        server.callback(server.redirect_state(started)).send(None)
        self.assertEqual((server.login(started).stage, len(fake.calls)), (LoginStage.EXCHANGING, 1))
        server.databases.auth.pause()
        recovering = Deferred.fromCoroutine(server.lifecycle.recover(first=True))
        early = server.begin_collect(started)
        self.assertFalse(early.called)
        server.databases.auth.resume()
        done(recovering)
        self.assertEqual(done(early), Failed(LoginFailure.LOGIN_INTERRUPTED))

    def test_a_recovery_that_fails(self) -> None:
        """The database is busy at the start: reads still work, and the deadline ends the exchange."""
        server = self.oauth_server(FakeProvider(holding=True))
        started = server.start()
        server.callback(server.redirect_state(started)).send(None)

        class Busy:
            def submit(self, unit: object, **how: object) -> Deferred[None]:
                return fail(DatabaseBusy())

        store = replace(server.store, writes=Busy())
        with self.assertRaises(DatabaseBusy):
            done(replace(server.lifecycle, store=store).recover(first=True))
        self.assertEqual(server.collect(started), Pending("exchanging", 600))
        server.clock.advance(EXCHANGE_MS / 1000)
        self.assertEqual(server.collect(started), Failed(LoginFailure.LOGIN_INTERRUPTED))

    def test_a_recovery_that_succeeds_late(self) -> None:
        """A late recovery ends only the exchanges of earlier processes, also after the clock was set back."""
        server = self.oauth_server(FakeProvider(holding=True))
        from_the_future, before, since = (server.start() for _ in range(3))
        for login, shift_ms, instance_id in ((from_the_future, 30_000, "1"), (before, 0, "2"), (since, 0, "3")):
            server.shift_ms = shift_ms
            server.as_instance(instance_id)
            server.callback(server.redirect_state(login)).send(None)
        server.living.add("3")
        done(server.lifecycle.recover())
        interrupted = Failed(LoginFailure.LOGIN_INTERRUPTED)
        self.assertEqual([server.collect(from_the_future), server.collect(before)], [interrupted] * 2)
        self.assertEqual(server.collect(since), Pending("exchanging", 600))

    def test_a_process_that_lives(self) -> None:
        """The start of another process ends no exchange of a living one; that one ends it as always."""
        server = self.oauth_server(fake := FakeProvider(holding=True))
        started = server.start()
        back = Deferred.fromCoroutine(server.callback(server.redirect_state(started)))
        server.living.add("first")
        for first in (True, False):
            done(server.lifecycle.recover(first=first))
        self.assertEqual(server.collect(started), Pending("exchanging", 600))
        fake.answer()
        self.assertIsInstance(self.successResultOf(back), RedirectToResult)

    def test_waiters_of_an_ended_process(self) -> None:
        """A game that waits at another process learns at once that the exchange was interrupted."""
        server = self.oauth_server(FakeProvider(holding=True))
        started = server.start()
        server.callback(server.redirect_state(started)).send(None)
        waiting = server.begin_collect(started, wait_seconds=25, seen="exchanging")
        self.assertNoResult(waiting)
        done(server.lifecycle.recover())
        self.assertEqual(self.successResultOf(waiting), Failed(LoginFailure.LOGIN_INTERRUPTED))

    def test_a_read_under_way(self) -> None:
        """The recovery waits for the reads that began before it."""
        server = self.oauth_server(FakeProvider(holding=True))
        started = server.start()
        server.callback(server.redirect_state(started)).send(None)
        under_way = Deferred[None]()
        server.databases.reads.pause = lambda: under_way
        server.databases.reads.resume = lambda: None
        recovering = Deferred.fromCoroutine(server.lifecycle.recover(first=True))
        self.assertFalse(recovering.called)
        self.assertIs(server.login(started).stage, LoginStage.EXCHANGING)
        under_way.callback(None)
        done(recovering)
        self.assertIs(server.login(started).stage, LoginStage.FAILED)


class FirstSignIns(LoginCase):
    def test_one_identity_one_player(self) -> None:
        """Two first sign-ins of one person at once create one player, in both orders."""
        for order in permutations((0, 1)):
            server = self.oauth_server(FakeProvider())
            games = [server.signed_in("anna") for _ in range(2)]
            collects = [
                CollectRequest(server.secret(game), presented=PresentedProof.finish_code(server.code(game)))
                for game in games
            ]
            one, two = together(server, *(partial(server.collects.collect, collects[number]) for number in order))
            self.assertIsInstance(one, Complete)
            self.assertEqual(one.result.player_id, two.result.player_id)
            self.assertEqual((one.result.created, two.result.created), (True, False))
            self.assertEqual(
                server.rows("SELECT count(*) FROM player WHERE player_id <> :anna", anna="ply_" + "A" * 22), [(1,)]
            )
            self.assertEqual(len(server.rows("SELECT 1 FROM session")), 2)
