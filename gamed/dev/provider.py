"""The development provider is one Klein app that emulates the presets below one address, in memory.

Tests use it through `StubTreq(DevelopmentProvider(...).app.resource())`, or on a loopback port; `gamed dev` runs it
beside the service. `sent` holds the last requests for tests. Every page says that this is not the real provider.
"""

from collections import deque
from collections.abc import Callable, Mapping
from functools import cache
from json import dumps
from typing import Any, cast
from urllib.parse import parse_qsl, urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from joserfc.jwk import RSAKey
from klein import Klein
from msgspec import Struct
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.python.failure import Failure
from twisted.web.iweb import IRequest

from gamed.crypto import Random, Secret
from gamed.dev import documents
from gamed.dev.clients import (
    BY_KEY,
    DISCORD,
    EMULATED,
    GOOGLE,
    PEOPLE,
    PERSONAL,
    SIDES,
    STEAM,
    Client,
    EmulatedProvider,
    SamplePerson,
)
from gamed.dev.grants import (
    KEPT,
    AuthorizationError,
    AuthorizeParameters,
    Grant,
    GrantError,
    Grants,
    ResponseMode,
    UntrustedClient,
    authenticate,
    callback_url,
    validate_request,
)
from gamed.dev.steam import SteamAssertions, SteamRequest, confirmation
from gamed.structs import redacts
from gamed.timestamps import Now

MODE_TEXTS = {
    ResponseMode.AT_ONCE: "answers at once",
    ResponseMode.SLOW: "takes 3 seconds",
    ResponseMode.FAIL: "fails",
}
SLOW_SECONDS = 3
MAX_FORM_BYTES = 16 * 1024


@redacts("query", "headers", "body")
class RecordedRequest(Struct, frozen=True):
    """A request that this provider received."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    """Names in lower case; a repeated field is joined by a comma."""
    body: bytes

    @classmethod
    def of(cls, request: IRequest) -> "RecordedRequest":
        """Record a request of twisted.web."""
        raw = cast(Any, request)
        path, _, query = raw.uri.decode("latin-1").partition("?")
        headers = {
            name.decode("latin-1").lower(): ", ".join(value.decode("latin-1") for value in values)
            for name, values in raw.requestHeaders.getAllRawHeaders()
        }
        return cls(raw.method.decode("latin-1"), path, query, headers, raw.content.read(MAX_FORM_BYTES))

    @property
    def form(self) -> dict[str, str]:
        """Return the members of a form in which no name is repeated, otherwise an empty mapping."""
        if self.headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
            return {}
        pairs = parse_qsl(self.body.decode("utf-8", "replace"), keep_blank_values=True)
        return dict(pairs) if len(dict(pairs)) == len(pairs) else {}


def respond(request: IRequest, status: int, kind: str, body: bytes, **headers: str) -> bytes:
    """Set status and headers of a response that nothing may keep; return its body."""
    raw = cast(Any, request)
    raw.setResponseCode(status)
    fields = {"Content-Type": kind, "Cache-Control": "no-store", "Referrer-Policy": "no-referrer", **headers}
    for name, value in fields.items():
        raw.setHeader(name, value)
    return body


def json(request: IRequest, value: Mapping[str, object], status: int = 200) -> bytes:
    return respond(request, status, "application/json", dumps(value).encode())


def page(request: IRequest, title: str, status: int = 200, **content: object) -> bytes:
    """Return a page with a text, or with a query and the people who may continue."""
    modes = [(mode.value, text) for mode, text in MODE_TEXTS.items()]
    body = _template().render(title=title, people=PEOPLE, modes=modes, **content)
    return respond(request, status, "text/html; charset=utf-8", body.encode())


@cache
def _template() -> Template:
    environment = Environment(loader=PackageLoader("gamed", "dev"), autoescape=True, undefined=StrictUndefined)
    return environment.get_template("page.html")


class Rejected(Exception):
    """A request that gets a status and a text: for another host name, or without the required User-Agent.

    A web page could point its own name at this machine.
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


