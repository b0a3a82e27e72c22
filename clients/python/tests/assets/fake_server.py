"""A fake server of downloads has releases in memory, ranges, and every fault of `FakeGamed`."""

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256

from msgspec import field

from clients.python.tests.client.fake_server import FakeGamed, Reply, Seen, problem

RANGE = re.compile(r"bytes=(\d+)-(\d+)")


def manifest(files: Mapping[str, bytes], note: str = "", **more: object) -> bytes:
    """Return a manifest as a publisher writes it."""
    listed = {
        path: {"size": len(data), "sha256": sha256(data).hexdigest(), "type": "application/octet-stream"}
        for path, data in files.items()
    }
    value = {"format": 1, "published": "2030-01-01T00:00:00.000Z", "note": note, "meta": {}, "files": listed, **more}
    return json.dumps(value, ensure_ascii=False).encode()


def release_of(raw: bytes) -> str:
    return f"r{sha256(raw).hexdigest()[:16]}"


def headers_of(data: bytes, etag: str) -> dict[str, str]:
    digest = b64encode(sha256(data).digest()).decode()
    return {"ETag": f'"{etag}"', "Repr-Digest": f"sha-256=:{digest}:", "Accept-Ranges": "bytes"}


class FakeAssets(FakeGamed, dict=True):
    """A fake server of releases that a test publishes; `served` counts the sent bytes of files."""

    channels: dict[str, str] = field(default_factory=dict)
    releases: dict[str, bytes] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)
    private: bool = False
    ranges: bool = True
    served: int = 0

    def publish(self, files: Mapping[str, bytes], channel: str = "stable", **more: object) -> str:
        return self.publish_raw(manifest(files, **more), files, channel)

    def publish_raw(self, raw: bytes, files: Mapping[str, bytes], channel: str = "stable") -> str:
        release = release_of(raw)
        self.objects |= {sha256(data).hexdigest(): data for data in files.values()}
        self.releases[release] = raw
        self.channels[channel] = release
        return release

    def withdraw(self, release: str) -> None:
        """Delete the manifest and the files of a release, as `gc` does."""
        del self.releases[release]
        self.objects.clear()

    def asked(self) -> list[Seen]:
        """Return the requests for files."""
        return [seen for seen in self.seen if seen.path.startswith("/assets/objects/")]

    def _route(self, request: Seen) -> Reply:
        if not request.path.startswith("/assets/"):
            return super()._route(request)
        if self.private and not request.bearer:
            return problem(401, "token_missing")
        if self.private and request.bearer != self.access:
            return problem(401, "token_expired")
        name = request.path.removeprefix("/assets/")
        if name.startswith("objects/"):
            return self._object(name.removeprefix("objects/"), request)
        release = self.channels.get(name, name)
        if release not in self.releases:
            return problem(404, "release_not_found" if name.startswith("r") else "channel_not_found")
        if request.headers.get("If-None-Match") == f'"{release}"':
            return Reply(304, b"", {"ETag": f'"{release}"'})
        raw = self.releases[release]
        return Reply(200, raw, {"Content-Type": "application/json", **headers_of(raw, release)})

    def _object(self, digest: str, request: Seen) -> Reply:
        data = self.objects.get(digest)
        if data is None:
            return problem(404, "file_not_found")
        headers, ranged = headers_of(data, digest), RANGE.fullmatch(request.headers.get("Range", ""))
        if ranged and self.ranges and request.headers.get("If-Range") == f'"{digest}"':
            first, last = int(ranged[1]), min(int(ranged[2]), len(data) - 1)
            self.served += last + 1 - first
            where = {"Content-Range": f"bytes {first}-{last}/{len(data)}"}
            return Reply(206, data[first : last + 1], {**headers, **where})
        self.served += len(data)
        return Reply(200, data, headers)
