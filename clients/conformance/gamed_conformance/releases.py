"""Fake releases are served as by gamed, with manifests, objects and ranges, and may be hostile.

See docs/protocol.md: Assets.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from urllib.parse import unquote

from .http_io import Answer, Request

RANGE = re.compile(r"bytes=([0-9]+)-([0-9]*)")


@dataclass(frozen=True)
class ReleaseFile:
    body: bytes = field(repr=False)
    tag: str
    kind: str
    release: str | None = None


class FakeReleases:
    """The file at each path below /assets/."""

    def __init__(self) -> None:
        self.paths: dict[str, ReleaseFile] = {}

    def publish(self, channel: str, files: Mapping[str, str], also: Mapping[str, Any], about: Mapping[str, Any]) -> str:
        """Publish a release. `also` are entries of the manifest without a file; `about` are its other members."""
        listed: dict[str, Any] = {}
        for path, text in files.items():
            body = text.encode()
            digest = sha256(body).hexdigest()
            listed[path] = {"size": len(body), "sha256": digest, "type": "application/octet-stream"}
            self.paths[f"/assets/objects/{digest}"] = ReleaseFile(body, digest, "application/octet-stream")
        known = {"format": 1, "published": "2030-01-01T00:00:00.000Z", "note": "1.0", "meta": {}}
        raw = json.dumps({**known, "files": {**listed, **also}, **about}, ensure_ascii=False).encode()
        release = f"r{sha256(raw).hexdigest()[:16]}"
        for name in (release, channel):
            self.paths[f"/assets/{name}"] = ReleaseFile(raw, release, "application/json", release)
            for path, entry in listed.items():
                self.paths[f"/assets/{name}/{path}"] = self.paths[f"/assets/objects/{entry['sha256']}"]
        return release

    def answer(self, request: Request) -> Answer | None:
        """Return the response to a request, or None if there is no such file."""
        found = self.paths.get(unquote(request.path.partition("?")[0]))
        if found is None or request.method not in ("GET", "HEAD"):
            return None
        fields = [("ETag", f'"{found.tag}"'), ("Accept-Ranges", "bytes"), ("Content-Type", found.kind)]
        digest = base64.b64encode(sha256(found.body).digest()).decode()
        fields += [("Repr-Digest", f"sha-256=:{digest}:"), ("Last-Modified", "Tue, 01 Jan 2030 00:00:00 GMT")]
        if found.release:
            fields.append(("Asset-Release", found.release))
        if request.headers.get("if-none-match") == f'"{found.tag}"':
            return Answer(304, fields, b"")
        return self._ranged(request, found, fields)

    def _ranged(self, request: Request, found: ReleaseFile, fields: list[tuple[str, str]]) -> Answer:
        asked, size = RANGE.fullmatch(request.headers.get("range", "")), len(found.body)
        if asked is None or request.headers.get("if-range", f'"{found.tag}"') != f'"{found.tag}"':
            return Answer(200, fields, found.body)
        start, end = int(asked[1]), min(int(asked[2] or size), size - 1)
        if start >= size:
            return Answer(416, [("Content-Range", f"bytes */{size}")], b"")
        return Answer(206, [*fields, ("Content-Range", f"bytes {start}-{end}/{size}")], found.body[start : end + 1])
