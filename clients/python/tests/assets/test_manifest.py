"""A hostile manifest is refused before the first write."""

import json

from twisted.trial.unittest import SynchronousTestCase

from clients.python.tests.assets.cases import FIRST, AssetsCase, tree
from clients.python.tests.assets.fake_server import manifest
from tests.support.covers import covers
from tests.support.python_client import gamed_assets as ga
from tests.support.python_client import gamed_client as gc

EVIL = (
    "../outside",
    "/etc/passwd",
    "a/../../outside",
    "a/./b",
    "a//b",
    "a/",
    "",
    ".",
    "..",
    "C:/Windows/x",
    "C:x",
    "a\\b",
    "..\\outside",
    "\\\\host\\share",
    "nul",
    "a/con.txt",
    "COM¹",
    "lpt9 .log",
    "conout$",
    "stream:hidden",
    "a\0b",
    "a\nb",
    "a\x7fb",
    "a\u2028b",
    "ends.",
    "ends ",
    "dot./x",
    "what?",
    "a*b",
    "x" * 256,
    "ü" * 128,
    "d/" * 600 + "x",
    "u\u0308ber",
    "\ud800",
)
GOOD = ("data/level1.pck", "a b/ünïcödé ☃.ogg", ".hidden/.file", "con1/nullable.txt", "x" * 255, "日本語/データ")


@covers("threats/59")
class Paths(SynchronousTestCase):
    def test_refused(self) -> None:
        """A path is refused if it leads elsewhere, is a device, or is not a valid file name on some player's system."""
        for path in EVIL:
            self.assertRaises(gc.NotGamed, ga.refuse_paths, [path])

    def test_accepted(self) -> None:
        """Each valid path is accepted, and all together."""
        ga.refuse_paths(GOOD)

    def test_clashes(self) -> None:
        """Two paths are refused if they are one file where case does not count, or one needs the other as a folder."""
        for pair in (("A.txt", "a.TXT"), ("straße", "STRASSE"), ("a", "a/b"), ("a/b", "A"), ("x/A/y", "x/a")):
            self.assertRaises(gc.NotGamed, ga.refuse_paths, pair)
            self.assertRaises(gc.NotGamed, ga.refuse_paths, pair[::-1])
        ga.refuse_paths(["Data/a", "data/b"])


@covers("threats/59")
class Manifests(AssetsCase):
    def setUp(self) -> None:
        super().setUp()
        self.fake.publish(FIRST)
        self.assets.download()
        self.before = tree(self.folder)

    def refused(self, raw: bytes) -> None:
        self.fake.publish_raw(raw, {})
        asked = len(self.fake.asked())
        self.raised(gc.NotGamed, "not_gamed")
        self.assertEqual(len(self.fake.asked()), asked)
        self.assertEqual(tree(self.folder), self.before)
        self.assertEqual(sorted(path.name for path in self.root.iterdir()), ["content"])

    def test_paths(self) -> None:
        """No file of a release with one such path is fetched or written."""
        for path in ("../../outside", "/tmp/gamed-outside", "nul", "\ud800"):
            self.refused(manifest({"good": b"x", "HERE": b"y"}).replace(b'"HERE"', json.dumps(path).encode()))

    def test_forms(self) -> None:
        """Other forms are refused: no JSON, no object, another format, wrong types, repeated members, deep nesting."""
        good = json.loads(manifest({"good": b"x"}))
        file = good["files"]["good"]
        for raw in (b"", b"[]", b"\xff", b"[" * 100_000, b'{"format":1,"format":1,"files":{}}', b'{"format":1}'):
            self.refused(raw)
        for value in ({**good, "format": 2}, {**good, "files": []}, {**good, "files": {"a": "b"}}):
            self.refused(json.dumps(value).encode())
        for wrong in ({"size": -1}, {"size": 2**53}, {"size": "1"}, {"size": True}, {"size": 1.5}, {"sha256": "../x"}):
            self.refused(json.dumps({**good, "files": {"good": {**file, **wrong}}}).encode())
        self.refused(json.dumps({**good, "files": {"a": file, "b": {**file, "size": 2}}}).encode())

    def test_absurd_size(self) -> None:
        """A release that is larger than this disk is refused before the first request for a file."""
        good = json.loads(manifest({"good": b"x"}))
        good["files"]["good"]["size"] = 2**53 - 1
        self.fake.publish_raw(json.dumps(good).encode(), {})
        self.raised(ga.DiskFull, "disk_full")
        self.assertEqual(tree(self.folder), self.before)

    def test_too_many(self) -> None:
        """More files, or a longer manifest, than the protocol allows are refused."""
        self.patch(ga, "MAX_FILES", 2)
        self.refused(manifest({"a": b"", "b": b"", "c": b""}))
        self.patch(ga, "MAX_MANIFEST_BYTES", 100)
        self.refused(manifest({"a": b""}))

    def test_later_members(self) -> None:
        """Unknown members of a newer server are ignored."""
        found = manifest({"a": b"x"}, meta={"level": 3}, later=[1])
        self.fake.publish_raw(found, {"a": b"x"})
        self.assertEqual(self.assets.download().meta, {"level": 3})
        self.assertEqual(self.assets.switch().manifest.meta, {"level": 3})
