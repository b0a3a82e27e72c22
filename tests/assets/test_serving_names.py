"""A name that is not in a release is 404, and only files of the store are read."""

import os
import sys
from pathlib import Path
from unicodedata import normalize

from gamed.assets.manifest import AssetFile, Manifest
from tests.assets.serving_fixtures import NOW_MS, ServingCase
from tests.support.covers import covers
from tests.support.http import BASE_HOST, Answer

SECRET = b"not for players"
GOOD, NAMED = b"the file", b"\xc3\xa9t\xc3\xa9 100%.txt"
ROUTE, CHANNEL, RELEASE, FILE = "route_not_found", "channel_not_found", "release_not_found", "file_not_found"

BELOW_A_RELEASE = {
    # traversal: a path is looked up, never walked
    "..": FILE,
    ".": FILE,
    "../../auth.db": FILE,
    "../../../../../../etc/passwd": FILE,
    "data/../level.pck": FILE,
    "data/./level.pck": FILE,
    "./data/level.pck": FILE,
    "data/..": FILE,
    "..data/level.pck": FILE,
    "%2e%2e/%2e%2e/auth.db": FILE,
    "%2E%2E/secret": FILE,
    ".%2e/secret": FILE,
    "....//secret": ROUTE,
    "..;/secret": FILE,
    "data/level.pck;a=b": FILE,
    "data/level.pck/..": FILE,
    "data/level.pck/.": FILE,
    # slashes of every kind
    "/etc/passwd": ROUTE,
    "//etc/passwd": ROUTE,
    "data//level.pck": ROUTE,
    "data/level.pck/": ROUTE,
    "data/level.pck//": ROUTE,
    "data%2Flevel.pck": ROUTE,
    "data%2flevel.pck": ROUTE,
    "..%2F..%2Fauth.db": ROUTE,
    "%2Fetc%2Fpasswd": ROUTE,
    "data\\level.pck": FILE,
    "data%5Clevel.pck": FILE,
    "..\\..\\auth.db": FILE,
    "..%5c..%5cauth.db": FILE,
    "C:/Windows/win.ini": FILE,
    "C:%5CWindows%5Cwin.ini": FILE,
    "%5C%5Chost%5Cshare": FILE,
    "file:///etc/passwd": ROUTE,
    "http:%2F%2Fexample.com": ROUTE,
    # decoded once
    "data%252Flevel.pck": FILE,
    "%252e%252e/secret": FILE,
    "%25%32%65%25%32%65/secret": FILE,
    "data/level%252Epck": FILE,
    # characters
    "%00": ROUTE,
    "data/level.pck%00": ROUTE,
    "data/level.pck%00.txt": ROUTE,
    "data/level.pck%0a": ROUTE,
    "data/level.pck%0d%0aSet-Cookie:%20a=b": ROUTE,
    "%1b%5b2J": ROUTE,
    "%7f": ROUTE,
    "%c2%80": ROUTE,
    "data/level.pck%20": FILE,
    "%20data/level.pck": FILE,
    "data/level.pck.": FILE,
    "data/level.pck::$DATA": FILE,
    "data/level.pck:stream": FILE,
    "DATA/LEVEL.PCK": FILE,
    "data/Level.pck": FILE,
    "con": FILE,
    "nul.txt": FILE,
    "data/%EF%BC%8E%EF%BC%8E": FILE,
    "data%E2%88%95level.pck": FILE,
    "data%EF%BC%8Flevel.pck": FILE,
    "data/le%CC%81vel.pck": FILE,
    "data/level%E2%80%8B.pck": FILE,
    "data/%E2%80%AElevel.pck": FILE,
    "*": FILE,
    "data/*": FILE,
    "~root/.ssh/id_rsa": FILE,
    "$HOME": FILE,
    "a" * 300: FILE,
    "a/" * 400 + "a": FILE,
    # names that objects have
    "__proto__": FILE,
    "__class__": FILE,
    "files": FILE,
}
UNREADABLE = (
    "%",
    "data/%2",
    "data/%zz",
    "%u002e%u002e/secret",
    "%c0%ae%c0%ae/secret",
    "%e0%80%ae/secret",
    "%f0%80%80%ae",
    "%c0%afetc%c0%afpasswd",
    "%ed%a0%80",
    "%f5%80%80%80",
    "%ff%fe",
    "caf%e9",
    "%80",
)
"""Targets that are 400, because they do not percent-encode UTF-8."""
NAMES = {
    "..": CHANNEL,
    ".": CHANNEL,
    "...": CHANNEL,
    "%2e%2e": CHANNEL,
    "..%2F..%2Fauth.db": ROUTE,
    "../auth.db": CHANNEL,
    "../../auth.db": CHANNEL,
    "channels": CHANNEL,
    "releases": CHANNEL,
    "tmp": CHANNEL,
    "objects": CHANNEL,
    "stable.json": CHANNEL,
    "stable%00": ROUTE,
    "STABLE": CHANNEL,
    "stable%20": CHANNEL,
    "s%74able": "",
    "%73table": "",
    "-stable": CHANNEL,
    "a" * 33: CHANNEL,
    "r0123456789abcde": CHANNEL,
    "r0123456789abcdeg": CHANNEL,
    "R0123456789abcdef": CHANNEL,
    "r0123456789ABCDEF": CHANNEL,
    "r0123456789abcdef": RELEASE,
    "r0123456789abcdef.json": CHANNEL,
    "../releases/r0123456789abcdef": CHANNEL,
    "%E2%98%83": CHANNEL,
}
OBJECTS = (
    "..",
    "%2e%2e",
    "ab",
    "../secret",
    "aa/../../secret",
    "0" * 63,
    "0" * 64,
    "0" * 65,
    "g" * 64,
    "A" * 64,
    "%00" * 64,
)


