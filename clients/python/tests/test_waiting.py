"""The page on waiting and cancelling: its program runs, and each call that it names exists."""

import io
import re
import threading
import time
from contextlib import redirect_stdout
from inspect import signature

from twisted.trial.unittest import SynchronousTestCase

from clients.conformance.tests.helpers import lender
from clients.godot3 import generate
from tests.support.folders import unused_path
from tests.support.python_client import gamed_aio as aio
from tests.support.python_client import gamed_assets as ga
from tests.support.python_client import gamed_client as gc
from tests.support.python_client import gamed_sync as gs
from tests.test_guides import blocks
from tests.test_spec import ROOT

PAGE = "docs/developers/waiting.md"
CLIENTS = ("Python", "Python, asyncio", "JavaScript", "C#", "Godot 4", "Godot 3")
LIMIT_SECONDS = 60


def rows(heading: str) -> dict[str, str]:
    """Return the table below a heading: each client's cells."""
    part = (ROOT / PAGE).read_text("utf-8").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    found = re.findall(r"(?m)^\| (.+?) \| (.+) \|$", part)
    return {client: cells for names, cells in found for client in re.split(r", (?=Godot)", names) if client in CLIENTS}


class WaitingTests(SynchronousTestCase):
    def test_listening(self) -> None:
        """The program prints the save of another device at once, and ends at once."""
        server = lender()
        session = server.session({**server.player("local")})
        service = server.service("local")
        client = gc.GamedClient(service.base, folder=unused_path(self))
        client.keep(session)
        [program] = blocks(PAGE, "python")
        before, names, printed = threading.active_count(), {"client": client}, io.StringIO()
        with redirect_stdout(printed):
            exec(compile(program, PAGE, "exec"), names)
            time.sleep(0.5)
            service.kill()  # the program goes on after a failure
            service.start()
            client.put("auto", b"level 1", base=None)
            self.until(lambda: "auto has version 1\n" in printed.getvalue())
            names["leaving"].cancel()
            self.until(lambda: threading.active_count() <= before)

    def until(self, condition) -> None:
        limit = time.monotonic() + LIMIT_SECONDS / 3
        while not condition():
            self.assertLess(time.monotonic(), limit, "a wait of 25 seconds goes on")
            time.sleep(0.02)

    def test_clients(self) -> None:
        """Each table has a row for each client."""
        for heading in ("Which calls block", "How to cancel", "Hearing that another device has saved"):
            self.assertEqual(tuple(rows(heading)), CLIENTS, heading)

    def test_names(self) -> None:
        """Each call in the tables exists in its client."""
        known = {
            "Python": {*vars(gc.GamedClient), *vars(gs.Sync), *vars(gs.SyncConflict), *vars(ga.Assets), *vars(gc)}
            | {*vars(gc.Cancellation), *signature(ga.Assets.download).parameters, *signature(gs.Sync.run).parameters}
            | {"Assets", "Sync"},
            "Python, asyncio": {*vars(aio.AsyncClient), *vars(aio.AsyncSync), "gamed_client", "aio", "async", "with"},
            "JavaScript": set(re.findall(r"(\w+)[(:?]", self.sources("clients/js", "*.d.mts"))),
            "C#": set(re.findall(r"\b(\w+)\b", self.sources("clients/csharp", "*.cs"))),
            "Godot 4": set(re.findall(r"(?m)^\t?func (\w+)\(", self.sources("clients/godot4", "*.gd"))),
            "Godot 3": set(re.findall(r"(?m)^\t?func (\w+)\(", "\n".join(generate.scripts().values()))),
        }
        for heading in ("Which calls block", "How to cancel", "Hearing that another device has saved"):
            for client, cells in rows(heading).items():
                spans = re.findall(r"`(?:await )?(?:\w+ = )?(?:\w+\.)*(\w+)(?=[(`])", cells)
                self.assertEqual(set(spans) - known[client] - {"await", "yield", "progress"}, set(), (client, heading))

    def sources(self, folder: str, pattern: str) -> str:
        return "\n".join(path.read_text("utf-8") for path in (ROOT / folder).glob(pattern))
