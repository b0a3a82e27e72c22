"""These tests complete callbacks: one exchange, one outcome, and no effect on other logins.

See docs/internals/rules.md: Callbacks; docs/protocol.md: Collect.
"""

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
from tests.login.fake_provider import ISSUER, FakeProvider
from tests.login.fixtures import BASE, LoginCase, LoginServer, done
from tests.login.test_login import lasting
from tests.support.covers import covers
from tests.support.stores import literal

NO_EFFECT = (CallbackCheck.PROVIDER_UNKNOWN, CallbackCheck.STATE_UNKNOWN, CallbackCheck.OTHER_BROWSER)


@covers("1/9")
class GoodPaths(LoginCase):
    def test_to_the_end(self) -> None:
        """A sign-in works to the credentials; the game sees each stage, and the provider's requests are right."""
        server = self.oauth_server(fake := FakeProvider("google", issuer=ISSUER))
        started = server.start(name="MyGame")
        state = server.redirect_state(started)
        self.assertEqual(server.collect(started), Pending("at_provider", 600))
        self.assertEqual(server.finish_callback(state), RedirectToResult(started.login.login_id))
        self.assertEqual(server.collect(started), Pending("proof_required", 600))
        complete = server.collect(started, code=server.code(started))
        self.assertIsInstance(complete, Complete)
        self.assertTrue(complete.result.created)
        [call] = fake.calls
        self.assertEqual((call["code"], call["redirect_uri"]), (f"anna|{state}".encode(), CALLBACK))
        self.assertEqual(call["login_id"], started.login.login_id)
        self.assertEqual(server.rows("SELECT provider, client FROM session"), [("google", '{"name":"MyGame"}')])
        token = complete.result.pair.access
        caller = server.write(lambda c: session_tables.authenticate(c, server.keys.indexer, token, server.now_ms()))
        self.assertEqual(caller.player_id, complete.result.player_id)

    def test_through_the_port(self) -> None:
        """The browser takes the ticket to the game's port, once."""
        server = self.oauth_server(FakeProvider())
        started = server.start(port=51004)
        server.finish_callback(server.redirect_state(started))
        sent = server.result(started)
        self.assertIsInstance(sent, ReturnToGame)
        self.assertIsInstance(server.result(started), ShowFinishCode)
        self.assertIsInstance(server.collect(started, ticket=sent.ticket), Complete)

    def test_nothing_lasts_before_the_proof(self) -> None:
        """No player, identity or session exists before the first proven collect."""
        server = self.oauth_server(FakeProvider())
        server.collect(known := server.signed_in("anna"), code=server.code(known))
        before = lasting(server)
        for who in ("anna", "bo"):
            started = server.signed_in(who)
            server.collect(started)
            with self.assertRaises(InvalidProof):
                server.collect(started, code="XXX-XXX")
            self.assertEqual(lasting(server), before)

    def test_a_waiting_collect_ends_at_once(self) -> None:
        """A waiting collect ends with each stage: authorizing, exchanging, ready."""
        server = self.oauth_server(fake := FakeProvider(holding=True))
        started = server.start()
        waiting = server.begin_collect(started, wait_seconds=25)
        state = server.redirect_state(started)
        self.assertEqual(self.successResultOf(waiting), Pending("at_provider", 600))
        waiting = server.begin_collect(started, wait_seconds=25, seen="at_provider")
        back = Deferred.fromCoroutine(server.callback(state))
        self.assertEqual(self.successResultOf(waiting), Pending("exchanging", 600))
        self.assertIsInstance(server.result(started), InProgress)
        waiting = server.begin_collect(started, wait_seconds=25, seen="exchanging")
        self.assertNoResult(waiting)
        fake.answer()
        self.assertEqual(self.successResultOf(back), RedirectToResult(started.login.login_id))
        self.assertEqual(self.successResultOf(waiting), Pending("proof_required", 600))

    @covers("2.2/11", "2.2/12", "threats/47")
    def test_secrets_at_rest(self) -> None:
        """A used state erases verifiers and nonces of all attempts; no value is stored in clear."""
        server = self.oauth_server(fake := FakeProvider("google", issuer=ISSUER, holding=True))
        started = server.start()
        first, second = server.redirect_state(started), server.redirect_state(started, OTHER)
        Deferred.fromCoroutine(server.callback(first))
        rows = server.rows("SELECT status, sealed_verifier, sealed_nonce FROM authorization_attempt ORDER BY number")
        self.assertEqual(rows, [("used", None, None), ("open", None, None)])
        fake.answer()
        tables = ("login", "authorization_attempt", "identity")
        everything = repr([server.rows(f"SELECT * FROM {table}") for table in tables])
        for word in (first, second, "anna", ISSUER, *[request.nonce or "-" for request in fake.requests]):
            self.assertNotIn(word, everything)


