"""The pages of the owner's page that acts: the values that their templates show."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct, convert

from gamed.account.views import (
    CONFLICT,
    ShownDevice,
    ShownSave,
    ShownVersions,
    Visit,
    shown_device,
    shown_save,
)
from gamed.assets.snapshot import Overview
from gamed.audit import WARNINGS
from gamed.database.event_counts import EventCount
from gamed.login.views import message
from gamed.ops.findings import Level
from gamed.owner import site_sentences as sentences
from gamed.owner.model import (
    DAY_MS,
    HOME,
    BackupState,
    DailyFigure,
    PeoplePage,
    Person,
    PersonDetails,
    PersonSaves,
    SavesTotals,
)
from gamed.owner.reads import EventPage, InvitePage
from gamed.owner.report import OwnerReport, StoredReport
from gamed.owner.sentences import sentence_of
from gamed.owner.views import OwnerEvent
from gamed.pages.model import Page, Text, Way, page, text
from gamed.players.model import NamedPlayer
from gamed.players.names import LOCAL

LINE_WIDTH: Final = 600
LINE_HEIGHT: Final = 110
LINE_TOP: Final = 8
SHOWN_DAYS: Final = 30
RELEASES: Final = 25
WAITING: Final = 25  # a page of 50 took 7 ms of the reactor's thread
QUIET: Final = 4


class OwnerFrame(Struct, frozen=True):
    """The parts of every page: the visit, the labels of providers by name, and whether an act needs a code."""

    visit: Visit
    labels: Mapping[str, str]
    needs_code: bool = False


class ShownPerson(Struct, frozen=True):
    """A player with the labels of the ways to sign in; None is a name and a password."""

    person: Person
    ways: Sequence[str | None]


class DiskPart(Struct, frozen=True):
    """A part of the disk's bar, in thousandths of its width."""

    kind: str
    label: Text
    bytes: int
    begin: int
    width: int


class ShownLine(Struct, frozen=True):
    """A figure over time: the SVG paths, and the least and the greatest value."""

    label: Text
    line: str
    area: str
    least: int
    most: int
    is_size: bool = False


class ShownRelease(Struct, frozen=True):
    """A row of the releases, with the channels that point at it."""

    release: str
    note: str
    channels: Sequence[str]
    published_ms: int
    files: int
    bytes: int


class ShownInvite(Struct, frozen=True):
    """A link that is shown once: its address, and its QR code as the path and the size of a drawing."""

    url: str
    path: str
    size: int
    expires_ms: int
    name: str | None = None


def now_page(
    frame: OwnerFrame, report: OwnerReport, healthy_ms: int, backup_seconds: int | None, days: Sequence[DailyFigure]
) -> Page:
    """Return the first page; the last backup is marked once it is older than `backup_seconds`, None for never."""
    stored, machine = report.stored or StoredReport(), report.machine
    findings = () if machine is None else machine.findings
    waiting = _shown_people(
        [Person(each, stored.ways.get(each.player.player_id, ())) for each in stored.waiting], frame
    )
    made_ms = stored.created_ms if stored.backup is None else stored.backup.made_ms
    too_old = backup_seconds is not None and made_ms is not None and report.now_ms - made_ms > backup_seconds * 1000
    healthy = max(healthy_ms, stored.trouble_ms or 0)
    return page(
        "owner_now",
        own=frame,
        here="",
        report=report,
        wrong=[each for each in findings if each.level in (Level.WARNING, Level.PROBLEM)],
        waiting=waiting[:WAITING],
        more_waiting=len(waiting) > WAITING,
        backup_too_old=too_old,
        healthy_ms=healthy,
        disk=[] if machine is None else disk_parts(report),
        events=[shown_event(each, stored.names, frame.labels) for each in stored.events],
        active=line_of(days[-SHOWN_DAYS:], "active", text("Players each day")),
    )


