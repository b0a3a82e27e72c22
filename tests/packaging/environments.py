"""New virtual environments with gamed are built from a copy of this checkout, without the network.

Twisted is copied, so that gamed's plugin is in the same folder as in a real installation; all other libraries come from
the environment that runs the tests.
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
PARTS = ("setup.py", "pyproject.toml", "README.md", "LICENSE", "gamed", "twisted", "etc")
JUNK = ignore_patterns("__pycache__", "*.egg-info", "dropin.cache")
PIP = ("--no-deps", "--no-build-isolation", "--no-index", "--no-cache-dir", "--quiet")


def checkout(folder: Path) -> Path:
    """Copy the files that an installation needs into a folder, without files of earlier builds."""
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            copytree(source, folder / part, ignore=JUNK)
        elif source.exists():  # LICENSE is not there before one is chosen
            folder.mkdir(parents=True, exist_ok=True)
            copy(source, folder / part)
    return folder


def wheel(source: Path, folder: Path) -> Path:
    """Build a wheel from a checkout, and return its path."""
    call([sys.executable, "-m", "pip", "wheel", *PIP, "-w", str(folder), str(source)], folder.parent)
    [built] = folder.glob("*.whl")
    return built


def environment(folder: Path) -> Path:
    """Create a virtual environment with Twisted and without gamed; return the path of its Python."""
    create(folder, symlinks=True)
    python = folder / "bin/python"
    site = Path(get_path("purelib", "venv", {"base": str(folder), "platbase": str(folder)}))
    copytree(TWISTED, site / "twisted", ignore=ignore_patterns("test", "dropin.cache"))  # with its bytecode
    (site / "borrowed.pth").write_text(f"{TWISTED.parent}\n", "utf-8")
    return python


def install(python: Path, *what: str) -> None:
    """Install packages; without --ignore-installed pip would accept a gamed of the environment that runs the tests."""
    call([str(python), "-m", "pip", "install", *PIP, "--ignore-installed", *what], python.parent)


def call(command: Iterable[str], folder: Path) -> CompletedProcess[str]:
    """Run a command in a folder; raise AssertionError with its output if it fails."""
    done = ask(command, folder)
    if done.returncode != 0:
        raise AssertionError(f"{command} exited with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done


def ask(command: Iterable[str], folder: Path, **variables: str) -> CompletedProcess[str]:
    """Run a command with few environment variables; return its result also if it fails."""
    bare = {"PATH": "/usr/bin:/bin", "HOME": str(folder), **variables}
    return run(list(command), cwd=folder, env=bare, capture_output=True, text=True, timeout=300, check=False)
