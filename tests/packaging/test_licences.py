"""The page of licences is what the metadata of the pinned libraries state; gamed's licence is the same everywhere."""

import json
import re
import tomllib
from pathlib import Path
from shutil import copy
from subprocess import run
from zipfile import ZipFile

from twisted.trial.unittest import SynchronousTestCase

from tests.packaging.environments import ROOT, wheel
from tests.packaging.licences import BEGIN, PAGE, table

NONE = {None}
TEXT = "A licence of a test: all that is asked is a smile.\n"
HEADER = re.compile(r"(?m)^(?:#|//) SPDX-License-Identifier: (.+)$")
SUFFIXES = {".py", ".gd", ".cs", ".mjs", ".mts"}


def stated(root: Path) -> dict[str, set[str | None]]:
    """Return which licences each place of a checkout states; None stands for none."""

    def found(path: str, pattern: str) -> set[str | None]:
        return {*re.findall(pattern, (root / path).read_text("utf-8"))} or {None}

    packages = (root / "clients/js/package.json", root / "clients/csharp/unity/package.json")
    project = tomllib.loads((root / "clients/python/pyproject.toml").read_text("utf-8"))["project"]
    sources = [
        file
        for folder in ("gamed", "twisted", "clients")
        for file in (root / folder).rglob("*")
        if file.suffix in SUFFIXES and not {"tests", "node_modules", "dist"} & {*file.relative_to(root).parts}
    ]
    headers = {line[1] if (line := HEADER.search(file.read_text("utf-8"))) else None for file in sources if _own(file)}
    return {
        "README": found("README.md", r"gamed's licence is \[(.+?)\]\(LICENSE\)\."),
        "questions": found("docs/faq.md", r"gamed's licence is \[(.+?)\]\(\.\./LICENSE\)\."),
        "page": found("docs/internals/licences.md", r"gamed's licence is (.+?), whose text"),
        "clients": found("clients/PACKAGES.md", r"gamed's licence is (.+?); each package"),
        "setup.py": found("setup.py", r'license_expression="(.+)"'),
        "manifests": {json.loads(path.read_text("utf-8")).get("license") for path in packages},
        "pyproject": {project.get("license")},
        "nuspec": found("clients/csharp/Gamed.Client.nuspec", r'<license type="expression">(.+)</license>'),
        "debian": found("debian/copyright", r"\nLicense: (?!none-given-yet)(.+)"),
        "sources": headers,
    }


def _own(file: Path) -> bool:
    # generated files have none: each is a part of a package that has the text
    name = file.as_posix()
    return not re.search(r"gamed_texts\.(?:mjs|gd)$|gamed_client/texts\.py$|GamedTexts\.|\.d\.mts$", name)


def texts(root: Path) -> dict[str, str]:
    files = [path for path in root.rglob("*") if re.fullmatch(r"(?i)(?:licen[cs]e|copying)(?:\.\w+)?", path.name)]
    ours = {"", "clients"}
    return {
        str(path.relative_to(root)): path.read_text("utf-8")
        for path in files
        if path.is_file() and path.relative_to(root).parts[0] in {*ours, path.name} and "node_modules" not in path.parts
    }


class LicencesTests(SynchronousTestCase):
    def checkout(self) -> Path:
        """Copy the files that git knows."""
        root = Path(self.mktemp()).resolve()
        listed = run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
        for name in listed:
            if (ROOT / name).is_file():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                copy(ROOT / name, root / name)
        return root

    def test_table(self) -> None:
        """The page has each pinned library with its version and its SPDX expression."""
        _, begin, rest = PAGE.read_text("utf-8").partition(BEGIN)
        self.assertEqual(begin + rest, table())

    def test_one_answer(self) -> None:
        """All places state the same licence, and have its text; before one is chosen, no place states any."""
        answers = {licence for found in stated(ROOT).values() for licence in found}
        self.assertEqual(len(answers), 1, stated(ROOT))
        self.assertEqual(bool(texts(ROOT)), answers != NONE)

    def test_choices(self) -> None:
        """`.ci/licence` writes a choice to every place, and another one over it; the packages have it."""
        root = self.checkout()
        text = root.with_suffix(".text")
        text.write_text(TEXT, "utf-8")
        for words, identifier in ((["MIT", "--holder", "Anna"], "MIT"), (["ISC", "--text", str(text)], "ISC")):
            done = run([str(root / ".ci/licence"), *words], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual({frozenset(found) for found in stated(root).values()}, {frozenset({identifier})})
            found = texts(root)
            self.assertEqual(len(found), 7)
            [whole] = {*found.values()}
            self.assertIn("Copyright (c)" if identifier == "MIT" else TEXT, whole)
            for file in (root / "gamed").rglob("*.py"):
                self.assertEqual(len(HEADER.findall(file.read_text("utf-8"))), 1, file)
        out = root.with_suffix(".packages")
        done = run([str(root / "clients/build"), "--out", str(out)], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        out.joinpath("wheel").mkdir()
        for package, name in (
            (wheel(root, out / "wheel"), "licenses/LICENSE"),
            (next(out.glob("*.whl")), "licenses/LICENSE"),
            (next(out.glob("gamed-godot4-*")), "addons/gamed/LICENSE"),
            (next(out.glob("*.nupkg")), "LICENSE"),
        ):
            with ZipFile(package) as archive:
                [file] = [each for each in archive.namelist() if each.endswith(name)]
                self.assertEqual(archive.read(file).decode(), TEXT)
                for metadata in (each for each in archive.namelist() if each.endswith("/METADATA")):
                    self.assertIn("\nLicense-Expression: ISC\n", archive.read(metadata).decode())

    def test_unknown_text(self) -> None:
        """A licence whose text is not known changes nothing."""
        root = self.checkout()
        done = run([str(root / ".ci/licence"), "EUPL-1.2"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("Pass it with --text FILE.", done.stderr)
        self.assertEqual({licence for found in stated(root).values() for licence in found}, NONE)
