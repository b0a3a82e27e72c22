"""The programs of PostgreSQL are those of a version that fits the server, or the error names the package."""

import os
import shutil
from pathlib import Path
from tempfile import mkdtemp

from twisted.trial.unittest import SynchronousTestCase

from gamed.database.backup_format import BackupError, DumpContents
from gamed.database.postgresql.dump import ProgramMissing, find_program, load, verify
from tests.database.postgresql.engines import address_of
from tests.support.postgresql import cluster


class ProgramTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path(mkdtemp(prefix="gamed-test-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def make(self, folder: str, output: str) -> Path:
        """Make a program that prints this text."""
        path = self.folder / folder / "pg_dump"
        path.parent.mkdir()
        path.write_text(f"#!/bin/sh\necho '{output}'\n")
        path.chmod(0o700)
        return path

    def find(self, major: int) -> Path:
        return find_program("pg_dump", major, sorted(self.folder.iterdir()))

    def test_version(self) -> None:
        """The program has the server's version, else the next newer one, since pg_dump refuses newer servers."""
        programs = {
            major: self.make(str(major), f"pg_dump (PostgreSQL) {major}.18 (Debian {major}.18-0+deb12u1)")
            for major in (17, 14, 15)
        }
        for server, expected in ((14, 14), (15, 15), (16, 17), (17, 17)):
            self.assertEqual(self.find(server), programs[expected])

    def test_too_old(self) -> None:
        """Programs that are all older than the server are an error with the name of the package."""
        self.make("15", "pg_dump (PostgreSQL) 15.2")
        self.make("other", "something else")
        error = self.assertRaises(ProgramMissing, self.find, 16)
        self.assertEqual(
            str(error),
            "pg_dump 15 is older than PostgreSQL 16. Install a newer one: apt-get install postgresql-client-16",
        )

    def test_missing(self) -> None:
        """A program that is not installed is an error with the name of the package."""
        error = self.assertRaises(ProgramMissing, self.find, 15)
        self.assertEqual(str(error), "pg_dump is not installed. Install it: apt-get install postgresql-client-15")

    def test_broken(self) -> None:
        """A program that does not run does not count."""
        self.make("15", "").write_bytes(b"\0")
        self.assertRaises(ProgramMissing, self.find, 15)


class LoadTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path(mkdtemp(prefix="gamed-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.place = cluster().database()
        self.addCleanup(cluster().drop, self.place.database)

    def tables(self) -> set[str]:
        query = "SELECT schemaname || '.' || tablename FROM pg_tables WHERE schemaname !~ '^(pg_|information)'"
        return {name for (name,) in cluster().execute(query, self.place.database)}

    def test_not_a_dump(self) -> None:
        """A file that is not a dump changes nothing, and no statement that comes before it is committed."""
        path = self.folder / "dump"
        for content in (b"", b"PGDMP", os.urandom(5000)):
            path.write_bytes(content)
            self.assertRaises(BackupError, verify, path, DumpContents({}, 0, 0, 15, None))
            self.assertRaises(BackupError, load, address_of(self.place), path, 15, ["CREATE TABLE public.early ()"])
            self.assertEqual(self.tables(), set())
