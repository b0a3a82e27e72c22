"""Processes that a process has started, and those that these have started, from Linux's /proc."""

import contextlib
import os
import signal
from pathlib import Path


def descendants(pid: int) -> list[int]:
    """Return their ids, also of those in sessions of their own, such as browsers."""
    parents = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            fields = file.read_text("utf-8", "replace").rpartition(")")[2].split()
            parents[int(file.parent.name)] = int(fields[1])
    found = [pid]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found[1:]


def kill_descendants(pid: int) -> None:
    for each in descendants(pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)
