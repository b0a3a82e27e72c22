"""Fresh virtual environments with gamed in them, built from a copy of this checkout and without the network.

Twisted is copied in, so that gamed's plugin lands in the same folder as in a real installation; every other
library is borrowed from the environment that runs the tests.
"""

import sys
from collections.abc import Iterable
from pathlib import Path
from shutil import copy, copytree, ignore_patterns
from subprocess import CompletedProcess, run
from sysconfig import get_path
from venv import create

import twisted

ROOT = Path(__file__).parents[2]
TWISTED = Path(twisted.__file__).parent
PARTS = ("setup.py", "pyproject.toml", "README.md", "gamed", "twisted")
JUNK = ignore_patterns("__pycache__", "*.egg-info", "dropin.cache")
PIP = ("--no-deps", "--no-build-isolation", "--no-index", "--no-cache-dir", "--quiet")


def checkout(folder: Path) -> Path:
    """What an installation is made from, as git would lay it out: nothing that a build leaves behind."""
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            copytree(source, folder / part, ignore=JUNK)
        else:
            folder.mkdir(parents=True, exist_ok=True)
            copy(source, folder / part)
    return folder


def wheel(source: Path, folder: Path) -> Path:
    """The wheel that pip builds from a checkout."""
    call([sys.executable, "-m", "pip", "wheel", *PIP, "-w", str(folder), str(source)], folder.parent)
    [built] = folder.glob("*.whl")
    return built


def environment(folder: Path) -> Path:
    """A virtual environment with Twisted and without gamed; the path of its python."""
    create(folder, symlinks=True)
    python = folder / "bin/python"
    site = Path(get_path("purelib", "venv", {"base": str(folder), "platbase": str(folder)}))
    copytree(TWISTED, site / "twisted", ignore=ignore_patterns("test", "dropin.cache"))  # with its bytecode
    (site / "borrowed.pth").write_text(f"{TWISTED.parent}\n", "utf-8")
    return python


def install(python: Path, *what: str) -> None:
    """--ignore-installed: where gamed is among the borrowed libraries, pip would leave it at that."""
    call([str(python), "-m", "pip", "install", *PIP, "--ignore-installed", *what], python.parent)


def call(command: Iterable[str], folder: Path) -> CompletedProcess[str]:
    """Run it to its end in that folder; a failure shows what it said."""
    done = ask(command, folder)
    if done.returncode != 0:
        raise AssertionError(f"{command} said {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done


def ask(command: Iterable[str], folder: Path, **variables: str) -> CompletedProcess[str]:
    """Run it with a bare environment, whatever it says."""
    bare = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1", **variables}
    return run(list(command), cwd=folder, env=bare, capture_output=True, text=True, timeout=300, check=False)
