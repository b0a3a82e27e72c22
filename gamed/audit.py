"""Security events have stable names and log values that identify no person (docs/owners/events.md).

Among them are what the server notices about itself, and which messages went to the owner (gamed.notify): by the rows of
these events its processes learn of each other, and a restart repeats no message.

A line may hold public ids, names of providers, outcomes and commands. It never holds a secret, a name that a player
chose, or an address.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Protocol

from msgspec import Struct


class SecurityEvent(StrEnum):
    """The name of a security event. Names may be added, never changed: operators search for them."""

    SIGN_IN = "sign_in"
    SIGN_IN_REFUSED = "sign_in_refused"
    CALLBACK_REJECTED = "callback_rejected"
    REFRESH_REUSED = "refresh_reused"
    SIGNED_OUT = "signed_out"
    SESSION_REVOKED = "session_revoked"
    SESSION_LIMIT_REACHED = "session_limit_reached"
    PASSWORD_CHANGED = "password_changed"
    INVITE_USED = "invite_used"
    IDENTITY_LINKED = "identity_linked"
    IDENTITY_UNLINKED = "identity_unlinked"
    PASSKEY_ADDED = "passkey_added"
    PASSKEY_RENAMED = "passkey_renamed"
    PASSKEY_REMOVED = "passkey_removed"
    PASSKEY_COUNT_BACK = "passkey_count_back"
    RECOVERY_CODES_MADE = "recovery_codes_made"
    RECOVERY_CODE_USED = "recovery_code_used"
    PLAYER_RENAMED = "player_renamed"
    DEVICE_RENAMED = "device_renamed"
    ERASE_STARTED = "erase_started"
    ERASED = "erased"
    PLAYERS_MERGED = "players_merged"
    DECRYPTION_FAILED = "decryption_failed"
    DISK_NEARLY_FULL = "disk_nearly_full"
    DISK_HAS_ROOM = "disk_has_room"
    DAMAGE_FOUND = "damage_found"
    OWNER_NOTIFIED = "owner_notified"
    COMMAND = "command"


FIELDS: Mapping[SecurityEvent, tuple[str, ...]] = MappingProxyType(
    {
        SecurityEvent.SIGN_IN: ("player", "session", "provider", "created"),
        SecurityEvent.SIGN_IN_REFUSED: ("player", "provider", "outcome", "request"),
        SecurityEvent.CALLBACK_REJECTED: ("provider", "check", "request"),
        SecurityEvent.REFRESH_REUSED: ("player", "session"),
        SecurityEvent.SIGNED_OUT: ("player", "scope"),
        SecurityEvent.SESSION_REVOKED: ("player", "session"),
        SecurityEvent.SESSION_LIMIT_REACHED: ("player", "session"),
        SecurityEvent.PASSWORD_CHANGED: ("player",),
        SecurityEvent.INVITE_USED: ("player", "invite", "provider"),
        SecurityEvent.IDENTITY_LINKED: ("player", "provider"),
        SecurityEvent.IDENTITY_UNLINKED: ("player", "provider", "sessions"),
        SecurityEvent.PASSKEY_ADDED: ("player", "passkey"),
        SecurityEvent.PASSKEY_RENAMED: ("player", "passkey"),
        SecurityEvent.PASSKEY_REMOVED: ("player", "passkey", "sessions"),
        SecurityEvent.PASSKEY_COUNT_BACK: ("player", "passkey"),
        SecurityEvent.RECOVERY_CODES_MADE: ("player", "sessions"),
        SecurityEvent.RECOVERY_CODE_USED: ("player", "session", "left"),
        SecurityEvent.PLAYER_RENAMED: ("player",),
        SecurityEvent.DEVICE_RENAMED: ("player", "session"),
        SecurityEvent.ERASE_STARTED: ("player",),
        SecurityEvent.ERASED: ("player",),
        SecurityEvent.PLAYERS_MERGED: ("player", "from"),
        SecurityEvent.DECRYPTION_FAILED: ("value", "row"),
        SecurityEvent.DISK_NEARLY_FULL: ("machine", "free_bytes", "min_free_bytes"),
        SecurityEvent.DISK_HAS_ROOM: ("machine", "free_bytes", "min_free_bytes"),
        SecurityEvent.DAMAGE_FOUND: ("database",),
        SecurityEvent.OWNER_NOTIFIED: ("about", "state"),
        SecurityEvent.COMMAND: ("command", "player", "by", "at"),
    }
)
"""The keys of each line, in this order."""

WARNINGS = frozenset(
    {
        SecurityEvent.CALLBACK_REJECTED,
        SecurityEvent.REFRESH_REUSED,
        SecurityEvent.PASSKEY_COUNT_BACK,
        SecurityEvent.DECRYPTION_FAILED,
        SecurityEvent.DISK_NEARLY_FULL,
        SecurityEvent.DAMAGE_FOUND,
    }
)
"""Events that the operator should investigate; they have the level `warn`, all others `info`."""


class RecordedEvent(Struct, frozen=True):
    """A stored event, with the number of equal ones in its hour."""

    event: SecurityEvent
    values: Mapping[str, str]
    last_ms: int
    times: int


class AuditLog(Protocol):
    """The operator's log of security events."""

    def record(self, event: SecurityEvent, **values: str) -> None:
        """Log an event with the values that FIELDS lists for it."""


class NullAuditLog:
    """An audit log that discards all events."""

    def record(self, event: SecurityEvent, **values: str) -> None:
        pass


NULL_AUDIT_LOG: AuditLog = NullAuditLog()
