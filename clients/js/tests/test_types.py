"""The types of the JavaScript client: the strict compiler accepts them, and they match the modules."""

import json
import os
import subprocess
from pathlib import Path
from shutil import copy

from twisted.trial.unittest import SynchronousTestCase

from clients.js.tests.declarations import made
from gamed import __version__
from tests.cli.process import ROOT
from tests.e2e.other_origin import installed
from tests.support.folders import unused_path
from tests.support.nodejs import NODE, with_node

FILES = Path(__file__).parents[1]
SPECIMENS = Path(__file__).parent / "specimens"
PATIENCE_SECONDS = 240
TARGET = ("--module", "nodenext", "--target", "es2024", "--lib", "es2024,dom,dom.iterable")
STRICTER = ("--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess", "--noPropertyAccessFromIndexSignature")
INTERNAL = {"Answer", "Wire"}
"""Classes that the files of the client share."""
BETWEEN_FILES = frozenset(
    [
        "errorOf",
        "joined",
        "retried",
        "fileHash",
        "promise",
        "delay",
        "ignoring",
        "pauseAfter",
        "nodeModule",
        "stateFolder",
        "openDatabase",
        "transact",
        "unlessMissing",
        "writeWhole",
        "syncFolder",
        "inTurn",
        "tryLock",
        "lockOf",
        "pathOf",
        "sha256Hex",
        "typeField",
        "bytesOf",
        "diskError",
        "guarded",
        "innerOf",
        "onDisk",
        "orAborted",
        "systemLocale",
        "localeTag",
    ]
)
"""Functions that the files of the client share; games do not call them."""
HIDDEN = {"kind", "passing"}
"""Members of errors that some classes override; their base class declares them."""


class TypesTests(SynchronousTestCase):
    def compiled(self, *arguments: str) -> None:
        """Run the compiler, which must report nothing."""
        compiler = installed() / "node_modules" / "typescript" / "bin" / "tsc"
        command = [NODE, str(compiler), "--noEmit", "--strict", *TARGET, *arguments]
        environ = with_node(os.environ)
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False, env=environ
        )
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_comments(self) -> None:
        """The types in the comments of the modules, the driver and the two games are right, too."""
        folder = unused_path(self)
        names = []
        for place, source in (
            (folder, FILES),
            (folder / "garden", ROOT / "examples" / "garden"),
            (folder / "board", ROOT / "examples" / "board"),
        ):
            place.mkdir()
            names += [copy(file, place) for file in source.glob("*.mjs")]
        (folder / "node.d.ts").write_text('declare module "node:*"\ndeclare var process: any\n')
        self.compiled("--allowJs", "--checkJs", *names, str(folder / "node.d.ts"))

    def test_strict(self) -> None:
        """`tsc --strict` accepts a game that uses every part, and finds each mistake that is marked in it."""
        self.compiled(*STRICTER, str(SPECIMENS / "game.ts"))

    def test_current(self) -> None:
        """The declarations are those of the comments; run `python -m clients.js.tests.declarations`."""
        for name, text in made().items():
            self.assertEqual((FILES / name).read_text("utf-8"), text, name)

    def test_deprecated(self) -> None:
        """An editor strikes out the older names of a Sync, and names the new ones."""
        declared = (FILES / "gamed_sync.d.mts").read_text("utf-8")
        for older, new in (("pump(", "send"), ("dropped(", "lost"), ("get trouble(", "problem")):
            comment = declared.partition(f"    {older}")[0].rpartition("/**")[2]
            self.assertIn(f"@deprecated The older name of `{new}`; it works until 1.0.", comment)

    def test_complete(self) -> None:
        """Every function, class and member is declared, nothing else is, and an editor can say what each does."""
        modules = sorted(file.name for file in FILES.glob("gamed*.mjs"))
        command = [NODE, str(SPECIMENS / "members.mjs"), str(installed()), str(FILES), *modules]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
        self.assertEqual(done.stderr, "")
        for module, found in json.loads(done.stdout).items():
            stated, real = found["stated"], found["real"]
            self.assertEqual(found["undocumented"], [], module)
            self.assertEqual(found["underscored"], [], module)
            self.assertEqual(set(real) - set(stated), (INTERNAL | BETWEEN_FILES) & set(real), module)
            self.assertEqual(set(stated) - set(real), set(), module)
            for name in stated:
                for kind in ("own", "static"):
                    members, existing = set(stated[name][kind]), set(real[name][kind]) - HIDDEN
                    self.assertEqual(members - HIDDEN, existing, f"{module}: {name}")

    def test_package(self) -> None:
        """package.json names every module with its types, has the server's version, and has no dependencies."""
        package = json.loads((FILES / "package.json").read_text("utf-8"))
        modules = {f"./{file.name}" for file in FILES.glob("gamed*.mjs")}
        exported = {
            entry["default"]: entry["types"] for entry in package["exports"].values() if isinstance(entry, dict)
        }
        self.assertEqual(set(exported), modules)
        for module, types in exported.items():
            self.assertEqual(types, module.replace(".mjs", ".d.mts"))
            self.assertTrue((FILES / types).is_file(), types)
            self.assertLessEqual({module[2:], types[2:]}, set(package["files"]))
        self.assertEqual(package["version"], __version__.replace("rc", "-rc."))
        self.assertEqual((package["type"], package.get("dependencies")), ("module", None))
