"""The gallery of the owner's page that acts: each page in each of its states."""

from collections.abc import Iterator, Mapping
from json import dumps

from msgspec.structs import replace

from gamed.account import views as account_views
from gamed.account.link_model import Invite
from gamed.account.views import Visit
from gamed.assets.manifest import AssetFile, Manifest
from gamed.assets.pointer import ChannelPointer, PointerHistoryEntry
from gamed.assets.snapshot import Overview, ReleaseListing
from gamed.audit import SecurityEvent
from gamed.database.backup_format import BackupProgress
from gamed.database.event_counts import EventCount, EventKey
from gamed.database.last_backup import LastBackup
from gamed.login.transaction import ClientInfo
from gamed.ops.findings import Finding, Level
from gamed.owner import sentences, site_sentences, site_views
from gamed.owner.model import (
    BY,
    BackupRun,
    BackupState,
    DailyFigure,
    KeptBackup,
    PeoplePage,
    Person,
    PersonDetails,
    PersonSaves,
    SavesTotals,
)
from gamed.owner.reads import FILTERS, EventPage, InvitePage
from gamed.owner.report import MachineReport, OwnerReport, StoredReport
from gamed.owner.responder import FAILURES, HELP
from gamed.pages.model import Text, Way
from gamed.players.model import CodeCheck, NamedPlayer, Player
from gamed.players.names import LOCAL, SignInMethod
from gamed.saves.limits import Usage
from gamed.saves.model import SaveContent, SlotEntry, Version, VersionKind
from gamed.sessions.browser_rules import BrowserInfo, BrowserName
from gamed.sessions.credentials import SessionInfo
from gamed.timestamps import rfc3339
from tests.login.gallery import CLIENTS, FORM, NOW_MS, NUMBER, SERVERS, Shown

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
DAY = NOW_MS // DAY_MS
ANNA, BO, PENNY, NOBODY, GONE = ("ply_" + letter * 22 for letter in "ABPNG")
LABELS = {"discord": "Discord", "google": "Google"}
OWN = site_views.OwnerFrame(Visit(FORM, ANNA, "Anna"), LABELS)
LONG = SERVERS["long"]
LONG_OWN = site_views.OwnerFrame(Visit(FORM, ANNA, "W" * 32), LABELS)
NEEDS_CODE = replace(OWN, needs_code=True)
URL = "https://game.example/auth/invite/" + "t" * 22
RELEASES = ("r" + "1" * 16, "r" + "2" * 16)
NAMES: Mapping[str, str | None] = {ANNA: "Anna", BO: "Bo", NOBODY: None}


def done(key: str) -> site_views.OwnerFrame:
    return replace(OWN, visit=replace(OWN.visit, done=site_sentences.NOTICES[key]))


def named(
    player_id: str,
    shown: str | None,
    state: str = "active",
    *,
    owner: bool = False,
    code: str | None = None,
    account: str | None = None,
) -> NamedPlayer:
    player = Player(player_id, state, owner, NOW_MS - 90 * DAY_MS, None if code else NOW_MS - HOUR_MS, code)  # type: ignore[arg-type]
    return NamedPlayer(player, account, shown)


OWNER = named(ANNA, "Anna", owner=True, account="anna")
FRIEND = named(BO, "Bo", account="bobby")
BLOCKED = named("ply_" + "M" * 22, "W" * 32, "blocked")
WAITING = named(PENNY, "Penny", "pending", code="515072")
NAMELESS = named(NOBODY, None)
LEAVING = named(GONE, "Eve", "erasing")


def every_page() -> list[Shown]:
    return [*first(), *people(), *persons(), *others(), *saves(), *files(), *over_time(), *refused()]


