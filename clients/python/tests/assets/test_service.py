"""The same downloads from a real service, published by its own publisher."""

import json
import time
from contextlib import nullcontext
from hashlib import sha256
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from clients.python.tests.assets.cases import FIRST, SECOND, tree
from gamed.assets.publish import Publisher, PublishRequest
from gamed.assets.store import AssetStore
from gamed.clock import now_ms
from tests.e2e.client import CONFIG, gamed, write_game
from tests.e2e.service import Service
from tests.support.folders import unused_path
from tests.support.python_client import gamed_assets as ga
from tests.support.python_client import gamed_client as gc

PIECE, LIMIT_SECONDS = 10_000, 60


class ServedCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.root = unused_path(self)
        self.service = Service(self.root / "server", CONFIG)
        self.addCleanup(self.service.close)
        self.patch(ga, "PIECE_BYTES", PIECE)
        self.client = gc.GamedClient(self.service.base, folder=self.root / "state")
        self.assets = ga.Assets(self.client, self.root / "content")
        self.addCleanup(self.assets.close)

    def publish(self, files: dict[str, bytes], channel: str = "stable", note: str = "") -> str:
        source = Path(self.mktemp())
        for path, content in files.items():
            (source / path).parent.mkdir(parents=True, exist_ok=True)
            (source / path).write_bytes(content)
        store = AssetStore(self.service.data / "assets")
        publisher = Publisher(
            store=store, progress=lambda *what: nullcontext(quiet), now_ms=now_ms, min_free_bytes=0, keep_releases=5
        )
        return publisher.publish(PublishRequest(source.absolute(), channel, note)).release

    def raised(self, error: type[Exception]) -> Exception:
        return self.assertRaises(error, self.assets.download)

    def settled(self, release: str) -> None:
        """Wait until the service has read the channel's new release, within a second."""
        deadline = time.monotonic() + LIMIT_SECONDS
        while self.listed() != release:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

    def listed(self) -> str | None:
        channels = self.client.wire.call("GET", "/assets/").json()["channels"]
        return channels["stable"]["release"] if channels else None


def quiet(*_: object) -> None: ...


class Served(ServedCase):
    def test_public(self) -> None:
        """Public files need no sign-in, only new bytes are fetched, and a publish does not affect a download."""
        self.service.start()
        self.assertEqual(self.raised(gc.NotFound).code, "channel_not_found")
        first = self.publish(FIRST, note="1.0")
        self.settled(first)
        reports: list[ga.Progress] = []
        found = self.assets.download(progress=reports.append)
        self.assertEqual((found.release, found.note, tree(self.assets.current.folder)), (first, "1.0", FIRST))
        self.assertEqual(reports[-1].fetched, sum(map(len, FIRST.values())) - 900)
        second = []

        def publish(progress: ga.Progress) -> None:
            if progress.stage == "fetching" and not second:
                second.append(self.publish({**SECOND, "newer": bytes(range(256))}))

        middle = self.publish(SECOND)
        self.settled(middle)
        self.assertEqual(self.assets.download(progress=publish).release, middle)
        self.assertEqual(tree(self.assets.switch().folder), SECOND)
        self.settled(second[0])
        self.assertEqual(self.assets.download(progress=reports.append).release, second[0])
        self.assertEqual(reports[-1].fetched, 256)

    def test_players(self) -> None:
        """Private files are refused without a sign-in and fetched with one; an interrupted download continues."""
        write_game(self.service, assets={"access": "players"})
        self.service.start()
        release = self.publish({"big": FIRST["data/level1.pck"]})
        self.assertEqual(self.raised(gc.SignInRequired).code, "signed_out")
        gamed(self.service, "players", "add", "anna", "--password-stdin", stdin="correct horse\n")
        self.client.keep(json.loads(gamed(self.service, "players", "token", "anna", "--json")))
        staging = self.assets.folder / "staging"
        digest = sha256(FIRST["data/level1.pck"]).hexdigest()
        (staging / f"{digest}.0").write_bytes(FIRST["data/level1.pck"][:4000])
        (staging / f"{digest}.2").write_bytes(FIRST["data/level1.pck"][2 * PIECE : 3 * PIECE])
        reports: list[ga.Progress] = []
        self.assertEqual(self.assets.download(progress=reports.append).release, release)
        self.assertEqual(reports[-1].fetched, len(FIRST["data/level1.pck"]) - 4000 - PIECE)
        self.assertEqual(tree(self.assets.current.folder), {"big": FIRST["data/level1.pck"]})
