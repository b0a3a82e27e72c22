"""A start imports the modules that the configuration needs, and no others."""

import json
import sys
from collections.abc import Mapping

from gamed.cli.commands import COMMANDS
from tests.cli.process import CommandTestCase, without_root_warning
from tests.startup.test_policy import OAUTH, SECRETS

SERVE = """
import gc, sys
from twisted.internet import reactor
from gamed.cli import main

def up():
    sys.__stdout__.write("up " + " ".join([str(gc.isenabled()), *sys.modules]) + "\\n")
    reactor.stop()

reactor.callWhenRunning(up)
main()
"""
PROVIDERS = {"gamed.providers.oidc", "gamed.providers.oauth2", "gamed.providers.transport", "joserfc", "treq"}
LEFT_OUT = {
    *("gamed.ops.metrics", "gamed.assets.publish", "gamed.cli.people.players", "prometheus_client", "unittest"),
    *("argon2", "concurrent.futures.thread", "click.shell_completion"),
    *("psycopg", "gamed.database.postgresql", "gamed.database.postgresql.store"),
}
FOR_NETWORKS = {"twisted", "asyncio", "ssl", "http.client", "email", "argon2", "concurrent.futures", "difflib"}
"""Modules that no command needs which only reads and writes the databases and the configuration."""
DATABASE_COMMANDS = (
    *("checks.check", "data.backup", "data.restore", "data.saves", "man", "people.events", "people.links"),
    *("people.moderation", "people.owner", "people.players", "people.sessions", "setup.config"),
)


class LoadedTests(CommandTestCase):
    def loaded(self, config: Mapping[str, object], *options: str) -> set[str]:
        """Return the modules of a running service; the garbage collector, which was paused, is enabled again."""
        self.config.write_text(json.dumps(config))
        words = [*self.places, "serve", "--listen", "tcp:0:interface=127.0.0.1", *options]
        code, out, err = self.run_command(*words, of=(sys.executable, "-c", SERVE))
        self.assertEqual((code, without_root_warning(err)), (0, ""))
        [line] = [line for line in out.splitlines() if line.startswith("up ")]
        _, collecting, *modules = line.split(" ")
        self.assertEqual(collecting, "True")
        return set(modules)

    def test_local(self) -> None:
        """Local mode imports no clients of providers, no other commands, and no metrics."""
        loaded = self.loaded({"mode": "local"})
        self.assertEqual(loaded & (PROVIDERS | LEFT_OUT), set())
        self.assertIn("gamed.players.passwords", loaded)

    def test_oauth(self) -> None:
        """OAuth mode imports the clients of providers at the start, so that no sign-in waits for an import."""
        self.environ = dict(SECRETS)
        self.assertLessEqual(PROVIDERS, self.loaded(OAUTH))

    def test_admin(self) -> None:
        """`--admin` imports the metrics."""
        loaded = self.loaded({"mode": "local"}, "--admin", "tcp:0:interface=127.0.0.1")
        self.assertLessEqual({"gamed.ops.metrics", "prometheus_client"}, loaded)


class CommandTests(CommandTestCase):
    def test_database_commands(self) -> None:
        """The commands for databases and configuration import no network library, so that they start in a moment."""
        for name in DATABASE_COMMANDS:
            look = f"import sys, gamed.cli.commands, gamed.cli.{name}; print(*sys.modules)"
            code, out, err = self.run_command("-c", look, of=(sys.executable,))
            self.assertEqual((code, err, FOR_NETWORKS & set(out.split())), (0, "", set()), name)

    def test_all_commands(self) -> None:
        """The list of all commands is made without any of them, and without a network library."""
        look = "import sys, gamed.cli.commands; print(*sys.modules)"
        code, out, err = self.run_command("-c", look, of=(sys.executable,))
        loaded = set(out.split())
        self.assertEqual((code, err, FOR_NETWORKS & loaded), (0, "", set()))
        self.assertEqual({f"gamed.cli.{module}" for _, module, _ in COMMANDS.values()} & loaded, {"gamed.cli.commands"})
