"""The gallery has the pages of a browser after the login: your page, invite, reset, and the owner's."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from json import dumps
from typing import Any

from msgspec.structs import replace

from gamed.account import sentences, views
from gamed.account.browser import AccountOverview, SavesPlace
from gamed.account.browser_store import PlayerNames
from gamed.account.links_routes import FAILURES as LINK_FAILURES
from gamed.account.responder import AGAIN_LEAD, AGAIN_TITLE, FAILURES, SIGN_IN_LEAD, SIGNED_OUT, TITLE
from gamed.account.return_rules import SECTIONS
from gamed.audit import RecordedEvent, SecurityEvent
from gamed.config.providers import PRESETS
from gamed.database.event_counts import EventCount, EventKey
from gamed.database.last_backup import LastBackup
from gamed.login.browser import Ended
from gamed.login.local import FormError
from gamed.login.transaction import ClientInfo
from gamed.login.views import FormFeedback
from gamed.ops.findings import Finding, Level
from gamed.outcomes import LoginFailure
from gamed.owner import sentences as owner_sentences
from gamed.owner.report import WAITING, ListedPlayer, MachineReport, OwnerReport, StoredReport
from gamed.owner.views import owner_page
from gamed.passkeys.ceremony import PasskeyPrompt
from gamed.passkeys.limits import CODES
from gamed.passkeys.model import Passkey
from gamed.passkeys.recovery_rules import CodeStock, RecoveryCodes
from gamed.players.model import NamedPlayer, Player
from gamed.players.names import LOCAL, OtherWays, SignInMethod
from gamed.saves.limits import Usage
from gamed.saves.model import SaveContent, SlotEntry, Version, VersionKind
from gamed.sessions.browser_rules import BrowserInfo, BrowserName
from gamed.sessions.credentials import PASSKEY, RECOVERY_CODE, SessionInfo
from gamed.timestamps import rfc3339
from tests.login.gallery import CLIENTS, FORM, NOW_MS, NUMBER, SERVERS, TOKEN, Shown
from tests.owner import gallery as owner_gallery

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
PLAYERS = ("ply_" + "A" * 22, "ply_" + "B" * 22, "ply_" + "C" * 22)
VISIT = views.Visit(FORM, PLAYERS[0], "Anna")
LONG = SERVERS["long"]
LONG_VISIT = views.Visit(FORM, PLAYERS[0], "W" * 32, sentences.NOTICES["dismissed"])
LINK = views.LinkView(TOKEN, FORM)
AT_PROVIDERS = views.SignInChoice({"discord": "Discord", "google": "Google"}, ("Discord", "Google"))
PASSKEY_PROMPT = PasskeyPrompt('{"call":"get","publicKey":{"rpId":"game.example"}}', "c" * 200)
WITH_PASSWORD = views.SignInChoice({})
BROWSERS = (BrowserName("Firefox", "Linux"), BrowserName("Chrome"), BrowserName(None, "Android"), BrowserName())
LABELS = {"discord": "Discord", "google": "Google"}
VERSIONS = {"gamed": "1.0.0", "Python": "3.11.2", "Twisted": "26.10.0", "SQLite": "3.40.1"}


@cache
def every_page() -> Sequence[Shown]:
    """Return all pages of this gallery; a process makes them once."""
    pages = [*sign_ins(), *accounts(), *passkeys(), *saves(), *of_links(), *of_owner(), *owner_gallery.every_page()]
    assert len({page.name for page in pages}) == len(pages)
    return pages


ALL_PROVIDERS = {name: preset.label or name for name, preset in PRESETS.items()} | {"main": "Our club"}


def sign_ins() -> Iterator[Shown]:
    """Yield the pages before the player's page, and after it."""
    every = views.SignInChoice(ALL_PROVIDERS, tuple(ALL_PROVIDERS.values()))
    yield Shown.of("account sign-in at all", views.sign_in_page(FORM, every, title=TITLE, lead=SIGN_IN_LEAD))
    for name, title, lead in (("account sign-in", TITLE, SIGN_IN_LEAD), ("account again", AGAIN_TITLE, AGAIN_LEAD)):
        for way, choice in (("password", WITH_PASSWORD), ("provider", AT_PROVIDERS)):
            yield Shown.of(f"{name} {way}", views.sign_in_page(FORM, choice, title=title, lead=lead))
    wrong = FormFeedback(FormError.WRONG, name="Anna")
    page = views.sign_in_page(FORM, WITH_PASSWORD, wrong, title=TITLE, lead=SIGN_IN_LEAD)
    yield Shown.of("account sign-in refused", page)
    for way, choice in (("password", WITH_PASSWORD), ("provider", AT_PROVIDERS)):
        refused = FormFeedback(FormError.PASSKEY)
        page = views.sign_in_page(FORM, choice, refused, title=TITLE, lead=SIGN_IN_LEAD, passkey=PASSKEY_PROMPT)
        yield Shown.of(f"account passkey refused beside {way}", page)
    for refused in (None, FormFeedback(FormError.RECOVERY, name="Anna", recovering=True)):
        way = {"title": TITLE, "lead": SIGN_IN_LEAD, "passkey": PASSKEY_PROMPT, "recovery": True}
        page = views.sign_in_page(FORM, WITH_PASSWORD, refused, **way)
        yield Shown.of(f"account sign-in with a recovery code{' refused' if refused else ''}", page)
    yield Shown.of("account working", views.working_page())
    for outcome in LoginFailure:
        yield Shown.of(f"account ended {outcome.value}", views.ended_page(Ended(outcome)))
        yield Shown.of(f"account not linked {outcome.value}", views.ended_page(Ended(outcome, linking=True)))
    yield Shown.of("account ended again", views.ended_page(Ended(LoginFailure.PROVIDER_DENIED), FORM, "b" * 300))
    used = views.ended_page(Ended(LoginFailure.SESSION_REVOKED), FORM, by_code=True)
    yield Shown.of("account ended by a used code", used)
    yield Shown.of("account pending", views.ended_page(Ended(LoginFailure.PLAYER_PENDING, NUMBER)))
    yield Shown.of("account unlinked", views.unlinked_page())
    yield Shown.of("account deleted", views.deleted_page())


