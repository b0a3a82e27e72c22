"""From start to credentials and every other end, over real lanes (PROTOCOL 3)."""

from msgspec.structs import replace

from gamed.config.model import Mode
from gamed.crypto import Secret
from gamed.login.browser import (
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
from gamed.login.keys import LoginLookup, PresentedProof
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
from tests.login.fixtures import ANNA, APPROVAL, CLOSED, OFF, PASSWORD, TERMS, Desk, HandoffCase, done
from tests.support.covers import covers

LASTING = ("player", "local_account", "identity", "session", "access_token", "refresh_credential")


class Crowded:
    """Passwords with a full queue."""

    async def hash(self, password: Secret) -> str:
        raise PasswordsBusy

    async def verify(self, encoded: str | None, password: Secret) -> bool:
        raise PasswordsBusy


def lasting(desk: Desk) -> list[object]:
    """Everything that a handoff may leave behind for good."""
    return [desk.rows(f"SELECT * FROM {table} ORDER BY 1") for table in LASTING]


class Starting(HandoffCase):
    @covers("2.2/11", "2.3/6")
    def test_a_start(self) -> None:
        """Ids and expiry as promised; the store holds indexes, neither secret nor token."""
        desk = self.desk()
        started = desk.start(name="MyGame")
        login = desk.login(started)
        self.assertEqual((login.stage, login.provider, login.client.name), (LoginStage.PENDING, "local", "MyGame"))
        self.assertEqual(login.expires_ms, START_MS + 600_000)
        row = repr(desk.rows("SELECT * FROM login"))
        self.assertNotIn(started.token, row)
        self.assertNotIn(started.device_secret.reveal().decode(), row)
        self.assertNotIn("203.0.113", row)

    def test_the_proof_that_will_be_asked_for(self) -> None:
        """A port makes the loopback way possible; without one only the code is left; the owner may ask for none."""
        self.assertIs(self.desk().start(port=51004).login.return_proof, ProofMethod.LOOPBACK_OR_CODE)
        self.assertIs(self.desk().start().login.return_proof, ProofMethod.CODE)
        self.assertIs(self.desk(return_proof=OFF).start(port=51004).login.return_proof, ProofMethod.NONE)

    def test_what_cannot_start(self) -> None:
        """Local mode has no provider and nothing to link; oauth mode needs one of its own; too long a word is named."""
        local, oauth = self.desk(), self.desk(mode=Mode.OAUTH)
        good = StartRequest(None, LoginIntent.LOGIN, {}, None, "::1")
        for desk, start, error in (
            (local, replace(good, provider="discord"), ProviderUnknown),
            (local, replace(good, intent=LoginIntent.LINK), InvalidStart),
            (local, replace(good, intent=LoginIntent.ADOPT), InvalidStart),
            (local, replace(good, client={"name": "x" * 65}), InvalidStart),
            (oauth, good, InvalidStart),
            (oauth, replace(good, provider="google"), ProviderUnknown),
        ):
            with self.assertRaises(error):
                done(desk.starts.start(start))
            self.assertEqual(desk.rows("SELECT 1 FROM login"), [])

    def test_which_providers_there_are(self) -> None:
        """Who names none is told where they are listed."""
        with self.assertRaises(InvalidStart) as caught:
            done(self.desk(mode=Mode.OAUTH).starts.start(StartRequest(None, LoginIntent.LOGIN, {}, None, "::1")))
        self.assertEqual(str(caught.exception), "/provider: is missing; GET /auth/config lists which there are")


class SigningIn(HandoffCase):
    def test_with_an_account(self) -> None:
        """Name and password, the code typed into the game, credentials that work."""
        desk = self.desk()
        started = desk.start(name="MyGame")
        self.assertEqual(desk.collect(started), Pending("waiting_for_browser", 600))
        self.assertEqual(desk.sign_in(started, name=" ANNA "), RedirectToResult(started.login.login_id))
        self.assertEqual(desk.collect(started), Pending("proof_required", 600))
        complete = desk.collect(started, code=desk.code(started))
        self.assertIsInstance(complete, Complete)
        self.assertEqual((complete.result.player_id, complete.result.created), (ANNA, False))
        caller = desk.write(
            lambda c: session_tables.authenticate(c, desk.keys.indexer, complete.result.pair.access, desk.now_ms())
        )
        self.assertEqual((caller.player_id, caller.session_id), (ANNA, complete.login.session_id))
        [(client, provider, login_id)] = desk.rows("SELECT client, provider, login_id FROM session")
        self.assertEqual((client, provider, login_id), ('{"name":"MyGame"}', "local", started.login.login_id))
        self.assertEqual(desk.done_page(started), Finished(signed_in=True))

    def test_nothing_lasting_before_the_first_proven_collect(self) -> None:
        """A new account, an old one, wrong proofs: the tables of players and sessions are what they were."""
        desk = self.desk()
        before = lasting(desk)
        old, new = desk.start(), desk.start(port=51004)
        desk.sign_in(old)
        desk.create(new, "Bert")
        for started in (old, new):
            desk.collect(started)
            with self.assertRaises(InvalidProof):
                desk.collect(started, code="XXX-XXX")
            with self.assertRaises(InvalidProof):
                desk.collect(started, ticket="wrong")
        self.assertEqual(lasting(desk), before)
        self.assertTrue(desk.collect(new, ticket=desk.ticket(new)).result.created)
        self.assertNotEqual(lasting(desk), before)

    def test_a_sign_in_is_noted(self) -> None:
        """Player and account remember when they were last used: at the collect, not at the form."""
        desk = self.desk()
        started = desk.start()
        desk.sign_in(started)
        self.assertEqual(desk.rows("SELECT last_sign_in_ms FROM player"), [(None,)])
        desk.clock.advance(5)
        desk.collect(started, code=desk.code(started))
        self.assertEqual(desk.rows("SELECT last_sign_in_ms FROM player"), [(START_MS + 5000,)])
        self.assertEqual(desk.rows("SELECT last_used_ms FROM local_account"), [(START_MS + 5000,)])

    def test_a_new_account_can_sign_in_again(self) -> None:
        """Made at the collect; from then on its name and password work, and it is no longer created."""
        desk = self.desk()
        first, again = desk.start(), desk.start()
        desk.create(first, "Bert", "another password")
        created = desk.collect(first, code=desk.code(first)).result
        self.assertTrue(created.created)
        self.assertIsInstance(desk.sign_in(again, name="bert", password="another password"), RedirectToResult)
        result = desk.collect(again, code=desk.code(again)).result
        self.assertEqual((result.player_id, result.created), (created.player_id, False))

    @covers("threats/10")
    def test_a_wrong_name_and_a_wrong_password_look_the_same(self) -> None:
        """The form comes back for one reason, the game learns that somebody is there, and all can be tried again."""
        desk = self.desk()
        for fields in ({"name": "nobody"}, {"password": "wrong horse"}, {"name": "a b"}, {"password": "short"}):
            started = desk.start()
            refused = desk.sign_in(started, **fields)
            self.assertIsInstance(refused, FormRejected)
            self.assertIs(refused.error, FormError.WRONG)
            self.assertEqual(desk.collect(started), Pending("at_provider", 600))
            self.assertIsInstance(desk.sign_in(started), RedirectToResult)

    def test_too_many_at_once(self) -> None:
        """While passwords queue up the form comes back with a time, and the game is told nothing new."""
        desk = self.desk()
        desk.local = replace(desk.local, _passwords=replace(desk.passwords, _hasher=Crowded()))
        started = desk.start()
        for act in (desk.sign_in, desk.create):
            refused = act(started, name="Bert")
            self.assertEqual((refused.error, refused.retry_after), (FormError.BUSY, 2))
        self.assertEqual(desk.collect(started), Pending("waiting_for_browser", 600))

    def test_what_cannot_be_created(self) -> None:
        """A malformed name or password, a name that is taken in any spelling, anything where registration is closed."""
        desk, closed = self.desk(), self.desk(registration=CLOSED)
        for where, name, password, refusal in (
            (desk, "a b", PASSWORD, FormError.NAME_MALFORMED),
            (desk, "", PASSWORD, FormError.NAME_MALFORMED),
            (desk, "Bert", "short", FormError.PASSWORD_MALFORMED),
            (desk, "\uff21NNA", PASSWORD, FormError.NAME_TAKEN),
            (closed, "Bert", PASSWORD, FormError.CLOSED),
        ):
            refused = where.create(where.start(), name, password)
            self.assertEqual((type(refused), refused.error), (FormRejected, refusal))

    def test_two_new_accounts_of_one_name(self) -> None:
        """Both browsers succeed; the first game to collect gets the name, the other is told."""
        desk = self.desk()
        one, two = desk.start(), desk.start()
        desk.create(one, "Bert")
        desk.create(two, "BERT")
        self.assertIsInstance(desk.collect(two, code=desk.code(two)), Complete)
        self.assertEqual(desk.collect(one, code=desk.code(one)), Failed(LoginFailure.IDENTITY_IN_USE))
        self.assertEqual(len(desk.rows("SELECT 1 FROM player")), 2)

    def test_approval(self) -> None:
        """The account is made and waits; no session, no credentials; approved, it signs in."""
        desk = self.desk(registration=APPROVAL)
        first, later, approved = desk.start(), desk.start(), desk.start()
        desk.create(first, "Bert")
        self.assertEqual(desk.collect(first, code=desk.code(first)), Failed(LoginFailure.PLAYER_PENDING))
        self.assertEqual(desk.rows("SELECT state FROM player WHERE player_id <> :a", a=ANNA), [("pending",)])
        self.assertEqual(desk.rows("SELECT 1 FROM session"), [])
        desk.sign_in(later, name="Bert")
        self.assertEqual(desk.collect(later, code=desk.code(later)), Failed(LoginFailure.PLAYER_PENDING))
        [(bert,)] = desk.rows("SELECT player_id FROM player WHERE state = 'pending'")
        desk.write(lambda c: player_tables.set_state(c, bert, "active"))
        desk.sign_in(approved, name="Bert")
        self.assertEqual(desk.collect(approved, code=desk.code(approved)).result.player_id, bert)

    def test_registration_closed_in_between(self) -> None:
        """What a browser began while registration was open is judged when the game collects."""
        desk = self.desk()
        started = desk.start()
        desk.create(started, "Bert")
        desk.context = replace(desk.context, policy=replace(TERMS, registration=CLOSED))
        desk.collects = desk.new_collects()
        self.assertEqual(desk.collect(started, code=desk.code(started)), Failed(LoginFailure.REGISTRATION_CLOSED))
        self.assertEqual(len(desk.rows("SELECT 1 FROM player")), 1)

    def test_blocked_in_between(self) -> None:
        """A player blocked after the password was right gets no session, and the game knows why."""
        desk = self.desk()
        started = desk.start()
        desk.sign_in(started)
        desk.write(lambda c: player_tables.set_state(c, ANNA, "blocked"))
        self.assertEqual(desk.collect(started, code=desk.code(started)), Failed(LoginFailure.PLAYER_BLOCKED))
        self.assertEqual(desk.rows("SELECT 1 FROM session"), [])
        self.assertEqual(desk.done_page(started), Ended(LoginFailure.PLAYER_BLOCKED))


class Proving(HandoffCase):
    def test_the_ticket(self) -> None:
        """The first visit of done carries it; the collect that shows it gets everything."""
        desk = self.desk()
        started = desk.start(port=51004)
        desk.sign_in(started)
        self.assertIsInstance(desk.collect(started, ticket=desk.ticket(started)), Complete)

    def test_the_way_through_the_port_is_taken_once(self) -> None:
        """A browser that comes back while nothing was collected is shown the code, as is a link opened again."""
        desk = self.desk()
        back, reopened = desk.start(port=51004), desk.start(port=51004)
        desk.sign_in(back)
        self.assertIsInstance(desk.done_page(back), ReturnToGame)
        self.assertIsInstance(desk.done_page(back), ShowFinishCode)
        desk.sign_in(reopened)
        self.assertEqual(done(desk.browsers.open(reopened.token, BROWSER)), RedirectToResult(reopened.login.login_id))
        self.assertIsInstance(desk.done_page(reopened), ShowFinishCode)

    def test_a_form_sent_twice_does_not_spend_the_way(self) -> None:
        """A double click on the button still ends at the game's port."""
        desk = self.desk()
        started = desk.start(port=51004)
        desk.sign_in(started)
        desk.sign_in(started)
        self.assertIsInstance(desk.done_page(started), ReturnToGame)

    @covers("threats/9")
    def test_five_wrong_codes(self) -> None:
        """Each says how many are left; the fifth ends the login for good; wrong tickets in between never count."""
        desk = self.desk()
        started = desk.start()
        desk.sign_in(started)
        code = desk.code(started)
        left = []
        for _ in range(5):
            with self.assertRaises(InvalidProof):
                desk.collect(started, ticket="wrong")
            with self.assertRaises(InvalidProof) as caught:
                desk.collect(started, code="BBB-BBB")
            left.append(caught.exception.members["attempts_left"])
            if left[-1]:
                self.assertEqual(desk.collect(started), Pending("proof_required", 600))
        self.assertEqual(left, [4, 3, 2, 1, 0])
        self.assertEqual(desk.collect(started, code=code), Failed(LoginFailure.PROOF_ATTEMPTS_EXCEEDED))
        self.assertEqual(desk.rows("SELECT sealed_proof, sealed_identity FROM login"), [(None, None)])
        self.assertEqual(desk.done_page(started), Ended(LoginFailure.PROOF_ATTEMPTS_EXCEEDED))

    def test_a_proof_before_ready_is_ignored(self) -> None:
        """It is neither right nor wrong, and does not count."""
        desk = self.desk()
        started = desk.start()
        for _ in range(6):
            self.assertEqual(desk.collect(started, code="BBB-BBB"), Pending("waiting_for_browser", 600))
        desk.sign_in(started)
        self.assertIsInstance(desk.collect(started, code=desk.code(started)), Complete)

    @covers("threats/9")
    def test_a_guess_kept_waiting_is_not_judged_later(self) -> None:
        """A proof sent along with a long poll before `ready` is not tried when it becomes ready."""
        desk = self.desk()
        started = desk.start()
        waiting = desk.asked(started, wait_seconds=25, presented=PresentedProof.finish_code("BBBBBB"))
        desk.sign_in(started)
        self.assertEqual(self.successResultOf(waiting), Pending("proof_required", 600))
        self.assertEqual(desk.login(started).wrong_codes, 0)

    @covers("threats/1")
    def test_another_logins_proof(self) -> None:
        """Code and ticket of one login are worth nothing in another."""
        desk = self.desk()
        one, two = desk.start(port=51004), desk.start(port=51004)
        desk.sign_in(one)
        desk.sign_in(two)
        ticket, code = desk.ticket(one), desk.code(one)
        for proof in ({"ticket": ticket}, {"code": code}):
            with self.assertRaises(InvalidProof):
                desk.collect(two, **proof)

    def test_no_proof_wanted(self) -> None:
        """With return_proof off the game collects as soon as the browser is done; the page shows no code."""
        desk = self.desk(return_proof=OFF)
        started = desk.start(port=51004)
        waiting = desk.asked(started, wait_seconds=25)
        desk.sign_in(started)
        self.assertIsInstance(self.successResultOf(waiting), Complete)
        self.assertEqual(desk.done_page(started), Finished(signed_in=True))
        slow = desk.start()
        desk.sign_in(slow)
        self.assertEqual(desk.done_page(slow), Finished(signed_in=False))


class Repeating(HandoffCase):
    def complete(self, desk: Desk) -> tuple[object, Complete]:
        started = desk.start()
        desk.sign_in(started)
        return started, desk.collect(started, code=desk.code(started))

    def test_a_lost_answer_loses_nothing(self) -> None:
        """Repeats need no proof, take a wrong one, and give the same credentials for ten minutes."""
        desk = self.desk()
        started, first = self.complete(desk)
        desk.clock.advance(DELIVERED_MS / 1000 - 1)
        for again in (desk.collect(started), desk.collect(started, code="XXX-XXX"), desk.collect(started, ticket="x")):
            self.assertEqual(to_bytes(again.result.pair), to_bytes(first.result.pair))
            self.assertEqual(again.login.session_id, first.login.session_id)
        self.assertEqual(len(desk.rows("SELECT 1 FROM session")), 1)
        desk.clock.advance(1)
        with self.assertRaises(LoginCollected):
            desk.collect(started)

    def test_used_is_collected(self) -> None:
        """Once a credential was used there is nothing left to collect or cancel, and nothing sealed is kept."""
        desk = self.desk()
        started, first = self.complete(desk)
        desk.write(lambda c: session_tables.mark_used(c, first.login.session_id, 1, desk.now_ms()))
        with self.assertRaises(LoginCollected):
            desk.collect(started)
        with self.assertRaises(LoginCollected):
            desk.cancel(started)
        self.assertEqual(desk.rows("SELECT stage, sealed_result FROM login"), [("collected", None)])
        self.assertEqual(desk.done_page(started), Finished(signed_in=True, final=True))

    def test_a_used_delivery_is_remembered_for_an_hour(self) -> None:
        """A game that asks again after the sweep hears that it has its credentials, not that it is unknown."""
        desk = self.desk()
        started, first = self.complete(desk)
        desk.clock.advance(590)
        desk.write(lambda c: session_tables.mark_used(c, first.login.session_id, 1, desk.now_ms()))
        for seconds, known in ((20, True), (3579, True), (2, False)):
            desk.clock.advance(seconds)
            done(desk.lifecycle.expire())
            with self.assertRaises(LoginCollected if known else DeviceSecretInvalid):
                desk.collect(started)

    def test_a_delivery_survives_a_restart(self) -> None:
        """Everything is in the store: another process gives the same answer."""
        desk = self.desk()
        started, first = self.complete(desk)
        done(desk.lifecycle.recover())
        desk.collects = desk.new_collects()
        self.assertEqual(to_bytes(desk.collect(started).result.pair), to_bytes(first.result.pair))

    def test_used_in_memory(self) -> None:
        """Once its session was used, a delivery is not repeated, though that use could not be written yet."""
        desk = self.desk()
        started, first = self.complete(desk)
        uses = FirstUses()
        desk.store = replace(desk.store, _first_used=uses)
        desk.collects = desk.new_collects()
        self.assertEqual(to_bytes(desk.collect(started).result.pair), to_bytes(first.result.pair))
        uses.add(first.login.session_id, 1)
        with self.assertRaises(LoginCollected):
            desk.collect(started)


class Ending(HandoffCase):
    def test_cancel_in_every_stage(self) -> None:
        """Repeatable, also after another end; the game is told that it was cancelled."""
        desk = self.desk()
        for prepare in (lambda s: None, lambda s: desk.sign_in(s, name="nobody"), desk.sign_in):
            started = desk.start()
            prepare(started)
            desk.cancel(started)
            desk.cancel(started)
            self.assertEqual(desk.collect(started), Failed(LoginFailure.LOGIN_CANCELLED))
        declined = desk.start()
        desk.decline(declined)
        desk.cancel(declined)
        self.assertEqual(desk.collect(declined), Failed(LoginFailure.LOGIN_DENIED))

    def test_cancel_after_the_delivery(self) -> None:
        """Its session is revoked with the same write: neither credential works, and none is handed out again."""
        desk = self.desk()
        started = desk.start()
        desk.sign_in(started)
        complete = desk.collect(started, code=desk.code(started))
        desk.cancel(started)
        with self.assertRaises(SessionRevoked):
            desk.write(
                lambda c: session_tables.authenticate(c, desk.keys.indexer, complete.result.pair.access, desk.now_ms())
            )
        self.assertEqual(desk.collect(started), Failed(LoginFailure.LOGIN_CANCELLED))
        self.assertEqual(desk.rows("SELECT sealed_result FROM login"), [(None,)])
        desk.cancel(started)

    def test_decline(self) -> None:
        """Anyone with the link may say so before a browser has won; the game is told, the link is over."""
        desk = self.desk()
        started = desk.start()
        self.assertIsNone(desk.decline(started, OTHER))
        self.assertIsNone(desk.decline(started, BROWSER))
        self.assertEqual(desk.collect(started), Failed(LoginFailure.LOGIN_DENIED))
        with self.assertRaises(LoginEnded) as caught:
            done(desk.browsers.open(started.token, BROWSER))
        self.assertIs(caught.exception.outcome, LoginFailure.LOGIN_DENIED)

    def test_decline_at_the_code(self) -> None:
        """The winning browser may still say no, another may not; after that the code is worth nothing."""
        desk = self.desk()
        started = desk.start()
        desk.sign_in(started)
        code = desk.code(started)
        with self.assertRaises(WrongBrowser):
            desk.decline(started, OTHER)
        self.assertIsNone(desk.decline(started))
        self.assertEqual(desk.collect(started, code=code), Failed(LoginFailure.LOGIN_DENIED))

    def test_decline_too_late(self) -> None:
        """Once the game has its credentials the page sends the browser to what it can see: go back to the game."""
        desk = self.desk()
        started = desk.start()
        desk.sign_in(started)
        desk.collect(started, code=desk.code(started))
        self.assertEqual(desk.decline(started), RedirectToResult(started.login.login_id))

    @covers("3/3")
    def test_expiry_needs_no_sweep(self) -> None:
        """At the ttl form, link, decline, collect and cancel all see an expired login."""
        desk = self.desk()
        ready, pending = desk.start(), desk.start()
        desk.sign_in(ready)
        code = desk.code(ready)
        desk.clock.advance(600)
        self.assertEqual(desk.collect(ready, code=code), Failed(LoginFailure.LOGIN_EXPIRED))
        self.assertEqual(desk.collect(pending), Failed(LoginFailure.LOGIN_EXPIRED))
        for act in (desk.sign_in, desk.decline, lambda s: done(desk.browsers.open(s.token, BROWSER))):
            with self.assertRaises(LoginEnded) as caught:
                act(pending)
            self.assertIs(caught.exception.outcome, LoginFailure.LOGIN_EXPIRED)
        desk.cancel(pending)
        self.assertEqual(desk.collect(pending), Failed(LoginFailure.LOGIN_EXPIRED))

    def test_the_sweep(self) -> None:
        """It erases what expired, tells who waits, keeps outcomes for an hour, and then forgets the row."""
        desk = self.desk()
        ready, delivered = desk.start(), desk.start()
        desk.sign_in(ready)
        desk.sign_in(delivered)
        desk.collect(delivered, code=desk.code(delivered))
        desk.clock.advance(600)
        done(desk.lifecycle.expire())
        stages = "SELECT stage, sealed_identity, sealed_proof, sealed_result FROM login ORDER BY stage"
        self.assertEqual(desk.rows(stages), [("collected", None, None, None), ("expired", None, None, None)])
        desk.clock.advance(3599)
        done(desk.lifecycle.expire())
        self.assertEqual(desk.collect(ready), Failed(LoginFailure.LOGIN_EXPIRED))
        desk.clock.advance(2)
        done(desk.lifecycle.expire())
        self.assertEqual(desk.rows("SELECT 1 FROM login"), [])
        with self.assertRaises(DeviceSecretInvalid):
            desk.collect(ready)
        with self.assertRaises(UnknownLoginLink):
            done(desk.browsers.open(ready.token, BROWSER))
        with self.assertRaises(UnknownLoginLink):
            desk.done_page(ready)

    def test_a_long_sweep(self) -> None:
        """More than one batch is worked off, and what is not due yet stays."""
        desk = self.desk()
        for _ in range(2 * CLEANUP_ROWS + 1):
            desk.start()
        desk.clock.advance(1)
        desk.start()
        desk.clock.advance(599)
        done(desk.lifecycle.expire())
        stages = desk.rows("SELECT stage, count(*) FROM login GROUP BY stage ORDER BY stage")
        self.assertEqual(stages, [("expired", 2 * CLEANUP_ROWS + 1), ("pending", 1)])

    def test_final_logins_keep_no_attempt_secrets(self) -> None:
        """Verifier and nonce of every attempt go with the login's end."""
        desk = self.desk()
        started = desk.start()
        values = {"login_id": started.login.login_id}
        attempt = """
            INSERT INTO authorization_attempt
                (state_index, attempt_id, login_id, browser_index, provider, status, iss_promised,
                 sealed_verifier, sealed_nonce, created_ms)
            VALUES (x'01', 'att', :login_id, x'02', 'discord', 'open', 0, x'03', x'04', 0)
        """
        desk.write(lambda c: c.execute(attempt, values) and None)
        desk.cancel(started)
        self.assertEqual(desk.rows("SELECT sealed_verifier, sealed_nonce FROM authorization_attempt"), [(None, None)])

    def test_a_restart_interrupts_an_exchange(self) -> None:
        """Only what was being exchanged fails; a login at any other stage goes on."""
        desk = self.desk()
        exchanging, pending = desk.start(), desk.start()
        key, now_ms = LoginLookup.token(desk.keys.indexer, exchanging.token), desk.now_ms()
        done(desk.browsers.advance(key, lambda login: login.apply(LoginEvent.OPEN, now_ms).bound_to(BROWSER, now_ms)))
        self.assertEqual(desk.done_page(exchanging), InProgress())
        done(desk.lifecycle.recover())
        self.assertEqual(desk.collect(exchanging), Failed(LoginFailure.LOGIN_INTERRUPTED))
        self.assertEqual(desk.collect(pending), Pending("waiting_for_browser", 600))
        self.assertEqual(desk.done_page(exchanging), Ended(LoginFailure.LOGIN_INTERRUPTED))

    def test_unknown_secrets(self) -> None:
        """A device secret of no login is refused for collect and cancel alike."""
        desk = self.desk()
        stranger = desk.start()
        desk.write(lambda c: c.execute("DELETE FROM login") and None)
        for act in (desk.collect, desk.cancel):
            with self.assertRaises(DeviceSecretInvalid):
                act(stranger)


class Entering(HandoffCase):
    def test_where_a_browser_stands(self) -> None:
        """Asked while undecided; from the win on its winner is led to done, another is told so."""
        desk = self.desk()
        started = desk.start()
        self.assertIsInstance(done(desk.browsers.open(started.token, None)), SignInPrompt)
        self.assertEqual(desk.collect(started), Pending("waiting_for_browser", 600))
        desk.sign_in(started)
        self.assertIsInstance(done(desk.browsers.open(started.token, BROWSER)), RedirectToResult)
        for stranger in (OTHER, None):
            with self.assertRaises(WrongBrowser):
                done(desk.browsers.open(started.token, stranger))
            with self.assertRaises(WrongBrowser):
                desk.done_page(started, stranger)

    def test_nobody_else_sees_how_it_ended(self) -> None:
        """Done says the same to a stranger in every stage."""
        desk = self.desk()
        started = desk.start()
        for act in (lambda s: None, desk.sign_in, desk.cancel):
            act(started)
            with self.assertRaises(WrongBrowser):
                desk.done_page(started, OTHER)
