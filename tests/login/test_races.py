"""Two parties at once: whoever commits first wins, the other answers from what it finds (PROTOCOL 3).

The write lane is held while both have submitted, so both decided on the same sight of the login and ride one batch.
"""

from collections.abc import Callable
from functools import partial
from itertools import permutations
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from gamed.crypto import Secret
from gamed.login.browser import RedirectToResult
from gamed.login.collect import CollectRequest, Complete, Failed, Pending
from gamed.login.errors import DeviceSecretInvalid, InvalidProof, LoginCollected, LoginEnded, LoginError, WrongBrowser
from gamed.login.keys import LoginLookup, PresentedProof
from gamed.login.start import StartedLogin
from gamed.login.transaction import EXCHANGE_GRACE_MS, LoginEvent, LoginStage
from gamed.outcomes import LoginFailure
from gamed.sessions import tables as session_tables
from gamed.sessions.errors import SessionError, SessionRevoked
from tests.login.examples import BROWSER, OTHER
from tests.login.fixtures import Desk, HandoffCase, done
from tests.support.covers import covers

Act = Callable[[], Any]


def together(desk: Desk, *acts: Act) -> list[Any]:
    """Starts all while nothing can be written, in this order; their results or errors."""
    desk.stores.auth.pause()
    works = [Deferred.fromCoroutine(act()) for act in acts]
    desk.stores.auth.resume()
    return [result_of(work) for work in works]


def result_of(work: Any) -> Any:
    try:
        return done(work)
    except (LoginError, SessionError) as e:
        return e


class Browsers(HandoffCase):
    @covers("threats/3")
    def test_two_browsers(self) -> None:
        """Both type a right password: the first one written wins, the other is told, and only one proof exists."""
        for first, second in permutations((BROWSER, OTHER)):
            desk = self.desk()
            started = desk.start()
            forms = [desk.form(started, browser) for browser in (first, second)]
            won, lost = together(desk, *(partial(desk.local.sign_in, form) for form in forms))
            self.assertEqual(won, RedirectToResult(started.login.login_id))
            self.assertIsInstance(lost, WrongBrowser)
            self.assertTrue(desk.login(started).belongs_to(first))
            self.assertIsInstance(desk.collect(started, code=desk.code(started, first)), Complete)

    def test_a_wrong_password_beside_a_right_one(self) -> None:
        """A refused form in a second browser says that another browser has finished, once one has."""
        desk = self.desk()
        started = desk.start()
        right, wrong = together(
            desk,
            lambda: desk.local.sign_in(desk.form(started, BROWSER)),
            lambda: desk.local.sign_in(desk.form(started, OTHER, password="wrong horse")),
        )
        self.assertEqual(right, RedirectToResult(started.login.login_id))
        self.assertIsInstance(wrong, WrongBrowser)

    def test_a_decline_before_the_sign_in(self) -> None:
        """Whoever said no first: nobody signs in any more."""
        for decliner in (BROWSER, OTHER):
            desk = self.desk()
            started = desk.start()
            no = partial(desk.browsers.decline, started.token, decliner)
            declined, over = together(desk, no, partial(desk.local.sign_in, desk.form(started)))
            self.assertIsNone(declined)
            self.assertIsInstance(over, LoginEnded)
            self.assertEqual(desk.collect(started), Failed(LoginFailure.LOGIN_DENIED))

    def test_a_decline_after_the_sign_in(self) -> None:
        """The winner may still say no; a stranger comes too late and the game gets its credentials."""
        for decliner in (BROWSER, OTHER):
            desk = self.desk()
            started = desk.start()
            no = partial(desk.browsers.decline, started.token, decliner)
            signed_in, answer = together(desk, partial(desk.local.sign_in, desk.form(started)), no)
            self.assertIsInstance(signed_in, RedirectToResult)
            if decliner is BROWSER:
                self.assertIsNone(answer)
                self.assertEqual(desk.collect(started), Failed(LoginFailure.LOGIN_DENIED))
            else:
                self.assertIsInstance(answer, WrongBrowser)
                self.assertIsInstance(desk.collect(started, code=desk.code(started)), Complete)

    def test_two_visits_of_done(self) -> None:
        """One of two first visits is sent to the port, the other sees the code: the ticket leaves once."""
        desk = self.desk()
        started = desk.start(port=51004)
        desk.sign_in(started)
        visits = together(desk, *[lambda: desk.results.get(started.login.login_id, BROWSER)] * 2)
        self.assertEqual([type(visit).__name__ for visit in visits], ["ReturnToGame", "ShowFinishCode"])


