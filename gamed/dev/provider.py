"""The development provider is one Klein app that emulates the presets below one address, in memory.

Tests use it through `StubTreq(DevelopmentProvider(...).app.resource())`, or on a loopback port; `gamed dev` runs it
beside the service. `sent` holds the last requests for tests. Every page says that this is not the real provider.
"""

from collections import deque
from collections.abc import Mapping
from json import dumps
from typing import Any, cast
from urllib.parse import parse_qsl, urlsplit

from joserfc.jwk import RSAKey
from klein import Klein
from msgspec import Struct
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.python.failure import Failure
from twisted.web.iweb import IRequest
from twisted.web.template import Tag, flatten, tags

from gamed.crypto import Random, Secret
from gamed.dev import documents
from gamed.dev.clients import (
    BY_KEY,
    DISCORD,
    EMULATED,
    GITHUB,
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
from gamed.dev.steam import SteamAssertions, confirmation
from gamed.structs import redacts
from gamed.timestamps import Now

MARK = "Development provider"
MODE_TEXTS = {
    ResponseMode.AT_ONCE: "answers at once",
    ResponseMode.SLOW: "takes 3 seconds",
    ResponseMode.FAIL: "fails",
}
STYLE = """
:root { color-scheme: light dark; }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 27rem; margin: 0 auto; padding: 1rem; }
header { border: 3px dashed; padding: .5rem 1rem; }
button { display: block; width: 100%; margin: .5rem 0; padding: .625rem; font: inherit; }
fieldset { margin: 1rem 0; }
"""


def choice_page(provider: EmulatedProvider, client_id: str, query: str) -> bytes:
    """Return the page on which a person chooses an account and the response mode; the form contains `query`."""
    form = tags.form(method="post")(
        tags.input(type="hidden", name="query", value=query),
        *(tags.button(f"Continue as {person.name}", name="person", value=person.key) for person in PEOPLE),
        tags.button("Deny", name="person", value=""),
        tags.fieldset(
            tags.legend(f"When gamed asks then, {provider.name}"),
            *(
                tags.div(
                    tags.label(tags.input(type="radio", name="manner", value=mode.value, **_chosen(mode)), f" {text}")
                )
                for mode, text in MODE_TEXTS.items()
            ),
        ),
    )
    return _page(
        f"This plays {provider.name}",
        tags.p(
            tags.bdi(client_id),
            f" asks for {f'the scope “{provider.scope}”' if provider.scope else 'no scope'}. Who are you?",
        ),
        form,
    )


def error_page(provider: EmulatedProvider, reason: str) -> bytes:
    """Return the page that is shown instead of a redirect, with the mistake that the developer must correct."""
    return _page(f"{provider.name} would not go on", tags.p(reason))


def front_page() -> bytes:
    """Return the page at `/`."""
    return _page(
        f"This plays {', '.join(each.name for each in (*EMULATED.values(), STEAM))}",
        tags.p("There is nothing to do here: sign in from a game."),
    )


def _chosen(mode: ResponseMode) -> dict[str, str]:
    return {"checked": "checked"} if mode is ResponseMode.AT_ONCE else {}


def _page(title: str, *content: Tag) -> bytes:
    mark = tags.header(tags.strong(MARK), ": everybody can be anybody here. It runs on this machine only.")
    head = tags.head(
        tags.meta(charset="utf-8"),
        tags.meta(name="viewport", content="width=device-width, initial-scale=1"),
        tags.title(f"{title} - {MARK}"),
        tags.style(STYLE),
    )
    written: list[bytes] = []
    flatten(None, tags.html(head, tags.body(mark, Tag("main")(tags.h1(title), *content)), lang="en"), written.append)
    return b"<!DOCTYPE html>\n" + b"".join(written)


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


def json(request: IRequest, value: Mapping[str, Any], status: int = 200) -> bytes:
    return _body(request, status, "application/json", dumps(value).encode())


def html(request: IRequest, body: bytes, status: int = 200) -> bytes:
    return _body(request, status, "text/html; charset=utf-8", body)


def see_other(request: IRequest, url: str) -> bytes:
    cast(Any, request).setHeader("Location", url)
    return _body(request, 303, "text/plain", b"")


def _body(request: IRequest, status: int, kind: str, body: bytes) -> bytes:
    raw = cast(Any, request)
    raw.setResponseCode(status)
    for name, value in {"Content-Type": kind, "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}.items():
        raw.setHeader(name, value)
    return body


SLOW_SECONDS = 3


class WrongHost(Exception):
    """A request for another host name: a web page that points its own name at this machine gets an error."""


BROWSED = ("GET", "POST")
"""The methods of a page with a form that is sent to its own address."""
TENANTS = {"common": documents.TENANT, "consumers": PERSONAL}
"""The tenants of issuers by the name in the address, for which there are metadata and keys."""


class Blocked(Exception):
    """A request without the required User-Agent, which Discord's Cloudflare rejects."""


class UnknownSide(Exception):
    """A path that begins with a name that no emulated provider has."""


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
        if parts.path == documents.STEAM_LOGIN:
            return self.steam.answer(self.steam.validate(parts.query), _person(person), mode)
        side = SIDES.get(parts.path.split("/")[1], DISCORD)
        provider = GOOGLE if parts.path == documents.GOOGLE_AUTHORIZE else side
        return self._answer(provider, validate_request(provider, parts.query, self.clients), _person(person), mode)

    # -- requests of browsers --

    @app.route("/", methods=["GET"])
    def front(self, request: IRequest) -> bytes:
        self._record(request)
        return html(request, front_page())

    @app.route(documents.DISCORD_AUTHORIZE, methods=BROWSED, defaults={"side": "discord"})
    @app.route(documents.GOOGLE_AUTHORIZE, methods=BROWSED, defaults={"side": "google"})
    @app.route(documents.SIDE_AUTHORIZE, methods=BROWSED)
    def authorize(self, request: IRequest, side: str) -> bytes:
        return (self._choose if request.method == b"POST" else self._show)(request, EMULATED[side])

    @app.route(documents.STEAM_LOGIN, methods=["GET"])
    def steam_login(self, request: IRequest) -> bytes:
        sent = self._record(request)
        try:
            asked = self.steam.validate(sent.query)
        except UntrustedClient as e:
            return html(request, error_page(STEAM, str(e)), 400)
        return html(request, choice_page(STEAM, asked.realm, sent.query))

    @app.route(documents.STEAM_LOGIN, methods=["POST"])
    async def steam_choose(self, request: IRequest) -> bytes:
        """Answer the form of the page, and the direct verification, which has the same address."""
        form = self._record(request).form
        if form.get("openid.mode") == "check_authentication":
            return await self._confirm(request, form)
        try:
            asked, person = self.steam.validate(form.get("query", "")), _person(form.get("person", "?"))
            mode = ResponseMode(form.get("manner", ResponseMode.AT_ONCE.value))
        except (UntrustedClient, ValueError) as e:
            return html(request, error_page(STEAM, str(e)), 400)
        return see_other(request, self.steam.answer(asked, person, mode))

    async def _confirm(self, request: IRequest, form: Mapping[str, str]) -> bytes:
        mode = self.steam.confirm(form)
        if mode is ResponseMode.FAIL:
            raise GrantError(503, "temporarily_unavailable", "as was wished")
        if mode is ResponseMode.SLOW:
            await deferLater(self._clock, SLOW_SECONDS)
        return _body(request, 200, "text/plain;charset=utf-8", confirmation(mode is not None))

    def _show(self, request: IRequest, provider: EmulatedProvider) -> bytes:
        sent = self._record(request)
        try:
            asked = validate_request(provider, sent.query, self.clients)
        except UntrustedClient as e:
            return html(request, error_page(provider, str(e)), 400)
        if isinstance(asked, AuthorizationError):
            return see_other(request, self._answer(provider, asked, None, ResponseMode.AT_ONCE))
        return html(request, choice_page(provider, asked.client.client_id, sent.query))

    def _choose(self, request: IRequest, provider: EmulatedProvider) -> bytes:
        form = self._record(request).form
        try:
            asked = validate_request(provider, form.get("query", ""), self.clients)
            person, mode = (
                _person(form.get("person", "?")),
                ResponseMode(form.get("manner", ResponseMode.AT_ONCE.value)),
            )
        except (UntrustedClient, ValueError) as e:
            return html(request, error_page(provider, str(e)), 400)
        return see_other(request, self._answer(provider, asked, person, mode))

    def _answer(
        self,
        provider: EmulatedProvider,
        asked: AuthorizeParameters | AuthorizationError,
        person: SamplePerson | None,
        mode: ResponseMode,
    ) -> str:
        """Return the callback; Google adds `iss` and further parameters to it."""
        issuer = {"iss": self.base} if provider.iss else {}
        if isinstance(asked, AuthorizationError):
            return callback_url(
                asked.parameters, {"error": asked.error, "error_description": asked.description, **issuer}
            )
        if person is None:
            return callback_url(asked, {"error": provider.denial, "error_description": "The person said no", **issuer})
        code = self.grants.issue(asked, person, mode)
        extra = {"scope": provider.scope, "authuser": "0", "prompt": "consent"} if provider is GOOGLE else {}
        return callback_url(asked, {**issuer, "code": code, **extra})

    # -- requests of the service --

    @app.route(documents.DISCOVERY, methods=["GET"])
    def discovery(self, request: IRequest) -> bytes:
        self._record(request)
        return json(request, self.metadata())

    @app.route(documents.GOOGLE_KEYS, methods=["GET"])
    def google_keys(self, request: IRequest) -> bytes:
        self._record(request)
        return json(request, self.key_set())

    @app.route(documents.DISCORD_TOKEN, methods=["POST"], defaults={"side": "discord"})
    @app.route(documents.GOOGLE_TOKEN, methods=["POST"], defaults={"side": "google"})
    @app.route(documents.SIDE_TOKEN, methods=["POST"])
    async def token(self, request: IRequest, side: str) -> bytes:
        provider = EMULATED[side]
        return json(request, self.tokens(provider, await self._redeem(request, provider)))

    @app.route(documents.DISCORD_USER, methods=["GET"])
    def discord_user(self, request: IRequest) -> bytes:
        person = self._token_owner(request, DISCORD)
        if person is None:
            return json(request, {"message": "401: Unauthorized", "code": 0}, 401)
        return json(request, self.user(person))

    @app.route(documents.SIDE_USER, methods=["GET"])
    def side_user(self, request: IRequest, side: str) -> bytes:
        if EMULATED[side] is not GITHUB:
            raise UnknownSide
        person = self._token_owner(request, GITHUB)
        if person is None:
            return json(request, {"message": "Bad credentials", "status": "401"}, 401)
        return json(request, documents.github_user(person))

    @app.route(documents.SIDE_DISCOVERY, methods=["GET"])
    @app.route(documents.SIDE_TENANTS, methods=["GET"])
    def side_discovery(self, request: IRequest, side: str, tenants: str = "") -> bytes:
        self._record(request)
        provider, base = _openid_side(side, tenants), f"{self.base}/{side}"
        issuer = self.tenant_issuer(side, TENANTS[tenants]) if tenants else base
        keys = f"{base}/{tenants}/keys" if tenants else f"{base}/keys"
        return json(request, documents.discovery(provider, issuer, f"{base}/authorize", f"{base}/token", keys))

    @app.route(documents.SIDE_KEYS, methods=["GET"])
    @app.route(documents.TENANT_KEYS, methods=["GET"])
    def side_keys(self, request: IRequest, side: str, tenants: str = "") -> bytes:
        self._record(request)
        _openid_side(side, tenants)
        named = {"issuer": self.tenant_issuer(side, TENANTS[tenants])} if tenants else {}
        return json(request, {"keys": [{**key, **named} for key in self.key_set()["keys"]]})

    # -- responses to the service; a hostile provider overrides these --

    def metadata(self) -> dict[str, Any]:
        paths = documents.GOOGLE_AUTHORIZE, documents.GOOGLE_TOKEN, documents.GOOGLE_KEYS
        return documents.discovery(GOOGLE, self.base, *(self.base + path for path in paths))

    def key_set(self) -> dict[str, Any]:
        return documents.key_set(self.key)

    def user(self, person: SamplePerson) -> dict[str, Any]:
        return documents.discord_user(person)

    def tokens(self, provider: EmulatedProvider, grant: Grant) -> dict[str, Any]:
        access_token, id_token = self.grants.token(grant.person), None
        if provider.openid:
            id_token = self.sign({**self.claims(grant, access_token), **self.named(provider, grant.person)})
        found = documents.tokens(provider, access_token, id_token)
        return found | ({"refresh_token": self.grants.token(grant.person)} if "refresh_token" in found else {})

    def named(self, provider: EmulatedProvider, person: SamplePerson) -> dict[str, str]:
        """Return the claims that name the account."""
        issuer, subject = f"{self.base}/{provider.side}", person.subjects[provider.side]
        if not provider.tenants:
            return {"iss": self.base if provider is GOOGLE else issuer, "sub": subject}
        tenant, _, subject = subject.partition("/")
        return {"iss": self.tenant_issuer(provider.side, tenant), "sub": subject, "tid": tenant, "ver": "2.0"}

    def tenant_issuer(self, side: str, tenant: str) -> str:
        return f"{self.base}/{side}/{tenant}/v2.0"

    def sign(self, claims: Mapping[str, Any]) -> str:
        return documents.sign(self.key, claims)

    def claims(self, grant: Grant, access_token: str) -> dict[str, Any]:
        """Return the claims of an ID token that do not name the account."""
        client_id, nonce = grant.parameters.client.client_id, grant.parameters.nonce or ""
        return documents.claims(client_id=client_id, nonce=nonce, access_token=access_token, now_ms=self._now_ms())

    async def _redeem(self, request: IRequest, provider: EmulatedProvider) -> Grant:
        sent = self._record(request)
        _require_agent(provider, sent)
        if not sent.form:
            raise GrantError(400, "invalid_request", "expected a form")
        client = authenticate(
            provider, self.clients, sent.headers.get("authorization"), sent.form, self._is_signed_secret
        )
        grant = self.grants.redeem(client, sent.form)
        if grant.mode is ResponseMode.FAIL:
            raise GrantError(503, "temporarily_unavailable", "as was wished")
        if grant.mode is ResponseMode.SLOW:
            await deferLater(self._clock, SLOW_SECONDS)
        return grant

    def _is_signed_secret(self, client: Client, secret: Secret) -> bool:
        return documents.is_signed_secret(client, secret, f"{self.base}/apple", self._now_ms())

    def _token_owner(self, request: IRequest, provider: EmulatedProvider) -> SamplePerson | None:
        """Record the request of an account, and return the person of its access token; None if it is not valid."""
        sent = self._record(request)
        _require_agent(provider, sent)
        scheme, _, token = sent.headers.get("authorization", "").partition(" ")
        return self.grants.owner(token) if scheme == "Bearer" else None

    def _record(self, request: IRequest) -> RecordedRequest:
        """Record the request; raise WrongHost if it is for another host name."""
        sent = RecordedRequest.of(request)
        self.sent.append(sent)
        if sent.headers.get("host") != urlsplit(self.base).netloc:
            raise WrongHost
        return sent

    # -- errors --

    @app.handle_errors(GrantError)
    def refuse(self, request: IRequest, failure: Failure) -> bytes:
        refusal = cast(GrantError, failure.value)
        return json(request, refusal.members, refusal.status)

    @app.handle_errors(WrongHost, Blocked, UnknownSide)
    def reject(self, request: IRequest, failure: Failure) -> bytes:
        if failure.check(UnknownSide):
            return html(request, b"<html><body>Not found.</body></html>", 404)
        if failure.check(Blocked):
            return html(request, b"<html><body>error code: 1010</body></html>", 403)
        return html(request, b"<html><body>Not by this name.</body></html>", 421)


def _openid_side(name: str, tenants: str) -> EmulatedProvider:
    """Return a provider of OpenID Connect below its name, with these tenants, "" for one without."""
    provider = EMULATED[name]
    if not provider.openid or (tenants in TENANTS) is not provider.tenants:
        raise UnknownSide
    return provider


def _person(key: str) -> SamplePerson | None:
    """Return the person with this key, None for "", which denies; raise ValueError for others."""
    if key and key not in BY_KEY:
        raise ValueError("There is no such person.")
    return BY_KEY[key] if key else None


def _require_agent(provider: EmulatedProvider, sent: RecordedRequest) -> None:
    agent = sent.headers.get("user-agent", "")
    if not agent or (provider.agent is not None and not provider.agent.fullmatch(agent)):
        raise Blocked
