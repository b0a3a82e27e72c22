"""The values of tickets: what a game requests, what a ticket states, and the periods of the keys that sign it."""

from collections.abc import Mapping

from msgspec import Struct

from gamed.config.model import TicketAudience
from gamed.sessions.credentials import AuthenticatedSession
from gamed.structs import redacts

MAX_TICKET_CHARACTERS = 4096
"""A ticket with the longest audience, nonce and name has about 2,000."""


class TicketRequest(Struct, frozen=True):
    """A game's request for a ticket."""

    audience: str
    """The server that the ticket is for."""
    nonce: str | None = None
    """A value that this server has chosen for one connection; None if it accepts a copied ticket until it expires."""


class KeyPeriod(Struct, frozen=True):
    """The number of a signing key, and when it is first used in epoch milliseconds."""

    number: int
    first_use_ms: int


@redacts("name")
class Holder(Struct, frozen=True):
    """The player who requests a ticket, with the keys that can sign it, as one transaction has read them."""

    caller: AuthenticatedSession
    name: str | None
    """The display name, if it was asked for."""
    periods: tuple[KeyPeriod, ...]


class SubjectState(Struct, frozen=True):
    """Whether the player of a ticket may play now, with the keys that may have signed the ticket."""

    may_play: bool
    periods: tuple[KeyPeriod, ...]


class TicketSettings(Struct, frozen=True):
    """The owner's settings; at least one audience."""

    audiences: Mapping[str, TicketAudience]
    seconds: int
    """The lifetime of a ticket."""


@redacts("text")
class IssuedTicket(Struct, frozen=True):
    """A ticket, and how many seconds it is valid."""

    text: str
    expires_in: int
