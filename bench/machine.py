"""The state of the machine decides how much a figure means: interpreter, disk, and other processes."""

import os
import platform
import resource
import sysconfig
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.instance import disk_probe_ms
from bench.process import CLIENT_CPU, SERVER_CPU, TICKS

OPTIMIZATIONS = {"PGO": "--enable-optimizations", "LTO": "--with-lto"}
WATCHED = frozenset({f"cpu{number}" for number in (SERVER_CPU, CLIENT_CPU)})
SAMPLE_SECONDS = 1.0
IDLE, IOWAIT, STEAL = 3, 4, 7
"""Places in a line of /proc/stat; the two after `steal` count guests, which `user` and `nice` include."""


def interpreter_build(arguments: str | None = None, library: bool | None = None) -> Mapping[str, bool | None]:
    """Return which optimizations the interpreter was built with; None: that cannot be known.

    The arguments may be those of another build: Debian's program is linked statically and optimized, but its
    configuration is that of the shared library. `arguments`, and whether the `library` is loaded, replace what this
    process has.
    """
    given = sysconfig.get_config_var("CONFIG_ARGS") if arguments is None else arguments
    loaded = "libpython" in Path("/proc/self/maps").read_text() if library is None else library
    options = {word.strip("'\"").partition("=") for word in (given or "").split()}
    enabled = {name for name, _, value in options if value != "no"}
    otherwise = None if "--enable-shared" in enabled and not loaded else False
    return {name: option in enabled or otherwise for name, option in OPTIMIZATIONS.items()}


def busy_seconds() -> float:
    """Return the time for which the processors of server and client were busy since the machine started.

    A hypervisor's other guests count, too.
    """
    busy = 0
    for line in Path("/proc/stat").read_text().splitlines():
        name, *fields = line.split()
        if name in WATCHED:
            times = [int(field) for field in fields[: STEAL + 1]]
            busy += sum(times) - times[IDLE] - times[IOWAIT]
    return busy / TICKS


def children_seconds() -> float:
    """Return the processor time of all children that have ended, which includes wrk."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def foreign_load() -> float:
    """Return how many of the two processors are busy while this process waits."""
    before, began = busy_seconds(), time.monotonic()
    time.sleep(SAMPLE_SECONDS)
    return max(0.0, busy_seconds() - before) / (time.monotonic() - began)


def state(folder: Path) -> Mapping[str, object]:
    """Return the state of the machine for a report."""
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        **{name.lower(): present for name, present in interpreter_build().items()},
        "config_args": sysconfig.get_config_var("CONFIG_ARGS") or "",
        "load": os.getloadavg()[0],
        "foreign": foreign_load(),
        "cpus": os.cpu_count(),
        "flush_ms": disk_probe_ms(folder),
    }


def lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that describe a state."""
    words = {True: "with", False: "without", None: "perhaps with"}
    build = [f"{words[found[name.lower()]]} {name}" for name in OPTIMIZATIONS]
    yield f"{found['python']}, built {', '.join(build)}"
    if found["pgo"] is False:
        yield "Warning: paths without a database cost up to a half more on an interpreter without PGO. Use Debian's."
    yield f"a flush of 4 KiB {found['flush_ms']:.2f} ms"
    yield (
        f"load {found['load']:.1f}, {found['cpus']} CPUs, {found['foreign']:.2f} of the two measured ones busy with"
        " other processes"
    )