@covers("threats/12")
class Games(HandoffCase):
    def ready(self, desk: Desk) -> tuple[StartedLogin, CollectRequest]:
        started = desk.start()
        desk.sign_in(started)
        return started, CollectRequest(desk.secret(started), presented=PresentedProof.finish_code(desk.code(started)))

    def test_two_collects(self) -> None:
        """Both prove it: one session is made, and both are given it."""
        desk = self.desk()
        _, collect = self.ready(desk)
        one, two = together(desk, *[lambda: desk.collects.collect(collect)] * 2)
        self.assertEqual((one.login, one.result.player_id), (two.login, two.result.player_id))
        self.assertTrue(one.result.pair.refresh.matches(two.result.pair.refresh))
        self.assertEqual(len(desk.rows("SELECT 1 FROM session")), 1)

    def test_cancel_before_collect(self) -> None:
        """Nothing is made, and the collect says why."""
        desk = self.desk()
        _, collect = self.ready(desk)
        cancel = partial(desk.lifecycle.cancel, collect.secret)
        results = together(desk, cancel, partial(desk.collects.collect, collect))
        self.assertEqual(results, [None, Failed(LoginFailure.LOGIN_CANCELLED)])
        self.assertEqual(desk.rows("SELECT 1 FROM session"), [])

    def test_cancel_after_collect(self) -> None:
        """The credentials that were just made are dead by the time of the 204, and kept nowhere."""
        desk = self.desk()
        _, collect = self.ready(desk)
        cancel = partial(desk.lifecycle.cancel, collect.secret)
        complete, cancelled = together(desk, partial(desk.collects.collect, collect), cancel)
        self.assertIsNone(cancelled)
        token = complete.result.pair.access
        with self.assertRaises(SessionRevoked):
            desk.write(lambda c: session_tables.authenticate(c, desk.keys.indexer, token, desk.now_ms()))
        self.assertEqual(desk.rows("SELECT stage, sealed_result FROM login"), [("cancelled", None)])

    def test_first_use_against_cancel(self) -> None:
        """A credential used first cannot be cancelled away; cancelled first it cannot be used."""
        desk = self.desk()
        _, collect = self.ready(desk)
        complete = done(desk.collects.collect(collect))
        desk.stores.auth.pause()
        used = desk.stores.auth.submit(
            lambda c: session_tables.mark_used(c, complete.login.session_id, 1, desk.now_ms())
        )
        cancelled = Deferred.fromCoroutine(desk.lifecycle.cancel(collect.secret))
        desk.stores.auth.resume()
        done(used)
        self.assertIsInstance(result_of(cancelled), LoginCollected)

    @covers("threats/9")
    def test_five_wrong_codes_at_once(self) -> None:
        """Each is counted though all were sent together: the sixth is not judged."""
        desk = self.desk()
        _, right = self.ready(desk)
        wrong = CollectRequest(right.secret, presented=PresentedProof.finish_code("BBBBBB"))
        answers = together(desk, *[lambda: desk.collects.collect(wrong)] * 6, lambda: desk.collects.collect(right))
        self.assertEqual([type(answer) for answer in answers], [InvalidProof] * 5 + [Failed] * 2)
        self.assertEqual([answer.members["attempts_left"] for answer in answers[:5]], [4, 3, 2, 1, 0])

    def test_the_sweep_against_a_collect(self) -> None:
        """An old login forgotten between look and write is unknown, not an error."""
        desk = self.desk()
        _, collect = self.ready(desk)
        desk.clock.advance(600)
        done(desk.lifecycle.expire())
        desk.clock.advance(3601)
        _, answer = together(desk, desk.lifecycle.expire, lambda: desk.collects.collect(collect))
        self.assertIsInstance(answer, DeviceSecretInvalid)


