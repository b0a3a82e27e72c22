"""This sends 64 PUTs of 16 MiB at once, and measures the memory of the service and small GETs meanwhile.

python -m bench.uploads [--clients 64] [--mib 16]
"""

import argparse
import asyncio
import os
import shutil
import tempfile
import time
from pathlib import Path

from bench import machine
from bench.instance import GamedInstance, percentile

PLAYERS = 16
"""Each player may have four uploads at once."""
PIECE = 64 * 1024


async def put(instance: GamedInstance, token: str, slot: str, mib: int) -> float:
    """Upload random bytes piece by piece; return the seconds."""
    began = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", instance.port)
    head = f"PUT /game/saves/{slot} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
    writer.write(f"{head}Content-Length: {mib * 2**20}\r\n\r\n".encode())
    for _ in range(mib * 2**20 // PIECE):
        writer.write(os.urandom(PIECE))
        await writer.drain()
    status = await reader.readline()
    assert b" 201 " in status, status
    writer.close()
    return time.perf_counter() - began


async def upload_all(instance: GamedInstance, tokens: list[str], clients: int, mib: int) -> list[float]:
    return list(await asyncio.gather(*(put(instance, tokens[n % PLAYERS], f"u{n}", mib) for n in range(clients))))


def upload(instance: GamedInstance, tokens: list[str], clients: int, mib: int) -> None:
    """Upload in a child process, and print the times."""
    times = asyncio.run(upload_all(instance, tokens, clients, mib))
    print(f"uploads: first {min(times):.1f} s, last {max(times):.1f} s", flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--clients", type=int, default=64)
    options.add_argument("--mib", type=int, default=16)
    given = options.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="gamed-bench-"))
    instance = GamedInstance(folder)
    try:
        instance.start()
        measure(instance, given.clients, given.mib)
    finally:
        instance.stop()
        shutil.rmtree(folder, ignore_errors=True)


def measure(instance: GamedInstance, clients: int, mib: int) -> None:
    tokens = [player.access for player in instance.sign_in([f"ply_{number:022d}" for number in range(PLAYERS)])]
    connection = instance.connect()
    GamedInstance.request(connection, "PUT", "/game/saves/small", tokens[0], body=b"x" * 1000)
    alone = get_for(instance, connection, tokens[0], seconds=3)
    print("\n".join(machine.lines(machine.state(instance.folder))), flush=True)
    print(f"small GET alone: median {percentile(alone, 0.5):.1f} ms, p99 {percentile(alone, 0.99):.1f} ms")
    idle = instance.rss_mib()
    child = os.fork()
    if child == 0:
        upload(instance, tokens, clients, mib)
        os._exit(0)
    times: list[float] = []
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        times += get_for(instance, connection, tokens[0], seconds=0.2)
    print(f"memory: idle {idle:.0f} MiB, at most {instance.rss_mib('VmHWM') - idle:.0f} MiB above")
    print(
        f"small GET meanwhile ({len(times)}): median {percentile(times, 0.5):.1f} ms,"
        f" p99 {percentile(times, 0.99):.1f} ms, worst {max(times):.1f} ms"
    )


def get_for(instance: GamedInstance, connection: object, token: str, seconds: float) -> list[float]:
    """Return the milliseconds of one GET after another."""
    times, until = [], time.monotonic() + seconds
    while time.monotonic() < until:
        began = time.perf_counter()
        status, _ = GamedInstance.request(connection, "GET", "/game/saves/small", token)  # type: ignore[arg-type]
        times.append((time.perf_counter() - began) * 1000)
        assert status == 200
        time.sleep(0.005)
    return times


if __name__ == "__main__":
    main()