def passkeys() -> Iterator[Shown]:
    """Yield the pages that make, rename and remove a passkey."""
    unused = Passkey("pky_1", "Phone", "game.example", True, True, NOW_MS - DAY_MS, None)
    used = Passkey("pky_2", "W" * 64, "old.example", False, False, NOW_MS - 2 * DAY_MS, NOW_MS - HOUR_MS)
    yield Shown.of("new passkey", views.new_passkey_page(VISIT, PASSKEY_PROMPT, "Linux / Firefox"))
    for number, sentence in enumerate((sentences.PASSKEY_KNOWN, sentences.PASSKEYS_FULL, sentences.PASSKEY_REFUSED)):
        page = views.new_passkey_page(LONG_VISIT, PASSKEY_PROMPT, "W" * 64, sentence)
        yield Shown.of(f"new passkey refused {number}", page, LONG)
    yield Shown.of("passkey", views.passkey_page(VISIT, unused))
    error = sentences.DEVICE_NAME_UNUSABLE
    yield Shown.of("passkey refused", views.passkey_page(LONG_VISIT, used, "x" * 65, error), LONG)
    yield Shown.of("passkey removed", views.passkey_removed_page())
    for left in (0, 3):
        yield Shown.of(f"{left} recovery codes", views.recovery_page(VISIT, CodeStock(left, "1")))
    made = RecoveryCodes(["BCDFG-HJKLM-NPQRS-TVWXZ"] * CODES, "Anna")
    yield Shown.of("new recovery codes", views.codes_page(VISIT, made))
    done = replace(LONG_VISIT, done=sentences.NOTICES["passkey-added"])
    yield Shown.of("recovery codes with a passkey", views.codes_page(done, replace(made, account="W" * 32)), LONG)
    with_keys = replace(overview(), passkeys=(unused, used), passkey_host="game.example", codes_left=7)
    yield Shown.of("account with passkeys", views.account_page(VISIT, with_keys, WITH_PASSWORD))
    void = replace(overview("discord"), passkeys=(unused, used))
    yield Shown.of("account with void passkeys", views.account_page(VISIT, void, AT_PROVIDERS))


