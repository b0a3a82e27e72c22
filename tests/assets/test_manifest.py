"""A manifest has one form, and its hash is the id of the release (docs/protocol.md: Assets)."""

import json
from typing import Any

from hypothesis import given
from hypothesis.strategies import binary, dictionaries, integers, text
from twisted.trial.unittest import SynchronousTestCase

from gamed.assets.errors import ManifestMalformed
from gamed.assets.manifest import (
    MAX_FILE_BYTES,
    MAX_MANIFEST_BYTES,
    AssetFile,
    Manifest,
    is_channel,
    is_object,
    is_release,
    manifest_bytes,
    parse_manifest,
    parse_meta,
    release_id,
    validate_note,
)
from gamed.strict_json import JsonMalformed

HASH = "ab12" * 16
FILE = AssetFile(1048576, HASH, "application/octet-stream")
MANIFEST = Manifest(1_795_253_783_004, {"data/level1.pck": FILE}, "1.4.2")


class ManifestTests(SynchronousTestCase):
    def test_form(self) -> None:
        """The protocol's example has these bytes and this id."""
        written = manifest_bytes(MANIFEST)
        self.assertEqual(
            written,
            b'{"format":1,"published":"2026-11-21T09:36:23.004Z","note":"1.4.2","meta":{},"files":{"data/level1.pck":'
            b'{"size":1048576,"sha256":"' + HASH.encode() + b'","type":"application/octet-stream"}}}',
        )
        self.assertEqual(release_id(written), "r0f8590fa2c073869")
        self.assertEqual(parse_manifest(written), MANIFEST)
        self.assertEqual(MANIFEST.size, 1048576)

    def test_order(self) -> None:
        """The order in which files were found does not change the manifest."""
        one, two = ({name: FILE for name in names} for names in ("ab", "ba"))
        self.assertEqual(manifest_bytes(Manifest(0, one)), manifest_bytes(Manifest(0, two)))

    @given(
        integers(0, 2**40),
        dictionaries(
            text("abcdé/日", min_size=1, max_size=6).filter(lambda name: "/" not in name), integers(0, 2**53 - 1)
        ),
        text(max_size=20).filter(lambda note: note.isprintable()),
    )
    def test_round_trip(self, published_ms: int, sizes: dict[str, int], note: str) -> None:
        """A written manifest is read again, and written with the same bytes."""
        files = {path: AssetFile(size, HASH, "text/plain; charset=utf-8") for path, size in sorted(sizes.items())}
        written = manifest_bytes(Manifest(published_ms, files, note, {"build": 1}))
        read = parse_manifest(written)
        self.assertEqual(manifest_bytes(read), written)
        self.assertEqual((read.published_ms, dict(read.files), read.note), (published_ms, files, note))

    def test_later_members(self) -> None:
        """Members that a later version adds are ignored."""
        members = self.members()
        members["more"] = 1
        members["files"]["data/level1.pck"]["more"] = 2
        self.assertEqual(parse_manifest(json.dumps(members).encode()), MANIFEST)

    def test_damaged(self) -> None:
        """Each missing or wrong member raises ManifestMalformed."""
        changes: list[tuple[str, Any]] = [
            ("format", 2),
            ("format", True),
            ("published", "yesterday"),
            ("published", 5),
            ("note", None),
            ("meta", []),
            ("files", []),
            ("files", {"../x": {"size": 1, "sha256": HASH, "type": "a/b"}}),
            (
                "files",
                {"a": {"size": 1, "sha256": HASH, "type": "a/b"}, "A": {"size": 1, "sha256": HASH, "type": "a/b"}},
            ),
            ("files", {"a": {"size": -1, "sha256": HASH, "type": "a/b"}}),
            ("files", {"a": {"size": True, "sha256": HASH, "type": "a/b"}}),
            ("files", {"a": {"size": 1.0, "sha256": HASH, "type": "a/b"}}),
            ("files", {"a": {"size": MAX_FILE_BYTES + 1, "sha256": HASH, "type": "a/b"}}),
            ("files", {"a": {"size": 1, "sha256": HASH.upper(), "type": "a/b"}}),
            ("files", {"a": {"size": 1, "sha256": HASH, "type": "a/b\r\nX: y"}}),
            ("files", {"a": {"size": 1, "sha256": HASH}}),
            ("files", {"a": 1}),
        ]
        for name, value in changes:
            members = {**self.members(), name: value}
            self.assertRaises(ManifestMalformed, parse_manifest, json.dumps(members).encode())
        for name in self.members():
            members = self.members()
            del members[name]
            self.assertRaises(ManifestMalformed, parse_manifest, json.dumps(members).encode())
        self.assertRaises(ManifestMalformed, parse_manifest, b" " * (MAX_MANIFEST_BYTES + 1))

    @given(binary())
    def test_any_bytes(self, damaged: bytes) -> None:
        """Any bytes either parse or raise ManifestMalformed."""
        self.assertRaises(ManifestMalformed, parse_manifest, damaged)

    def members(self) -> dict[str, Any]:
        return dict(json.loads(manifest_bytes(MANIFEST)))


class NameTests(SynchronousTestCase):
    def test_channels(self) -> None:
        """A channel has neither the name `objects` nor the form of a release id."""
        for name in ("stable", "b", "beta-2", "r0123456789abcde", "x" * 32):
            self.assertTrue(is_channel(name), name)
        for name in ("", "objects", "r0123456789abcdef", "Stable", "2", "-a", "a_b", "x" * 33, "a\n", "ä", "../a"):
            self.assertFalse(is_channel(name), name)

    def test_releases_and_objects(self) -> None:
        """An object name is lower-case hex of the right length."""
        self.assertTrue(is_release("r0123456789abcdef"))
        self.assertTrue(is_object(HASH))
        for name in (
            "r0123456789abcde",
            "R0123456789abcdef",
            "r0123456789abcdeg",
            "r0123456789abcdef\n",
            HASH[:-1],
            "",
        ):
            self.assertFalse(is_release(name) or is_object(name), name)


class OwnerTests(SynchronousTestCase):
    def test_notes(self) -> None:
        """A note is one printable line."""
        self.assertIsNone(validate_note("1.4.2 – fixes"))
        self.assertIn("one line", str(validate_note("a\nb")))
        self.assertIn("200", str(validate_note("x" * 201)))

    def test_meta(self) -> None:
        """Meta is a JSON object that is not too deep for a manifest."""
        meta = parse_meta(b'{"a": {"b": {"c": {"d": {"e": {"f": {}}}}}}}')
        self.assertEqual(parse_manifest(manifest_bytes(Manifest(0, {}, "", meta))).meta, meta)
        for text_ in (
            b"[]",
            b"{",
            b'{"a": 1, "a": 2}',
            b'{"a":' * 8 + b"1" + b"}" * 8,
            b'{"a": "' + b"x" * 70_000 + b'"}',
        ):
            self.assertRaises(JsonMalformed, parse_meta, text_)
