"""A live service asked everything that docs/openapi.yaml says may be asked, and much that it does not say.

With few examples schemathesis asks a small selection, the same each time; with many a large one, at random.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from re import sub
from select import select
from socket import create_connection
from typing import ClassVar

from tests.contract import live
from tests.contract.conventions import Answer, complaints
from tests.contract.document import PAGE, operations
from tests.e2e.cases import ServiceCase
from tests.e2e.client import write_game
from tests.e2e.service import ROOT, Service
from tests.support.covers import covers
from tests.support.examples import AMOUNT, FEW, examples
from tests.support.folders import unused_path

EXAMPLES = examples(few=2, many=300)
"""Generated requests per operation and phase, besides the examples and the coverage of the schemas."""
PATIENCE_SECONDS = examples(few=1200, many=24 * 3600)
CASES = 800
"""Least number of requests of a complete run."""
BODY_PIECES = 5
"""Pieces of 64 KiB: more than the 256 KiB of the largest JSON."""
KEPT = ("PATH", "HOME", "LANG", "COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG")


@covers("4/15", "4/16")
class LiveTests(ServiceCase):
    config = live.CONFIG
    environ: ClassVar = live.ENVIRON

    def setUp(self) -> None:
        self.folder = unused_path(self)
        self.service = Service(self.folder, self.config, self.environ)
        write_game(self.service, **live.GAME)
        self.addCleanup(self._end)
        self.service.start()

    def test_schemathesis(self) -> None:
        """Every answer is in the document, none is a 5xx, and all follow the conventions."""
        prepared = live.prepare(self.service)
        done = self.schemathesis(prepared)
        self.assertEqual(done.returncode, 0, done.stdout[-20_000:] + done.stderr)
        figures = json.loads((self.folder / "report.json").read_text("utf-8"))
        self.assertEqual((figures["failures"], figures["errors"]), ([], []))
        self.assertEqual(figures["operations"]["tested"], len(list(operations())))
        self.assertGreater(figures["test_cases"]["generated"], CASES)
        ends = {name: self.ask("GET", "/game/", bearer=getattr(prepared, name)).status for name in live.PLAYERS}
        self.assertEqual(ends, {"token": 200, "listing": 401, "leaving": 401, "erased": 401, "anew": 200})

    def schemathesis(self, prepared: live.Prepared) -> "subprocess.CompletedProcess[str]":
        """Run schemathesis in a process; it writes `report.json` into the folder of the test."""
        settings = Path(__file__).with_name("schemathesis.toml")
        how = ["--max-examples", str(EXAMPLES), *(["--generation-deterministic"] if AMOUNT == FEW else [])]
        return subprocess.run(
            [
                *(sys.executable, "-m", "schemathesis.cli", "--no-color", "--config-file", str(settings)),
                *("run", str(PAGE), "--url", self.service.base, *how),
                *("--report", "json", "--report-json-path", "report.json"),
            ],
            cwd=self.folder,
            env={
                **{name: os.environ[name] for name in KEPT if name in os.environ},
                "PYTHONPATH": str(ROOT),
                "SCHEMATHESIS_HOOKS": "tests.contract.hooks",
                "GAMED_TOKEN": prepared.token,
                "GAMED_DEVICE": prepared.device,
                **live.ENVIRON,
                "GAMED_LIVE": prepared.to_json(),
            },
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )

    def test_methods(self) -> None:
        """GET routes answer HEAD, JSON routes OPTIONS; other methods are 405 with Allow."""
        methods: dict[str, set[str]] = {}
        for each in operations():
            methods.setdefault(each.path, set()).add(each.method)
        for path, known in methods.items():
            page, public = _is_page(path), path == "/healthz"
            listed = known | (set() if page or "GET" not in known else {"HEAD"})
            allowed = listed | (set() if page or public else {"OPTIONS"})
            for method in {"GET", "HEAD", "OPTIONS", "PUT", "POST", "DELETE", "PATCH", "BREW"} - listed:
                answer = self.checked(method, path)
                expected = 204 if method == "OPTIONS" and method in allowed else 405
                self.assertEqual(answer.status, expected, f"{method} {path}")
                said = {*answer.headers["allow"].split(", ")}
                self.assertIn(said, (allowed, listed), f"{method} {path}")

    def test_bodies(self) -> None:
        """No path takes a body of any length without a credential, with any method: it is refused, then closed."""
        paths = {*(each.path for each in operations()), "/game/nope", "/nope", "/auth/login/nope"}
        for path in sorted(paths):
            where = sub(r"\{(\w+)\}", lambda found: str(_examples()[found[1]]), path)
            for method in ("GET", "HEAD", "OPTIONS", "PUT", "POST", "DELETE", "PATCH", "BREW"):
                for framing in (f"Content-Length: {1 << 40}", "Transfer-Encoding: chunked"):
                    head = f"{method} {where} HTTP/1.1\r\nHost: 127.0.0.1:{self.service.port}\r\n{framing}\r\n\r\n"
                    status, closed = _send_large_body(self.service.port, head.encode(), chunked="chunked" in framing)
                    self.assertTrue(400 <= status < 500 and closed, f"{method} {path} {framing}: {status} {closed}")

    def test_head(self) -> None:
        """HEAD has the status and fields of GET, and no content."""
        token = live.token_of(self.service, "anna")
        live.fill(self.service, token)
        for each in operations():
            if each.method == "GET" and not _is_page(each.path):
                get, head = (self.checked(method, each.path, token) for method in ("GET", "HEAD"))
                self.assertEqual((head.status, head.body, sorted(head.headers)), (get.status, b"", sorted(get.headers)))
                self.assertEqual(head.headers["content-length"], str(len(get.body)), each.path)

    def test_nowhere(self) -> None:
        """A stray or double slash or an extra segment is 404, as a problem unless it lies below the pages."""
        for path in {each.path for each in operations()}:
            for wrong in (f"{path.rstrip('/')}/more/of/it", path.replace("/", "//", 1), *_stray(path)):
                answer = self.checked("GET", wrong)
                self.assertEqual(answer.status, 404, wrong)

    def checked(self, method: str, path: str, token: str | None = None) -> Answer:
        """Request the document's example of this path; return the answer, which follows the conventions."""
        where = sub(r"\{(\w+)\}", lambda found: str(_examples()[found[1]]), path)
        got = self.ask(method, where, bearer=token)
        answer = Answer(got.status, got.headers, got.body)
        self.assertEqual(complaints(method, where, answer), [], f"{method} {where}")
        return answer


def _send_large_body(port: int, head: bytes, *, chunked: bool) -> tuple[int, bool]:
    """Send a request and more of its body than any route takes; return the status, and whether the connection ends."""
    piece = b"10000\r\n" + bytes(0x10000) + b"\r\n" if chunked else bytes(0x10000)
    with create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(head)
        for _ in range(BODY_PIECES):
            if select([connection], [], [], 0)[0]:
                break
            connection.sendall(piece)
        answer = connection.recv(65536)
        closed = b"\r\nConnection: close\r\n" in answer
        return int(answer.split()[1]), closed


def _examples() -> dict[str, object]:
    """Return the examples of the path parameters."""
    found = {}
    for each in operations():
        for parameter in each.parameters:
            if parameter["in"] == "path":
                found[parameter["name"]] = parameter["example"]
    return found


def _is_page(path: str) -> bool:
    return any(
        "text/html" in answer.get("content", {})
        for each in operations()
        if each.path == path
        for answer in each.responses.values()
    )


def _stray(path: str) -> Iterator[str]:
    """Return the path with an added or without its final slash."""
    yield path.rstrip("/") if path.endswith("/") else f"{path}/"
