"""The process: its memory, environment, user and signals, set up before any secret is read.

SIGTERM ends the server with exit code 0 at every moment of its life, however often it is sent. A signal that is not
handled kills the process, which a container's engine counts as a failure; as process 1 of a container, such a signal
is even lost. Python removes its handlers when it finalizes, but leaves an ignored signal ignored: so the first signal
makes all later ones ignored.
"""

import atexit
import ctypes
import os
import pwd
import resource
import shlex
import signal
import sys
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from gamed.cli.errors import SetupError
from gamed.cli.paths import write_whole
from gamed.database.connection import AUTH, STATE
from gamed.database.scripts import keep_scripts

LISTENERS_FILE = "gamed.listeners"
LATE_MODULES = (
    *("concurrent.futures.thread", "difflib", "email.utils", "encodings.idna", "getpass", "socket", "stringprep"),
    *("argon2", "argon2.exceptions", "click._termui_impl", "click.shell_completion", "twisted.logger"),
    *(
        "gamed.cli.service.listen",
        "gamed.database.sqlite.processes",
        "gamed.players.passwords",
        "gamed.cli.data.store_dump",
        "gamed.saves.model",
    ),
)
LATE_WITH_POSTGRESQL = (
    *("psycopg", "gamed.cli.data.store_copy", "gamed.database.postgresql.dump", "gamed.database.postgresql.store"),
)
"""The modules that commands import within a function, without and with a PostgreSQL store."""
PR_SET_PDEATHSIG, PR_SET_DUMPABLE = 1, 4


def harden() -> None:
    """Make new files private to their owner, and never write memory to a core file; call this before any secret."""
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    libc = ctypes.CDLL(None)
    if hasattr(libc, "prctl"):  # Linux: /proc/<pid>/{environ,mem,...} then belong to root
        libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def end_with_parent(parent: int) -> None:
    """Let the kernel send SIGTERM to this process when its parent ends; exit at once if that has ended already."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "prctl"):
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


def exit_with_code(code: int) -> None:
    """Let this process end with an exit code once the reactor has stopped; twistd itself ends with 0."""

    def leave() -> NoReturn:
        with suppress(OSError, ValueError):  # closed, or the reader has ended
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)

    atexit.register(leave)


def erase_variables(names: Iterable[str]) -> None:
    """Remove variables from the environment, and their values from the memory that /proc/<pid>/environ shows.

    unsetenv() alone only drops the pointer: the text that the process was started with stays readable.
    """
    wanted = {os.fsencode(name) for name in names}
    for address in _environment_entries():
        name, mark, value = ctypes.string_at(address).partition(b"=")
        if mark and name in wanted:
            ctypes.memset(address + len(name) + 1, 0, len(value))
    for name in wanted:
        os.environb.pop(name, None)


def _environment_entries() -> list[int]:
    """Return the address of each `NAME=value` of this process."""
    block = ctypes.POINTER(ctypes.c_void_p).in_dll(ctypes.CDLL(None), "environ")
    found: list[int] = []
    while block and (address := block[len(found)]):
        found.append(address)
    return found


def ran_by() -> str:
    """Return the user who runs this process, as `uid:0`, or `uid:0/sudo:1000`; call it before switch_to_owner()."""
    caller = os.environ.get("SUDO_UID", "")
    return f"uid:{os.getuid()}" + (f"/sudo:{caller}" if caller.isdecimal() and caller != str(os.getuid()) else "")


def switch_to_owner(data: Path) -> None:
    """Let root become the user who owns the data folder: no file there may belong to root."""
    if (owner := _other_owner(data)) is None:
        return
    _load_all()
    try:
        os.initgroups(pwd.getpwuid(owner.st_uid).pw_name, owner.st_gid)
    except KeyError:  # a container's user that this machine has no name for
        os.setgroups([owner.st_gid])
    os.setgid(owner.st_gid)
    os.setuid(owner.st_uid)


def _load_all() -> None:
    """Import what commands import late, and keep the scripts of the schemas.

    The user whom root becomes may be unable to read this Python, such as one below /root: an import would fail then,
    half-way through a command.
    """
    postgresql = "psycopg.pq" in sys.modules  # the configuration names such a store, and the driver is there
    for name in (*LATE_MODULES, *(LATE_WITH_POSTGRESQL if postgresql else ())):
        import_module(name)
    import_module("sysconfig").get_config_vars()  # imports a module whose name depends on the platform
    for engine in ("sqlite", "postgresql") if postgresql else ("sqlite",):
        migrations = import_module(f"gamed.database.{engine}.migrations")
        for database in (AUTH, STATE):
            keep_scripts(migrations.schema_folder(database))


def refuse_foreign_folder(data: Path) -> None:
    """Raise SetupError for root: a server would leave files in another user's folder that the user cannot open."""
    if (owner := _other_owner(data)) is None:
        return
    try:
        name = user = pwd.getpwuid(owner.st_uid).pw_name
        groups = "--init-groups"
    except KeyError:  # a container's user that this machine has no name for
        name, user, groups = f"#{owner.st_uid}", str(owner.st_uid), "--clear-groups"
    change = ["setpriv", f"--reuid={user}", f"--regid={owner.st_gid}", groups, "--"]
    raise SetupError(
        f"{data} belongs to {name}, who could not open the files that root makes there. Make the folder root's own, or "
        "run the server as that user (User= of a unit, --user of a container), which this command does with the same "
        f"settings: {shlex.join([*change, *sys.orig_argv])}"
    )


