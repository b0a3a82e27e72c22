"""Helpers for the whole service on files that are damaged at random, with HTTP but without a socket."""

import shutil
from collections.abc import Iterator
from hashlib import sha256
from json import dumps
from pathlib import Path
from random import Random
from re import findall
from secrets import token_bytes
from typing import Any
from urllib.parse import urlencode

from twisted.internet.defer import Deferred

from gamed.clock import now_ms
from gamed.config.authentication import load
from gamed.config.game import GameSettings, SaveLimits
from gamed.config.settings import KeySource, Settings
from gamed.crypto import Keys, Secret
from gamed.database.sqlite.migrations import check_schema
from gamed.database.sqlite.offline import run_transaction
from gamed.database.sqlite.store import SqliteStore
from gamed.ops.systemd import SystemdNotifier
from gamed.players import keyring
from gamed.service import GamedService
from tests.support.databases import InlineReactor, InlineThreads, prepare_files
from tests.support.http import Answer, Browser

KEY = Secret(bytes(32))
LIMITS = "starts_per_minute", "entries_per_minute", "refreshes_per_minute", "passwords_per_minute"
CONFIG = {
    "mode": "local",
    "session": {"access_ttl": "24h", "refresh_ttl": "720h"},
    "limits": dict.fromkeys(LIMITS, 0),
}
GAME = GameSettings(SaveLimits(writes_per_minute=0))
PAGE = 4096
NAME, PASSWORD = "Zaphod.B", "correct horse battery staple"
SLOTS = tuple(f"slot{n}" for n in range(6))
SMALL, INLINE, LARGE = 900, 60_000, 400_000
"""The sizes of saves that are in their row, in one part, and in several parts."""


class NoSocket(InlineReactor):
    def __init__(self) -> None:
        super().__init__()
        self._threads = InlineThreads()

    def getThreadPool(self) -> InlineThreads:
        return self._threads


class Server:
    """The service with all its routes; `browser` sends requests to it."""

    def __init__(self, data: Path) -> None:
        config = load(dumps(CONFIG), {}, lambda path: b"", "authentication.json").config
        listen = ("tcp:0:interface=127.0.0.1",)
        settings = Settings(config, data / "authentication.json", data, listen, False, KEY, KeySource.FILE, GAME)
        for name in ("auth.db", "state.db"):
            check_schema(data / name)
        self.service = GamedService(NoSocket(), settings, SystemdNotifier(), lambda: None)
        self.stores = self.service._context.databases
        for thread in self.stores.threads:
            thread.pool.threadpool = InlineThreads()
        self.browser = Browser(self.service._routes(), now_ms=now_ms)

    def json(self, method: str, path: str, value: object, bearer: str = "") -> Answer:
        return self.ask(method, path, dumps(value).encode(), bearer, Content_Type="application/json")

    def ask(self, method: str, path: str, body: bytes = b"", bearer: str = "", **headers: str) -> Answer:
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        if bearer:
            fields["Authorization"] = f"Bearer {bearer}"
        return self.browser.request(method, path, fields, body)

    def sweeps(self) -> list[Deferred[Any]]:
        """Run all periodic work now."""
        service = self.service
        works = (
            service._login.recover(),
            service._login.clean_up(),
            service._sessions.clean_up(),
            service._saves.cleanup.clean_up(),
            service._account.clean_up(),
        )
        return [Deferred.fromCoroutine(work) for work in works]

    def begin(self, create: bool = False) -> tuple[dict[str, Any], str, str]:
        """Start a login and open its page; return what the game got, the page's text and the browser's cookie."""
        login = self.json("POST", "/auth/login", {})
        if login.status != 201:
            return {}, "", ""
        path = "/" + login.json["login_url"].split("/", 3)[3]
        page = self.ask("GET", f"{path}/create" if create else path)
        cookie = page.cookies[0].partition(";")[0] if page.cookies else ""
        return login.json, page.body.decode(), cookie

    def sign_in(self, create: bool = False) -> Answer | None:
        """Sign in on the page with name and password; return the response to collect, or None without a form."""
        login, page, cookie = self.begin(create)
        forms = [form for form in page.split("<form")[1:] if ('name="create"' in form) is create]
        if not forms or "/local" not in forms[0]:
            return None
        [action] = findall(r'action="([^"]+)"', forms[0])
        fields = dict(findall(r'name="(\w+)"[^>]*value="([^"]*)"', forms[0]))
        fields |= {"name": NAME, "password": PASSWORD}
        form = urlencode(fields).encode()
        kind = "application/x-www-form-urlencoded"
        page = self.ask("POST", action, form, Content_Type=kind, Cookie=cookie, Sec_Fetch_Site="same-origin")
        done = self.ask("GET", page.headers["location"], Cookie=cookie) if "location" in page.headers else page
        codes = findall(r"\b[BCDFGHJ-NP-TV-XZ]{3}-[BCDFGHJ-NP-TV-XZ]{3}\b", done.body.decode())
        proof = {"finish_code": codes[0]} if codes else {}
        return self.json("POST", "/auth/login/collect", proof, login["device_secret"])


