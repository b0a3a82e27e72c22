"""A request imports nothing: the server goes on when its virtual environment is deleted or replaced."""

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from re import sub
from time import monotonic, sleep
from typing import Any

from tests.contract import live
from tests.contract.document import operations
from tests.e2e.cases import ServiceCase
from tests.e2e.client import write_game
from tests.e2e.service import ROOT, Service

PATIENCE_SECONDS = 60
HOOK = """
import signal, sys

class Refusing:
    def find_spec(self, name, path=None, target=None):
        with open(NAMES, "a") as names:
            names.write(name + "\\n")
        if name.partition(".")[0] not in sys.stdlib_module_names:
            raise ModuleNotFoundError(name)

def refuse(number, frame):
    sys.meta_path.insert(0, Refusing())
    open(NAMES, "a").close()

signal.signal(signal.SIGUSR2, refuse)
"""
"""What the server runs first: from SIGUSR2 on it can import only the standard library. Each name is noted."""


class LateImportsTests(ServiceCase):
    config = live.CONFIG
    arguments: tuple[str, ...] = ()

    def setUp(self) -> None:
        self.folder = Path(self.mktemp()).absolute()
        self.names = self.folder / "names"
        hook = self.folder / "hook"
        hook.mkdir(parents=True)
        (hook / "sitecustomize.py").write_text(f"NAMES = {str(self.names)!r}\n{HOOK}")
        environ = {**self.environ, "PYTHONPATH": f"{hook}:{ROOT}"}
        self.service = Service(self.folder / "gamed", self.config, environ, arguments=self.arguments, forked=False)
        write_game(self.service, **live.GAME)
        self.addCleanup(self._end)
        self.service.start()
        self.wait_for(lambda: "modules_imported" in self.service.text())
        os.kill(self.service.pid, signal.SIGUSR2)
        self.wait_for(self.names.exists)

    def wait_for(self, true: Any) -> None:
        limit = monotonic() + PATIENCE_SECONDS
        while not true():
            self.assertLess(monotonic(), limit)
            sleep(0.02)

    def test_every_route(self) -> None:
        """All routes are served, to players who sign in, play and leave, and no module is missing."""
        prepared = live.prepare(self.service)
        for each in sorted(operations(), key=lambda each: each.method == "DELETE"):
            examples = {**path_examples(each), "token": prepared.link}
            where = sub(r"\{(\w+)\}", lambda found, of=examples: str(of[found[1]]), each.path)
            for bearer in (None, prepared.token):
                headers = {"If-Modified-Since": "Sun, 06 Nov 1994 08:49:37 GMT"}
                answer = self.ask(each.method, where, bearer=bearer, headers=headers)
                self.assertLess(answer.status, 500, f"{each.method} {where}: {answer.body!r}")
        self.assertEqual(self.names.read_text(), "")


def path_examples(operation: Any) -> Mapping[str, object]:
    return {each["name"]: each["example"] for each in operation.parameters if each["in"] == "path"}
