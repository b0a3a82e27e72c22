"""Only `gamed dev` imports and starts the development provider, on loopback only."""

import os
import subprocess
import sys

from twisted.internet.testing import MemoryReactor
from twisted.trial.unittest import SynchronousTestCase

from gamed.cli.commands import COMMANDS
from gamed.dev.documents import DISCORD_AUTHORIZE, DISCORD_TOKEN, DISCORD_USER, DISCOVERY, GOOGLE_AUTHORIZE
from gamed.dev.servers import LoopbackService
from tests.e2e.cases import ServiceCase
from tests.support.provider import development_provider
from tests.test_layout import ROOT, imports, package

OPENED = "import sys, gamed.cli.commands, gamed.tap, gamed.service, gamed.cli.service.serve; print(*sys.modules)"


class AloneTests(SynchronousTestCase):
    def test_who_imports_it(self) -> None:
        """Only the modules of `gamed dev` import it, late imports included."""
        modules = package()
        importers = {
            module
            for module, source in modules.items()
            if any(target == "gamed.dev" or target.startswith("gamed.dev.") for target in imports(source, modules))
        }
        outside = {module for module in importers if not module.startswith("gamed.dev.")}
        self.assertEqual(outside, {"gamed.cli.dev.setup", "gamed.cli.dev.command"})
        named = {
            module
            for module, source in modules.items()
            for target in imports(source, modules)
            if target in ("gamed.cli.dev.command", "gamed.cli.dev.setup", "gamed.cli.dev.script")
        }
        self.assertEqual(named, {"gamed.cli.dev.command", "gamed.cli.dev.script"})
        self.assertEqual([name for name, (_, module, _) in COMMANDS.items() if module.startswith("dev")], ["dev"])

    def test_serve_does_not_load_it(self) -> None:
        """`serve` does not import the provider."""
        environ = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-c", OPENED], env=environ, capture_output=True, text=True, timeout=300, check=True
        )
        loaded = done.stdout.split()
        self.assertIn("gamed.service", loaded)
        self.assertEqual([module for module in loaded if module.startswith(("gamed.dev", "gamed.cli.dev."))], [])

    def test_loopback(self) -> None:
        """Its service opens one port, on 127.0.0.1."""
        reactor = MemoryReactor()
        LoopbackService(reactor, 8081, development_provider().app.resource()).startService()
        [(port, _, _, interface)] = reactor.tcpServers
        self.assertEqual((port, interface), (8081, "127.0.0.1"))


class ServeTests(ServiceCase):
    def test_no_route(self) -> None:
        """A served gamed answers none of the provider's paths, under any prefix; `/` and `/auth/` are its own page."""
        paths = (DISCORD_AUTHORIZE, DISCORD_TOKEN, DISCORD_USER, DISCOVERY, GOOGLE_AUTHORIZE, "/token", "/", "/dev")
        for path in paths:
            for prefix in ("", "/auth", "/auth/dev", "/dev"):
                for method in ("GET", "POST"):
                    answer = self.ask(method, prefix + path, body=b"")
                    page = prefix + path in ("/", "/auth/")
                    self.assertEqual(answer.status, 405 if page and method == "POST" else 404, (method, prefix + path))
                    self.assertNotIn(b"Development", answer.body)
