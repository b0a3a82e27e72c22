"""A callback and somebody else at once: whoever commits first wins, and a code is sent at most once (PROTOCOL 3)."""

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
from tests.login.fake_provider import FarProvider
from tests.login.fixtures import Desk, HandoffCase, done
from tests.login.test_races import together
from tests.support.covers import covers


@covers("2.3/8")
class Callbacks(HandoffCase):
    def begun(self) -> tuple[Desk, FarProvider, StartedLogin, str]:
        desk = self.oauth(far := FarProvider())
        started = desk.start()
        return desk, far, started, desk.depart(started)

    @covers("threats/14")
    def test_two_codes_for_one_state(self) -> None:
        """Some providers redirect twice: one of both is exchanged, the other finds its result."""
        for codes in permutations(("anna", "bo")):
            desk, far, started, state = self.begun()
            acts = [partial(desk.come_back, state, who=who) for who in codes]
            results = together(desk, *acts)
            self.assertEqual(
                results, [RedirectToResult(started.login.login_id), AlreadyConsumed(started.login.login_id, own=True)]
            )
            self.assertEqual([call["code"] for call in far.calls], [f"{codes[0]}|{state}".encode()])

    def test_two_browsers(self) -> None:
        """Each with an attempt of its own, in both orders: one identity, one proof."""
        for first, second in permutations((BROWSER, OTHER)):
            desk, far, started, _ = self.begun()
            acts = [partial(desk.come_back, desk.depart(started, who), who) for who in (first, second)]
            results = together(desk, *acts)
            self.assertEqual(
                results, [RedirectToResult(started.login.login_id), AlreadyConsumed(started.login.login_id, own=False)]
            )
            self.assertEqual(len(far.calls), 1)
            self.assertTrue(desk.login(started).belongs_to(first))

    def test_against_an_end(self) -> None:
        """Cancel and decline: before the callback no code is sent; after it a cancel ends the exchange all the same."""
        for end, outcome in (("cancel", LoginFailure.LOGIN_CANCELLED), ("decline", LoginFailure.LOGIN_DENIED)):
            desk, far, started, state = self.begun()
            act = self.ending(desk, started, end)
            _, over = together(desk, act, partial(desk.come_back, state))
            self.assertIsInstance(over, LoginEnded)
            self.assertEqual((desk.collect(started), far.calls), (Failed(outcome), []))
        desk, far, started, state = self.begun()
        together(desk, partial(desk.come_back, state), self.ending(desk, started, "cancel"))
        self.assertEqual(desk.collect(started), Failed(LoginFailure.LOGIN_CANCELLED))
        self.assertEqual(desk.rows("SELECT sealed_identity FROM login"), [(None,)])
        desk, far, started, state = self.begun()
        back, declined = together(
            desk, partial(desk.come_back, state), partial(desk.browsers.decline, started.token, OTHER)
        )
        self.assertIsInstance(back, RedirectToResult)
        self.assertIsInstance(declined, WrongBrowser)
        self.assertIs(desk.login(started).stage, LoginStage.READY)

    def ending(self, desk: Desk, started: StartedLogin, how: str) -> Any:
        if how == "cancel":
            return partial(desk.lifecycle.cancel, desk.secret(started))
        return partial(desk.browsers.decline, started.token, BROWSER)

    def test_against_the_sweep(self) -> None:
        """At the last millisecond the callback wins, at the next it is over."""
        for late in (False, True):
            desk, far, _, state = self.begun()
            desk.clock.advance(600 if late else 599.999)
            _, back = together(desk, desk.lifecycle.expire, partial(desk.come_back, state))
            self.assertIsInstance(back, LoginEnded if late else RedirectToResult)
            self.assertEqual(len(far.calls), 0 if late else 1)

    def test_against_a_sixth_attempt(self) -> None:
        """Dropped a moment before it came back: unknown; a moment after: it has won."""
        desk, far, started, state = self.begun()
        for _ in range(4):
            desk.depart(started)
        results = together(desk, partial(desk.come_back, state), partial(self.another, desk, started))
        self.assertIsInstance(results[0], RedirectToResult)
        self.assertEqual(len(far.calls), 1)

    async def another(self, desk: Desk, started: StartedLogin) -> Any:
        return await desk.authorize.continue_(SignInForm(started.token, OTHER, "198.51.100.1"))