def saves() -> Iterator[Shown]:
    """Yield the page of a save, and the questions before one is deleted."""
    listed, wide = versions("auto", "ANNA-PC"), versions("w" * 64, "W" * 64)
    yield Shown.of("versions", views.slot_page(VISIT, listed, listed))
    yield Shown.of("versions long", views.slot_page(LONG_VISIT, wide, wide), LONG)
    copy = replace(version("auto", 3, 2_200_000, HOUR_MS), device="Steam Deck")
    yield Shown.of("copy", views.dismiss_page(VISIT, copy))
    yield Shown.of("copy long", views.dismiss_page(LONG_VISIT, replace(copy, slot="w" * 64, device="W" * 64)), LONG)
    current = version("auto", 4, 2_310_000, 5 * MINUTE_MS, '{"title":"Chapter 3"}')
    yield Shown.of("delete save", views.delete_save_page(VISIT, current, NOW_MS + 30 * DAY_MS))
    long_save = replace(version("w" * 64, 4, 2_310_000, 5 * MINUTE_MS), device="W" * 64)
    yield Shown.of("delete save for good", views.delete_save_page(LONG_VISIT, long_save, None), LONG)
    for name, body in (("keep", versions("auto", "ANNA-PC")), ("keep long", versions("w" * 64, "W" * 64, copies=2))):
        sides = views.sides_of(body)
        assert sides.head is not None
        yield Shown.of(name, views.keep_page(VISIT, sides.head, sides))
    deleted = versions("auto", "ANNA-PC", copies=2)
    deleted["versions"] = [{**each, "kind": "delete"} if each["version"] == 4 else each for each in deleted["versions"]]  # type: ignore[attr-defined]
    yield Shown.of("versions of a deleted save", views.slot_page(VISIT, deleted, deleted))
    listed["more"] = True
    yield Shown.of("versions of a long history", views.slot_page(VISIT, listed, listed))


