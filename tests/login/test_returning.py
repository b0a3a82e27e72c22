"""Coming back from a provider: one exchange, one outcome, and nobody else's business (PROTOCOL 3.3, 3.4)."""

from msgspec.structs import replace
from twisted.internet.defer import Deferred

from gamed.database.errors import DatabaseBusy
from gamed.login.browser import Ended, InProgress, RedirectToResult, ReturnToGame, ShowFinishCode
from gamed.login.callback import AlreadyConsumed
from gamed.login.callback_rules import CallbackCheck, CallbackRejected
from gamed.login.collect import Complete, Failed, Pending
from gamed.login.errors import CallbackMalformed, InvalidProof, LoginEnded, WrongBrowser
from gamed.login.transaction import EXCHANGE_GRACE_MS, LoginStage
from gamed.outcomes import LoginFailure
from gamed.providers.base import (
    ProviderDenied,
    ProviderError,
    ProviderFailure,
    ProviderMisconfigured,
    ProviderUnavailable,
    ServerClockSkew,
)
from gamed.sessions import tables as session_tables
from gamed.sessions.errors import SessionRevoked
from tests.login.examples import BROWSER, OTHER
from tests.login.fake_provider import ISSUER, FarProvider
from tests.login.fixtures import BASE, Desk, HandoffCase, done
from tests.login.test_handoff import lasting
from tests.support.covers import covers

NO_EFFECT = (CallbackCheck.PROVIDER_UNKNOWN, CallbackCheck.STATE_UNKNOWN, CallbackCheck.OTHER_BROWSER)


@covers("1/9")
class GoodPaths(HandoffCase):
    def test_to_the_end(self) -> None:
        """Provider, callback, code, credentials; the game sees each stage; what the provider was sent is right."""
        desk = self.oauth(far := FarProvider("google", issuer=ISSUER))
        started = desk.start(name="MyGame")
        state = desk.depart(started)
        self.assertEqual(desk.collect(started), Pending("at_provider", 600))
        self.assertEqual(desk.returned(state), RedirectToResult(started.login.login_id))
        self.assertEqual(desk.collect(started), Pending("proof_required", 600))
        complete = desk.collect(started, code=desk.code(started))
        self.assertIsInstance(complete, Complete)
        self.assertTrue(complete.result.created)
        [call] = far.calls
        self.assertEqual((call["code"], call["redirect_uri"]), (f"anna|{state}".encode(), CALLBACK))
        self.assertEqual(call["login_id"], started.login.login_id)
        self.assertEqual(desk.rows("SELECT provider, client FROM session"), [("google", '{"name":"MyGame"}')])
        token = complete.result.pair.access
        caller = desk.write(lambda c: session_tables.authenticate(c, desk.keys.indexer, token, desk.now_ms()))
        self.assertEqual(caller.player_id, complete.result.player_id)

    def test_through_the_port(self) -> None:
        """The ticket goes with the browser to the game's port, once."""
        desk = self.oauth(FarProvider())
        started = desk.start(port=51004)
        desk.returned(desk.depart(started))
        sent = desk.done_page(started)
        self.assertIsInstance(sent, ReturnToGame)
        self.assertIsInstance(desk.done_page(started), ShowFinishCode)
        self.assertIsInstance(desk.collect(started, ticket=sent.ticket), Complete)

    def test_nothing_lasts_before_the_proof(self) -> None:
        """Player, identity, session: none before the first proven collect, whoever it is."""
        desk = self.oauth(FarProvider())
        desk.collect(known := desk.signed_in("anna"), code=desk.code(known))
        before = lasting(desk)
        for who in ("anna", "bo"):
            started = desk.signed_in(who)
            desk.collect(started)
            with self.assertRaises(InvalidProof):
                desk.collect(started, code="XXX-XXX")
            self.assertEqual(lasting(desk), before)

    def test_the_game_is_told_at_once(self) -> None:
        """A waiting collect ends with each stage: departed, exchanging, ready."""
        desk = self.oauth(far := FarProvider(holding=True))
        started = desk.start()
        waiting = desk.asked(started, wait_seconds=25)
        state = desk.depart(started)
        self.assertEqual(self.successResultOf(waiting), Pending("at_provider", 600))
        waiting = desk.asked(started, wait_seconds=25, seen="at_provider")
        back = Deferred.fromCoroutine(desk.come_back(state))
        self.assertEqual(self.successResultOf(waiting), Pending("exchanging", 600))
        self.assertIsInstance(desk.done_page(started), InProgress)
        waiting = desk.asked(started, wait_seconds=25, seen="exchanging")
        self.assertNoResult(waiting)
        far.answer()
        self.assertEqual(self.successResultOf(back), RedirectToResult(started.login.login_id))
        self.assertEqual(self.successResultOf(waiting), Pending("proof_required", 600))

    @covers("2.2/11", "2.2/12", "threats/47")
    def test_secrets_at_rest(self) -> None:
        """Spent means erased: verifiers and nonces of all attempts go with the state that won; nothing is in clear."""
        desk = self.oauth(far := FarProvider("google", issuer=ISSUER, holding=True))
        started = desk.start()
        first, second = desk.depart(started), desk.depart(started, OTHER)
        Deferred.fromCoroutine(desk.come_back(first))
        rows = desk.rows("SELECT status, sealed_verifier, sealed_nonce FROM authorization_attempt ORDER BY number")
        self.assertEqual(rows, [("used", None, None), ("open", None, None)])
        far.answer()
        tables = ("login", "authorization_attempt", "identity")
        everything = repr([desk.rows(f"SELECT * FROM {table}") for table in tables])
        for word in (first, second, "anna", ISSUER, *[journey.nonce or "-" for journey in far.journeys]):
            self.assertNotIn(word, everything)


