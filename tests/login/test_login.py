"""These tests take logins from start to credentials and to every other end (docs/internals/login-states.md)."""

from msgspec.structs import replace

from gamed.config.model import Mode
from gamed.crypto import Secret
from gamed.login.browser import (
    Declined,
    Ended,
    Finished,
    InProgress,
    RedirectToResult,
    ReturnToGame,
    ShowFinishCode,
    SignInPrompt,
)
from gamed.login.collect import Complete, Failed, Pending
from gamed.login.errors import (
    DeviceSecretInvalid,
    InvalidProof,
    InvalidStart,
    LoginCollected,
    LoginEnded,
    ProviderUnknown,
    UnknownLoginLink,
    WrongBrowser,
)
from gamed.login.keys import LoginLookup, PresentedProof, secret_index
from gamed.login.local import FormError, FormRejected
from gamed.login.start import StartRequest
from gamed.login.tables import CLEANUP_ROWS
from gamed.login.transaction import DELIVERED_MS, LoginEvent, LoginIntent, LoginStage, ProofMethod
from gamed.outcomes import LoginFailure
from gamed.players import tables as player_tables
from gamed.players.errors import PasswordsBusy
from gamed.sessions import tables as session_tables
from gamed.sessions.credentials import to_bytes
from gamed.sessions.errors import SessionRevoked
from gamed.sessions.service import FirstUses
from tests.login.examples import BROWSER, OTHER, START_MS
from tests.login.fixtures import ANNA, APPROVAL, CLOSED, OFF, PASSWORD, TERMS, LoginCase, LoginServer, done
from tests.support.covers import covers

LASTING = ("player", "local_account", "identity", "session", "credential")


class FullHasher:
    """A password hasher with a full queue."""

    async def hash(self, password: Secret) -> str:
        raise PasswordsBusy

    async def verify(self, encoded: str | None, password: Secret) -> bool:
        raise PasswordsBusy


def lasting(server: LoginServer) -> list[object]:
    """Return all rows that a login may leave for good."""
    return [server.rows(f"SELECT * FROM {table} ORDER BY 1") for table in LASTING]


class Starting(LoginCase):
    @covers("2.2/11", "2.3/6")
    def test_a_start(self) -> None:
        """Ids and expiry are as specified; the database holds indexes, neither secret nor token."""
        server = self.local_server()
        started = server.start(name="MyGame")
        login = server.login(started)
        self.assertEqual((login.stage, login.provider, login.client.name), (LoginStage.PENDING, "local", "MyGame"))
        self.assertEqual(login.expires_ms, START_MS + 600_000)
        row = repr(server.rows("SELECT * FROM login"))
        self.assertNotIn(started.token, row)
        self.assertNotIn(started.device_secret.reveal().decode(), row)
        self.assertNotIn("203.0.113", row)

    def test_the_proof_that_will_be_asked_for(self) -> None:
        """A port allows the loopback proof; without one only the code is left; the owner may turn proofs off."""
        self.assertIs(self.local_server().start(port=51004).login.return_proof, ProofMethod.LOOPBACK_OR_CODE)
        self.assertIs(self.local_server().start().login.return_proof, ProofMethod.CODE)
        self.assertIs(self.local_server(return_proof=OFF).start(port=51004).login.return_proof, ProofMethod.NONE)

    def test_what_cannot_start(self) -> None:
        """Local mode accepts no provider and no link; oauth mode needs a known provider; a long member is named."""
        local, oauth = self.local_server(), self.local_server(mode=Mode.OAUTH)
        good = StartRequest(None, LoginIntent.LOGIN, {}, None, "::1")
        for server, start, error in (
            (local, replace(good, provider="discord"), ProviderUnknown),
            (local, replace(good, intent=LoginIntent.LINK), InvalidStart),
            (local, replace(good, intent=LoginIntent.ADOPT), InvalidStart),
            (local, replace(good, client={"name": "x" * 65}), InvalidStart),
            (oauth, good, InvalidStart),
            (oauth, replace(good, provider="google"), ProviderUnknown),
        ):
            with self.assertRaises(error):
                done(server.starts.start(start))
            self.assertEqual(server.rows("SELECT 1 FROM login"), [])

    def test_which_providers_there_are(self) -> None:
        """A start without a provider names the route that lists them."""
        with self.assertRaises(InvalidStart) as caught:
            done(
                self.local_server(mode=Mode.OAUTH).starts.start(StartRequest(None, LoginIntent.LOGIN, {}, None, "::1"))
            )
        self.assertEqual(str(caught.exception), "/provider: is missing; GET /auth/config lists which there are")


