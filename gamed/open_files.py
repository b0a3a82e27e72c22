"""The open files of this process: how many connections they allow, and how many are reserved for everything else.

Like the modules of `gamed.cli`, this is loaded before the reactor.
"""

from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit, setrlimit

RESERVED_FILES = 256
"""Descriptors beside those of connections: for the databases, spooled bodies and the log."""
IDLE_FILES = 32
"""Descriptors of a server without connections: 29 with SQLite."""

TOLERATED_PERCENT = 2


def allow_files(wanted: int) -> None:
    """Raise the limit of open files to `wanted`, or as far as the process may; most systems begin with 1024."""
    soft, hard = getrlimit(RLIMIT_NOFILE)
    most = wanted if hard == RLIM_INFINITY else min(wanted, hard)
    if soft != RLIM_INFINITY and soft < most:
        setrlimit(RLIMIT_NOFILE, (most, hard))


def most_connections(wanted: int, files: int | None = None) -> int:
    """Return the number of connections to accept: the wanted one, but never more than the process may open.

    `files` is the limit of open files, by default that of this process. A quarter of a small one is reserved.
    """
    files = getrlimit(RLIMIT_NOFILE)[0] if files is None else files
    return max(1, min(wanted, files - min(RESERVED_FILES, files // 4)))


def is_limited(most: int, wanted: int) -> bool:
    """Return whether `most` connections are worth a warning.

    A limit of 20,000 files, which is usual, allows 1.3 % fewer than the default: gamed doctor alone reports that.
    """
    return most < wanted - wanted * TOLERATED_PERCENT // 100


def spare_files(wanted_connections: int) -> int:
    """Return half of the descriptors that neither connections nor an idle server use."""
    soft, _hard = getrlimit(RLIMIT_NOFILE)
    return max(1, (soft - most_connections(wanted_connections) - IDLE_FILES) // 2)