def first() -> Iterator[Shown]:
    """Yield the first page, of a server that is well, is not, and is empty."""
    days = figures(30)
    yield Shown.of("now", site_views.now_page(done("o-approve"), report(), NOW_MS - 3 * DAY_MS, 86_400, days))
    quiet = replace(report(), stored=replace(report().stored or StoredReport(), waiting=()))
    yield Shown.of("now quiet", site_views.now_page(OWN, quiet, NOW_MS - HOUR_MS, None, days))
    nobody = OwnerReport(NOW_MS, (), None, StoredReport(created_ms=NOW_MS - 9 * DAY_MS), None, (), {}, Usage())
    yield Shown.of("now of nobody", site_views.now_page(OWN, nobody, NOW_MS, 86_400, []))
    early = replace(nobody, stored=StoredReport(created_ms=NOW_MS))
    yield Shown.of("now early", site_views.now_page(OWN, early, NOW_MS, 86_400, []))
    without = OwnerReport(NOW_MS, (), None, None, MachineReport(NOW_MS, (), {}, None), ["state.db is full"], {})
    yield Shown.of("now without databases", site_views.now_page(OWN, without, NOW_MS, None, []))
    stored = report().stored or StoredReport()
    many = [named(f"ply_{number:022}", "Guest", "pending", code=f"{number:06}") for number in range(52)]
    full = replace(report(), stored=replace(stored, waiting=many))
    yield Shown.of("now of many", site_views.now_page(LONG_OWN, full, NOW_MS, 1, days), LONG)


def people() -> Iterator[Shown]:
    rows = [
        Person(OWNER, ("discord", LOCAL), 3, 6_900_000),
        Person(FRIEND, (LOCAL,), 1, 0),
        Person(BLOCKED, (LOCAL,), 0, 4096),
        Person(replace(WAITING, player=replace(WAITING.player, last_sign_in_ms=None)), ("google",), 0, None),
        Person(NAMELESS, ("unknown",), 0, None),
        Person(named("ply_" + "O" * 22, None), (), 0, 1),
        Person(LEAVING, (), 0, 0),
    ]
    yield Shown.of("people", site_views.people_page(OWN, PeoplePage(rows, PENNY, 1400), after=BO))
    yield Shown.of("people long", site_views.people_page(LONG_OWN, PeoplePage(rows[2:3], None, 1)), LONG)
    yield Shown.of("people none", site_views.people_page(OWN, PeoplePage((), None, 0)))
    yield Shown.of("found", site_views.people_page(OWN, PeoplePage(rows[:2], BO), wanted="an"))
    yield Shown.of("found none", site_views.people_page(OWN, PeoplePage(()), wanted="<b>"))
    yield Shown.of("choose heir", site_views.people_page(OWN, PeoplePage(rows, BO, 1400), merging=FRIEND, after=BO))
    yield Shown.of("choose heir found", site_views.people_page(OWN, PeoplePage(rows, BO), wanted="a", merging=NAMELESS))


def persons() -> Iterator[Shown]:
    for name, each in (
        ("owner", OWNER),
        ("friend", FRIEND),
        ("blocked", BLOCKED),
        ("waiting", WAITING),
        ("leaving", LEAVING),
        ("nameless", NAMELESS),
    ):
        yield Shown.of(f"person {name}", site_views.person_page(done("o-note"), details(each), NAMES))
    empty = replace(details(NAMELESS), methods=(), devices=(), browsers=(), activity=(), usage=None)
    yield Shown.of("person empty", site_views.person_page(OWN, empty, NAMES))
    asking = named(PENNY, "Penny", "pending", code=NUMBER)  # as on the page that she sees
    no_player_yet = replace(details(asking), devices=(), browsers=(), activity=(), usage=Usage())
    yield Shown.of("person asking", site_views.person_page(OWN, no_player_yet, NAMES))
    yield Shown.of("person long", site_views.person_page(LONG_OWN, details(BLOCKED, "long"), NAMES), LONG)
    yield Shown.of("person with a code", site_views.person_page(NEEDS_CODE, details(FRIEND), NAMES))
    yield Shown.of("erase", site_views.ask_page(done("again"), FRIEND, None))
    yield Shown.of("erase with a code", site_views.ask_page(NEEDS_CODE, FRIEND, None))
    yield Shown.of("merge", site_views.ask_page(OWN, FRIEND, NAMELESS))
    yield Shown.of("merge long", site_views.ask_page(NEEDS_CODE, BLOCKED, BLOCKED), LONG)
    for check, sentence in site_sentences.CODES.items():
        yield Shown.of(f"erase refused {check.value}", site_views.ask_page(NEEDS_CODE, FRIEND, None, sentence))
    assert CodeCheck.RIGHT not in site_sentences.CODES


