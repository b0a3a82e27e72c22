"""Routes of tickets: issue one, publish the keys, and answer other servers (docs/protocol.md: Tickets)."""

from collections.abc import Mapping
from hashlib import sha256
from types import MappingProxyType
from typing import Annotated

from msgspec import Meta, Struct, json

from gamed.config.tickets import AUDIENCE_CHARACTERS
from gamed.http.app import make_app
from gamed.http.bodies import BodyPolicy, SmallBodyPolicy
from gamed.http.conditional import EntityTag, parse_conditions
from gamed.http.errors import BadRequest, InvalidRequest
from gamed.http.json_body import read_form, read_json, write_json
from gamed.http.problems import ErrorTable
from gamed.http.request import Request
from gamed.sessions.credentials import bearer
from gamed.sessions.problems import SESSION_ERRORS
from gamed.structs import Component
from gamed.tickets import errors
from gamed.tickets.model import TicketRequest
from gamed.tickets.service import TicketService
from gamed.tickets.ticket_rules import NONCE_RULE, is_nonce

TICKET_ERRORS: ErrorTable = {
    errors.TicketsOff: (403, "tickets_off"),
    errors.AudienceNotAllowed: (403, "audience_not_allowed"),
    errors.AudienceSecretInvalid: (401, "audience_secret_invalid"),
    errors.TicketInvalid: (401, "ticket_invalid"),
}
FORM = SmallBodyPolicy("application/x-www-form-urlencoded")
"""The content of a request for introspection (RFC 7662 2.1)."""
KEYS_CACHED = "private, max-age=3600"
"""An hour is short beside the day that a key is published before its first use; no proxy may store a path of /auth/."""


class TicketBody(Struct):
    """The content of `POST /auth/tickets`."""

    audience: Annotated[str, Meta(min_length=1, max_length=AUDIENCE_CHARACTERS)]
    nonce: str | None = None


class TicketRoutes(Component, frozen=True, kw_only=True):
    """The routes of tickets. The paths are exact: a provider may have the name `tickets`, and has a callback below."""

    app = make_app(TICKET_ERRORS, SESSION_ERRORS)
    prefixes = ("/auth/tickets$", "/auth/keys$", "/auth/tickets/introspect$", "/auth/tickets/check$")
    body_policies: Mapping[str, BodyPolicy] = MappingProxyType({"introspect_ticket": FORM, "check_ticket": FORM})
    tickets: TicketService

    @app.route("/auth/tickets", methods=["POST"])
    async def issue_ticket(self, request: Request) -> bytes:
        body = read_json(request, TicketBody)
        if body.nonce is not None and not is_nonce(body.nonce):
            raise InvalidRequest([("/nonce", NONCE_RULE)])
        asked = TicketRequest(body.audience, body.nonce)
        issued = await self.tickets.issue(bearer(request.head.single), asked)
        return write_json(request, 200, {"ticket": issued.text, "expires_in": issued.expires_in})

    @app.route("/auth/keys", methods=["GET"])
    async def list_ticket_keys(self, request: Request) -> bytes | None:
        conditions = parse_conditions(request.head.header)
        content = json.encode(await self.tickets.key_set())
        tag = EntityTag(sha256(content).hexdigest()[:16])
        request.storable = KEYS_CACHED
        request.setHeader("ETag", str(tag))
        if conditions.if_none_match is not None and conditions.if_none_match.match_weakly(tag):
            request.setResponseCode(304)
            return None
        request.setHeader("Content-Type", "application/json")
        return content

    @app.route("/auth/tickets/introspect", methods=["POST"])
    async def introspect_ticket(self, request: Request) -> bytes:
        claims = await self.tickets.introspect(bearer(request.head.single), _token(request))
        return write_json(request, 200, {"active": claims is not None, **(claims or {})})

    @app.route("/auth/tickets/check", methods=["POST"])
    async def check_ticket(self, request: Request) -> None:
        """Answer by the status alone, which is all that a proxy reads."""
        claims = await self.tickets.introspect(bearer(request.head.single), _token(request))
        if claims is None:
            raise errors.TicketInvalid
        request.setResponseCode(204)


def _token(request: Request) -> str:
    """Return the parameter `token` (RFC 7662 2.1); others, such as token_type_hint, do not matter."""
    token = read_form(request).get("token")
    if token is None:
        raise BadRequest("Send the ticket as the parameter token.")
    return token