CALLBACK = f"{BASE}/auth/google/callback"


class Refused(HandoffCase):
    def test_without_effect(self) -> None:
        """Checks 1 to 4 leave every row as it was, send nothing, and the honest parties still finish."""
        desk = self.oauth(far := FarProvider("google", issuer=ISSUER))
        started = desk.start()
        state = desk.depart(started)
        before = [desk.rows("SELECT * FROM login"), desk.rows("SELECT * FROM authorization_attempt")]
        with self.assertRaises(CallbackMalformed):
            desk.returned(state, code="c", error="e")
        for ruling, browser, other in (
            (CallbackCheck.PROVIDER_UNKNOWN, BROWSER, {"provider": "nobody"}),
            (CallbackCheck.PROVIDER_UNKNOWN, BROWSER, {"provider": "login"}),
            (CallbackCheck.OTHER_BROWSER, OTHER, {}),
            (CallbackCheck.OTHER_BROWSER, None, {}),
            (CallbackCheck.OTHER_BROWSER, OTHER, {"error": "access_denied"}),
        ):
            with self.assertRaises(CallbackRejected) as refused:
                desk.returned(state, browser, **other)
            self.assertIs(refused.exception.check, ruling)
        for unknown in (state[:-1], state + "A", "", "A" * 43):
            with self.assertRaises(CallbackRejected) as refused:
                desk.returned(unknown)
            self.assertIs(refused.exception.check, CallbackCheck.STATE_UNKNOWN)
        self.assertEqual([desk.rows("SELECT * FROM login"), desk.rows("SELECT * FROM authorization_attempt")], before)
        self.assertEqual((far.calls, desk.log.lines), ([], []))
        self.assertEqual(desk.returned(state, iss=ISSUER, code="anna"), RedirectToResult(started.login.login_id))

    def test_burned(self) -> None:
        """Checks 5 and 6: the attempt is spent, one line names the check and nothing else; the login can go on."""
        for name, other in (
            ("other_provider", {"provider": "discord"}),
            ("other_issuer", {"code": "c", "iss": "EVIL"}),
        ):
            desk = self.oauth(google := FarProvider("google", issuer=ISSUER), discord := FarProvider())
            started = desk.start()
            state = desk.depart(started)
            with self.assertRaises(CallbackRejected):
                desk.returned(state, **other)
            self.assertEqual(desk.log.lines, [f"rejected {other.get('provider', 'google')} {name} req-1"])
            self.assertEqual(
                desk.rows("SELECT status, sealed_verifier FROM authorization_attempt"), [("invalidated", None)]
            )
            with self.assertRaises(CallbackRejected) as again:
                desk.returned(state)
            self.assertIs(again.exception.check, CallbackCheck.ENDED)
            self.assertEqual((google.calls, discord.calls), ([], []))
            self.assertIs(desk.login(started).stage, LoginStage.AUTHORIZING)
            self.assertEqual(desk.returned(desk.depart(started)), RedirectToResult(started.login.login_id))

    @covers("threats/13")
    def test_promised_issuer(self) -> None:
        """What the metadata promised when the browser left counts, not what it says when the browser is back."""
        desk = self.oauth(far := FarProvider("google", issuer=ISSUER, iss_promised=True))
        state = desk.depart(desk.start())
        far.iss_promised = False
        with self.assertRaises(CallbackRejected):
            desk.returned(state)

    def test_over(self) -> None:
        """Cancelled, declined, expired: 410 with the outcome, and the code is never sent."""
        for end, outcome in (
            (lambda desk, started: desk.cancel(started), LoginFailure.LOGIN_CANCELLED),
            (lambda desk, started: desk.decline(started), LoginFailure.LOGIN_DENIED),
            (lambda desk, started: desk.clock.advance(600), LoginFailure.LOGIN_EXPIRED),
        ):
            desk = self.oauth(far := FarProvider())
            started = desk.start()
            state = desk.depart(started)
            end(desk, started)
            with self.assertRaises(LoginEnded) as over:
                desk.returned(state)
            self.assertEqual((over.exception.outcome, far.calls), (outcome, []))

    def test_twice(self) -> None:
        """A second callback waits for the first one's exchange, 15 s at most; its code is never sent."""
        desk = self.oauth(far := FarProvider(holding=True))
        started = desk.start()
        state = desk.depart(started)
        first = Deferred.fromCoroutine(desk.come_back(state))
        second, third = (Deferred.fromCoroutine(desk.come_back(state, who=who)) for who in ("bo", "anna"))
        spent = AlreadyConsumed(started.login.login_id, own=True)
        self.assertEqual(self.successResultOf(second), spent)
        self.assertNoResult(third)
        far.answer()
        self.assertEqual(self.successResultOf(first), RedirectToResult(started.login.login_id))
        self.assertEqual(self.successResultOf(third), spent)
        self.assertEqual(desk.returned(state), spent)
        self.assertEqual(len(far.calls), 1)

    def test_twice_and_no_end(self) -> None:
        """The second answers after 15 s, whatever the first one does."""
        desk = self.oauth(FarProvider(holding=True))
        state = desk.depart(started := desk.start())
        Deferred.fromCoroutine(desk.come_back(state))
        second = Deferred.fromCoroutine(desk.come_back(state))
        desk.clock.advance(EXCHANGE_GRACE_MS / 1000 - 1)
        self.assertNoResult(second)
        desk.clock.advance(1.3)
        self.assertEqual(self.successResultOf(second), AlreadyConsumed(started.login.login_id, own=True))

    def test_twice_while_the_service_ends(self) -> None:
        """Nobody waits for anything then."""
        desk = self.oauth(FarProvider(holding=True))
        state = desk.depart(desk.start())
        Deferred.fromCoroutine(desk.come_back(state))
        second = Deferred.fromCoroutine(desk.come_back(state))
        desk.waiters.close()
        self.assertTrue(self.successResultOf(second).own)

    def test_two_tabs(self) -> None:
        """Both of one browser: the later finds the earlier one's result, its own code stays unsent."""
        desk = self.oauth(far := FarProvider())
        started = desk.start()
        one, two = desk.depart(started), desk.depart(started)
        desk.returned(two)
        self.assertEqual(desk.returned(one, who="bo"), AlreadyConsumed(started.login.login_id, own=True))
        self.assertEqual(len(far.calls), 1)


