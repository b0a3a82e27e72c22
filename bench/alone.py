"""What is not a rate: from start to the first answer, memory at rest, ten thousand who wait."""

import asyncio
import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from resource import RLIMIT_NOFILE, getrlimit, setrlimit
from statistics import median

from bench.house import House, percentile
from bench.process import CLIENT_CPU, Process, free_port


def start_and_memory(folder: Path, rounds: int) -> Mapping[str, float]:
    """Seconds to the first 200 and MiB at rest, of gamed and of a bare twistd (T), taking turns."""
    house = House(folder / "start")
    house.start().stop()
    port = free_port()
    tac = Path(__file__).parent / "references" / "bare.py"
    words = [str(Path(sys.executable).parent / "twistd"), "--nodaemon", "--pidfile=", "-y", str(tac)]
    bare = Process(words, port, folder / "bare.log", {"PORT": str(port)})
    times: dict[str, list[float]] = {"gamed": [], "T": []}
    memory: dict[str, list[float]] = {"gamed": [], "T": []}
    for _ in range(rounds):
        for name, process in (("gamed", house.process), ("T", bare)):
            times[name].append(process.start())
            time.sleep(1)
            memory[name].append(process.memory_mib())
            process.stop()
    ratios = [mine / theirs for mine, theirs in zip(times["gamed"], times["T"], strict=True)]
    return {
        "start_seconds": median(times["gamed"]),
        "start_seconds_t": median(times["T"]),
        "start_ratio": median(ratios),
        "memory_mib": median(memory["gamed"]),
        "memory_mib_t": median(memory["T"]),
        "memory_mib_more": median(memory["gamed"]) - median(memory["T"]),
    }


def waiters(folder: Path, count: int) -> Mapping[str, float]:
    """So many games wait for a sign-in, each on a connection of its own; one is answered; then all are."""
    house = House(folder / "waiters").start()
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        os.sched_setaffinity(0, {CLIENT_CPU})
        _, hard = getrlimit(RLIMIT_NOFILE)
        setrlimit(RLIMIT_NOFILE, (hard, hard))
        found = asyncio.run(_wait_all(house, count))
        os.write(tell, json.dumps(found).encode())
        os._exit(0)
    os.close(tell)
    with os.fdopen(told) as answer:
        found = json.loads(answer.read())
    os.waitpid(child, 0)
    house.stop()
    return {str(name): float(value) for name, value in found.items()}


async def _wait_all(house: House, count: int) -> Mapping[str, float]:
    secrets = await _starts(house, count)
    idle = house.rss_mib()
    streams = [await _open(house, "POST", "/auth/login/collect", secret, {"wait": 1}) for secret in secrets]
    for reader, _ in streams:
        await _answer(reader)
    await asyncio.sleep(1)
    before = house.rss_mib()
    for (_, writer), secret in zip(streams, secrets, strict=True):
        _ask(writer, "POST", "/auth/login/collect", secret, {"wait": 25})
    await asyncio.sleep(2)
    each = (house.rss_mib() - before) * 1024 / count
    healthy = await _healthy(house, 1.0)
    cancelled = time.perf_counter()
    await _cancel(house, secrets[0])
    await _answer(streams[0][0])
    first = time.perf_counter() - cancelled
    ended = time.perf_counter()
    house.process.terminate()
    answers = await asyncio.gather(*(_answer(reader) for reader, _ in streams[1:]), return_exceptions=True)
    return {
        "waiters": count,
        "unanswered": sum(isinstance(answer, BaseException) for answer in answers),
        "kib_each": each,
        "kib_connection": (before - idle) * 1024 / count,
        "first_wake_ms": first * 1000,
        "all_ms": (time.perf_counter() - ended) * 1000,
        "healthz_p99_ms": percentile(healthy, 0.99) * 1000,
    }


async def _starts(house: House, count: int) -> list[str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", house.port)
    secrets = []
    for _ in range(count):
        _ask(writer, "POST", "/auth/login", None, {"client": {"name": "bench"}})
        secrets.append(json.loads(await _answer(reader))["device_secret"])
    writer.close()
    return secrets


async def _open(
    house: House, method: str, path: str, secret: str | None, body: Mapping[str, object]
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", house.port)
    _ask(writer, method, path, secret, body)
    return reader, writer


def _ask(
    writer: asyncio.StreamWriter, method: str, path: str, secret: str | None, body: Mapping[str, object] | None
) -> None:
    data = b"" if body is None else json.dumps(body).encode()
    fields = ["Host: localhost", f"Content-Length: {len(data)}", "Content-Type: application/json"]
    fields += [] if secret is None else [f"Authorization: Bearer {secret}"]
    writer.write("\r\n".join([f"{method} {path} HTTP/1.1", *fields, "", ""]).encode() + data)


async def _answer(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return await reader.readexactly(int(length[0].partition(b":")[2])) if length else b""


async def _cancel(house: House, secret: str) -> None:
    reader, writer = await _open(house, "POST", "/auth/login/cancel", secret, {})
    await _answer(reader)
    writer.close()


async def _healthy(house: House, seconds: float) -> list[float]:
    reader, writer = await asyncio.open_connection("127.0.0.1", house.port)
    times, until = [], time.perf_counter() + seconds
    while time.perf_counter() < until:
        began = time.perf_counter()
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await _answer(reader)
        times.append(time.perf_counter() - began)
        await asyncio.sleep(0.005)
    writer.close()
    return times
