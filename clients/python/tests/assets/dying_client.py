"""A process that forks downloads, each of which dies as by kill -9 at its n-th operation on the disk.

`python dying_client.py CLIENT-FOLDER SERVER ROOT STATE` reads lines `n folder channel` from stdin. For each it runs one
download that dies at its n-th operation, and prints `killed` or `done`. The fork is safe, because there are no threads.
"""

import builtins
import os
import signal
import sys
import threading
from pathlib import Path

PIECE = 10_000


def die_after(limit: int) -> None:
    """Count every operation, in all threads; die after `limit`."""
    lock, left = threading.Lock(), [limit]

    def counted(real):
        def call(*args, **how):
            with lock:
                left[0] -= 1
                if not left[0]:
                    os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **how)

        return call

    for name in ("replace", "rename", "link", "unlink", "fsync", "mkdir", "rmdir"):
        setattr(os, name, counted(getattr(os, name)))
    real_open = builtins.open

    def opened(*args, **how):
        file = real_open(*args, **how)
        return Counted(file, counted) if set("wa+") & set(args[1] if len(args) > 1 else "r") else file

    builtins.open = opened


class Counted:
    """A file that counts its writes; earlier writes are on the disk."""

    def __init__(self, file, counted) -> None:
        self._file = file
        self.write = counted(self._write)

    def _write(self, data: bytes) -> int:
        written = self._file.write(data)
        self._file.flush()
        return written

    def __getattr__(self, name: str):
        return getattr(self._file, name)

    def __enter__(self):
        return self

    def __exit__(self, *exc: object) -> None:
        self._file.close()


def main() -> None:
    folder, server, state = sys.argv[1:]
    sys.path.insert(0, folder)
    import gamed_client as gc
    from gamed_client import assets as ga

    ga.PIECE_BYTES, ga.BLOCK_BYTES, ga.SPARE_BYTES = PIECE, 4000, 0
    for line in sys.stdin:
        number, target, channel = line.split()
        child = os.fork()
        if not child:
            die_after(int(number))
            ga.Assets(gc.GamedClient(server, folder=Path(state)), Path(target)).download(channel)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print("killed" if os.WIFSIGNALED(status) else f"done {os.WEXITSTATUS(status)}", flush=True)


if __name__ == "__main__":
    main()