CALLBACK = f"{BASE}/auth/google/callback"


class Refused(LoginCase):
    def test_without_effect(self) -> None:
        """Checks 1 to 4 change no row and send nothing; the right browser can still finish."""
        server = self.oauth_server(fake := FakeProvider("google", issuer=ISSUER))
        started = server.start()
        state = server.redirect_state(started)
        before = [server.rows("SELECT * FROM login"), server.rows("SELECT * FROM authorization_attempt")]
        with self.assertRaises(CallbackMalformed):
            server.finish_callback(state, code="c", error="e")
        for check, browser, other in (
            (CallbackCheck.PROVIDER_UNKNOWN, BROWSER, {"provider": "nobody"}),
            (CallbackCheck.PROVIDER_UNKNOWN, BROWSER, {"provider": "login"}),
            (CallbackCheck.OTHER_BROWSER, OTHER, {}),
            (CallbackCheck.OTHER_BROWSER, None, {}),
            (CallbackCheck.OTHER_BROWSER, OTHER, {"error": "access_denied"}),
        ):
            with self.assertRaises(CallbackRejected) as refused:
                server.finish_callback(state, browser, **other)
            self.assertIs(refused.exception.check, check)
        for unknown in (state[:-1], state + "A", "", "A" * 43):
            with self.assertRaises(CallbackRejected) as refused:
                server.finish_callback(unknown)
            self.assertIs(refused.exception.check, CallbackCheck.STATE_UNKNOWN)
        self.assertEqual(
            [server.rows("SELECT * FROM login"), server.rows("SELECT * FROM authorization_attempt")], before
        )
        self.assertEqual((fake.calls, server.log.lines), ([], []))
        self.assertEqual(
            server.finish_callback(state, iss=ISSUER, code="anna"), RedirectToResult(started.login.login_id)
        )

    def test_invalidated(self) -> None:
        """Checks 5 and 6 invalidate the attempt and log one line with the check; the login can continue."""
        for name, other in (
            ("other_provider", {"provider": "discord"}),
            ("other_issuer", {"code": "c", "iss": "EVIL"}),
        ):
            server = self.oauth_server(google := FakeProvider("google", issuer=ISSUER), discord := FakeProvider())
            started = server.start()
            state = server.redirect_state(started)
            with self.assertRaises(CallbackRejected):
                server.finish_callback(state, **other)
            provider = other.get("provider", "google")
            self.assertEqual(server.security, [f"callback_rejected provider={provider} check={name} request=req-1"])
            self.assertEqual(
                server.rows("SELECT status, sealed_verifier FROM authorization_attempt"), [("invalidated", None)]
            )
            with self.assertRaises(CallbackRejected) as again:
                server.finish_callback(state)
            self.assertIs(again.exception.check, CallbackCheck.ENDED)
            self.assertEqual((google.calls, discord.calls), ([], []))
            self.assertIs(server.login(started).stage, LoginStage.AUTHORIZING)
            self.assertEqual(
                server.finish_callback(server.redirect_state(started)), RedirectToResult(started.login.login_id)
            )

    @covers("threats/13")
    def test_promised_issuer(self) -> None:
        """`iss` is required if the metadata promised it when the browser was redirected, not when it returns."""
        server = self.oauth_server(fake := FakeProvider("google", issuer=ISSUER, iss_promised=True))
        state = server.redirect_state(server.start())
        fake.iss_promised = False
        with self.assertRaises(CallbackRejected):
            server.finish_callback(state)

    def test_over(self) -> None:
        """A cancelled, declined or expired login is 410 with its outcome, and the code is never sent."""
        for end, outcome in (
            (lambda server, started: server.cancel(started), LoginFailure.LOGIN_CANCELLED),
            (lambda server, started: server.decline(started), LoginFailure.LOGIN_DENIED),
            (lambda server, started: server.clock.advance(600), LoginFailure.LOGIN_EXPIRED),
        ):
            server = self.oauth_server(fake := FakeProvider())
            started = server.start()
            state = server.redirect_state(started)
            end(server, started)
            with self.assertRaises(LoginEnded) as over:
                server.finish_callback(state)
            self.assertEqual((over.exception.outcome, fake.calls), (outcome, []))

    def test_twice(self) -> None:
        """A second callback waits for the first one's exchange, at most 15 s; its code is never sent."""
        server = self.oauth_server(fake := FakeProvider(holding=True))
        started = server.start()
        state = server.redirect_state(started)
        first = Deferred.fromCoroutine(server.callback(state))
        second, third = (Deferred.fromCoroutine(server.callback(state, who=who)) for who in ("bo", "anna"))
        consumed = AlreadyConsumed(started.login.login_id, own=True)
        self.assertEqual(self.successResultOf(second), consumed)
        self.assertNoResult(third)
        fake.answer()
        self.assertEqual(self.successResultOf(first), RedirectToResult(started.login.login_id))
        self.assertEqual(self.successResultOf(third), consumed)
        self.assertEqual(server.finish_callback(state), consumed)
        self.assertEqual(len(fake.calls), 1)

    def test_twice_and_no_end(self) -> None:
        """The second callback is answered after 15 s, even if the first one has no end."""
        server = self.oauth_server(FakeProvider(holding=True))
        state = server.redirect_state(started := server.start())
        Deferred.fromCoroutine(server.callback(state))
        second = Deferred.fromCoroutine(server.callback(state))
        server.clock.advance(EXCHANGE_GRACE_MS / 1000 - 1)
        self.assertNoResult(second)
        server.clock.advance(1.3)
        self.assertEqual(self.successResultOf(second), AlreadyConsumed(started.login.login_id, own=True))

    def test_twice_while_the_service_ends(self) -> None:
        """A second callback does not wait while the service stops."""
        server = self.oauth_server(FakeProvider(holding=True))
        state = server.redirect_state(server.start())
        Deferred.fromCoroutine(server.callback(state))
        second = Deferred.fromCoroutine(server.callback(state))
        server.waiters.close()
        self.assertTrue(self.successResultOf(second).own)

    def test_two_tabs(self) -> None:
        """With two tabs of one browser the later one finds the earlier one's result; its own code is not sent."""
        server = self.oauth_server(fake := FakeProvider())
        started = server.start()
        one, two = server.redirect_state(started), server.redirect_state(started)
        server.finish_callback(two)
        self.assertEqual(server.finish_callback(one, who="bo"), AlreadyConsumed(started.login.login_id, own=True))
        self.assertEqual(len(fake.calls), 1)


