"""These tests parse untrusted input: the client's description, tickets and codes, tokens and ids."""

from unicodedata import category, is_normalized

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from gamed.config.model import Registration
from gamed.crypto import Secret, TokenType
from gamed.crypto import generate_token as mint_token
from gamed.letter_codes import ALPHABET
from gamed.login import collect_rules
from gamed.login import keys as login_keys
from gamed.login.collect_rules import CollectResult
from gamed.login.keys import (
    ExistingAccount,
    NewAccount,
    PasskeyAccount,
    PresentedProof,
    ProviderIdentity,
    RecoveryAccount,
    ReturnProof,
    login_token,
    presented_secret_index,
    secret_index,
)
from gamed.login.transaction import ClientInfo, ClientInfoTooLong, LoginStage, ProofMethod
from gamed.outcomes import LoginFailure
from gamed.sessions.credentials import SessionPolicy, generate_pair, to_bytes
from tests.login.examples import START_MS, CountingRandom, a_login, keys
from tests.support.covers import covers
from tests.support.effort import growth

PROOF = ReturnProof(ticket=Secret(b"T" * 43), finish_code=Secret(b"BKTRVW"))


def clean(text: str) -> str:
    """Return a member as it is stored, "" for none."""
    return ClientInfo.of({"name": text}).name or ""


