"""The text of the client for Godot 4 keeps the rules of the linter, and has the names of the one for Godot 3."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import copy
from xml.etree import ElementTree

from twisted.trial.unittest import SynchronousTestCase

from clients.godot3.tests import scripts
from clients.godot3.tests.readme_game import CLASSES
from clients.godot4.tests.engine import FOLDER, check_libraries, godot4
from tests.support.folders import unused_path

CLIENTS = Path(__file__).parents[2]
FILES = (
    "gamed.gd",
    "gamed_dialog.gd",
    "gamed_sync.gd",
    "gamed_autoload.gd",
    "gamed_assets.gd",
    "gamed_texts.gd",
    "driver.gd",
    "example.gd",
)
INNER_CLASSES = ("Cancellation", "Credential", "GamedError", "Origin", "Result", "SaveInfo", "SignIn")
HELP = (
    *CLASSES.values(),
    *(f"GamedClient.{name}" for name in INNER_CLASSES),
    "GamedAssets.Manifest",
    "GamedSync.SyncConflict",
    "gamed_autoload.gd",
)
"""The pages of the editor's help about what games use."""
DECLARED = re.compile(
    r"^(?P<indent>\t*)(?:@\w+\([^)]*\) )?(?P<kind>class|func|static func|signal|const|var) (?P<rest>.*)$"
)


def gdtoolkit(tool: str, *arguments: str) -> str:
    """Return the complaints of gdlint, which reads gdlintrc from the current folder."""
    command = [sys.executable, "-m", f"gdtoolkit.{tool}", *arguments]
    ran = subprocess.run(command, cwd=CLIENTS, capture_output=True, text=True, timeout=100, check=False)
    return "" if ran.returncode == 0 else ran.stdout + ran.stderr


def declared(version: str, name: str) -> Iterator[str]:
    """Public classes, functions with their parameters, signals, constants and variables, in order and without types."""
    within = ""
    text = re.sub(r"\(\n\t+(.*)\n\t*\)", r"(\1)", (scripts.folder(version) / name).read_text("utf-8"))
    for line in re.sub(r"(?m)(?<=\w): [\w.]+| -> [\w.]+(?=:$)| :(?==)|(?<=\()_", "", text).splitlines():
        found = DECLARED.match(line)
        if found is None:
            continue
        kind, rest, depth = found["kind"], found["rest"], len(found["indent"])
        word = re.split(r"[^\w]", rest)[0]
        if depth == 0:
            within = f"{word}." if kind == "class" else ""
        if word.startswith("_") or depth > (1 if within else 0):
            continue
        if "func" in kind:
            yield within + rest[: rest.rindex(")") + 1]
        else:
            yield f"{kind} {within if depth else ''}{rest.split('#')[0].split('=')[0].strip()}"


class Godot4(SynchronousTestCase):
    def test_parses(self) -> None:
        """Each file is GDScript of Godot 4."""
        self.assertEqual(gdtoolkit("parser", *(f"godot4/{name}" for name in (*FILES, "plugin.gd"))), "")

    def test_lints(self) -> None:
        """Both clients keep to the names and lengths of clients/gdlintrc."""
        for version in ("godot3", "godot4"):
            self.assertEqual(gdtoolkit("linter", *(str(scripts.folder(version) / name) for name in FILES)), "")
        self.assertEqual(gdtoolkit("linter", "godot3/platform.gd"), "")

    def test_same_names(self) -> None:
        """Both clients have the same public functions, signals and parameters."""
        for name in FILES:
            three = set(declared("godot3", name))
            four = set(declared("godot4", name))
            self.assertEqual(four ^ three, set(), name)
            self.assertGreater(len(three), 5)

    def test_nothing_of_godot_3(self) -> None:
        """No call is left that Godot 4 does not have any more."""
        gone = r"yield\(|Pool\w+Array|\bFile\.new|Directory\.new|JSON\.print|\bJSON\.parse\(|OS\.get_ticks|TYPE_REAL"
        gone += r"|extends Reference|TCP_Server|\.subarray\(|\.to_utf8\(|\.to_ascii\(|\.ord_at\(|percent_|HTML5"
        for name in FILES:
            text = (CLIENTS / "godot4" / name).read_text("utf-8")
            self.assertEqual(re.findall(gone, text), [], name)


class EditorHelp(SynchronousTestCase):
    def test_every_call(self) -> None:
        """The editor's help has a text for each class, function, signal and variable that a game uses."""
        project, pages = unused_path(self), unused_path(self)
        for folder in (project, pages):
            folder.mkdir()
        for name in ("project.godot", *FILES):
            copy(CLIENTS / "godot4" / name, project)
        command = [godot4(), "--headless", "--path", str(project), "--doctool", str(pages), "--gdscript-docs", "res://"]
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=100, check=True)
        found, missing = 0, []
        for page in HELP:
            root = ElementTree.parse(pages / f"{page}.xml").getroot()
            if not (root.findtext("brief_description") or "").strip():
                missing.append(page)
            for kind in ("methods/method", "signals/signal", "members/member"):
                for each in root.findall(kind):
                    name = each.get("name") or ""
                    if name.startswith("_"):
                        continue
                    found += 1
                    if not (each.get("deprecated") or each.findtext("description") or each.text or "").strip():
                        missing.append(f"{page}: {name}")
        self.assertEqual(missing, [])
        self.assertGreater(found, 100)


class Engine(SynchronousTestCase):
    def test_own_libraries(self) -> None:
        """The installation ends if the engine would use a library of the system, or one that is missing."""
        own = f"\tlinux-vdso.so.1 (0x1)\n\tlibc.so.6 => {FOLDER}/usr/lib/libc.so.6 (0x2)\n"
        check_libraries(own)
        for other in ("libm.so.6 => /lib/libm.so.6 (0x3)", "libm.so.6 => not found"):
            self.assertRaisesRegex(FileNotFoundError, "needs libm.so.6", check_libraries, f"{own}\t{other}\n")