class TwoBrowsers(HandoffCase):
    @covers("threats/3")
    def test_both_orders(self) -> None:
        """Whose callback comes first wins; the other is told, waits for nothing and sees nothing."""
        for winner, loser in ((BROWSER, OTHER), (OTHER, BROWSER)):
            desk = self.oauth(far := FarProvider(holding=True))
            started = desk.start()
            states = {browser: desk.depart(started, browser) for browser in (BROWSER, OTHER)}
            won = Deferred.fromCoroutine(desk.come_back(states[winner], winner, who="anna"))
            self.assertEqual(
                desk.returned(states[loser], loser, who="bo"), AlreadyConsumed(started.login.login_id, own=False)
            )
            far.answer()
            self.assertIsInstance(self.successResultOf(won), RedirectToResult)
            with self.assertRaises(WrongBrowser):
                desk.done_page(started, loser)
            self.assertIsInstance(desk.collect(started, code=desk.code(started, winner)), Complete)
            self.assertEqual([call["code"].partition(b"|")[0] for call in far.calls], [b"anna"])

    @covers("threats/14")
    def test_a_stranger_brings_the_callback(self) -> None:
        """A stolen address, opened elsewhere: no effect, and the honest browser's own still works."""
        desk = self.oauth(FarProvider())
        started = desk.start()
        state = desk.depart(started)
        desk.depart(started, OTHER)
        with self.assertRaises(CallbackRejected):
            desk.returned(state, OTHER)
        self.assertEqual(desk.returned(state), RedirectToResult(started.login.login_id))


