"""These tests run the eight checks of docs/internals/rules.md alone and together: the first failure decides."""

from itertools import product
from typing import Any
from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from twisted.trial.unittest import SynchronousTestCase

from gamed.crypto import Index
from gamed.login.attempt import AttemptStatus, AuthorizationAttempt
from gamed.login.callback_rules import (
    INVALIDATES_ATTEMPT,
    PARAMETERS,
    QUERY_BYTES,
    CallbackCheck,
    CallbackContext,
    CallbackDecision,
    CallbackParameters,
    decide_callback,
    parse,
    parse_assertion,
)
from gamed.login.errors import CallbackMalformed
from gamed.login.transaction import FINAL, LoginStage, LoginTransaction
from tests.login.examples import BROWSER, OTHER, START_MS, TTL_MS, a_login
from tests.support.covers import covers

ISSUER = "https://id.example"
AUTHORIZING = a_login(LoginStage.AUTHORIZING)
ATTEMPT = AuthorizationAttempt(
    attempt_id="att_example",
    state_index=Index(b"i" * 32),
    login_id=AUTHORIZING.login_id,
    browser_index=BROWSER,
    provider="discord",
    iss_promised=False,
    created_ms=START_MS,
    sealed_verifier=b"verifier",
)
CALLBACK = parse("discord", b"state=s&code=c")
KNOWN = CallbackContext(BROWSER, True, None, START_MS)


def decide(
    attempt: AuthorizationAttempt | None = ATTEMPT,
    login: LoginTransaction | None = AUTHORIZING,
    callback: CallbackParameters = CALLBACK,
    **known: Any,
) -> CallbackDecision:
    return decide_callback(attempt, login, callback, replace(KNOWN, **known))


class ParseAssertion(SynchronousTestCase):
    """Tests of check 1 for OpenID 2.0."""

    def test_fields(self) -> None:
        """The state and the fields, written again in one way; others are left out."""
        callback = parse_assertion("steam", b"state=s&openid.mode=id_res&x=1&openid%2esig=a%2Bb%3D&openid.ns=c+d")
        self.assertEqual((callback.state, callback.error, callback.iss), ("s", None, None))
        assert callback.code is not None
        self.assertEqual(callback.code.reveal(), b"state=s&openid.mode=id_res&openid.sig=a%2Bb%3D&openid.ns=c+d")

    def test_other_modes(self) -> None:
        """A cancellation and an error are those of OAuth 2.0; without a state no attempt is found."""
        for mode, error in ((b"cancel", "access_denied"), (b"error", "server_error")):
            callback = parse_assertion("steam", b"openid.mode=" + mode)
            self.assertEqual((callback.state, callback.code, callback.error), ("", None, error))

    def test_malformed(self) -> None:
        """Other modes, repeated names, too much, or not UTF-8."""
        good = b"state=s&openid.mode=id_res&openid.sig=a"
        for query in (
            b"",
            b"state=s",
            b"state=s&openid.mode=setup_needed",
            good + b"&state=s",
            good + b"&openid.sig=a",
            good + b"&openid.%73ig=b",
            good + b"&openid.x=%ff",
            good + b"&x=" + b"x" * QUERY_BYTES,
        ):
            with self.assertRaises(CallbackMalformed, msg=query[:60]):
                parse_assertion("steam", query)