def _other_owner(data: Path) -> os.stat_result | None:
    """Return the state of a folder that belongs to another user; None if there is none, or if this is not root."""
    if os.geteuid() != 0 or not data.exists():
        return None
    owner = data.stat()
    return None if owner.st_uid == 0 else owner


def write_listeners(data: Path, listeners: Sequence[str]) -> None:
    """Record for `gamed health` where the server of this folder listens; a reader sees the old record or the new one.

    The record is a file of its own: the lock belongs to the lock file's inode and would not survive a rename.
    """
    if list(listeners) != read_listeners(data):
        content = "".join(f"{listener}\n" for listener in listeners).encode()
        write_whole(data / LISTENERS_FILE, content, 0o600)


def read_listeners(data: Path) -> list[str]:
    """Return the endpoints of this folder's server, also a stopped one; [] if it was never started."""
    try:
        return (data / LISTENERS_FILE).read_text("utf-8").splitlines()
    except FileNotFoundError:
        return []


def name_passed_sockets(environ: MutableMapping[str, str]) -> None:
    """Give a name to each socket that was passed without one; call this before Twisted is imported.

    Only LISTEN_PID and LISTEN_FDS are required (sd_listen_fds(3)). Twisted takes none of the sockets unless there are
    as many names: their clients would wait for ever, while the server listens at its usual port.
    """
    passed = passed_sockets(environ)
    names = environ.get("LISTEN_FDNAMES", "")
    if passed and passed != (len(names.split(":")) if names else 0):
        environ["LISTEN_FDNAMES"] = ":".join(["unknown"] * passed)  # as sd_listen_fds_with_names(3)


def first_environment() -> Mapping[str, str]:
    """Return the environment that this process was started with; an empty one if it cannot be read."""
    try:
        pairs = Path("/proc/self/environ").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return {}
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)


def passed_sockets(environ: Mapping[str, str]) -> int:
    """Return the number of passed sockets; 0 if LISTEN_PID names another process, as for a child of it."""
    passed = environ.get("LISTEN_FDS", "")
    is_ours = environ.get("LISTEN_PID") == str(os.getpid())
    return int(passed) if is_ours and passed.isascii() and passed.isdecimal() else 0


def exit_cleanly_on_sigterm() -> None:
    """Let SIGTERM end the process with 0, without any cleanup, while the server starts.

    That is safe as `kill -9` is safe. An exception would not be: SQLite, which calls back into Python while it
    migrates a database, would turn it into a database error.
    """

    def end(number: int, frame: object) -> NoReturn:
        os._exit(0)

    signal.signal(signal.SIGTERM, end)


def stop_reactor_on_signals(reactor: Any) -> None:
    """Let SIGTERM or SIGINT stop the reactor, or stop it as soon as it runs.

    The process then ends with 0 after SIGTERM, and with the signal after SIGINT, unless SIGTERM came in the same
    moment: of two signals at once Python handles SIGINT first. Twisted's own handlers, `reactor.sigTerm` and
    `reactor.sigInt`, would log a traceback for each signal after the first. An ignored SIGINT stays ignored.
    """
    from twisted.internet.error import ReactorNotRunning  # late: commands need no Twisted

    terminated = False

    def stop() -> None:
        with suppress(ReactorNotRunning):  # the other signal, or an error, stopped it in the same moment
            reactor.stop()

    def stop_interrupted() -> None:
        _ignore_signals()
        if not terminated:
            reactor._exitSignal = signal.SIGINT  # what Twisted's own handler sets: the signal to end with
            stop()

    def terminate(number: int, frame: object) -> None:
        nonlocal terminated
        terminated = True
        _ignore_signals()
        reactor.callFromThread(stop)

    def interrupt(number: int, frame: object) -> None:
        if not terminated:
            reactor.callFromThread(stop_interrupted)  # later, as the handler of SIGTERM may be due

    reactor.sigTerm, reactor.sigInt = terminate, interrupt
    signal.signal(signal.SIGTERM, terminate)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # Twisted puts this back when the reactor stops
        signal.signal(signal.SIGINT, interrupt)


def _ignore_signals() -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