def others() -> Iterator[Shown]:
    """Yield invites, links and events."""
    invites = [
        Invite(NOW_MS + 7 * DAY_MS, None, f"inv_{number:022}", name, NOW_MS - HOUR_MS)
        for number, name in enumerate(("Penny", None, None, "W" * 32))
    ]
    yield Shown.of("invites", site_views.invites_page(OWN, InvitePage(invites, (1, "inv_1"))))
    typed, error = {"name": "x" * 40, "days": "0"}, site_sentences.INVITE_UNUSABLE
    yield Shown.of("invites refused", site_views.invites_page(OWN, InvitePage(()), typed=typed, error=error))
    for name, own, server in (("link", OWN, None), ("link long", LONG_OWN, LONG)):
        url = URL if server is None else f"https://{LONG.host}/auth/invite/{'t' * 22}"
        shown = site_views.ShownInvite(
            url, *site_views.qr_path(url), NOW_MS + DAY_MS, None if server is None else "W" * 32
        )
        yield Shown.of(name, site_views.link_page(own, shown), server)
        yield Shown.of(f"{name} reset", site_views.link_page(own, replace(shown, name="bobby"), reset=True), server)
    for chosen in FILTERS:
        yield Shown.of(
            f"activity {chosen}", site_views.activity_page(OWN, EventPage(every_act(), NAMES, (1, 2)), chosen)
        )
    yield Shown.of("activity none", site_views.activity_page(OWN, EventPage((), {}), "all"))


def saves() -> Iterator[Shown]:
    largest = [(BO, "Bo", 6_900_000), (NOBODY, None, 4096), (GONE, None, 1), (PENNY, "W" * 32, 1)]
    yield Shown.of(
        "saves",
        site_views.saves_page(OWN, SavesTotals(Usage(slots=148, bytes=12_000_000, history_bytes=314_500_000), largest)),
    )
    yield Shown.of("saves none", site_views.saves_page(OWN, SavesTotals(Usage(), ())))
    yield Shown.of("saves away", site_views.saves_page(OWN, None))
    current = version("auto", 3)
    slots = [
        SlotEntry("auto", current),
        SlotEntry("two", version("two", 4), conflicts=(2, 3)),
        SlotEntry("gone", None, deleted_ms=NOW_MS - DAY_MS, kept=version("gone", 1), kept_until_ms=NOW_MS + DAY_MS),
        SlotEntry("older", None, deleted_ms=NOW_MS - DAY_MS),
        SlotEntry("broken", None, damaged=True),
        SlotEntry("w" * 64, version("w" * 64, 9)),
    ]
    yield Shown.of("slots", site_views.slots_page(done("o-undelete"), PersonSaves(FRIEND, BO, slots, "w")))
    yield Shown.of("slots of nobody", site_views.slots_page(LONG_OWN, PersonSaves(None, GONE, slots)), LONG)
    yield Shown.of("slots of the owner", site_views.slots_page(OWN, PersonSaves(OWNER, ANNA, slots)))
    yield Shown.of("slots none", site_views.slots_page(OWN, PersonSaves(NAMELESS, NOBODY, ())))
    listed = versions("auto", "ANNA-PC")
    yield Shown.of("slot", site_views.slot_page(done("o-restore"), BO, FRIEND, {**listed, "more": True}, listed))
    wide = versions("w" * 64, "W" * 64)
    yield Shown.of("slot long", site_views.slot_page(LONG_OWN, GONE, None, wide, wide), LONG)
    yield Shown.of("slot of the owner", site_views.slot_page(OWN, ANNA, OWNER, listed, listed))


