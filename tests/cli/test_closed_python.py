"""Root's Python may be closed to the user who owns the data, as below /root: a command imports all it needs first.

A command of root becomes that user before it opens a database. From then on it can import nothing from such a Python.
"""

import ast
import json
import os
import sys
import sysconfig
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from re import compile

import argon2  # noqa: F401  the user of the server has to be able to import it, too
from click import Group

import gamed.service as _service  # noqa: F401  the same
from gamed.cli.commands import gamed
from gamed.cli.process import LATE_MODULES, LATE_WITH_POSTGRESQL
from tests.cli.other_user import python_for_all
from tests.cli.process import ROOT, CommandTestCase, free_port
from tests.cli.test_other_user import DROP, OTHER
from tests.support.commands import members
from tests.support.postgresql import cluster, programs
from tests.support.stores import sqlite_files

RUN = "from gamed.cli import main; main()"
WITH_POSTGRESQL = (
    "players add anna --password-stdin",
    "players list",
    "players show ana",
    "doctor",
    "check data",
    "backup copies",
)
SERVERS = {
    *("gamed.cli.commands", "gamed.cli.service", "gamed.cli.service.serve", "gamed.database.postgresql.backend"),
    *("gamed.database.sqlite.backend", "gamed.dev.clients", "gamed.dev.provider", "gamed.dev.servers"),
    "gamed.dev.static_files",
    *("gamed.pages.catalogue", "gamed.pages.languages"),
    *("cryptography.exceptions", "cryptography.hazmat.primitives.serialization"),
    *("cryptography.hazmat.primitives.asymmetric.ec", "joserfc", "joserfc.errors", "joserfc.jwk"),
    *("gamed.assets.store", "gamed.cli.context", "gamed.database.backup_format", "gamed.saves.tables"),
    *("gamed.notify.client", "gamed.notify.format_rules", "gamed.notify.model"),
    *("click", "gamed.gc_pause", "twisted.internet.defer", "gamed.cli.service.prepare", "segno", "gamed.passkeys"),
    *("twisted.internet", "twisted.internet.error", "twisted.scripts.twistd"),
}
"""Modules that only `serve`, `dev`, `setup`, `notify test` and `check config` import late, which stay the user they
are, that completion imports before it opens anything, and that are imported before any command runs."""
STORED = {"mode": "local", "master_key_env": "GAMED_MASTER_KEY"}
KEY = {"GAMED_MASTER_KEY": b64encode(bytes(range(100, 132))).decode()}
FAILURE = compile(r"Traceback|No module named|Permission denied|ImportError")
PASSWORD = "correct horse battery"
NOT_SWITCHED = {
    *("serve", "dev", "unit", "nginx", "caddy", "man", "completion", "key new", "check config", "notify test"),
    *("move-data", "health", "setup"),
}
"""Commands that run as root to their end, or refuse root."""
COMMANDS = (
    "players add ben --password-stdin",
    "players add carl --password-stdin",
    "players add anna --password-stdin",
    "players list",
    "players list --pending",
    "players list --json",
    "players show anna",
    "players show ana",
    "players find --provider discord --subject 80351110224678912",
    "players note anna sister",
    "players note anna",
    "players password anna --password-stdin",
    "players reset-link anna",
    "players invite --name dora",
    "players invites",
    "players revoke-invite inv_none",
    "players approve 123456",
    "players reject dora",
    "players block ben",
    "players unblock ben",
    "players token anna",
    "players token ann --json",
    "players merge carl --into ben",
    "players erase ben --yes",
    "sessions list",
    "sessions list anna",
    "sessions revoke anna",
    "passkeys list",
    "passkeys reset anna",
    "owner claim anna",
    "owner page on",
    "owner page status",
    "owner confirm",
    "owner page off",
    "owner show",
    "owner reset",
    "events --since 1d --player anna",
    "events --player an",
    "saves list anna",
    "saves versions anna auto",
    "saves restore anna auto 1",
    "saves undelete anna auto",
    "saves export anna anna.zip",
    "saves import anna anna.zip --dry-run",
    "saves erase anna --yes",
    "saves stats",
    "key fingerprint",
    "key rotate-tickets",
    "doctor",
    "doctor --public http://127.0.0.1:{port} --write",
    "assets publish files",
    "assets list",
    "assets verify",
    "assets set-channel beta r1",
    "assets rollback stable",
    "assets delete-channel beta --yes",
    "assets gc",
    "check data",
    "backup copies",
)
STOPPED = (
    "check data --fix",
    "restore --check {backup}",
    "restore {backup}",
    "restored",
    "move-store --to postgresql://gamed@127.0.0.1:1/gamed",
)
"""Commands that need the folder alone."""


