"""A provider's answer has tokens or an account, or is a typed failure with a cause that is ours (RFC 6749 5)."""

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from gamed.outcomes import LoginFailure
from gamed.providers.base import (
    ProviderDenied,
    ProviderError,
    ProviderFailure,
    ProviderMisconfigured,
    ProviderUnavailable,
)
from gamed.providers.messages import MEANINGS, ProviderResponse, validate_document, validate_tokens

GOOD = {"access_token": "abc", "token_type": "Bearer"}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)


def answer(status: int = 200, **members: object) -> ProviderResponse:
    return ProviderResponse("token_endpoint", status, members)


class TokenTests(SynchronousTestCase):
    def test_good_answers(self) -> None:
        """Access token and ID token come back wrapped; the case of Bearer does not matter, other members neither."""
        tokens = validate_tokens(answer(**GOOD, expires_in="soon", error=None))
        self.assertEqual(tokens.access.reveal(), b"abc")
        self.assertRaises(ProviderError, tokens.id_token)
        tokens = validate_tokens(answer(access_token="~" * 8192, token_type="bEARER", id_token="a.b.c"))
        self.assertEqual(tokens.id_token().reveal(), b"a.b.c")
        self.assertNotIn("abc", repr(validate_tokens(answer(**GOOD))))

    def test_bad_tokens(self) -> None:
        """Anything that could not be a bearer token, or could break a header, is the provider's error."""
        for token in (None, "", 7, True, [], {}, "a b", "a\r\nX: y", "a\x00", "a\x7f", "é", "a" * 8193, ["abc"], "a\n"):
            self.assertRaises(ProviderError, validate_tokens, answer(**GOOD | {"access_token": token}))
        for kind in (None, "", "mac", "DPoP", "Bearer ", 7, ["Bearer"], True):
            self.assertRaises(ProviderError, validate_tokens, answer(**GOOD | {"token_type": kind}))
        for id_token in (7, "é", [], {}, False):
            self.assertRaises(ProviderError, validate_tokens(answer(**GOOD | {"id_token": id_token})).id_token)
        self.assertRaises(ProviderError, validate_tokens, answer())

    def test_errors_with_200(self) -> None:
        """An error object is an error whatever its status and whatever stands beside it."""
        for error in ("invalid_grant", "bad_verification_code", "anything", "", 0, False, {}, [], 7, "invalid\nX"):
            for validate in (validate_tokens, validate_document):
                self.assertRaises(ProviderError, validate, answer(**GOOD, id="7", error=error))

    def test_registered_errors(self) -> None:
        """Each registered error has its outcome, with any status, and is named in the cause."""
        outcomes = {
            "invalid_client": LoginFailure.PROVIDER_MISCONFIGURED,
            "unauthorized_client": LoginFailure.PROVIDER_MISCONFIGURED,
            "redirect_uri_mismatch": LoginFailure.PROVIDER_MISCONFIGURED,
            "invalid_request": LoginFailure.PROVIDER_MISCONFIGURED,
            "invalid_scope": LoginFailure.PROVIDER_MISCONFIGURED,
            "unsupported_grant_type": LoginFailure.PROVIDER_MISCONFIGURED,
            "invalid_grant": LoginFailure.PROVIDER_ERROR,
            "access_denied": LoginFailure.PROVIDER_DENIED,
            "server_error": LoginFailure.PROVIDER_UNAVAILABLE,
            "temporarily_unavailable": LoginFailure.PROVIDER_UNAVAILABLE,
        }
        for error, outcome in outcomes.items():
            for status in (200, 400, 401, 403):
                with self.assertRaises(ProviderFailure) as failed:
                    validate_tokens(answer(status, error=error, error_description="LEAK"))
                self.assertIs(failed.exception.outcome, outcome, error)
                self.assertIn(f"token_endpoint: {status} {error}: ", str(failed.exception))
                self.assertNotIn("LEAK", str(failed.exception))

    def test_statuses_without_a_known_error(self) -> None:
        """401 means the owner's credentials; every other status is the provider's error; no text of it is repeated."""
        for status in (201, 202, 204, 206, 400, 402, 403, 404, 405, 410, 418, 422, 499):
            self.assertRaises(ProviderError, validate_tokens, answer(status, **GOOD))
        for members in ({}, {"error": "LEAK"}, {"error": 7}, {"message": "LEAK"}, GOOD):
            with self.assertRaises(ProviderMisconfigured) as failed:
                validate_tokens(answer(401, **members))
            self.assertIn("client_secret_env", str(failed.exception))
            self.assertNotIn("LEAK", str(failed.exception))

    def test_redirect_uri_in_the_description(self) -> None:
        """If only the description mentions the redirect URI, the owner's log does, too."""
        refused = answer(400, error="invalid_grant", error_description='Invalid "redirect_uri" in request.')
        with self.assertRaises(ProviderMisconfigured) as failed:
            validate_tokens(refused)
        self.assertIn("register exactly the redirect URI", str(failed.exception))
        for description in (
            'Invalid "code" in request.',
            "The authorization grant is invalid, expired, revoked, or does not match the redirection URI",
            None,
            ["redirect_uri"],
        ):
            many = answer(400, error="invalid_grant", error_description=description)
            self.assertRaises(ProviderError, validate_tokens, many)

    @given(st.integers(100, 599), st.dictionaries(st.sampled_from([*GOOD, "id_token", "error"]), JSON))
    @settings(deadline=None)
    def test_any_answer(self, status: int, members: dict[str, object]) -> None:
        """Return tokens or raise ProviderFailure for any response; return tokens only for a 200 without an error."""
        try:
            validate_tokens(ProviderResponse("token_endpoint", status, members))
        except ProviderFailure:
            return
        self.assertEqual((status, members.get("error")), (200, None))


class DocumentTests(SynchronousTestCase):
    def test_documents(self) -> None:
        """The members of a 200; 401 and 403 are not the owner's credentials here."""
        self.assertEqual(validate_document(answer(id="7")), {"id": "7"})
        for status in (201, 204, 400, 401, 403, 404):
            for error in (None, "invalid_client", "access_denied"):
                self.assertRaises(ProviderError, validate_document, answer(status, id="7", error=error))

    def test_every_meaning_is_typed(self) -> None:
        """Each registered error has one of the outcomes of the protocol and words for the owner.

        See docs/protocol.md: Errors.
        """
        kinds = {ProviderDenied, ProviderError, ProviderMisconfigured, ProviderUnavailable}
        for kind, words in MEANINGS.values():
            self.assertIn(kind, kinds)
            self.assertTrue(words)
