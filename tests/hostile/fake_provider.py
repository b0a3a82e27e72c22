"""Providers that can be set to misbehave; at first both are correct."""

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from joserfc import jwt
from joserfc.jwk import ECKey

from gamed.config.model import Preset, Provider, ProviderProtocol
from gamed.config.providers import PRESETS
from gamed.crypto import Secret
from gamed.providers.discovery import metadata_url
from tests.providers.fake_provider import (
    CLIENT_SECRET,
    ISSUER,
    Call,
    FakeDiscord,
    FakeHttpProvider,
    FakeOpenIdProvider,
    Reply,
)
from tests.providers.fake_steam import FakeSteam
from tests.providers.signing import CLIENT_ID, claims_of, ec

MARK = "Xyzzy"
"""A word in every text of a provider: no log, page or response of gamed may repeat it."""
ACCESS = "opaque-access-token"
SUBJECT = "player-7"
ABSENT = object()
"""A claim that is omitted."""
Forge = Callable[["Idp", Mapping[str, object]], str]

DISCOVERY, KEYS, TOKEN = "/.well-known/openid-configuration", "/keys", "/token"
DISCORD_TOKEN, DISCORD_USER = "/api/v10/oauth2/token", "/api/v10/users/@me"
GITHUB_TOKEN, GITHUB_USER = "/login/oauth/access_token", "/user"


def honest(fake: "Idp", claims: Mapping[str, object]) -> str:
    return fake.signer.sign(claims)


class Idp(FakeOpenIdProvider):
    """A provider whose tokens match the nonce and the time of the sign-in; `changes` and `forge` falsify them."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        super().__init__()
        self.now_ms = now_ms
        self.nonce = ""
        self.changes: dict[str, object] = {}
        self.forge: Forge = honest
        self.metadata |= {"authorization_endpoint": f"{ISSUER}/authorize"}

    def tokens(self, **more: object) -> dict[str, object]:
        good = claims_of(ISSUER, self.now_ms() // 1000, self.nonce)
        claims = {name: value for name, value in (good | self.changes).items() if value is not ABSENT}
        return {"access_token": ACCESS, "token_type": "Bearer", "id_token": self.forge(self, claims)} | more

    def visited(self, url: str) -> None:
        """Record that a browser was redirected to this address."""
        self.nonce = dict(parse_qsl(urlsplit(url).query))["nonce"]


class Twitch(Idp):
    """A Twitch; the issuer of its claims is its own."""

    issuer_url = "https://id.twitch.tv/oauth2"

    def __init__(self, now_ms: Callable[[], int]) -> None:
        super().__init__(now_ms)
        self.metadata |= {"issuer": self.issuer_url, "token_endpoint_auth_methods_supported": ["client_secret_post"]}
        self.usual[urlsplit(metadata_url(self.issuer_url)).path] = lambda _: Reply.json(self.metadata)

    def tokens(self, **more: object) -> dict[str, object]:
        self.changes = {"iss": self.issuer_url, "azp": CLIENT_ID, "sub": "44322889"} | self.changes
        return {**super().tokens(), "scope": ["openid"], "token_type": "bearer", **more}


PERSONAL, WORK = "9188040d-6c67-4c5b-b112-36a304b66dad", "8eaef023-2b34-4da1-9baa-8bc8c9d6a490"


def tenant_issuer(tenant: str) -> str:
    return f"https://login.microsoftonline.com/{tenant}/v2.0"


class Microsoft(Idp):
    """Microsoft's tenants: the metadata have the template, and the person is of an organization."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        super().__init__(now_ms)
        self.metadata |= {"issuer": tenant_issuer("{tenantid}")}
        self.key_issuer: object = tenant_issuer("{tenantid}")
        self.usual[urlsplit(metadata_url(tenant_issuer("common"))).path] = lambda _: Reply.json(self.metadata)
        self.usual[KEYS] = lambda _: Reply.json({"keys": [self.published(signer.public) for signer in self.signers]})

    def published(self, key: Mapping[str, object]) -> dict[str, object]:
        return {**key, **({} if self.key_issuer is ABSENT else {"issuer": self.key_issuer})}

    def tokens(self, **more: object) -> dict[str, object]:
        self.changes = {"iss": tenant_issuer(WORK), "tid": WORK, "ver": "2.0"} | self.changes
        return super().tokens(**more)


