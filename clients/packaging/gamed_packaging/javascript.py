"""The package @gamed/client for npm, as `npm pack` would lay it out."""

import json
import re
from pathlib import Path
from typing import Any

from gamed_packaging.files import PackageError, contents, licence, read, readme, require, write_tar_gz
from gamed_packaging.project import project
from gamed_packaging.versions import CLIENTS, semver, version

FOLDER = CLIENTS / "js"
_IMPORT = re.compile(r'\b(?:from|import)\s*\(?\s*"(\./[^"]+)"')


def make(out: Path) -> list[Path]:
    """Write the package with the files that package.json lists."""
    files = read(FOLDER, "package.json")
    files |= read(FOLDER, *json.loads(files["package.json"])["files"])
    files["package.json"] = _manifest(json.loads(files["package.json"]))
    files |= {"README.md": readme(FOLDER), **licence(FOLDER)}
    path = out / f"gamed-client-{semver(version())}.tgz"
    write_tar_gz(path, {f"package/{name}": files[name] for name in sorted(files)})
    return [path]


def _manifest(stated: dict[str, Any]) -> bytes:
    """Return package.json with the fields of the project."""
    found = project()
    fields: dict[str, Any] = {"author": found.author}
    if found.documentation:
        fields["homepage"] = found.documentation
    if found.repository:
        fields["repository"] = {"type": "git", "url": f"git+{found.repository}", "directory": "clients/js"}
    return json.dumps({**stated, **fields}, indent=2).encode() + b"\n"


def check(package: Path) -> None:
    """Raise PackageError if the package lacks a file that package.json or a module names."""
    found = contents(package)
    require(package, found, "package/package.json", "package/README.md")
    stated = json.loads(found["package/package.json"])
    if (stated["name"], stated["version"]) != ("@gamed/client", semver(version())):
        raise PackageError(f"{package.name} is {stated['name']} {stated['version']}.")
    if stated.get("dependencies") or stated.get("scripts"):
        raise PackageError(f"{package.name} has dependencies or scripts. The client needs neither.")
    named = {name for field in ("main", "types", "exports") for name in _paths(stated.get(field))}
    require(package, found, *(f"package/{name.removeprefix('./')}" for name in sorted(named)))
    for name, data in found.items():
        if name.endswith((".mjs", ".js", ".ts", ".mts")):
            imported = _IMPORT.findall(data.decode())
            require(package, found, *(f"package/{target.removeprefix('./')}" for target in imported))


def _paths(value: Any) -> list[str]:
    """Return all paths of a field of package.json; conditions of exports may be nested."""
    if isinstance(value, dict):
        return [path for each in value.values() for path in _paths(each)]
    return [value] if isinstance(value, str) else []