class SigningIn(LoginCase):
    def test_with_an_account(self) -> None:
        """Name, password and finish code give credentials that work."""
        server = self.local_server()
        started = server.start(name="MyGame")
        self.assertEqual(server.collect(started), Pending("waiting_for_browser", 600))
        self.assertEqual(server.sign_in(started, name=" ANNA "), RedirectToResult(started.login.login_id))
        self.assertEqual(server.collect(started), Pending("proof_required", 600))
        complete = server.collect(started, code=server.code(started))
        self.assertIsInstance(complete, Complete)
        self.assertEqual((complete.result.player_id, complete.result.created), (ANNA, False))
        caller = server.write(
            lambda c: session_tables.authenticate(c, server.keys.indexer, complete.result.pair.access, server.now_ms())
        )
        self.assertEqual((caller.player_id, caller.session_id), (ANNA, complete.login.session_id))
        [(client, provider, login_id)] = server.rows("SELECT client, provider, login_id FROM session")
        self.assertEqual((client, provider, login_id), ('{"name":"MyGame"}', "local", started.login.login_id))
        self.assertEqual(server.result(started), Finished(signed_in=True))

    def test_nothing_lasting_before_the_first_proven_collect(self) -> None:
        """New account, old account and wrong proofs change no player or session before the first proven collect."""
        server = self.local_server()
        before = lasting(server)
        old, new = server.start(), server.start(port=51004)
        server.sign_in(old)
        server.create(new, "Bert")
        for started in (old, new):
            server.collect(started)
            with self.assertRaises(InvalidProof):
                server.collect(started, code="XXX-XXX")
            with self.assertRaises(InvalidProof):
                server.collect(started, ticket="wrong")
        self.assertEqual(lasting(server), before)
        self.assertTrue(server.collect(new, ticket=server.ticket(new)).result.created)
        self.assertNotEqual(lasting(server), before)

    def test_a_sign_in_is_noted(self) -> None:
        """Player and account record their last use at the collect, not at the form."""
        server = self.local_server()
        started = server.start()
        server.sign_in(started)
        self.assertEqual(server.rows("SELECT last_sign_in_ms FROM player"), [(None,)])
        server.clock.advance(5)
        server.collect(started, code=server.code(started))
        self.assertEqual(server.rows("SELECT last_sign_in_ms FROM player"), [(START_MS + 5000,)])
        self.assertEqual(server.rows("SELECT last_used_ms FROM local_account"), [(START_MS + 5000,)])

    def test_a_new_account_can_sign_in_again(self) -> None:
        """The collect creates the account; from then on its name and password work, and `created` is false."""
        server = self.local_server()
        first, again = server.start(), server.start()
        server.create(first, "Bert", "another password")
        created = server.collect(first, code=server.code(first)).result
        self.assertTrue(created.created)
        self.assertIsInstance(server.sign_in(again, name="bert", password="another password"), RedirectToResult)
        result = server.collect(again, code=server.code(again)).result
        self.assertEqual((result.player_id, result.created), (created.player_id, False))

    @covers("threats/10")
    def test_a_wrong_name_and_a_wrong_password_look_the_same(self) -> None:
        """Unknown name and wrong password give the same error, the stage changes, and the player may retry."""
        server = self.local_server()
        for fields in ({"name": "nobody"}, {"password": "wrong horse"}, {"name": "a b"}, {"password": "short"}):
            started = server.start()
            refused = server.sign_in(started, **fields)
            self.assertIsInstance(refused, FormRejected)
            self.assertIs(refused.error, FormError.WRONG)
            self.assertEqual(server.collect(started), Pending("at_provider", 600))
            self.assertIsInstance(server.sign_in(started), RedirectToResult)

    def test_too_many_at_once(self) -> None:
        """With a full password queue the form returns with a time, and the stage does not change."""
        server = self.local_server()
        server.local = replace(server.local, passwords=replace(server.passwords, hasher=FullHasher()))
        started = server.start()
        for act in (server.sign_in, server.create):
            refused = act(started, name="Bert")
            self.assertEqual((refused.error, refused.retry_after), (FormError.BUSY, 2))
        self.assertEqual(server.collect(started), Pending("waiting_for_browser", 600))

    def test_what_cannot_be_created(self) -> None:
        """A malformed name or password, a taken name in any spelling, and closed registration are rejected."""
        server, closed = self.local_server(), self.local_server(registration=CLOSED)
        for where, name, password, refusal in (
            (server, "a b", PASSWORD, FormError.NAME_MALFORMED),
            (server, "", PASSWORD, FormError.NAME_MALFORMED),
            (server, "Bert", "short", FormError.PASSWORD_MALFORMED),
            (server, "\uff21NNA", PASSWORD, FormError.NAME_TAKEN),
            (closed, "Bert", PASSWORD, FormError.CLOSED),
        ):
            refused = where.create(where.start(), name, password)
            self.assertEqual((type(refused), refused.error), (FormRejected, refusal))

    def test_two_new_accounts_of_one_name(self) -> None:
        """Both browsers succeed; the first game to collect gets the name, the other an outcome."""
        server = self.local_server()
        one, two = server.start(), server.start()
        server.create(one, "Bert")
        server.create(two, "BERT")
        self.assertIsInstance(server.collect(two, code=server.code(two)), Complete)
        self.assertEqual(server.collect(one, code=server.code(one)), Failed(LoginFailure.IDENTITY_IN_USE))
        self.assertEqual(len(server.rows("SELECT 1 FROM player")), 2)

    def test_approval(self) -> None:
        """With approval the account is created without a session; once approved, it signs in."""
        server = self.local_server(registration=APPROVAL)
        first, later, approved = server.start(), server.start(), server.start()
        server.create(first, "Bert")
        self.assertEqual(server.collect(first, code=server.code(first)).outcome, LoginFailure.PLAYER_PENDING)
        self.assertEqual(server.rows("SELECT state FROM player WHERE player_id <> :a", a=ANNA), [("pending",)])
        self.assertEqual(server.rows("SELECT 1 FROM session"), [])
        server.sign_in(later, name="Bert")
        self.assertEqual(server.collect(later, code=server.code(later)).outcome, LoginFailure.PLAYER_PENDING)
        [(bert,)] = server.rows("SELECT player_id FROM player WHERE state = 'pending'")
        server.write(lambda c: player_tables.set_state(c, bert, "active"))
        server.sign_in(approved, name="Bert")
        self.assertEqual(server.collect(approved, code=server.code(approved)).result.player_id, bert)

    def test_registration_closed_in_between(self) -> None:
        """Registration is checked again when the game collects."""
        server = self.local_server()
        started = server.start()
        server.create(started, "Bert")
        server.context = replace(server.context, policy=replace(TERMS, registration=CLOSED))
        server.collects = server.new_collects()
        self.assertEqual(server.collect(started, code=server.code(started)), Failed(LoginFailure.REGISTRATION_CLOSED))
        self.assertEqual(len(server.rows("SELECT 1 FROM player")), 1)

    def test_blocked_in_between(self) -> None:
        """A player who was blocked after the password check gets no session but an outcome."""
        server = self.local_server()
        started = server.start()
        server.sign_in(started)
        server.write(lambda c: player_tables.set_state(c, ANNA, "blocked"))
        self.assertEqual(server.collect(started, code=server.code(started)), Failed(LoginFailure.PLAYER_BLOCKED))
        self.assertEqual(server.rows("SELECT 1 FROM session"), [])
        self.assertEqual(server.result(started), Ended(LoginFailure.PLAYER_BLOCKED))