class TwoBrowsers(LoginCase):
    @covers("threats/3")
    def test_both_orders(self) -> None:
        """The first callback gets the login; the other browser gets an error, does not wait, and sees no result."""
        for winner, loser in ((BROWSER, OTHER), (OTHER, BROWSER)):
            server = self.oauth_server(fake := FakeProvider(holding=True))
            started = server.start()
            states = {browser: server.redirect_state(started, browser) for browser in (BROWSER, OTHER)}
            won = Deferred.fromCoroutine(server.callback(states[winner], winner, who="anna"))
            self.assertEqual(
                server.finish_callback(states[loser], loser, who="bo"),
                AlreadyConsumed(started.login.login_id, own=False),
            )
            fake.answer()
            self.assertIsInstance(self.successResultOf(won), RedirectToResult)
            with self.assertRaises(WrongBrowser):
                server.result(started, loser)
            self.assertIsInstance(server.collect(started, code=server.code(started, winner)), Complete)
            self.assertEqual([call["code"].partition(b"|")[0] for call in fake.calls], [b"anna"])

    @covers("threats/14")
    def test_a_stranger_brings_the_callback(self) -> None:
        """A stolen callback address has no effect in another browser, and still works in its own."""
        server = self.oauth_server(FakeProvider())
        started = server.start()
        state = server.redirect_state(started)
        server.redirect_state(started, OTHER)
        with self.assertRaises(CallbackRejected):
            server.finish_callback(state, OTHER)
        self.assertEqual(server.finish_callback(state), RedirectToResult(started.login.login_id))


