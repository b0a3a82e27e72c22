"""Builders and fixtures for tests of publishing: a folder, a store, and the files in both."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from hashlib import sha256
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from gamed.assets import channel_store, gc
from gamed.assets.manifest import parse_manifest
from gamed.assets.publish import Published, Publisher, PublishRequest
from gamed.assets.scan import ProgressDisplay
from gamed.assets.store import AssetStore
from gamed.clock import now_ms
from tests.support.databases import data_folder

NOW_MS = now_ms()
"""The time of this machine: the system dates the objects whose age a collection compares with it."""
HOUR_MS = 3_600_000
FILES = {"readme.txt": b"hello", "data/level1.pck": b"\x00one" * 100, "data/level2.pck": b"two", "copy.txt": b"hello"}


def unseen(label: str, length: int) -> AbstractContextManager[Callable[[int], None]]:
    """A progress display that shows nothing."""
    return nullcontext(lambda done: None)


def meddling(when: str, work: Callable[[], object]) -> ProgressDisplay:
    """A progress display that calls `work` when the work with this label begins."""

    @contextmanager
    def growing(label: str, length: int) -> Iterator[Callable[[int], None]]:
        if label == when:
            work()
        yield lambda done: None

    return growing


class AssetsCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = data_folder(self)
        self.source = self.folder / "game"
        self.store = AssetStore(self.folder / "data" / "assets")
        self.store.folder.parent.mkdir()
        self.now_ms = NOW_MS
        self.keep = 2

    def put(self, files: Mapping[str, bytes]) -> None:
        for path, content in files.items():
            target = self.source / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)

    def publisher(self, growing: ProgressDisplay = unseen, min_free_bytes: int = 0) -> Publisher:
        return Publisher(
            store=self.store,
            progress=growing,
            now_ms=lambda: self.now_ms,
            min_free_bytes=min_free_bytes,
            keep_releases=self.keep,
        )

    def publish(
        self, files: Mapping[str, bytes] | None = None, growing: ProgressDisplay = unseen, **more: Any
    ) -> Published:
        """Publish the folder, after these files were added to it."""
        self.put(files or {})
        return self.publisher(growing).publish(PublishRequest(self.source, more.pop("channel", "stable"), **more))

    def release(self, text: str, channel: str = "stable") -> str:
        """Publish a release with one file of its own; return its id."""
        self.now_ms += 1000
        return str(self.publish({"a.txt": text.encode()}, channel=channel).release)

    def collect(self, older_than_seconds: int = 24 * 3600, *, dry_run: bool = False) -> gc.GcResult:
        return gc.collect_garbage(self.store, self.keep, older_than_seconds, self.now_ms, dry_run=dry_run)

    def rollback(self, channel: str = "stable") -> str:
        self.now_ms += 1000
        return channel_store.rollback(self.store, channel, self.keep, self.now_ms).release

    def tree(self) -> dict[str, bytes]:
        """Return every file of the store by its path."""
        return contents(self.store.folder)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def served(store: AssetStore, channel: str = "stable") -> dict[str, bytes]:
    """Return every file of a channel as players get it; fail if one is damaged."""
    manifest = parse_manifest(store.manifest(store.pointer(channel).release))
    found: dict[str, bytes] = {}
    for path, file in manifest.files.items():
        with store.open_object(file.sha256, file.size) as opened:
            found[path] = opened.readall()
        if sha256(found[path]).hexdigest() != file.sha256:
            raise AssertionError(f"{path} is damaged")
    return found
