"""These tests apply every event in every stage, and random lists of events, to the transition table.

See docs/internals/login-states.md.
"""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from gamed.login.errors import InvalidTransition, LoginExpired
from gamed.login.transaction import (
    DELIVERED_MS,
    EXCHANGE_GRACE_MS,
    EXCHANGE_MS,
    FINAL,
    NEXT,
    LoginEvent,
    LoginIntent,
    LoginStage,
    LoginTransaction,
)
from gamed.outcomes import LoginFailure
from tests.login.examples import BROWSER, OTHER, START_MS, TTL_MS, a_login
from tests.support.covers import covers

EXPIRES_MS = START_MS + TTL_MS
SECRETS = ("sealed_identity", "sealed_proof", "sealed_result")

ARROWS = {
    "pending": {"open": "authorizing", "decline": "denied", "cancel": "cancelled", "expire": "expired"},
    "authorizing": {
        "open": "authorizing",
        "callback": "exchanging",
        "decline": "denied",
        "cancel": "cancelled",
        "expire": "expired",
    },
    "exchanging": {
        "identified": "ready",
        "refused": "failed",
        "interrupt": "failed",
        "cancel": "cancelled",
        "expire": "expired",
    },
    "ready": {
        "collect": "delivered",
        "refused": "failed",
        "exhaust": "failed",
        "decline": "denied",
        "cancel": "cancelled",
        "expire": "expired",
    },
    "delivered": {"acknowledge": "collected", "lapse": "collected", "cancel": "cancelled"},
}
"""The drawing of docs/internals/login-states.md, written out a second time by hand."""


class Table(SynchronousTestCase):
    @covers("3/1", "3/2")
    def test_every_stage_meets_every_event(self) -> None:
        """A transition leads where the drawing says; every other pair is InvalidTransition and changes nothing."""
        for stage, event in product(LoginStage, LoginEvent):
            login, wanted = a_login(stage), ARROWS.get(stage.value, {}).get(event.value)
            if wanted is None:
                with self.assertRaises(InvalidTransition, msg=f"{event} while {stage}"):
                    login.apply(event, START_MS)
            else:
                self.assertEqual(login.apply(event, START_MS).stage.value, wanted)

    def test_final_stages_are_final(self) -> None:
        """No transition leaves a final stage, and every other stage can be left."""
        leaving = {stage for stage, _ in NEXT}
        self.assertEqual(leaving, set(LoginStage) - FINAL)

    def test_every_stage_can_be_reached(self) -> None:
        """Every stage can be reached."""
        self.assertEqual(set(NEXT.values()) | {LoginStage.PENDING}, set(LoginStage))

    def test_final_stages_keep_no_secret(self) -> None:
        """A final stage erases identity, proof and result."""
        for (stage, event), after in NEXT.items():
            login = a_login(stage).apply(event, START_MS)
            if after in FINAL:
                self.assertEqual([getattr(login, name) for name in SECRETS], [None] * 3, event)

    def test_every_end_without_credentials_has_an_outcome(self) -> None:
        """Every end except `collected` has an outcome."""
        expected = {
            LoginEvent.DECLINE: LoginFailure.LOGIN_DENIED,
            LoginEvent.CANCEL: LoginFailure.LOGIN_CANCELLED,
            LoginEvent.EXPIRE: LoginFailure.LOGIN_EXPIRED,
            LoginEvent.INTERRUPT: LoginFailure.LOGIN_INTERRUPTED,
            LoginEvent.EXHAUST: LoginFailure.PROOF_ATTEMPTS_EXCEEDED,
        }
        for (stage, event), after in NEXT.items():
            if after in FINAL - {LoginStage.COLLECTED} and event is not LoginEvent.REFUSED:
                self.assertIs(a_login(stage).apply(event, START_MS).outcome, expected[event])
        self.assertIs(
            a_login(LoginStage.READY).failed(LoginFailure.PLAYER_BLOCKED, START_MS).outcome,
            LoginFailure.PLAYER_BLOCKED,
        )

    def test_a_second_attempt_changes_nothing(self) -> None:
        """A second attempt leaves an authorizing login as it is: no write is needed."""
        login = a_login(LoginStage.AUTHORIZING)
        self.assertIs(login.apply(LoginEvent.OPEN, START_MS + 5), login)

    def test_collect_swaps_identity_and_proof_for_the_result(self) -> None:
        """A delivered login holds neither identity nor proof."""
        login = a_login(LoginStage.READY).delivered("ses_1", b"sealed", START_MS)
        self.assertEqual((login.sealed_identity, login.sealed_proof, login.sealed_result), (None, None, b"sealed"))


