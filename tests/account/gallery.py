"""The gallery has the pages of a browser after the login: your page, invite, reset, and the owner's."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from gamed.account.browser import AccountOverview
from gamed.account.browser_store import PlayerNames
from gamed.account.pages import account, links, saves, texts
from gamed.account.pages.parts import PageView, failure_page
from gamed.database.last_backup import LastBackup
from gamed.database.security_events import EventCount, EventKey
from gamed.login.browser import Ended
from gamed.login.local import FormError
from gamed.login.pages.forms import FormFeedback
from gamed.ops.findings import Finding, Level
from gamed.ops.owner_page import owner_page
from gamed.ops.owner_report import ListedPlayer, MachineReport, OwnerReport, StoredReport
from gamed.outcomes import LoginFailure
from gamed.players.names import LOCAL, SignInMethod
from gamed.players.tables import NamedPlayer, Player
from gamed.saves.limits import Usage
from gamed.saves.model import SaveContent, SlotEntry, Version, VersionKind
from gamed.sessions.credentials import SessionInfo
from gamed.timestamps import rfc3339
from tests.login.gallery import CLIENTS, FORM, NUMBER, SERVERS, TOKEN, Shown

NOW_MS = 1_790_000_000_000
MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
PLAYERS = ("ply_" + "A" * 22, "ply_" + "B" * 22, "ply_" + "C" * 22)
VIEW = PageView(SERVERS["plain"], FORM, NOW_MS)
LONG_VIEW = PageView(SERVERS["long"], FORM, NOW_MS)
LINK, LONG_LINK = (links.LinkView(SERVERS[name], TOKEN, FORM) for name in ("plain", "long"))
AT_PROVIDERS = account.SignInChoice({"discord": "Discord", "google": "Google"})
WITH_PASSWORD = account.SignInChoice({})
VERSIONS = {"gamed": "1.0.0", "Python": "3.11.2", "Twisted": "26.10.0", "SQLite": "3.40.1"}


def every_page() -> list[Shown]:
    pages = [*sign_ins(), *accounts(), *of_links(), *of_owner()]
    assert len({page.name for page in pages}) == len(pages)
    return pages


def sign_ins() -> Iterator[Shown]:
    """Yield the pages before the player's page, and after it."""
    for name, title, lead in (
        ("account sign-in", texts.TITLE, texts.SIGN_IN_LEAD),
        ("account again", texts.AGAIN_TITLE, texts.AGAIN_LEAD),
    ):
        for way, choice in (("password", WITH_PASSWORD), ("provider", AT_PROVIDERS)):
            yield Shown(f"{name} {way}", account.sign_in_page(VIEW, choice, title=title, lead=lead))
    wrong = FormFeedback(FormError.WRONG, name="Anna")
    page = account.sign_in_page(VIEW, WITH_PASSWORD, wrong, title=texts.TITLE, lead=texts.SIGN_IN_LEAD)
    yield Shown("account sign-in refused", page)
    yield Shown("account working", account.working_page(VIEW.server))
    yield Shown("account not signed in", account.ended_page(VIEW.server, Ended(LoginFailure.REGISTRATION_CLOSED)))
    pending = Ended(LoginFailure.PLAYER_PENDING, NUMBER)
    yield Shown("account pending", account.ended_page(VIEW.server, pending))
    yield Shown("account unlinked", account.unlinked_page(VIEW.server))
    yield Shown("account deleted", account.deleted_page(VIEW.server))


def accounts() -> Iterator[Shown]:
    """Yield the player's page and the page of a save, full, empty, and with long words."""
    yield Shown("account", account.account_page(VIEW, overview(), WITH_PASSWORD, done="restored"))
    yield Shown("account at providers", account.account_page(VIEW, overview("discord"), AT_PROVIDERS))
    error = texts.PASSWORD_WRONG
    yield Shown("account refused", account.account_page(VIEW, overview(), WITH_PASSWORD, error=error))
    empty = AccountOverview(PlayerNames(None, None), (), (), (), Usage())
    yield Shown("account empty", account.account_page(VIEW, empty, AT_PROVIDERS))
    unreadable = AccountOverview(PlayerNames(None, None), (), (), None, Usage())
    yield Shown("account without saves", account.account_page(VIEW, unreadable, AT_PROVIDERS))
    long = replace(overview("discord", "google", clients=CLIENTS, slot="w" * 64), names=PlayerNames("W" * 32, None))
    yield Shown("account long", account.account_page(LONG_VIEW, long, AT_PROVIDERS))
    listed, wide = versions("auto", "ANNA-PC"), versions("w" * 64, "W" * 64)
    yield Shown("versions", saves.slot_page(VIEW, listed, listed))
    yield Shown("versions long", saves.slot_page(LONG_VIEW, wide, wide, "dismissed"))
    copy = replace(version("auto", 3, 2_200_000, HOUR_MS), device="Steam Deck")
    yield Shown("copy", saves.dismiss_page(VIEW, copy))
    yield Shown("copy long", saves.dismiss_page(LONG_VIEW, replace(copy, slot="w" * 64, device="W" * 64)))
    yield Shown("nothing changed", failure_page(VIEW.server, texts.NOT_TYPED))


