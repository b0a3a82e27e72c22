"""The servers that gamed is compared with do the same work: they check tokens and store what they answer."""

import json
from collections.abc import Mapping
from http.client import HTTPConnection
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from bench.references.peer_store import open_file
from bench.references.pocketbase import RECORDS
from bench.servers import Missing, Servers

NEW = b"n" * 4096


class PeerTests(SynchronousTestCase):
    def setUp(self) -> None:
        Path(folder := self.mktemp()).mkdir()
        self.folder = Path(folder).absolute()
        self.servers = Servers(self.folder)
        self.addCleanup(self.servers.stop)

    def start(self, name: str) -> list[str]:
        """Start a server, and return the words of its first player."""
        try:
            self.port = self.servers.get(name).port
        except Missing as e:
            self.skipTest(f"{e} is not installed")
        return self.servers.players(name).read_text().splitlines()[0].split()

    def ask(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def check_store(self, name: str) -> None:
        access, refresh, _ = self.start(name)
        path, own, wrong = "/game/saves/auto", {"Authorization": f"Bearer {access}"}, {"Authorization": "Bearer no"}
        for method in ("GET", "PUT"):
            self.assertEqual(self.ask(method, path, NEW, wrong)[0], 401)
        self.assertEqual(self.ask("PUT", path, NEW, own)[0], 200)
        self.assertEqual(self.ask("GET", path, b"", own), (200, NEW))
        body = json.dumps({"refresh_credential": refresh}).encode()
        status, answer = self.ask("POST", "/auth/session/refresh", body, {})
        self.assertEqual(status, 200)
        renewed = {"Authorization": f"Bearer {json.loads(answer)['access_token']}"}
        self.assertEqual(self.ask("GET", path, b"", renewed), (200, NEW))
        self.assertEqual(self.ask("POST", "/auth/session/refresh", body, {})[0], 401)

    def test_naive(self) -> None:
        """N1 stores a save with a commit for each write, and exchanges a refresh credential once."""
        self.check_store("N1")

    def test_naive_group_commit(self) -> None:
        """NG does the same with many writes in a commit."""
        self.check_store("NG")

    def test_fastapi(self) -> None:
        """F does the same with FastAPI."""
        self.check_store("F")

    def test_pocketbase(self) -> None:
        """P lets a player read and change their own record, but not another player's."""
        token, _, own = self.start("P")
        other = self.servers.players("P").read_text().splitlines()[1].split()[2]
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        body = json.dumps({"data": NEW.decode()}).encode()
        self.assertEqual(self.ask("PATCH", RECORDS + own, body, headers)[0], 200)
        status, answer = self.ask("GET", RECORDS + own, b"", headers)
        self.assertEqual((status, json.loads(answer)["data"]), (200, NEW.decode()))
        for method in ("GET", "PATCH"):
            self.assertEqual(self.ask(method, RECORDS + other, body, headers)[0], 404)

    def test_durability(self) -> None:
        """The store flushes each commit, as gamed does: SQLite calls this setting FULL, number 2."""
        connection = open_file(self.folder)
        self.addCleanup(connection.close)
        self.assertEqual(connection.execute("PRAGMA synchronous").fetchone(), (2,))
        self.assertEqual(connection.execute("PRAGMA journal_mode").fetchone(), ("wal",))
