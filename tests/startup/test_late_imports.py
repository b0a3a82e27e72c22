"""A request imports nothing: the server goes on when its virtual environment is deleted or replaced."""

import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from re import sub
from time import monotonic, sleep
from typing import Any

from tests.contract import live
from tests.contract.document import operations
from tests.e2e.cases import ServiceCase
from tests.e2e.client import write_game
from tests.e2e.service import ROOT, Service
from tests.e2e.wire import ask
from tests.processes.cases import SharedProviderCase
from tests.processes.wire import Request, bearer
from tests.support.folders import unused_path
from tests.support.ports import free_port

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
"""The server runs this first: from SIGUSR2 on it can import only the standard library. Each name is noted."""


class Hooked:
    """The noted names of servers whose Python runs HOOK first."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "names"
        hook = folder / "hook"
        hook.mkdir(parents=True)
        (hook / "sitecustomize.py").write_text(f"NAMES = {str(self.path)!r}\n{HOOK}")
        self.environ = {"PYTHONPATH": f"{hook}:{ROOT}"}

    def refuse(self, service: Service) -> None:
        """Let a running service import nothing more, once it is idle."""
        wait_for(lambda: "modules_imported" in service.text())
        os.kill(service.pid, signal.SIGUSR2)
        wait_for(self.path.exists)

    def read(self) -> str:
        return self.path.read_text()


def wait_for(true: Callable[[], bool]) -> None:
    limit = monotonic() + PATIENCE_SECONDS
    while not true():
        if monotonic() > limit:
            raise AssertionError(f"not within {PATIENCE_SECONDS} s")
        sleep(0.02)


class LateImportsTests(ServiceCase):
    config = live.CONFIG

    def setUp(self) -> None:
        self.folder = unused_path(self)
        self.hooked = Hooked(self.folder)
        environ = {**live.ENVIRON, **self.hooked.environ}
        admin = f"--admin=tcp:{(admin_port := free_port())}:interface=127.0.0.1"
        self.service = Service(self.folder / "gamed", self.config, environ, arguments=(admin,), forked=False)
        self.admin_port = admin_port
        write_game(self.service, **live.GAME)
        self.addCleanup(self._end)
        self.service.start()
        self.hooked.refuse(self.service)

    def test_every_route(self) -> None:
        """All routes are served, to players who sign in, play and leave, and no module is missing."""
        prepared = live.prepare(self.service)
        for each in sorted(operations(), key=lambda each: each.method == "DELETE"):
            examples = {**path_examples(each), "token": prepared.link}
            where = sub(r"\{(\w+)\}", lambda found, of=examples: str(of[found[1]]), each.path)
            for token in (None, prepared.token):
                headers = {"If-Modified-Since": "Sun, 06 Nov 1994 08:49:37 GMT"}
                answer = self.ask(each.method, where, bearer=token, headers=headers)
                self.assertLess(answer.status, 500, f"{each.method} {where}: {answer.body!r}")
        asked = {"audience": "match.example", "nonce": "n"}
        ticket = self.ask("POST", "/auth/tickets", json_body=asked, bearer=live.token_of(self.service, "berta"))
        form = {"body": f"token={ticket.json['ticket']}".encode(), "headers": live.FORM}
        found = self.ask("POST", "/auth/tickets/introspect", bearer=live.AUDIENCE_SECRET, **form)
        self.assertTrue(found.json["active"])
        for path in ("/", "/metrics", "/readyz"):
            self.assertEqual(ask(self.admin_port, "GET", path).status, 200, path)
        self.assertEqual(self.hooked.read(), "")


class LateProviderImportsTests(SharedProviderCase):
    """The same where players sign in at providers."""

    def make_server(self, number: int) -> Service:
        server = super().make_server(number)
        self.hooked = getattr(self, "hooked", None) or Hooked(self.folder)
        server.environ |= self.hooked.environ
        server.forked = False
        return server

    def start(self) -> None:
        super().start()
        for server in self.servers:
            self.hooked.path.unlink(missing_ok=True)
            self.hooked.refuse(server)

    def test_sign_in(self) -> None:
        """Players sign in at each provider, and no module is missing."""
        for stand in self.stands:
            token = bearer(self.sign_in(stand, "anna"))
            self.ask(0, Request("GET", "/game/", token), 200)
        self.assertEqual(self.hooked.read(), "")


def path_examples(operation: Any) -> Mapping[str, object]:
    return {each["name"]: each["example"] for each in operation.parameters if each["in"] == "path"}