class Time(SynchronousTestCase):
    @covers("2.1/24", "3/3", "8/7")
    def test_the_ttl_ends_every_stage_before_the_first_collect(self) -> None:
        """Up to the last millisecond every event works; at the next the login is expired, before any cleanup."""
        for stage in (LoginStage.PENDING, LoginStage.AUTHORIZING, LoginStage.READY):
            login = a_login(stage)
            self.assertIs(login.at_time(EXPIRES_MS - 1), login)
            self.assertIs(login.at_time(EXPIRES_MS).stage, LoginStage.EXPIRED)
            for event in LoginEvent:
                with self.assertRaises(InvalidTransition):
                    login.apply(event, EXPIRES_MS)

    def test_an_exchange_may_end_late(self) -> None:
        """An exchange that began in time may end 15 s late; its result can be collected until then."""
        end = EXPIRES_MS + EXCHANGE_GRACE_MS
        exchanging = a_login(LoginStage.AUTHORIZING).bound_to(BROWSER, EXPIRES_MS - 1)
        ready = exchanging.identified(b"who", b"proof", end - 1)
        self.assertIs(ready.stage, LoginStage.READY)
        self.assertIs(ready.delivered("ses", b"result", end - 1).stage, LoginStage.DELIVERED)
        self.assertIs(ready.at_time(end).stage, LoginStage.EXPIRED)
        with self.assertRaises(LoginExpired):
            exchanging.identified(b"who", b"proof", end)

    def test_an_exchange_that_ended_in_time_gets_no_grace(self) -> None:
        """The 15 seconds belong to a late exchange, not to a slow player."""
        exchanging = a_login(LoginStage.AUTHORIZING).bound_to(BROWSER, EXPIRES_MS - 2)
        ready = exchanging.identified(b"who", b"proof", EXPIRES_MS - 1)
        self.assertIs(ready.at_time(EXPIRES_MS).stage, LoginStage.EXPIRED)

    def test_an_exchange_that_comes_to_nothing(self) -> None:
        """An exchange without a result is interrupted after a minute, long before the deadline."""
        exchanging = a_login(LoginStage.AUTHORIZING).bound_to(BROWSER, START_MS)
        self.assertIs(exchanging.at_time(START_MS + EXCHANGE_MS - 1), exchanging)
        ended = exchanging.at_time(START_MS + EXCHANGE_MS)
        self.assertEqual((ended.stage, ended.outcome), (LoginStage.FAILED, LoginFailure.LOGIN_INTERRUPTED))

    def test_a_delivery_outlives_the_ttl(self) -> None:
        """Credentials that were collected at the last moment can be collected again for ten minutes."""
        delivered = a_login(LoginStage.READY).delivered("ses", b"result", EXPIRES_MS - 1)
        lapses = EXPIRES_MS - 1 + DELIVERED_MS
        self.assertIs(delivered.at_time(lapses - 1), delivered)
        lapsed = delivered.at_time(lapses)
        self.assertEqual((lapsed.stage, lapsed.outcome, lapsed.sealed_result), (LoginStage.COLLECTED, None, None))

    def test_an_end_by_the_clock_is_dated_by_the_clock(self) -> None:
        """A timeout is dated by its deadline, not by the first read after it."""
        self.assertEqual(a_login().at_time(EXPIRES_MS + 99_000).stage_ms, EXPIRES_MS)

    def test_only_the_winner_is_the_winner(self) -> None:
        """A login belongs only to the browser whose callback was first."""
        login = a_login(LoginStage.EXCHANGING)
        self.assertEqual([login.belongs_to(b) for b in (BROWSER, OTHER, None)], [True, False, False])
        self.assertFalse(a_login().belongs_to(None))


class Histories(SynchronousTestCase):
    """Tests with any list of events at any times."""

    @covers("threats/12")
    @given(st.lists(st.tuples(st.sampled_from(LoginEvent), st.integers(0, 200_000)), max_size=30))
    def test_no_history_collects_twice(self, history: list[tuple[LoginEvent, int]]) -> None:
        """At most one collect succeeds, never after an end, and an ended login holds no secret."""
        login, now_ms, collects = a_login(), START_MS, 0
        for event, passed in history:
            now_ms += passed
            before = login.at_time(now_ms)
            try:
                login = taken(login, event, now_ms)
            except InvalidTransition:
                self.assertNotIn((before.stage, event), NEXT)
                login = before
            else:
                self.assertNotIn(before.stage, FINAL)
                collects += event is LoginEvent.COLLECT
            if login.stage in FINAL:
                self.assertEqual([getattr(login, name) for name in SECRETS], [None] * 3)
                self.assertEqual(login.outcome is None, login.stage is LoginStage.COLLECTED)
            self.assertLessEqual(login.stage_ms, now_ms)
        self.assertLessEqual(collects, 1)


def taken(login: LoginTransaction, event: LoginEvent, now_ms: int) -> LoginTransaction:
    """Apply the event with the data that it needs."""
    match event:
        case LoginEvent.CALLBACK:
            return login.bound_to(BROWSER, now_ms)
        case LoginEvent.IDENTIFIED:
            return login.identified(b"who", b"proof", now_ms)
        case LoginEvent.REFUSED:
            return login.failed(LoginFailure.PROVIDER_DENIED, now_ms)
        case LoginEvent.COLLECT:
            return login.delivered("ses", b"result", now_ms)
        case _:
            return login.apply(event, now_ms)


class AskedAgainTests(SynchronousTestCase):
    def test_for_the_account(self) -> None:
        """A provider asks again before each sign-in to the account, also with an invite, but not before a link."""
        own = {"intent": LoginIntent.ACCOUNT}
        self.assertTrue(a_login(**own).asks_again)
        self.assertTrue(a_login(**own, invite_id="inv_example").asks_again)
        self.assertFalse(a_login(**own, requesting_session_id="brs_example").asks_again)
        self.assertFalse(a_login().asks_again)
