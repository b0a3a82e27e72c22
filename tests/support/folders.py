"""Folders of tests are in memory where there is room: there a commit waits for nothing, on a disk 20 ms and more.

A killed process loses as much there as on a disk, because the page cache outlives it.
"""

import os
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

from twisted.trial.unittest import SynchronousTestCase

MEMORY = "/dev/shm"
MEMORY_BYTES = 4 * 1024**3
"""The free memory from which on it is used."""


def memory() -> str | None:
    """Return a folder in memory, None if it has too little room, or programs in it would not start."""
    try:
        found = os.statvfs(MEMORY)
    except OSError:
        return None
    usable = found.f_bavail * found.f_frsize >= MEMORY_BYTES and not found.f_flag & os.ST_NOEXEC
    return MEMORY if usable and os.access(MEMORY, os.W_OK) else None


def unused_path(test: SynchronousTestCase) -> Path:
    """Return the path of a folder that does not exist yet; it is deleted after the test."""
    around = mkdtemp(prefix="gamed-test-", dir=memory())
    test.addCleanup(rmtree, around, ignore_errors=True)
    return Path(around, "folder")
