"""The state of a server, and the notices for its owner that follow from it.

A notice is made by comparing two states, never from an event: what is true now, and what was sent last. So there is no
queue that could grow while a webhook is down, a restart repeats nothing, and what was over before a message got through
is not sent.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from gamed.structs import redacts

WAITING, DISK, BACKUP, STORE, PROVIDER, TEST = "waiting", "disk", "backup", "store", "provider", "test"
"""The topic of a notice; behind a colon it has the machine, database or provider."""
AUTH = "auth"
"""The name of the database that keeps what was sent."""
DIGEST_MS = 10 * 60_000
"""The pause between two notices about waiting players."""
SETTLED_MS = 30_000
"""A player counts as new for a digest once so old: the row was committed by then, also on a machine with another clock.

PostgreSQL's machines may differ by as much as this (docs/owners/postgresql.md).
"""
FAILING_MS = 60 * 60_000
"""How long a provider must have failed, without a sign-in that worked."""
AGAIN_MS = 24 * 3_600_000
"""After so long the owner hears of a damaged database again: nothing shows that one was repaired."""
MOST_NOTICES = 5
"""The longest message has so many, which keeps it below 2,000 characters for Discord; the others wait for the next."""
MOST_NAMES = 10
PROVIDER_FAILURES = frozenset({"provider_unavailable", "provider_misconfigured", "server_clock_skew"})
"""The outcomes that count. A code that a browser made up ends as `provider_error`, which does not.

A browser can still forge an error in its own callback. On a server where no player signs in for an hour, two of those
cause a message too many; `gamed doctor`, which the message names, then shows that the provider answers.
"""
PROVIDER_WORKS = frozenset(
    {
        *("", "player_pending", "player_blocked", "registration_closed"),
        *("identity_in_use", "provider_already_linked"),
    }
)
"""Outcomes that a login only has after the provider has named the player; "" is a success."""


class NoticeState(StrEnum):
    """The condition of what a notice is about."""

    WELL = "well"
    BAD = "bad"


class SentNotice(Struct, frozen=True):
    """The last notice about something that was sent: its state, and the instant of its facts in epoch milliseconds."""

    state: str
    at_ms: int


@redacts("names")
class Waiting(Struct, frozen=True):
    """The players who wait for approval."""

    count: int = 0
    newest_ms: int | None = None
    """When the newest of those came that a digest may have."""
    names: Sequence[str] = ()
    """The names of the newest ones that were in no notice yet, if the owner wants names."""


class Facts(Struct, frozen=True):
    """The state that the databases show in one snapshot; instants in epoch milliseconds."""

    waiting: Waiting = Waiting()
    backup_ms: int | None = None
    """The last backup; without one, when the server was made."""
    any_backup: bool = False
    full_disks: Mapping[str, bool] = {}
    """Whether the disk of each machine is nearly full, as its processes noticed."""
    damaged: frozenset[str] = frozenset()
    """The names of the databases in which damage was found lately."""
    outcomes: Sequence[tuple[str, str, int]] = ()
    """See gamed.login.tables.latest_outcomes()."""
    sent: Mapping[str, SentNotice] = {}


@redacts("names")
class Notice(Struct, frozen=True):
    """A sentence for the owner."""

    about: str
    state: str
    text: str
    names: Sequence[str] = ()

    @property
    def kind(self) -> str:
        """Return what it is about, without the machine, database or provider."""
        return self.about.partition(":")[0]

    @property
    def which(self) -> str:
        """Return the machine, database or provider, or ""."""
        return self.about.partition(":")[2]


class Undelivered(Struct, frozen=True):
    """A message that the webhook did not accept."""

    detail: str
    """A text without anything of the URL or of the response."""
    retry_seconds: int | None = None
    """How long the webhook asks to wait."""
