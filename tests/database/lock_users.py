"""Processes that use the lock files of databases: `python -m tests.database.lock_users TASK PATH`."""

import sys
from pathlib import Path
from threading import Thread
from time import sleep

from gamed.database.sqlite.write_lock import MaintenanceLock, WriteLock

TURNS = 200


def hold(path: Path) -> None:
    """Hold the write lock until this process is killed, or until a line comes."""
    with WriteLock(path):
        announce()
        sys.stdin.readline()


def wait(path: Path) -> None:
    """Let a thread wait for the write lock, and end when a line comes."""
    lock = WriteLock(path)
    Thread(target=lock.__enter__, daemon=True).start()
    while not lock._waiting:
        sleep(0.01)
    announce()
    sys.stdin.readline()


def count(path: Path) -> None:
    """Add 1 to the number in a file beside the database, again and again, each time with the write lock."""
    lock, counter = WriteLock(path), path.with_name("counter")
    announce()
    sys.stdin.readline()
    for _ in range(TURNS):
        with lock:
            counted = int(counter.read_text("utf-8"))
            counter.write_text(f"{counted + 1}", "utf-8")


def maintain(path: Path) -> None:
    """Hold the maintenance lock until a line comes."""
    if MaintenanceLock(path).held:
        announce()
        sys.stdin.readline()


def announce() -> None:
    print("ready", flush=True)


if __name__ == "__main__":
    {"hold": hold, "wait": wait, "count": count, "maintain": maintain}[sys.argv[1]](Path(sys.argv[2]))