def prepare(data: Path) -> None:
    """Create both databases, and write the key that a server expects."""
    prepare_files(data)
    run_transaction(
        data / "auth.db",
        lambda c: keyring.check_key(c, Keys.of(KEY, token_bytes), KeySource.FILE, now_ms(), SqliteStore(data=data)),
    )


def fill(data: Path) -> tuple[str, str]:
    """Create both databases with a player who has many saves; return access token and refresh credential."""
    prepare(data)
    server, random = Server(data), Random(7)
    for _ in range(3):
        server.begin()
    first = server.sign_in(create=True)
    others = [server.sign_in() for _ in range(8)]
    assert first is not None
    assert all(other is not None and other.json["status"] == "complete" for other in others)
    for other in others:
        server.json("POST", "/auth/session/refresh", {"refresh_credential": other.json["refresh_credential"]})
    bearer = first.json["access_token"]
    for n, slot in enumerate(SLOTS):
        for size in [*(SMALL, INLINE, LARGE)[n % 3 :], SMALL]:
            body = random.randbytes(size)
            meta = dumps({"title": f"Chapter {size}"})
            wanted = {"If_Match": "*"} if server.ask("HEAD", f"/game/saves/{slot}", b"", bearer).status == 200 else {}
            assert server.ask("PUT", f"/game/saves/{slot}", body, bearer, Save_Meta=meta, **wanted).status < 300
        server.ask("PUT", f"/game/saves/{slot}", random.randbytes(SMALL), bearer, If_Match='"1-0000000000000000"')
    server.ask("DELETE", f"/game/saves/{SLOTS[0]}", b"", bearer, If_Match="*")
    for size in (SMALL, INLINE, LARGE):
        body = random.randbytes(size)
        assert server.ask("PUT", f"/game/blobs/{sha256(body).hexdigest()}", body, bearer).status == 201
    server.stores.close()
    return bearer, first.json["refresh_credential"]


def spoil(path: Path, random: Random) -> None:
    """Damage one place of a file: a page or some bytes, with zeros, noise, or another page's content."""
    content = bytearray(path.read_bytes())
    pages = len(content) // PAGE
    at = random.randrange(1, pages) * PAGE
    match random.randrange(5):
        case 0:
            content[at : at + PAGE] = bytes(PAGE)
        case 1:
            content[at : at + PAGE] = random.randbytes(PAGE)
        case 2:
            other = random.randrange(1, pages) * PAGE
            content[at : at + PAGE] = content[other : other + PAGE]
        case 3:
            for _ in range(20):
                content[at + random.randrange(PAGE)] = random.randrange(256)
        case 4:
            for _ in range(20):
                content[random.randrange(PAGE, len(content))] ^= 1 << random.randrange(8)
    path.write_bytes(content)


def everything(server: Server, bearer: str, refresh: str) -> Iterator[tuple[str, Answer]]:
    """Send every kind of request that a game can send, reads first; yield the request and the response."""

    def asked(method: str, path: str, body: bytes = b"", **headers: str) -> tuple[str, Answer]:
        return f"{method} {path}", server.ask(method, path, body, bearer, **headers)

    for path in ("", "saves", "saves?since=x.1", "export"):
        yield asked("GET", f"/game/{path}")
    for slot in SLOTS:
        yield asked("HEAD", f"/game/saves/{slot}")
        yield asked("GET", f"/game/saves/{slot}")
        yield asked("GET", f"/game/saves/{slot}", If_None_Match='"1-0000000000000000"')
        yield asked("GET", f"/game/saves/{slot}/versions")
        for number in range(1, 6):
            yield asked("GET", f"/game/saves/{slot}/versions/{number}")
    for path in ("sessions", "identities"):
        yield asked("GET", f"/auth/{path}")
    signed_in = server.sign_in()
    if signed_in is not None:
        yield "sign in", signed_in
    again = {"refresh_credential": refresh}
    yield "refresh", server.json("POST", "/auth/session/refresh", again)
    for n, slot in enumerate(SLOTS):
        body = bytes([n + 1]) * ((SMALL, INLINE, LARGE)[n % 3] + n)
        yield asked("PUT", f"/game/saves/{slot}", body, If_Match="*")
        yield asked("PUT", f"/game/saves/{slot}", body[1:], If_Match='"2-0000000000000000"')
        yield asked("POST", f"/game/saves/{slot}/versions/1/restore", If_Match="*")
        yield asked("DELETE", f"/game/saves/{slot}/versions/5")
        staged = sha256(body[2:]).hexdigest()
        yield asked("PUT", f"/game/blobs/{staged}", body[2:])
        yield asked("HEAD", f"/game/blobs/{staged}")
        writes = [
            {"slot": slot, "if_match": "*", "sha256": staged},
            {"slot": f"{slot}n", "if_none_match": "*", "sha256": staged},
        ]
        yield "commit", server.json("POST", "/game/commit", {"writes": writes}, bearer)
    yield asked("DELETE", f"/game/saves/{SLOTS[1]}", If_Match="*")
    yield asked("GET", "/game/export")
    yield "log out", server.json("POST", "/auth/session/logout", {"scope": "others"}, bearer)
    yield asked("DELETE", "/auth/player")


def copy(source: Path, target: Path) -> None:
    target.mkdir()
    for name in ("auth.db", "state.db"):
        shutil.copy(source / name, target)