@sqlite_files("the start of commands; the data are files")
class ClosedPythonTests(CommandTestCase):
    """All of Python and gamed is behind a folder that only root may enter; the server runs with one that is open."""

    forked = False

    def setUp(self) -> None:
        super().setUp()
        self.folder.chmod(0o755)
        closed = self.folder / "root"
        (closed / "python/lib").mkdir(parents=True)
        closed.chmod(0o700)
        standard = Path(sysconfig.get_path("stdlib"))
        (closed / "python/lib" / standard.name).symlink_to(standard)
        (closed / "libraries").symlink_to(sysconfig.get_path("purelib"))
        (closed / "checkout").symlink_to(ROOT)
        self.python = (str(Path(sys.executable).resolve()), "-c", RUN)
        self.closed = {"PYTHONHOME": f"{closed}/python", "PYTHONPATH": f"{closed}/checkout:{closed}/libraries"}
        for folder in (self.data, self.folder / "copies"):
            folder.mkdir(0o700)
            os.chown(folder, OTHER, OTHER)
        (self.folder / "files").mkdir(0o755)
        (self.folder / "files/level.txt").write_text("one")
        self.write_config()
        self.config.with_name("game.json").write_text('{"wait_seconds": 1}')  # doctor waits as long

    def serve_as_other(self) -> int:
        python, self.environ = python_for_all()
        port = free_port()
        serve = [*self.places, "serve", f"--listen=tcp:{port}:interface=127.0.0.1"]
        self.process = self.start(python, "-c", DROP.format(OTHER), python, "-c", RUN, *serve)
        self.await_answer(port, self.process)
        return port

    def failed(self, commands: Sequence[str], **words: object) -> list[tuple[str, str]]:
        """Run each command as root; return those that cannot read Python, with the end of what they print."""
        self.environ, found = self.closed, []
        for text in commands:
            command = text.format(**words).split()
            _, out, err = self.run_command(*self.places, *command, of=self.python, stdin=PASSWORD)
            if FAILURE.search(out + err):
                found.append((text, (out + err)[-400:]))
        return found

    def test_every_command(self) -> None:
        """Each does its work, or reports a sentence, whatever it needs late: passwords, sockets, similar names."""
        if os.geteuid() != 0:
            return
        self.assertEqual(self.failed(COMMANDS, port=self.serve_as_other()), [])
        self.assertEqual(self.stop(self.process), 0)
        self.assertTrue(any((self.data / "assets/releases").iterdir()))
        [backup] = (self.folder / "copies").iterdir()
        self.assertEqual(self.failed(STOPPED, backup=backup), [])

    def test_postgresql(self) -> None:
        """The same with a store in PostgreSQL, whose driver is loaded by then."""
        if os.geteuid() != 0:
            return
        address = cluster().database()
        self.addCleanup(cluster().drop, address.database)
        self.config.write_text(json.dumps({**STORED, "store": address.url}))
        self.config.chmod(0o644)
        self.closed |= {**KEY, "PATH": f"{self.folder}/root:{programs()}:/usr/bin:/bin"}
        python, environ = python_for_all()
        self.environ = environ | KEY
        port = free_port()
        serve = [*self.places, "serve", f"--listen=tcp:{port}:interface=127.0.0.1"]
        process = self.start(python, "-c", DROP.format(OTHER), python, "-c", RUN, *serve)
        self.await_answer(port, process)
        self.assertEqual(self.failed(WITH_POSTGRESQL), [])
        self.assertEqual(self.stop(process), 0)
        [backup] = (self.folder / "copies").iterdir()
        self.assertEqual(self.failed((*STOPPED[:-1], "move-store --to sqlite"), backup=backup), [])

    def test_late_imports(self) -> None:
        """Each module that a command imports within a function is loaded before; what only a server needs is named."""
        found = set()
        for folder in ("account", "assets", "cli", "config", "database", "players", "saves", "sessions"):
            for file in (ROOT / "gamed" / folder).rglob("*.py"):
                for function in ast.walk(ast.parse(file.read_text("utf-8"))):
                    if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                        for each in ast.walk(function):
                            if isinstance(each, ast.ImportFrom):
                                joined = {f"{each.module}.{name.name}" for name in each.names}
                                found |= joined & {*LATE_MODULES, *LATE_WITH_POSTGRESQL} or {str(each.module)}
                            elif isinstance(each, ast.Import):
                                found |= {name.name for name in each.names}
        loaded = {*LATE_MODULES, *LATE_WITH_POSTGRESQL, "sysconfig", "concurrent.futures"}
        self.assertEqual(found - loaded, SERVERS)

    def test_all_are_here(self) -> None:
        """Each command of gamed is tried, or runs as root to its end."""
        tried = {" ".join(text.split()[:2]) for text in (*COMMANDS, *STOPPED)}
        tried |= {text.split()[0] for text in tried}
        for name, command in members(gamed):
            for leaf in [f"{name} {each}" for each, _ in members(command)] if isinstance(command, Group) else [name]:
                if not {name, leaf} & NOT_SWITCHED:
                    self.assertIn(leaf, tried)
