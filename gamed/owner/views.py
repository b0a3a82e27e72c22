"""The owner's page: the values that its template shows."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from gamed.audit import WARNINGS
from gamed.database.event_counts import EventCount
from gamed.ops.findings import Level
from gamed.owner.report import EVENTS, WAITING, OwnerReport, Position, StoredReport
from gamed.owner.sentences import sentence_of
from gamed.pages.model import Page, Text, page
from gamed.players.model import NamedPlayer
from gamed.players.names import LOCAL

BEFORE: Final = "before"
"""The member of the query with the position in the list of players."""


class OwnerEvent(Struct, frozen=True):
    """A row of what happened; `alarming` if the owner should look at it."""

    words: Text
    event: EventCount
    name: str | None
    """The player's name, for the first letter; None without one."""
    alarming: bool


class ShownPlayer(Struct, frozen=True):
    """A player who waits, with the labels of the ways to sign in; None is a name and a password."""

    named: NamedPlayer
    ways: Sequence[str | None]


def owner_page(report: OwnerReport, labels: Mapping[str, str]) -> Page:
    """Return the page; `labels` are the providers' names for people."""
    machine, stored = report.machine, report.stored or StoredReport()
    findings = () if machine is None else machine.findings

    def shown(named: NamedPlayer) -> ShownPlayer:
        ways = stored.ways.get(named.player.player_id, ())
        return ShownPlayer(named, [None if way == LOCAL else labels.get(way, way) for way in ways])

    return page(
        "owner",
        report=report,
        # Findings stay in English: `gamed doctor` and `gamed check data` have the same words, and an owner searches for
        # them in the documentation. They name options, paths and units of the system.
        wrong=[each for each in findings if each.level in (Level.WARNING, Level.PROBLEM)],
        waiting=[shown(each) for each in stored.waiting[:WAITING]],
        more_waiting=len(stored.waiting) > WAITING,
        players=[(shown(each.named), each) for each in report.players],
        events=[_shown(each, stored.names, labels) for each in stored.events],
        all_events=len(stored.events) < EVENTS,
        before=None if report.more is None else f"?{BEFORE}={position_text(report.more)}",
    )


def position_text(position: Position) -> str:
    return f"{position[0]}-{position[1]}"


def _shown(event: EventCount, names: Mapping[str, str | None], labels: Mapping[str, str]) -> OwnerEvent:
    words = sentence_of(event, names, labels)
    return OwnerEvent(words, event, names.get(event.key.player_id), event.key.event in WARNINGS)