class Proofs(LoginCase):
    def test_the_ticket(self) -> None:
        """The first result page carries the ticket; the collect that sends it gets the credentials."""
        server = self.local_server()
        started = server.start(port=51004)
        server.sign_in(started)
        self.assertIsInstance(server.collect(started, ticket=server.ticket(started)), Complete)

    def test_the_way_through_the_port_is_taken_once(self) -> None:
        """The loopback redirect happens once; a browser that comes back, or opens the link again, sees the code."""
        server = self.local_server()
        back, reopened = server.start(port=51004), server.start(port=51004)
        server.sign_in(back)
        self.assertIsInstance(server.result(back), ReturnToGame)
        self.assertIsInstance(server.result(back), ShowFinishCode)
        server.sign_in(reopened)
        self.assertEqual(done(server.browsers.open(reopened.token, BROWSER)), RedirectToResult(reopened.login.login_id))
        self.assertIsInstance(server.result(reopened), ShowFinishCode)

    def test_a_form_sent_twice_does_not_spend_the_way(self) -> None:
        """A form that is sent twice still ends at the loopback redirect."""
        server = self.local_server()
        started = server.start(port=51004)
        server.sign_in(started)
        server.sign_in(started)
        self.assertIsInstance(server.result(started), ReturnToGame)

    @covers("threats/9")
    def test_five_wrong_codes(self) -> None:
        """Each wrong code reports the tries left; the fifth ends the login; wrong tickets never count."""
        server = self.local_server()
        started = server.start()
        server.sign_in(started)
        code = server.code(started)
        left = []
        for _ in range(5):
            with self.assertRaises(InvalidProof):
                server.collect(started, ticket="wrong")
            with self.assertRaises(InvalidProof) as caught:
                server.collect(started, code="BBB-BBB")
            left.append(caught.exception.members["attempts_left"])
            if left[-1]:
                self.assertEqual(server.collect(started), Pending("proof_required", 600))
        self.assertEqual(left, [4, 3, 2, 1, 0])
        self.assertEqual(server.collect(started, code=code), Failed(LoginFailure.PROOF_ATTEMPTS_EXCEEDED))
        self.assertEqual(server.rows("SELECT sealed_proof, sealed_identity FROM login"), [(None, None)])
        self.assertEqual(server.result(started), Ended(LoginFailure.PROOF_ATTEMPTS_EXCEEDED))

    def test_a_proof_before_ready_is_ignored(self) -> None:
        """A proof before `ready` is neither right nor wrong, and does not count."""
        server = self.local_server()
        started = server.start()
        for _ in range(6):
            self.assertEqual(server.collect(started, code="BBB-BBB"), Pending("waiting_for_browser", 600))
        server.sign_in(started)
        self.assertIsInstance(server.collect(started, code=server.code(started)), Complete)

    @covers("threats/9")
    def test_an_early_proof_is_not_tried_later(self) -> None:
        """A proof that is sent with a long poll before `ready` is not tried later."""
        server = self.local_server()
        started = server.start()
        waiting = server.begin_collect(started, wait_seconds=25, presented=PresentedProof.finish_code("BBBBBB"))
        server.sign_in(started)
        self.assertEqual(self.successResultOf(waiting), Pending("proof_required", 600))
        self.assertEqual(server.login(started).wrong_codes, 0)

    @covers("threats/1")
    def test_another_logins_proof(self) -> None:
        """Code and ticket of one login are wrong for another."""
        server = self.local_server()
        one, two = server.start(port=51004), server.start(port=51004)
        server.sign_in(one)
        server.sign_in(two)
        ticket, code = server.ticket(one), server.code(one)
        for proof in ({"ticket": ticket}, {"code": code}):
            with self.assertRaises(InvalidProof):
                server.collect(two, **proof)

    def test_no_proof_wanted(self) -> None:
        """With return_proof off the game collects once the browser is done; the page shows no code."""
        server = self.local_server(return_proof=OFF)
        started = server.start(port=51004)
        waiting = server.begin_collect(started, wait_seconds=25)
        server.sign_in(started)
        self.assertIsInstance(self.successResultOf(waiting), Complete)
        self.assertEqual(server.result(started), Finished(signed_in=True))
        slow = server.start()
        server.sign_in(slow)
        self.assertEqual(server.result(slow), Finished(signed_in=False))


