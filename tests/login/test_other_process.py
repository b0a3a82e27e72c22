"""Two processes serve one set of logins: a wait at one of them ends with what the other one does.

See docs/protocol.md: Collect.
"""

from twisted.internet.defer import Deferred

from gamed.login.browser import RedirectToResult
from gamed.login.callback import AlreadyConsumed
from gamed.login.collect import Complete, Failed, Pending
from gamed.outcomes import LoginFailure
from tests.login.fake_provider import FakeProvider
from tests.login.fixtures import LoginCase, LoginServer
from tests.support.stores import sqlite_files


class OtherProcess(LoginCase):
    """`here` is the process in which a client waits, `there` the other one."""

    def setUp(self) -> None:
        self.here = self.local_server()
        self.there = LoginServer(self, self.here.terms, beside=self.here)

    def settle(self) -> None:
        """Let the first check of the databases pass, and one more."""
        self.here.database_clock.pump([0.5] * 2)

    def test_every_change_of_stage(self) -> None:
        """Opened, signed in, declined and cancelled in the other process each end a wait within half a second."""
        started, declined, cancelled = (self.there.start() for _ in range(3))
        waiting = self.here.begin_collect(started, wait_seconds=25)
        self.settle()
        self.there.sign_in(started, name="nobody")
        self.assertNoResult(waiting)
        self.here.database_clock.advance(0.5)
        self.assertEqual(self.successResultOf(waiting), Pending("at_provider", 600))
        waiting = self.here.begin_collect(started, wait_seconds=25, seen="at_provider")
        self.settle()
        self.there.sign_in(started)
        self.here.database_clock.advance(0.5)
        self.assertEqual(self.successResultOf(waiting), Pending("proof_required", 600))
        for login, end, outcome in (
            (declined, self.there.decline, LoginFailure.LOGIN_DENIED),
            (cancelled, self.there.cancel, LoginFailure.LOGIN_CANCELLED),
        ):
            waiting = self.here.begin_collect(login, wait_seconds=25)
            self.settle()
            end(login)
            self.here.database_clock.advance(0.5)
            self.assertEqual(self.successResultOf(waiting), Failed(outcome))

    def test_collected(self) -> None:
        """A collect that delivers in the other process ends this wait with the same credentials."""
        started = self.here.start()
        self.here.sign_in(started)
        poll = self.here.begin_collect(started, wait_seconds=25, seen="proof_required")
        self.settle()
        one = self.there.collect(started, code=self.there.code(started))
        self.here.database_clock.advance(0.5)
        two = self.successResultOf(poll)
        self.assertIsInstance(one, Complete)
        self.assertTrue(one.result.pair.access.matches(two.result.pair.access))

    def test_expired(self) -> None:
        """A login that the other process ends as expired ends the wait, before this process's clock does."""
        started = self.there.start()
        waiting = self.here.begin_collect(started, wait_seconds=25)
        self.settle()
        self.there.clock.advance(601)
        self.successResultOf(Deferred.fromCoroutine(self.there.lifecycle.expire()))
        self.here.database_clock.advance(0.5)
        self.assertEqual(self.successResultOf(waiting), Failed(LoginFailure.LOGIN_EXPIRED))

    def test_others_logins(self) -> None:
        """A change of one login reads no other login again: one comparison for all that wait, and one read."""
        started = [self.there.start() for _ in range(20)]
        waiting = [self.here.begin_collect(each, wait_seconds=25) for each in started]
        self.settle()
        before = self.here.databases.reads.transactions
        self.there.decline(started[0])
        self.here.database_clock.advance(0.5)
        self.assertEqual(self.here.databases.reads.transactions - before, 2)
        self.assertEqual([bool(each.called) for each in waiting], [True] + [False] * 19)

    @sqlite_files("polling PostgreSQL compares after own writes, too; its notifications name the process")
    def test_own_changes(self) -> None:
        """A change by this process wakes its waiters at once, and compares none of them."""
        started, other = self.here.start(), self.here.start()
        waits = [self.here.begin_collect(each, wait_seconds=25) for each in (started, other)]
        self.settle()
        before = self.here.databases.reads.transactions
        self.here.decline(started)
        self.assertEqual(self.successResultOf(waits[0]), Failed(LoginFailure.LOGIN_DENIED))
        self.settle()
        self.assertEqual(self.here.databases.reads.transactions - before, 1)
        self.assertNoResult(waits[1])

    def test_disconnected(self) -> None:
        """A client that disconnects leaves no check of the databases behind."""
        waiting = self.here.begin_collect(self.here.start(), wait_seconds=25)
        waiting.addErrback(lambda _: None)
        planned = len(self.here.database_clock.getDelayedCalls())
        self.settle()
        waiting.cancel()
        self.assertEqual(len(self.here.database_clock.getDelayedCalls()), planned - 1)


class OtherProcessesExchange(LoginCase):
    def test_callback(self) -> None:
        """A second callback waits here until the other process has exchanged the code."""
        fake = FakeProvider(holding=True)
        there = self.oauth_server(fake)
        here = LoginServer(self, there.terms, providers=there.providers, beside=there)
        started = there.start()
        state = there.redirect_state(started)
        first = Deferred.fromCoroutine(there.callback(state))
        second = Deferred.fromCoroutine(here.callback(state))
        here.database_clock.pump([0.5] * 3)
        self.assertNoResult(second)
        fake.answer()
        self.assertEqual(self.successResultOf(first), RedirectToResult(started.login.login_id))
        here.database_clock.advance(0.5)
        self.assertEqual(self.successResultOf(second), AlreadyConsumed(started.login.login_id, own=True))