class Parse(SynchronousTestCase):
    """Tests of check 1."""

    def malformed(self, *queries: bytes) -> None:
        for query in queries:
            with self.assertRaises(CallbackMalformed, msg=query[:60]):
                parse("discord", query)

    def test_good_ones(self) -> None:
        """Each value is decoded once, in any order; an empty value counts as absent."""
        callback = parse("google", b"iss=https%3A%2F%2Fid.example&code=4%2F0abc%2B&state=a-b_c&scope=openid&authuser=0")
        assert callback.code is not None
        self.assertEqual((callback.provider, callback.state), ("google", "a-b_c"))
        self.assertEqual((callback.code.reveal(), callback.error, callback.iss), (b"4/0abc+", None, ISSUER))
        refused = parse("discord", b"error=access_denied&state=s&error_description=The+person+said+no&code=")
        self.assertEqual((refused.code, refused.error, refused.iss), (None, "access_denied", None))
        self.assertEqual(parse("discord", b"code=x").state, "")

    def test_each_parameter_once(self) -> None:
        """A parameter sent twice is malformed, even if equal, empty, or escaped; unknown parameters may repeat."""
        for name in PARAMETERS:
            for values in (("a", "a"), ("a", "b"), ("", "a"), ("a", "")):
                twice = "&".join(f"{name}={value}" for value in values).encode()
                self.malformed(b"state=s&code=c&" + twice if name in ("error", "iss") else twice + b"&code=c&state=s")
        self.malformed(b"state=s&%63ode=d&code=c", b"state=s&code=c&iss&iss=x")
        self.assertEqual(parse("discord", b"state=s&code=c&x=1&x=2").state, "s")

    def test_code_or_error(self) -> None:
        """Exactly one of code and error has to be present."""
        self.malformed(b"", b"state=s", b"state=s&code=", b"state=s&error=", b"state=s&code=c&error=e")

    def test_strict_utf8(self) -> None:
        """Invalid UTF-8 is malformed, in a name too; there are no replacement characters."""
        self.malformed(
            b"state=%ff&code=c",
            b"state=s&code=%C3",
            b"state=s&code=c&%80=x",
            b"state=s&code=c&x=\xff",
            b"code=%ED%A0%80",
        )
        self.assertEqual(parse("discord", b"state=%C3%A4&code=c&x=%C3%B6").state, "ä")

    @covers("threats/22")
    def test_grammar_of_code(self) -> None:
        """Refuse a code with any character outside %x20-7E (RFC 6749 Appendix A.11)."""
        every = "".join(map(chr, range(0x20, 0x7F)))
        code = parse("discord", f"state=s&code={quote(every)}".encode()).code
        assert code is not None
        self.assertEqual(code.reveal(), every.encode())
        for character in (*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA1)), "é", "\u2028", "\uff41", "\U0001f600"):
            for value in (character, f"4/0{character}abc", f"c{character}"):
                self.malformed(f"state=s&code={quote(value)}".encode())

    def test_grammar_of_error(self) -> None:
        """Refuse an error with any character outside %x20-21 / %x23-5B / %x5D-7E (RFC 6749 Appendix A.7)."""
        every = "".join(chr(c) for c in range(0x20, 0x7F) if chr(c) not in '"\\')
        self.assertEqual(parse("discord", f"state=s&error={quote(every)}".encode()).error, every)
        for character in (*map(chr, range(0x20)), '"', "\\", *map(chr, range(0x7F, 0xA1)), "é", "\U0001f600"):
            self.malformed(f"state=s&error=access_denied{quote(character)}".encode())

    def test_state_and_iss_have_checks_of_their_own(self) -> None:
        """Any `state` and `iss` pass: check 3 rejects an unknown state, check 6 another issuer."""
        callback = parse("google", b"state=%01%7F%C3%A4&code=c&iss=%00%C3%A4")
        self.assertEqual((callback.state, callback.iss), ("\x01\x7fä", "\0ä"))

    def test_size(self) -> None:
        """The query may have 4 KiB and not a byte more."""
        head = b"state=s&code="
        self.assertIsNotNone(parse("discord", head + b"c" * (QUERY_BYTES - len(head))).code)
        self.malformed(head + b"c" * (QUERY_BYTES - len(head) + 1))

    def test_nothing_is_shown(self) -> None:
        """State, code, error and iss appear in no text form."""
        shown = repr(parse("discord", b"state=ALPHA&code=BETA&iss=GAMMA")) + repr(parse("x", b"error=DELTA"))
        for word in ("ALPHA", "BETA", "GAMMA", "DELTA"):
            self.assertNotIn(word, shown)

    @given(st.binary(max_size=200))
    def test_any_bytes(self, query: bytes) -> None:
        """Any bytes give a callback or CallbackMalformed, never another error."""
        try:
            callback = parse("discord", query)
        except CallbackMalformed:
            return
        self.assertNotEqual(callback.code is None, callback.error is None)