class Slow(Struct, frozen=True):
    """Passwords that take a second to be found right."""

    clock: Clock

    async def hash(self, password: Secret) -> str:
        raise NotImplementedError

    async def verify(self, encoded: str | None, password: Secret) -> bool:
        self.clock.advance(1)
        return True


class Edges(HandoffCase):
    @covers("3/6")
    def test_the_last_millisecond(self) -> None:
        """Signed in and collected in it: credentials. One later: expired, for every party."""
        for late in (False, True):
            desk = self.desk()
            started = desk.start()
            desk.sign_in(started)
            code = desk.code(started)
            desk.clock.advance(599.999)
            if late:
                desk.clock.advance(0.001)
                self.assertEqual(desk.collect(started, code=code), Failed(LoginFailure.LOGIN_EXPIRED))
                self.assertEqual(desk.rows("SELECT 1 FROM session"), [])
            else:
                self.assertIsInstance(desk.collect(started, code=code), Complete)

    def test_a_password_checked_across_the_end(self) -> None:
        """The form is posted in time and the check ends too late: nobody is signed in."""
        desk = self.desk()
        desk.local = replace(desk.local, _passwords=replace(desk.passwords, _hasher=Slow(desk.clock)))
        started = desk.start()
        desk.clock.advance(599)
        with self.assertRaises(LoginEnded):
            desk.sign_in(started)
        self.assertEqual(desk.collect(started), Failed(LoginFailure.LOGIN_EXPIRED))

    def test_a_late_exchange(self) -> None:
        """Begun in time, ended 10 s late: the game sees it through, but not for more than 15 s."""
        for collected in (True, False):
            desk = self.desk()
            started = desk.start()
            desk.clock.advance(595)
            step(desk, started, lambda login, now: login.apply(LoginEvent.OPEN, now).bound_to(BROWSER, now))
            desk.clock.advance(15)
            done(desk.lifecycle.expire())
            self.assertEqual(desk.collect(started), Pending("exchanging", 0))
            ready = step(desk, started, lambda login, now: login.identified(b"who", b"proof", now))
            self.assertIs(ready.stage, LoginStage.READY)
            self.assertEqual(desk.collect(started), Pending("proof_required", 0))
            desk.clock.advance(4.999 if collected else EXCHANGE_GRACE_MS / 1000 - 10)
            expected = Pending("proof_required", 0) if collected else Failed(LoginFailure.LOGIN_EXPIRED)
            self.assertEqual(desk.collect(started), expected)

    def test_an_exchange_nobody_ends(self) -> None:
        """What came of it was lost: after a minute the sweep tells the game, which need not wait for the ttl."""
        desk = self.desk()
        started = desk.start()
        step(desk, started, lambda login, now: login.apply(LoginEvent.OPEN, now).bound_to(BROWSER, now))
        desk.clock.advance(59)
        done(desk.lifecycle.expire())
        self.assertIsInstance(desk.collect(started), Pending)
        desk.clock.advance(1)
        done(desk.lifecycle.expire())
        self.assertEqual(desk.collect(started), Failed(LoginFailure.LOGIN_INTERRUPTED))

    def test_the_clock_goes_back(self) -> None:
        """A login lives longer then; nothing breaks and nothing is collected twice."""
        desk = self.desk()
        started = desk.start()
        desk.sign_in(started)
        code = desk.code(started)
        desk.clock.rightNow -= 86_400
        self.assertIsInstance(desk.collect(started, code=code), Complete)
        self.assertIsInstance(desk.collect(started), Complete)
        self.assertEqual(len(desk.rows("SELECT 1 FROM session")), 1)


def step(desk: Desk, started: StartedLogin, move: Callable[..., Any]) -> Any:
    """One arrow, as the provider's side takes it."""
    now_ms = desk.now_ms()
    key = LoginLookup.token(desk.keys.indexer, started.token)
    return done(desk.browsers.advance(key, lambda login: move(login.at_time(now_ms), now_ms))).after
