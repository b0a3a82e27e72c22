"""The package gamed-client for Python: a source archive and a wheel."""

import csv
import io
import json
import shutil
import tempfile
from base64 import urlsafe_b64encode
from email.parser import BytesParser
from hashlib import sha256
from pathlib import Path

from gamed_packaging.files import PackageError, contents, licence, load, readme, require
from gamed_packaging.project import project
from gamed_packaging.versions import CLIENTS, version

FOLDER = CLIENTS / "python"


def make(out: Path) -> list[Path]:
    """Write both packages into a folder, as the build backend beside the client makes them."""
    sources = load(FOLDER / "build_backend.py").SOURCES
    with tempfile.TemporaryDirectory() as staged:
        (Path(staged) / "gamed_client").mkdir()
        for name in (*sources, *licence(FOLDER)):
            shutil.copy(FOLDER / name, Path(staged) / name)
        (Path(staged) / "README.md").write_bytes(readme(FOLDER))
        (Path(staged) / "pyproject.toml").write_text(_manifest(), "utf-8", newline="\n")
        backend = load(Path(staged) / "build_backend.py")
        return [out / backend.build_sdist(str(out)), out / backend.build_wheel(str(out))]


def _manifest() -> str:
    """Return pyproject.toml with the fields of the project; a string of JSON is one of TOML."""
    found = project()
    begin, mark, rest = (FOLDER / "pyproject.toml").read_text("utf-8").partition("readme = ")
    urls = {"Documentation": found.documentation, "Repository": found.repository}
    lines = [f"{label} = {json.dumps(address)}\n" for label, address in urls.items() if address]
    table = ["\n[project.urls]\n", *lines] if lines else []
    return f"{begin}authors = [{{ name = {json.dumps(found.author)} }}]\n{mark}{rest}{''.join(table)}"


def check(package: Path) -> None:
    """Raise PackageError if a package lacks a module, or states another version or a wrong hash."""
    found = contents(package)
    backend = load(FOLDER / "build_backend.py")
    stem = f"gamed_client-{version()}"
    if package.suffix == ".whl":
        older = (f"{name}/{file}" for name in backend.OLDER for file in ("__init__.py", "py.typed"))
        require(package, found, *backend.PACKAGE, *older)
        require(package, found, f"{stem}.dist-info/METADATA", f"{stem}.dist-info/WHEEL")
        _check_record(package, found, f"{stem}.dist-info/RECORD")
        metadata = found[f"{stem}.dist-info/METADATA"]
    else:
        require(package, found, *(f"{stem}/{name}" for name in backend.SOURCES))
        metadata = found[f"{stem}/PKG-INFO"]
    stated = BytesParser().parsebytes(metadata)
    if (stated["Name"], stated["Version"]) != ("gamed-client", version()):
        raise PackageError(f"{package.name} is {stated['Name']} {stated['Version']}.")
    for name, data in found.items():
        if name.endswith(".py"):
            compile(data, name, "exec")


def _check_record(package: Path, found: dict[str, bytes], record: str) -> None:
    """Compare each file of a wheel with its line in RECORD."""
    listed = {row[0]: row[1:] for row in csv.reader(io.StringIO(found[record].decode()))}
    for name, data in found.items():
        digest = urlsafe_b64encode(sha256(data).digest()).rstrip(b"=").decode()
        expected = ["", ""] if name == record else [f"sha256={digest}", str(len(data))]
        if listed.pop(name, None) != expected:
            raise PackageError(f"{package.name}: RECORD is wrong about {name}.")
    if listed:
        raise PackageError(f"{package.name}: RECORD names missing files: {', '.join(listed)}.")
