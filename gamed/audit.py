"""What the owner's log says about security: stable names, and values that name nobody (docs/audit.md).

A line may hold public ids, names of providers, outcomes and commands. It never holds a secret, a name that a player
chose, or an address.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Protocol


class Event(StrEnum):
    """What happened. A name may be added, never changed: owners search for them."""

    SIGN_IN = "sign_in"
    SIGN_IN_REFUSED = "sign_in_refused"
    CALLBACK_REJECTED = "callback_rejected"
    REFRESH_REUSED = "refresh_reused"
    SIGNED_OUT = "signed_out"
    SESSION_REVOKED = "session_revoked"
    IDENTITY_LINKED = "identity_linked"
    IDENTITY_UNLINKED = "identity_unlinked"
    ERASE_STARTED = "erase_started"
    ERASED = "erased"
    PLAYERS_MERGED = "players_merged"
    DECRYPTION_FAILED = "decryption_failed"
    COMMAND = "command"


FIELDS: Mapping[Event, tuple[str, ...]] = MappingProxyType(
    {
        Event.SIGN_IN: ("player", "session", "provider", "created"),
        Event.SIGN_IN_REFUSED: ("player", "provider", "outcome", "request"),
        Event.CALLBACK_REJECTED: ("provider", "check", "request"),
        Event.REFRESH_REUSED: ("player", "session"),
        Event.SIGNED_OUT: ("player", "scope"),
        Event.SESSION_REVOKED: ("player", "session"),
        Event.IDENTITY_LINKED: ("player", "provider"),
        Event.IDENTITY_UNLINKED: ("player", "provider"),
        Event.ERASE_STARTED: ("player",),
        Event.ERASED: ("player",),
        Event.PLAYERS_MERGED: ("player", "from"),
        Event.DECRYPTION_FAILED: ("value", "row"),
        Event.COMMAND: ("command", "player", "by", "at"),
    }
)
"""The keys of each line, in this order."""

WARNINGS = frozenset({Event.CALLBACK_REJECTED, Event.REFRESH_REUSED, Event.DECRYPTION_FAILED})
"""Events that the operator should look at; they have the level `warn`, all others `info`."""


class Audit(Protocol):
    """The owner's log of security events."""

    def note(self, event: Event, **values: str) -> None:
        """`values` are those of FIELDS."""


class Unheard:
    """An audit that nobody reads."""

    def note(self, event: Event, **values: str) -> None:
        pass


UNHEARD: Audit = Unheard()