@covers("7/5")
class Failures(LoginCase):
    def failed(self, server: LoginServer, outcome: LoginFailure, **other: str) -> None:
        started = server.start()
        state = server.redirect_state(started)
        self.assertEqual(server.finish_callback(state, **other), RedirectToResult(started.login.login_id))
        self.assertEqual(server.collect(started), Failed(outcome))
        self.assertEqual(server.result(started), Ended(outcome))
        [line] = server.log.lines
        self.assertTrue(line.startswith(f"failed discord {outcome.value} req-1: "), line)

    def test_errors_of_the_redirect(self) -> None:
        """Errors of the redirect give the protocol's outcomes; their texts never reach the log, and no code is sent."""
        for error, outcome in (
            ("access_denied", LoginFailure.PROVIDER_DENIED),
            ("temporarily_unavailable", LoginFailure.PROVIDER_UNAVAILABLE),
            ("server_error", LoginFailure.PROVIDER_UNAVAILABLE),
            ("invalid_scope", LoginFailure.PROVIDER_MISCONFIGURED),
            ("unauthorized_client", LoginFailure.PROVIDER_MISCONFIGURED),
            ("Access_Denied", LoginFailure.PROVIDER_MISCONFIGURED),
            ("{0} <b>forged line", LoginFailure.PROVIDER_MISCONFIGURED),
        ):
            server = self.oauth_server(fake := FakeProvider())
            self.failed(server, outcome, error=error, error_description="SAID BY THE PROVIDER")
            self.assertEqual(fake.calls, [])
            for word in ("SAID", "forged", "Access_Denied"):
                self.assertNotIn(word, server.log.lines[0])

    def test_failures_of_the_exchange(self) -> None:
        """Each failure of the exchange has its outcome, for the game at once; only the log has the cause."""
        kinds: list[ProviderFailure] = [
            ProviderDenied("the account was refused"),
            ProviderError("token_endpoint: no id_token"),
            ProviderMisconfigured("token_endpoint: 401 invalid_client"),
            ProviderUnavailable("token_endpoint: no connection"),
            ServerClockSkew("5 minutes behind"),
        ]
        for failure in kinds:
            server = self.oauth_server(FakeProvider(failure=failure))
            self.failed(server, failure.outcome)
            self.assertIn(str(failure), server.log.lines[0])

    @covers("threats/21")
    def test_a_waiting_game(self) -> None:
        """A waiting game is answered when the provider has failed."""
        server = self.oauth_server(fake := FakeProvider(holding=True))
        started = server.start()
        back = Deferred.fromCoroutine(server.callback(server.redirect_state(started)))
        waiting = server.begin_collect(started, wait_seconds=25, seen="exchanging")
        self.assertNoResult(waiting)
        fake.answer(ProviderError("token_endpoint: answered 500"))
        self.assertEqual(self.successResultOf(waiting), Failed(LoginFailure.PROVIDER_ERROR))
        self.successResultOf(back)

    def test_a_defect(self) -> None:
        """An unexpected error ends the login at once and is raised."""
        server = self.oauth_server(FakeProvider(failure=ZeroDivisionError("a defect")))
        started = server.start()
        with self.assertRaises(ZeroDivisionError):
            server.finish_callback(server.redirect_state(started))
        self.assertEqual(server.collect(started), Failed(LoginFailure.LOGIN_INTERRUPTED))

    @covers("2.2/12")
    def test_damaged_rows(self) -> None:
        """A verifier or nonce that was changed or belongs to another attempt decrypts nothing and sends nothing."""
        damages = (
            f"UPDATE authorization_attempt SET sealed_verifier = {literal(bytes(114))}",
            f"UPDATE authorization_attempt SET sealed_nonce = {literal(bytes(71))}",
            "UPDATE authorization_attempt SET sealed_verifier = NULL",
            "UPDATE authorization_attempt SET attempt_id = 'att_x' || number",
            "UPDATE authorization_attempt AS a SET sealed_verifier ="
            " (SELECT sealed_verifier FROM authorization_attempt WHERE number <> a.number)",
        )
        for damage in damages:
            server = self.oauth_server(fake := FakeProvider("google", issuer=ISSUER))
            started = server.start()
            state, _ = server.redirect_state(started), server.redirect_state(started)
            server.write(lambda c, damage=damage: c.execute(damage) and None)
            self.assertEqual(server.finish_callback(state), RedirectToResult(started.login.login_id))
            self.assertEqual((server.collect(started), fake.calls), (Failed(LoginFailure.LOGIN_INTERRUPTED), []))
            self.assertEqual(server.result(started), Ended(LoginFailure.LOGIN_INTERRUPTED))
            [line] = server.log.lines
            self.assertRegex(line, r"^failed google login_interrupted req-1: (PKCE|NONCE) of att_\S+ cannot be opened$")

    def test_a_busy_store(self) -> None:
        """The provider's result is written although the database was busy for a moment."""
        server = self.oauth_server(FakeProvider())
        tries = []

        class Busy:
            async def advance(self, key, step):  # type: ignore[no-untyped-def]
                tries.append(key)
                if len(tries) < 3:
                    raise DatabaseBusy
                return await server.store.advance(key, step)

        busy = replace(server.browsers, store=Busy())
        server.callbacks = replace(server.callbacks, browsers=busy)
        started = server.start()
        self.assertEqual(
            server.finish_callback(server.redirect_state(started)), RedirectToResult(started.login.login_id)
        )
        self.assertEqual(server.collect(started), Pending("proof_required", 600))


