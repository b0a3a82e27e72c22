"""The packages that `clients/build` makes, and games that use them against the real server."""

import re
import shutil
import subprocess
import sys
from atexit import register
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from threading import Timer

from clients.conformance.tests.helpers import CLIENTS, lender

from gamed_conformance.browser import Browser, fetched  # isort: skip  (the helpers set its path)

BUILD = CLIENTS / "build"
LIMIT_SECONDS = 120
LINK = re.compile(r"http://127\.0\.0\.1:\d+/auth/login/[\w-]+$")
"""The address of a sign-in at the end of a game's line."""
PLAYERS = count(1)


@cache
def folder() -> Path:
    """Return the folder of this process, which is removed at its end."""
    made = Path(mkdtemp(prefix="gamed-packages-"))
    register(shutil.rmtree, made, ignore_errors=True)
    return made


@cache
def made(kind: str) -> list[Path]:
    """Return the packages of a kind."""
    out = folder() / kind
    done = build("--out", str(out), kind)
    if done.returncode:
        raise AssertionError(done.stdout + done.stderr)
    return sorted(path for path in out.iterdir() if path.name != "SHA256SUMS")


def build(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run `clients/build` with a proxy that does not exist, so that it cannot reach a network."""
    return run([sys.executable, str(BUILD), *arguments], folder())


def unpacked(package: Path) -> Path:
    """Return the folder of a package's files."""
    target = folder() / f"{package.name}.files"
    shutil.unpack_archive(package, target, "gztar" if package.suffix == ".tgz" else "zip")
    return target


def run(
    command: Sequence[str], within: Path, environ: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run a command with few environment variables."""
    bare = {"PATH": "/usr/bin:/bin", "HOME": str(folder()), **(environ or {})}
    return subprocess.run(
        list(command), cwd=within, env=bare, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False
    )


def call(command: Sequence[str], within: Path, environ: Mapping[str, str] | None = None) -> str:
    """Run a command that must succeed; return what it prints."""
    done = run(command, within, environ)
    if done.returncode:
        raise AssertionError(f"{command} exited with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def played(command: Sequence[str], within: Path) -> list[str]:
    """Run a game against the real server, and sign a new player in where it prints a link; return its lines."""
    service = lender().service("local")
    bare = {"PATH": "/usr/bin:/bin", "HOME": str(within), "GAMED_SERVER": service.base}
    lines = []
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(list(command), cwd=within, env=bare, text=True, **streams) as game:
        watch = Timer(LIMIT_SECONDS, game.kill)
        watch.start()
        try:
            for line in game.stdout:
                lines.append(line.rstrip("\n"))
                if link := LINK.search(lines[-1]):
                    name = f"player{next(PLAYERS)}"
                    page = Browser(service.port).sign_in(link[0], name, "correct horse", create=True)
                    fetched(page["return"])
        except BaseException:
            game.kill()
            raise
        finally:
            watch.cancel()
    if game.returncode:
        raise AssertionError(f"{command} exited with {game.returncode}:\n" + "\n".join(lines))
    return lines