def disk_parts(report: OwnerReport) -> Sequence[DiskPart]:
    """Return what uses the disk with the data folder, the free part last; nothing if it cannot be read."""
    machine = report.machine
    if machine is None or machine.free_bytes is None or not machine.total_bytes:
        return []
    databases = sum(machine.file_bytes.values()) if machine.local else 0
    files, used = machine.asset_bytes, machine.total_bytes - machine.free_bytes
    parts = [
        ("saves", text("Databases"), databases),
        ("files", text("Game files"), files),
        ("rest", text("Everything else"), max(0, used - databases - files)),
        ("free", text("Free"), machine.free_bytes),
    ]
    shown: list[DiskPart] = []
    begin = 0
    for kind, label, size in parts:
        width = min(1000 - begin, max(4 if size else 0, size * 1000 // machine.total_bytes))
        shown.append(DiskPart(kind, label, size, begin, width))
        begin += width
    return shown


def people_page(
    frame: OwnerFrame, found: PeoplePage, *, wanted: str = "", merging: NamedPlayer | None = None, after: str = ""
) -> Page:
    """Return a page of players: all, those of a search, or those whom another one could be merged into."""
    return page(
        "owner_people",
        own=frame,
        here="people",
        people=_shown_people(found.people, frame),
        more=found.more,
        count=found.count,
        wanted=wanted,
        merging=merging,
        later=bool(after),
    )


def person_page(frame: OwnerFrame, details: PersonDetails, names: Mapping[str, str | None]) -> Page:
    devices: list[ShownDevice] = [shown_device(each) for each in details.devices[:50]]
    devices += [
        ShownDevice(each.session_id, each.last_used_ms, each.created_ms, browser=each.browser)
        for each in details.browsers[:50]
    ]
    ways = [
        (None if each.provider == LOCAL else frame.labels.get(each.provider, each.provider), each)
        for each in details.methods
    ]
    return page(
        "owner_person",
        own=frame,
        here="people",
        named=details.named,
        note=details.note,
        ways=ways,
        devices=sorted(devices, key=lambda each: -each.last_used_ms),
        usage=details.usage,
        events=[shown_event(each, names, frame.labels) for each in details.activity],
    )


def ask_page(frame: OwnerFrame, named: NamedPlayer, heir: NamedPlayer | None, error: Text | None = None) -> Page:
    """Return the page that asks before a player is erased, or with an heir merged; `error` is about the typed code."""
    return page("owner_ask", own=frame, named=named, heir=heir, error=error)


def invites_page(
    frame: OwnerFrame, found: InvitePage, *, typed: Mapping[str, str] | None = None, error: Text | None = None
) -> Page:
    """Return the invites; `error` is about what was typed, which the form has again."""
    more = None if found.more is None else f"{found.more[0]}-{found.more[1]}"
    shown = {"invites": found.invites, "more": more, "typed": typed or {}, "error": error}
    return page("owner_invites", own=frame, here="invites", **shown)


def link_page(frame: OwnerFrame, shown: ShownInvite, *, reset: bool = False) -> Page:
    """Return the page that shows a link once."""
    return page("owner_link", own=frame, here="people" if reset else "invites", link=shown, reset=reset)


def activity_page(frame: OwnerFrame, found: EventPage, chosen: str) -> Page:
    more = None if found.more is None else f"{found.more[0]}-{found.more[1]}"
    events = [shown_event(each, found.names, frame.labels) for each in found.events]
    return page("owner_activity", own=frame, here="activity", events=events, chosen=chosen, more=more)


def saves_page(frame: OwnerFrame, totals: SavesTotals | None) -> Page:
    """Return the totals; None if state.db cannot be read."""
    largest = () if totals is None else totals.largest
    return page("owner_saves", own=frame, here="saves", totals=totals, largest=largest)


def slots_page(frame: OwnerFrame, found: PersonSaves) -> Page:
    saves: Sequence[ShownSave] = [shown_save(each) for each in found.slots]
    return page("owner_slots", own=frame, here="saves", found=found, saves=saves)


def slot_page(
    frame: OwnerFrame, player_id: str, named: NamedPlayer | None, listed: dict[str, object], sides: dict[str, object]
) -> Page:
    """Return the versions of a save, from bodies of the versions list: a page of it, and those to choose from."""
    found, choice = convert(listed, ShownVersions), convert(sides, ShownVersions)
    return page(
        "owner_slot",
        own=frame,
        here="saves",
        player_id=player_id,
        named=named,
        slot=found.slot,
        head=choice.head,
        copies=choice.copies,
        versions=[each for each in found.versions if each.kind != CONFLICT],
        older=found.versions[-1].version if found.more else None,
    )


def files_page(frame: OwnerFrame, found: Overview | None) -> Page:
    """Return the channels and releases; None if the folder cannot be read."""
    shown = found or Overview({}, (), (), 0, 0)
    return page(
        "owner_files",
        own=frame,
        here="files",
        readable=found is not None,
        broken=shown.damaged,
        channels=list(shown.channels.items()),
        releases=[
            ShownRelease(
                each.release,
                each.manifest.note,
                each.channels,
                each.manifest.published_ms,
                len(each.manifest.files),
                each.manifest.size,
            )
            for each in shown.releases[:RELEASES]
        ],
        more=max(0, len(shown.releases) - RELEASES),
        count=len(shown.releases),
        bytes=shown.bytes,
    )


def backups_page(frame: OwnerFrame, state: BackupState, *, too_old: bool) -> Page:
    return page("owner_backups", own=frame, here="backups", state=state, too_old=too_old)


def time_page(frame: OwnerFrame, days: Sequence[DailyFigure]) -> Page:
    lines = [
        line_of(days, "players", text("Players")),
        line_of(days, "active", text("Players each day")),
        line_of(days, "saves", text("Saves")),
        line_of(days, "bytes", text("Size of all saves")),
        line_of(days, "requests", text("Requests")),
        line_of(days, "refusals", text("Refused requests")),
    ]
    rows = [(each.day * DAY_MS, each) for each in reversed(days)]
    return page("owner_time", own=frame, here="time", lines=[each for each in lines if each], rows=rows)


def line_of(days: Sequence[DailyFigure], name: str, label: Text) -> ShownLine | None:
    """Return a figure as a line; a day without a row is left out of it. None for fewer than two days."""
    if len(days) < 2:
        return None
    values = [int(getattr(each, name)) for each in days]
    first, span, most = days[0].day, max(1, days[-1].day - days[0].day), max(values)
    height = LINE_HEIGHT - LINE_TOP
    points = [
        f"{(each.day - first) * LINE_WIDTH // span} {LINE_HEIGHT - (value * height // most if most else 0)}"
        for each, value in zip(days, values, strict=True)
    ]
    line = f"M{points[0]}" + "".join(f"L{each}" for each in points[1:])
    area = f"{line}V{LINE_HEIGHT}H0Z"
    return ShownLine(label, line, area, min(values), most, is_size=name == "bytes")


def shown_event(event: EventCount, names: Mapping[str, str | None], labels: Mapping[str, str]) -> OwnerEvent:
    words = sentence_of(event, names, labels)
    return OwnerEvent(words, event, names.get(event.key.player_id), event.key.event in WARNINGS)


def failure_page(sentence: Text, *, title: Text | None = None, way: Way | None = None) -> Page:
    """Return the page of an act that was refused, with a way back."""
    back = way or Way(sentences.BACK, HOME)
    return message(title or sentences.NOT_CHANGED, sentence, sign="declined", ways=(back,))


def qr_path(url: str) -> tuple[str, int]:
    """Return the QR code of a URL as the path of a drawing, and its size with the quiet zone."""
    import segno  # the start does not need it

    rows = [bytes(row) for row in segno.make_qr(url, error="m").matrix]
    path = "".join(
        f"M{x + QUIET} {y + QUIET}h1v1h-1z" for y, row in enumerate(rows) for x, dark in enumerate(row) if dark
    )
    return path, len(rows) + 2 * QUIET


def _shown_people(people: Sequence[Person], frame: OwnerFrame) -> Sequence[ShownPerson]:
    return [ShownPerson(each, _ways(each.ways, frame)) for each in people]


def _ways(ways: Sequence[str], frame: OwnerFrame) -> Sequence[str | None]:
    return [None if way == LOCAL else frame.labels.get(way, way) for way in ways]