class Time(LoginCase):
    def test_a_late_exchange(self) -> None:
        """An exchange that began in the last second may end 15 s late; after that the login has expired."""
        for late, expected in ((14.9, Pending("proof_required", 0)), (16.0, Failed(LoginFailure.LOGIN_EXPIRED))):
            server = self.oauth_server(fake := FakeProvider(holding=True))
            started = server.start()
            state = server.redirect_state(started)
            server.clock.advance(599)
            back = Deferred.fromCoroutine(server.callback(state))
            server.clock.advance(1)
            done(server.lifecycle.expire())
            self.assertEqual(server.collect(started), Pending("exchanging", 0))
            server.clock.advance(late)
            fake.answer()
            self.assertEqual(self.successResultOf(back), RedirectToResult(started.login.login_id))
            self.assertEqual(server.collect(started), expected)

    def test_a_restart_while_exchanging(self) -> None:
        """A restart ends the exchange of the old process; a code that arrives again is not sent again."""
        server = self.oauth_server(fake := FakeProvider(holding=True))
        exchanging, waiting = server.start(), server.start()
        state, other = server.redirect_state(exchanging), server.redirect_state(waiting)
        Deferred.fromCoroutine(server.callback(state))
        done(server.lifecycle.recover())
        self.assertEqual(server.collect(exchanging), Failed(LoginFailure.LOGIN_INTERRUPTED))
        with self.assertRaises(LoginEnded):
            server.finish_callback(state)
        self.assertEqual(len(fake.calls), 1)
        fake.answer()
        self.assertEqual(server.collect(exchanging), Failed(LoginFailure.LOGIN_INTERRUPTED))
        fake.holding = False
        self.assertEqual(server.finish_callback(other), RedirectToResult(waiting.login.login_id))

    def test_cancelled_while_exchanging(self) -> None:
        """A result that arrives after a cancel belongs to no player."""
        server = self.oauth_server(fake := FakeProvider(holding=True))
        started = server.start()
        back = Deferred.fromCoroutine(server.callback(server.redirect_state(started)))
        server.cancel(started)
        fake.answer()
        self.assertEqual(self.successResultOf(back), RedirectToResult(started.login.login_id))
        self.assertEqual(server.result(started), Ended(LoginFailure.LOGIN_CANCELLED))
        self.assertEqual(server.rows("SELECT sealed_identity, sealed_proof FROM login"), [(None, None)])

    @covers("threats/12")
    def test_cancelled_after_collect(self) -> None:
        """A cancel after the collect revokes the session."""
        server = self.oauth_server(FakeProvider())
        started = server.signed_in()
        complete = server.collect(started, code=server.code(started))
        server.cancel(started)
        with self.assertRaises(SessionRevoked):
            token = complete.result.pair.access
            server.write(lambda c: session_tables.authenticate(c, server.keys.indexer, token, server.now_ms()))
