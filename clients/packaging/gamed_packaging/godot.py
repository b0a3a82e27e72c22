"""The add-ons for Godot 3 and 4, in the layout of the asset library: everything is below addons/gamed/."""

import configparser
import re
from pathlib import Path

from gamed_packaging.files import PackageError, contents, licence, load, read, readme, require, write_zip
from gamed_packaging.versions import CLIENTS, version

ROOT = "addons/gamed/"
_LOADED = re.compile(rb'^[^#\n]*\bpreload\("(?!res://)([^"]+)"\)', re.MULTILINE)
NOT_SHIPPED = {"driver.gd", "example.gd", "project.godot"}
"""Files of the conformance suite, and of a game of its own."""


def make(generation: int, out: Path) -> list[Path]:
    """Write the add-on for a generation of the engine, 3 or 4."""
    folder = CLIENTS / f"godot{generation}"
    scripts = (path.name for path in folder.glob("*.gd"))
    found = _generated(folder) if generation == 3 else read(folder, "plugin.cfg", *scripts)
    files = {name: data for name, data in found.items() if name not in NOT_SHIPPED}
    files |= {"README.md": readme(folder), **licence(folder)}
    path = out / f"gamed-godot{generation}-{version()}.zip"
    write_zip(path, {ROOT + name: files[name] for name in sorted(files)})
    return [path]


def _generated(folder: Path) -> dict[str, bytes]:
    generate = load(folder / "generate.py")
    try:
        return generate.files()
    except generate.GenerateError as error:
        raise PackageError(str(error)) from None


def check(package: Path) -> None:
    """Raise PackageError if the add-on lacks its script or a file that a script loads."""
    found = contents(package)
    if outside := [name for name in found if not name.startswith(ROOT)]:
        raise PackageError(f"{package.name} has files outside {ROOT}: {', '.join(outside)}.")
    require(package, found, *(ROOT + name for name in ("plugin.cfg", "plugin.gd", "gamed.gd", "README.md")))
    plugin = configparser.ConfigParser()
    plugin.read_string(found[ROOT + "plugin.cfg"].decode())
    stated = {name: value.strip('"') for name, value in plugin["plugin"].items()}
    if stated.keys() < {"name", "description", "author", "version", "script"}:
        raise PackageError(f"{package.name}: plugin.cfg has only {', '.join(stated)}.")
    if stated["version"] != version():
        raise PackageError(f"{package.name}: plugin.cfg is of version {stated['version']}.")
    require(package, found, ROOT + stated["script"])
    for name, data in found.items():
        if name.endswith(".gd"):
            require(package, found, *(ROOT + loaded.decode() for loaded in _LOADED.findall(data)))
