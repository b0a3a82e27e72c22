"""Every fault of a provider while a code is redeemed, by name, with the right end of the sign-in.

`python -m tests.hostile.modes` lists them. An `outcome` of None: the players notice nothing.
"""

from collections.abc import Callable, Mapping
from gzip import compress
from json import dumps
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ec import SECP384R1
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from msgspec import Struct

from gamed.crypto import base64url
from gamed.outcomes import LoginFailure
from gamed.providers.client import TIMEOUT_SECONDS
from tests.hostile.fake_provider import (
    ABSENT,
    ACCESS,
    CLIENT_SECRET,
    DISCORD_TOKEN,
    DISCORD_USER,
    GITHUB_TOKEN,
    GITHUB_USER,
    ISSUER,
    KEYS,
    MARK,
    PERSONAL,
    SIGNING_KEY,
    TOKEN,
    WORK,
    Forge,
    Idp,
    Reply,
    tenant_issuer,
)
from tests.providers.signing import ES, RSA, RSA_NEW, Signer, compact, ec, hs256, rsa

ERROR, UNAVAILABLE = LoginFailure.PROVIDER_ERROR, LoginFailure.PROVIDER_UNAVAILABLE
MISCONFIGURED, DENIED, SKEW = (
    LoginFailure.PROVIDER_MISCONFIGURED,
    LoginFailure.PROVIDER_DENIED,
    LoginFailure.SERVER_CLOCK_SKEW,
)
Twist = Callable[[Any], None]
HOUR = 3600


class Mode(Struct, frozen=True):
    name: str
    twist: Twist
    """Changes the provider before the browser is redirected to it."""
    outcome: LoginFailure | None = ERROR
    cause: str = ""
    """The cause in the owner's line."""
    provider: str = "idp"
    primed: float | None = None
    """Seconds between an honest sign-in and this one."""
    waits: float = 0
    """Seconds after which the request to the provider ends."""
    heals: float = 31
    """Seconds after which the provider is asked again, once it is correct."""
    late_seconds: int = 0
    """Seconds by which this machine's clock is ahead."""


# -- twists --


def claims(**changes: object) -> Twist:
    return lambda fake: fake.changes.update(changes)


