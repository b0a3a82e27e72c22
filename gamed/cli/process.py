"""What a process asks of its machine: no core file, no look from outside, an empty environment, enough files.

Which user works here: every file in a data folder belongs to the user whose folder it is.

One server per data folder: a lock that lives as long as the process, and through twistd's forks.
"""

import ctypes
import fcntl
import os
import pwd
import resource
import shlex
import signal
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from gamed.cli.errors import CommandFailed, SetupError
from gamed.cli.paths import write_whole
from gamed.structs import Component

PR_SET_DUMPABLE = 4


def harden() -> None:
    """Before any secret is read: files are made for their owner only, memory is never written to a core file."""
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    libc = ctypes.CDLL(None)
    if hasattr(libc, "prctl"):  # Linux: /proc/<pid>/{environ,mem,...} then belong to root
        libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def allow_files(wanted: int) -> None:
    """Let the process have so many files open, or as many as it may: most systems begin with 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def forget(names: Iterable[str]) -> None:
    """Take variables out of the environment, and their values out of the block that /proc/<pid>/environ shows.

    unsetenv() alone only drops the pointer: the text the process was started with stays readable.
    """
    wanted = {os.fsencode(name) for name in names}
    for address in _entries():
        name, mark, value = ctypes.string_at(address).partition(b"=")
        if mark and name in wanted:
            ctypes.memset(address + len(name) + 1, 0, len(value))
    for name in wanted:
        os.environb.pop(name, None)


def _entries() -> list[int]:
    """Where each `NAME=value` of this process lies in memory."""
    block = ctypes.POINTER(ctypes.c_void_p).in_dll(ctypes.CDLL(None), "environ")
    found: list[int] = []
    while block and (address := block[len(found)]):
        found.append(address)
    return found


def ran_by() -> str:
    """Who runs this, as `uid:0`, or `uid:0/sudo:1000` for whom root did it; ask before become_owner()."""
    asked = os.environ.get("SUDO_UID", "")
    return f"uid:{os.getuid()}" + (f"/sudo:{asked}" if asked.isdecimal() and asked != str(os.getuid()) else "")


def switch_to_owner(data: Path) -> None:
    """Root working in another user's folder becomes that user: no file there may end up as root's."""
    if (owner := _other_owner(data)) is None:
        return
    try:
        os.initgroups(pwd.getpwuid(owner.st_uid).pw_name, owner.st_gid)
    except KeyError:  # a container's user that this machine has no name for
        os.setgroups([owner.st_gid])
    os.setgid(owner.st_gid)
    os.setuid(owner.st_uid)


def refuse_foreign_folder(data: Path) -> None:
    """Raise Refusal for root: a server would leave files in another user's folder that the user cannot open."""
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
    """For root alone: the folder of another user."""
    if os.geteuid() != 0 or not data.exists():
        return None
    owner = data.stat()
    return None if owner.st_uid == 0 else owner


FILE_NAME = "gamed.lock"
LISTENERS_NAME = "gamed.listeners"


class Lock(Component, frozen=True):
    """An open descriptor; forks inherit it, and the lock falls when the last of them is gone, however it ended."""

    _descriptor: int

    @classmethod
    def take(cls, data: Path) -> "Lock":
        """Return the lock of this folder; raise NotDone while another server holds it, Refusal if locking fails."""
        try:
            descriptor = os.open(data / FILE_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as e:
            raise SetupError(
                f"{data / FILE_NAME} cannot be opened ({e.strerror}); does the folder belong to us?"
            ) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise CommandFailed(
                f"Another gamed already serves {data}; stop that one first, or name another folder with --data DIR."
            ) from None
        except OSError as e:
            os.close(descriptor)
            raise SetupError(
                f"{data} cannot be locked ({e.strerror}); name a folder on a local disk with --data."
            ) from None
        return cls(descriptor)

    def release(self) -> None:
        os.close(self._descriptor)


def note_listeners(data: Path, listeners: Sequence[str]) -> None:
    """Record for `gamed health` where the server of this folder listens; a reader sees the old record or the new one.

    The record is a file of its own: the lock belongs to the lock file's inode and would not survive a rename.
    """
    if list(listeners) != noted(data):
        content = "".join(f"{listener}\n" for listener in listeners).encode()
        write_whole(data / LISTENERS_NAME, content, 0o600)


def noted(data: Path) -> list[str]:
    """Return where the server of this folder listens, or last listened; [] if it was never started."""
    try:
        return (data / LISTENERS_NAME).read_text("utf-8").splitlines()
    except FileNotFoundError:
        return []


SIGNALS = (signal.SIGTERM, signal.SIGINT)


def exit_cleanly_on_sigterm() -> None:
    """While the server starts, let SIGTERM end the process with 0 without any cleanup.

    That is safe as `kill -9` is safe. An exception would not be: SQLite, which calls back into Python while it
    migrates a store, would turn it into a database error.
    """

    def end(number: int, frame: object) -> NoReturn:
        os._exit(0)

    signal.signal(signal.SIGTERM, end)


def stop_reactor_on_sigterm(reactor: Any) -> None:
    """From now on let SIGTERM stop the reactor, or stop it as soon as it runs; the process then ends with 0.

    Twisted installs `reactor.sigTerm` and `reactor.sigInt` when the reactor starts. Its own would end the process with
    the signal, and log a traceback for each signal after the first.
    """
    interrupted = reactor.sigInt

    def terminate(number: int, frame: object) -> None:
        _ignore_all()
        reactor.callFromThread(_stop, reactor)

    def interrupt(number: int, frame: object) -> None:
        _ignore_all()
        interrupted(number, frame)

    reactor.sigTerm, reactor.sigInt = terminate, interrupt
    signal.signal(signal.SIGTERM, terminate)


def _ignore_all() -> None:
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _stop(reactor: Any) -> None:
    from twisted.internet.error import (
        ReactorNotRunning,  # late: the command line needs no Twisted for exit_cleanly_on_sigterm()
    )

    with suppress(ReactorNotRunning):  # SIGINT stopped it in the same moment
        reactor.stop()
