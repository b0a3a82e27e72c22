"""Names and manifests of backups."""

import json
from typing import Any

from msgspec.structs import replace
from twisted.trial.unittest import SynchronousTestCase

from gamed.database.backup_format import (
    BackupError,
    BackupFile,
    BackupKey,
    BackupManifest,
    BackupStore,
    expired_backups,
    folder_name,
    is_part,
    parse_manifest,
    part_name,
)

MANIFEST = BackupManifest(
    made_at="2026-11-21T19:54:00.000Z",
    gamed="1.0.0",
    key=BackupKey("b1083823fef7", "file"),
    schemas={"auth": 1, "state": 1},
    players=2,
    saves=3,
    files={"auth.db": BackupFile(8192, "0" * 64), "state.db": BackupFile(8192, "f" * 64)},
)
DUMPED = replace(MANIFEST, files={"store.dump": BackupFile(8192, "0" * 64)}, store=BackupStore("0123abcd", 15))
AT_MS = 1_795_290_840_999


class NameTests(SynchronousTestCase):
    def test_folder(self) -> None:
        """The second it was made, in UTC; one that exists is not overwritten."""
        self.assertEqual(folder_name(AT_MS, []), "gamed-20261121T195400Z")
        taken = ["gamed-20261121T195400Z", "gamed-20261121T195401Z"]
        self.assertEqual(folder_name(AT_MS, taken), "gamed-20261121T195402Z")

    def test_part(self) -> None:
        """Give an incomplete backup a name that no complete one has."""
        name = folder_name(AT_MS, [])
        self.assertTrue(is_part(part_name(name)))
        self.assertFalse(any(is_part(each) for each in (name, ".gamed", ".gamed-x.part", f"{name}.part")))
        self.assertEqual(expired_backups([part_name(name), name], "new", 1), [name])

    def test_outlived(self) -> None:
        """The newest stay, the one just made whatever the clock says; names of others are not looked at."""
        names = [f"gamed-2026112{day}T040000Z" for day in (3, 1, 2)]
        foreign = ["gamed", "gamed-yesterday", "gamed-20261120T040000Z.old", "lost+found"]
        self.assertEqual(expired_backups([*names, *foreign], names[0], 1), sorted(names)[:2])
        self.assertEqual(expired_backups([*names, *foreign], names[1], 2), [names[2]])
        self.assertEqual(expired_backups([*names, *foreign], names[0], 3), [])
        self.assertEqual(expired_backups(names, names[0], 10), [])

    def test_clock_ahead(self) -> None:
        """Backups of a clock that was ahead make room first: they were made before the one that was just made."""
        present = set(ahead := [f"gamed-203601{night:02}T040000Z" for night in range(1, 7)])
        nights = [f"gamed-202701{night:02}T040000Z" for night in range(1, 10)]
        gone = []
        for made in nights:
            present.add(made)
            expired = expired_backups(present, made, 7)
            present.difference_update(expired)
            gone += expired
        self.assertEqual(gone, [*ahead, *nights[:2]])
        self.assertEqual(present, {*nights[2:]})


class ManifestTests(SynchronousTestCase):
    def test_there_and_back(self) -> None:
        """Read a manifest as it was written, with a key and without."""
        for manifest in (
            MANIFEST,
            replace(MANIFEST, key=BackupKey(None, None), schemas={}, players=0, saves=0),
            DUMPED,
        ):
            self.assertEqual(parse_manifest(json.dumps(manifest.members()).encode()), manifest)

    def test_older_version(self) -> None:
        """A manifest of a version that noted no store is one of SQLite's files."""
        members = MANIFEST.members()
        del members["store"]
        self.assertEqual(parse_manifest(json.dumps(members).encode()), MANIFEST)

    def test_refused(self) -> None:
        """A manifest that is damaged, of another form, or names files that are not a backup's."""
        good = MANIFEST.members()
        file = {"bytes": 1, "sha256": "0" * 64}
        for change in (
            {"format": 2},
            {"made_at": "yesterday"},
            {"gamed": "1.0\n"},
            {"players": -1},
            {"saves": True},
            {"key": None},
            {"key": {"fingerprint": 1, "source": None}},
            {"schemas": {"auth": "1"}},
            {"files": {}},
            {"files": {"auth.db": file}},
            {"files": {"auth.db": file, "state.db": {"bytes": 1, "sha256": "0"}}},
            {"files": {"auth.db": file, "state.db": file, "../auth.key": file}},
        ):
            members: dict[str, Any] = {**good, **change}
            with self.assertRaises(BackupError, msg=str(change)):
                parse_manifest(json.dumps(members).encode())
        dumped = DUMPED.members()
        for change in (
            {"store": {"id": "0123abcd", "postgresql": None}},
            {"store": {"id": "0123abcd", "postgresql": "15"}},
            {"store": {"id": 7, "postgresql": 15}},
            {"store": []},
            {"schemas": {"auth": 1}},
            {"files": good["files"]},
        ):
            with self.assertRaises(BackupError, msg=str(change)):
                parse_manifest(json.dumps({**dumped, **change}).encode())
        for text in (b"", b"[]", b"{", json.dumps({"format": 1}).encode(), b'{"format": 1, "format": 1}'):
            with self.assertRaises(BackupError):
                parse_manifest(text)
