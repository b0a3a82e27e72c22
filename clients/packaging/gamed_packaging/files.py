"""The files of a package, and the archives that hold them."""

import importlib.util
import re
import sys
import tarfile
import zipfile
from pathlib import Path, PurePosixPath
from types import ModuleType

from gamed_packaging.project import project
from gamed_packaging.versions import CLIENTS, ROOT

_RELATIVE = re.compile(r"\[([^\]]*)\]\((?!https?://|#)([^)\s]+)\)")


class PackageError(Exception):
    """A package that cannot be made, or that lacks something."""


def load(path: Path) -> ModuleType:
    """Return a Python file as a module that nothing else can import."""
    spec = importlib.util.spec_from_file_location(f"_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise PackageError(f"{path} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = bytecode
    return module


_BACKEND = load(CLIENTS / "python" / "build_backend.py")
write_tar_gz, write_zip = _BACKEND.write_tar_gz, _BACKEND.write_zip


def read(folder: Path, *names: str) -> dict[str, bytes]:
    """Read files of a client by their paths below its folder; raise PackageError if one is missing."""
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise PackageError(f"{folder} lacks {', '.join(missing)}.")
    return {name: (folder / name).read_bytes() for name in names}


def readme(folder: Path) -> bytes:
    """Return the README of a client, with the links of `page`."""
    return page(folder / "README.md")


def page(file: Path) -> bytes:
    """Return a page for a package. Links to files of the checkout lead to the repository.

    They become their text if project.json has no address of files. Blocks of code stay as they are.
    """
    stated = project()

    def linked(found: re.Match[str]) -> str:
        address = stated.link(file.parent, found[2])
        return f"[{found[1]}]({address})" if address else found[1]

    parts = file.read_text("utf-8").split("```")
    parts[::2] = [_RELATIVE.sub(linked, text) for text in parts[::2]]
    return "```".join(parts).encode()


def changelog() -> bytes:
    """Return CHANGELOG.md of the project, with the links of `page`."""
    return page(ROOT / "CHANGELOG.md")


def licence(folder: Path) -> dict[str, bytes]:
    """Return the text of the licence beside a client, under its name; nothing before one is chosen."""
    return {path.name: path.read_bytes() for path in sorted(folder.glob("LICENSE*"))}


def contents(archive: Path) -> dict[str, bytes]:
    """Read all files of an archive; raise PackageError for a path or an entry that no package of ours has."""
    if archive.suffix in (".tgz", ".gz"):
        with tarfile.open(archive) as tar:
            found = {entry.name: _bytes(tar, entry) for entry in tar.getmembers()}
    else:
        with zipfile.ZipFile(archive) as packed:
            if damaged := packed.testzip():
                raise PackageError(f"{archive.name}: {damaged} is damaged.")
            found = {name: packed.read(name) for name in packed.namelist()}
    unsafe = [name for name in found if ".." in PurePosixPath(name).parts or name.startswith("/") or "\\" in name]
    if unsafe:
        raise PackageError(f"{archive.name} has unsafe paths: {', '.join(unsafe)}.")
    return found


def require(archive: Path, found: dict[str, bytes], *names: str) -> None:
    """Raise PackageError if an archive lacks one of these files, or has an empty one that should not be."""
    missing = [name for name in names if name not in found or not (found[name] or name.endswith("py.typed"))]
    if missing:
        raise PackageError(f"{archive.name} lacks {', '.join(missing)}.")


def _bytes(tar: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(entry)
    if file is None:
        raise PackageError(f"{entry.name} is not a file.")
    return file.read()
