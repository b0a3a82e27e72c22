"""The packages for NuGet and Unity: a compiler accepts their files, and the built games sign in and save."""

import json
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

from twisted.trial.unittest import SynchronousTestCase

from clients.conformance.tests.helpers import lender
from clients.csharp.tests.building import CHECKS, CSHARP, compiled, ran, tool
from clients.packaging.tests.building import folder, made, played, unpacked
from tests.support.folders import unused_path

SCHEMA = "{http://schemas.microsoft.com/packaging/2013/05/nuspec.xsd}"
GUID = re.compile(r"^guid: ([0-9a-f]{32})$", re.MULTILINE)
LIBRARIES = ["-r:System.dll", "-r:System.Core.dll"]


class NuGet(SynchronousTestCase):
    def test_game(self) -> None:
        """The game of the README, compiled with the files of the package, signs in, saves and loads."""
        files = unpacked(made("nuget")[0])
        manifest = ElementTree.parse(files / "Gamed.Client.nuspec")
        [compiles] = [each for each in manifest.iter(f"{SCHEMA}files") if each.get("buildAction") == "Compile"]
        sources = sorted((files / "contentFiles").glob(compiles.get("include")))
        self.assertEqual(len(sources), 5)
        [assembly] = manifest.iter(f"{SCHEMA}frameworkAssembly")
        library = f"-r:{assembly.get('assemblyName')}.dll"
        game = folder() / "Game.cs"
        game.write_text(re.search(r"```csharp\n(.*?)```", (CSHARP / "README.md").read_text("utf-8"), re.DOTALL)[1])
        program = compiled(folder() / "Game.exe", game, *sources, options=[library])
        home = unused_path(self)
        home.mkdir()
        for level in (1, 2):
            printed = played([tool("mono"), str(program), lender().service("local").base], home)
            # The program that opens a browser may print something, too, and at any moment.
            self.assertEqual([line for line in printed if line.startswith("Level")], [f"Level {level}"], printed)

    def test_parts(self) -> None:
        """Each part of the package has a content type, and the relation of the package leads to its manifest."""
        files = unpacked(made("nuget")[0])
        [relation] = ElementTree.parse(files / "_rels" / ".rels").getroot()
        self.assertTrue((files / relation.get("Target").removeprefix("/")).is_file())
        for name in ("id", "version", "description", "authors"):
            self.assertIsNotNone(ElementTree.parse(files / "Gamed.Client.nuspec").find(f".//{SCHEMA}{name}").text)


class Unity(SynchronousTestCase):
    def setUp(self) -> None:
        self.files = unpacked(made("unity")[0]) / "package"

    def test_component(self) -> None:
        """The component of the package signs in and saves on a stand-in of the engine, on two devices."""
        scene = [CHECKS.with_name("UnityEngine.cs"), CHECKS.with_name("Scene.cs")]
        program = compiled(folder() / "Scene.exe", *(self.files / "Runtime").glob("*.cs"), *scene, options=[])
        browser = (sys.executable, "-m", "clients.csharp.tests.browser")
        done = ran(program, "Signs", lender().service("local").base, str(unused_path(self)), *browser)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_samples(self) -> None:
        """The samples of the Package Manager compile with the package, and the pages that it offers are there."""
        manifest = json.loads((self.files / "package.json").read_text("utf-8"))
        samples = [file for each in manifest["samples"] for file in (self.files / each["path"]).glob("*.cs")]
        self.assertEqual(len(samples), len(manifest["samples"]))
        sources = [*(self.files / "Runtime").glob("*.cs"), *samples]
        scene = [CHECKS.with_name("UnityEngine.cs"), CHECKS.with_name("Scene.cs")]
        compiled(folder() / "Samples.exe", *sources, *scene, options=[])
        self.assertIn("## 1.0.0rc1", (self.files / "CHANGELOG.md").read_text("utf-8"))
        self.assertTrue((self.files / "Documentation~" / "gamed.md").read_text("utf-8").startswith("# "))

    def test_manifest(self) -> None:
        """The manifest names the modules that Unity needs, and the assembly is the one of the sources."""
        manifest = json.loads((self.files / "package.json").read_text("utf-8"))
        self.assertRegex(manifest["name"], r"^[a-z0-9.-]+$")
        self.assertLess({"name", "version", "displayName", "description", "unity"}, set(manifest))
        self.assertEqual(json.loads((self.files / "Runtime" / "Gamed.asmdef").read_text("utf-8"))["name"], "Gamed")

    def test_guids(self) -> None:
        """Each file and folder has a GUID of its own, and the component's never changes: scenes refer to it."""
        shown = (path for path in self.files.rglob("*") if "~" not in str(path.relative_to(self.files)))
        assets = [path for path in shown if path.suffix != ".meta"]
        guids = {path.name: GUID.search(Path(f"{path}.meta").read_text("utf-8"))[1] for path in assets}
        self.assertEqual(len(set(guids.values())), len(assets))
        self.assertEqual(guids["GamedBehaviour.cs"], "20367f4955630ab0484f62acb08cf9b0")