class Repeating(LoginCase):
    def complete(self, server: LoginServer) -> tuple[object, Complete]:
        started = server.start()
        server.sign_in(started)
        return started, server.collect(started, code=server.code(started))

    def test_a_lost_answer_loses_nothing(self) -> None:
        """Repeated collects need no proof, accept a wrong one, and return the same credentials for ten minutes."""
        server = self.local_server()
        started, first = self.complete(server)
        server.clock.advance(DELIVERED_MS / 1000 - 1)
        for again in (
            server.collect(started),
            server.collect(started, code="XXX-XXX"),
            server.collect(started, ticket="x"),
        ):
            self.assertEqual(to_bytes(again.result.pair), to_bytes(first.result.pair))
            self.assertEqual(again.login.session_id, first.login.session_id)
        self.assertEqual(len(server.rows("SELECT 1 FROM session")), 1)
        server.clock.advance(1)
        with self.assertRaises(LoginCollected):
            server.collect(started)

    def test_used_is_collected(self) -> None:
        """After the first use of a credential collect and cancel are refused, and the sealed result is erased."""
        server = self.local_server()
        started, first = self.complete(server)
        server.write(lambda c: session_tables.mark_used(c, first.login.session_id, 1, server.now_ms()))
        with self.assertRaises(LoginCollected):
            server.collect(started)
        with self.assertRaises(LoginCollected):
            server.cancel(started)
        self.assertEqual(server.rows("SELECT stage, sealed_result FROM login"), [("collected", None)])
        self.assertEqual(server.result(started), Finished(signed_in=True, final=True))

    def test_a_used_delivery_is_remembered_for_an_hour(self) -> None:
        """A game that asks again after the cleanup learns that it has its credentials; the login is still known."""
        server = self.local_server()
        started, first = self.complete(server)
        server.clock.advance(590)
        server.write(lambda c: session_tables.mark_used(c, first.login.session_id, 1, server.now_ms()))
        for seconds, known in ((20, True), (3579, True), (2, False)):
            server.clock.advance(seconds)
            done(server.lifecycle.expire())
            with self.assertRaises(LoginCollected if known else DeviceSecretInvalid):
                server.collect(started)

    def test_a_delivery_survives_a_restart(self) -> None:
        """Another process returns the same credentials from the database."""
        server = self.local_server()
        started, first = self.complete(server)
        done(server.lifecycle.recover())
        server.collects = server.new_collects()
        self.assertEqual(to_bytes(server.collect(started).result.pair), to_bytes(first.result.pair))

    def test_used_in_memory(self) -> None:
        """After the first use of its session a delivery is not repeated, even before that use is written."""
        server = self.local_server()
        started, first = self.complete(server)
        uses = FirstUses()
        server.store = replace(server.store, first_used=uses)
        server.collects = server.new_collects()
        self.assertEqual(to_bytes(server.collect(started).result.pair), to_bytes(first.result.pair))
        uses.add(first.login.session_id, 1)
        with self.assertRaises(LoginCollected):
            server.collect(started)