class ClientDescriptions(SynchronousTestCase):
    @covers("threats/8")
    def test_controls_and_directions_are_removed(self) -> None:
        """Line breaks, escapes and overrides of the writing direction are removed; other text stays."""
        self.assertEqual(clean("AN\u202eNA\x1b[31m\r\n-PC\u2066\u2028"), "ANNA[31m-PC")
        self.assertEqual(
            clean("  \u05d0\u05e0\u05d4 \U0001f469\u200d\U0001f680 "), "\u05d0\u05e0\u05d4 \U0001f469\u200d\U0001f680"
        )

    def test_invisible_characters_are_removed(self) -> None:
        """Characters that are not shown are removed, joiners only where they join nothing."""
        self.assertEqual(clean("AN\u200bNA\u00ad-\U000e0041\U000e007fPC\u2060\ufeff\u034f\u3164"), "ANNA-PC")
        self.assertEqual(clean("A\u200dN\u200cN\u200d\u200dA\u200d"), "ANNA")
        self.assertEqual(clean("e\u200c\u0301"), "\u00e9")
        self.assertEqual(clean("A\u2065NN\ufff0\ufff8A\U000e0080\U000e0fff-\ue000P\u0378\U0010fffdC"), "ANNA-PC")
        self.assertEqual(clean("\u200b\u2800\u200d"), "")
        for kept in ("\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "\u0d9a\u0dca\u200d\u0dbb"):
            self.assertEqual(clean(kept), kept)

    def test_composed(self) -> None:
        """The text is composed (NFC), also if a character between letter and accent was removed."""
        self.assertEqual(clean("e\u202e\u0301"), "\u00e9")

    def test_plain_words(self) -> None:
        """Text without such characters stays as it is, except for the space around it; an empty text is None."""
        self.assertEqual(clean("  My Game ~1.4.2 "), "My Game ~1.4.2")
        self.assertEqual(ClientInfo.of({"name": " ", "version": "", "platform": None}), ClientInfo())

    def test_64_characters_after_cleaning(self) -> None:
        """Removed characters do not count; the 65th is rejected, and the member is named."""
        words = ClientInfo.of({"name": "\x00" * 9 + "x" * 64})
        self.assertEqual(words, ClientInfo(name="x" * 64))
        with self.assertRaises(ClientInfoTooLong) as caught:
            ClientInfo.of({"device_name": "x" * 65})
        self.assertEqual(caught.exception.member, "device_name")

    def test_256_code_points_may_become_64(self) -> None:
        """A text that fits once it is composed is accepted: a letter can be composed of up to four code points."""
        self.assertEqual(ClientInfo.of({"name": "\u03b1\u0313\u0300\u0345" * 64}), ClientInfo(name="\u1f82" * 64))
        self.assertRaises(ClientInfoTooLong, ClientInfo.of, {"name": "\u03b1\u0313\u0300\u0345" * 64 + "\u0301"})
        self.assertEqual(ClientInfo.of({"name": "\x00" * 8000 + "\u00e9"}), ClientInfo(name="\u00e9"))

    def test_long_words_are_little_work(self) -> None:
        """Only texts of bounded length are normalized: 32 times the combining marks are about 32 times the work."""
        self.assertLess(growth(lambda text: ClientInfo.of({"name": text})), 64)
        self.assertLess(growth(lambda text: ClientInfo.of({"name": text}), "\u0301\u200c"), 64)
        self.assertLess(growth(lambda text: ClientInfo.of({"name": text[:256]}), "\u0301\u200c"), 8)

    def test_an_empty_word_is_no_word(self) -> None:
        """A text of spaces and controls counts as absent."""
        self.assertEqual(ClientInfo.of({"name": " \x07 ", "version": None}), ClientInfo())

    def test_words_survive_the_store(self) -> None:
        """The description survives JSON."""
        words = ClientInfo(name='"\u00e9\U0001f680', platform="linux")
        self.assertEqual(msgspec.json.decode(words.to_json(), type=ClientInfo), words)

    @given(st.text())
    def test_clean_is_clean(self, text: str) -> None:
        """Cleaning any text gives NFC without invisible characters, and cleaning it again changes nothing."""
        try:
            cleaned = clean(text)
        except ClientInfoTooLong:
            return
        self.assertLessEqual(len(cleaned), 64)
        self.assertTrue(is_normalized("NFC", cleaned))
        self.assertFalse({category(c) for c in cleaned} & {"Cc", "Cn", "Co", "Cs", "Zl", "Zp"})
        self.assertEqual(clean(cleaned), cleaned)


class Proofs(SynchronousTestCase):
    def test_codes_are_six_fair_letters(self) -> None:
        """Bytes of 240 and above are drawn again, so that each letter has as many bytes."""
        draws = iter([bytes(32), bytes([240, 255, 0, 19, 20, 239]), bytes([250, 1, 2, 3, 4, 5])])
        code = ReturnProof.generate(lambda size: next(draws)).finish_code.reveal()
        self.assertEqual(code.decode(), "".join(ALPHABET[n] for n in (0, 19, 0, 19, 1, 2)))
        self.assertEqual((len(ALPHABET), 240 % len(ALPHABET)), (20, 0))

    def test_a_code_is_known_however_it_is_typed(self) -> None:
        """Case, dashes and spaces of a typed code do not matter; any other difference does."""
        for typed in ("BKT-RVW", "bkt-rvw", "BKTRVW", " bkt rvw ", "b-k-t-r-v-w", "BKT\u2013RVW"):
            self.assertTrue(PROOF.matches(PresentedProof.finish_code(typed)), typed)
        for typed in ("", "BKT-RV", "BKT-RVWX", "BKT-RVX", "BKT_RVW"):
            self.assertFalse(PROOF.matches(PresentedProof.finish_code(typed)), typed)

    def test_ticket_and_code_are_not_each_other(self) -> None:
        """A code sent as a ticket, or a ticket sent as a code, is wrong."""
        self.assertTrue(PROOF.matches(PresentedProof.ticket("T" * 43)))
        self.assertFalse(PROOF.matches(PresentedProof.ticket("BKTRVW")))
        self.assertFalse(PROOF.matches(PresentedProof.finish_code("T" * 43)))

    def test_shown_and_kept(self) -> None:
        """A page shows BKT-RVW; bytes give the same proof again; no repr shows a proof."""
        self.assertEqual(PROOF.formatted_code(), "BKT-RVW")
        again = ReturnProof.from_bytes(PROOF.to_bytes())
        self.assertTrue(again.ticket.matches(PROOF.ticket) and again.finish_code.matches(PROOF.finish_code))
        self.assertNotIn("BKT", repr(PROOF) + repr(PresentedProof.finish_code("BKT-RVW")))

    def test_five_wrong_codes_end_it(self) -> None:
        """Four wrong codes leave the login ready, the fifth fails it."""
        login, wrong = a_login(LoginStage.READY), PresentedProof.finish_code("XXXXXX")
        left = []
        for _ in range(5):
            self.assertIs(login.stage, LoginStage.READY)
            login = collect_rules.count_wrong_proof(login, wrong, START_MS)
            left.append(login_keys.MAX_WRONG_CODES - login.wrong_codes)
        self.assertEqual(left, [4, 3, 2, 1, 0])
        self.assertEqual((login.stage, login.outcome), (LoginStage.FAILED, LoginFailure.PROOF_ATTEMPTS_EXCEEDED))

    def test_wrong_tickets_never_count(self) -> None:
        """Wrong tickets change nothing."""
        login = a_login(LoginStage.READY)
        self.assertIs(collect_rules.count_wrong_proof(login, PresentedProof.ticket("wrong"), START_MS), login)

    def test_what_is_proven(self) -> None:
        """A missing proof is right only if no proof is required; a wrong proof never is."""
        wanted, off = a_login(LoginStage.READY), a_login(LoginStage.READY, return_proof=ProofMethod.NONE)
        right, wrong = PresentedProof.finish_code("BKTRVW"), PresentedProof.finish_code("BKTRVX")
        self.assertEqual(
            [collect_rules.proof_matches(wanted, PROOF, shown) for shown in (None, right, wrong)], [False, True, False]
        )
        self.assertEqual(
            [collect_rules.proof_matches(off, PROOF, shown) for shown in (None, right, wrong)], [True, True, False]
        )


class CollectRules(SynchronousTestCase):
    def test_known_players(self) -> None:
        """Only active players get credentials; a deleted player has to start again."""
        expected = {
            "active": None,
            "pending": LoginFailure.PLAYER_PENDING,
            "blocked": LoginFailure.PLAYER_BLOCKED,
            "erasing": LoginFailure.LOGIN_INTERRUPTED,
            None: LoginFailure.LOGIN_INTERRUPTED,
        }
        self.assertEqual({state: collect_rules.player_error(state) for state in expected}, expected)

    def test_newcomers(self) -> None:
        """New players are admitted by registration; a name that was taken meanwhile is refused."""
        errors = {(r, taken): collect_rules.new_player_error(taken, r) for r in Registration for taken in (False, True)}
        self.assertEqual(
            errors,
            {
                (Registration.OPEN, False): None,
                (Registration.OPEN, True): LoginFailure.IDENTITY_IN_USE,
                (Registration.APPROVAL, False): LoginFailure.PLAYER_PENDING,
                (Registration.APPROVAL, True): LoginFailure.IDENTITY_IN_USE,
                (Registration.CLOSED, False): LoginFailure.REGISTRATION_CLOSED,
                (Registration.CLOSED, True): LoginFailure.REGISTRATION_CLOSED,
            },
        )


class SealedValues(SynchronousTestCase):
    """Tests of values that are sealed and read again."""

    def test_identities(self) -> None:
        """Each kind of identity is read as it was written; the hash of a password is in no repr."""
        new = NewAccount("Anna", "$argon2id$secret")
        code = RecoveryAccount("ply_1", bytes(32))
        for who in (ExistingAccount("ply_1"), PasskeyAccount("ply_1", "pky_1"), code, new):
            self.assertEqual(login_keys.decode_identity(msgspec.json.encode(who)), who)
        self.assertNotIn("argon2", repr(new))

    def test_passkey_is_no_password(self) -> None:
        """A process from before passkeys cannot read a sign-in by one, with which it would open a lasting session."""
        raw = msgspec.json.encode(PasskeyAccount("ply_1", "pky_1"))
        known = ExistingAccount | NewAccount | ProviderIdentity
        self.assertRaises(msgspec.ValidationError, msgspec.json.decode, raw, type=known)

    def test_recovery_code_is_no_password(self) -> None:
        """A process from before recovery codes cannot read a sign-in by one, which it would not use up."""
        raw = msgspec.json.encode(RecoveryAccount("ply_1", bytes(32)))
        known = ExistingAccount | PasskeyAccount | NewAccount | ProviderIdentity
        self.assertRaises(msgspec.ValidationError, msgspec.json.decode, raw, type=known)

    def test_results(self) -> None:
        """A result is read with the same credentials, ids and flags."""
        pair = generate_pair(CountingRandom(), START_MS, SessionPolicy(900, 3600), START_MS)
        again = CollectResult.from_bytes(
            CollectResult(pair, "ply_1", created=True, owner=False, name="Anna").to_bytes()
        )
        self.assertEqual((again.player_id, again.created, again.owner), ("ply_1", True, False))
        self.assertEqual(to_bytes(again.pair), to_bytes(pair))


class Lookups(SynchronousTestCase):
    def test_the_token_follows_from_id_and_key_only(self) -> None:
        """The token has 22 characters and depends only on the id and the key."""
        indexer = keys().indexer
        token = login_token(indexer, "lgn_1")
        self.assertRegex(token, r"\A[A-Za-z0-9_-]{22}\Z")
        self.assertEqual(token, login_token(indexer, "lgn_1"))
        self.assertNotEqual(token, login_token(indexer, "lgn_2"))

    def test_only_device_secrets_are_looked_for(self) -> None:
        """A missing, malformed or different credential has no index."""
        indexer, secret = keys().indexer, mint_token(TokenType.DEVICE_SECRET, b"x" * 32)
        text = secret.reveal().decode()
        self.assertEqual(presented_secret_index(indexer, text), secret_index(indexer, secret))
        access = mint_token(TokenType.ACCESS_TOKEN, b"x" * 32).reveal().decode()
        for wrong in (None, "", access, text[:-1], text + "A", text.replace("g", "G", 1)):
            self.assertIsNone(presented_secret_index(indexer, wrong))
