"""A command answers anything that is typed after its name in a sentence."""

import json
from collections.abc import Iterator

import click
from click.testing import CliRunner
from twisted.trial.unittest import SynchronousTestCase

from gamed.cli.commands import RENAMED, gamed
from gamed.cli.output import counted, prompt_password, utf8
from tests.cli.process import CommandTestCase
from tests.support.commands import members

NO_TEXT = "an\udcffna"
"""Python's character for a byte that is not UTF-8."""


def parameters(group: click.Group) -> Iterator[tuple[str, click.Parameter]]:
    """Yield every argument and option that follows a command's name."""
    for name, command in members(group):
        if isinstance(command, click.Group):
            yield from parameters(command)
        else:
            yield from ((name, parameter) for parameter in command.params)


class WordTests(SynchronousTestCase):
    def test_words_are_text(self) -> None:
        """Words that end up in a store are text; only the names of files may be any bytes."""
        paths = {"config", "data", "listen", "admin", "folder"}
        loose = [
            (command, parameter.name)
            for command, parameter in parameters(gamed)
            if parameter.type is click.STRING and parameter.name not in paths
        ]
        self.assertEqual(loose, [])
        self.assertGreater(len([each for _, each in parameters(gamed) if getattr(each.type, "func", None) is utf8]), 20)

    def test_no_text(self) -> None:
        """Other bytes are wrong usage."""
        for words in (["players", "show", NO_TEXT], ["players", "merge", "anna", "--into", NO_TEXT]):
            result = CliRunner().invoke(gamed, words)
            self.assertEqual((result.exit_code, result.stdout), (2, ""))
            self.assertIn("this is not UTF-8", result.stderr)

    def test_options_too_late(self) -> None:
        """An error shows where the options of every command belong."""
        for option in ("--config", "-c", "--data"):
            result = CliRunner().invoke(gamed, ["players", "list", option, "x"])
            self.assertEqual(result.exit_code, 2)
            self.assertIn(f"gamed {option} ... players list", result.stderr)
        self.assertIn("No such option", CliRunner().invoke(gamed, ["players", "list", "--conf"]).stderr)

    def test_old_names(self) -> None:
        """The error for a command's old name prints the present name, and no old name is a command any more."""
        for old, present in (
            ("check-config", "check config"),
            ("check --fix", "check data --fix"),
            ("check --json", "check data --json"),
            ("check --json --fix", "check data --json --fix"),
            ("saves ls anna", "saves list"),
            ("assets ls", "assets list"),
            ("assets point stable r0", "assets set-channel"),
            ("assets drop stable --yes", "assets delete-channel"),
            ("players attach anna --to ben", "players merge OLD --into NEW"),
        ):
            result = CliRunner().invoke(gamed, old.split(), prog_name="gamed")
            self.assertEqual((result.exit_code, result.stdout), (2, ""), old)
            self.assertTrue(result.stderr.endswith(f". Use: gamed {present}\n"), result.stderr)
        for present in RENAMED.values():
            self.assertEqual(CliRunner().invoke(gamed, [*present.split()[:2], "--help"]).exit_code, 0, present)

    def test_check_needs_a_command(self) -> None:
        """`gamed check`, which was a command of its own, is wrong usage: a script must not take it for a success."""
        result = CliRunner().invoke(gamed, ["check"], prog_name="gamed")
        self.assertEqual((result.exit_code, result.stdout), (2, ""))
        self.assertIn("Missing command. Use: gamed check data, or: gamed check config", result.stderr)

    def test_a_port(self) -> None:
        """`serve` has one option for both: the error for a port or a host, as other servers have them, shows it."""
        for option in ("--port", "--host"):
            result = CliRunner().invoke(gamed, ["serve", option, "9000"])
            self.assertEqual((result.exit_code, result.stdout), (2, ""))
            self.assertIn(f"No such option '{option}'. Use: --listen PORT", result.stderr)
        self.assertNotIn("--listen", CliRunner().invoke(gamed, ["health", "--port", "9000"]).stderr)

    def test_counts(self) -> None:
        """One thing is said of as one."""
        self.assertEqual([counted(each, "save") for each in (0, 1, 2)], ["0 saves", "1 save", "2 saves"])

    def test_a_password(self) -> None:
        """The prompt shows the allowed length of a password."""
        with CliRunner().isolation("correct horse\ncorrect horse\n") as (out, *_):
            self.assertEqual(prompt_password(), "correct horse")
            self.assertIn(b"Password (8 to 128 characters)", out.getvalue())

    def test_every_command_speaks_json(self) -> None:
        """All but those that serve, and those that print a file."""
        options = {name: {option for each in command.params for option in each.opts} for name, command in leaves(gamed)}
        silent = {name for name, named in options.items() if "--json" not in named}
        self.assertEqual(silent, {"setup", "serve", "dev", "man", "completion", "unit", "nginx", "caddy"})


def leaves(group: click.Group) -> Iterator[tuple[str, click.Command]]:
    for name, command in members(group):
        if isinstance(command, click.Group):
            yield from leaves(command)
        else:
            yield name, command


class HealthTests(SynchronousTestCase):
    def test_addresses(self) -> None:
        """Refuse an invalid address as wrong usage; report a server that does not answer as unhealthy."""
        for url in ("play.example.org", "ftp://a", "http://", "http://a:99999", "http://[::1", "http://a b/"):
            result = CliRunner().invoke(gamed, ["health", "--url", url])
            self.assertEqual((result.exit_code, result.stdout), (2, ""), url)
            self.assertIn("expected an address", result.stderr)
        result = CliRunner().invoke(gamed, ["health", "--url", f"http://{'a' * 64}.example"])
        self.assertEqual((result.exit_code, result.stdout), (1, ""))
        self.assertIs(type(result.exception), SystemExit)


class JsonTests(CommandTestCase):
    def test_small_commands(self) -> None:
        """Print JSON for scripts, also in the commands that do not concern players."""
        _, port = self.serve()
        [fingerprint] = json.loads(self.gamed("key", "fingerprint", "--json")[1]).values()
        self.assertEqual(self.gamed("key", "fingerprint")[1], f"{fingerprint}\n")
        well = json.loads(self.gamed("health", "--json")[1])
        self.assertEqual(well["health"], "ok")
        self.assertRegex(well["instance"], r"^[0-9a-f]{8}$")
        elsewhere = self.gamed("health", f"--url=http://localhost:{port}", "--json")[1]
        self.assertEqual(json.loads(elsewhere), well)
        checked = json.loads(self.gamed("check", "config", "--json")[1])
        self.assertEqual((checked["mode"], checked["providers"], checked["data"]), ("local", [], str(self.data)))
        made = CliRunner().invoke(gamed, ["key", "new", "--json"])
        self.assertEqual(len(json.loads(made.stdout)["key"]), 44)
