"""The ticket service issues tickets, publishes their keys, and answers servers that cannot verify a signature.

It stores neither a ticket nor its use. So a server that must not accept a copied ticket gives each connection a nonce
of its own (docs/developers/tickets.md).
"""

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING

from gamed.config.model import TicketAudience
from gamed.crypto import ID_BYTES, Random
from gamed.rate_limit import PlayerRateLimiter
from gamed.sessions.credentials import parse_access_token
from gamed.sessions.service import SessionService
from gamed.structs import Component
from gamed.tickets.errors import AudienceNotAllowed, AudienceSecretInvalid, TicketsOff
from gamed.tickets.model import IssuedTicket, TicketRequest, TicketSettings
from gamed.tickets.store import TicketStore
from gamed.tickets.ticket_rules import period_in_use, published_periods, ticket_claims, valid_claims
from gamed.timestamps import Now

if TYPE_CHECKING:
    from gamed.tickets.keys import TicketKeys


class TicketIssuer(Component, frozen=True, kw_only=True):
    """The settings, keys and limits of a server whose owner has allowed an audience."""

    settings: TicketSettings
    keys: "TicketKeys"
    url: Callable[[], str]
    """The `iss` of every ticket."""
    rate: PlayerRateLimiter
    random: Random
    askers: Mapping[bytes, str]
    """The audience of each secret, by the SHA-256 of the secret: a look-up takes the same time for every wrong one."""


class TicketService(Component, frozen=True, kw_only=True):
    """The operations on tickets; every method raises DatabaseError, and TicketsOff without an issuer."""

    store: TicketStore
    sessions: SessionService
    now_ms: Now
    issuer: TicketIssuer | None = None

    async def issue(self, token: str | None, request: TicketRequest) -> IssuedTicket:
        """Return a ticket for the player of an access token.

        Raise SessionError, RateLimited or AudienceNotAllowed. Each request with a valid token counts, so that names of
        audiences cannot be guessed faster than tickets can be had.
        """
        issuer, now_ms = self._issuer(), self.now_ms()
        allowed = issuer.settings.audiences.get(request.audience)
        with_name = allowed is not None and allowed.name
        holder = await self.store.holder(parse_access_token(token), now_ms, with_name=with_name)
        # As for a read: a ticket changes nothing here that a crash could undo.
        await self.sessions.record_first_use(holder.caller, reading=True)
        issuer.rate.acquire(holder.caller.player_id, now_ms)
        if allowed is None:
            raise AudienceNotAllowed
        seconds = issuer.settings.seconds
        claims = ticket_claims(
            holder,
            request,
            allowed,
            issuer=issuer.url(),
            now_ms=now_ms,
            seconds=seconds,
            jti=issuer.random(ID_BYTES),
        )
        return IssuedTicket(issuer.keys.sign(period_in_use(holder.periods, now_ms), claims), seconds)

    async def key_set(self) -> dict[str, object]:
        """Return the JWK set of the keys that may have signed a valid ticket, and of the next one."""
        issuer = self._issuer()
        return issuer.keys.jwks(published_periods(await self.store.periods(), self.now_ms()))

    async def introspect(self, secret: str | None, text: str) -> Mapping[str, object] | None:
        """Return the claims of a ticket for the audience that has this secret; None for any other text.

        Other than a server that verifies signatures, the audience also learns of a player who was blocked or removed
        since. Raise AudienceSecretInvalid.
        """
        issuer = self._issuer()
        audience = issuer.askers.get(sha256((secret or "").encode("utf-8", "surrogateescape")).digest())
        if audience is None:
            raise AudienceSecretInvalid
        ticket = issuer.keys.parse(text)
        subject = None if ticket is None else ticket.claims.get("sub")
        if ticket is None or not isinstance(subject, str):
            return None
        state = await self.store.subject(subject)
        now_ms = self.now_ms()
        if not issuer.keys.verify(ticket, published_periods(state.periods, now_ms)):
            return None
        valid = valid_claims(ticket.claims, issuer=issuer.url(), audience=audience, now_ms=now_ms)
        return ticket.claims if valid and state.may_play else None

    def _issuer(self) -> TicketIssuer:
        if self.issuer is None:
            raise TicketsOff
        return self.issuer


def secrets_of(audiences: Mapping[str, TicketAudience]) -> Mapping[bytes, str]:
    """Return the audiences that may ask, by the SHA-256 of their secrets."""
    return {
        sha256(audience.secret.reveal()).digest(): name
        for name, audience in audiences.items()
        if audience.secret is not None
    }
