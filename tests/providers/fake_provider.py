"""These fake providers in memory record requests, and send the responses that a test sets.

fixture = ProviderFixture(discord())
fixture.fake.script("/token", Reply(503, headers={"Retry-After": "2"}))      # once; then as usual again
identity = self.successResultOf(fixture.identify("code-1"))
fixture.fake.calls("/token")[0].form["code"]
"""

from base64 import b64decode
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping
from itertools import count
from json import dumps
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from msgspec import Struct, field
from treq.testing import RequestTraversalAgent
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.web.iweb import IAgent
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET

from gamed.config.model import Preset, Provider, ProviderProtocol
from gamed.config.providers import DISCORD, OPENID, PRESETS
from gamed.crypto import Secret
from gamed.providers.base import AuthorizationRequest, AuthorizationUrl, ExternalIdentity, IdentityProvider
from gamed.providers.discovery import metadata_url
from gamed.providers.messages import challenge_of
from gamed.providers.oidc import build_providers
from gamed.timestamps import http_date
from tests.providers.signing import ES, RSA, Signer, claims_of

PUBLIC_URL = "https://game.example"
START_MS = 1_800_000_000_000
VERIFIER = Secret(b"v" * 86)
NONCE = "n" * 43
CLIENT_SECRET = "s:e c%ret+/="
ISSUER = "https://id.example"


class Call(Struct, frozen=True):
    """A request that the fake provider received."""

    method: str
    url: str
    headers: Mapping[str, list[str]]
    """Names in lower case."""
    body: bytes

    @property
    def path(self) -> str:
        """Return the path; Apple's two, which its preset has, are those of the fake provider."""
        path = urlsplit(self.url).path
        return path.removeprefix("/auth") if path in ("/auth/token", "/auth/keys") else path

    @property
    def form(self) -> dict[str, str]:
        pairs = parse_qsl(self.body.decode(), keep_blank_values=True, strict_parsing=True)
        assert len(dict(pairs)) == len(pairs), "a field stands twice"
        return dict(pairs)

    @property
    def basic(self) -> str:
        kind, _, value = self.headers["authorization"][0].partition(" ")
        assert kind == "Basic"
        return b64decode(value, validate=True).decode()


class Reply(Struct, frozen=True):
    """A response; with `hang` none is sent until `ProviderFixture.release`."""

    status: int = 200
    body: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=dict)
    hang: bool = False

    @classmethod
    def json(cls, value: object, status: int = 200, **headers: str) -> "Reply":
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        return cls(status, dumps(value).encode(), {"Content-Type": "application/json", **named})


class FakeHttpProvider(Resource):
    """A resource for every URL of every provider; an unknown URL is answered 404."""

    isLeaf = True

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Call] = []
        self.usual: dict[str, Callable[[Call], Reply]] = {}
        self.held: list[Any] = []
        self._scripts: dict[str, list[Reply]] = defaultdict(list)
        self.clock_ms: Callable[[], int | None] = lambda: None

    def script(self, path: str, *replies: Reply) -> None:
        """Set the next responses of a path, before its usual one."""
        self._scripts[path] += replies

    def always(self, path: str, reply: Reply) -> None:
        self.usual[path] = lambda _: reply

    def calls(self, path: str) -> list[Call]:
        return [call for call in self.seen if call.path == path]

    def render(self, request: Any) -> Any:
        headers = {
            name.decode().lower(): [value.decode() for value in values]
            for name, values in request.requestHeaders.getAllRawHeaders()
        }
        scheme = "https" if request.isSecure() else "http"
        url = f"{scheme}://{headers['host'][0]}{request.uri.decode()}"
        call = Call(request.method.decode(), url, headers, request.content.read())
        self.seen.append(call)
        scripted = self._scripts[call.path]
        usual = self.usual.get(call.path, lambda _: Reply(404, b"nothing here"))
        return self.write(request, scripted.pop(0) if scripted else usual(call))

    def write(self, request: Any, reply: Reply) -> Any:
        if reply.hang:
            self.held.append(request)
            return NOT_DONE_YET
        request.setResponseCode(reply.status)
        now_ms = self.clock_ms()
        request.responseHeaders.removeHeader("date")
        if now_ms is not None:
            request.setHeader("Date", http_date(now_ms))
        for name, value in reply.headers.items():
            request.setHeader(name, value)
        return reply.body


class FakeDiscord(FakeHttpProvider):
    """A fake Discord, whose codes name their account: `code-7` is the account 7."""

    def __init__(self) -> None:
        super().__init__()
        self.usual["/api/v10/oauth2/token"] = self._token
        self.usual["/api/v10/users/@me"] = self._me

    def _token(self, call: Call) -> Reply:
        return Reply.json({"access_token": "at." + call.form["code"], "token_type": "Bearer", "expires_in": 604800})

    def _me(self, call: Call) -> Reply:
        return Reply.json({"id": call.headers["authorization"][0].rpartition("-")[2], "username": "anna"})


