"""Requests that change nothing write nothing: neither database's write-ahead log changes under the real service."""

import time
from collections.abc import Callable

from twisted.trial.unittest import SynchronousTestCase

from gamed.config.settings import Intervals
from gamed.service import FIRST_USES_SECONDS
from tests.e2e.client import CONFIG, Keeper, write_game
from tests.e2e.service import Service
from tests.e2e.wire import Answer, ask
from tests.support.folders import unused_path
from tests.support.stores import sqlite_files

OTHER = '"1-0123456789abcdef"'
LIMITS = {"starts_per_minute": 1, "entries_per_minute": 1}


@sqlite_files("the write-ahead log; PostgreSQL's server has its own")
class RefusedWrites(SynchronousTestCase):
    def setUp(self) -> None:
        folder = unused_path(self)
        self.service = Service(folder, {**CONFIG, "limits": LIMITS}, intervals=Intervals(cleanup_seconds=3600))
        self.addCleanup(self.service.close)
        write_game(self.service, writes_per_minute=0)
        self.service.start()
        self.keeper = Keeper(self.service)

    def logs(self) -> dict[str, tuple[int, int]]:
        """Return size and time of the last change of both logs."""
        stats = {name: (self.service.data / f"{name}.db-wal").stat() for name in ("auth", "state")}
        return {name: (stat.st_size, stat.st_mtime_ns) for name, stat in stats.items()}

    def post(self, path: str, body: object, bearer: str | None = None) -> Answer:
        return ask(self.service.port, "POST", path, json_body=body, bearer=bearer)

    def test_logs_stay(self) -> None:
        """Refused conditions, equal bytes, unknown things, refused refreshes and limits change no log."""
        put, keeper, post = self.keeper.put, self.keeper, self.post
        first = put("a", b"one", If_None_Match="*").headers["etag"]
        current = put("a", b"two", If_Match=first).headers["etag"]
        self.assertEqual(put("a", b"three", If_Match=first).status, 412)  # stored as a conflict copy, once
        link = "/auth/login/" + "x" * 22
        started = post("/auth/login", {})
        self.assertEqual(started.status, 201)
        ask(self.service.port, "GET", link)
        time.sleep(FIRST_USES_SECONDS + 1)  # the first use of the token is written
        secret = started.json["device_secret"]
        self.assertEqual(post("/auth/login/cancel", {}, secret).status, 204)
        vain: list[tuple[int, Callable[[], Answer]]] = [
            (200, lambda: put("a", b"two", If_Match=current)),
            (200, lambda: put("a", b"two", If_Match=first)),
            (412, lambda: put("a", b"three", If_Match=first)),
            (428, lambda: put("a", b"four")),
            (412, lambda: put("b", b"four", If_Match=OTHER)),
            (404, lambda: keeper.ask("DELETE", "/b", If_Match=OTHER)),
            (412, lambda: keeper.ask("DELETE", "/a", If_Match=OTHER)),
            (404, lambda: keeper.ask("POST", "/a/versions/99/restore", If_Match=current)),
            (412, lambda: keeper.ask("POST", "/a/versions/1/restore", If_Match=first)),
            (404, lambda: keeper.ask("DELETE", "/a/versions/99")),
            (401, lambda: post("/auth/session/refresh", {"refresh_credential": "grc_" + "A" * 43})),
            (204, lambda: post("/auth/session/logout", {"scope": "others"}, keeper.token)),
            (401, lambda: post("/auth/session/logout", {"scope": "this"}, "gat_" + "A" * 43)),
            (404, lambda: ask(self.service.port, "DELETE", f"/auth/sessions/ses_{'A' * 22}", bearer=keeper.token)),
            (429, lambda: post("/auth/login", {})),
            (429, lambda: ask(self.service.port, "GET", link)),
            (204, lambda: post("/auth/login/cancel", {}, secret)),
            (401, lambda: post("/auth/login/collect", {}, "gds_" + "A" * 43)),
            (404, lambda: ask(self.service.port, "GET", "/game/saves/b", bearer=keeper.token)),
        ]
        changed = []
        for place, (status, send) in enumerate(vain):
            before = self.logs()
            self.assertEqual(send().status, status, place)
            if self.logs() != before:
                changed.append(place)
        self.assertEqual(changed, [])
        before = self.logs()
        self.assertEqual(put("a", b"five", If_Match=current).status, 200)
        self.assertNotEqual(self.logs()["state"], before["state"])
