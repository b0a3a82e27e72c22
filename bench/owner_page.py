"""This asks for every page of the owner's page among many players, on both stores.

python -m bench.owner_page [--store sqlite|postgresql] [--players 10000] [--versions 200000] [--rounds 10] [--smoke]
    [--json FILE]

The store is filled through gamed's own transactions: players with a name, a device and saves of several versions; one
of them has as many saves as the defaults allow, and another one a save of 300 versions. There are also 100,000 events,
400 invites, figures of 90 days, 25 releases and 60 backups. PostgreSQL gets the same content by `gamed move-store`.

For each page it prints the median and the slowest answer, the longest stretch of the reactor's thread, for which all
other requests wait, and the longest batch of reads, for which other reads wait; both by clock and by processor. Shorter
ones than 2 ms are not noted.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from html import unescape
from pathlib import Path
from re import search
from secrets import token_bytes
from statistics import median
from urllib.parse import urlencode

from msgspec import Struct, to_builtins

from bench.instance import GAMED, GamedInstance, sign_in_with
from bench.machine import lines, state
from bench.million import player
from bench.moves import save_version
from bench.process import ROOT
from gamed.account.link_model import NewLink, new_invite_id
from gamed.account.link_tables import insert_invite
from gamed.assets.publish import Publisher, PublishRequest
from gamed.assets.store import FOLDER, AssetStore
from gamed.cli.context import CommandContext, KeyedDatabases
from gamed.clock import now_ms
from gamed.config.game import SaveLimits
from gamed.crypto import Keys
from gamed.database.connection import Connection
from gamed.owner import tables as owner_figures
from gamed.owner.model import AT_ONCE, DAY_MS, HOME, DailyFigure
from gamed.players import owner_tables, tables
from gamed.players.owner_tables import OwnerPageSwitch
from gamed.sessions.browser_rules import BrowserName, NewBrowserSession
from gamed.sessions.browser_tables import open_browser
from tests.support.postgresql import Cluster

OWNER = "ply_owner0000000000000000"
SLOTS = 4
LARGEST = player(1)
"""Has as many saves as a player may have, of one version each."""
LONGEST = player(0)
"""Has one save of VERSIONS versions, an hour between two."""
VERSIONS = 300
HOUR_MS = 3_600_000
EVENTS, INVITES, DAYS, RELEASES, BACKUPS, WAITING = 100_000, 400, 90, 25, 60, 60
TOGETHER = 100
"""The players whose saves one transaction writes."""
ANSWER_MS, PEOPLE_MS, SEARCH_MS, REACTOR_MS = 1000.0, 300.0, 1000.0, 5.0
SMOKE = {"players": 60, "versions": 400, "rounds": 2}
SERVER = {"shared_buffers": "128MB", "max_wal_size": "1GB"}


class Opened(Struct, frozen=True):
    """A page that is asked for: by GET, or with `fields` by POST of a form."""

    name: str
    path: str
    fields: Mapping[str, str] | None = None
    wanted_ms: float = ANSWER_MS


def opened_pages(players: int) -> Sequence[Opened]:
    last = player(max(0, players - AT_ONCE // 2))
    return (
        Opened("now", ""),
        Opened("people", "/people", wanted_ms=PEOPLE_MS),
        Opened("people, last", f"/people?after={last}", wanted_ms=PEOPLE_MS),
        Opened("search, found last", "/find", {"wanted": f"account{players - 1}"}, SEARCH_MS),
        Opened("search, many found", "/find", {"wanted": "player"}, SEARCH_MS),
        Opened("search, nobody", "/find", {"wanted": "nobody"}, SEARCH_MS),
        Opened("person", f"/people/{LONGEST}"),
        Opened("whom to merge into", f"/people/{LONGEST}/merge"),
        Opened("before merging", f"/people/{LONGEST}/merge/{LARGEST}"),
        Opened("before erasing", f"/people/{LONGEST}/erase"),
        Opened("invites", "/invites"),
        Opened("invite made", "/do/invite", {"name": "Penny", "days": "7"}),
        Opened("saves", "/saves"),
        Opened("saves of one", f"/saves/{LARGEST}"),
        Opened("versions", f"/saves/{LONGEST}/auto"),
        Opened("files", "/files"),
        Opened("activity", "/activity"),
        Opened("activity, sign-ins", "/activity?show=sign-ins"),
        Opened("activity, owner", "/activity?show=owner"),
        Opened("activity, alarming", "/activity?show=alarming"),
        Opened("over time", "/time"),
        Opened("backups", "/backups"),
    )


class Page(Struct, frozen=True):
    """The figures of one page, in milliseconds."""

    name: str
    answers: Sequence[float]
    reactor: tuple[float, float]
    """The longest stretch of the reactor's thread, by clock and by processor; 0 below 2 ms."""
    reads: tuple[float, float]
    """The longest batch of reads, likewise."""
    wanted_ms: float

    def line(self) -> str:
        met = max(self.answers) < self.wanted_ms and self.reactor[1] < REACTOR_MS
        return (
            f"  {self.name:20} {median(self.answers):7.1f} ms, at most {max(self.answers):7.1f} (wanted below "
            f"{self.wanted_ms:.0f}); reactor {self.reactor[0]:5.1f}, by processor {self.reactor[1]:5.1f} (wanted below "
            f"{REACTOR_MS:.0f}); reads {self.reads[0]:5.1f}, by processor {self.reads[1]:5.1f}: "
            f"{'met' if met else 'missed'}"
        )