class FakeOpenIdProvider(FakeHttpProvider):
    """A fake OpenID provider at ISSUER; a test changes `claims` and `metadata`."""

    def __init__(self, issuer: str = ISSUER) -> None:
        super().__init__()
        self.issuer = issuer
        self.signers: list[Signer] = [RSA]
        self.signer: Signer = RSA
        self.claims: dict[str, object] = claims_of(issuer, START_MS // 1000, NONCE)
        self.metadata: dict[str, object] = {
            "issuer": issuer,
            "authorization_endpoint": f"{ISSUER}/authorize?tenant=7",
            "token_endpoint": f"{ISSUER}/token",
            "jwks_uri": f"{ISSUER}/keys",
            "id_token_signing_alg_values_supported": ["RS256", "ES256"],
        }
        self.usual["/.well-known/openid-configuration"] = lambda _: Reply.json(self.metadata)
        self.usual[urlsplit(metadata_url(issuer)).path] = lambda _: Reply.json(self.metadata)
        self.usual["/keys"] = lambda _: Reply.json({"keys": [signer.public for signer in self.signers]})
        self.usual["/token"] = lambda _: Reply.json(self.tokens())

    def tokens(self, **more: object) -> dict[str, object]:
        issued = {"access_token": "unused", "token_type": "Bearer", "id_token": self.signer.sign(self.claims)}
        return {**issued, **more}


class ProviderFixture:
    """A provider as the service builds it, with its fake and the clock of both."""

    def __init__(self, fake: FakeHttpProvider, settings: Provider, late_ms: int = 0) -> None:
        """`late_ms` is how much this machine's wall clock is ahead of the real time."""
        self.fake = fake
        self.settings = settings
        self.clock = Clock()
        self.late_ms = late_ms
        self.numbers = count()
        """Numbers of the logins for which codes are redeemed."""
        self.agent: Any = RequestTraversalAgent(fake)
        self.provider = self.build(self.agent)

    def build(self, agent: IAgent) -> IdentityProvider:
        return build_providers({self.settings.name: self.settings}, PUBLIC_URL, agent, self.clock, self.now_ms)[
            self.settings.name
        ]

    def release(self, reply: Reply) -> None:
        """Send this response to the requests that hang."""
        held, self.fake.held = self.fake.held, []
        for request in held:
            request.write(self.fake.write(request, reply))
            request.finish()
        self.agent.flush()

    def now_ms(self) -> int:
        return START_MS + int(self.clock.seconds() * 1000) + self.late_ms

    def identify(
        self,
        code: str = "code-7",
        nonce: str | None = NONCE,
        login_id: str | None = None,
        *,
        asked_ms: int | None = None,
    ) -> "Coroutine[Any, Any, ExternalIdentity]":
        """Redeem a code for a login, a new one each time unless `login_id` names it."""
        redirect_uri = f"{PUBLIC_URL}/auth/{self.settings.name}/callback"
        login_id = login_id or f"lgn_{next(self.numbers)}"
        redeemed = Secret(code.encode())
        return whole(self.provider.identify(redeemed, VERIFIER, nonce, redirect_uri, login_id, asked_ms=asked_ms))

    def go(self, nonce: str | None = NONCE, *, ask_again: bool = False) -> "Coroutine[Any, Any, AuthorizationUrl]":
        redirect_uri = f"{PUBLIC_URL}/auth/{self.settings.name}/callback"
        request = AuthorizationRequest("s" * 43, challenge_of(VERIFIER), nonce, redirect_uri, ask_again)
        return whole(self.provider.authorization_url(request))


async def whole(waiting: Any) -> Any:
    """Return a Deferred for trial's successResultOf."""
    return await waiting


def started(coroutine: "Coroutine[Any, Any, Any]") -> "Deferred[Any]":
    return Deferred.fromCoroutine(coroutine)


def discord(**changes: Any) -> ProviderFixture:
    preset: dict[str, Any] = {
        "authorization_endpoint": "https://discord.com/oauth2/authorize",
        "token_endpoint": "https://discord.com/api/v10/oauth2/token",
        "userinfo_endpoint": "https://discord.com/api/v10/users/@me",
        "subject_field": "id",
        "identity_namespace": None,
    }
    return ProviderFixture(FakeDiscord(), _settings("discord", DISCORD, "Discord", ("identify",), **(preset | changes)))


class FakeGitHub(FakeDiscord):
    """A fake GitHub, whose ids are numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.usual = {"/login/oauth/access_token": self._token, "/user": self._me}

    def _me(self, call: Call) -> Reply:
        return Reply.json({"id": int(call.headers["authorization"][0].rpartition("-")[2]), "login": "anna"})


def github() -> ProviderFixture:
    preset = PRESETS["github"]
    more = {**preset.endpoints, "subject_field": preset.subject_field}
    return ProviderFixture(FakeGitHub(), _settings("github", preset, "GitHub", preset.scopes, **more))


def generic(**changes: Any) -> ProviderFixture:
    """Return an OAuth 2.0 provider that is not a preset."""
    endpoints: dict[str, Any] = {
        "authorization_endpoint": "https://forge.example/login/oauth/authorize",
        "token_endpoint": "https://forge.example:8443/api/v10/oauth2/token",
        "userinfo_endpoint": "https://forge.example:8443/api/v10/users/@me",
        "subject_field": "id",
    }
    return ProviderFixture(
        FakeDiscord(), _settings("forge", Preset(ProviderProtocol.OAUTH2), "Forge", (), **(endpoints | changes))
    )


def openid(name: str = "idp", issuer: str = ISSUER, late_ms: int = 0, **more: Any) -> ProviderFixture:
    preset = PRESETS.get(name, OPENID)
    settings = _settings(name, preset, name.title(), ("openid",), issuer=issuer, **more)
    return ProviderFixture(FakeOpenIdProvider(issuer), settings, late_ms=late_ms)


def _settings(name: str, preset: Preset, label: str, scopes: tuple[str, ...], **more: Any) -> Provider:
    return Provider(name, preset, "client:7", Secret(CLIENT_SECRET.encode()), label, scopes, **more)


__all__ = [
    "ES",
    "PUBLIC_URL",
    "RSA",
    "Call",
    "FakeDiscord",
    "FakeHttpProvider",
    "FakeOpenIdProvider",
    "ProviderFixture",
    "Reply",
    "discord",
    "generic",
    "github",
    "openid",
    "started",
]
