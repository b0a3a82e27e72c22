"""PUTs run against a service under strace, to check that each 2xx response follows a flush of its write.

python -m bench.durable [--puts 100] [--trace FILE]
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from itertools import chain
from pathlib import Path
from secrets import token_hex

from bench import machine
from bench.flushes import Findings, Sent, check_flushes
from bench.instance import GAMED, GamedInstance, Player

CONNECTIONS = (1, 16)
SIZE = 1024
PAGE_BYTES = 65536
"""The length up to which strace prints data completely."""
TIMEOUT_SECONDS = 30


def traced(trace: Path) -> tuple[str, ...]:
    """Return the command; with -D the service stays the child of this process, so that it gets our signals."""
    traced = "--trace=fdatasync,fsync,pwrite64,sendto,sendmsg"
    return ("strace", "-D", "-f", "-y", "-ttt", traced, f"--string-limit={PAGE_BYTES}", f"--output={trace}", *GAMED)


def put_some(instance: GamedInstance, player: Player, puts: int) -> list[Sent]:
    """Send PUTs one after another to the same slot."""
    connection, sent = instance.connect(), []
    for number in range(puts):
        marks = (f"bytes-{token_hex(16)}", f"meta-{token_hex(16)}")
        body = (marks[0] * SIZE)[:SIZE].encode()
        condition = {"If-Match": "*"} if number else {"If-None-Match": "*"}
        headers = {**condition, "Save-Meta": f'{{"mark":"{marks[1]}"}}'}
        status, _ = GamedInstance.request(
            connection, "PUT", "/game/saves/auto", player.access, body=body, headers=headers
        )
        if status not in (200, 201):
            raise RuntimeError(f"a PUT is answered {status}")
        sent.append(Sent((marks[0].encode(), marks[1].encode()), sha256(body).hexdigest().encode()))
    connection.close()
    return sent


def run(folder: Path, trace: Path, connections: int, puts: int) -> Findings:
    instance = GamedInstance(folder, command=traced(trace))
    instance.start()
    try:
        players = instance.sign_in([f"ply_{number:022d}" for number in range(connections)])
        each = max(1, puts // connections)
        with ThreadPoolExecutor(connections) as threads:
            sent = list(chain.from_iterable(threads.map(lambda player: put_some(instance, player, each), players)))
    finally:
        instance.stop()
    _await_end(trace, instance.process.pid)
    with trace.open(encoding="ascii", errors="replace") as lines:
        return check_flushes(lines, sent)


def _await_end(trace: Path, pid: int) -> None:
    """Wait until strace has written the end of the trace, which it does after the service has ended."""
    for _ in range(TIMEOUT_SECONDS * 10):
        with trace.open("rb") as file:
            file.seek(max(0, trace.stat().st_size - 4096))
            if any(line.startswith(b"%d " % pid) and b" +++ " in line for line in file.read().split(b"\n")):
                return
        time.sleep(0.1)
    raise RuntimeError("strace did not end")


def main(words: Sequence[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--puts", type=int, default=100, help="for each number of connections")
    options.add_argument("--trace", type=Path, help="the file for the trace; each run replaces it")
    given = options.parse_args(words)
    if shutil.which("strace") is None:
        sys.exit("bench.durable: strace is missing; on Debian: apt-get install strace")
    folder = Path(tempfile.mkdtemp(prefix="gamed-bench-"))
    try:
        print("\n".join(machine.lines(machine.state(folder))), flush=True)
        sys.exit(not all([_report(folder, given.trace, number, given.puts) for number in CONNECTIONS]))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _report(folder: Path, trace: Path | None, connections: int, puts: int) -> bool:
    """Print the result of one run; return whether each response followed a flush."""
    found = run(folder / str(connections), trace or folder / "trace", connections, puts)
    result = f"{len(found.missing)} WITHOUT" if found.missing else "each after a flush that covers it"
    print(f"{connections} connections: {found.answers} answers of 2xx, {found.flushes} flushes of the log: {result}")
    print("".join(f"  {line}\n" for line in found.missing[:5]), end="", flush=True)
    return not found.missing


if __name__ == "__main__":
    main()