class Opened:
    """The names of the files that this process opens while `watching`; an audit hook cannot be removed."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.watching = False
        sys.addaudithook(self.heard)

    def heard(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.watching and event in ("open", "os.listdir", "os.scandir"):
            self.names.append(str(arguments[0]))


OPENED = Opened()


@covers("threats/41")
class NameTests(ServingCase):
    """A store with files in and around it that must not be read."""

    def setUp(self) -> None:
        super().setUp()
        self.data = self.folder.path.parent
        self.release = self.folder.publish("stable", {"data/level.pck": GOOD, "été 100%.txt": NAMED})
        for name in ("auth.db", "secret", "assets/secret", "assets/channels/secret", "assets/releases/secret"):
            (self.data / name).write_bytes(SECRET)
        self.folder.put("objects/se/secret", SECRET)
        self.folder.put(f"objects/{'0' * 2}/{'0' * 63}", SECRET)

    def raw(self, target: bytes) -> Answer:
        connection = self.browser.connect()
        connection.send(b"GET " + target + b" HTTP/1.1\r\nHost: " + BASE_HOST.encode() + b"\r\n\r\n")
        answer = connection.answer
        if not connection.closed:
            connection.leave()
        self.assertNotIn(SECRET, connection.raw)
        return answer

    def test_below_a_release(self) -> None:
        """A path that is not in the manifest is 404, below a channel and a release."""
        for path, code in BELOW_A_RELEASE.items():
            for name in ("stable", self.release):
                answer = self.raw(f"/assets/{name}/{path}".encode())
                self.refused(answer, 404, code)

    def test_nothing_is_opened(self) -> None:
        """Unknown paths and malformed hashes open no file; an unknown name opens at most a manifest."""
        self.get("/assets/stable")
        OPENED.names.clear()
        OPENED.watching = True
        self.addCleanup(setattr, OPENED, "watching", False)
        for path in (*BELOW_A_RELEASE, *UNREADABLE):
            self.raw(f"/assets/stable/{path}".encode())
        for name in (*NAMES, *(f"objects/{name}" for name in OBJECTS if name != "0" * 64)):
            self.raw(f"/assets/{name}".encode())
        self.assertEqual(set(OPENED.names), {str(self.folder.path / "releases"), "r0123456789abcdef.json"})

    def test_unreadable(self) -> None:
        """A target that does not decode to UTF-8 is 400."""
        for path in UNREADABLE:
            for name in ("stable", self.release, "objects", "none"):
                self.refused(self.raw(f"/assets/{name}/{path}".encode()), 400, "bad_request")
        for target in (b"/assets/stable/\xc3\xa9t\xc3\xa9", b"/assets/stable/\xff", b"/assets/stable/a#b"):
            self.refused(self.raw(target), 400, "bad_request")

    def test_names(self) -> None:
        """A malformed name of a channel or release is 404, alone and before a path."""
        for name, code in NAMES.items():
            for path in ("", "/data/level.pck"):
                answer = self.raw(f"/assets/{name}{path}".encode())
                if code:
                    self.refused(answer, 404, code)
                else:
                    self.assertEqual(answer.status, 200, name)

    def test_objects(self) -> None:
        """A malformed hash is 404."""
        for name in OBJECTS:
            answer = self.raw(f"/assets/objects/{name}".encode())
            self.assertEqual(answer.status, 404, name)
            self.assertIn(answer.code, (FILE, CHANNEL, ROUTE), name)

    def test_good_names(self) -> None:
        """Every encoding and form of a valid path finds its file."""
        for target in (
            "/assets/stable/data/level.pck",
            "/assets/stable/data/level.pck?v=2",
            "/assets/stable/data/%6cevel.pck",
            "/assets/stable/data/level%2Epck",
            f"http://{BASE_HOST}/assets/stable/data/level.pck",
        ):
            self.assertEqual(self.raw(target.encode()).body, GOOD, target)
        for form in ("NFC", "NFD"):
            encoded = "".join(f"%{byte:02x}" for byte in normalize(form, "été 100%.txt").encode())
            self.assertEqual(self.raw(f"/assets/stable/{encoded}".encode()).body, NAMED, form)

    def test_combining_marks(self) -> None:
        """A very long name of combining marks is 404 like any other."""
        marks = "%CC%81%CC%A3" * 1300
        for path in (marks, f"data/a{marks}", "/".join(["a" + "%CC%81%CC%A3" * 60] * 20)):
            self.refused(self.raw(f"/assets/stable/{path}".encode()), 404, FILE)

    def test_a_manifest_out_of_place(self) -> None:
        """A manifest with a path out of the store is damaged."""
        for path in ("../../secret", "/etc/passwd", "a/../b", "a\\b", "nul"):
            file = AssetFile(len(SECRET), "0" * 64, "text/plain")
            release = self.folder.manifest(Manifest(NOW_MS, {path: file}))
            self.refused(self.get(f"/assets/{release}"), 500, "internal_error")
            self.refused(self.get(f"/assets/{release}/data/level.pck"), 500, "internal_error")

    def test_links(self) -> None:
        """A link in the store is not followed."""
        outside = self.data / "outside"
        outside.write_bytes(GOOD)
        for kind in (self.link, self.folder_link):
            kind(self.folder.object_path(GOOD), outside)
            self.browser = self.new_browser()
            self.refused(self.get("/assets/stable/data/level.pck"), 500, "internal_error")
            self.refused(self.get(f"/assets/objects/{self.folder.object_path(GOOD).name}"), 500, "internal_error")

    def link(self, path: Path, outside: Path) -> None:
        path.unlink()
        path.symlink_to(outside)

    def folder_link(self, path: Path, outside: Path) -> None:
        path.unlink()
        elsewhere = self.data / "elsewhere"
        elsewhere.mkdir()
        os.link(outside, elsewhere / path.name)
        path.parent.rmdir()
        path.parent.symlink_to(elsewhere)
