"""This module installs Godot 4 without a window, for the tests: `python -m clients.godot4.tests.engine`.

Debian 12 has only Godot 3. A newer Debian's package and its libraries are unpacked into the virtual environment, and
run there with their own dynamic loader. Nothing else on the system changes, and no root is needed.
"""

import subprocess
import sys
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory

FOLDER = Path(sys.prefix) / "godot4"
PROGRAM = FOLDER / "godot"
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
SUITES = ("forky", "sid")
"""The second one is used while the first one lacks the package."""

NOT_NEEDED = """\
Package: libgbm1
Status: install ok installed
Architecture: {architecture}
Multi-Arch: same
Version: 99
Maintainer: none <none@invalid>
Description: draws in windows, and needs LLVM

"""
START = """\
#!/bin/sh
exec '{loader}' --library-path '{libraries}:{libraries}/pulseaudio' '{folder}/usr/bin/godot' "$@"
"""


def godot4() -> str:
    """Return the path of the program that starts Godot 4."""
    if not PROGRAM.exists():
        command = "python -m clients.godot4.tests.engine"
        raise FileNotFoundError(f"These tests need Godot 4. Run {command} in the virtual environment.")
    return str(PROGRAM)


def install() -> None:
    """Download and unpack Godot 4 if it is not there: about 120 MB from the Debian archive."""
    if PROGRAM.exists():
        return
    rmtree(FOLDER, ignore_errors=True)
    with TemporaryDirectory(prefix="gamed-godot4-") as work:
        for package in downloaded(Path(work)):
            subprocess.run(["dpkg-deb", "-x", package, FOLDER], check=True)
    [loader] = FOLDER.glob("usr/lib/*-linux-gnu*/ld-linux-*.so.*")
    start = START.format(loader=loader, libraries=loader.parent, folder=FOLDER)
    PROGRAM.write_text(start, "utf-8")
    PROGRAM.chmod(0o755)


def downloaded(work: Path) -> list[Path]:
    """Return the packages that Godot needs, downloaded by apt-get with settings and state of its own."""
    shown = subprocess.run(["dpkg", "--print-architecture"], stdout=subprocess.PIPE, text=True, check=True)
    for name in ("lists/partial", "cache/archives/partial"):
        (work / name).mkdir(parents=True)
    sources = [f"deb [signed-by={KEYS}] http://deb.debian.org/debian {suite} main\n" for suite in SUITES]
    (work / "sources.list").write_text("".join(sources), "utf-8")
    (work / "status").write_text(NOT_NEEDED.format(architecture=shown.stdout.strip()), "utf-8")
    settings = {
        "Dir::State": work,
        "Dir::State::status": work / "status",
        "Dir::Cache": work / "cache",
        "Dir::Etc::sourcelist": work / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "APT::Default-Release": SUITES[0],
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "root",
        "Acquire::Retries": 3,
    }
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    subprocess.run(["apt-get", "-q", *options, "update"], check=True)
    subprocess.run(["apt-get", "-q", *options, "install", "--yes", "--download-only", "godot"], check=True)
    return sorted(work.glob("cache/archives/*.deb"))


if __name__ == "__main__":
    install()
