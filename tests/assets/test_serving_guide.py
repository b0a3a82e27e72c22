"""The commands of docs/developers/assets.md work as printed, also through nginx and Caddy with the samples."""

import re
import subprocess
from hashlib import sha256
from typing import ClassVar

from tests.assets.serving_fixtures import Folder
from tests.e2e.cases import ServiceCase
from tests.e2e.service import ROOT
from tests.proxies.cases import in_front
from tests.proxies.programs import HOST, Proxy
from tests.support.covers import covers
from tests.support.folders import unused_path

LOCK_WAIT_SECONDS = 60
PACK = bytes(range(256)) * 4096
SMALL = b"hello"
PREFIX = 100_000


def commands() -> str:
    """Return all command blocks of the page."""
    page = (ROOT / "docs/developers/assets.md").read_text("utf-8")
    return "\n".join(re.findall(r"(?ms)^```sh\n(.+?)^```", page))


class GuideTests(ServiceCase):
    config: ClassVar = {"mode": "local", "public_url": f"https://{HOST}", "trusted_proxies": ["127.0.0.1/32"]}

    def setUp(self) -> None:
        super().setUp()
        self.release = Folder(self.service.data / "assets").publish(
            "stable", {"data/level1.pck": PACK, "readme.txt": SMALL}, note="1.4.2", types={"readme.txt": "text/plain"}
        )

    def test_commands(self) -> None:
        """An interrupted download is completed, and each command prints what the page says."""
        script = commands().replace("https://play.example.org", self.service.base)
        broken = f"\nhead -c {PREFIX} level1.pck > part; mv part level1.pck\ncurl -sf -C -"
        done = self.run_shell(script.replace("\ncurl -sf -C -", broken, 1))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f'"release":"{self.release}"', done.stdout)
        self.assertIn('"size": 1048576', done.stdout)
        self.assertEqual(done.stdout.splitlines()[-3:], ["level1.pck: OK", "304", "206"])
        self.assertEqual((self.folder / "level1.pck").read_bytes(), PACK)
        self.assertEqual((self.folder / "part").read_bytes(), PACK[100:])

    def run_shell(self, script: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["sh", "-ec", script],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=LOCK_WAIT_SECONDS,
            check=False,
        )

    @covers("1/3")
    def test_behind_proxies(self) -> None:
        """Bytes, parts, conditions and fields pass both proxies unchanged and uncompressed."""
        folder = unused_path(self)
        for proxy in in_front(self, folder, f"127.0.0.1:{self.service.port}"):
            for name in ("stable", self.release):
                self.downloads(proxy, f"/assets/{name}/data/level1.pck", PACK)
                self.downloads(proxy, f"/assets/{name}/readme.txt", SMALL)
            self.assertEqual(proxy.ask("GET", "/assets/").json["channels"]["stable"]["release"], self.release)
            self.assertEqual(proxy.ask("GET", "/assets/stable").headers["asset-release"], self.release)
            self.assertEqual(proxy.kept(), [], proxy.name)

    def downloads(self, proxy: Proxy, path: str, data: bytes) -> None:
        tag = f'"{sha256(data).hexdigest()}"'
        whole = proxy.ask("GET", path, headers={"Accept-Encoding": "gzip, br"})
        self.assertEqual((whole.status, whole.body == data), (200, True), (proxy.name, path))
        self.assertEqual((whole.headers["etag"], whole.headers["content-length"]), (tag, str(len(data))), proxy.name)
        self.assertNotIn("content-encoding", whole.headers)
        for field in ("cache-control", "last-modified", "repr-digest", "accept-ranges", "content-security-policy"):
            self.assertIn(field, whole.headers, proxy.name)
        head = proxy.ask("HEAD", path)
        self.assertEqual((head.status, head.headers["content-length"]), (200, str(len(data))), proxy.name)
        part = proxy.ask("GET", path, headers={"Range": "bytes=2-", "If-Range": tag})
        self.assertEqual((part.status, part.body == data[2:]), (206, True), proxy.name)
        self.assertEqual(part.headers["content-range"], f"bytes 2-{len(data) - 1}/{len(data)}", proxy.name)
        other = proxy.ask("GET", path, headers={"Range": "bytes=2-", "If-Range": '"x"'})
        self.assertEqual((other.status, len(other.body)), (200, len(data)), proxy.name)
        self.assertEqual(proxy.ask("GET", path, headers={"If-None-Match": tag}).status, 304, proxy.name)
        self.assertEqual(proxy.ask("GET", path, headers={"Range": f"bytes={len(data)}-"}).status, 416, proxy.name)
