"""Tests start PostgreSQL themselves: a cluster of their own with `fsync` on, which ends and vanishes with them."""

import atexit
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import psycopg

from tests.support.folders import memory
from tests.support.ports import free_port

ROLE, PASSWORD = "gamed", "correct horse battery staple"
"""An ordinary role that owns the databases; TCP asks for the password, the unix socket does not."""
SUPERUSER = "postgres"
PORT = 5432
WAIT_SECONDS = 60.0
NOT_BYTES = ("--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=en-US")
"""A default order that is not that of bytes: a column or a query that needs that one has to name it."""
SETTINGS = {
    "autovacuum_naptime": "10s",
    "fsync": "on",
    "jit": "off",
    "log_line_prefix": "%m [%p] %d ",
    "max_connections": "300",
    "max_wal_size": "256MB",
    "shared_buffers": "64MB",
}
# It runs as the server's user. The end of this process, however it comes, is the end of its input.
KEEPER = """
read -r _
if read -r pid 2>/dev/null <data/postmaster.pid; then
    kill -CONT "$pid"; kill -QUIT "$pid"
    for _ in 1 2 3 4 5 6 7 8 9 10; do kill -0 "$pid" 2>/dev/null || break; sleep 0.2; done
    kill -KILL "$pid" 2>/dev/null
fi
cd / && rm -rf "$0"
"""
_names = count(1)


class Address(msgspec.Struct, frozen=True):
    """The address of one database."""

    host: str
    """A folder, which has the unix socket, or an IP address."""
    port: int
    database: str
    user: str = ROLE
    password: str = ""

    @property
    def url(self) -> str:
        """Return the address without the password, as an owner configures it."""
        if self.host.startswith("/"):
            return f"postgresql://{self.user}@/{self.database}?host={self.host}&port={self.port}"
        return f"postgresql://{self.user}@{self.host}:{self.port}/{self.database}"

    @property
    def conninfo(self) -> str:
        """Return the address without the password, as keywords of libpq."""
        return " ".join(f"{name}={value}" for name, value in self.keywords.items())

    @property
    def keywords(self) -> dict[str, str]:
        """Return the address without the password, as values by the keywords of libpq."""
        return {"host": self.host, "port": str(self.port), "user": self.user, "dbname": self.database}


