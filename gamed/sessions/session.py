"""A session as its player sees it, and how much a sign-out ends (PROTOCOL 3.7)."""

from enum import StrEnum

from msgspec import Struct


class Scope(StrEnum):
    """Which of a player's sessions, seen from the one that asks."""

    THIS = "this"
    OTHERS = "others"
    ALL = "all"


class SessionRow(Struct, frozen=True):
    """One line of a player's list; instants in epoch milliseconds, `client` the device's own words as JSON."""

    session_id: str
    created_ms: int
    last_used_ms: int
    """The last sign-in or refresh."""
    expires_ms: int
    provider: str
    client: str