def files() -> Iterator[Shown]:
    one, two = (manifest(note) for note in ("1.4.2", ""))
    history = (PointerHistoryEntry(RELEASES[0], NOW_MS - 9 * DAY_MS),)
    channels = {
        "stable": ChannelPointer(RELEASES[1], NOW_MS - DAY_MS, history),
        "a" * 32: ChannelPointer(RELEASES[0], NOW_MS - DAY_MS),
    }
    releases = [
        ReleaseListing(RELEASES[1], two, ["stable"], 4096, None),
        ReleaseListing(RELEASES[0], one, ["a" * 32], 0, None),
    ]
    found = Overview(channels, releases, ["channel beta"], 4, 123_456_789)
    yield Shown.of("files", site_views.files_page(done("o-point"), found))
    many = [replace(releases[0], release=f"r{number:016}") for number in range(30)]
    yield Shown.of("files long", site_views.files_page(LONG_OWN, replace(found, releases=many)), LONG)
    yield Shown.of("files none", site_views.files_page(OWN, Overview({}, (), (), 0, 0)))
    yield Shown.of("files away", site_views.files_page(OWN, None))
    kept = [
        KeptBackup("gamed-20261124T030000Z", NOW_MS - 9 * HOUR_MS, 7_400_000),
        KeptBackup("gamed-20261123T030000Z", 0, 0),
    ]
    run = BackupRun("a" * 8, NOW_MS - 2 * MINUTE_MS, NOW_MS, None)
    state = BackupState("/mnt/backups", kept, 3, run)
    yield Shown.of("backups", site_views.backups_page(done("o-backup"), state, too_old=False))
    running = replace(state, run=replace(run, ended_ms=None), running=True, more=1)
    yield Shown.of("backups running", site_views.backups_page(OWN, running, too_old=True))
    for progress in (BackupProgress(3, 8), BackupProgress(7_340_032, None)):
        shown = replace(running, progress=progress)
        yield Shown.of(f"backups running {progress.whole}", site_views.backups_page(OWN, shown, too_old=False))
    interrupted = replace(running, running=False, kept=())
    yield Shown.of("backups interrupted", site_views.backups_page(OWN, interrupted, too_old=True))
    failed = replace(state, run=replace(run, problem="There is no folder " + "/x" * 100), kept=None)
    yield Shown.of("backups failed", site_views.backups_page(LONG_OWN, failed, too_old=True), LONG)
    yield Shown.of("backups nowhere", site_views.backups_page(OWN, BackupState(None, None), too_old=False))


def over_time() -> Iterator[Shown]:
    yield Shown.of("time", site_views.time_page(OWN, figures(90)))
    yield Shown.of("time of one day", site_views.time_page(OWN, figures(1)))
    yield Shown.of(
        "time long",
        site_views.time_page(LONG_OWN, [replace(each, bytes=10**12, requests=10**12) for each in figures(3)]),
        LONG,
    )


def refused() -> Iterator[Shown]:
    """Yield every notice, and the page of every failure."""
    for key in site_sentences.NOTICES:
        yield Shown.of(f"owner notice {key}", site_views.invites_page(done(key), InvitePage(())))
    for kind, (status, sentence) in FAILURES.items():
        command = next((HELP[each] for each in kind.__mro__ if each in HELP), "gamed players erase")
        filled = Text(sentence.source, {"command": command}) if "{command}" in sentence.source else sentence
        yield Shown.of(f"owner failure {kind.__module__} {kind.__name__} {status}", site_views.failure_page(filled))
    page = account_views.sign_in_page(
        FORM, account_views.SignInChoice({}), title=site_sentences.TITLE, lead=site_sentences.SIGN_IN_LEAD
    )
    yield Shown.of("owner sign-in", page)
    way = Way(site_sentences.BACK_TO_PERSON, "/auth/owner/people/ply_1")
    yield Shown.of("owner failure of a person", site_views.failure_page(site_sentences.CHANGED, way=way))


