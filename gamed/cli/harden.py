"""What a process asks of its machine: no core file, no look from outside, an empty environment, enough files."""

import ctypes
import os
import resource
from collections.abc import Iterable

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
