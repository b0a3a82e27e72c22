"""The lock of a data folder keeps two servers apart that do not share it, and commands that need the folder alone.

One server holds it exclusively; servers with --share hold it together. The kernel's lock decides. The holders note
their process in the file, for messages; servers that share the folder also note the place of their databases, which the
next one compares with its own.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from gamed.cli.errors import CommandFailed, SetupError
from gamed.structs import Component

LOCK_FILE = "gamed.lock"
SERVE, SHARE = "gamed serve", "gamed serve --share"
"""The line that a server notes in the file."""
PLACE = "store "
"""The beginning of the line with the place of the databases."""
NETWORK = {
    *("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "virtiofs", "afs", "beegfs", "ceph", "coda", "davfs", "gfs2"),
    *("glusterfs", "gpfs", "lustre", "ncpfs", "ocfs2", "orangefs"),
    *("curlftpfs", "grpcfuse", "juicefs", "mfs", "rclone", "s3fs", "sshfs"),
}
"""Types of file systems that other machines use, too; some of them are of FUSE."""
MOUNT_POINT = 4
"""The position of the mount point in a line of mountinfo."""
MAX_NOTE_BYTES = 4096
RETRY_SECONDS = 0.05
GRACE_SECONDS = 1.0
"""How long a server that shares waits for a holder that has not noted itself yet."""


class LockHolder(Struct, frozen=True):
    """A process that holds the lock, as it noted itself."""

    pid: int
    purpose: str
    """A command, such as `gamed restore`."""


class Lock(Component, frozen=True, kw_only=True):
    """The lock of a data folder: an open descriptor.

    Forks inherit the descriptor. The kernel releases the lock when the last of the processes ends, however it ends.
    """

    descriptor: int
    purpose: str
    alone: bool
    """Whether this process alone may use the folder."""
    made: Path | None = None
    """The file, if this process made it."""

    @classmethod
    def acquire(cls, data: Path, purpose: str) -> "Lock":
        """Return the lock of this folder for one process alone, which notes `purpose` there.

        Raise CommandFailed if another process holds it, SetupError if locking fails.
        """
        while True:
            descriptor, made = _open(data)
            if not _try(descriptor, fcntl.LOCK_EX, data):
                raise _close_refused(descriptor, data, purpose)
            if _is_named(descriptor):
                return cls._noted(descriptor, purpose, made, alone=True)

    @classmethod
    def acquire_shared(cls, data: Path, working: Callable[[], None]) -> "Lock":
        """Return the lock for a server with --share: alone if no other holds it, so that it can prepare the folder.

        While another such server prepares the folder, wait and call `working` repeatedly. Raise as acquire() does.
        """
        descriptor, made = _open(data)
        patient_until = time.monotonic() + GRACE_SECONDS
        while True:
            kind = next((each for each in (fcntl.LOCK_EX, fcntl.LOCK_SH) if _try(descriptor, each, data)), None)
            if kind is not None:
                if _is_named(descriptor):
                    return cls._noted(descriptor, SHARE, made, alone=kind == fcntl.LOCK_EX)
                descriptor, made = _open(data)
                continue
            prepares = any(holder.purpose == SHARE for holder in _holders(descriptor))
            if not prepares and time.monotonic() > patient_until:
                raise _close_refused(descriptor, data, SHARE)
            working()
            time.sleep(RETRY_SECONDS)

    @classmethod
    def _noted(cls, descriptor: int, purpose: str, made: Path | None, *, alone: bool) -> "Lock":
        lock = cls(descriptor=descriptor, purpose=purpose, alone=alone, made=made)
        lock.note()
        return lock

    def note(self) -> None:
        """Note this process in the file; call it again after a fork. A full disk does not matter."""
        if self.alone:
            self._write([], None)
        else:
            self._write(_holders(self.descriptor), self.place())

    def place(self) -> str | None:
        """Return the place of the databases of the servers that share the folder; None if they noted none."""
        places = [line.removeprefix(PLACE) for line in _lines(self.descriptor) if line.startswith(PLACE)]
        return places[-1] if places else None

    def _write(self, others: Sequence[LockHolder], place: str | None) -> None:
        holders = dict.fromkeys([*others, LockHolder(os.getpid(), self.purpose)])
        lines = [PLACE + place] if place else []
        lines += [f"{holder.pid} {holder.purpose}" for holder in holders]
        with suppress(OSError):
            os.ftruncate(self.descriptor, 0)
            os.write(self.descriptor, "".join(f"{line}\n" for line in lines).encode("ascii"))

    def share(self, place: str | None = None) -> "Lock | None":
        """Return the lock as other servers with --share may hold it, too; note the place of this server's databases.

        Return None if another process took the folder in between, which the kernel allows: the lock is then lost.
        """
        self._write([], place)
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self.descriptor)
            return None
        return Lock(descriptor=self.descriptor, purpose=self.purpose, alone=False)

    def release(self) -> None:
        os.close(self.descriptor)

    @contextmanager
    def removed_on_failure(self) -> Iterator[None]:
        """Remove the file if this process made it and the block fails; the lock stays with this process."""
        try:
            yield
        except BaseException:
            if self.made is not None:
                with suppress(OSError):
                    self.made.unlink()
            raise


def refuse_network_folder(data: Path, mounts: str) -> None:
    """Raise SetupError if a folder that servers are to share is on a network file system.

    SQLite's write-ahead log needs memory that all its processes share. `mounts` is /proc/self/mountinfo (proc(5)).
    """
    kind = file_system(data, mounts)
    if kind is not None and kind.removeprefix("fuse.") in NETWORK:
        raise SetupError(
            f"{data} is on a network file system ({kind}), where servers cannot share it. Name a folder on a local "
            "disk with --data DIR, or run one server, without --share and --workers."
        )


def file_system(path: Path, mounts: str) -> str | None:
    """Return the type of the file system that has this absolute path, or None if no mount is known."""
    found: tuple[int, str] | None = None
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields, (kind, *_) = before.split(" "), [*after.split(" "), ""]
        if len(fields) <= MOUNT_POINT or not path.is_relative_to(point := Path(_unescaped(fields[MOUNT_POINT]))):
            continue
        if found is None or len(point.parts) >= found[0]:  # a later mount hides an earlier one
            found = (len(point.parts), kind)
    return None if found is None else found[1]


def _unescaped(text: str) -> str:
    """Resolve the escapes that the kernel writes for blanks, tabs, line ends and backslashes."""
    for character in " \t\n\\":
        text = text.replace(f"\\{ord(character):03o}", character)
    return text


def _open(data: Path) -> tuple[int, Path | None]:
    """Return a descriptor of the lock file, and its path if this process made it."""
    file, flags = data / LOCK_FILE, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    try:
        try:
            return os.open(file, flags | os.O_EXCL, 0o600), file
        except FileExistsError:
            return os.open(file, flags, 0o600), None
    except OSError as e:
        raise SetupError(f"{file} cannot be opened ({e.strerror}). Make this user the owner of the folder.") from None


def _is_named(descriptor: int) -> bool:
    """Return whether the locked file still has its name, else close it.

    The process that held the lock before may have removed the file, and the next one locks another of that name.
    """
    if os.fstat(descriptor).st_nlink:
        return True
    os.close(descriptor)
    return False


def _try(descriptor: int, kind: int, data: Path) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as e:
        os.close(descriptor)
        raise SetupError(
            f"{data} cannot be locked ({e.strerror}). Name a folder on a local disk with --data DIR."
        ) from None
    return True


def _holders(descriptor: int) -> Sequence[LockHolder]:
    """Return the processes that noted themselves and still live; a file that others wrote has none."""
    noted = [line.partition(" ") for line in _lines(descriptor)]
    holders = [LockHolder(int(pid), purpose) for pid, _, purpose in noted if pid.isdecimal() and len(pid) < 10]
    return [holder for holder in dict.fromkeys(holders) if _lives(holder.pid)]


def _lines(descriptor: int) -> Sequence[str]:
    return os.pread(descriptor, MAX_NOTE_BYTES, 0).decode("ascii", "replace").splitlines()


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it belongs to another user
        return True
    return True


def _close_refused(descriptor: int, data: Path, purpose: str) -> CommandFailed:
    """Return the exception for a folder that other processes hold, which names them, and close the descriptor."""
    holders = _holders(descriptor)
    os.close(descriptor)
    numbers = " and ".join(str(holder.pid) for holder in holders)
    processes = f" ({'process' if len(holders) == 1 else 'processes'} {numbers})" if holders else ""
    commands = [holder.purpose for holder in holders if holder.purpose not in (SERVE, SHARE)]
    if commands:
        return CommandFailed(f"{commands[0]}{processes} needs {data} alone. Try again when it has finished.")
    if purpose not in (SERVE, SHARE):
        return CommandFailed(f"A gamed serves {data}{processes}. Stop it first.")
    return CommandFailed(
        f"Another gamed already serves {data}{processes}. Stop that one first, start all with --share, or name another "
        "folder with --data DIR."
    )
