"""What is counted while the service runs: plain numbers, written by one thread, read when somebody asks.

Nothing here knows a player, a slot, a session, an address or a text that a client chose.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection

from gamed.audit import Audit, Event
from gamed.login.outcome import Outcome

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Seconds; the last step is a long wait's."""
LIMITS = frozenset(
    {
        "rate_limited",
        "busy",
        "body_too_large",
        "head_too_large",
        "save_too_large",
        "quota_exceeded",
        "too_many_slots",
        "storage_full",
    }
)
"""Problem codes that say: too much, too fast, or no room."""
GAME, REFRESH = "/game/", "/auth/session/refresh"
ENDS = {
    Event.SIGN_IN: "created",
    Event.SIGNED_OUT: "signed_out",
    Event.SESSION_REVOKED: "revoked",
    Event.REFRESH_REUSED: "reused",
}
"""What becomes of sessions, by what the audit hears."""
NOBODY = "-"


class Spread:
    """How many took how long."""

    __slots__ = ("counts", "seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.seconds = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds


class Tally:
    """`providers`: the names in the owner's file; any other is `-`."""

    def __init__(self, providers: Collection[str]) -> None:
        self._providers = frozenset(providers)
        self.requests: Counter[tuple[str, str, int]] = Counter()
        """By route, method and the hundreds of the status."""
        self.latencies: defaultdict[str, Spread] = defaultdict(Spread)
        self.problems: Counter[str] = Counter()
        self.limits: Counter[tuple[str, str]] = Counter()
        """By kind and route."""
        self.save_bytes: Counter[str] = Counter({"in": 0, "out": 0})
        self.events: Counter[str] = Counter()
        self.logins: Counter[tuple[str, str]] = Counter()
        """By provider and outcome."""
        self.sessions: Counter[str] = Counter()
        self.calls: Counter[tuple[str, str]] = Counter()
        """By provider and outcome."""
        self.call_latencies: defaultdict[str, Spread] = defaultdict(Spread)

    def request(  # noqa: PLR0917
        self, template: str, method: str, status: int, seconds: float, size: int, received: int, code: str
    ) -> None:
        """One that has ended, as the access log has it; gamed.ops.access_log.Count."""
        self.requests[template, method, status // 100] += 1
        self.latencies[template].add(seconds)
        if code:
            self.problems[code] += 1
        if code in LIMITS or status == 429:
            self.limits[code or "rate_limited", template] += 1
        if template.startswith(GAME):
            self.save_bytes["in"] += received
            self.save_bytes["out"] += size
        elif template == REFRESH and status == 200:
            self.sessions["refreshed"] += 1

    def event(self, event: Event, provider: str, outcome: str, command: str) -> None:
        """One that the audit heard."""
        self.events[event.value] += 1
        if event in ENDS:
            self.sessions[ENDS[event]] += 1
        if event is Event.COMMAND and command == "sessions revoke":
            self.sessions["revoked"] += 1
        if event in (Event.SIGN_IN, Event.SIGN_IN_REFUSED):
            self.logins[self._known(provider), outcome or "signed_in"] += 1

    def sign_in_failed(self, provider: str, outcome: Outcome) -> None:
        """At the provider, or between it and us."""
        self.logins[self._known(provider), outcome.value] += 1

    def callback_rejected(self) -> None:
        self.events[Event.CALLBACK_REJECTED.value] += 1

    def called(self, provider: str, outcome: str, seconds: float) -> None:
        """A provider was asked something."""
        self.calls[self._known(provider), outcome] += 1
        self.call_latencies[self._known(provider)].add(seconds)

    def _known(self, provider: str) -> str:
        return provider if provider in self._providers else NOBODY


class CountedAudit:
    """gamed.audit.Audit, counted."""

    def __init__(self, audit: Audit, tally: Tally) -> None:
        self._audit = audit
        self._tally = tally

    def note(self, event: Event, **values: str) -> None:
        self._tally.event(event, values.get("provider", ""), values.get("outcome", ""), values.get("command", ""))
        self._audit.note(event, **values)
