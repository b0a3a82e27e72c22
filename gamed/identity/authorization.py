"""The first half of the code flow: where a browser is sent, and what the code is redeemed with (RFC 6749 4.1, 7636)."""

from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from urllib.parse import parse_qsl, quote, quote_plus, urlencode, urlsplit, urlunsplit

from gamed.crypto import Random, Secret
from gamed.identity.provider import Journey
from gamed.tokens import base64url

VERIFIER_BYTES = 64
"""86 characters of base64url, inside the 43 to 128 of RFC 7636 4.1."""
NONCE_BYTES = 32
PROMPTS = {"discord": "consent", "google": "select_account"}
"""By preset: the player sees at the provider which account is about to sign in."""


def make_verifier(random: Random) -> Secret:
    """A PKCE verifier of 86 characters."""
    return Secret(base64url(random(VERIFIER_BYTES)).encode())


def challenge_of(verifier: Secret) -> str:
    """S256, the only method used: 43 characters (RFC 7636 4.2)."""
    return base64url(sha256(verifier.reveal()).digest())


def make_nonce(random: Random) -> str:
    """43 characters that bind an ID token to its attempt."""
    return base64url(random(NONCE_BYTES))


def authorization_url(
    endpoint: str, client_id: str, scopes: tuple[str, ...], journey: Journey, prompt: str | None = None
) -> str:
    """`endpoint` with its own query kept; no parameter stands twice, and ours are the ones that count."""
    asked = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": journey.redirect_uri,
        "scope": " ".join(scopes),
        "state": journey.state,
        "code_challenge": journey.challenge,
        "code_challenge_method": "S256",
        "nonce": journey.nonce,
        "prompt": prompt,
    }
    ours = {name: value for name, value in asked.items() if value}
    parts = urlsplit(endpoint)
    kept = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name not in ours]
    return urlunsplit(parts._replace(query=urlencode([*kept, *ours.items()], quote_via=quote), fragment=""))


def token_form(code: Secret, verifier: Secret, redirect_uri: str) -> dict[str, bytes]:
    """What redeems a code; who asks is said elsewhere (RFC 6749 4.1.3, RFC 7636 4.5)."""
    return {
        "grant_type": b"authorization_code",
        "code": code.reveal(),
        "redirect_uri": redirect_uri.encode(),
        "code_verifier": verifier.reveal(),
    }


def form_body(fields: Mapping[str, bytes]) -> bytes:
    """`application/x-www-form-urlencoded`."""
    return urlencode(fields).encode()


def basic(client_id: str, secret: Secret) -> Secret:
    """The Authorization field of RFC 6749 2.3.1: both halves form-encoded first, so a colon or % in them is no harm."""
    pair = f"{quote_plus(client_id)}:{quote_plus(secret.reveal())}"
    return Secret(b"Basic " + b64encode(pair.encode()))
