"""Codes and tokens that were given out, and who may have them (RFC 6749 4.1.3, RFC 7636 4.6)."""

from base64 import b64decode
from binascii import Error
from collections.abc import Iterable, Mapping
from enum import Enum
from hashlib import sha256
from re import ASCII, compile
from typing import Any
from urllib.parse import unquote_plus

from msgspec import Struct

from gamed.crypto import Random, Secret
from gamed.dev.authorize import Asked
from gamed.dev.people import Person
from gamed.dev.sides import Client, Side
from gamed.instants import Now
from gamed.tokens import base64url

CODE_MS = 60_000
TOKEN_SECONDS = 3600
KEPT = 1000
_VERIFIER = compile(r"[A-Za-z0-9._~-]{43,128}", ASCII)


class Manner(Enum):
    """How the provider behaves once the code comes."""

    AT_ONCE = "at once"
    SLOW = "slow"
    FAIL = "fail"


class Grant(Struct):
    """One code: whose, for whom, and bound to what."""

    asked: Asked
    person: Person
    manner: Manner
    expires_ms: int
    used: bool = False


class Refusal(Exception):
    """What the token endpoint says no with (RFC 6749 5.2)."""

    def __init__(self, status: int, error: str, description: str) -> None:
        super().__init__(f"{error}: {description}")
        self.status = status
        self.error = error
        self.description = description


class Grants:
    """Everything in memory; the oldest are forgotten."""

    def __init__(self, now_ms: Now, random: Random) -> None:
        self._now_ms = now_ms
        self._random = random
        self._grants: dict[str, Grant] = {}
        self._tokens: dict[str, tuple[Person, int]] = {}

    def issue(self, asked: Asked, person: Person, manner: Manner) -> str:
        """A code for one exchange within a minute."""
        code = f"4/0{base64url(self._random(24))}" if asked.client.side.openid else base64url(self._random(24))
        self._grants[code] = Grant(asked, person, manner, self._now_ms() + CODE_MS)
        _forget(self._grants)
        return code

    def redeem(self, presented: Client, form: Mapping[str, str]) -> Grant:
        """The grant of a code, once; a code is spent by whoever knows it, even when the rest is wrong."""
        if form.get("grant_type") != "authorization_code":
            raise Refusal(400, "unsupported_grant_type", "grant_type must be authorization_code")
        grant = self._grants.get(form.get("code", ""))
        if grant is None:
            raise Refusal(400, "invalid_grant", "unknown code")
        used, grant.used = grant.used, True
        for wrong, description in (
            (used, "the code was used before"),
            (self._now_ms() >= grant.expires_ms, "the code has expired"),
            (grant.asked.client is not presented, "the code is another client's"),
            (grant.asked.redirect_uri != form.get("redirect_uri"), "another redirect_uri"),
            (not _proves(form.get("code_verifier", ""), grant.asked.challenge), "the code_verifier does not fit"),
        ):
            if wrong:
                raise Refusal(400, "invalid_grant", description)
        return grant

    def token(self, person: Person) -> str:
        """An access token for this person's account."""
        token = base64url(self._random(32))
        self._tokens[token] = person, self._now_ms() + TOKEN_SECONDS * 1000
        _forget(self._tokens)
        return token

    def owner(self, token: str) -> Person | None:
        person, expires_ms = self._tokens.get(token, (None, 0))
        return person if self._now_ms() < expires_ms else None


def authenticate(side: Side, clients: Iterable[Client], authorization: str | None, form: Mapping[str, str]) -> Client:
    """The client of a token request: HTTP Basic or form, never both (RFC 6749 2.3.1)."""
    client_id, secret = _presented(authorization, form)
    for client in clients:
        if client.side is side and client.client_id == client_id and client.client_secret.matches(secret):
            return client
    raise Refusal(401, "invalid_client", "unknown client or wrong client secret")


def _presented(authorization: str | None, form: Mapping[str, str]) -> tuple[str, Secret]:
    if authorization is None:
        return form.get("client_id", ""), Secret(form.get("client_secret", "").encode())
    if "client_secret" in form:
        raise Refusal(400, "invalid_request", "the client secret was sent in two ways")
    scheme, _, encoded = authorization.partition(" ")
    try:
        text = b64decode(encoded, validate=True).decode()
    except (Error, UnicodeDecodeError):
        text = ""
    if scheme.lower() != "basic" or ":" not in text:
        raise Refusal(401, "invalid_client", "expected HTTP Basic")
    client_id, secret = (unquote_plus(part) for part in text.split(":", 1))
    if form.get("client_id", client_id) != client_id:
        raise Refusal(400, "invalid_request", "two client_ids")
    return client_id, Secret(secret.encode())


def challenge_of(verifier: str) -> str:
    """S256 (RFC 7636 4.2)."""
    return base64url(sha256(verifier.encode()).digest())


def _proves(verifier: str, challenge: str) -> bool:
    return bool(_VERIFIER.fullmatch(verifier)) and challenge_of(verifier) == challenge


def _forget(kept: dict[str, Any]) -> None:
    while len(kept) > KEPT:
        kept.pop(next(iter(kept)))