@covers("7/5")
class Failures(HandoffCase):
    def failed(self, desk: Desk, outcome: LoginFailure, **other: str) -> None:
        started = desk.start()
        state = desk.depart(started)
        self.assertEqual(desk.returned(state, **other), RedirectToResult(started.login.login_id))
        self.assertEqual(desk.collect(started), Failed(outcome))
        self.assertEqual(desk.done_page(started), Ended(outcome))
        [line] = desk.log.lines
        self.assertTrue(line.startswith(f"failed discord {outcome.value} req-1: "), line)

    def test_errors_of_the_redirect(self) -> None:
        """PROTOCOL's mapping; anyone's words never reach the log; no code, so nothing is sent."""
        for error, outcome in (
            ("access_denied", LoginFailure.PROVIDER_DENIED),
            ("temporarily_unavailable", LoginFailure.PROVIDER_UNAVAILABLE),
            ("server_error", LoginFailure.PROVIDER_UNAVAILABLE),
            ("invalid_scope", LoginFailure.PROVIDER_MISCONFIGURED),
            ("unauthorized_client", LoginFailure.PROVIDER_MISCONFIGURED),
            ("Access_Denied", LoginFailure.PROVIDER_MISCONFIGURED),
            ("{0} <b>forged line", LoginFailure.PROVIDER_MISCONFIGURED),
        ):
            desk = self.oauth(far := FarProvider())
            self.failed(desk, outcome, error=error, error_description="SAID BY THE PROVIDER")
            self.assertEqual(far.calls, [])
            for word in ("SAID", "forged", "Access_Denied"):
                self.assertNotIn(word, desk.log.lines[0])

    def test_failures_of_the_exchange(self) -> None:
        """Each kind by its name, for the game at once; the cause for the owner only."""
        kinds: list[ProviderFailure] = [
            ProviderDenied("the account was refused"),
            ProviderError("token_endpoint: no id_token"),
            ProviderMisconfigured("token_endpoint: 401 invalid_client"),
            ProviderUnavailable("token_endpoint: no connection"),
            ServerClockSkew("5 minutes behind"),
        ]
        for failure in kinds:
            desk = self.oauth(FarProvider(failure=failure))
            self.failed(desk, failure.outcome)
            self.assertIn(str(failure), desk.log.lines[0])

    @covers("threats/21")
    def test_a_waiting_game(self) -> None:
        """It is answered the moment the provider has failed."""
        desk = self.oauth(far := FarProvider(holding=True))
        started = desk.start()
        back = Deferred.fromCoroutine(desk.come_back(desk.depart(started)))
        waiting = desk.asked(started, wait_seconds=25, seen="exchanging")
        self.assertNoResult(waiting)
        far.answer(ProviderError("token_endpoint: answered 500"))
        self.assertEqual(self.successResultOf(waiting), Failed(LoginFailure.PROVIDER_ERROR))
        self.successResultOf(back)

    def test_a_defect(self) -> None:
        """Something nobody expected: the game need not wait for the end of time, and the error is not swallowed."""
        desk = self.oauth(FarProvider(failure=ZeroDivisionError("a defect")))
        started = desk.start()
        with self.assertRaises(ZeroDivisionError):
            desk.returned(desk.depart(started))
        self.assertEqual(desk.collect(started), Failed(LoginFailure.LOGIN_INTERRUPTED))

    @covers("2.2/12")
    def test_damaged_rows(self) -> None:
        """A verifier or nonce that was changed, or belongs to another attempt, opens nothing and sends nothing."""
        damages = (
            "UPDATE authorization_attempt SET sealed_verifier = zeroblob(114)",
            "UPDATE authorization_attempt SET sealed_nonce = zeroblob(71)",
            "UPDATE authorization_attempt SET sealed_verifier = NULL",
            "UPDATE authorization_attempt SET attempt_id = 'att_x' || number",
            "UPDATE authorization_attempt AS a SET sealed_verifier ="
            " (SELECT sealed_verifier FROM authorization_attempt WHERE number <> a.number)",
        )
        for damage in damages:
            desk = self.oauth(far := FarProvider("google", issuer=ISSUER))
            started = desk.start()
            state, _ = desk.depart(started), desk.depart(started)
            desk.write(lambda c, damage=damage: c.execute(damage) and None)
            self.assertEqual(desk.returned(state), RedirectToResult(started.login.login_id))
            self.assertEqual((desk.collect(started), far.calls), (Failed(LoginFailure.LOGIN_INTERRUPTED), []))
            self.assertEqual(desk.done_page(started), Ended(LoginFailure.LOGIN_INTERRUPTED))
            [line] = desk.log.lines
            self.assertRegex(line, r"^failed google login_interrupted req-1: (PKCE|NONCE) of att_\S+ cannot be opened$")

    def test_a_busy_store(self) -> None:
        """What the provider said is not lost because the store was busy for a moment."""
        desk = self.oauth(FarProvider())
        tries = []

        class Busy:
            async def advance(self, key, step):  # type: ignore[no-untyped-def]
                tries.append(key)
                if len(tries) < 3:
                    raise DatabaseBusy
                return await desk.store.advance(key, step)

        busy = replace(desk.browsers, _store=Busy())
        desk.callbacks = replace(desk.callbacks, _browsers=busy)
        started = desk.start()
        self.assertEqual(desk.returned(desk.depart(started)), RedirectToResult(started.login.login_id))
        self.assertEqual(desk.collect(started), Pending("proof_required", 600))


