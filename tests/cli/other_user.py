"""Python and gamed as a user without any rights can run them, wherever this checkout and its interpreter are."""

import atexit
import os
import shutil
import site
import stat
import sys
import sysconfig
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import mkdtemp

from tests.cli.process import ROOT

UNFINISHED = "*.pyc.*"
"""A module that another process compiles at this moment; it is renamed, maybe before it could be copied."""
SKIPPED = shutil.ignore_patterns(UNFINISHED, "test", "tests", "site-packages", "idlelib", "tkinter", "*.a")


def reachable(path: Path) -> bool:
    """Return whether every user may enter the folders above this path, and those above its target, and read it."""
    folders = {*path.absolute().parents, *path.resolve().parents}
    return all(each.stat().st_mode & stat.S_IXOTH for each in folders) and bool(path.stat().st_mode & stat.S_IROTH)


def library_folders(listed: Iterable[str]) -> list[Path]:
    """Return those of the listed folders that exist: Debian's Python also lists some that do not."""
    return [folder for folder in map(Path, listed) if folder.is_dir()]


def python_for_all() -> tuple[str, dict[str, str]]:
    """Return an interpreter and its environment; copy what other users cannot read, as below /root.

    All tests of a process share the copies. They have Python's bytecode: other users cannot write it, and without it
    each start would compile all of gamed and its libraries, a second of a processor.
    """
    libraries = library_folders(site.getsitepackages())
    paths = [package_for_all(ROOT / "gamed", _copies()), *(_libraries(each, _copies()) for each in libraries)]
    environ = {"PYTHONPATH": os.pathsep.join(map(str, paths))}
    own, systems = Path(sys.executable), Path(f"/usr/bin/python{sys.version_info[0]}.{sys.version_info[1]}")
    for candidate in (own, systems):
        if candidate.exists() and reachable(candidate):
            return str(candidate), environ
    home = _copies() / "python"
    if not home.exists():
        _make_open(home, home / "bin", home / "lib")
        shutil.copy(own.resolve(), home / "bin" / "python3")
        standard = Path(sysconfig.get_path("stdlib"))
        shutil.copytree(standard, home / "lib" / standard.name, ignore=SKIPPED)
    return str(home / "bin" / "python3"), {**environ, "PYTHONHOME": str(home)}


@cache
def _copies() -> Path:
    """Return the folder of all copies, which is deleted when this process ends."""
    folder = Path(mkdtemp(prefix="gamed-for-all-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    folder.chmod(0o755)
    return folder


def _make_open(*folders: Path) -> None:
    """Make folders that every user can enter, whatever umask a test has left."""
    for folder in folders:
        folder.mkdir()
        folder.chmod(0o755)


def package_for_all(package: Path, copies: Path) -> Path:
    """Return the folder to import gamed from: a copy is made if other users cannot read this one."""
    if reachable(package):
        return package.parent
    copy = copies / "checkout"
    if not copy.exists():
        _make_open(copy)
        shutil.copytree(package, copy / package.name, ignore=SKIPPED)
        shutil.copytree(package.parent / "etc", copy / "etc")  # `gamed setup` writes units from it
    return copy


def _libraries(libraries: Path, copies: Path) -> Path:
    """Return the folder to import libraries from; a copy has those that this process has imported."""
    if reachable(libraries):
        return libraries
    copy = copies / "libraries"
    if not copy.exists():
        _make_open(copy)
    for late in ("argon2", "jinja2", "segno", "treq"):  # for the first password, page, QR code and provider
        import_module(late)
    for name in {name.partition(".")[0] for name in sys.modules}:
        for found in libraries.glob(f"{name}*"):
            target = copy / found.name
            if target.exists():
                continue
            if found.is_dir():
                shutil.copytree(found, target, ignore=shutil.ignore_patterns(UNFINISHED))
            else:
                shutil.copy2(found, target)
    return copy
