"""These tests let two parties act at once: the first commit decides, the other party sees its result.

The write queue is paused until both have submitted, so both decided on the same snapshot and share one batch.

See docs/internals/login-states.md.
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
from gamed.login.browser import Declined, RedirectToResult
from gamed.login.collect import CollectRequest, Complete, Failed, Pending
from gamed.login.errors import DeviceSecretInvalid, InvalidProof, LoginCollected, LoginEnded, LoginError, WrongBrowser
from gamed.login.keys import LoginLookup, PresentedProof
from gamed.login.start import StartedLogin
from gamed.login.transaction import EXCHANGE_GRACE_MS, LoginEvent, LoginStage
from gamed.outcomes import LoginFailure
from gamed.sessions import tables as session_tables
from gamed.sessions.errors import SessionError, SessionRevoked
from tests.login.examples import BROWSER, OTHER
from tests.login.fixtures import LoginCase, LoginServer, done
from tests.support.covers import covers

Act = Callable[[], Any]


def together(server: LoginServer, *acts: Act) -> list[Any]:
    """Start all in this order while the write queue is paused; return their results or errors."""
    server.databases.auth.pause()
    works = [Deferred.fromCoroutine(act()) for act in acts]
    server.databases.auth.resume()
    return [result_of(work) for work in works]


def result_of(work: Any) -> Any:
    try:
        return done(work)
    except (LoginError, SessionError) as e:
        return e


class Browsers(LoginCase):
    @covers("threats/3")
    def test_two_browsers(self) -> None:
        """Two right passwords: the first one written gets the login, the other gets an error, and one proof exists."""
        for first, second in permutations((BROWSER, OTHER)):
            server = self.local_server()
            started = server.start()
            forms = [server.form(started, browser) for browser in (first, second)]
            won, lost = together(server, *(partial(server.local.sign_in, form) for form in forms))
            self.assertEqual(won, RedirectToResult(started.login.login_id))
            self.assertIsInstance(lost, WrongBrowser)
            self.assertTrue(server.login(started).belongs_to(first))
            self.assertIsInstance(server.collect(started, code=server.code(started, first)), Complete)

    def test_a_wrong_password_beside_a_right_one(self) -> None:
        """A rejected form in a second browser reports that another browser has finished, once one has."""
        server = self.local_server()
        started = server.start()
        right, wrong = together(
            server,
            lambda: server.local.sign_in(server.form(started, BROWSER)),
            lambda: server.local.sign_in(server.form(started, OTHER, password="wrong horse")),
        )
        self.assertEqual(right, RedirectToResult(started.login.login_id))
        self.assertIsInstance(wrong, WrongBrowser)

    def test_a_decline_before_the_sign_in(self) -> None:
        """A decline before the sign-in: the sign-in fails."""
        for decliner in (BROWSER, OTHER):
            server = self.local_server()
            started = server.start()
            no = partial(server.browsers.decline, started.token, decliner)
            declined, over = together(server, no, partial(server.local.sign_in, server.form(started)))
            self.assertIsInstance(declined, Declined)
            self.assertIsInstance(over, LoginEnded)
            self.assertEqual(server.collect(started), Failed(LoginFailure.LOGIN_DENIED))

    def test_a_decline_after_the_sign_in(self) -> None:
        """After the sign-in its own browser may decline; another browser cannot, and the game gets credentials."""
        for decliner in (BROWSER, OTHER):
            server = self.local_server()
            started = server.start()
            no = partial(server.browsers.decline, started.token, decliner)
            signed_in, answer = together(server, partial(server.local.sign_in, server.form(started)), no)
            self.assertIsInstance(signed_in, RedirectToResult)
            if decliner is BROWSER:
                self.assertIsInstance(answer, Declined)
                self.assertEqual(server.collect(started), Failed(LoginFailure.LOGIN_DENIED))
            else:
                self.assertIsInstance(answer, WrongBrowser)
                self.assertIsInstance(server.collect(started, code=server.code(started)), Complete)

    def test_two_result_pages(self) -> None:
        """The first of two result pages redirects to the port, the other shows the code: the ticket is sent once."""
        server = self.local_server()
        started = server.start(port=51004)
        server.sign_in(started)
        visits = together(server, *[lambda: server.results.get(started.login.login_id, BROWSER)] * 2)
        self.assertEqual([type(visit.result).__name__ for visit in visits], ["ReturnToGame", "ShowFinishCode"])


@covers("threats/12")
class Games(LoginCase):
    def ready(self, server: LoginServer) -> tuple[StartedLogin, CollectRequest]:
        started = server.start()
        server.sign_in(started)
        return started, CollectRequest(
            server.secret(started), presented=PresentedProof.finish_code(server.code(started))
        )

    def test_two_collects(self) -> None:
        """Two proven collects make one session, and both return it."""
        server = self.local_server()
        _, collect = self.ready(server)
        one, two = together(server, *[lambda: server.collects.collect(collect)] * 2)
        self.assertEqual((one.login, one.result.player_id), (two.login, two.result.player_id))
        self.assertTrue(one.result.pair.refresh.matches(two.result.pair.refresh))
        self.assertEqual(len(server.rows("SELECT 1 FROM session")), 1)

    def test_cancel_before_collect(self) -> None:
        """A cancel before the collect: no session is made, and the collect returns the outcome."""
        server = self.local_server()
        _, collect = self.ready(server)
        cancel = partial(server.lifecycle.cancel, collect.secret)
        results = together(server, cancel, partial(server.collects.collect, collect))
        self.assertEqual(results, [None, Failed(LoginFailure.LOGIN_CANCELLED)])
        self.assertEqual(server.rows("SELECT 1 FROM session"), [])

    def test_cancel_after_collect(self) -> None:
        """A cancel after the collect: the new credentials are revoked with the 204, and not stored."""
        server = self.local_server()
        _, collect = self.ready(server)
        cancel = partial(server.lifecycle.cancel, collect.secret)
        complete, cancelled = together(server, partial(server.collects.collect, collect), cancel)
        self.assertIsNone(cancelled)
        token = complete.result.pair.access
        with self.assertRaises(SessionRevoked):
            server.write(lambda c: session_tables.authenticate(c, server.keys.indexer, token, server.now_ms()))
        self.assertEqual(server.rows("SELECT stage, sealed_result FROM login"), [("cancelled", None)])

    def test_first_use_against_cancel(self) -> None:
        """A credential that is used first cannot be cancelled; cancelled first it cannot be used."""
        server = self.local_server()
        _, collect = self.ready(server)
        complete = done(server.collects.collect(collect))
        server.databases.auth.pause()
        used = server.databases.auth.submit(
            lambda c: session_tables.mark_used(c, complete.login.session_id, 1, server.now_ms())
        )
        cancelled = Deferred.fromCoroutine(server.lifecycle.cancel(collect.secret))
        server.databases.auth.resume()
        done(used)
        self.assertIsInstance(result_of(cancelled), LoginCollected)

    @covers("threats/9")
    def test_five_wrong_codes_at_once(self) -> None:
        """Count the first five of six wrong codes sent at once; do not check the sixth."""
        server = self.local_server()
        _, right = self.ready(server)
        wrong = CollectRequest(right.secret, presented=PresentedProof.finish_code("BBBBBB"))
        answers = together(
            server, *[lambda: server.collects.collect(wrong)] * 6, lambda: server.collects.collect(right)
        )
        self.assertEqual([type(answer) for answer in answers], [InvalidProof] * 5 + [Failed] * 2)
        self.assertEqual([answer.members["attempts_left"] for answer in answers[:5]], [4, 3, 2, 1, 0])

    def test_the_sweep_against_a_collect(self) -> None:
        """A login that is deleted between read and write is unknown, not an error."""
        server = self.local_server()
        _, collect = self.ready(server)
        server.clock.advance(600)
        done(server.lifecycle.expire())
        server.clock.advance(3601)
        _, answer = together(server, server.lifecycle.expire, lambda: server.collects.collect(collect))
        self.assertIsInstance(answer, DeviceSecretInvalid)


class Slow(Struct, frozen=True):
    """A password hasher that takes a second."""

    clock: Clock

    async def hash(self, password: Secret) -> str:
        raise NotImplementedError

    async def verify(self, encoded: str | None, password: Secret) -> bool:
        self.clock.advance(1)
        return True


class Edges(LoginCase):
    @covers("3/6")
    def test_the_last_millisecond(self) -> None:
        """In the last millisecond sign-in and collect succeed; one later the login is expired for every party."""
        for late in (False, True):
            server = self.local_server()
            started = server.start()
            server.sign_in(started)
            code = server.code(started)
            server.clock.advance(599.999)
            if late:
                server.clock.advance(0.001)
                self.assertEqual(server.collect(started, code=code), Failed(LoginFailure.LOGIN_EXPIRED))
                self.assertEqual(server.rows("SELECT 1 FROM session"), [])
            else:
                self.assertIsInstance(server.collect(started, code=code), Complete)

    def test_a_password_checked_across_the_end(self) -> None:
        """A form that is sent in time but checked too late signs in no player."""
        server = self.local_server()
        server.local = replace(server.local, passwords=replace(server.passwords, hasher=Slow(server.clock)))
        started = server.start()
        server.clock.advance(599)
        with self.assertRaises(LoginEnded):
            server.sign_in(started)
        self.assertEqual(server.collect(started), Failed(LoginFailure.LOGIN_EXPIRED))

    def test_a_late_exchange(self) -> None:
        """An exchange that began in time may end 15 s late, and no later."""
        for collected in (True, False):
            server = self.local_server()
            started = server.start()
            server.clock.advance(595)
            step(server, started, lambda login, now: login.apply(LoginEvent.OPEN, now).bound_to(BROWSER, now))
            server.clock.advance(15)
            done(server.lifecycle.expire())
            self.assertEqual(server.collect(started), Pending("exchanging", 0))
            ready = step(server, started, lambda login, now: login.identified(b"who", b"proof", now))
            self.assertIs(ready.stage, LoginStage.READY)
            self.assertEqual(server.collect(started), Pending("proof_required", 0))
            server.clock.advance(4.999 if collected else EXCHANGE_GRACE_MS / 1000 - 10)
            expected = Pending("proof_required", 0) if collected else Failed(LoginFailure.LOGIN_EXPIRED)
            self.assertEqual(server.collect(started), expected)

    def test_an_exchange_without_result(self) -> None:
        """An exchange without a result is interrupted after a minute by the cleanup, long before the deadline."""
        server = self.local_server()
        started = server.start()
        step(server, started, lambda login, now: login.apply(LoginEvent.OPEN, now).bound_to(BROWSER, now))
        server.clock.advance(59)
        done(server.lifecycle.expire())
        self.assertIsInstance(server.collect(started), Pending)
        server.clock.advance(1)
        done(server.lifecycle.expire())
        self.assertEqual(server.collect(started), Failed(LoginFailure.LOGIN_INTERRUPTED))

    def test_the_clock_goes_back(self) -> None:
        """After the clock was set back a login lives longer, and is still collected once."""
        server = self.local_server()
        started = server.start()
        server.sign_in(started)
        code = server.code(started)
        server.clock.rightNow -= 86_400
        self.assertIsInstance(server.collect(started, code=code), Complete)
        self.assertIsInstance(server.collect(started), Complete)
        self.assertEqual(len(server.rows("SELECT 1 FROM session")), 1)


def step(server: LoginServer, started: StartedLogin, move: Callable[..., Any]) -> Any:
    """Apply one step to the login, as the provider's side does."""
    now_ms = server.now_ms()
    key = LoginLookup.token(server.keys.indexer, started.token)
    return done(server.browsers.advance(key, lambda login: move(login.at_time(now_ms), now_ms))).after