def accounts() -> Iterator[Shown]:
    """Yield the account, full, empty, and with long words."""
    done = replace(VISIT, done=sentences.NOTICES["restored"])
    yield Shown.of("account", views.account_page(done, overview(), WITH_PASSWORD))
    yield Shown.of("account at providers", views.account_page(VISIT, overview("discord"), AT_PROVIDERS))
    error = sentences.PASSWORD_REFUSED[FormError.WRONG]
    wrong = views.AccountForms({}, "old", error)
    yield Shown.of("account refused", views.account_page(VISIT, overview(), WITH_PASSWORD, forms=wrong))
    for field, typed, sentence in (
        ("name", "Anna\u200b", sentences.NAME_UNUSABLE),
        ("word", "delte", sentences.NOT_TYPED),
    ):
        refused_field = views.AccountForms({field: typed}, field, sentence)
        page = views.account_page(VISIT, overview("discord"), AT_PROVIDERS, forms=refused_field)
        yield Shown.of(f"account refused {field}", page)
    adoptable = replace(overview("discord"), adoptable=True)
    yield Shown.of("account before adopting", views.account_page(VISIT, adoptable, AT_PROVIDERS))
    for reason, sentence in sentences.ADOPT_REFUSED.items():
        refused_field = views.AccountForms({"old_account": "anna"}, "old_account", sentence)
        page = views.account_page(VISIT, adoptable, AT_PROVIDERS, forms=refused_field)
        yield Shown.of(f"account adopting refused {reason.value}", page)
    for section in sorted({*SECTIONS.values()}):
        typed = views.AccountForms({"name": "Anna L", "word": "delete"}, again=section)
        yield Shown.of(f"account again at {section}", views.account_page(VISIT, overview(), WITH_PASSWORD, forms=typed))
    empty = AccountOverview(PlayerNames(None, None), (), (), (), Usage())
    nameless = replace(VISIT, name=None)
    yield Shown.of("account empty", views.account_page(nameless, empty, AT_PROVIDERS))
    unreadable = AccountOverview(PlayerNames(None, None), (), (), None, Usage())
    yield Shown.of("account without saves", views.account_page(nameless, unreadable, AT_PROVIDERS))
    long = replace(overview("discord", "google", clients=CLIENTS, slot="w" * 64), names=PlayerNames("W" * 32, None))
    yield Shown.of("account long", views.account_page(LONG_VISIT, long, AT_PROVIDERS), LONG)
    device = views.shown_device(overview().sessions[0])
    yield Shown.of("rename device", views.rename_page(VISIT, device))
    nameless_device = views.shown_device(SessionInfo("ses_s", NOW_MS - DAY_MS, NOW_MS, NOW_MS, "", "{}"))
    error = sentences.DEVICE_NAME_UNUSABLE
    yield Shown.of("rename device refused", views.rename_page(LONG_VISIT, nameless_device, "", error), LONG)
    yield Shown.of("nothing changed", views.failure_page(sentences.LAST_WAY))
    refused = {sentence.source: views.failure_page(sentence) for _, sentence in FAILURES.values()}
    refused[sentences.NO_COOKIE.source] = views.failure_page(sentences.NO_COOKIE)
    refused |= {sentence.source: views.link_failure_page(sentence) for _, sentence in LINK_FAILURES.values()}
    for number, page in enumerate(refused.values()):
        yield Shown.of(f"account refused {number}", page)
    for key, sentence in sentences.NOTICES.items():
        after = views.account_page(replace(VISIT, done=sentence), overview(), AT_PROVIDERS)
        yield Shown.of(f"account after {key}", after)
    for error, sentence in sentences.PASSWORD_REFUSED.items():
        page = views.account_page(VISIT, overview(), WITH_PASSWORD, forms=views.AccountForms({}, "old", sentence))
        yield Shown.of(f"account password {error.value}", page)
    yield Shown.of("account full", views.account_page(VISIT, full_overview(), AT_PROVIDERS, SavesPlace(after="s1")))
    devices = list(full_overview().sessions)[:101]
    yield Shown.of(
        "account with 101 devices", views.account_page(VISIT, replace(overview(), sessions=devices), WITH_PASSWORD)
    )
    yield Shown.of("account signed out", views.sign_in_page(FORM, WITH_PASSWORD, title=TITLE, lead=SIGNED_OUT))


def of_links() -> Iterator[Shown]:
    """Yield the pages of invites and reset links."""
    short = FormFeedback(FormError.PASSWORD_MALFORMED, name="Cleo")
    yield Shown.of("invite", views.invite_page(LINK, "Cleo"))
    yield Shown.of("invite refused", views.invite_page(LINK, "", short), LONG)
    yield Shown.of("invite at providers", views.invite_provider_page(LINK, AT_PROVIDERS.labels))
    yield Shown.of("reset", views.reset_page(LINK, "Anna"))
    yield Shown.of("reset refused", views.reset_page(LINK, "W" * 32, short), LONG)
    yield Shown.of("reset done", views.reset_done_page())
    yield Shown.of("reset done beside passkeys", views.reset_done_page(OtherWays(passkeys=True, codes=True)))
    yield Shown.of("link over", views.link_failure_page(sentences.LINK_OVER))
    yield Shown.of("link over with an account", views.link_failure_page(sentences.INVITE_USED, account=True))


def of_owner() -> Iterator[Shown]:
    """Yield the owner's page."""
    yield Shown.of("owner", owner_page(report(), LABELS))
    machine = MachineReport(NOW_MS, (), {}, None)
    nobody = OwnerReport(NOW_MS, (), None, StoredReport(), machine, (), VERSIONS, Usage())
    yield Shown.of("owner of nobody", owner_page(nobody, {}))
    stored = report().stored
    assert stored is not None
    many = [*every_event(stored.names), *list(stored.events) * 30]
    waiting = list(stored.waiting) * (WAITING + 1)
    busy = replace(report(), more=(NOW_MS, PLAYERS[0]), stored=replace(stored, events=many, waiting=waiting))
    yield Shown.of("owner of many", owner_page(busy, LABELS), LONG)
    without = OwnerReport(NOW_MS, (), None, None, None, ["state.db is full"], VERSIONS)
    yield Shown.of("owner without databases", owner_page(without, {}))