@covers("2.3/7", "4/11")
class Decide(SynchronousTestCase):
    """Tests of the checks 2 to 8."""

    def test_good_ones(self) -> None:
        """The attempt's browser brings the provider's response in time: the login belongs to it."""
        for callback in (CALLBACK, parse("discord", b"state=s&error=access_denied")):
            decision = decide(callback=callback)
            assert decision.login is not None
            self.assertEqual((decision.check, decision.attempt), (CallbackCheck.EXCHANGE, ATTEMPT))
            self.assertIs(decision.login.stage, LoginStage.EXCHANGING)
            self.assertTrue(decision.login.belongs_to(BROWSER))

    def test_2_provider(self) -> None:
        """Check 2: a provider that is not enabled fails before any other check."""
        self.assertEqual(decide(enabled=False), CallbackDecision(CallbackCheck.PROVIDER_UNKNOWN))

    def test_3_state(self) -> None:
        """Check 3: no attempt has this state."""
        self.assertEqual(decide(attempt=None, login=None), CallbackDecision(CallbackCheck.STATE_UNKNOWN))

    def test_4_browser(self) -> None:
        """Check 4: without the cookie or with another one the state stays unused, in every stage."""
        for browser, stage in product((None, OTHER, Index(BROWSER[:-1] + b"x"), Index(b"")), LoginStage):
            self.assertEqual(
                decide(login=a_login(stage), browser=browser), CallbackDecision(CallbackCheck.OTHER_BROWSER)
            )

    @covers("threats/13")
    def test_5_provider_of_the_attempt(self) -> None:
        """Check 5: a response at another provider's path is rejected."""
        decision = decide(callback=parse("google", b"state=s&code=c"))
        self.assertEqual(decision, CallbackDecision(CallbackCheck.OTHER_PROVIDER, ATTEMPT, AUTHORIZING))

    @covers("threats/13")
    def test_6_issuer(self) -> None:
        """Check 6 (RFC 9207): `iss` equals byte for byte, is required if promised, and is ignored without an issuer."""
        for iss, promised, check in (
            (ISSUER, True, CallbackCheck.EXCHANGE),
            (ISSUER, False, CallbackCheck.EXCHANGE),
            (None, False, CallbackCheck.EXCHANGE),
            (None, True, CallbackCheck.OTHER_ISSUER),
            (ISSUER + "/", False, CallbackCheck.OTHER_ISSUER),
            (ISSUER.upper(), True, CallbackCheck.OTHER_ISSUER),
            ("https://evil.example", False, CallbackCheck.OTHER_ISSUER),
            ("https://evil.example", True, CallbackCheck.OTHER_ISSUER),
            ("ä", True, CallbackCheck.OTHER_ISSUER),
        ):
            attempt, callback = replace(ATTEMPT, iss_promised=promised), replace(CALLBACK, iss=iss)
            self.assertIs(decide(attempt, callback=callback, issuer=ISSUER).check, check, (iss, promised))
            self.assertIs(decide(attempt, callback=callback, issuer=None).check, CallbackCheck.EXCHANGE)

    def test_7_over(self) -> None:
        """Check 7: a final login, an expired one, and an invalidated attempt are 410 with the login's outcome."""
        for stage in FINAL:
            login = a_login(stage)
            self.assertEqual(decide(login=login), CallbackDecision(CallbackCheck.ENDED, ATTEMPT, login))
        late = decide(now_ms=START_MS + TTL_MS)
        assert late.login is not None
        self.assertEqual((late.check, late.login.stage), (CallbackCheck.ENDED, LoginStage.EXPIRED))
        invalidated = replace(ATTEMPT, status=AttemptStatus.INVALIDATED)
        self.assertIs(decide(invalidated).check, CallbackCheck.ENDED)

    @covers("2.3/3", "2.3/8", "threats/14")
    def test_7_used(self) -> None:
        """Check 8: a state can be used once, whatever became of its login."""
        for stage in set(LoginStage) - FINAL:
            self.assertIs(
                decide(replace(ATTEMPT, status=AttemptStatus.USED), a_login(stage)).check, CallbackCheck.ALREADY_USED
            )

    def test_8_compare_and_set(self) -> None:
        """Check 8: an open attempt is too late once the login belongs to another one."""
        for stage in (LoginStage.EXCHANGING, LoginStage.READY, LoginStage.DELIVERED):
            login = a_login(stage)
            self.assertEqual(decide(login=login), CallbackDecision(CallbackCheck.ALREADY_USED, ATTEMPT, login))

    def test_in_time(self) -> None:
        """A callback is in time up to the last millisecond."""
        self.assertIs(decide(now_ms=START_MS + TTL_MS - 1).check, CallbackCheck.EXCHANGE)

    def test_first_failure_wins(self) -> None:
        """Every combination of failing checks gives the first of them."""
        spoilers: list[tuple[CallbackCheck, dict[str, Any]]] = [
            (CallbackCheck.PROVIDER_UNKNOWN, {"enabled": False}),
            (CallbackCheck.STATE_UNKNOWN, {"attempt": None, "login": None}),
            (CallbackCheck.OTHER_BROWSER, {"browser": OTHER}),
            (CallbackCheck.OTHER_PROVIDER, {"callback": parse("google", b"state=s&code=c&iss=x")}),
            (CallbackCheck.OTHER_ISSUER, {"issuer": ISSUER}),
            (CallbackCheck.ENDED, {"now_ms": START_MS + TTL_MS}),
            (CallbackCheck.ALREADY_USED, {"used": True}),
        ]
        for chosen in product((False, True), repeat=len(spoilers)):
            failing = [spoiler for spoiler, wanted in zip(spoilers, chosen, strict=True) if wanted]
            arguments: dict[str, Any] = {"callback": replace(CALLBACK, iss="x")}
            for _, spoiler in failing:
                arguments |= spoiler
            if arguments.pop("used", False) and arguments.get("attempt", ATTEMPT) is not None:
                arguments["attempt"] = replace(ATTEMPT, status=AttemptStatus.USED)
            expected = failing[0][0] if failing else CallbackCheck.EXCHANGE
            self.assertIs(decide(**arguments).check, expected, [check for check, _ in failing])

    def test_invalidating(self) -> None:
        """Only a callback of the attempt's own browser can invalidate it; another browser changes nothing."""
        self.assertEqual(INVALIDATES_ATTEMPT, {CallbackCheck.OTHER_PROVIDER, CallbackCheck.OTHER_ISSUER})
        other = decide(browser=OTHER, callback=parse("google", b"state=s&code=c&iss=x"), issuer=ISSUER)
        self.assertNotIn(other.check, INVALIDATES_ATTEMPT)

    @given(
        st.tuples(
            st.sampled_from(LoginStage),
            st.sampled_from(AttemptStatus),
            st.sampled_from([BROWSER, OTHER, None]),
            st.sampled_from([(None, False), (ISSUER, False), (ISSUER, True)]),
            st.tuples(st.sampled_from(["discord", "google"]), st.sampled_from([None, ISSUER, "https://evil.example"])),
            st.integers(-1, 2),
        )
    )
    def test_exchange_means_everything_holds(self, case: Any) -> None:
        """A code is redeemed only if each check alone would let it pass."""
        stage, status, browser, (issuer, promised), (path, iss), late = case
        attempt = replace(ATTEMPT, status=status, iss_promised=promised)
        callback = replace(CALLBACK, provider=path, iss=iss)
        decision = decide(
            attempt, a_login(stage), callback, browser=browser, issuer=issuer, now_ms=START_MS + TTL_MS * late
        )
        named = issuer is None or iss == issuer or (iss is None and not promised)
        fresh = status is AttemptStatus.OPEN and stage is LoginStage.AUTHORIZING and late < 1
        all_hold = browser == BROWSER and path == "discord" and named and fresh
        self.assertEqual(decision.check is CallbackCheck.EXCHANGE, all_hold)