def report() -> OwnerReport:
    stored = StoredReport(
        waiting=[WAITING, replace(NAMELESS, player=replace(NAMELESS.player, state="pending", approval_code="208913"))],
        ways={PENNY: ("discord",), NOBODY: (LOCAL,)},
        count=14,
        active=5,
        events=every_act()[:6],
        names=NAMES,
        backup=LastBackup(NOW_MS - 26 * HOUR_MS, 7_400_000),
        created_ms=NOW_MS - 90 * DAY_MS,
        trouble_ms=NOW_MS - 2 * DAY_MS,
    )
    warning = Finding("disk", Level.WARNING, "the disk is nearly full", "Delete something.")
    sizes = {"auth.db": 245_760, "state.db": 7_340_032_000}
    machine = MachineReport(NOW_MS, [warning], sizes, 38 * 2**30, 100 * 2**30, 9 * 2**30)
    usage = Usage(slots=148, bytes=12_391_920, history_bytes=314_500_000)
    return OwnerReport(NOW_MS, (), None, stored, machine, (), {"gamed": "1.0.0", "Python": "3.11.2"}, usage)


def details(of: NamedPlayer, client: str = "plain") -> PersonDetails:
    devices = [
        SessionInfo(f"ses_{number}", NOW_MS - DAY_MS, NOW_MS - HOUR_MS, NOW_MS, "", CLIENTS[each].to_json())
        for number, each in enumerate((client, client, "silent"))
    ]
    assert isinstance(CLIENTS[client], ClientInfo)
    browsers = [BrowserInfo("brs_1", BrowserName("Firefox", "Linux"), NOW_MS - DAY_MS, NOW_MS, LOCAL)]
    methods = [SignInMethod("discord", 0, NOW_MS - HOUR_MS), SignInMethod(LOCAL, 0, NOW_MS - DAY_MS)]
    return PersonDetails(
        of,
        "Anna's brother, plays on Sundays",
        methods,
        devices,
        browsers,
        every_act()[:3],
        Usage(slots=3, bytes=4096, history_bytes=12),
    )


def every_act() -> list[EventCount]:
    """Return an event for each act of the owner on the page, and one of each other kind."""
    acts = [{"command": command, "by": f"{BY}{ANNA}"} for command in (*sentences.ACTS, "saves erase")]
    rows = [(SecurityEvent.COMMAND, BO, each) for each in acts]
    rows += [
        (SecurityEvent.REFRESH_REUSED, NOBODY, {}),
        (SecurityEvent.SIGN_IN_REFUSED, "", {"outcome": "wrong_password"}),
    ]
    return [
        EventCount(EventKey(0, event.value, player, dumps(values)), NOW_MS - HOUR_MS, NOW_MS - HOUR_MS, 1 + number % 2)
        for number, (event, player, values) in enumerate(rows)
    ]


def figures(days: int) -> list[DailyFigure]:
    return [
        DailyFigure(
            DAY - days + 1 + number,
            10 + number // 7,
            2 + number * 7 % 9,
            148 + number,
            10**8 + number * 10**6,
            5000 + number * 37 % 900,
            number % 5,
        )
        for number in range(days)
    ]


def versions(slot: str, device: str) -> dict[str, object]:
    """Return a body of the versions list: the current version, a conflict copy, a delete and an old one."""
    rows = [
        (4, "write", 5, device),
        (3, "conflict", 60, "Steam Deck"),
        (2, "delete", 1440, None),
        (1, "write", 9000, None),
    ]
    listed = [
        {
            "version": number,
            "etag": f'"{number}-0000000000000000"',
            "size": 81_920,
            "modified": rfc3339(NOW_MS - minutes * MINUTE_MS),
            "kind": kind,
            "expires": None if number == 4 else rfc3339(NOW_MS + DAY_MS),
            "device": named_,
        }
        for number, kind, minutes, named_ in rows
    ]
    return {"slot": slot, "versions": listed}


def version(slot: str, number: int) -> Version:
    content = SaveContent(b"\0" * 32, 81_920, "application/octet-stream", '{"title":"Chapter 3"}')
    return Version(
        slot=slot,
        version=number,
        parent=None,
        parent_tag=None,
        kind=VersionKind.WRITE,
        blob_id=1,
        content=content,
        created_ms=NOW_MS - HOUR_MS,
        device="ANNA-PC",
    )


def manifest(note: str) -> Manifest:
    return Manifest(
        published_ms=NOW_MS - DAY_MS,
        note=note,
        meta={},
        files={"game.pak": AssetFile(123_456, "a" * 64, "application/octet-stream")},
    )
