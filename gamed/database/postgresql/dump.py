"""PostgreSQL's own programs copy both schemas into a file, and back.

A program gets the password in its environment, which only its user can read, and never in its arguments. The script of
a restore is one transaction, which is committed only after all of the file was read.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from re import ASCII, compile
from tempfile import TemporaryFile
from time import sleep
from typing import IO, Final

from gamed.config.model import PostgresqlAddress
from gamed.database.backup_format import BackupError, DumpContents
from gamed.database.connection import AUTH, STATE, Connection
from gamed.database.postgresql.identity import read_store_id
from gamed.database.scripts import scripts_in

FOLDERS: Final = Path("/usr/lib/postgresql")
"""Debian has the programs of each version in a folder of its own."""
SCHEMAS: Final = Path(__file__).parent / "schema"
CHUNK: Final = 1024 * 1024
POLL_SECONDS: Final = 0.05
SHOWN_CHARACTERS: Final = 500
EXECUTED: Final = "gamed has sent all"
_VERSION: Final = compile(r"\(PostgreSQL\) ([1-9][0-9]{0,2})", ASCII)


class ProgramMissing(BackupError):
    """A program of PostgreSQL that is not installed, or is older than the server or the file."""


def find_program(name: str, server_major: int, search: Sequence[Path] | None = None) -> Path:
    """Return the path of a program of the server's version, else of the next newer one; raise ProgramMissing.

    Search these folders, by default Debian's and those of PATH. The user that root became may not enter all of root's.
    """
    folders = [*FOLDERS.glob("*/bin"), *map(Path, os.get_exec_path())] if search is None else search
    found = {program: _major(program) for folder in folders if os.access(program := folder / name, os.X_OK)}
    fitting = [program for program in found if found[program] >= server_major]
    if fitting:
        return min(fitting, key=lambda program: found[program])
    install = f"Install a newer one: apt-get install postgresql-client-{server_major}"
    if found:
        raise ProgramMissing(f"{name} {max(found.values())} is older than PostgreSQL {server_major}. {install}")
    raise ProgramMissing(f"{name} is not installed. {install.replace('a newer one', 'it')}")


def _major(program: Path) -> int:
    """Return the version of a program; 0 if it does not run."""
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, env=_environment(), check=False)
    except OSError:
        return 0
    match = _VERSION.search(done.stdout)
    return int(match[1]) if match else 0


def dump(
    connection: Connection, address: PostgresqlAddress, target: Path, working: Callable[[], object]
) -> DumpContents:
    """Write both schemas as a transaction sees them into a new file, which only this user can read.

    The transaction stays open meanwhile. Call `working` repeatedly. Raise BackupError.
    """
    [(snapshot, major)] = connection.rows(
        "SELECT pg_export_snapshot(), CAST(current_setting('server_version_num') AS bigint) / 10000"
    )
    program = find_program("pg_dump", major)
    options = ["--format=custom", "--compress=1", "--no-owner", "--no-privileges", f"--snapshot={snapshot}"]
    options += ["--lock-wait-timeout=60s", f"--schema={AUTH}", f"--schema={STATE}", "--strict-names"]
    target.unlink(missing_ok=True)  # of an earlier attempt
    with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        with _running([str(program), *options, f"--dbname={_conninfo(address)}"], address, stdout=file) as process:
            while process.poll() is None:
                working()
                sleep(POLL_SECONDS)
        os.fsync(file.fileno())
    return _count(connection, _major(program))


def _count(connection: Connection, written_by: int) -> DumpContents:
    queries = (
        "SELECT max(number) FROM auth.schema_version",
        "SELECT max(number) FROM state.schema_version",
        "SELECT count(*) FROM auth.player WHERE state IN ('active', 'blocked')",
        "SELECT count(*) FROM state.save WHERE current_version IS NOT NULL",
    )
    auth, state, players, saves = (int(connection.rows(query)[0][0]) for query in queries)
    return DumpContents({AUTH: auth, STATE: state}, players, saves, written_by, read_store_id(connection))


def verify(path: Path, contents: DumpContents) -> None:
    """Read all of a dump; raise BackupError if pg_restore cannot, or if a newer gamed made the schemas."""
    for database, version in contents.schemas.items():
        if version > (known := len(scripts_in(SCHEMAS / database))):
            raise BackupError(
                f"schema {database} is {version}, this gamed knows {known}: it is of a newer gamed; use that one"
            )
    written_by = contents.written_by
    with _running([str(find_program("pg_restore", written_by)), "--file=/dev/null", str(path)]) as process:
        process.wait()


def load(address: PostgresqlAddress, path: Path, server_major: int, before: Sequence[str]) -> None:
    """Execute the statements `before`, then make both schemas from a file, all in one transaction; raise BackupError.

    psql gets the COMMIT only after it has executed everything: if this process is killed, psql ends without it.
    """
    reader = find_program("pg_restore", server_major)
    script = [str(reader), "--no-owner", "--no-privileges", "--file=-", str(path)]
    psql = [str(reader.with_name("psql")), "--no-psqlrc", "--quiet", "--tuples-only", "--set=ON_ERROR_STOP=1"]
    psql = [*psql, f"--dbname={_conninfo(address)}"]
    with _running(psql, address, subprocess.PIPE, subprocess.PIPE) as writer:
        assert writer.stdin is not None and writer.stdout is not None
        try:
            writer.stdin.write("".join(f"{statement};\n" for statement in ("BEGIN", *before)).encode())
            with _running(script, stdout=subprocess.PIPE) as process:
                assert process.stdout is not None
                shutil.copyfileobj(process.stdout, writer.stdin, CHUNK)
            writer.stdin.write(f"SELECT '{EXECUTED}';\n".encode())
            writer.stdin.flush()
            if any(EXECUTED.encode() in line for line in writer.stdout):
                writer.stdin.write(b"COMMIT;\n")
            writer.stdin.close()
        except BrokenPipeError:  # psql has ended, and has reported why
            with suppress(BrokenPipeError):
                writer.stdin.close()
        except BaseException:
            writer.kill()
            raise


@contextmanager
def _running(
    command: Sequence[str],
    address: PostgresqlAddress | None = None,
    stdin: int = subprocess.DEVNULL,
    stdout: int | IO[bytes] = subprocess.DEVNULL,
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a program until the end of the block; raise BackupError with its first error if it fails."""
    with TemporaryFile() as errors:
        process = subprocess.Popen(command, stderr=errors, env=_environment(address), stdin=stdin, stdout=stdout)
        try:
            yield process
            process.wait()
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        if process.returncode:
            errors.seek(0)
            text = errors.read(SHOWN_CHARACTERS).decode("utf-8", "replace").strip() or f"exit code {process.returncode}"
            raise BackupError(f"{Path(command[0]).name}: {' '.join(text.split())}")


def _environment(address: PostgresqlAddress | None = None) -> Mapping[str, str]:
    """Return the environment of a program: nothing that changes the address, and no file of a home directory."""
    password = address.password if address else None
    secret = {} if password is None else {"PGPASSWORD": os.fsdecode(password.reveal())}
    fixed = {"HOME": "/nonexistent", "LC_ALL": "C", "PGCONNECT_TIMEOUT": "10", "PGPASSFILE": "/dev/null"}
    return {"PATH": os.environ.get("PATH", os.defpath), **fixed, **secret}


def _conninfo(address: PostgresqlAddress) -> str:
    """Return the address as one argument, without the password."""
    escaped = {name: value.replace("\\", "\\\\").replace("'", "\\'") for name, value in address.conninfo.items()}
    return " ".join(f"{name}='{value}'" for name, value in escaped.items())