class Cluster:
    """A running PostgreSQL with databases of its own, which ends with this process."""

    def __init__(
        self, *, tcp: bool = False, settings: Mapping[str, str] | None = None, base: str | None = None
    ) -> None:
        """Start it; with `tcp` it also listens on 127.0.0.1.

        `settings` are lines of postgresql.conf; `base` is the folder for its own one, if it shall not be in memory.
        """
        self._make_folder(base)
        options = ("--encoding=UTF8", *NOT_BYTES, "--auth-local=trust", "--auth-host=scram-sha-256", "--no-sync")
        self._run("initdb", "--pgdata=data", f"--username={SUPERUSER}", *options)
        self.configure({**SETTINGS, **self._listening(tcp), **(settings or {})})
        self.start()
        self.execute(f"CREATE ROLE {ROLE} LOGIN PASSWORD '{PASSWORD}'")

    def _make_folder(self, base: str | None = None) -> None:
        self.user = _user()
        self.folder = Path(tempfile.mkdtemp(prefix="gamed-pg-", dir=base or memory()))
        self.data = self.folder / "data"
        self.folder.chmod(0o755)
        if self.user is not None:
            shutil.chown(self.folder, self.user, pwd.getpwnam(self.user).pw_gid)
        self._keeper = self._spawn("sh", "-c", KEEPER, str(self.folder), stdin=subprocess.PIPE)
        self._server: subprocess.Popen[bytes] | None = None
        atexit.register(self.close)

    def _listening(self, tcp: bool) -> dict[str, str]:
        self.tcp = tcp
        self.port = free_port() if tcp else PORT
        sockets = {"port": str(self.port), "unix_socket_directories": str(self.folder)}
        return {**sockets, "listen_addresses": "127.0.0.1" if tcp else ""}

    def close(self) -> None:
        """Kill the server and delete its folder."""
        atexit.unregister(self.close)
        if self._server is not None:
            self.signal(signal.SIGCONT)
            self.stop("immediate")
        assert self._keeper.stdin is not None
        self._keeper.stdin.close()
        self._keeper.wait(WAIT_SECONDS)

    def configure(self, settings: Mapping[str, str]) -> None:
        """Add lines to postgresql.conf; the next start, or reload(), reads them."""
        with open(self.data / "postgresql.conf", "a", encoding="utf-8") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())

    def reload(self) -> None:
        """Let the server read postgresql.conf again."""
        self.signal(signal.SIGHUP)

    def start(self) -> None:
        """Start the server, and return when it accepts connections."""
        assert self._server is None
        with open(self.folder / "log", "ab") as log:
            self._server = self._spawn(str(programs() / "postgres"), "-D", "data", stdout=log, stderr=log)
        deadline = time.monotonic() + WAIT_SECONDS
        while not self._accepts():
            if self._server.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"PostgreSQL did not start:\n{self.log()[-4000:]}")
            time.sleep(0.02)

    def _accepts(self) -> bool:
        """Return whether the last line of the server's own file tells that it is ready, or a standby that is."""
        with suppress(FileNotFoundError):
            lines = (self.data / "postmaster.pid").read_text("utf-8").splitlines()
            return len(lines) > 7 and lines[0] == str(self.pid) and lines[7].strip() in {"ready", "standby"}
        return False

    def stop(self, mode: str = "fast") -> None:
        """Stop the server as `pg_ctl stop -m` does: smart, fast, or immediate, which is like a power cut."""
        self.signal({"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}[mode])
        assert self._server is not None
        self._server.wait(WAIT_SECONDS)
        self._server = None

    def restart(self, mode: str = "fast") -> None:
        """Stop the server, and start it again."""
        self.stop(mode)
        self.start()

    @property
    def pid(self) -> int:
        """Return the number of the server's first process."""
        assert self._server is not None, "it is stopped"
        return self._server.pid

    def signal(self, number: int) -> None:
        """Send a signal to the server's first process."""
        os.kill(self.pid, number)

    def log(self) -> str:
        """Return what the server has logged."""
        return (self.folder / "log").read_text("utf-8", "replace")

    def address(self, database: str = "postgres", *, user: str = ROLE, tcp: bool = False) -> Address:
        """Return the address of a database, by the unix socket or by TCP."""
        if tcp:
            assert self.tcp
            return Address("127.0.0.1", self.port, database, user, PASSWORD)
        return Address(str(self.folder), self.port, database, user)

    def database(self, template: str = "template0", *, tcp: bool = False) -> Address:
        """Return the address of a new database: an empty one, or a copy of another that nobody uses."""
        name = f"test{next(_names)}"
        self.execute(f"CREATE DATABASE {name} OWNER {ROLE} TEMPLATE {template} STRATEGY FILE_COPY")
        return self.address(name, tcp=tcp)

    def drop(self, database: str) -> None:
        """Delete a database, and end the connections to it."""
        self.execute(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")

    def execute(self, sql: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Execute one statement as superuser, outside a transaction; return its rows."""
        with psycopg.connect(self.address(database, user=SUPERUSER).conninfo, autocommit=True) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    def backends(self, database: str) -> list[int]:
        """Return the numbers of the processes that serve connections to a database."""
        return [pid for (pid,) in self.execute(f"SELECT pid FROM pg_stat_activity WHERE datname = '{database}'")]

    def end_backends(self, database: str) -> int:
        """End all connections to a database, as an administrator does; return how many there were."""
        sql = f"SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '{database}'"
        return len(self.execute(sql))

    def standby(self, *, synchronous: bool = False) -> "Standby":
        """Return a running copy that follows this cluster; `synchronous`: every commit waits for it."""
        return Standby(self, synchronous=synchronous)

    def _spawn(self, *command: str, **streams: Any) -> "subprocess.Popen[bytes]":
        if self.user is not None:
            streams |= {"user": self.user, "group": pwd.getpwnam(self.user).pw_gid, "extra_groups": []}
        environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"}
        streams = {"stdin": subprocess.DEVNULL, **streams}
        return subprocess.Popen(command, cwd=self.folder, env=environment, start_new_session=True, **streams)

    def _run(self, program: str, *options: str) -> None:
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        process = self._spawn(str(programs() / program), *options, **streams)
        output, _ = process.communicate(timeout=WAIT_SECONDS)
        assert process.returncode == 0, f"{program}: {output.decode()}"


class Standby(Cluster):
    """A cluster that follows another one, and can take its place."""

    def __init__(self, primary: Cluster, *, synchronous: bool) -> None:
        self._make_folder()
        name = f"standby{next(_names)}"
        place = primary.address(user=SUPERUSER)
        from_primary = (f"--host={place.host}", f"--port={place.port}", f"--username={place.user}")
        self._run("pg_basebackup", "--pgdata=data", *from_primary, "--checkpoint=fast", "--no-sync")
        (self.data / "standby.signal").touch()
        conninfo = f"{place.conninfo} application_name={name}"
        self.configure({**self._listening(primary.tcp), "primary_conninfo": conninfo})
        self.start()
        if synchronous:
            primary.configure({"synchronous_standby_names": name})
            primary.reload()
            _await(lambda: _is_synchronous(primary, name))

    def promote(self) -> None:
        """Make this the primary; the former one should be stopped."""
        [(promoted,)] = self.execute(f"SELECT pg_promote(true, {WAIT_SECONDS:.0f})")
        assert promoted


@cache
def cluster() -> Cluster:
    """Return the cluster of this process, which is started at the first call."""
    return Cluster()


def _is_synchronous(primary: Cluster, name: str) -> bool:
    sql = f"SELECT 1 FROM pg_stat_replication WHERE application_name = '{name}' AND sync_state = 'sync'"
    return primary.execute(sql) != []


def _await(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not happened():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.02)


@cache
def programs() -> Path:
    """Return the folder of the newest PostgreSQL's programs: Debian does not put them on the path."""
    folders = [*Path("/usr/lib/postgresql").glob("*/bin")]
    if found := shutil.which("postgres"):
        folders.append(Path(found).parent)
    folders = [folder for folder in folders if (folder / "initdb").exists() and (folder / "postgres").exists()]
    assert folders, "PostgreSQL is not installed. Install it: apt-get install postgresql"
    return max(folders, key=lambda folder: [int(digits) for digits in re.findall(r"\d+", str(folder))])


def installed_major() -> int:
    """Return the major version of those programs, such as 15."""
    done = subprocess.run([programs() / "postgres", "--version"], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[2].partition(".")[0])


def _user() -> str | None:
    """Return the user as whom the server runs, if not as this one: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    names = {each.pw_name for each in pwd.getpwall()}
    return next(name for name in ("postgres", "nobody") if name in names)
