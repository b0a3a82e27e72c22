"""The development provider as one Klein app: Discord and Google below one address, everything in memory.

Tests use it through `StubTreq(DevelopmentProvider(...).app.resource())`, or on a loopback port; `gamed dev` runs it
beside the service. What it was sent stays in `sent`, the oldest forgotten, so that a test can look.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlsplit

from joserfc.jwk import RSAKey
from klein import Klein
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.python.failure import Failure
from twisted.web.iweb import IRequest

from gamed.crypto import Random
from gamed.dev import documents, page, signing
from gamed.dev.authorize import Asked, Untrusted, Wrong, back, judge
from gamed.dev.grants import KEPT, Grant, Grants, Manner, Refusal, authenticate
from gamed.dev.people import BY_KEY, Person
from gamed.dev.sides import DISCORD, GOOGLE, Client, Side
from gamed.dev.wire import Sent, html, json, see_other
from gamed.instants import Now

SLOW_SECONDS = 3


class Misdirected(Exception):
    """Asked by another name: a web page that points its own name at this machine gets nothing."""


class Blocked(Exception):
    """What Cloudflare does to clients of Discord that do not say who they are."""


class DevelopmentProvider:
    """Both sides. `base` is its own address and the issuer; clients are those of either side."""

    app = Klein()

    def __init__(
        self, base: str, clients: tuple[Client, ...], clock: IReactorTime, now_ms: Now, random: Random
    ) -> None:
        self.base = base
        self.clients = clients
        self.sent: deque[Sent] = deque(maxlen=KEPT)
        self.key: RSAKey = signing.new_key("development-1")
        self.grants = Grants(now_ms, random)
        self._clock = clock
        self._now_ms = now_ms

    def sign_in(self, url: str, person: str, manner: Manner = Manner.AT_ONCE) -> str:
        """Where a person who opens `url` here and continues as `person` is sent; "" denies. For tests."""
        parts = urlsplit(url)
        side = GOOGLE if parts.path == documents.GOOGLE_AUTHORIZE else DISCORD
        return self._answer(side, judge(side, parts.query, self.clients), _person(person), manner)

    # -- what browsers open --

    @app.route("/", methods=["GET"])
    def front(self, request: IRequest) -> bytes:
        self._hear(request)
        return html(request, page.front())

    @app.route(documents.DISCORD_AUTHORIZE, methods=["GET"])
    def discord_authorize(self, request: IRequest) -> bytes:
        return self._show(request, DISCORD)

    @app.route(documents.DISCORD_AUTHORIZE, methods=["POST"])
    def discord_choose(self, request: IRequest) -> bytes:
        return self._choose(request, DISCORD)

    @app.route(documents.GOOGLE_AUTHORIZE, methods=["GET"])
    def google_authorize(self, request: IRequest) -> bytes:
        return self._show(request, GOOGLE)

    @app.route(documents.GOOGLE_AUTHORIZE, methods=["POST"])
    def google_choose(self, request: IRequest) -> bytes:
        return self._choose(request, GOOGLE)

    def _show(self, request: IRequest, side: Side) -> bytes:
        sent = self._hear(request)
        try:
            asked = judge(side, sent.query, self.clients)
        except Untrusted as e:
            return html(request, page.refused(side, str(e)), 400)
        if isinstance(asked, Wrong):
            return see_other(request, self._answer(side, asked, None, Manner.AT_ONCE))
        return html(request, page.choice(side, asked.client.client_id, sent.query))

    def _choose(self, request: IRequest, side: Side) -> bytes:
        form = self._hear(request).form
        try:
            asked = judge(side, form.get("query", ""), self.clients)
            person, manner = _person(form.get("person", "?")), Manner(form.get("manner", Manner.AT_ONCE.value))
        except (Untrusted, ValueError) as e:
            return html(request, page.refused(side, str(e)), 400)
        return see_other(request, self._answer(side, asked, person, manner))

    def _answer(self, side: Side, asked: Asked | Wrong, person: Person | None, manner: Manner) -> str:
        """The address of the callback. Google names itself there, and adds what nobody asked for."""
        issuer = {"iss": self.base} if side.openid else {}
        if isinstance(asked, Wrong):
            return back(asked.asked, {"error": asked.error, "error_description": asked.description, **issuer})
        if person is None:
            return back(asked, {"error": "access_denied", "error_description": "The person said no", **issuer})
        code = self.grants.issue(asked, person, manner)
        extra = {"scope": side.scope, "authuser": "0", "prompt": "consent"} if side.openid else {}
        return back(asked, {**issuer, "code": code, **extra})

    # -- what the service asks --

    @app.route(documents.DISCOVERY, methods=["GET"])
    def discovery(self, request: IRequest) -> bytes:
        self._hear(request)
        return json(request, self.metadata())

    @app.route(documents.GOOGLE_KEYS, methods=["GET"])
    def google_keys(self, request: IRequest) -> bytes:
        self._hear(request)
        return json(request, self.key_set())

    @app.route(documents.DISCORD_TOKEN, methods=["POST"])
    async def discord_token(self, request: IRequest) -> bytes:
        grant = await self._redeem(request, DISCORD)
        return json(request, self.discord_tokens(grant))

    @app.route(documents.GOOGLE_TOKEN, methods=["POST"])
    async def google_token(self, request: IRequest) -> bytes:
        grant = await self._redeem(request, GOOGLE)
        return json(request, self.google_tokens(grant))

    @app.route(documents.DISCORD_USER, methods=["GET"])
    def discord_user(self, request: IRequest) -> bytes:
        sent = self._hear(request)
        _recognise(DISCORD, sent)
        scheme, _, token = sent.headers.get("authorization", "").partition(" ")
        person = self.grants.owner(token) if scheme == "Bearer" else None
        if person is None:
            return json(request, {"message": "401: Unauthorized", "code": 0}, 401)
        return json(request, self.user(person))

    # -- what it answers then; a hostile one overrides these --

    def metadata(self) -> dict[str, Any]:
        return documents.discovery(self.base)

    def key_set(self) -> dict[str, Any]:
        return signing.key_set(self.key)

    def user(self, person: Person) -> dict[str, Any]:
        return documents.discord_user(person)

    def discord_tokens(self, grant: Grant) -> dict[str, Any]:
        return documents.discord_tokens(self.grants.token(grant.person), self.grants.token(grant.person))

    def google_tokens(self, grant: Grant) -> dict[str, Any]:
        access_token = self.grants.token(grant.person)
        return documents.google_tokens(access_token, self.sign(self.claims(grant, access_token)))

    def sign(self, claims: Mapping[str, Any]) -> str:
        return signing.sign(self.key, claims)

    def claims(self, grant: Grant, access_token: str) -> dict[str, Any]:
        return signing.claims(
            issuer=self.base,
            client_id=grant.asked.client.client_id,
            subject=grant.person.google_sub,
            nonce=grant.asked.nonce or "",
            access_token=access_token,
            now_ms=self._now_ms(),
        )

    async def _redeem(self, request: IRequest, side: Side) -> Grant:
        sent = self._hear(request)
        _recognise(side, sent)
        if not sent.form:
            raise Refusal(400, "invalid_request", "expected a form")
        client = authenticate(side, self.clients, sent.headers.get("authorization"), sent.form)
        grant = self.grants.redeem(client, sent.form)
        if grant.manner is Manner.FAIL:
            raise Refusal(503, "temporarily_unavailable", "as was wished")
        if grant.manner is Manner.SLOW:
            await deferLater(self._clock, SLOW_SECONDS)
        return grant

    def _hear(self, request: IRequest) -> Sent:
        """Note the request, and see that it was meant for this address."""
        sent = Sent.of(request)
        self.sent.append(sent)
        if sent.headers.get("host") != urlsplit(self.base).netloc:
            raise Misdirected
        return sent

    # -- refusals --

    @app.handle_errors(Refusal)
    def refuse(self, request: IRequest, failure: Failure) -> bytes:
        refusal = cast(Refusal, failure.value)
        answer = {"error": refusal.error, "error_description": refusal.description}
        return json(request, answer, refusal.status)

    @app.handle_errors(Misdirected, Blocked)
    def turn_away(self, request: IRequest, failure: Failure) -> bytes:
        if failure.check(Blocked):
            return html(request, b"<html><body>error code: 1010</body></html>", 403)
        return html(request, b"<html><body>Not by this name.</body></html>", 421)


def _person(key: str) -> Person | None:
    """Nobody for "": they deny. ValueError."""
    if key and key not in BY_KEY:
        raise ValueError("There is no such person.")
    return BY_KEY[key] if key else None


def _recognise(side: Side, sent: Sent) -> None:
    agent = sent.headers.get("user-agent", "")
    if not agent or (side.agent is not None and not side.agent.fullmatch(agent)):
        raise Blocked
