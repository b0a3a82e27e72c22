"""Tickets can be refused in the ways of the protocol (docs/protocol.md: Tickets)."""


class TicketError(Exception):
    """A request about tickets that this server refuses."""


class TicketsOff(TicketError):
    """A request about tickets on a server whose owner has allowed no audience."""


class AudienceNotAllowed(TicketError):
    """A ticket for an audience that the owner has not listed."""


class TicketInvalid(TicketError):
    """A text that is not a valid ticket for the asking audience."""


class AudienceSecretInvalid(TicketError):
    """A text that is not the secret of an audience, or a request without one."""