class Restarts(HandoffCase):
    def test_a_game_that_is_back_before_the_recovery(self) -> None:
        """It asks while the interrupted exchange is still being written down: it is never told `exchanging`."""
        desk = self.oauth(far := FarProvider(holding=True))
        started = desk.start()
        desk.come_back(desk.depart(started)).send(None)
        self.assertEqual((desk.login(started).stage, len(far.calls)), (LoginStage.EXCHANGING, 1))
        desk.stores.auth.pause()
        recovering = Deferred.fromCoroutine(desk.lifecycle.recover())
        hasty = desk.asked(started)
        self.assertFalse(hasty.called)
        desk.stores.auth.resume()
        done(recovering)
        self.assertEqual(done(hasty), Failed(LoginFailure.LOGIN_INTERRUPTED))

    def test_a_recovery_that_fails(self) -> None:
        """The store is busy at the start: what is read is read all the same, and the clock ends the exchange."""
        desk = self.oauth(FarProvider(holding=True))
        started = desk.start()
        desk.come_back(desk.depart(started)).send(None)

        class Busy:
            def submit(self, unit: object) -> Deferred[None]:
                return fail(DatabaseBusy())

        store = replace(desk.store, _writes=Busy())
        with self.assertRaises(DatabaseBusy):
            done(replace(desk.lifecycle, _store=store).recover())
        self.assertEqual(desk.collect(started), Pending("exchanging", 600))
        desk.clock.advance(EXCHANGE_MS / 1000)
        self.assertEqual(desk.collect(started), Failed(LoginFailure.LOGIN_INTERRUPTED))

    def test_a_recovery_that_succeeds_late(self) -> None:
        """It ends what an earlier process was exchanging, also before the clock was set back, and nothing else."""
        desk = self.oauth(FarProvider(holding=True))
        from_the_future, before, since = (desk.start() for _ in range(3))
        for login, later in ((from_the_future, 30), (before, -30), (since, 1)):
            desk.clock.advance(later)
            desk.come_back(desk.depart(login)).send(None)
            if login is before:
                started_ms = desk.now_ms() + 1
        done(desk.lifecycle.recover(started_ms))
        interrupted = Failed(LoginFailure.LOGIN_INTERRUPTED)
        self.assertEqual([desk.collect(from_the_future), desk.collect(before)], [interrupted] * 2)
        self.assertEqual(desk.collect(since), Pending("exchanging", 599))

    def test_a_read_under_way(self) -> None:
        """The recovery waits for the reads that were begun before it."""
        desk = self.oauth(FarProvider(holding=True))
        started = desk.start()
        desk.come_back(desk.depart(started)).send(None)
        under_way = Deferred[None]()
        desk.stores.reads.pause = lambda: under_way
        desk.stores.reads.resume = lambda: None
        recovering = Deferred.fromCoroutine(desk.lifecycle.recover())
        self.assertFalse(recovering.called)
        self.assertIs(desk.login(started).stage, LoginStage.EXCHANGING)
        under_way.callback(None)
        done(recovering)
        self.assertIs(desk.login(started).stage, LoginStage.FAILED)


class FirstSignIns(HandoffCase):
    def test_one_identity_one_player(self) -> None:
        """Two games of one person, signed in for the first time at once: one player, in both orders."""
        for order in permutations((0, 1)):
            desk = self.oauth(FarProvider())
            games = [desk.signed_in("anna") for _ in range(2)]
            collects = [
                CollectRequest(desk.secret(game), presented=PresentedProof.finish_code(desk.code(game)))
                for game in games
            ]
            one, two = together(desk, *(partial(desk.collects.collect, collects[number]) for number in order))
            self.assertIsInstance(one, Complete)
            self.assertEqual(one.result.player_id, two.result.player_id)
            self.assertEqual((one.result.created, two.result.created), (True, False))
            self.assertEqual(
                desk.rows("SELECT count(*) FROM player WHERE player_id <> :anna", anna="ply_" + "A" * 22), [(1,)]
            )
            self.assertEqual(len(desk.rows("SELECT 1 FROM session")), 2)