class Time(HandoffCase):
    def test_a_late_exchange(self) -> None:
        """Begun in the last second, ended up to 15 s late; then the clock has won."""
        for late, told in ((14.9, Pending("proof_required", 0)), (16.0, Failed(LoginFailure.LOGIN_EXPIRED))):
            desk = self.oauth(far := FarProvider(holding=True))
            started = desk.start()
            state = desk.depart(started)
            desk.clock.advance(599)
            back = Deferred.fromCoroutine(desk.come_back(state))
            desk.clock.advance(1)
            done(desk.lifecycle.expire())
            self.assertEqual(desk.collect(started), Pending("exchanging", 0))
            desk.clock.advance(late)
            far.answer()
            self.assertEqual(self.successResultOf(back), RedirectToResult(started.login.login_id))
            self.assertEqual(desk.collect(started), told)

    def test_a_restart_while_exchanging(self) -> None:
        """The exchange is lost with the process that made it; a code that is shown again is not sent again."""
        desk = self.oauth(far := FarProvider(holding=True))
        exchanging, waiting = desk.start(), desk.start()
        state, other = desk.depart(exchanging), desk.depart(waiting)
        Deferred.fromCoroutine(desk.come_back(state))
        done(desk.lifecycle.recover())
        self.assertEqual(desk.collect(exchanging), Failed(LoginFailure.LOGIN_INTERRUPTED))
        with self.assertRaises(LoginEnded):
            desk.returned(state)
        self.assertEqual(len(far.calls), 1)
        far.answer()
        self.assertEqual(desk.collect(exchanging), Failed(LoginFailure.LOGIN_INTERRUPTED))
        far.holding = False
        self.assertEqual(desk.returned(other), RedirectToResult(waiting.login.login_id))

    def test_cancelled_while_exchanging(self) -> None:
        """What comes from the provider afterwards is nobody's."""
        desk = self.oauth(far := FarProvider(holding=True))
        started = desk.start()
        back = Deferred.fromCoroutine(desk.come_back(desk.depart(started)))
        desk.cancel(started)
        far.answer()
        self.assertEqual(self.successResultOf(back), RedirectToResult(started.login.login_id))
        self.assertEqual(desk.done_page(started), Ended(LoginFailure.LOGIN_CANCELLED))
        self.assertEqual(desk.rows("SELECT sealed_identity, sealed_proof FROM login"), [(None, None)])

    @covers("threats/12")
    def test_cancelled_after_collect(self) -> None:
        """The session of the delivery dies with it."""
        desk = self.oauth(FarProvider())
        started = desk.signed_in()
        complete = desk.collect(started, code=desk.code(started))
        desk.cancel(started)
        with self.assertRaises(SessionRevoked):
            token = complete.result.pair.access
            desk.write(lambda c: session_tables.authenticate(c, desk.keys.indexer, token, desk.now_ms()))
