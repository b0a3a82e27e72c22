"""The checks of `clients/build` reject a wrong package."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from clients.conformance.tests.helpers import CLIENTS
from clients.packaging.tests.building import made

sys.path.append(str(CLIENTS / "packaging"))

from gamed_packaging.command import KINDS
from gamed_packaging.files import PackageError, contents, write_tar_gz, write_zip


class Checks(SynchronousTestCase):
    def changed(self, package: Path, change: Callable[[dict[str, bytes]], object]) -> Path:
        """Return the package with other files."""
        files = contents(package)
        change(files)
        folder = Path(self.mktemp())
        folder.mkdir()
        (write_tar_gz if package.suffix in (".tgz", ".gz") else write_zip)(folder / package.name, files)
        return folder / package.name

    def refused(self, kind: str, problem: str, change: Callable[[dict[str, bytes]], object]) -> None:
        package = made(kind)[0]
        KINDS[kind].check(self.changed(package, lambda files: None))
        error = self.assertRaises(PackageError, KINDS[kind].check, self.changed(package, change))
        self.assertRegex(str(error), problem)

    def test_wheel(self) -> None:
        """A wheel whose RECORD is wrong about a file, or that lacks `py.typed`, is refused."""

        def longer(files: dict[str, bytes]) -> None:
            files["gamed_client/sync.py"] += b"\n"

        self.refused("python", "RECORD is wrong about gamed_client/sync.py", longer)
        self.refused("python", "lacks gamed_client/py.typed", lambda files: files.pop("gamed_client/py.typed"))
        self.refused("python", "RECORD is wrong about more.py", lambda files: files.update({"more.py": b""}))

    def test_npm(self) -> None:
        """A package for npm is refused with another version, with dependencies, or without a file that is loaded."""

        def stating(**members: object) -> Callable[[dict[str, bytes]], object]:
            def change(files: dict[str, bytes]) -> None:
                stated = json.loads(files["package/package.json"])
                files["package/package.json"] = json.dumps({**stated, **members}).encode()

            return change

        self.refused("npm", r"is @gamed/client 0\.9\.0", stating(version="0.9.0"))
        self.refused("npm", "dependencies or scripts", stating(dependencies={"left-pad": "1"}))
        self.refused("npm", "dependencies or scripts", stating(scripts={"install": "true"}))
        self.refused("npm", "lacks package/gamed.d.mts", lambda files: files.pop("package/gamed.d.mts"))
        load = {"package/gamed_more.mjs": b'import { x } from "./gamed_none.mjs"\n'}
        self.refused("npm", "lacks package/gamed_none.mjs", lambda files: files.update(load))

    def test_nuget(self) -> None:
        """A package for NuGet is refused with a file of an unknown type, or without a source."""
        self.refused("nuget", r"without a content type: exe", lambda files: files.update({"tools/run.exe": b"MZ"}))
        name = "contentFiles/cs/any/Gamed/GamedClient.cs"
        self.refused("nuget", f"lacks {name}", lambda files: files.pop(name))

    def test_unity(self) -> None:
        """A package for Unity is refused if a file in it lacks a GUID of its own."""
        runtime = "package/Runtime/"
        self.refused("unity", "lacks .*GamedSync.cs.meta", lambda files: files.pop(f"{runtime}GamedSync.cs.meta"))

        def twice(files: dict[str, bytes]) -> None:
            files[f"{runtime}GamedSync.cs.meta"] = files[f"{runtime}GamedClient.cs.meta"]

        self.refused("unity", "GUID twice", twice)

    def test_godot(self) -> None:
        """An add-on is refused with a file outside its folder, or without a script that another one loads."""
        self.refused(
            "godot3", "outside addons/gamed/: project.godot", lambda files: files.update({"project.godot": b"x"})
        )
        self.refused(
            "godot4", "lacks addons/gamed/gamed_sync.gd", lambda files: files.pop("addons/gamed/gamed_sync.gd")
        )

    def test_icon(self) -> None:
        """An add-on is refused with an icon of another size than the asset library wants."""
        header = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (64).to_bytes(4, "big") * 2
        self.refused("godot4", "not a PNG of 128", lambda files: files.update({"addons/gamed/icon.png": header}))

    def test_unsafe_paths(self) -> None:
        """A path that leads out of the folder is refused."""
        self.refused("godot4", "unsafe paths", lambda files: files.update({"addons/gamed/../../x": b"x"}))