SIGNING_KEY = ec("ABC123DEFG")


class Apple(Idp):
    """An Apple that verifies the client secret, which is a JWT of this server."""

    issuer_url = "https://appleid.apple.com"

    def __init__(self, now_ms: Callable[[], int]) -> None:
        super().__init__(now_ms)
        self.metadata |= {"issuer": self.issuer_url, "token_endpoint_auth_methods_supported": ["client_secret_post"]}
        self.usual[TOKEN] = self._token

    def _token(self, call: Call) -> Reply:
        token = jwt.decode(call.form["client_secret"], ECKey.import_key(dict(SIGNING_KEY.public)), algorithms=["ES256"])
        now = self.now_ms() // 1000
        right = {"iss": "DEF123GHIJ", "sub": CLIENT_ID, "aud": self.issuer_url, "iat": now - 120, "exp": now + 3600}
        assert (token.claims, token.header["kid"]) == (right, "ABC123DEFG"), token
        return Reply.json(self.tokens())

    def tokens(self, **more: object) -> dict[str, object]:
        person = {
            "iss": self.issuer_url,
            "sub": "000792.d71059495fa24644b94e4a644e2e3b4a.0638",
            "nonce_supported": True,
        }
        self.changes = person | self.changes
        return super().tokens(**more)


class Discord(FakeDiscord):
    def __init__(self, now_ms: Callable[[], int]) -> None:
        super().__init__()
        self.now_ms = now_ms

    def visited(self, url: str) -> None: ...

    def _token(self, call: Call) -> Reply:
        return Reply.json({"access_token": f"{ACCESS}-{call.form['code'].rpartition('-')[2]}", "token_type": "Bearer"})


class GitHub(Discord):
    """A GitHub whose accounts have a number, and whose token endpoint takes the secret in the form."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        super().__init__(now_ms)
        self.usual = {GITHUB_TOKEN: self._token, GITHUB_USER: self._me}

    def _token(self, call: Call) -> Reply:
        if "authorization" in call.headers or call.form.get("client_secret") != CLIENT_SECRET:
            return Reply.json({"error": "incorrect_client_credentials"})
        return super()._token(call)

    def _me(self, call: Call) -> Reply:
        number = call.headers["authorization"][0].rpartition("-")[2]
        return Reply.json({"id": int(number), "login": "anna", "node_id": "MDQ6VXNlcjE="})


class Steam(FakeSteam):
    def visited(self, url: str) -> None: ...


FAKES: Mapping[str, type[Idp] | type[Discord] | type[Steam]] = {
    "idp": Idp,
    "discord": Discord,
    "github": GitHub,
    "twitch": Twitch,
    "microsoft": Microsoft,
    "apple": Apple,
    "steam": Steam,
}


def settings_of(name: str, home: str = "") -> Provider:
    """Return the provider's settings as in the owner's file; `home` is its real address, if not its own name."""
    common: dict[str, Any] = {"name": name, "client_id": CLIENT_ID, "client_secret": Secret(CLIENT_SECRET.encode())}
    if name == "idp":
        oidc = {"preset": Preset(ProviderProtocol.OIDC), "label": "Idp", "scopes": ("openid",)}
        return Provider(**common, **oidc, issuer=home or ISSUER)
    preset = PRESETS[name]
    if preset.signs_secret:
        pem = SIGNING_KEY.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        common["client_secret"] = Secret(pem)
    addresses = dict(preset.endpoints)
    for member in ("token_endpoint", "userinfo_endpoint"):
        if home and member in addresses:
            addresses[member] = home + urlsplit(addresses[member]).path
    return Provider(
        **common,
        preset=preset,
        label=preset.label or name,
        scopes=preset.scopes,
        issuer=tenant_issuer("common") if preset.tenants else preset.issuer,
        **addresses,
        subject_field=preset.subject_field,
        team_id="DEF123GHIJ" if preset.signs_secret else None,
        key_id="ABC123DEFG" if preset.signs_secret else None,
    )


__all__ = ["CLIENT_SECRET", "ISSUER", "FakeHttpProvider", "Reply"]
