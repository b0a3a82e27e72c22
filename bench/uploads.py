"""64 PUTs of 16 MiB at once: memory of the service above idle, and small GETs meanwhile.

python -m bench.uploads [--clients 64] [--mib 16]
"""

import argparse
import asyncio
import os
import shutil
import tempfile
import time
from pathlib import Path

from bench.house import House, disk_probe_ms, percentile

PLAYERS = 16
"""Of whom each may have four uploads at once."""
PIECE = 64 * 1024


async def put(house: House, token: str, slot: str, mib: int) -> float:
    """One upload of fresh bytes, made piece by piece; its seconds."""
    began = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", house.port)
    head = f"PUT /game/saves/{slot} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
    writer.write(f"{head}Content-Length: {mib * 2**20}\r\n\r\n".encode())
    for _ in range(mib * 2**20 // PIECE):
        writer.write(os.urandom(PIECE))
        await writer.drain()
    status = await reader.readline()
    assert b" 201 " in status, status
    writer.close()
    return time.perf_counter() - began


async def upload_all(house: House, tokens: list[str], clients: int, mib: int) -> list[float]:
    return list(await asyncio.gather(*(put(house, tokens[n % PLAYERS], f"u{n}", mib) for n in range(clients))))


def upload(house: House, tokens: list[str], clients: int, mib: int) -> None:
    """In a process of its own."""
    times = asyncio.run(upload_all(house, tokens, clients, mib))
    print(f"uploads: first {min(times):.1f} s, last {max(times):.1f} s", flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--clients", type=int, default=64)
    options.add_argument("--mib", type=int, default=16)
    given = options.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="gamed-bench-"))
    house = House(folder)
    try:
        house.start()
        measure(house, given.clients, given.mib)
    finally:
        house.stop()
        shutil.rmtree(folder, ignore_errors=True)


def measure(house: House, clients: int, mib: int) -> None:
    tokens = [player.access for player in house.sign_in([f"ply_{number:022d}" for number in range(PLAYERS)])]
    connection = house.connect()
    House.request(connection, "PUT", "/game/saves/small", tokens[0], body=b"x" * 1000)
    alone = get_for(house, connection, tokens[0], seconds=3)
    print(f"fsync {disk_probe_ms(house.folder):.2f} ms; load {os.getloadavg()[0]:.1f}; {os.cpu_count()} CPUs")
    print(f"small GET alone: median {percentile(alone, 0.5):.1f} ms, p99 {percentile(alone, 0.99):.1f} ms")
    idle = house.rss_mib()
    child = os.fork()
    if child == 0:
        upload(house, tokens, clients, mib)
        os._exit(0)
    times: list[float] = []
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        times += get_for(house, connection, tokens[0], seconds=0.2)
    print(f"memory: idle {idle:.0f} MiB, at most {house.rss_mib('VmHWM') - idle:.0f} MiB above")
    print(
        f"small GET meanwhile ({len(times)}): median {percentile(times, 0.5):.1f} ms,"
        f" p99 {percentile(times, 0.99):.1f} ms, worst {max(times):.1f} ms"
    )


def get_for(house: House, connection: object, token: str, seconds: float) -> list[float]:
    """Milliseconds of one GET after another."""
    times, until = [], time.monotonic() + seconds
    while time.monotonic() < until:
        began = time.perf_counter()
        status, _ = House.request(connection, "GET", "/game/saves/small", token)  # type: ignore[arg-type]
        times.append((time.perf_counter() - began) * 1000)
        assert status == 200
        time.sleep(0.005)
    return times


if __name__ == "__main__":
    main()
