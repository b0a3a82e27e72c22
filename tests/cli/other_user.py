"""Python and gamed as a user without any rights can run them, wherever this checkout and its interpreter are."""

import os
import shutil
import site
import stat
import sys
import sysconfig
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

from tests.cli.process import ROOT

SKIPPED = shutil.ignore_patterns("__pycache__", "test", "tests", "site-packages", "idlelib", "tkinter", "*.a")


def reachable(path: Path) -> bool:
    """Return whether every user may enter the folders above this path, and those above its target, and read it."""
    folders = {*path.absolute().parents, *path.resolve().parents}
    return all(each.stat().st_mode & stat.S_IXOTH for each in folders) and bool(path.stat().st_mode & stat.S_IROTH)


def library_folders(listed: Iterable[str]) -> list[Path]:
    """Return those of the listed folders that exist: Debian's Python also lists some that do not."""
    return [folder for folder in map(Path, listed) if folder.is_dir()]


def python_for_all(folder: Path) -> tuple[str, dict[str, str]]:
    """Return an interpreter and its environment; copy into `folder` what other users cannot read, as below /root."""
    libraries = library_folders(site.getsitepackages())
    paths = [_package(ROOT / "gamed", folder), *(_libraries(each, folder) for each in libraries)]
    environ = {"PYTHONPATH": os.pathsep.join(map(str, paths))}
    own, systems = Path(sys.executable), Path(f"/usr/bin/python{sys.version_info[0]}.{sys.version_info[1]}")
    for candidate in (own, systems):
        if candidate.exists() and reachable(candidate):
            return str(candidate), environ
    home = folder / "python"
    (home / "bin").mkdir(parents=True)
    shutil.copy(own.resolve(), home / "bin" / "python3")
    standard = Path(sysconfig.get_path("stdlib"))
    shutil.copytree(standard, home / "lib" / standard.name, ignore=SKIPPED)
    return str(home / "bin" / "python3"), {**environ, "PYTHONHOME": str(home)}


def _package(package: Path, folder: Path) -> Path:
    """Return the folder to import gamed from."""
    if reachable(package):
        return package.parent
    shutil.copytree(package, folder / "checkout" / package.name, ignore=SKIPPED)
    shutil.copytree(package.parent / "etc", folder / "checkout" / "etc")  # `gamed setup` writes units from it
    return folder / "checkout"


def _libraries(libraries: Path, folder: Path) -> Path:
    """Return the folder to import libraries from; a copy has those that this process has imported."""
    if reachable(libraries):
        return libraries
    copy = folder / "libraries"
    for late in ("argon2", "jinja2", "segno"):  # gamed imports them at the first password, page and QR code
        import_module(late)
    for name in {name.partition(".")[0] for name in sys.modules}:
        for found in libraries.glob(f"{name}*"):
            target = copy / found.name
            if target.exists():
                continue
            if found.is_dir():
                shutil.copytree(found, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                copy.mkdir(parents=True, exist_ok=True)
                shutil.copy(found, target)
    return copy