def of_links() -> Iterator[Shown]:
    """Yield the pages of invites and reset links."""
    short = FormFeedback(FormError.PASSWORD_MALFORMED, name="Cleo")
    yield Shown("invite", links.invite_page(LINK, "Cleo"))
    yield Shown("invite refused", links.invite_page(LONG_LINK, "", short))
    yield Shown("invite at providers", links.invite_provider_page(LINK, AT_PROVIDERS.labels))
    yield Shown("reset", links.reset_page(LINK, "Anna"))
    yield Shown("reset refused", links.reset_page(LONG_LINK, "W" * 32, short))
    yield Shown("reset done", links.reset_done_page(LINK.server))
    yield Shown("link over", links.link_failure_page(LINK.server, texts.LINK_OVER))


def of_owner() -> Iterator[Shown]:
    """Yield the owner's page."""
    yield Shown("owner", owner_page(report()))
    without = OwnerReport(NOW_MS, (), None, None, None, ["state.db is full"], VERSIONS)
    yield Shown("owner without databases", owner_page(without))


def overview(*providers: str, clients: Mapping[str, Any] | None = None, slot: str = "level-2") -> AccountOverview:
    """Return a player with devices, saves and ways to sign in."""
    described = list((clients or {"plain": CLIENTS["plain"], "half": CLIENTS["half"]}).values())
    sessions = [
        SessionInfo(
            f"ses_{number}", NOW_MS - (number + 2) * DAY_MS, NOW_MS - number * HOUR_MS, NOW_MS, "", each.to_json()
        )
        for number, each in enumerate(described)
    ]
    ways = [
        (SignInMethod(way, NOW_MS - 40 * DAY_MS, NOW_MS - HOUR_MS), way != "google") for way in providers or (LOCAL,)
    ]
    slots = [
        SlotEntry("auto", version("auto", 3, 2_310_000, 5 * MINUTE_MS)),
        SlotEntry(slot, version(slot, 9, 81_920, 2 * DAY_MS), conflicts=(8,)),
        SlotEntry("old", None, deleted_ms=NOW_MS - 3 * DAY_MS),
    ]
    names = PlayerNames(None if providers else "Anna", "Anna")
    return AccountOverview(names, sessions, ways, slots, Usage(slots=2, bytes=2_391_920, history_bytes=4_500_000))


def version(slot: str, number: int, size: int, age_ms: int) -> Version:
    content = SaveContent(bytes(32), size, "application/octet-stream")
    return Version(
        slot=slot, version=number, kind=VersionKind.WRITE, blob_id=1, content=content, created_ms=NOW_MS - age_ms
    )


def versions(slot: str, device: str) -> dict[str, object]:
    """Return a slot with its current version, a conflict copy, and one that replaced a deleted save."""
    rows = [
        (4, "write", 2_310_000, 5 * MINUTE_MS, None, device),
        (3, "conflict", 2_200_000, HOUR_MS, DAY_MS, "Steam Deck"),
        (2, "delete", 0, 2 * DAY_MS, None, None),
        (1, "write", 81_920, 3 * DAY_MS, 27 * DAY_MS, None),
    ]
    listed = [
        {
            "version": number,
            "etag": f'"{number}-0000000000000000"',
            "size": size,
            "modified": rfc3339(NOW_MS - age_ms),
            "kind": kind,
            "expires": None if left_ms is None else rfc3339(NOW_MS + left_ms),
            "device": named,
        }
        for number, kind, size, age_ms, left_ms, named in rows
    ]
    return {"slot": slot, "versions": listed}


def report() -> OwnerReport:
    """Return what the owner sees of three players."""
    anna = Player(PLAYERS[0], "active", True, NOW_MS - 90 * DAY_MS, NOW_MS - HOUR_MS)
    blocked = Player(PLAYERS[1], "blocked", False, NOW_MS - 80 * DAY_MS, NOW_MS - 20 * DAY_MS)
    pending = Player(PLAYERS[2], "pending", False, NOW_MS - DAY_MS, None, NUMBER)
    named = [NamedPlayer(anna, "anna", "Anna"), NamedPlayer(blocked, "W" * 32), NamedPlayer(pending, None, "Cleo")]
    listed = [ListedPlayer(named[0], 2, 6_891_920), ListedPlayer(named[1], 0, 4096), ListedPlayer(named[2], 0, 0)]
    events = [
        EventCount(EventKey(0, "sign_in", PLAYERS[0], '{"provider": "local"}'), NOW_MS - HOUR_MS, NOW_MS - HOUR_MS, 1),
        EventCount(EventKey(0, "sign_in_refused", "", '{"reason": "password"}'), NOW_MS - DAY_MS, NOW_MS - DAY_MS, 7),
    ]
    stored = StoredReport(named, {PLAYERS[0]: 2}, events, LastBackup(NOW_MS - 9 * HOUR_MS, 7_400_000))
    warning = Finding("disk", Level.WARNING, "the disk is nearly full", "Delete something.")
    sizes = {"auth.db": 245_760, "state.db": 7_340_032}
    machine = MachineReport(NOW_MS - MINUTE_MS // 2, [warning], sizes, 812_000_000)
    return OwnerReport(NOW_MS, listed, None, stored, machine, (), VERSIONS)