def moved(**seconds: float) -> Twist:
    """Set times relative to the provider's clock."""
    return lambda fake: fake.changes.update({name: fake.now_ms() // 1000 + by for name, by in seconds.items()})


def token(forge: Forge) -> Twist:
    def twist(fake: Idp) -> None:
        fake.forge = forge

    return twist


def header(**members: object) -> Twist:
    return token(lambda fake, claimed: fake.signer.sign(claimed, **members))


def always(path: str, reply: Reply) -> Twist:
    return lambda fake: fake.always(path, reply)


def keys(*published: Mapping[str, object]) -> Twist:
    return always(KEYS, Reply.json({"keys": list(published)}))


def signers(*published: Signer, by: Signer = RSA) -> Twist:
    def twist(fake: Idp) -> None:
        fake.signers, fake.signer = list(published), by

    return twist


def granted(**members: object) -> Twist:
    """Return good tokens with other members."""

    def twist(fake: Any) -> None:
        fake.usual[TOKEN] = lambda _: Reply.json({k: v for k, v in fake.tokens(**members).items() if v is not ABSENT})

    return twist


def user(**members: object) -> Twist:
    return always(DISCORD_USER, Reply.json({"username": MARK, **members}))


def both(*twists: Twist) -> Twist:
    def all_of_them(fake: Any) -> None:
        for twist in twists:
            twist(fake)

    return all_of_them


def error(name: str, status: int = 400, description: str = MARK) -> Reply:
    return Reply.json({"error": name, "error_description": description, "error_uri": f"https://{MARK}"}, status)


# -- forgeries --


def _pem(signer: Signer) -> bytes:
    raw: bytes = signer.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return raw


def _altered(fake: Idp, claimed: Mapping[str, object]) -> str:
    """Keep a good signature, but of other claims."""
    head, _, signature = fake.signer.sign(claimed).split(".")
    return f"{head}.{fake.signer.sign({**claimed, 'sub': 'other'}).split('.')[1]}.{signature}"


def _json_form(fake: Idp, claimed: Mapping[str, object]) -> str:
    head, payload, signature = fake.signer.sign(claimed).split(".")
    return dumps({"payload": payload, "protected": head, "signature": signature})


def _general_form(fake: Idp, claimed: Mapping[str, object]) -> str:
    head, payload, signature = fake.signer.sign(claimed).split(".")
    return dumps({"payload": payload, "signatures": [{"protected": head, "signature": signature}] * 2})


def _two_signatures(fake: Idp, claimed: Mapping[str, object]) -> str:
    good = fake.signer.sign(claimed)
    return f"{good}.{good.rpartition('.')[2]}"


def _twice(fake: Idp, claimed: Mapping[str, object]) -> str:
    """Sign claims that name their subject twice."""
    return _raw(fake, dumps(claimed)[:-1].encode() + b', "sub": "other"}')


def _raw(fake: Idp, payload: bytes) -> str:
    message = f"{fake.signer.sign({}).split('.')[0]}.{base64url(payload)}"
    return f"{message}.{base64url(fake.signer.signature(message.encode()))}"


def _cut(fake: Idp, claimed: Mapping[str, object]) -> str:
    return fake.signer.sign(claimed).rpartition(".")[0] + "."


STRANGER = Signer("rsa-1", "RS256", RSA_NEW.private, RSA_NEW.public)
SHORT = rsa("short", 1024)
LONG_CURVE = ec("ec-1", SECP384R1)
NOT_SIGNED = "not three parts in base64url"
NOT_FITTING = "the signature does not fit"

SIGNATURES = (
    Mode("signature none", token(lambda f, c: compact({"alg": "none"}, c, b"")), cause=NOT_SIGNED),
    Mode("signature none with bytes", token(lambda f, c: compact({"alg": "none"}, c)), cause="alg is not"),
    Mode("signature None in capitals", token(lambda f, c: compact({"alg": "NONE", "kid": "rsa-1"}, c)), cause="alg"),
    Mode("signature cut off", token(_cut), cause=NOT_SIGNED),
    Mode("signature HS256 by the secret", token(lambda f, c: hs256(c, CLIENT_SECRET.encode())), cause="alg is not"),
    Mode("signature HS256 by the key", token(lambda f, c: hs256(c, _pem(RSA), kid="rsa-1")), cause="alg is not"),
    Mode(
        "signature HS256 by the key as JSON",
        token(lambda f, c: hs256(c, dumps(dict(RSA.public)).encode(), kid="rsa-1")),
        cause="alg is not",
    ),
    Mode("signature by a stranger", token(lambda f, c: STRANGER.sign(c)), cause=NOT_FITTING),
    Mode("signature of other claims", token(_altered), cause=NOT_FITTING),
    Mode(
        "signature of zeros", token(lambda f, c: compact({"alg": "RS256", "kid": "rsa-1"}, c, b"\0" * 256)), cause="fit"
    ),
    Mode("signature EC under an RSA name", token(lambda f, c: ES.sign(c, alg="RS256", kid="rsa-1")), cause=NOT_FITTING),
    Mode("signature EC for RS256 kid", token(lambda f, c: ES.sign(c, kid="rsa-1")), cause="not among"),
    Mode("signature RSA for ES256 kid", both(signers(RSA, ES), header(alg="ES256", kid="ec-1")), cause=NOT_FITTING),
    Mode("signature EC of another curve", both(signers(RSA, ES), token(lambda f, c: LONG_CURVE.sign(c))), cause="fit"),
    Mode("signature short RSA", signers(SHORT, by=SHORT), cause="not one usable key"),
    Mode("signature short RSA beside a good key", signers(RSA, SHORT, by=SHORT), cause="not among"),
    Mode("signature RS512", header(alg="RS512"), cause="alg is not"),
    Mode("signature PS256", header(alg="PS256"), cause="alg is not"),
    Mode("signature alg in small letters", header(alg="rs256"), cause="alg is not"),
    Mode("signature alg a list", header(alg=["RS256"]), cause="alg is not"),
    Mode("signature alg absent", header(alg=None), cause="alg is not"),
    Mode("header jwk", header(jwk=dict(RSA_NEW.public)), cause="jwk in its header"),
    Mode("header jwk and its key", token(lambda f, c: STRANGER.sign(c, jwk=dict(RSA_NEW.public))), cause="jwk in"),
    Mode("header jku", header(jku=f"https://{MARK}.example/keys"), cause="jku in its header"),
    Mode("header x5u", header(x5u=f"https://{MARK}.example/x"), cause="x5u in its header"),
    Mode("header x5c", header(x5c=["MIIB"]), cause="x5c in its header"),
    Mode("header crit", header(crit=["exp"]), cause="crit in its header"),
    Mode("header crit empty", header(crit=[]), cause="crit in its header"),
    Mode("header b64", header(b64=False, crit=["b64"]), cause="in its header"),
    Mode("header typ of another token", header(typ="at+jwt"), cause="typ is not JWT"),
    Mode("header kid a path", header(kid="../../dev/null"), cause="not among"),
    Mode("header kid an injection", header(kid=f"' OR '{MARK}'='{MARK}"), cause="not among"),
    Mode("header kid a number", header(kid=1), cause="kid is not text"),
    Mode("form two signatures", token(_two_signatures), cause=NOT_SIGNED),
    Mode("form JSON", token(_json_form), cause=NOT_SIGNED),
    Mode("form JSON with two signatures", token(_general_form), cause=NOT_SIGNED),
    Mode(
        "form encrypted",
        token(lambda f, c: ".".join([base64url(b'{"alg":"dir","enc":"A256GCM"}')] * 5)),
        cause=NOT_SIGNED,
    ),
    Mode("form padded", token(lambda f, c: f.signer.sign(c) + "="), cause=NOT_SIGNED),
    Mode("form with a space", token(lambda f, c: f.signer.sign(c) + " "), cause=NOT_SIGNED),
    Mode("form huge", token(lambda f, c: f.signer.sign({**c, "pad": MARK * 4000})), cause="longer than"),
)

CLAIMS = (
    Mode("iss absent", claims(iss=ABSENT), cause="iss is another"),
    Mode("iss null", claims(iss=None), cause="iss is another"),
    Mode("iss another", claims(iss=f"https://{MARK}.example"), cause="iss is another"),
    Mode("iss with a slash", claims(iss=f"{ISSUER}/"), cause="iss is another"),
    Mode("iss http", claims(iss=ISSUER.replace("https", "http")), cause="iss is another"),
    Mode("iss without scheme", claims(iss=ISSUER.removeprefix("https://")), cause="iss is another"),
    Mode("iss a list", claims(iss=[ISSUER]), cause="iss is another"),
    Mode("aud absent", claims(aud=ABSENT), cause="aud is another client; check client_id"),
    Mode("aud another", claims(aud=MARK), cause="aud is another client; check client_id"),
    Mode("aud an empty list", claims(aud=[]), cause="aud"),
    Mode("aud a list with numbers", claims(aud=["client:7", 7]), cause="aud"),
    Mode("aud an object", claims(aud={"client:7": 1}), cause="aud"),
    Mode("aud two", claims(aud=["client:7", MARK]), cause="aud names other clients"),
    Mode("aud two and azp ours", claims(aud=["client:7", MARK], azp="client:7"), cause="aud names other clients"),
    Mode("azp another", claims(azp=MARK), cause="azp is another client"),
    Mode("azp another of two", claims(aud=["client:7", MARK], azp=MARK), cause="aud names other clients"),
    Mode("azp a list", claims(azp=["client:7"]), cause="azp"),
    Mode("azp null", claims(azp=None), cause="azp"),
    Mode("exp over", moved(exp=-121, iat=-600), cause="exp has passed"),
    Mode("exp absent", claims(exp=ABSENT), cause="exp is not a timestamp"),
    Mode("exp text", claims(exp="2100-01-01"), cause="exp is not a timestamp"),
    Mode("exp true", claims(exp=True), cause="exp is not a timestamp"),
    Mode("exp negative", claims(exp=-1), cause="exp is not a timestamp"),
    Mode("exp beyond all times", claims(exp=10**30), cause="exp is not a timestamp"),
    Mode("exp NaN", claims(exp=float("nan")), cause="claims are"),
    Mode("exp infinite", claims(exp=float("inf")), cause="claims are"),
    Mode("nbf to come", moved(nbf=121), cause="in the future"),
    Mode("nbf text", claims(nbf="now"), cause="nbf is not a timestamp"),
    Mode("iat to come", moved(iat=121), cause="in the future"),
    Mode("iat long ago", moved(iat=-721), cause="iat is too old"),
    Mode("iat absent", claims(iat=ABSENT), cause="iat is not a timestamp"),
    Mode("iat a list", claims(iat=[1]), cause="iat is not a timestamp"),
    Mode("nonce absent", claims(nonce=ABSENT), cause="nonce is not the one"),
    Mode("nonce empty", claims(nonce=""), cause="nonce is not the one"),
    Mode("nonce of another sign-in", claims(nonce="A" * 43), cause="nonce is not the one"),
    Mode("nonce a list", claims(nonce=[]), cause="nonce is not the one"),
    Mode("nonce not text", claims(nonce="\ud800"), cause="claims are"),
    Mode("sub absent", claims(sub=ABSENT), cause="sub is not"),
    Mode("sub empty", claims(sub=""), cause="sub is not"),
    Mode("sub a number", claims(sub=7), cause="sub is not"),
    Mode("sub null", claims(sub=None), cause="sub is not"),
    Mode("sub a list", claims(sub=["player-7"]), cause="sub is not"),
    Mode("sub too long", claims(sub="x" * 256), cause="sub is not"),
    Mode("sub not ASCII", claims(sub="pl\u0430yer-7"), cause="sub is not"),
    Mode("sub with a zero byte", claims(sub="player-7\0"), cause="sub is not"),
    Mode("sub with a line end", claims(sub="player-7\n"), cause="sub is not"),
    Mode("claims twice", token(_twice), cause="claims are"),
    Mode("claims a list", token(lambda f, c: _raw(f, dumps([c]).encode())), cause="claims are"),
    Mode("claims not UTF-8", token(lambda f, c: _raw(f, b'{"sub":"\xff"}')), cause="claims are"),
    Mode("claims deep", token(lambda f, c: _raw(f, b'{"a":' + b"[" * 99 + b"]" * 99 + b"}")), cause="claims are"),
    Mode("clock of this machine ahead", lambda fake: None, SKEW, "ahead of", late_seconds=4 * HOUR),
    Mode("clock of this machine behind", lambda fake: None, SKEW, "behind", late_seconds=-4 * HOUR),
)

TWIN = {**RSA_NEW.public, "kid": "rsa-1"}
_BOMB = Reply(200, compress(b'{"keys":[' + b" " * 20_000_000 + b"]}"), {"Content-Encoding": "gzip"})
KEY_SETS = (
    Mode("keys rotated", signers(RSA_NEW, by=RSA_NEW), None, primed=60),
    Mode("keys rotated under the same name", both(keys(TWIN), token(lambda f, c: STRANGER.sign(c))), None, primed=60),
    Mode("keys doubled", keys(RSA.public, TWIN), cause="two keys have the same kid"),
    Mode("keys doubled byte for byte", keys(RSA.public, RSA.public), cause="two keys have the same kid"),
    Mode("keys without the one", keys(RSA_NEW.public), cause="not among"),
    Mode("keys empty", keys(), cause="not one usable key"),
    Mode("keys absent", always(KEYS, Reply.json({MARK: []})), cause="keys is not a list"),
    Mode("keys an object", always(KEYS, Reply.json({"keys": {}})), cause="keys is not a list"),
    Mode("keys of numbers", always(KEYS, Reply.json({"keys": [1, None, "x", []]})), cause="not one usable key"),
    Mode("keys secret", keys({"kty": "oct", "k": "AAAA", "kid": "rsa-1"}), cause="not one usable key"),
    Mode("keys for encryption", keys({**RSA.public, "use": "enc"}), cause="not one usable key"),
    Mode("keys of a broken number", keys({**RSA.public, "n": "AA=="}), cause="not one usable key"),
    Mode("keys of an endless exponent", keys({**RSA.public, "e": "A" * 40000}), cause="not one usable key"),
    Mode("keys unnamed, token names one", keys({k: v for k, v in RSA.public.items() if k != "kid"}), cause="not among"),
    Mode("keys several, token names none", both(signers(RSA, RSA_NEW), header(kid=None)), cause="kid is missing"),
    Mode("keys unusable beside the good one", keys({"kty": "EC", "crv": MARK}, {"kty": MARK}, RSA.public), None),
    Mode(
        "keys HTML",
        always(KEYS, Reply(200, f"<html>{MARK}</html>".encode())),
        cause="jwks_uri: the response cannot",
    ),
    Mode("keys an error with 200", always(KEYS, error(MARK, 200)), cause="answered with an error"),
    Mode("keys 404", always(KEYS, Reply(404, MARK.encode())), cause="jwks_uri: answered 404"),
    Mode("keys 500", always(KEYS, Reply(500, MARK.encode())), UNAVAILABLE, "jwks_uri: answered 500"),
    Mode("keys elsewhere", always(KEYS, Reply(302, b"", {"Location": f"https://{MARK}.example"})), cause="redirects"),
    Mode("keys huge", always(KEYS, Reply(200, b'{"keys":[]' + b" " * 70_000 + b"}")), cause="more than 65536 bytes"),
    Mode("keys a gzip bomb", always(KEYS, _BOMB), cause="in a content coding that was not requested"),
    Mode(
        "keys never",
        always(KEYS, Reply(hang=True)),
        UNAVAILABLE,
        "response was not complete",
        waits=TIMEOUT_SECONDS,
    ),
    Mode("keys gone while known ones serve", always(KEYS, Reply(500)), None, primed=2 * HOUR),
    Mode("keys gone and rotated", both(always(KEYS, Reply(500)), header(kid="new")), UNAVAILABLE, "500", primed=60),
)


def _tokens(reply: Reply, outcome: LoginFailure = ERROR, cause: str = "", **more: Any) -> dict[str, Any]:
    return {"twist": always(DISCORD_TOKEN, reply), "outcome": outcome, "cause": cause, "provider": "discord", **more}


def _text(body: bytes | str, status: int = 200, **headers: str) -> Reply:
    return Reply(status, body if isinstance(body, bytes) else body.encode(), headers)


_GOOD = f'"access_token":"{ACCESS}","token_type":"Bearer"'
_ODD = ("", "mac", "N_A", 7, None, ["Bearer"], {"Bearer": 1})
_UNSAFE = ("", " ", "two words", "a\r\nX-Evil: 1", "a\0b", "t\u00f6ken", "x" * 8193, 7, None, ["x"], {"a": 1}, True)
_STATUSES = (
    *((status, ERROR, f"answered {status}") for status in (201, 204, 206, 226, 400, 402, 403, 404, 405, 409, 410)),
    *((status, ERROR, f"answered {status}") for status in (413, 415, 418, 421, 422, 431, 451)),
    *((status, ERROR, "redirects") for status in (300, 301, 302, 303, 304, 307, 308)),
    *(
        (status, UNAVAILABLE, f"answered {status}")
        for status in (408, 425, 429, 500, 501, 502, 503, 504, 507, 520, 599)
    ),
    (401, MISCONFIGURED, "client_secret_env"),
)
TOKENS = (
    *(
        Mode(f"token {status}", **_tokens(_text(MARK, status, Location=f"https://{MARK}.example/"), outcome, cause))
        for status, outcome, cause in _STATUSES
    ),
    Mode("token 200 without a body", **_tokens(_text(b""), cause="token_endpoint: the response cannot be parsed")),
    Mode("token HTML", **_tokens(_text(f"<html>{MARK}"), cause="the response cannot be parsed: not JSON")),
    Mode("token a list", **_tokens(_text(f'[{{"{MARK}":1}}]'), cause="the response cannot be parsed: not an object")),
    Mode("token null", **_tokens(_text("null"), cause="not an object")),
    Mode("token a form", **_tokens(_text(f"access_token={ACCESS}&token_type=bearer"), cause="not JSON")),
    Mode(
        "token a name twice",
        **_tokens(_text(f'{{{_GOOD},"access_token":"{MARK}"}}'), cause="cannot be parsed"),
    ),
    Mode("token deep", **_tokens(_text(f'{{{_GOOD},"a":{"[" * 5000}{"]" * 5000}}}'), cause="nested deeper")),
    Mode("token NaN", **_tokens(_text(f'{{{_GOOD},"expires_in":NaN}}'), cause="cannot be parsed")),
    Mode("token an endless number", **_tokens(_text(f'{{{_GOOD},"a":{"9" * 6000}}}'), cause="a number is too long")),
    Mode("token a lone surrogate", **_tokens(_text(f'{{{_GOOD},"a":"\\ud800"}}'), cause="cannot be parsed")),
    Mode("token not UTF-8", **_tokens(_text(b"{" + _GOOD.encode() + b',"a":"\xff"}'), cause="not UTF-8")),
    Mode("token UTF-16", **_tokens(_text(f"{{{_GOOD}}}".encode("utf-16")), cause="cannot be parsed")),
    Mode("token cut off", **_tokens(_text(f"{{{_GOOD}"), cause="not JSON")),
    Mode("token huge", **_tokens(_text(f"{{{_GOOD}}}" + " " * 70_000), cause="more than 65536 bytes")),
    Mode("token gzip", **_tokens(_text(compress(b"{}"), **{"Content-Encoding": "gzip"}), cause="coding")),
    Mode("token error with 200", **_tokens(error("invalid_grant", 200), cause="200 invalid_grant")),
    Mode(
        "token error beside a token",
        **_tokens(_text(f'{{{_GOOD},"error":"{MARK}"}}'), cause="answered with an unregistered error"),
    ),
    Mode("token error an object", **_tokens(_text(f'{{{_GOOD},"error":{{"a":"{MARK}"}}}}'), cause="unregistered")),
    Mode("token error unregistered", **_tokens(error(MARK), cause="answered 400")),
    Mode("token invalid_grant", **_tokens(error("invalid_grant"), cause="used before, too old")),
    Mode("token invalid_client", **_tokens(error("invalid_client", 401), MISCONFIGURED, "client_secret_env")),
    Mode("token unauthorized_client", **_tokens(error("unauthorized_client"), MISCONFIGURED, "check client_id")),
    Mode("token redirect_uri_mismatch", **_tokens(error("redirect_uri_mismatch"), MISCONFIGURED, "redirect URI")),
    Mode(
        "token redirect URI in words",
        **_tokens(error("invalid_request", 400, "Invalid redirect_uri"), MISCONFIGURED, "exactly the redirect URI"),
    ),
    Mode("token invalid_scope", **_tokens(error("invalid_scope"), MISCONFIGURED, "scopes")),
    Mode("token access_denied", **_tokens(error("access_denied", 403), DENIED, "refused this account")),
    Mode("token server_error", **_tokens(error("server_error"), UNAVAILABLE, "could not answer")),
    Mode("token temporarily_unavailable", **_tokens(error("temporarily_unavailable", 200), UNAVAILABLE, "not answer")),
    *(
        Mode(
            f"token_type {number}",
            **_tokens(Reply.json({"access_token": ACCESS, "token_type": odd}), cause="token_type"),
        )
        for number, odd in enumerate(_ODD)
    ),
    Mode("token_type absent", **_tokens(Reply.json({"access_token": ACCESS}), cause="token_type")),
    *(
        Mode(
            f"access_token {n}",
            **_tokens(Reply.json({"access_token": bad, "token_type": "bearer"}), cause="access_token"),
        )
        for n, bad in enumerate(_UNSAFE)
    ),
    Mode("access_token absent", **_tokens(Reply.json({"token_type": "bearer"}), cause="access_token")),
    Mode("token never", **_tokens(Reply(hang=True), UNAVAILABLE, "within 10 s", waits=TIMEOUT_SECONDS)),
    Mode("token 503 for a moment", **_tokens(_text("", 503, **{"Retry-After": "1"}), UNAVAILABLE, "answered 503")),
    Mode("id_token absent", granted(id_token=ABSENT), cause="id_token is missing"),
    Mode("id_token null", granted(id_token=None), cause="id_token is missing"),
    Mode("id_token a number", granted(id_token=7), cause="id_token is not text"),
    Mode("id_token an object", granted(id_token={"sub": "player-7"}), cause="id_token is not text"),
    Mode("id_token empty", granted(id_token=""), cause=NOT_SIGNED),
    Mode("id_token not ASCII", granted(id_token="\u00e9.\u00e9.\u00e9"), cause="id_token is not text"),
)

_IDS = (
    "",
    "0x7",
    "-7",
    "7.0",
    " 7",
    "7 ",
    "\u0667",
    "7\n",
    "7" * 21,
    7,
    7.5,
    0,
    -1,
    None,
    True,
    [],
    ["7"],
    {"id": "7"},
)


def _user(twist: Twist, outcome: LoginFailure = ERROR, cause: str = "", **more: Any) -> dict[str, Any]:
    return {"twist": twist, "outcome": outcome, "cause": cause, "provider": "discord", **more}


def _me(reply: Reply) -> Twist:
    return always(DISCORD_USER, reply)


USERS = (
    *(Mode(f"user id {number}", **_user(user(id=bad), cause="id is not text")) for number, bad in enumerate(_IDS)),
    Mode("user id absent", **_user(user(ID="7", user={"id": "7"}), cause="id is not text")),
    Mode(
        "user id twice",
        **_user(_me(_text('{"id":"7","id":"8"}')), cause="cannot be parsed"),
    ),
    Mode("user error with 200", **_user(_me(error("invalid_token", 200)), cause="answered with an error")),
    Mode("user error beside an id", **_user(user(id="7", error=MARK), cause="answered with an error")),
    Mode("user a list", **_user(_me(_text('[{"id":"7"}]')), cause="not an object")),
    Mode("user HTML", **_user(_me(_text(f"<html>{MARK}")), cause="not JSON")),
    Mode("user 201", **_user(_me(Reply.json({"id": "7"}, 201)), cause="answered 201")),
    Mode("user 302", **_user(_me(_text("", 302, Location="/login")), cause="redirects")),
    Mode("user 401", **_user(_me(Reply.json({"message": MARK, "code": 0}, 401)), cause="answered 401")),
    Mode("user 401 with an id", **_user(_me(Reply.json({"id": "7"}, 401)), cause="answered 401")),
    Mode("user 403", **_user(_me(_text(f"error code: 1010 {MARK}", 403)), cause="answered 403")),
    Mode("user 404", **_user(_me(_text(MARK, 404)), cause="answered 404")),
    Mode("user 429", **_user(_me(_text(MARK, 429)), UNAVAILABLE, "answered 429")),
    Mode(
        "user 429 for a minute",
        **_user(_me(_text(MARK, 429, **{"Retry-After": "60"})), UNAVAILABLE, "answered 429", heals=61),
    ),
    Mode("user 429 for ever", **_user(_me(_text("", 429, **{"Retry-After": "9" * 30})), UNAVAILABLE, "answered 429")),
    Mode("user 500", **_user(_me(_text(MARK, 500)), UNAVAILABLE, "answered 500")),
    Mode("user huge", **_user(_me(_text('{"id":"7"' + " " * 70_000 + "}")), cause="more than 65536 bytes")),
    Mode("user gzip", **_user(_me(Reply(200, compress(b'{"id":"7"}'), {"Content-Encoding": "gzip"})), cause="coding")),
    Mode("user never", **_user(_me(Reply(hang=True)), UNAVAILABLE, "not complete within", waits=TIMEOUT_SECONDS)),
    Mode(
        "user with markup beside a good id",
        twist=user(id="7", name=f"<script>{MARK}"),
        outcome=None,
        provider="discord",
    ),
)

_NUMBERS = ("", "7", "anna", 7.5, 0, -1, 2**64, None, True, [], [7], {"id": 7})


def _github(twist: Twist, outcome: LoginFailure | None = ERROR, cause: str = "") -> dict[str, Any]:
    return {"twist": twist, "outcome": outcome, "cause": cause, "provider": "github"}


def _account(**members: object) -> Twist:
    return always(GITHUB_USER, Reply.json({"login": MARK, **members}))


def _granted(reply: Reply) -> Twist:
    return always(GITHUB_TOKEN, reply)


GITHUB = (
    *(
        Mode(f"github id {number}", **_github(_account(id=bad), cause="not a whole number from 1"))
        for number, bad in enumerate(_NUMBERS)
    ),
    Mode("github id absent", **_github(_account(node_id="7"), cause="not a whole number from 1")),
    Mode("github id twice", **_github(always(GITHUB_USER, _text('{"id":7,"id":8}')), cause="cannot be parsed")),
    Mode("github account 401", **_github(always(GITHUB_USER, Reply.json({"message": MARK}, 401)), cause="401")),
    Mode("github account 403", **_github(always(GITHUB_USER, Reply.json({"message": MARK}, 403)), cause="403")),
    Mode("github account moved", **_github(always(GITHUB_USER, _text("", 301, Location="/u")), cause="redirects")),
    Mode("github account huge", **_github(always(GITHUB_USER, _text(b" " * 70_000)), cause="more than 65536 bytes")),
    Mode("github token a form", **_github(_granted(_text(f"access_token={ACCESS}&token_type=bearer")), cause="JSON")),
    Mode("github token XML", **_github(_granted(_text(f"<OAuth>{ACCESS}</OAuth>")), cause="not JSON")),
    Mode("github code refused", **_github(_granted(error("bad_verification_code", 200)), cause="used before")),
    Mode(
        "github secret refused",
        **_github(_granted(error("incorrect_client_credentials", 200)), MISCONFIGURED, "client_secret_env"),
    ),
    Mode(
        "github redirect URI refused",
        **_github(_granted(error("redirect_uri_mismatch", 200)), MISCONFIGURED, "exactly the redirect URI"),
    ),
    Mode("github mail not verified", **_github(_granted(error("unverified_user_email", 200)), DENIED, "mail address")),
    Mode("github token 404", **_github(_granted(Reply.json({"error": "Not Found"}, 404)), cause="answered 404")),
    Mode("github 500", **_github(_granted(_text(MARK, 500)), UNAVAILABLE, "answered 500")),
    Mode("github account with markup", **_github(_account(id=7, name=f"<script>{MARK}"), outcome=None)),
)


def _twitch(twist: Twist, outcome: LoginFailure | None = ERROR, cause: str = "") -> dict[str, Any]:
    return {"twist": twist, "outcome": outcome, "cause": cause, "provider": "twitch"}


def _refusal(status: int, message: str = MARK) -> Twist:
    """Answer as Twitch does: without an `error` of RFC 6749."""
    return always(TOKEN, Reply.json({"status": status, "message": message}, status))


TWITCH = (
    Mode("twitch iss another", **_twitch(claims(iss=ISSUER), cause="iss is another")),
    Mode("twitch iss with a slash", **_twitch(claims(iss="https://id.twitch.tv/oauth2/"), cause="iss is another")),
    Mode("twitch iss the host", **_twitch(claims(iss="https://id.twitch.tv"), cause="iss is another")),
    Mode("twitch aud another", **_twitch(claims(aud=MARK), cause="aud is another client")),
    Mode("twitch azp another", **_twitch(claims(azp=MARK), cause="azp is another client")),
    Mode("twitch nonce absent", **_twitch(claims(nonce=ABSENT), cause="nonce is not the one")),
    Mode("twitch nonce another", **_twitch(claims(nonce="A" * 43), cause="nonce is not the one")),
    Mode("twitch sub a number", **_twitch(claims(sub=44322889), cause="sub is not")),
    Mode("twitch exp over", **_twitch(moved(exp=-121, iat=-600), cause="exp has passed")),
    Mode("twitch a stranger's key", **_twitch(token(lambda f, c: STRANGER.sign(c)), cause=NOT_FITTING)),
    Mode(
        "twitch ES256, which it does not use",
        **_twitch(both(signers(RSA, ES), token(lambda f, c: ES.sign(c))), cause="alg is not RS256"),
    ),
    Mode(
        "twitch secret refused",
        **_twitch(_refusal(403), MISCONFIGURED, "403: check client_id and the variable that client_secret_env names"),
    ),
    Mode(
        "twitch client refused",
        **_twitch(_refusal(400, "invalid client"), MISCONFIGURED, "400: check client_id and the variable"),
    ),
    Mode("twitch code refused", **_twitch(_refusal(400, "Invalid authorization code"), cause="answered 400")),
    Mode("twitch 503", **_twitch(always(TOKEN, _text(MARK, 503)), UNAVAILABLE, "answered 503")),
    Mode("twitch keys gone", **_twitch(always(KEYS, Reply(500)), UNAVAILABLE, "jwks_uri: answered 500")),
)


CACHED = 2 * HOUR
"""After this time documents are fetched again."""


def _microsoft(
    twist: Twist, outcome: LoginFailure | None = ERROR, cause: str = "", heals: float = 31
) -> dict[str, Any]:
    return {"twist": twist, "outcome": outcome, "cause": cause, "provider": "microsoft", "heals": heals}


def _key_of(issuer: object, **changes: object) -> Twist:
    def twist(fake: Any) -> None:
        fake.key_issuer = issuer
        fake.changes.update(changes)

    return twist


_OF = tenant_issuer
_PERSON = {"iss": _OF(PERSONAL), "tid": PERSONAL}
MICROSOFT = (
    Mode("microsoft a personal account", **_microsoft(claims(**_PERSON), None)),
    Mode(
        "microsoft a key of personal accounts for one",
        **_microsoft(_key_of(_OF(PERSONAL), **_PERSON), None, heals=CACHED),
    ),
    Mode("microsoft tid absent", **_microsoft(claims(tid=ABSENT), None)),
    Mode("microsoft iss the template", **_microsoft(claims(iss=_OF("{tenantid}")), cause="iss is another")),
    Mode("microsoft iss of common", **_microsoft(claims(iss=_OF("common"), tid="common"), cause="iss is another")),
    *(
        Mode(f"microsoft iss {number}", **_microsoft(claims(iss=iss, tid=tid), cause="iss is another"))
        for number, (iss, tid) in enumerate(
            (
                (_OF("contoso.onmicrosoft.com"), "contoso.onmicrosoft.com"),
                (_OF(WORK.upper()), WORK.upper()),
                (_OF(f"{WORK}/x"), f"{WORK}/x"),
                (_OF(f"{PERSONAL}/../{WORK}"), f"{PERSONAL}/../{WORK}"),
                (_OF(f"{WORK}\n"), f"{WORK}\n"),
                (_OF(""), ""),
                (_OF(WORK) + "/", WORK),
                (_OF(WORK).replace("https", "http"), WORK),
                (_OF(WORK).replace("login.microsoftonline.com", f"{MARK}.example"), WORK),
                (_OF(WORK).replace("v2.0", "v1.0"), WORK),
                (f"https://sts.windows.net/{WORK}/", WORK),
                (None, WORK),
                ([_OF(WORK)], WORK),
            )
        )
    ),
    Mode("microsoft tid of another tenant", **_microsoft(claims(tid=PERSONAL), cause="tid is not the tenant")),
    Mode("microsoft tid empty", **_microsoft(claims(tid=""), cause="tid is not the tenant")),
    Mode("microsoft tid null", **_microsoft(claims(tid=None), cause="tid is not the tenant")),
    Mode("microsoft tid a list", **_microsoft(claims(tid=[WORK]), cause="tid is not the tenant")),
    Mode(
        "microsoft a key of another tenant",
        **_microsoft(_key_of(_OF(PERSONAL)), cause="key that is for another", heals=CACHED),
    ),
    Mode(
        "microsoft a key without an issuer",
        **_microsoft(_key_of(ABSENT), cause="key that is for another", heals=CACHED),
    ),
    Mode(
        "microsoft a key of a list", **_microsoft(_key_of([_OF(WORK)]), cause="key that is for another", heals=CACHED)
    ),
    Mode(
        "microsoft a key of an odd issuer",
        **_microsoft(_key_of(f"https://{MARK}"), cause="key that is for another", heals=CACHED),
    ),
    Mode("microsoft a stranger's key", **_microsoft(token(lambda f, c: STRANGER.sign(c)), cause=NOT_FITTING)),
    Mode("microsoft aud another", **_microsoft(claims(aud=MARK), cause="aud is another client")),
    Mode("microsoft nonce another", **_microsoft(claims(nonce="A" * 43), cause="nonce is not the one")),
    Mode("microsoft sub absent", **_microsoft(claims(sub=ABSENT), cause="sub is not")),
    Mode("microsoft exp over", **_microsoft(moved(exp=-121, iat=-600), cause="exp has passed")),
    Mode(
        "microsoft secret refused", **_microsoft(always(TOKEN, error("invalid_client", 401)), MISCONFIGURED, "secret")
    ),
    Mode("microsoft 503", **_microsoft(always(TOKEN, _text(MARK, 503)), UNAVAILABLE, "answered 503")),
)


def _apple(twist: Twist, outcome: LoginFailure | None = ERROR, cause: str = "") -> dict[str, Any]:
    return {"twist": twist, "outcome": outcome, "cause": cause, "provider": "apple"}


APPLE = (
    Mode("apple a mail address that was not asked for", **_apple(claims(email=f"{MARK}@example.org"), None)),
    Mode("apple iss with a slash", **_apple(claims(iss="https://appleid.apple.com/"), cause="iss is another")),
    Mode("apple iss another", **_apple(claims(iss=ISSUER), cause="iss is another")),
    Mode("apple aud of an app", **_apple(claims(aud="org.example.app"), cause="aud is another client")),
    Mode("apple aud a list", **_apple(claims(aud=["client:7", MARK]), cause="aud names other clients")),
    Mode("apple nonce absent", **_apple(claims(nonce=ABSENT, nonce_supported=False), cause="nonce is not the one")),
    Mode("apple nonce another", **_apple(claims(nonce="A" * 43), cause="nonce is not the one")),
    Mode("apple sub absent", **_apple(claims(sub=ABSENT), cause="sub is not")),
    Mode("apple exp text", **_apple(claims(exp="1729045091"), cause="exp is not a timestamp")),
    Mode("apple exp over", **_apple(moved(exp=-121, iat=-600), cause="exp has passed")),
    Mode("apple a stranger's key", **_apple(token(lambda f, c: STRANGER.sign(c)), cause=NOT_FITTING)),
    Mode(
        "apple our own key",
        **_apple(both(signers(RSA, SIGNING_KEY), token(lambda f, c: SIGNING_KEY.sign(c))), cause="alg is not RS256"),
    ),
    Mode("apple secret refused", **_apple(always(TOKEN, error("invalid_client")), MISCONFIGURED, "client_secret_env")),
    Mode("apple code refused", **_apple(always(TOKEN, error("invalid_grant")), cause="used before")),
    Mode("apple 503", **_apple(always(TOKEN, _text(MARK, 503)), UNAVAILABLE, "answered 503")),
)

EXCHANGES = (*SIGNATURES, *CLAIMS, *KEY_SETS, *TOKENS, *USERS, *GITHUB, *TWITCH, *MICROSOFT, *APPLE)

if __name__ == "__main__":
    for mode in EXCHANGES:
        print(f"{mode.name:40} {mode.outcome.value if mode.outcome else '-':24} {mode.cause}")
