"""Mutated HTTP pipelines against two states of gamed: the same answers, and the same fate of the connection?

python -m bench.http_fuzz --before CHECKOUT [--count 20000] [--seed 1]

CHECKOUT is a folder with the earlier state (`git worktree add CHECKOUT REVISION`). Both states serve the routes of
their own tests in a process of their own, in memory and by a fake clock, so that each pipeline is exactly the same for
both. Compared are status, header fields (all but Date and X-Request-Id), content (all but the request id), the log, the
calls of handlers and whether the connection is open, closing or closed, at once and 11 s later. Differences are counted
by what differs, with one example of each; the exit code is 1 if there are some.
"""

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from re import DOTALL, compile
from typing import Any

HOST = "game.example"
JSON = {"Content-Type": "application/json"}
_CHANGING = compile(rb"(?<=\r\n)(?:Date|X-Request-Id): [^\r]*+\r\n", DOTALL)
_REQUEST_ID = compile(rb'"request_id":"[0-9a-f]*+"')
PATHS = (
    *("/echo/text", "/echo/any", "/echo/query?a=1&b=%20", "/echo/query?a=1&a=2", "/echo/query?#", "/echo/name/anna"),
    *("/echo/name/", "/echo/name/a/b", "/echo/name/a%2Fb", "/echo/name/%61", "/echo/name/..", "/echo/name/~a.b-c_d"),
    *("/echo/typed", "/echo/nothing", "/echo/text/", "/echo//text", "/echo", "/echo/", "/", "*", "", "/game/", "/game"),
    *("/echo/tree", "/echo/tree/a", "/echo/tree/a/", "/echo/tree/a/b", "/echo/tree/a/b/", "/echo/tree/a/b/c/d"),
    *("/echo/tree/leaf", "/echo/tree/leaf/", "/echo/tree/leaf/a", "/echo/tree/leaf/a/", "/echo/tree/leaf/a/b"),
    *("/echo/tree/a//b", "/echo/tree/../b", "/echo/tree/a/../b", "/echo/tree/a/b%20c", "/echo/tree/a/b.c-d_e~f"),
    *("/echo/deferred", "/echo/deferred?a", "/echo/stream", "/echo/broken-stream", "/echo/crash", "/echo/not-bytes"),
    *("/echo/unspeakable", "/echo/unmeasured", "/echo/bodiless/204", "/echo/bodiless/304", "/echo/stubborn"),
    *("/auth/echo", "/auth/page/collect", "/auth/page/" + "t" * 22, "/auth/page/form", "/echo/nowhere", "/ECHO/text"),
    *(
        "http://game.example/echo/text",
        "http://other.example/echo/text",
        "/echo/text?",
        "/echo/te xt",
        "/echo/t\u00e9xt",
    ),
)
FIELDS: Sequence[dict[str, str]] = (
    {},
    {"Connection": "close"},
    {"Connection": "keep-alive"},
    {"Connection": "keep-alive, close"},
    {"Connection": "Upgrade, keep-alive", "Upgrade": "h2c"},
    {"Host": "localhost:8080"},
    {"Host": "other.example"},
    {"Host": "GAME.example.:443"},
    {"Host": ""},
    {"X-Forwarded-For": "192.0.2.7, 198.51.100.1"},
    {"X-Empty": "", "X-Blank": " \t ", "x-latin": "\u00e9"},
    {"Origin": "https://page.example"},
    {"Authorization": "Bearer nothing"},
    {"Cookie": "gl=abc; other=1"},
    {"Expect": "100-continue"},
    {"Content-Length": "0"},
    {"Content-Length": "00"},
    {"Content-Length": "+3"},
    {"Content-Length": "9" * 30},
    {"Content-Length": "9" * 5000},
    {"Transfer-Encoding": "chunked"},
    {"Transfer-Encoding": "identity"},
    {"Transfer-Encoding": "chunked", "Content-Length": "3"},
)
ODD = (
    b"GET /echo/text HTTP/1.0\r\n\r\n",
    b"GET /echo/text HTTP/1.1\r\n\r\n",
    b"GET /echo/text HTTP/2.0\r\nHost: game.example\r\n\r\n",
    b"get /echo/text HTTP/1.1\r\nHost: game.example\r\n\r\n",
    b"GET /echo/text HTTP/1.1\nHost: game.example\n\n",
    b"GET /echo/text HTTP/1.1\r\nHost: game.example\r\nHost: game.example\r\n\r\n",
    b"GET /echo/text HTTP/1.1\r\nHost: game.example\r\nA: b\r\n c\r\n\r\n",
    b"GET /echo/text HTTP/1.1\r\nHost: game.example\r\nA : b\r\n\r\n",
    b"GET /echo/text HTTP/1.1\r\nHost: game.example\r\nA: b\x00c\r\n\r\n",
    b"GET /echo/text HTTP/1.1\r\nHost: game.example\r\nA: b\rc\r\n\r\n",
    b"PUT /echo/any HTTP/1.1\r\nHost: game.example\r\nContent-Length: \xb2\r\n\r\nab",
    b"\r\nGET /echo/text HTTP/1.1\r\nHost: game.example\r\n\r\n",
    b"\r\n\r\nGET /echo/text HTTP/1.1\r\nHost: game.example\r\n\r\n",
    b"GET /echo/text HTTP/1.1\r\nHost: game.example\r\n" + b"A: b\r\n" * 63 + b"\r\n",
    b"GET /echo/text HTTP/1.1\r\nHost: game.example\r\n" + b"".join(b"A%d: b\r\n" % n for n in range(63)) + b"\r\n",
    b"GET /echo/text HTTP/1.1\r\nHost: game.example\r\n" + b"".join(b"A%d: b\r\n" % n for n in range(64)) + b"\r\n",
    *(
        b"GET /echo/text HTTP/1.1\r\nHost: game.example\r\nA: %b\r\n\r\n" % (b"x" * (16 * 1024 - 52 + more))
        for more in range(-2, 3)
    ),
    b"PUT /echo/any HTTP/1.1\r\nHost: game.example\r\nContent-Length: 3\r\n\r\nabcPUT /echo/any HTTP/1.1\r\n",
    b"GET /echo/text HTTP/1.1\r\nHost: game.example\r\n\r\n" * 5,
    b"GET /echo/text HTTP/1.1\r\nHost: game.example\r\n\r\n\r\n\r\nGET /echo/text HTTP/1.1\r\n\r\n",
    b"GET /echo/nothing HTTP/1.1\r\nHost: game.example\r\n\r\nGET /echo/text HTTP/1.1\r\nHost: game.example\r\n\r\n",
    b"DELETE /echo/nothing HTTP/1.1\r\nHost: game.example\r\nContent-Length: 2\r\n\r\nxyGET /echo/typed HTTP/1.1\r\n",
)


