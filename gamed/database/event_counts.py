"""Equal security events of one hour, or of one day, as the table `security_event` counts them."""

from collections.abc import Mapping
from json import dumps, loads

from msgspec import Struct

from gamed.audit import FIELDS, SecurityEvent

MERGE_MS = 3_600_000
VALUE_CHARACTERS = 64
"""The longest value that is stored whole; every value of this project is shorter."""
LEFT_OUT = frozenset({"player", "session", "passkey", "request", "row", "at", "free_bytes", "min_free_bytes"})
"""Values that have a column of their own, or that differ in each event: such events would never share a row.

A player can make and remove passkeys without end: with their ids, a thief of a session would push warnings out of the
table, and all else out of the player's activity. The ids are in the log.
"""


class EventKey(Struct, frozen=True):
    """The values by which two events are equal."""

    hour: int
    """The hour since the epoch; the last one of its day for a player's refused sign-ins.

    Strangers who try a password for each of many known names need no more rows a day than there are players, from
    however many addresses.
    """
    event: str
    player_id: str
    """Empty if the event is about no known player."""
    detail: str
    """The other values as a JSON object."""

    @classmethod
    def of(cls, event: SecurityEvent, values: Mapping[str, str], now_ms: int) -> "EventKey":
        """Return the key of an event with the values that gamed.audit.FIELDS lists for it."""
        known = {name: values[name][:VALUE_CHARACTERS] for name in FIELDS[event] if values.get(name)}
        detail = dumps({name: value for name, value in known.items() if name not in LEFT_OUT})
        hours = 24 if event is SecurityEvent.SIGN_IN_REFUSED and "player" in known else 1
        # The last hour, not the first one: list_activity() reads the latest hours, and these rows are among them.
        return cls((now_ms // (hours * MERGE_MS) + 1) * hours - 1, event.value, known.get("player", ""), detail)


class EventCount(Struct, frozen=True):
    """The equal events of one hour; instants in epoch milliseconds."""

    key: EventKey
    first_ms: int
    last_ms: int
    times: int

    def plus(self, other: "EventCount") -> "EventCount":
        """Return the events of both."""
        first, last = min(self.first_ms, other.first_ms), max(self.last_ms, other.last_ms)
        return EventCount(self.key, first, last, self.times + other.times)

    @property
    def values(self) -> dict[str, str]:
        """Return the values other than the player."""
        values: dict[str, str] = loads(self.key.detail)
        return values
