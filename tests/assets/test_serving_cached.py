"""A response from the cache is equal to one from disk (docs/protocol.md: Assets, Conditions and ranges)."""

from collections.abc import Callable, Mapping
from hashlib import sha256
from itertools import product
from typing import Any, TypeVar

from twisted.internet.defer import Deferred

from gamed.assets.cache import (
    OBJECT_TTL_SECONDS,
    RELEASE_TTL_SECONDS,
    SNAPSHOT_TTL_SECONDS,
    ObjectCache,
    ReleaseCache,
)
from gamed.assets.errors import ReleaseNotFound
from gamed.assets.manifest import AssetFile, Manifest
from gamed.assets.service import AssetRequest, AssetResponse, AssetService
from gamed.assets.store import AssetStore
from gamed.http.conditional import parse_conditions
from gamed.timestamps import http_date
from tests.assets.serving_fixtures import NOW_MS, OPENED_MS, ServingCase, at_once
from tests.support.http import Answer

T = TypeVar("T")
ORIGIN = "https://page.example"
SMALL, OTHER, LARGE = b"small " * 50, b"other", b"large " * 12_000
FILES = {"a/small.txt": SMALL, "large": LARGE}


def tag(data: bytes) -> str:
    return f'"{sha256(data).hexdigest()}"'


TAGS = (*map(tag, (SMALL, LARGE, OTHER)), f"W/{tag(SMALL)}", f'"x", {tag(SMALL)}', f" {tag(SMALL)}", "*", "W/", "none")
CONDITIONS: tuple[Mapping[str, str], ...] = (
    {},
    *({"if-none-match": each} for each in TAGS[:-2]),
    {"if-match": tag(SMALL)},
    {"if-match": tag(OTHER), "if-none-match": tag(SMALL)},
    {"if-unmodified-since": http_date(0), "if-none-match": tag(SMALL)},
    {"if-modified-since": http_date(2**42)},
    {"if-modified-since": http_date(0)},
    {"if-modified-since": http_date(2**42), "if-none-match": tag(OTHER)},
    {"if-modified-since": http_date(0), "if-none-match": tag(SMALL)},
    {"range": "bytes=1-2"},
    {"range": "bytes=1-2", "if-none-match": tag(SMALL)},
    {"range": "bytes=1-2", "if-range": tag(OTHER)},
    {"if-range": tag(OTHER)},
)


