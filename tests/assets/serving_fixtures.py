"""Fixtures for tests of the asset routes over HTTP, with an assets folder of their own."""

from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from gamed.assets.cache import ObjectCache, ReleaseCache
from gamed.assets.manifest import AssetFile, Manifest, manifest_bytes, release_id
from gamed.assets.pointer import ChannelPointer, pointer_bytes
from gamed.assets.routes import AssetRoutes
from gamed.assets.service import AssetService
from gamed.assets.store import AssetStore
from gamed.http.settings import HttpSettings
from gamed.sessions.service import SessionService
from tests.support.folders import unused_path
from tests.support.http import BASE_HOST, Answer, Browser

T = TypeVar("T")
NOW_MS = 1_800_000_000_000
OPENED_MS = NOW_MS - 5000
MOST_OPEN = 8


def at_once(work: Callable[[], T]) -> Deferred[T]:
    """Call `work` at once, as a stand-in for a thread."""
    try:
        return succeed(work())
    except BaseException:
        return fail(Failure())


class Folder:
    """An assets folder that is written without the code that publishes (docs/internals/storage.md: Assets)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock_ms = NOW_MS

    def object(self, data: bytes) -> str:
        """Store bytes; return their hash in hex."""
        name = sha256(data).hexdigest()
        self.put(f"objects/{name[:2]}/{name}", data)
        return name

    def release(
        self, files: Mapping[str, bytes], *, note: str = "", types: Mapping[str, str] | None = None, at_ms: int = 0
    ) -> str:
        """Store a release to which no channel points; return its id."""
        kinds = types or {}
        entries = {
            path: AssetFile(len(data), self.object(data), kinds.get(path, "application/octet-stream"))
            for path, data in files.items()
        }
        return self.manifest(Manifest(at_ms or self.clock_ms, entries, note))

    def manifest(self, manifest: Manifest) -> str:
        text = manifest_bytes(manifest)
        name = release_id(text)
        self.put(f"releases/{name}.json", text)
        return name

    def point(self, channel: str, release: str, at_ms: int = 0) -> None:
        """Write a channel's pointer by rename, as the publisher does."""
        pointer = pointer_bytes(ChannelPointer(release, at_ms or self.clock_ms))
        self.put(f"channels/{channel}.json", pointer)

    def publish(self, channel: str, files: Mapping[str, bytes], **how: object) -> str:
        name = self.release(files, **how)  # type: ignore[arg-type]
        self.point(channel, name)
        return name

    def put(self, name: str, data: bytes) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name("new-" + path.name)
        fresh.write_bytes(data)
        return fresh.replace(path)

    def object_path(self, data: bytes) -> Path:
        name = sha256(data).hexdigest()
        return self.path / "objects" / name[:2] / name


class ServingCase(SynchronousTestCase):
    """A test that publishes into `self.folder` and requests with `self.get("/assets/...")`."""

    crashes = False
    most_open = MOST_OPEN

    def setUp(self) -> None:
        self.clock = Clock()
        self.folder = Folder(unused_path(self) / "assets")
        self.browser = self.new_browser()

    def new_browser(self, players: SessionService | None = None, origins: frozenset[str] = frozenset()) -> Browser:
        """Return a browser for new routes over the same folder, with empty caches."""
        store = AssetStore(self.folder.path)
        self.objects = ObjectCache(store, self.run_in_thread, self.clock.seconds, self.most_open)
        self.addCleanup(self.objects.close)
        self.library = ReleaseCache(store, self.run_in_thread, self.clock.seconds)
        routes = AssetRoutes(
            assets=AssetService(releases=self.library, objects=self.objects, started_ms=OPENED_MS), sessions=players
        )
        policy = HttpSettings(BASE_HOST, cors_origins=origins)
        return Browser([routes], policy, clock=self.clock, crashes=self.crashes)

    def run_in_thread(self, work: Callable[[], T]) -> Deferred[T]:
        """Run work as a thread does, but at once."""
        return at_once(work)

    def ask(self, method: str, path: str, headers: Mapping[str, str] | None = None) -> Answer:
        return self.browser.request(method, path, headers)

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Answer:
        return self.ask("GET", path, headers)

    def head(self, path: str, headers: Mapping[str, str] | None = None) -> Answer:
        return self.ask("HEAD", path, headers)

    def refused(self, answer: Answer, status: int, code: str) -> None:
        """Assert that the answer is a problem of this code, and shows no path of the server."""
        self.assertEqual((answer.status, answer.code), (status, code), answer.body)
        self.assertEqual(answer.headers["cache-control"], "no-store")
        self.assertNotIn(str(self.folder.path).encode(), answer.body)
        for name in ("etag", "repr-digest", "last-modified", "accept-ranges"):
            self.assertNotIn(name, answer.headers)
