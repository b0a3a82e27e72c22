"""Providers, each a process of its own: three that others wrote, and the development provider.

The packages of npm are installed by name and lock file into `.build/e2e-node` at their first use. A package that cannot
be installed fails the test that needs it.
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.e2e.service import ROOT, free_port
from tests.support import forks
from tests.support.nodejs import NODE, NPM, with_node

SCRIPTS = Path(__file__).parent / "node"
FOLDER = ROOT / ".build" / "e2e-node"
INSTALL_SECONDS, START_SECONDS = 600, 60


class ProviderDied(Exception):
    """The provider has ended, or never wrote that it is ready; the text is its output."""


def installed(scripts: Path = SCRIPTS, folder: Path = FOLDER) -> Path:
    """Install the packages; return the folder with them and the scripts. Test processes wait for each other."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted, mark = (scripts / "package-lock.json").read_bytes(), folder / "installed.json"
        for file in scripts.iterdir():
            _renew(file, folder / file.name)
        if not mark.exists() or mark.read_bytes() != wanted:
            command = [*NPM, "ci", "--no-audit", "--no-fund", "--no-update-notifier"]
            done = subprocess.run(
                command,
                cwd=folder,
                env=with_node(os.environ),
                capture_output=True,
                timeout=INSTALL_SECONDS,
                check=False,
            )
            if done.returncode:
                raise ProviderDied(f"npm ci: {done.stdout.decode()}{done.stderr.decode()}")
            mark.write_bytes(wanted)
    return folder


def _renew(file: Path, copy: Path) -> None:
    # Another process's node may read the copy now: written in place, it would be an empty script for a moment.
    if not copy.exists() or copy.read_bytes() != file.read_bytes():
        shutil.copy(file, made := copy.with_name(f".{copy.name}"))
        made.replace(copy)


class Process:
    """A provider that listens on `port` of 127.0.0.1 and whose configured address is `base`."""

    def __init__(self, command: Sequence[str], options: dict[str, object], folder: Path = ROOT) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        self._process = forks.popen(
            [*command, json.dumps(options)],
            cwd=folder,
            env={**environ, "PYTHONPATH": str(ROOT)},
            stdout=self._log,
            stderr=self._log,
        )
        limit = time.monotonic() + START_SECONDS
        while b"ready" not in self.text():
            if self._process.poll() is not None or time.monotonic() > limit:
                self.close()
                raise ProviderDied(self.text().decode("utf-8", "replace"))
            time.sleep(0.02)

    def text(self) -> bytes:
        """Return all bytes that it has sent."""
        return os.pread(self._log.fileno(), 1 << 20, 0)

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(START_SECONDS)


def node(script: str, **options: object) -> Process:
    """Start a script in `node/`."""
    folder = installed()
    return Process([NODE, script], options, folder)


def python(module: str, **options: object) -> Process:
    """Start a module below `tests.e2e` that reads the same argument."""
    return Process([sys.executable, "-m", f"tests.e2e.{module}"], options)


__all__ = ["Process", "ProviderDied", "free_port", "installed", "node", "python"]
