"""`gamed nginx --assets` lets nginx send whole files (docs/owners/published-files.md: Let nginx send them)."""

import os
import subprocess
import sys
from collections.abc import Mapping
from hashlib import sha256

from cryptography.x509 import DNSName
from twisted.trial.unittest import SynchronousTestCase

from tests.cli.process import folder_of
from tests.e2e.service import ROOT, Service
from tests.e2e.wire import Answer
from tests.proxies.programs import HOST
from tests.proxies.samples import Nginx, changed
from tests.support.certificates import certificate

CONTENT = b"\0level one" * 1000
HASH = sha256(CONTENT).hexdigest()
OBJECT = f"/assets/objects/{HASH}"
SAME = ("content-length", "content-type", "cache-control", "etag", "accept-ranges", "content-security-policy", "vary")
CONFIG = {
    "mode": "local",
    "public_url": f"https://{HOST}",
    "trusted_proxies": ["127.0.0.1/32"],
    "cors_origins": ["https://game.example"],
}


class PrintedNginx(Nginx):
    """nginx with what the command printed."""

    printed = ""

    def text(self) -> str:
        return self.printed


class PublishedFilesTests(SynchronousTestCase):
    def setUp(self) -> None:
        folder = folder_of(self)
        folder.mkdir(parents=True, exist_ok=True)
        self.service = Service(folder / "service", CONFIG)
        self.addCleanup(self.service.close)
        self.service.start()
        game = folder / "game"
        game.mkdir()
        (game / "level.pck").write_bytes(CONTENT)
        self.gamed("assets", "publish", str(game))
        assets = folder / "assets"
        (self.service.data / "assets").rename(assets)
        (self.service.data / "assets").symlink_to(assets)
        PrintedNginx.printed = changed(
            self.gamed("nginx", "--assets"), f"server 127.0.0.1:{self.service.port} ", "server 127.0.0.1:8080 "
        )
        trusted = certificate(folder, DNSName(HOST))
        self.nginx = PrintedNginx(folder / "nginx", trusted, f"127.0.0.1:{self.service.port}")
        self.addCleanup(self.nginx.close)

    def gamed(self, *words: str) -> str:
        places = ["--config", str(self.service.config), "--data", str(self.service.data)]
        command = [sys.executable, "-m", "gamed", *places, *words]
        return subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True, check=True).stdout

    def ask(self, path: str, headers: Mapping[str, str] | None = None, method: str = "GET") -> tuple[Answer, bool]:
        """Return the answer, and whether nginx gave it itself: gamed's have a request id."""
        answer = self.nginx.ask(method, path, headers=dict(headers or {}))
        return answer, "x-request-id" not in answer.headers

    def test_whole_file(self) -> None:
        """The bytes and the fields of a whole file are gamed's; only Repr-Digest is not there."""
        answer, own = self.ask(OBJECT)
        self.assertEqual((answer.status, answer.body, own), (200, CONTENT, True))
        theirs = self.service_answer()
        for name in SAME:
            self.assertEqual(answer.headers.get(name), theirs.headers.get(name), name)
        self.assertEqual(answer.headers["etag"], f'"{HASH}"')
        self.assertEqual(answer.headers["x-content-type-options"], "nosniff")
        self.assertIn("max-age", answer.headers["strict-transport-security"])

    def service_answer(self) -> Answer:
        answer, own = self.ask(OBJECT, {"If-None-Match": '"other"'})
        self.assertEqual((answer.status, answer.body, own), (200, CONTENT, False))
        return answer

    def test_everything_else(self) -> None:
        """gamed answers conditions, parts, other sites, other methods, and what is not there."""
        tag = f'"{HASH}"'
        for headers, status in (
            ({"Range": "bytes=5-", "If-Range": tag}, 206),
            ({"If-None-Match": tag}, 304),
            ({"If-Match": '"other"'}, 412),
            ({"If-Modified-Since": "Sat, 01 Jan 2050 00:00:00 GMT"}, 304),
            ({"If-Unmodified-Since": "Sat, 01 Jan 2000 00:00:00 GMT"}, 412),
            ({"Origin": "https://game.example"}, 200),
        ):
            answer, own = self.ask(OBJECT, headers)
            self.assertEqual((answer.status, own), (status, False), headers)
        for path, status in (
            (f"{OBJECT}?x=1", 200),
            (f"{OBJECT}%0A", 404),
            (f"/assets/objects/{'0' * 64}", 404),
            ("/assets/stable", 200),
        ):
            answer, own = self.ask(path)
            self.assertEqual((answer.status, own), (status, False), path)
        self.assertEqual(self.ask(f"/assets/objects/{'0' * 64}")[0].json["code"], "file_not_found")
        for method, status in (("HEAD", 200), ("DELETE", 405)):
            answer, own = self.ask(OBJECT, method=method)
            self.assertEqual((answer.status, own), (status, False), method)

    def test_players_only(self) -> None:
        """Once only players may download, the service takes nginx's right to read the files."""
        objects = self.service.data / "assets" / "objects"
        objects.chmod(0o2750)
        self.service.config.with_name("game.json").write_text('{"assets": {"access": "players"}}')
        for _ in range(2):
            self.service.terminate()
            self.service.start()
        self.assertEqual(objects.stat().st_mode & 0o777, 0o700)
        self.assertEqual(self.service.text().count("assets_closed"), 1)
