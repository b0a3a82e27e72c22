"""`clients/build` makes the same bytes twice, and refuses files that do not belong together."""

import re
import shutil
from fnmatch import fnmatchcase
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

import gamed
from clients.conformance.tests.helpers import CLIENTS
from clients.packaging.tests.building import build, call, folder, made, run
from tests.support.folders import unused_path

KINDS = ("python", "npm", "nuget", "unity", "godot3", "godot4")


class Command(SynchronousTestCase):
    def test_help(self) -> None:
        """The help names each kind of package."""
        text = build("--help").stdout
        self.assertEqual([kind for kind in KINDS if kind not in text], [])

    def test_unknown_kind(self) -> None:
        """An unknown kind is an error of usage, which names the known ones."""
        done = build("rpm")
        self.assertEqual(done.returncode, 2)
        self.assertIn("'rpm' is not a kind of package. Choose from python, npm", done.stderr)

    def test_no_folder(self) -> None:
        """A folder that cannot be made is named."""
        file = folder() / "file"
        file.touch()
        done = build("--out", str(file / "below"), "python")
        self.assertEqual((done.returncode, done.stderr), (1, f"clients/build: {file / 'below'}: Not a directory\n"))

    def test_twice(self) -> None:
        """Two builds give the same bytes, and SHA256SUMS matches them."""
        again = folder() / "again"
        self.assertEqual(build("--out", str(again), *KINDS).returncode, 0)
        first = {path.name: path.read_bytes() for kind in KINDS for path in made(kind)}
        second = {path.name: path.read_bytes() for path in again.iterdir()}
        sums = second.pop("SHA256SUMS").decode()
        self.assertEqual(first, second)
        self.assertGreaterEqual(len(first), len(KINDS) + 1)
        self.assertEqual(call(["sha256sum", "--check", "SHA256SUMS"], again).count(": OK\n"), len(sums.splitlines()))
        self.assertEqual({line.split()[1] for line in sums.splitlines()}, set(first))

    def test_page(self) -> None:
        """The page has a row for each package, and for no other."""
        rows = re.findall(r"(?m)^\| [\w ]+: `([^`]+)` \|", (CLIENTS / "PACKAGES.md").read_text("utf-8"))
        names = [path.name for kind in KINDS for path in made(kind)]
        self.assertEqual(
            [[name for name in names if fnmatchcase(name, row)] for row in rows], [[name] for name in names]
        )

    def test_nothing_is_left(self) -> None:
        """A build writes nothing into the checkout."""
        made("python")
        self.assertEqual([*(CLIENTS / "packaging").rglob("*.egg-info"), *(CLIENTS / "python").glob("PKG-INFO")], [])


class Versions(SynchronousTestCase):
    def setUp(self) -> None:
        """A copy of the clients and of the file that has the version."""
        self.checkout = unused_path(self)
        junk = shutil.ignore_patterns("tests", "__pycache__", "dist")
        shutil.copytree(CLIENTS, self.checkout / "clients", ignore=junk)
        (self.checkout / "gamed").mkdir()
        shutil.copy(CLIENTS.parent / "gamed" / "__init__.py", self.checkout / "gamed")

    def become(self, version: str) -> None:
        (self.checkout / "gamed" / "__init__.py").write_text(f'__version__ = "{version}"\n')

    def build(self, *arguments: str) -> tuple[int, str]:
        done = run([str(self.checkout / "clients" / "build"), "--out", "out", *arguments], self.checkout)
        return done.returncode, done.stdout + done.stderr

    def test_stated(self) -> None:
        """Each client states the version of gamed: `clients/build --set-version` writes it."""
        self.assertEqual(build("--out", str(folder() / "stated"), "python").returncode, 0)
        client = (CLIENTS / "python" / "gamed_client.py").read_text("utf-8")
        self.assertIn(f'\n__version__ = "{gamed.__version__}"\n', client)

    def test_other_version(self) -> None:
        """A build names the clients that state another version than gamed; --set-version changes them."""
        self.become("2.1.0rc3")
        code, said = self.build("python")
        self.assertEqual(code, 1)
        self.assertRegex(said, r"gamed is 2\.1\.0rc3, but clients/python/gamed_client\.py states .*--set-version")
        self.assertEqual(self.build("--set-version"), (0, "The clients state version 2.1.0rc3.\n"))
        self.assertEqual(self.build(*KINDS)[0], 0)
        names = sorted(path.name for path in (self.checkout / "out").iterdir())
        self.assertEqual([name for name in names if not re.search(r"2\.1\.0(rc3|-rc\.3)|SHA256SUMS", name)], [])

    def test_missing_files(self) -> None:
        """A file that a package needs and the checkout lacks is named."""
        for kind, file in (
            ("python", "python/gamed_aio.py"),
            ("npm", "js/gamed_sync.d.mts"),
            ("nuget", "csharp/GamedSync.cs"),
            ("unity", "csharp/unity/GamedBehaviour.cs"),
            ("godot3", "godot3/plugin.gd"),
            ("godot4", "godot4/gamed_dialog.gd"),
        ):
            path = self.checkout / "clients" / file
            data = path.read_bytes()
            path.unlink()
            code, said = self.build(kind)
            path.write_bytes(data)
            self.assertEqual((code, said.count("\n")), (1, 1), said)
            self.assertIn(Path(file).name, said)
            self.assertEqual([path.name for path in (self.checkout / "out").glob("*.zip")], [])

    def test_version_of_no_package(self) -> None:
        """A version that npm and NuGet cannot have is refused."""
        self.become("2.1+local")
        code, said = self.build("npm")
        self.assertEqual((code, said.count("\n")), (1, 1))
        self.assertIn("'2.1+local' is not a version that every package can have", said)