BROWSED = ("GET", "POST")
"""The methods of a page with a form that is sent to its own address."""
TENANTS = {"common": documents.TENANT, "consumers": PERSONAL}
"""The tenants of issuers by the name in the address, for which there are metadata and keys."""
AUTHORIZE = {
    documents.DISCORD_AUTHORIZE: DISCORD,
    documents.GOOGLE_AUTHORIZE: GOOGLE,
    **{f"/{name}/authorize": provider for name, provider in SIDES.items()},
    documents.STEAM_LOGIN: STEAM,
}
USERS: Mapping[str, tuple[Callable[[SamplePerson], Mapping[str, object]], Mapping[str, object]]] = {
    "discord": (documents.discord_user, {"message": "401: Unauthorized", "code": 0}),
    "github": (documents.github_user, {"message": "Bad credentials", "status": "401"}),
}
"""The account of a person, and the response to an invalid access token."""


class DevelopmentProvider:
    """All emulated providers. `base` is their address and the issuer of Google; `clients` are those of all.

    `key` signs their ID tokens, by default a new one.
    """

    app = Klein()

    def __init__(
        self,
        base: str,
        clients: tuple[Client, ...],
        clock: IReactorTime,
        now_ms: Now,
        random: Random,
        *,
        key: RSAKey | None = None,
    ) -> None:
        self.base = base
        self.clients = clients
        self.sent: deque[RecordedRequest] = deque(maxlen=KEPT)
        self.key = key or documents.new_key("development-1")
        self.grants = Grants(now_ms, random)
        self.steam = SteamAssertions(base + documents.STEAM_LOGIN, now_ms, random)
        self._clock = clock
        self._now_ms = now_ms

    def sign_in(self, url: str, person: str, mode: ResponseMode = ResponseMode.AT_ONCE) -> str:
        """Return the callback after a person opened `url` and continued as `person`; "" denies. For tests."""
        parts = urlsplit(url)
        provider = AUTHORIZE[parts.path]
        return self._answer(provider, self._validate(provider, parts.query), _person(person), mode)

    # -- requests of browsers --

    @app.route("/", methods=["GET"])
    def front(self, request: IRequest) -> bytes:
        self._record(request)
        names = ", ".join(provider.name for provider in AUTHORIZE.values())
        return page(request, f"This plays {names}", text="There is nothing to do here: sign in from a game.")

    @app.route(documents.DISCORD_AUTHORIZE, methods=BROWSED, defaults={"side": "discord"})
    @app.route(documents.GOOGLE_AUTHORIZE, methods=BROWSED, defaults={"side": "google"})
    @app.route(documents.SIDE_AUTHORIZE, methods=BROWSED)
    def authorize(self, request: IRequest, side: str) -> bytes:
        return self._choose(request, self._record(request), EMULATED[side])

    @app.route(documents.STEAM_LOGIN, methods=BROWSED)
    async def steam_login(self, request: IRequest) -> bytes:
        """Answer browsers, and the direct verification, which has the same address."""
        sent = self._record(request)
        if sent.form.get("openid.mode") != "check_authentication":
            return self._choose(request, sent, STEAM)
        mode = self.steam.confirm(sent.form)
        if mode is not None:
            await self._wait(mode)
        return respond(request, 200, "text/plain;charset=utf-8", confirmation(mode is not None))

    def _choose(self, request: IRequest, sent: RecordedRequest, provider: EmulatedProvider) -> bytes:
        """Show the people to choose from; redirect after the choice, and at once after a client's mistake."""
        form = sent.form if sent.method == "POST" else {"query": sent.query, "person": ""}
        try:
            asked = self._validate(provider, form.get("query", ""))
            person = _person(form.get("person", "?"))
            mode = ResponseMode(form.get("manner", ResponseMode.AT_ONCE.value))
        except (UntrustedClient, ValueError) as e:
            return page(request, f"{provider.name} would not go on", 400, text=str(e))
        if sent.method == "GET" and not isinstance(asked, AuthorizationError):
            client = asked.realm if isinstance(asked, SteamRequest) else asked.client.client_id
            title, scope = f"This plays {provider.name}", provider.scope
            return page(request, title, name=provider.name, client=client, scope=scope, query=sent.query)
        return respond(request, 303, "text/plain", b"", Location=self._answer(provider, asked, person, mode))

    def _validate(
        self, provider: EmulatedProvider, query: str
    ) -> AuthorizeParameters | AuthorizationError | SteamRequest:
        if provider is STEAM:
            return self.steam.validate(query)
        return validate_request(provider, query, self.clients)

    def _answer(
        self,
        provider: EmulatedProvider,
        asked: AuthorizeParameters | AuthorizationError | SteamRequest,
        person: SamplePerson | None,
        mode: ResponseMode,
    ) -> str:
        """Return the callback; Google adds `iss` and further parameters to it."""
        if isinstance(asked, SteamRequest):
            return self.steam.answer(asked, person, mode)
        issuer = {"iss": self.base} if provider.iss else {}
        if person is None and isinstance(asked, AuthorizeParameters):
            asked = AuthorizationError(asked, provider.denial, "The person said no")
        if isinstance(asked, AuthorizationError):
            members = {"error": asked.error, "error_description": asked.description, **issuer}
            return callback_url(asked.parameters, members)
        assert person is not None
        extra = {"scope": provider.scope, "authuser": "0", "prompt": "consent"} if provider is GOOGLE else {}
        return callback_url(asked, {**issuer, "code": self.grants.issue(asked, person, mode), **extra})

    # -- requests of the service --

    @app.route(documents.DISCORD_TOKEN, methods=["POST"], defaults={"side": "discord"})
    @app.route(documents.GOOGLE_TOKEN, methods=["POST"], defaults={"side": "google"})
    @app.route(documents.SIDE_TOKEN, methods=["POST"])
    async def token(self, request: IRequest, side: str) -> bytes:
        provider = EMULATED[side]
        return json(request, self.tokens(provider, await self._redeem(request, provider)))

    @app.route(documents.DISCORD_USER, methods=["GET"], defaults={"side": "discord"})
    @app.route(documents.GITHUB_USER, methods=["GET"], defaults={"side": "github"})
    def user(self, request: IRequest, side: str) -> bytes:
        sent = self._record(request, EMULATED[side])
        describe, refusal = USERS[side]
        scheme, _, token = sent.headers.get("authorization", "").partition(" ")
        person = self.grants.owner(token) if scheme == "Bearer" else None
        return json(request, refusal, 401) if person is None else json(request, describe(person))

    @app.route(documents.DISCOVERY, methods=["GET"])
    def discovery(self, request: IRequest) -> bytes:
        self._record(request)
        return json(request, self.metadata())

    @app.route(documents.SIDE_DISCOVERY, methods=["GET"])
    @app.route(documents.TENANT_DISCOVERY, methods=["GET"], defaults={"side": "microsoft"})
    def side_discovery(self, request: IRequest, side: str, tenants: str = "") -> bytes:
        self._record(request)
        base = f"{self.base}/{side}"
        issuer, keys = (self.tenant_issuer(TENANTS[tenants]), f"{base}/{tenants}") if tenants else (base, base)
        addresses = issuer, f"{base}/authorize", f"{base}/token", f"{keys}/keys"
        return json(request, documents.discovery(EMULATED[side], *addresses))

    @app.route(documents.GOOGLE_KEYS, methods=["GET"])
    @app.route(documents.SIDE_KEYS, methods=["GET"])
    @app.route(documents.TENANT_KEYS, methods=["GET"])
    def keys(self, request: IRequest, side: str = "", tenants: str = "") -> bytes:
        self._record(request)
        named = {"issuer": self.tenant_issuer(TENANTS[tenants])} if tenants else {}
        return json(request, {"keys": [{**self.key.as_dict(private=False), **named}]})

    # -- responses to the service; a test may override these --

    def metadata(self) -> dict[str, Any]:
        paths = documents.GOOGLE_AUTHORIZE, documents.GOOGLE_TOKEN, documents.GOOGLE_KEYS
        return documents.discovery(GOOGLE, self.base, *(self.base + path for path in paths))

    def tokens(self, provider: EmulatedProvider, grant: Grant) -> dict[str, Any]:
        access_token = self.grants.token(grant.person)
        found = {"access_token": access_token, **provider.tokens}
        if "refresh_token" in found:
            found["refresh_token"] = self.grants.token(grant.person)
        if provider.openid:
            claims = documents.claims(grant.parameters, access_token, self._now_ms())
            found["id_token"] = documents.sign(self.key, {**claims, **self.named(provider, grant.person)})
        return found

    def named(self, provider: EmulatedProvider, person: SamplePerson) -> dict[str, str]:
        """Return the claims of an ID token that name the account."""
        subject = person.subjects[provider.side]
        if not provider.tenants:
            return {"iss": self.base if provider is GOOGLE else f"{self.base}/{provider.side}", "sub": subject}
        tenant, _, subject = subject.partition("/")
        return {"iss": self.tenant_issuer(tenant), "sub": subject, "tid": tenant, "ver": "2.0"}

    def tenant_issuer(self, tenant: str) -> str:
        return f"{self.base}/microsoft/{tenant}/v2.0"

    async def _redeem(self, request: IRequest, provider: EmulatedProvider) -> Grant:
        sent = self._record(request, provider)
        if not sent.form:
            raise GrantError(400, "invalid_request", "expected a form")
        authorization = sent.headers.get("authorization")
        client = authenticate(provider, self.clients, authorization, sent.form, self._is_signed_secret)
        grant = self.grants.redeem(client, sent.form)
        await self._wait(grant.mode)
        return grant

    async def _wait(self, mode: ResponseMode) -> None:
        """Behave as the person chose on the page."""
        if mode is ResponseMode.FAIL:
            raise GrantError(503, "temporarily_unavailable", "as was wished")
        if mode is ResponseMode.SLOW:
            await deferLater(self._clock, SLOW_SECONDS)

    def _is_signed_secret(self, client: Client, secret: Secret) -> bool:
        return documents.is_signed_secret(client, secret, f"{self.base}/apple", self._now_ms())

    def _record(self, request: IRequest, provider: EmulatedProvider | None = None) -> RecordedRequest:
        """Record the request; raise Rejected if it is for another host name.

        Raise it also if this provider, which the service asks, requires another User-Agent (Discord's Cloudflare).
        """
        sent = RecordedRequest.of(request)
        self.sent.append(sent)
        if sent.headers.get("host") != urlsplit(self.base).netloc:
            raise Rejected(421, "Not by this name.")
        agent = sent.headers.get("user-agent", "")
        if provider and not (agent and (provider.agent is None or provider.agent.fullmatch(agent))):
            raise Rejected(403, "error code: 1010")
        return sent

    # -- errors --

    @app.handle_errors(GrantError)
    def refuse(self, request: IRequest, failure: Failure) -> bytes:
        refusal = cast(GrantError, failure.value)
        return json(request, refusal.members, refusal.status)

    @app.handle_errors(Rejected)
    def reject(self, request: IRequest, failure: Failure) -> bytes:
        rejected = cast(Rejected, failure.value)
        body = f"<html><body>{rejected}</body></html>".encode()
        return respond(request, rejected.status, "text/html; charset=utf-8", body)


def _person(key: str) -> SamplePerson | None:
    """Return the person with this key, None for "", which denies; raise ValueError for others."""
    if key and key not in BY_KEY:
        raise ValueError("There is no such person.")
    return BY_KEY[key] if key else None