def every_event(names: Mapping[str, str | None]) -> Iterator[EventCount]:
    """Yield an event for each sentence that the owner reads: most events have the same one whatever their details."""
    values = [{"command": command} for command in (*owner_sentences.COMMANDS, "saves export")]
    values += [{"outcome": outcome} for outcome in (*owner_sentences.REFUSED, *owner_sentences.REFUSED_PLAYER)]
    values += [{"scope": scope} for scope in owner_sentences.SCOPES] + [{"created": "yes"}, {"value": "note"}]
    seen = set()
    for event in (*SecurityEvent, "moon_landed"):
        for player in ("", PLAYERS[0], PLAYERS[2], "ply_gone"):
            for each in values:
                detail = dumps({"provider": "discord", **each})
                found = EventCount(EventKey(0, str(event), player, detail), NOW_MS - HOUR_MS, NOW_MS - HOUR_MS, 1)
                words = owner_sentences.sentence_of(found, names, LABELS)
                if (key := (event, player, words.source.format(**words.values))) not in seen:
                    seen.add(key)
                    yield found


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
        SlotEntry("gone", None, conflicts=(2,), deleted_ms=NOW_MS - DAY_MS),
        SlotEntry("old", None, deleted_ms=NOW_MS - 3 * DAY_MS),
        SlotEntry(
            "older",
            None,
            deleted_ms=NOW_MS - 9 * DAY_MS,
            kept=version("older", 2, 81_920, 9 * DAY_MS, '{"title":"Chapter 1"}'),
            kept_until_ms=NOW_MS + 21 * DAY_MS,
        ),
    ]
    names = PlayerNames(None if providers else "Anna", "Anna", NOW_MS - 400 * DAY_MS)
    usage = Usage(slots=2, bytes=2_391_920, history_bytes=4_500_000)
    happened = [
        RecordedEvent(SecurityEvent.SIGN_IN, {"provider": (*providers, LOCAL)[0]}, NOW_MS - 3 * MINUTE_MS, 1),
        RecordedEvent(SecurityEvent.SIGN_IN, {"provider": PASSKEY}, NOW_MS - 4 * MINUTE_MS, 1),
        RecordedEvent(SecurityEvent.SIGN_IN, {"provider": RECOVERY_CODE}, NOW_MS - 4 * MINUTE_MS, 1),
        RecordedEvent(SecurityEvent.RECOVERY_CODE_USED, {"left": "3"}, NOW_MS - 4 * MINUTE_MS, 1),
        RecordedEvent(SecurityEvent.SIGN_IN_REFUSED, {"outcome": "wrong_recovery_code"}, NOW_MS - 5 * MINUTE_MS, 2),
        RecordedEvent(SecurityEvent.PLAYER_RENAMED, {}, NOW_MS - HOUR_MS, 1),
        RecordedEvent(SecurityEvent.SIGN_IN_REFUSED, {"outcome": "wrong_password"}, NOW_MS - DAY_MS, 3),
    ]
    browsers = [
        BrowserInfo(f"brs_{number}", name, NOW_MS - number * HOUR_MS, NOW_MS - number * MINUTE_MS, "")
        for number, name in enumerate(BROWSERS)
    ]
    return AccountOverview(
        names, sessions, ways, slots, usage, happened, browsers=browsers, own_session=browsers[0].session_id
    )