def made() -> Iterator[bytes]:
    """Requests written by hand, each kind on each path."""
    for path in PATHS:
        for method in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE"):
            yield request_bytes(method, path)
    for fields in FIELDS:
        yield request_bytes("GET", "/echo/text", fields)
        yield request_bytes("PUT", "/echo/any", JSON | fields, b"{}")
        yield request_bytes("POST", "/auth/echo", JSON | fields, b"3\r\n{ }\r\n0\r\n\r\n")
    for body in (b"", b"{}", b'{"number":1}', b"[1]", b'{"number":1,"number":2}', b"x" * 9000, b"\xff"):
        yield request_bytes("POST", "/echo/json", JSON, body)
        yield request_bytes("POST", "/echo/json", {"Content-Type": "text/plain"}, body)
        yield request_bytes("POST", "/echo/optional", {}, body)
    yield from ODD


def mutated(random: Random, sent: bytes) -> bytes:
    """With a few bytes taken away, put in, replaced or said twice."""
    for _ in range(random.choice((1, 1, 2, 3))):
        at, end = sorted(random.randrange(len(sent) + 1) for _ in range(2))
        end = min(end, at + random.choice((0, 0, 1, 1, 12)))
        new = random.choice(
            (b"", b"a", b"-", random.randbytes(1), b"\r\n", b" ", b":", b"\t", b"%", sent[at:end] * 2, b"\r\nA: b")
        )
        sent = sent[:at] + new + sent[end:]
    return sent


def pieces(random: Random, sent: bytes) -> Sequence[bytes]:
    """In one, or cut somewhere."""
    cuts = sorted(random.randrange(len(sent) + 1) for _ in range(random.choice((0, 0, 0, 1, 2))))
    return [sent[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(sent)], strict=True)]


def chunked(random: Random, body: bytes) -> bytes:
    """Encode a body in chunks, sometimes with extensions, trailers or zeros in front of a size."""
    parts = []
    while body:
        size = random.randrange(1, len(body) + 1)
        extension = random.choice((b"", b"", b";a", b";a=b", b" ;a", b';a="b;c"'))
        parts.append(b"%b%x%b\r\n%b\r\n" % (random.choice((b"", b"", b"0")), size, extension, body[:size]))
        body = body[size:]
    trailers = random.choice((b"", b"", b"A: b\r\n", b"A: b\r\nC:\r\n", b"A b\r\n"))
    return b"".join(parts) + b"0\r\n" + trailers + b"\r\n"


