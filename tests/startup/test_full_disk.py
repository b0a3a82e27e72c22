"""A start on a full disk reports it, exits with 1 and removes the files that it created."""

import subprocess

from tests.cli.process import CommandTestCase
from tests.support.stores import sqlite_files

SIZE = 1024 * 1024
FREE_KIB = (0, 4, 16, 40, 100, 220)
"""Bytes of free space that are too few for the configuration, auth.db's first page, its schema and state.db."""


@sqlite_files("files on a full disk; with PostgreSQL the disk is its server's")
class FullDisk(CommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.disk = self.folder / "disk"
        self.disk.mkdir()
        self.config, self.data = self.disk / "authentication.json", self.disk / "data"
        self.addCleanup(subprocess.run, ["umount", "--lazy", str(self.disk)], check=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=700", "tmpfs", str(self.disk)], check=True)

    def test_first_start(self) -> None:
        """Whenever the disk becomes full, the start reports it and leaves nothing; a later start works."""
        for kib in FREE_KIB:
            self.leave_free(kib)
            self.refused()
            self.assertEqual(self.files() - {"ballast"}, set(), kib)
        (self.disk / "ballast").unlink()
        process, _ = self.serve()
        self.assertEqual(self.stop(process), 0)

    def test_one_store_is_there(self) -> None:
        """A server without its state.db keeps auth.db, key and configuration; SQLite may leave an empty log beside
        auth.db."""
        process, _ = self.serve()
        self.stop(process)
        (self.data / "state.db").unlink()
        kept = {name: (self.disk / name).read_bytes() for name in self.files()}
        self.leave_free(8)
        self.refused()
        kept = {name: content for name, content in kept.items() if not name.endswith(".lock")}
        self.assertEqual({name: (self.disk / name).read_bytes() for name in kept}, kept)
        left = {name for name in self.files() - {*kept, "ballast"} if not name.endswith(".lock")}
        self.assertLessEqual(left, {"data/auth.db-wal", "data/auth.db-shm"})
        self.assertEqual(sum((self.disk / name).stat().st_size for name in left if name.endswith("-wal")), 0)

    def refused(self) -> None:
        code, _, err = self.gamed("serve", "--listen=tcp:0:interface=127.0.0.1")
        self.assertEqual((code, err.count("\n")), (1, 1), err)
        self.assertRegex(err, r"gamed: /\S+ cannot be .*[Mm]ake room")

    def leave_free(self, kib: int) -> None:
        """Fill the disk except for this many bytes."""
        (self.disk / "ballast").unlink(missing_ok=True)
        with (self.disk / "ballast").open("wb", buffering=0) as ballast:
            try:
                while ballast.write(bytes(4096)):
                    pass
            except OSError:
                ballast.truncate(max(0, ballast.tell() - kib * 1024))

    def files(self) -> set[str]:
        return {str(path.relative_to(self.disk)) for path in self.disk.rglob("*") if path.is_file()}