class Ending(LoginCase):
    def test_cancel_in_every_stage(self) -> None:
        """Cancel works in every stage and repeatedly, also after another end; the game learns the outcome."""
        server = self.local_server()
        for prepare in (lambda s: None, lambda s: server.sign_in(s, name="nobody"), server.sign_in):
            started = server.start()
            prepare(started)
            server.cancel(started)
            server.cancel(started)
            self.assertEqual(server.collect(started), Failed(LoginFailure.LOGIN_CANCELLED))
        declined = server.start()
        server.decline(declined)
        server.cancel(declined)
        self.assertEqual(server.collect(declined), Failed(LoginFailure.LOGIN_DENIED))

    def test_cancelled_without_a_write(self) -> None:
        """A cancel with an unknown device secret, or of a login that has ended, takes no place among the writers."""
        server = self.local_server()
        collected = server.start()
        server.sign_in(collected)
        server.collect(collected, code=server.code(collected))
        server.clock.advance(DELIVERED_MS / 1000)
        done(server.lifecycle.expire())
        cancelled, unknown = server.start(), secret_index(server.keys.indexer, Secret(b"gds_of_no_login"))
        server.cancel(cancelled)
        before = server.databases.auth.transactions
        for _ in range(20):
            server.cancel(cancelled)
            with self.assertRaises(LoginCollected):
                server.cancel(collected)
            with self.assertRaises(DeviceSecretInvalid):
                done(server.lifecycle.cancel(unknown))
        self.assertEqual(server.databases.auth.transactions, before)
        server.cancel(server.start())
        self.assertEqual(server.databases.auth.transactions, before + 2)

    def test_cancel_after_the_delivery(self) -> None:
        """A cancel after the delivery revokes the session in the same write, and no credentials are returned again."""
        server = self.local_server()
        started = server.start()
        server.sign_in(started)
        complete = server.collect(started, code=server.code(started))
        server.cancel(started)
        with self.assertRaises(SessionRevoked):
            server.write(
                lambda c: session_tables.authenticate(
                    c, server.keys.indexer, complete.result.pair.access, server.now_ms()
                )
            )
        self.assertEqual(server.collect(started), Failed(LoginFailure.LOGIN_CANCELLED))
        self.assertEqual(server.rows("SELECT sealed_result FROM login"), [(None,)])
        server.cancel(started)

    def test_decline(self) -> None:
        """Any browser with the link may decline an undecided login; the game learns it, and the link has ended."""
        server = self.local_server()
        started = server.start()
        self.assertEqual(server.decline(started, OTHER), Declined(None))
        self.assertEqual(server.decline(started, BROWSER), Declined(None))
        self.assertEqual(server.collect(started), Failed(LoginFailure.LOGIN_DENIED))
        with self.assertRaises(LoginEnded) as caught:
            done(server.browsers.open(started.token, BROWSER))
        self.assertIs(caught.exception.outcome, LoginFailure.LOGIN_DENIED)

    def test_decline_at_the_code(self) -> None:
        """The login's own browser may still decline at the code, another may not; after that the code is worthless."""
        server = self.local_server()
        started = server.start()
        server.sign_in(started)
        code = server.code(started)
        with self.assertRaises(WrongBrowser):
            server.decline(started, OTHER)
        self.assertEqual(server.decline(started), Declined(None))
        self.assertEqual(server.collect(started, code=code), Failed(LoginFailure.LOGIN_DENIED))

    def test_decline_too_late(self) -> None:
        """After the collect a decline leads to the result page."""
        server = self.local_server()
        started = server.start()
        server.sign_in(started)
        server.collect(started, code=server.code(started))
        self.assertEqual(server.decline(started), RedirectToResult(started.login.login_id))

    @covers("3/3")
    def test_expiry_needs_no_sweep(self) -> None:
        """At the deadline form, link, decline, collect and cancel see an expired login before any cleanup."""
        server = self.local_server()
        ready, pending = server.start(), server.start()
        server.sign_in(ready)
        code = server.code(ready)
        server.clock.advance(600)
        self.assertEqual(server.collect(ready, code=code), Failed(LoginFailure.LOGIN_EXPIRED))
        self.assertEqual(server.collect(pending), Failed(LoginFailure.LOGIN_EXPIRED))
        for act in (server.sign_in, server.decline, lambda s: done(server.browsers.open(s.token, BROWSER))):
            with self.assertRaises(LoginEnded) as caught:
                act(pending)
            self.assertIs(caught.exception.outcome, LoginFailure.LOGIN_EXPIRED)
        server.cancel(pending)
        self.assertEqual(server.collect(pending), Failed(LoginFailure.LOGIN_EXPIRED))

    def test_the_sweep(self) -> None:
        """The cleanup ends expired logins, wakes their games, keeps outcomes for an hour, and then deletes the rows."""
        server = self.local_server()
        ready, delivered = server.start(), server.start()
        server.sign_in(ready)
        server.sign_in(delivered)
        server.collect(delivered, code=server.code(delivered))
        server.clock.advance(600)
        done(server.lifecycle.expire())
        stages = "SELECT stage, sealed_identity, sealed_proof, sealed_result FROM login ORDER BY stage"
        self.assertEqual(server.rows(stages), [("collected", None, None, None), ("expired", None, None, None)])
        server.clock.advance(3599)
        done(server.lifecycle.expire())
        self.assertEqual(server.collect(ready), Failed(LoginFailure.LOGIN_EXPIRED))
        server.clock.advance(2)
        done(server.lifecycle.expire())
        self.assertEqual(server.rows("SELECT 1 FROM login"), [])
        with self.assertRaises(DeviceSecretInvalid):
            server.collect(ready)
        with self.assertRaises(UnknownLoginLink):
            done(server.browsers.open(ready.token, BROWSER))
        with self.assertRaises(UnknownLoginLink):
            server.result(ready)

    def test_a_long_sweep(self) -> None:
        """A cleanup of more than one batch ends all that is due, and nothing else."""
        server = self.local_server()
        for _ in range(2 * CLEANUP_ROWS + 1):
            server.start()
        server.clock.advance(1)
        server.start()
        server.clock.advance(599)
        done(server.lifecycle.expire())
        stages = server.rows("SELECT stage, count(*) FROM login GROUP BY stage ORDER BY stage")
        self.assertEqual(stages, [("expired", 2 * CLEANUP_ROWS + 1), ("pending", 1)])

    def test_final_logins_keep_no_attempt_secrets(self) -> None:
        """A final stage erases verifier and nonce of every attempt."""
        server = self.local_server()
        started = server.start()
        values = {"login_id": started.login.login_id, "one": b"1", "two": b"2", "three": b"3", "four": b"4"}
        attempt = """
            INSERT INTO authorization_attempt
                (state_index, attempt_id, login_id, browser_index, provider, status, iss_promised,
                 sealed_verifier, sealed_nonce, created_ms)
            VALUES (:one, 'att', :login_id, :two, 'discord', 'open', 0, :three, :four, 0)
        """
        server.write(lambda c: c.execute(attempt, values) and None)
        server.cancel(started)
        self.assertEqual(server.rows("SELECT sealed_verifier, sealed_nonce FROM authorization_attempt"), [(None, None)])

    def test_a_restart_interrupts_an_exchange(self) -> None:
        """A restart fails only logins that were exchanging."""
        server = self.local_server()
        exchanging, pending = server.start(), server.start()
        key, now_ms = LoginLookup.token(server.keys.indexer, exchanging.token), server.now_ms()
        done(server.browsers.advance(key, lambda login: login.apply(LoginEvent.OPEN, now_ms).bound_to(BROWSER, now_ms)))
        self.assertEqual(server.result(exchanging), InProgress())
        done(server.lifecycle.recover())
        self.assertEqual(server.collect(exchanging), Failed(LoginFailure.LOGIN_INTERRUPTED))
        self.assertEqual(server.collect(pending), Pending("waiting_for_browser", 600))
        self.assertEqual(server.result(exchanging), Ended(LoginFailure.LOGIN_INTERRUPTED))

    def test_unknown_secrets(self) -> None:
        """Collect and cancel refuse a device secret without a login."""
        server = self.local_server()
        other = server.start()
        server.write(lambda c: c.execute("DELETE FROM login") and None)
        for act in (server.collect, server.cancel):
            with self.assertRaises(DeviceSecretInvalid):
                act(other)


class Links(LoginCase):
    def test_where_a_browser_stands(self) -> None:
        """Undecided logins show the page; later the login's browser sees the result, another gets an error."""
        server = self.local_server()
        started = server.start()
        self.assertIsInstance(done(server.browsers.open(started.token, None)), SignInPrompt)
        self.assertEqual(server.collect(started), Pending("waiting_for_browser", 600))
        server.sign_in(started)
        self.assertIsInstance(done(server.browsers.open(started.token, BROWSER)), RedirectToResult)
        for other in (OTHER, None):
            with self.assertRaises(WrongBrowser):
                done(server.browsers.open(started.token, other))
            with self.assertRaises(WrongBrowser):
                server.result(started, other)

    def test_other_browsers_see_no_outcome(self) -> None:
        """The result route gives another browser the same error in every stage."""
        server = self.local_server()
        started = server.start()
        for act in (lambda s: None, server.sign_in, server.cancel):
            act(started)
            with self.assertRaises(WrongBrowser):
                server.result(started, OTHER)
