"""This sends PUTs with wrong tokens beside one writer, and measures the writer's PUTs with and without them, in turns.

python -m bench.wrong_tokens [--rounds 9] [--seconds 5] [--rate 1000] [--before CHECKOUT]

A third measurement sends as many requests for /healthz: what any request of another costs the writer. `--before`
measures an earlier state of gamed.
"""

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from secrets import token_bytes
from statistics import median

from bench.compare import START, ratio
from bench.instance import GAMED, GamedInstance, percentile
from bench.process import CLIENT_CPU
from gamed.sessions.credentials import SessionPolicy, generate_pair

KIB4 = 4096
CONNECTIONS = 8
PUT = "PUT /game/saves/auto HTTP/1.1\r\nHost: localhost\r\nIf-Match: *\r\nAuthorization: Bearer {}\r\n"
PUT += f"Content-Length: {KIB4}\r\n\r\n"
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def flood(port: int, kind: str, rate: int) -> None:
    """Send this many requests a second until the process is ended; a line on standard output says that it began."""
    body = b"x" * KIB4
    pair = generate_pair(token_bytes, time.time_ns() // 1_000_000, SessionPolicy(3600, 7200), 0)  # well-formed
    wrong = PUT.format(pair.access.reveal().decode()).encode() + body
    request = HEALTH if kind == "healthz" else wrong
    expected = b"HTTP/1.1 200" if kind == "healthz" else b"HTTP/1.1 401"
    members = [_connect(port) for _ in range(CONNECTIONS)]
    began = time.perf_counter()
    sent = 0
    while True:
        for member in members:
            member.sendall(request)
        for member in members:
            assert member.recv(65536).startswith(expected)
        if not sent:
            print("began", flush=True)
        sent += len(members)
        time.sleep(max(0.0, began + sent / rate - time.perf_counter()))


def write(port: int, token: str, seconds: float) -> list[float]:
    """Send PUTs of new bytes, one after another, with a pause of 2 ms; return the milliseconds of each."""
    member = _connect(port)
    head = PUT.format(token).encode()
    times = []
    end = time.perf_counter() + seconds
    while (began := time.perf_counter()) < end:
        member.sendall(head + os.urandom(KIB4))
        answer = member.recv(65536)
        times.append((time.perf_counter() - began) * 1000)
        assert answer.startswith(b"HTTP/1.1 20"), answer
        time.sleep(0.002)
    member.close()
    return times


def _connect(port: int) -> socket.socket:
    member = socket.create_connection(("127.0.0.1", port), timeout=30)
    member.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return member


def measure(instance: GamedInstance, token: str, kind: str, rate: int, seconds: float) -> list[float]:
    """Return the writer's times beside the requests of this kind, or alone."""
    if kind == "alone":
        return write(instance.port, token, seconds)
    words = [sys.executable, "-m", "bench.wrong_tokens", "--flood", kind, str(instance.port), "--rate", str(rate)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        try:
            return write(instance.port, token, seconds)
        finally:
            assert child.poll() is None, "the requests ended too early"
            child.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rate", type=int, default=1000, help="requests a second beside the writer [1000]")
    parser.add_argument("--before", type=Path, help="a checkout of an earlier state, measured in place of this one")
    parser.add_argument("--flood", nargs=2, metavar=("KIND", "PORT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.sched_setaffinity(0, {CLIENT_CPU})
    if options.flood:
        flood(int(options.flood[1]), options.flood[0], options.rate)
    command = GAMED
    if options.before is not None:
        command = (sys.executable, "-c", START.format(path=str(options.before.resolve())))
    with tempfile.TemporaryDirectory(prefix="gamed-bench-") as folder:
        instance = GamedInstance(Path(folder), command=command).start()
        try:
            [player] = instance.sign_in([f"ply_{0:022d}"])
            report(instance, player.access, options)
        finally:
            instance.stop()


def report(instance: GamedInstance, token: str, options: argparse.Namespace) -> None:
    """Measure in turns, and print the ratios."""
    kinds = ("alone", "wrong", "healthz")
    write_first(instance, token)
    found: dict[str, list[list[float]]] = {kind: [] for kind in kinds}
    for number in range(options.rounds):
        for kind in kinds if number % 2 else kinds[::-1]:
            found[kind].append(measure(instance, token, kind, options.rate, options.seconds))
    for kind in kinds:
        middle, last = (median(percentile(times, part) for times in found[kind]) for part in (0.5, 0.99))
        print(f"{kind:8} {middle:.2f} ms, p99 {last:.2f} ms, {sum(map(len, found[kind]))} PUTs")
    for kind in kinds[1:]:
        pairs = list(zip(found["alone"], found[kind], strict=True))
        print(f"{kind:8} p99 {ratio([percentile(new, 0.99) / percentile(old, 0.99) for old, new in pairs])}")


def write_first(instance: GamedInstance, token: str) -> None:
    """Write the save that the others replace."""
    connection = instance.connect()
    status, _ = GamedInstance.request(
        connection, "PUT", "/game/saves/auto", token, body=b"x", headers={"If-None-Match": "*"}
    )
    assert status == 201, status
    connection.close()


if __name__ == "__main__":
    main()