def pipelines(seed: int, count: int) -> Iterator[list[bytes]]:
    """Yield pipelines of one to four requests, most of them mutated, each as the pieces in which it arrives."""
    random, corpus = Random(seed), list(made())
    for _ in range(count):
        yield pieces_of_pipeline(random, corpus)


def pieces_of_pipeline(random: Random, corpus: Sequence[bytes]) -> list[bytes]:
    """Return one pipeline."""
    requests = random.choices(corpus, k=random.choice((1, 1, 1, 2, 3, 4)))
    if random.random() < 0.2:
        head = request_bytes("PUT", "/echo/any", JSON | {"Transfer-Encoding": "chunked"})
        requests.insert(
            random.randrange(len(requests) + 1), head + chunked(random, random.randbytes(random.randrange(300)))
        )
    sent = b"".join(requests)
    return list(pieces(random, mutated(random, sent) if random.random() < 0.85 else sent))


def request_bytes(method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes = b"") -> bytes:
    """Return a request with a Host, and with a Content-Length where there is a body or the method wants one."""
    fields = {"Host": HOST, **(headers or {})}
    if (body or method in {"POST", "PUT"}) and not any(name.lower() == "transfer-encoding" for name in fields):
        fields.setdefault("Content-Length", str(len(body)))
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
    return "\r\n".join(lines).encode("utf-8") + body


def transcript(parts: Sequence[bytes], half_close: bool) -> dict[str, Any]:
    """Send the pieces to the routes of the tests of the state that is imported; return what can be observed."""
    from tests.http.apps import CollectRoutes, EchoRoutes, PageRoutes
    from tests.support.http import Browser

    echo = EchoRoutes()
    browser = Browser([echo, PageRoutes(), CollectRoutes()], crashes=True)
    connection = browser.connect()
    for part in parts:
        if not connection.closed:
            connection.send(part)
    if half_close and not connection.closed:
        connection.channel.readConnectionLost()
    at_once = (comparable(connection.raw), connection.closed, connection.closing)
    browser.clock.advance(11)
    later = (comparable(connection.raw), connection.closed)
    connection.leave()
    log = [[line[name] for name in ("template", "status", "size", "received", "code")] for line in browser.log.lines]
    return {"at once": at_once, "later": later, "log": log, "calls": len(echo.calls)}


def comparable(raw: bytes) -> str:
    """Return what was sent without what differs from run to run."""
    return _REQUEST_ID.sub(b"", _CHANGING.sub(b"", raw)).decode("latin-1")


def serve() -> None:
    """Print a transcript for each line of standard input."""
    for line in sys.stdin:
        parts, half_close = json.loads(line)
        print(json.dumps(transcript([part.encode("latin-1") for part in parts], half_close)), flush=True)


def start(checkout: Path) -> "subprocess.Popen[str]":
    """Start a process with that state of gamed."""
    command = [sys.executable, "-c", f"import sys; sys.path[:0] = [{str(checkout)!r}]; import runpy; "
               f"runpy.run_path({str(Path(__file__).resolve())!r}, run_name='served')['serve']()"]  # fmt: skip
    return subprocess.Popen(command, cwd=checkout, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Return what differs, in a few words."""
    statuses = [[row[1] for row in one["log"]] for one in (before, after)]
    if statuses[0] != statuses[1]:
        return f"statuses {statuses[0]} -> {statuses[1]}"
    return ", ".join(name for name in before if before[name] != after[name])


def main() -> int:
    """Compare, and print the differences."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, required=True, help="a checkout of the earlier state")
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    found: Counter[str] = Counter()
    random, statuses = Random(options.seed), Counter[int]()
    with start(options.before.resolve()) as before, start(Path(__file__).resolve().parent.parent) as after:
        for number, parts in enumerate(pipelines(options.seed, options.count), 1):
            line = json.dumps([[part.decode("latin-1") for part in parts], random.random() < 0.1]) + "\n"
            for process in (before, after):
                assert process.stdin
                process.stdin.write(line)
                process.stdin.flush()
            one, other = (json.loads(process.stdout.readline()) for process in (before, after) if process.stdout)
            statuses.update(row[1] for row in one["log"])
            if one != other:
                kind = difference(one, other)
                found[kind] += 1
                if found[kind] == 1:
                    print(f"\n{kind}\n  sent   {line.strip()}\n  before {one}\n  after  {other}")
            if number % 500 == 0 and sys.stderr.isatty():
                print(f"\r{number:,} pipelines, {found.total()} differ", end="", file=sys.stderr, flush=True)
    print(f"{options.count:,} pipelines, {sum(statuses.values()):,} answers: {dict(sorted(statuses.items()))}")
    for kind, times in found.most_common():
        print(f"{times:6} {kind}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
