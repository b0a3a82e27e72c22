"""`clients/build` makes the same bytes twice, and refuses files that do not belong together."""

import json
import re
import shutil
import tarfile
from fnmatch import fnmatchcase
from pathlib import Path
from zipfile import ZipFile

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


class CheckoutCase(SynchronousTestCase):
    def setUp(self) -> None:
        """Copy the clients, what their pages link to, and the file that has the version."""
        self.checkout = unused_path(self)
        junk = shutil.ignore_patterns("__pycache__", "dist", "node_modules")
        for name in ("clients", "docs", "examples"):
            shutil.copytree(CLIENTS.parent / name, self.checkout / name, ignore=junk)
        (self.checkout / "gamed").mkdir()
        shutil.copy(CLIENTS.parent / "gamed" / "__init__.py", self.checkout / "gamed")
        shutil.copy(CLIENTS.parent / "CHANGELOG.md", self.checkout)

    def become(self, version: str) -> None:
        (self.checkout / "gamed" / "__init__.py").write_text(f'__version__ = "{version}"\n')

    def build(self, *arguments: str) -> tuple[int, str]:
        done = run([str(self.checkout / "clients" / "build"), "--out", "out", *arguments], self.checkout)
        return done.returncode, done.stdout + done.stderr


class ProjectFields(CheckoutCase):
    def state(self, **fields: object) -> None:
        """Change fields of project.json."""
        file = self.checkout / "clients" / "project.json"
        file.write_text(json.dumps({**json.loads(file.read_text("utf-8")), **fields}))

    def texts(self) -> dict[str, str]:
        """Return all texts of all packages, by package and path."""
        found = {}
        for kind in KINDS:
            code, said = self.build(kind)
            self.assertEqual(code, 0, said)
        for package in (self.checkout / "out").iterdir():
            if package.suffix in (".zip", ".whl", ".nupkg"):
                with ZipFile(package) as archive:
                    files = {name: archive.read(name) for name in archive.namelist()}
            elif package.suffix in (".gz", ".tgz"):
                with tarfile.open(package) as archive:
                    files = {name: archive.extractfile(name).read() for name in archive.getnames()}
            else:
                continue
            found |= {f"{package.name} {name}": data.decode("utf-8", "replace") for name, data in files.items()}
        return found

    def test_every_field(self) -> None:
        """Each package states author, repository and documentation; links of each page lead to the repository."""
        author, site, home = 'Anna "Ada" & Co', "https://docs.example.org/gamed", "https://code.example.org/a/gamed.git"
        files = "https://code.example.org/a/gamed/blob/v{version}/{path}"
        self.state(author=author, documentation=site, repository=home, files=files)
        texts = self.texts()
        manifests = [
            text
            for name, text in texts.items()
            if re.search(r"(METADATA|PKG-INFO|nuspec|package/package\.json|plugin\.cfg)$", name)
        ]
        self.assertEqual(len(manifests), 7)
        quoted = (author, json.dumps(author), author.replace("&", "&amp;"))
        for text in manifests:
            self.assertTrue(any(each in text for each in quoted), text)
            if "[plugin]" not in text:  # Godot's has no such fields
                self.assertIn(site, text)
                self.assertIn(home, text)
        pages = {name: text for name, text in texts.items() if re.search(r"(\.md|METADATA|PKG-INFO)$", name)}
        self.assertEqual(len(pages), 10)
        for name, text in pages.items():
            outside = "".join(text.split("```")[::2])
            links = re.findall(r"\]\(([^)#][^)]*)\)", outside)
            self.assertNotEqual(links, [], name)
            self.assertEqual([link for link in links if not link.startswith("https://")], [], name)
        [printed] = [text for name, text in texts.items() if name.startswith("gamed-client-") and "README" in name]
        self.assertIn(f"/blob/v{gamed.__version__}/docs/protocol.md#errors)", printed)

    def test_no_address(self) -> None:
        """Without addresses no package names any, and links are text."""
        for name, text in self.texts().items():
            if re.search(r"(\.md|METADATA|PKG-INFO)$", name):
                outside = "".join(text.split("```")[::2])
                self.assertEqual(re.findall(r"\]\((?!https://|#)[^)]*\)", outside), [], name)
            if re.search(r"(nuspec|package/package\.json)$", name):
                self.assertNotRegex(text, "repository|projectUrl|homepage|documentationUrl")

    def test_refused(self) -> None:
        """A field that is missing or no address, and a link to a file that is missing, end the build in one line."""
        for fields, words in (
            ({"author": ""}, "lacks the author"),
            ({"repository": "git@example.org:gamed"}, "repository is not an address"),
            ({"files": "https://example.org/{version}"}, "files lacks {path}"),
            ({"home": "https://example.org"}, "is not a JSON object with author"),
        ):
            file = self.checkout / "clients" / "project.json"
            before = file.read_bytes()
            self.state(**fields)
            code, said = self.build("npm")
            file.write_bytes(before)
            self.assertEqual((code, said.count("\n")), (1, 1), said)
            self.assertIn(words, said)
        (self.checkout / "docs" / "developers" / "assets.md").unlink()
        code, said = self.build("npm")
        self.assertEqual((code, said.count("\n")), (1, 1), said)
        self.assertIn("assets.md, which is not in the checkout", said)


class Versions(CheckoutCase):
    def test_stated(self) -> None:
        """Each client states the version of gamed: `clients/build --set-version` writes it."""
        self.assertEqual(build("--out", str(folder() / "stated"), "python").returncode, 0)
        client = (CLIENTS / "python" / "gamed_client" / "__init__.py").read_text("utf-8")
        self.assertIn(f'\n__version__ = "{gamed.__version__}"\n', client)

    def test_other_version(self) -> None:
        """A build names the clients that state another version than gamed; --set-version changes them."""
        self.become("2.1.0rc3")
        code, said = self.build("python")
        self.assertEqual(code, 1)
        self.assertRegex(said, r"gamed is 2\.1\.0rc3, but clients/python/gamed_client/__init__\.py states ")
        self.assertIn("--set-version", said)
        self.assertEqual(self.build("--set-version"), (0, "The clients state version 2.1.0rc3.\n"))
        self.assertEqual(self.build(*KINDS)[0], 0)
        names = sorted(path.name for path in (self.checkout / "out").iterdir())
        self.assertEqual([name for name in names if not re.search(r"2\.1\.0(rc3|-rc\.3)|SHA256SUMS", name)], [])

    def test_missing_files(self) -> None:
        """A file that a package needs and the checkout lacks is named."""
        for kind, file in (
            ("python", "python/gamed_client/aio.py"),
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
