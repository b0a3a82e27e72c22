"""Tests of backups share a data folder with players and saves, and a way to kill work at any step."""

import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import ClassVar, NoReturn

from twisted.trial.unittest import SynchronousTestCase

from gamed.cli import keys
from gamed.cli.commands import gamed
from gamed.cli.data import backup
from gamed.cli.data.backup import Backup
from gamed.cli.paths import FIRST_RUN, Paths
from gamed.config.settings import KeySource
from gamed.crypto import Keys, Secret
from gamed.database.connection import Connection
from gamed.database.sqlite.files import connect, file_uri, prepare
from gamed.database.sqlite.offline import run_transaction
from gamed.database.sqlite.store import SqliteStore
from gamed.players import keyring
from gamed.players import tables as player_tables
from gamed.saves.write_rules import UNCONDITIONAL
from gamed.sessions.credentials import CredentialIssuer, CredentialPair
from tests.saves.state_machine import StoredSlot
from tests.sessions.fixtures import ANNA, BERT, NOW_MS, POLICY, Counting, sign_in
from tests.support.databases import ask, data_folder, prepare_sqlite

KEY = Secret(bytes(range(32)))
STEPS = {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.link", "sqlite3.connect", "shutil.rmtree"}
"""The audit events (PEP 578) of a process before it opens, renames or deletes a file."""


class BackupCase(SynchronousTestCase):
    """A test with a data folder that has a player, a session and a save, and a folder for backups."""

    random = Counting()
    keys = Keys.of(KEY, random)
    first_files: ClassVar[dict[str, bytes]] = {}
    """The files that the first test made; the other tests begin with copies of them."""
    pair: ClassVar[CredentialPair]

    def setUp(self) -> None:
        self.folder = data_folder(self)
        self.where = Paths(self.folder / "authentication.json", self.folder / "data")
        self.data, self.target = self.where.data, self.folder / "copies"
        self.where.config.write_text(FIRST_RUN)
        self.data.mkdir(mode=0o700)
        self.target.mkdir(mode=0o700)
        if not self.first_files:
            self.make()
        for name, content in self.first_files.items():
            (self.data / name).write_bytes(content)
            (self.data / name).chmod(0o600)

    def make(self) -> None:
        prepare_sqlite(self.data)
        keys.write(self.data, KEY)
        self.auth(
            lambda connection: keyring.check_key(
                connection, self.keys, KeySource.FILE, NOW_MS, SqliteStore(data=self.data)
            )
        )
        BackupCase.pair = self.join(ANNA)
        self.save("auto", b"one")
        BackupCase.first_files.update({path.name: path.read_bytes() for path in self.data.iterdir()})

    def auth(self, transaction: Callable[[Connection], object]) -> object:
        return run_transaction(self.data / "auth.db", transaction)

    def join(self, player_id: str) -> CredentialPair:
        """Add a player, who signs in; return the credentials."""
        issuer = CredentialIssuer(keys=self.keys, policy=POLICY, random=self.random)

        def transaction(connection: Connection) -> None:
            player_tables.create_player(connection, player_id, NOW_MS)

        self.auth(transaction)
        pairs: list[CredentialPair] = []
        self.auth(lambda connection: pairs.append(sign_in(connection, issuer, NOW_MS, player_id=player_id)[1]))
        return pairs[0]

    def save(self, slot: str, data: bytes) -> None:
        with closing(connect(file_uri(self.data / "state.db", "rw"))) as connection:
            put(connection, slot, data)

    def back_up(self, now_ms: int = NOW_MS) -> Backup:
        return backup.write(SqliteStore(data=self.data), self.where, self.target, now_ms)

    def players(self, file: str = "auth.db") -> list[tuple[object, ...]]:
        return rows(self.data / file, "SELECT player_id, state FROM player ORDER BY 1")

    def slots(self, file: str = "state.db") -> list[str]:
        return [str(slot) for (slot,) in rows(self.data / file, "SELECT slot FROM save ORDER BY 1")]

    def change_after_backup(self) -> None:
        """Add a player and a save after a backup."""
        self.join(BERT)
        self.save("later", b"two")


def command(folder: Path, environ: Mapping[str, str], *arguments: str) -> tuple[int, str, str]:
    """Run a command in a forked process, which need not import anything; return exit code, stdout and stderr."""
    folder.mkdir(exist_ok=True, parents=True)
    out, err = folder / "out", folder / "err"
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        _run(out, err, environ, arguments)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), out.read_text("utf-8"), err.read_text("utf-8")


def _run(out: Path, err: Path, environ: Mapping[str, str], arguments: Sequence[str]) -> NoReturn:
    code = 70
    try:
        for number, path in ((1, out), (2, err)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        os.environ.clear()
        os.environ.update(environ)
        gamed(list(arguments), prog_name="gamed", obj=False)
    except SystemExit as e:
        code = int(e.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def put(connection: Connection, slot: str, data: bytes) -> None:
    prepare(connection)
    stored = StoredSlot(connection=connection)
    stored.put(UNCONDITIONAL, data, slot=slot)


def rows(path: Path, sql: str) -> list[tuple[object, ...]]:
    with closing(connect(file_uri(path, "rw"))) as connection:
        return ask(sql)(connection)


def killed_at_step(work: Callable[[], object], folder: Path, step: int) -> bool:
    """Fork, and kill the work before its `step`th access to the folder; return False if it ended first."""
    child = os.fork()
    if child == 0:
        _work_until_killed(work, str(folder), step)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True
    if status:
        raise AssertionError(f"ended with {os.waitstatus_to_exitcode(status)}")
    return False


def _work_until_killed(work: Callable[[], object], folder: str, step: int) -> NoReturn:
    left = step

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        if event in STEPS and folder in str(arguments[0]):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    try:
        os.fsync = lambda descriptor: None  # type: ignore[assignment]  # kill -9 is no power cut
        sys.addaudithook(hook)
        work()
        os._exit(0)
    except BaseException as e:
        os.write(2, repr(e).encode())
        os._exit(1)
