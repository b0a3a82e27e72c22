"""This module installs Godot 4 without a window, for the tests: `python -m clients.godot4.tests.engine`.

Debian 12 has only Godot 3. A newer Debian's package and its libraries are unpacked into the virtual environment, and
run there with their own dynamic loader. Nothing else on the system changes, and no root is needed.
"""

import subprocess
import sys
from pathlib import Path
from shlex import join
from shutil import rmtree
from tempfile import TemporaryDirectory

FOLDER = Path(sys.prefix) / "godot4"
PROGRAM = FOLDER / "godot"
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
SUITES = ("forky", "sid")
"""The second one is used while the first one lacks the package."""


def godot4() -> str:
    """Return the path of the program that starts Godot 4."""
    if not PROGRAM.exists():
        command = "python -m clients.godot4.tests.engine"
        raise FileNotFoundError(f"These tests need Godot 4. Run {command} in the virtual environment.")
    return str(PROGRAM)


def install() -> None:
    """Download and unpack Godot 4 if it is not there: 160 MB from the Debian archive, 520 MB on the disk."""
    if PROGRAM.exists():
        return
    rmtree(FOLDER, ignore_errors=True)
    with TemporaryDirectory(prefix="gamed-godot4-") as work:
        for package in downloaded(Path(work)):
            subprocess.run(["dpkg-deb", "-x", package, FOLDER], check=True)
    [loader] = FOLDER.glob("usr/lib/*-linux-gnu*/ld-linux-*.so.*")
    start = [loader, "--library-path", f"{loader.parent}:{loader.parent}/pulseaudio"]
    engine = FOLDER / "usr" / "bin" / "godot"
    check_libraries(subprocess.run([*start, "--list", engine], stdout=subprocess.PIPE, text=True, check=True).stdout)
    PROGRAM.write_text(f'#!/bin/sh\nexec {join(map(str, [*start, engine]))} "$@"\n', "utf-8")
    PROGRAM.chmod(0o755)


def check_libraries(listed: str) -> None:
    """Raise FileNotFoundError if the loader finds a library on the system, where other versions are, or nowhere."""
    found = (line.split() for line in listed.splitlines() if "=>" in line)
    if others := [words[0] for words in found if not words[2].startswith(f"{FOLDER}/")]:
        raise FileNotFoundError(f"Godot 4 needs {', '.join(others)}. Add the packages that have these libraries.")


def downloaded(work: Path) -> list[Path]:
    """Return the packages that Godot needs, downloaded by apt-get with settings and state of its own."""
    for name in ("lists/partial", "cache/archives/partial"):
        (work / name).mkdir(parents=True)
    sources = [f"deb [signed-by={KEYS}] http://deb.debian.org/debian {suite} main\n" for suite in SUITES]
    (work / "sources.list").write_text("".join(sources), "utf-8")
    (work / "status").touch()
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