# the content


def fill(store: KeyedDatabases, folder: Path, data: Path, players: int, versions: int) -> str:
    """Fill the store of a folder; return the cookie of the owner's browser."""
    at_ms, began = now_ms(), time.monotonic()
    for first in range(0, players, 1000):
        numbers = range(first, min(first + 1000, players))
        store.write(partial(_fill_players, numbers=numbers, at_ms=at_ms))
    each = max(1, versions // players // SLOTS)
    for first in range(0, players, TOGETHER):
        numbers = range(first, min(first + TOGETHER, players))
        store.write_state(partial(_fill_saves, numbers=numbers, each=each, at_ms=at_ms))
        print(f"\r{numbers[-1] + 1:,} players, {time.monotonic() - began:.0f} s", end="", flush=True)
    print()
    for number in range(SaveLimits().slots - SLOTS):
        more = partial(save_version, player_id=LARGEST, slot=f"more{number}", data=b"one", first=True, at_ms=at_ms)
        store.write_state(more)
    for number in range(VERSIONS):
        later_ms = at_ms - HOUR_MS * (VERSIONS - number)
        version = partial(save_version, player_id=LONGEST, slot="auto", data=token_bytes(1000), at_ms=later_ms)
        store.write_state(partial(version, first=number == 0))
    _publish(folder, data)
    backups = _back_up(folder)
    cookie: str = store.write(partial(_fill_owner, backups=backups, at_ms=at_ms))
    return cookie


def _fill_players(connection: Connection, keys: Keys, *, numbers: range, at_ms: int) -> None:
    sign_in_with(connection, keys, players=[player(number) for number in numbers], now_ms=at_ms, over_ms=30 * DAY_MS)
    for number in numbers:
        name = {"name": f"account{number}", "password": "-", "now_ms": at_ms}
        tables.create_account(connection, keys, player_id=player(number), **name)  # type: ignore[arg-type]
        tables.set_display_name(connection, keys.sealer, player(number), f"Player {number}")
        tables.record_sign_in(connection, player(number), at_ms - number)


def _fill_saves(connection: Connection, *, numbers: range, each: int, at_ms: int) -> None:
    for number in numbers:
        for slot in range(SLOTS):
            for version in range(each):
                save_version(
                    connection, player(number), f"slot{slot}", token_bytes(400), first=version == 0, at_ms=at_ms
                )


def _fill_owner(connection: Connection, keys: Keys, *, backups: Path, at_ms: int) -> str:
    tables.create_player(connection, OWNER, at_ms)
    name = {"name": "owner", "password": "-", "now_ms": at_ms}
    tables.create_account(connection, keys, player_id=OWNER, **name)  # type: ignore[arg-type]
    tables.set_owner(connection, OWNER)
    owner_tables.turn_on(connection, OwnerPageSwitch(at_ms, str(backups)))
    new = NewBrowserSession.generate(token_bytes, BrowserName())
    open_browser(connection, keys.indexer, new, player_id=OWNER, provider="local", now_ms=at_ms, verified=True)
    for number in range(WAITING):
        player_id = f"ply_w{number:021d}"
        tables.create_player(connection, player_id, at_ms - number, "pending", f"{number:06d}")
        tables.set_display_name(connection, keys.sealer, player_id, f"Waiting {number}")
    for number in range(INVITES):
        link = NewLink.generate(token_bytes, at_ms - number, 30 * 24 * 3600)
        insert_invite(connection, keys, new_invite_id(token_bytes), link, f"Guest {number}")
    for number in range(DAYS):
        figure = DailyFigure(at_ms // DAY_MS - DAYS + 1 + number, 9000 + number, 500, 40_000, 10**9, 0, 0)
        owner_figures.count_day(connection, figure)
        owner_figures.add_requests(connection, figure.day * DAY_MS, 100_000, 50)
    query = """
        INSERT INTO security_event (hour, event, player_id, detail, first_ms, last_ms, times, logged)
        VALUES (:hour, :event, :player_id, :detail, :at_ms, :at_ms, 1, 1)
    """
    for at, event, player_id, detail in _events(at_ms):
        values = {"hour": at // HOUR_MS, "event": event, "player_id": player_id, "detail": detail, "at_ms": at}
        connection.execute(query, values).close()
    return new.token.reveal().decode()


def _events(at_ms: int) -> Iterator[tuple[int, str, str, str]]:
    """Yield events of 89 days, the oldest first: mostly sign-ins, and few of what the filters look for."""
    for number in range(EVENTS):
        at = at_ms - 89 * DAY_MS * (EVENTS - number) // EVENTS
        who = player(number % 10_000)
        if number % 5000 == 0:
            yield at, "command", who, json.dumps({"command": "players block", "by": f"owner:{OWNER}"})
        elif number % 5000 == 1:
            yield at, "refresh_reused", who, "{}"
        else:
            yield at, "sign_in", who, json.dumps({"provider": "local"})


def _publish(folder: Path, data: Path) -> None:
    source = folder / "build"
    source.mkdir()
    for number in range(200):
        (source / f"level{number}.pak").write_bytes(token_bytes(64))
    publisher = Publisher(
        store=AssetStore(data / FOLDER),
        progress=lambda label, length: nullcontext(lambda done: None),
        now_ms=now_ms,
        min_free_bytes=0,
        keep_releases=RELEASES,
    )
    for number in range(RELEASES):
        (source / "changes").write_text(f"release {number}")
        publisher.publish(PublishRequest(source, "stable", f"release {number}", {}, {}, hidden=False, repair=False))


def _back_up(folder: Path) -> Path:
    """Make folders of backups, of which the page reads names and manifests."""
    backups = folder / "backups"
    manifest = {
        "format": 1,
        "made_at": "2026-01-01T00:00:00.000Z",
        "gamed": "1.0.0",
        "key": {"fingerprint": "0" * 12, "source": "file"},
        "files": {name: {"bytes": 10**6, "sha256": "0" * 64} for name in ("auth.db", "state.db")},
    }
    for number in range(BACKUPS):
        path = backups / f"gamed-20260101T0000{number:02d}Z"
        path.mkdir(parents=True)
        (path / "manifest.json").write_text(json.dumps(manifest))
    return backups


# the requests

Asked = tuple[float, float]
"""When a request began, and when its answer was read."""


def ask_for_all(instance: GamedInstance, cookie: str, pages: Sequence[Opened], rounds: int) -> dict[str, list[Asked]]:
    """Ask for each page in turn, `rounds` times; return when each request began and ended, by page."""
    connection = instance.connect()
    found: dict[str, list[tuple[float, float]]] = {each.name: [] for each in pages}

    def ask(method: str, path: str, fields: Mapping[str, str] | None = None) -> str:
        headers = {"Cookie": f"ga={cookie}", "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Dest": "document"}
        if fields is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        connection.request(method, f"{HOME}{path}", None if fields is None else urlencode(fields), headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        if answer.status != 200:
            raise RuntimeError(f"{method} {path} is answered with {answer.status}: {text[:2000]}")
        return text

    field = search(r'name="form" value="([^"]+)"', ask("GET", "/people"))
    assert field is not None
    for _ in range(rounds):
        for each in pages:
            form = None if each.fields is None else {"form": unescape(field[1]), **each.fields}
            began = time.time()
            ask("GET" if form is None else "POST", each.path, form)
            found[each.name].append((began, time.time()))
            time.sleep(0.02)  # what the server does after an answer is no part of the next one
    connection.close()
    return found


def measure(instance: GamedInstance, notes: Path, cookie: str, pages: Sequence[Opened], rounds: int) -> list[Page]:
    instance.start()
    try:
        time.sleep(3)  # late imports and templates
        found = ask_for_all(instance, cookie, pages, rounds)
    finally:
        instance.stop()
    stretches = json.loads(notes.read_text())

    def longest(name: str, asked: Sequence[Asked]) -> tuple[float, float]:
        within = [
            (ms, cpu_ms)
            for kind, ended, ms, cpu_ms in stretches
            if kind == name and any(began <= ended <= end + 0.01 for began, end in asked)
        ]
        return max((ms for ms, _ in within), default=0.0), max((cpu_ms for _, cpu_ms in within), default=0.0)

    return [
        Page(
            each.name,
            [1000 * (end - began) for began, end in found[each.name]],
            longest("reactor", found[each.name]),
            longest("reads", found[each.name]),
            each.wanted_ms,
        )
        for each in pages
    ]


def _databases(instance: GamedInstance) -> KeyedDatabases:
    os.environ.update(instance.environment)
    places = str(instance.folder / "authentication.json"), str(instance.data)
    return CommandContext(*places, development=False).open()


def move(instance: GamedInstance, url: str) -> None:
    places = ["--config", str(instance.folder / "authentication.json"), "--data", str(instance.data)]
    words = [*GAMED, *places, "move-store", "--to", url]
    subprocess.run(words, cwd=ROOT, env=dict(instance.environment), check=True, capture_output=True)
    instance.configure(url)


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=["sqlite", "postgresql"], action="append")
    parser.add_argument("--players", type=int, default=10_000)
    parser.add_argument("--versions", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--smoke", action="store_true", help="few players and two rounds: the figures mean nothing")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if given.smoke:
        vars(given).update(SMOKE)
    return given


def main() -> None:
    """Measure, and print a line per page and store."""
    given = read_options()
    stores = given.store or ["sqlite", "postgresql"]
    found: dict[str, list[Page]] = {}
    with tempfile.TemporaryDirectory(prefix="gamed-bench-") as name:
        folder = Path(name)
        machine = state(folder)
        print("\n".join(lines(machine)), flush=True)
        notes = folder / "stretches"
        command = (sys.executable, "-m", "bench.references.watched", str(notes))
        instance = GamedInstance(folder / "served", {}, command=command, master_key=True)
        instance.start().stop()
        databases = _databases(instance)
        cookie = fill(databases, folder, instance.data, given.players, given.versions)
        databases.store.close()
        pages = opened_pages(given.players)
        for store in stores:
            cluster = Cluster(settings=SERVER, base=tempfile.gettempdir()) if store == "postgresql" else None
            try:
                if cluster is not None:
                    move(instance, cluster.database().url)
                found[store] = measure(instance, notes, cookie, pages, given.rounds)
            finally:
                if cluster is not None:
                    cluster.close()
            print(store, *(each.line() for each in found[store]), sep="\n", flush=True)
    if given.json is not None:
        given.json.write_text(json.dumps({"machine": machine, "stores": to_builtins(found)}, indent=1))


if __name__ == "__main__":
    main()