class CachedTests(ServingCase):
    """The asset service without HTTP."""

    def setUp(self) -> None:
        super().setUp()
        self.release = self.folder.publish("stable", FILES)
        store = AssetStore(self.folder.path)
        self.objects = ObjectCache(store, at_once, self.clock.seconds, 8)
        self.addCleanup(self.objects.close)
        self.reader = AssetService(
            releases=ReleaseCache(store, at_once, self.clock.seconds), objects=self.objects, started_ms=OPENED_MS
        )

    def cached(self, path: str, fields: Mapping[str, str] | None = None, name: str = "stable") -> AssetResponse | None:
        return self.reader.cached_file(name, path, (fields or {}).get)

    def looked_for(self, path: str, fields: Mapping[str, str] | None = None, name: str = "stable") -> AssetResponse:
        header = (fields or {}).get
        look = AssetRequest(parse_conditions(header), header("range"), True)
        return self.successResultOf(Deferred.fromCoroutine(self.reader.file(name, path, look)))

    def shown(self, found: AssetResponse) -> Any:
        content = found.content
        return found.item, found.modified, found.part, content if isinstance(content, bytes) else type(content)

    def test_the_same(self) -> None:
        """They are equal for each file, address and condition; frequent requests are answered from the cache."""
        cached = []
        for name, path in product(("stable", self.release), FILES):
            self.looked_for(path, name=name)
            for fields in CONDITIONS:
                quick = self.cached(path, fields, name)
                if quick is None:
                    continue
                cached.append((name, path, fields))
                self.assertEqual(self.shown(quick), self.shown(self.looked_for(path, fields, name)), fields)
        for name in ("stable", self.release):
            self.assertIn((name, "a/small.txt", {}), cached)
            for path, data in FILES.items():
                self.assertIn((name, path, {"if-none-match": tag(data)}), cached)

    def test_empty_cache(self) -> None:
        """Without a cache entry nothing is returned, nor for anything that does not exist."""
        self.assertIsNone(self.cached("a/small.txt"))
        self.looked_for("large")
        self.assertIsNone(self.cached("a/small.txt"))
        self.looked_for("a/small.txt")
        self.assertIsNotNone(self.cached("a/small.txt"))
        for name, path in (("stable", "none"), ("none", "a/small.txt"), ("r0123456789abcdef", "a/small.txt")):
            self.assertIsNone(self.cached(path, name=name))
        self.assertIsNone(self.cached("large"))

    def test_as_long_as_channels_are_known(self) -> None:
        """Expired channels are read again first, whatever the client has."""
        self.looked_for("a/small.txt")
        self.clock.advance(SNAPSHOT_TTL_SECONDS)
        for fields in ({}, {"if-none-match": tag(SMALL)}):
            self.assertIsNone(self.cached("a/small.txt", fields))

    def test_moved(self) -> None:
        """A cached file of the old release is not returned for the new one."""
        self.looked_for("a/small.txt")
        self.folder.publish("stable", {"a/small.txt": OTHER})
        self.clock.advance(SNAPSHOT_TTL_SECONDS)
        self.looked_for("a/small.txt")
        known, new = self.cached("a/small.txt", {"if-none-match": tag(SMALL)}), self.cached("a/small.txt")
        assert new is not None
        self.assertEqual((known, new.content, str(new.item.tag)), (None, OTHER, tag(OTHER)))

    def test_deleted_release(self) -> None:
        """A deleted release is served by its id for at most a minute, also if no channel is requested meanwhile."""
        store = AssetStore(self.folder.path)
        releases = ReleaseCache(store, at_once, self.clock.seconds)
        self.successResultOf(Deferred.fromCoroutine(releases.snapshot()))
        self.folder.publish("stable", {"a/small.txt": OTHER})
        (self.folder.path / "releases" / f"{self.release}.json").unlink()
        self.clock.advance(RELEASE_TTL_SECONDS)
        self.failureResultOf(Deferred.fromCoroutine(releases.release(self.release)), ReleaseNotFound)

    def test_slow_disk(self) -> None:
        """A disk that fails only after a second does not keep a channel's release from being served by its id."""

        def slowly(work: Callable[[], T]) -> Deferred[T]:
            self.clock.advance(2 * SNAPSHOT_TTL_SECONDS)
            return at_once(work)

        releases = ReleaseCache(AssetStore(self.folder.path), slowly, self.clock.seconds)
        self.successResultOf(Deferred.fromCoroutine(releases.snapshot()))
        for name in ("channels", "releases"):
            (self.folder.path / name).rename(self.folder.path / f"{name}-away")
            (self.folder.path / name).write_bytes(b"")
        found = self.successResultOf(Deferred.fromCoroutine(releases.release(self.release)))
        self.assertEqual(found.id, self.release)

    def test_as_long_as_bytes_are_kept(self) -> None:
        """A deleted file is served until its cache entry expires."""
        self.looked_for("a/small.txt", name=self.release)
        self.folder.object_path(SMALL).unlink()
        for seconds, there in ((OBJECT_TTL_SECONDS - 1, True), (1, False)):
            self.clock.advance(seconds)
            self.looked_for("large")  # channels are looked at
            self.assertEqual(self.cached("a/small.txt") is not None, there)

    def test_of_another_size(self) -> None:
        """Bytes of another size than in the manifest are never returned from the cache."""
        entry = AssetFile(len(SMALL) + 1, sha256(SMALL).hexdigest(), "text/plain")
        self.folder.point("stable", self.folder.manifest(Manifest(NOW_MS, {"odd": entry})))
        for _ in range(2):
            self.refused(self.get("/assets/stable/odd"), 500, "internal_error")
            self.looked_for_by_hash()
            self.assertIsNone(self.cached("odd"))

    def looked_for_by_hash(self) -> None:
        stored = self.successResultOf(Deferred.fromCoroutine(self.objects.get(sha256(SMALL).hexdigest())))
        self.assertEqual(stored.content, SMALL)

    def test_least_recently_used(self) -> None:
        """A response from the cache counts as a use."""
        for path in ("a/small.txt", "large"):
            self.looked_for(path)
        other = self.folder.object(OTHER)
        self.successResultOf(Deferred.fromCoroutine(self.objects.get(other)))
        self.cached("a/small.txt")
        self.assertEqual(list(self.objects._small), [other, tag(SMALL)[1:-1]])


class SameResponsesTests(ServingCase):
    """Responses over HTTP from disk and from the cache."""

    def test_each_address(self) -> None:
        """With each condition the second response is equal to the first, also to HEAD."""
        release, small = self.folder.publish("stable", FILES), tag(SMALL)[1:-1]
        paths = ["", "stable", release, "stable/none", "none/a", f"objects/{small}", "objects/none"]
        paths += [f"{name}/{path}" for name in ("stable", release) for path in FILES]
        asked = [*CONDITIONS, {"If-None-Match": "none"}, {"If-None-Match": tag(SMALL), "Origin": ORIGIN}]
        for path, fields, method in product(paths, asked, ("GET", "HEAD")):
            browser = self.new_browser(origins=frozenset({ORIGIN}))
            first, second = (browser.request(method, f"/assets/{path}", fields) for _ in range(2))
            self.assertEqual(without_id(first), without_id(second), (path, fields, method))


def without_id(answer: Answer) -> tuple[int, Mapping[str, str], bytes]:
    """Return the parts of a response that are equal for equal requests."""
    request_id = answer.headers["x-request-id"]
    headers = {name: value for name, value in answer.headers.items() if value != request_id}
    return answer.status, headers, answer.body.replace(request_id.encode(), b"")