def full_overview() -> AccountOverview:
    """Return a player with more devices and saves than the page shows, and saves that say what they are."""
    full = overview("discord", "google")
    silent = SessionInfo("ses_s", NOW_MS - DAY_MS, NOW_MS, NOW_MS, "", ClientInfo().to_json())
    meta = '{"title":"Chapter 3 - The harbour","place":"Pier","playtime_seconds":22320}'
    short = meta.replace("22320", "1500")
    slots = [SlotEntry(f"s{number:02d}", version(f"s{number:02d}", 3, 81_920, DAY_MS, meta)) for number in range(60)]
    slots[1] = SlotEntry("lost", None, damaged=True)
    slots[2] = SlotEntry("short", version("short", 2, 2_000, HOUR_MS, short))
    events = [
        RecordedEvent(each, {"provider": "discord", "scope": scope, "command": "players merge"}, NOW_MS - DAY_MS, 1)
        for each in SecurityEvent
        for scope in ("this", "others")
    ]
    return replace(full, activity=events, sessions=[silent, *list(full.sessions) * 60], slots=slots)


def version(slot: str, number: int, size: int, age_ms: int, meta: str | None = None) -> Version:
    content = SaveContent(bytes(32), size, "application/octet-stream", meta)
    return Version(
        slot=slot, version=number, kind=VersionKind.WRITE, blob_id=1, content=content, created_ms=NOW_MS - age_ms
    )


def versions(slot: str, device: str, copies: int = 1) -> dict[str, object]:
    """Return a slot with its current version, one or two conflict copies, and one that replaced a deleted save."""
    rows = [
        (4, "write", 2_310_000, 5 * MINUTE_MS, None, device),
        *[(number, "conflict", 2_200_000, HOUR_MS, DAY_MS, "Steam Deck") for number in (3, 5)[:copies]],
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
    """Return what the owner sees of four players, of whom two wait."""
    anna = Player(PLAYERS[0], "active", True, NOW_MS - 90 * DAY_MS, NOW_MS - HOUR_MS)
    blocked = Player(PLAYERS[1], "blocked", False, NOW_MS - 80 * DAY_MS, NOW_MS - 20 * DAY_MS)
    pending = Player(PLAYERS[2], "pending", False, NOW_MS - DAY_MS, None, NUMBER)
    leaving = Player("ply_" + "D" * 22, "erasing", False, NOW_MS - DAY_MS, None)
    named = [
        NamedPlayer(anna, "anna", "Anna"),
        NamedPlayer(blocked, "W" * 32),
        NamedPlayer(pending, None),
        NamedPlayer(leaving, None, "Eve"),
    ]
    asked = Player("ply_" + "P" * 22, "pending", False, NOW_MS - 12 * MINUTE_MS, None, "515072")
    penny = NamedPlayer(asked, None, "Penny")
    ways = {each.player.player_id: [LOCAL] for each in named}
    ways |= {PLAYERS[0]: ["discord", LOCAL], asked.player_id: ["discord"]}
    listed = [
        ListedPlayer(each, devices, size)
        for each, devices, size in zip(named, (2, 1, 0, 0), (6_891_920, 4096, 0, 0), strict=True)
    ]
    events = [
        EventCount(EventKey(0, "sign_in", PLAYERS[0], '{"provider": "discord"}'), 0, NOW_MS - HOUR_MS, 1),
        EventCount(EventKey(0, "command", PLAYERS[1], '{"command": "players block"}'), 0, NOW_MS - 2 * HOUR_MS, 1),
        EventCount(EventKey(0, "sign_in_refused", "", '{"outcome": "wrong_password"}'), 0, NOW_MS - DAY_MS, 7),
        EventCount(EventKey(0, "refresh_reused", PLAYERS[0], "{}"), 0, NOW_MS - DAY_MS, 1),
    ]
    names = {each.player.player_id: each.shown for each in named}
    backup = LastBackup(NOW_MS - 9 * HOUR_MS, 7_400_000)
    stored = StoredReport(named, [named[2], penny], ways, {PLAYERS[0]: 2}, 14, 5, events, names, backup)
    warning = Finding("disk", Level.WARNING, "the disk is nearly full", "Delete something.")
    files = {"auth.db": 245_760, "state.db": 7_340_032}
    machine = MachineReport(NOW_MS - MINUTE_MS // 2, [warning], files, 812_000_000)
    usage = Usage(slots=148, bytes=12_391_920, history_bytes=314_500_000)
    return OwnerReport(NOW_MS, listed, None, stored, machine, (), VERSIONS, usage)
