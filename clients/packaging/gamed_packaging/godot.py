"""The add-ons for Godot 3 and 4, in the layout of the asset library: everything is below addons/gamed/."""

import configparser
import json
import re
from pathlib import Path

from gamed_packaging.files import PackageError, contents, licence, load, read, readme, require, write_zip
from gamed_packaging.project import project
from gamed_packaging.versions import CLIENTS, version

ROOT = "addons/gamed/"
ICON = "icon.png"
"""In the folder of Godot 4, for both add-ons: 128 pixels, as the asset library wants it."""
_AUTHOR = re.compile(rb'(?m)^author=".*"$')
_LOADED = re.compile(rb'^[^#\n]*\bpreload\("(?!res://)([^"]+)"\)', re.MULTILINE)
NOT_SHIPPED = {"driver.gd", "example.gd", "project.godot"}
"""Files of the conformance suite, and of a game of its own."""


def make(generation: int, out: Path) -> list[Path]:
    """Write the add-on for a generation of the engine, 3 or 4."""
    folder = CLIENTS / f"godot{generation}"
    scripts = (path.name for path in folder.glob("*.gd"))
    found = _generated(folder) if generation == 3 else read(folder, "plugin.cfg", *scripts)
    files = {name: data for name, data in found.items() if name not in NOT_SHIPPED}
    files["plugin.cfg"] = _AUTHOR.sub(f"author={json.dumps(project().author)}".encode(), files["plugin.cfg"])
    files |= {"README.md": readme(folder), **read(CLIENTS / "godot4", ICON), **licence(folder)}
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
    require(package, found, *(ROOT + name for name in ("plugin.cfg", "plugin.gd", "gamed.gd", "README.md", ICON)))
    if found[ROOT + ICON][12:24] != b"IHDR" + (128).to_bytes(4, "big") * 2:
        raise PackageError(f"{package.name}: {ICON} is not a PNG of 128 by 128 pixels.")
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
