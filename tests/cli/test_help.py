"""`gamed --help`, the manual page, the completions of shells and the hints for mistyped words."""

import json
import os
import pty
import select
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from shutil import which
from zipfile import ZipFile

import click
from click.testing import CliRunner

from gamed.cli.commands import COMMANDS, gamed
from gamed.cli.examples import EXAMPLES
from gamed.cli.man import manual_page
from tests.cli.process import ROOT, WAIT_SECONDS, CommandTestCase, environment
from tests.support.commands import members

MACROS = {".TH", ".SH", ".SS", ".PP", ".TP", ".B"}
"""The macros of man(7) that the page uses."""


def every_command(group: click.Group, path: str = "gamed") -> Iterator[tuple[str, click.Command]]:
    """Yield each command below the group, groups included, with its words."""
    for name, command in members(group):
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from every_command(command, f"{path} {name}")


class HelpTests(CommandTestCase):
    def test_one_screen(self) -> None:
        """Fit one screen of 80 columns, with a line for every command, in groups."""
        lines = CliRunner().invoke(gamed, ["--help"], prog_name="gamed").output.splitlines()
        self.assertTrue(24 <= len(lines) <= 34, len(lines))
        self.assertLessEqual(max(map(len, lines)), 80)
        rows = lines[lines.index("Commands:") + 1 :]
        rows = rows[: rows.index("")]
        shown = [name for row in rows for name in row[11:].partition("  ")[0].split(", ")]
        self.assertEqual(shown, list(COMMANDS))
        groups = [group for row in rows if (group := row[:11].strip())]
        self.assertEqual(groups, ["run", "players", "data", "assets", "keys", "help"])

    def test_both_stores(self) -> None:
        """Name neither file of SQLite in a help: the databases may be PostgreSQL's."""
        for words, command in [("gamed", gamed), *every_command(gamed)]:
            shown = command.get_help(click.Context(command, info_name=words))
            self.assertNotRegex(shown, r"(auth|state)\.db", words)

    def test_mistyped(self) -> None:
        """Name the command or option that a mistyped word is similar to."""
        for words, meant in (
            ("player list", "'players'"),
            ("players lst", "'list'"),
            ("assets pubish folder", "'publish'"),
            ("check dta", "'data'"),
            ("players list --jsn", "'--json'"),
            ("players list --pendin", "'--pending'"),
            ("--confg x serve", "'--config'"),
            ("serve --log-fromat json", "'--log-format'"),
        ):
            result = CliRunner().invoke(gamed, words.split())
            self.assertEqual((result.exit_code, result.stdout), (2, ""), words)
            self.assertIn(f"Did you mean {meant}?", result.stderr, words)

    def test_nothing_similar(self) -> None:
        """Suggest nothing for a word that is not similar to a command."""
        result = CliRunner().invoke(gamed, ["xyzzy"])
        self.assertEqual(result.exit_code, 2)
        self.assertTrue(result.stderr.endswith("No such command 'xyzzy'.\n"), result.stderr)

    def test_examples(self) -> None:
        """End the help of a command with examples that the command accepts."""
        found = dict(every_command(gamed))
        for words, examples in EXAMPLES.items():
            for example in examples:
                line = shlex.split(example.partition(" > ")[0].removeprefix("source <(").removesuffix(")"))
                if words:
                    shown = found[f"gamed {words}"].get_help(click.Context(found[f"gamed {words}"]))
                    self.assertIn(example, shown)
                command, rest = gamed, line[1:]
                while isinstance(command, click.Group):
                    _, command, rest = command.resolve_command(click.Context(command), rest)
                if "/mnt" not in example:
                    command.make_context("example", rest)

    def test_manual_examples(self) -> None:
        """Show the examples in the manual page, and what to read next."""
        page = "\n".join(manual_page(gamed)).replace(r"\-", "-")
        self.assertIn("gamed players list --state pending", page)
        self.assertIn(".SH EXAMPLES", page)
        self.assertIn(".SH SEE ALSO", page)


class ManualTests(CommandTestCase):
    def test_complete(self) -> None:
        """Describe every command with its arguments, and every option with its help."""
        page = CliRunner().invoke(gamed, ["man"]).output.replace(r"\-", "-").replace(r"\(aq", "'").replace(r"\(dq", '"')
        sections = dict(part.partition("\n")[::2] for part in page.split("\n.SS ")[1:])
        titles = {title.strip('"'): " ".join(text.split()) for title, text in sections.items()}
        found = 0
        for path, command in every_command(gamed):
            [text] = [text for title, text in titles.items() if title.startswith((f"{path} [", f"{path} COMMAND"))]
            for option in command.params:
                if isinstance(option, click.Option):
                    found += 1
                    self.assertIn(option.opts[-1], text, path)
                    self.assertIn(" ".join((option.help or "?").replace("`", "").split()[:3]), text, path)
                else:
                    [title] = [title for title in titles if title.startswith(f"{path} [")]
                    self.assertIn(option.make_metavar(click.Context(command)), title)
        self.assertGreater(found, 60)

    def test_rendered(self) -> None:
        """Print a page that groff formats without a warning, where it is installed."""
        code, page, err = self.run_command("man")
        self.assertEqual((code, err), (0, ""))
        self.assertTrue(page.startswith('.TH GAMED 1 "" "gamed '), page[:80])
        if which("groff"):
            words = ["groff", "-man", "-ww", "-Tascii", "-P-c", "-P-b", "-P-u"]
            done = subprocess.run(words, input=page, capture_output=True, text=True, timeout=WAIT_SECONDS, check=True)
            self.assertEqual(done.stderr, "")
            self.assertIn("gamed players merge [OPTIONS] OLD", done.stdout)

    def test_characters(self) -> None:
        """Escape the characters of a help text that roff would interpret."""
        command = click.Command("planted", help=""".TH is 'no' macro: a\\b - "c" `code`\n\n'quoted\n\n.BR""")
        lines = list(manual_page(click.Group("gamed", {"planted": command})))
        self.assertLessEqual({line.split()[0] for line in lines if line.startswith((".", "'"))}, MACROS)
        self.assertIn(r"\&.TH is \(aqno\(aq macro: a\eb \- \(dqc\(dq \fBcode\fR", lines)
        self.assertIn(r"\(aqquoted", lines)


class CompletionTests(CommandTestCase):
    def setUp(self) -> None:
        """Make `gamed` a command, as an installation does, and write the completion of each shell."""
        super().setUp()
        script = self.folder / "gamed"
        script.write_text(f"#!{sys.executable}\nfrom gamed.cli import main\nmain()\n")
        script.chmod(0o755)
        self.environ = {"PATH": f"{self.folder}:{os.environ['PATH']}", "HOME": str(self.folder), "TERM": "dumb"}
        for shell in ("bash", "zsh", "fish"):
            code, out, err = self.gamed_here("completion", shell)
            self.assertEqual((code, err), (0, ""))
            (self.folder / shell).write_text(out)

    def test_bash(self) -> None:
        """Complete a command, a command of a group and an option when TAB is pressed in bash."""
        for typed, completed in (
            ("gamed pl", "gamed players"),
            ("gamed assets set", "gamed assets set-channel"),
            ("gamed -c x check d", "gamed -c x check data"),
            ("gamed check data --f", "gamed check data --fix"),
            ("gamed completion z", "gamed completion zsh"),
        ):
            self.assertIn(f"<{completed} >", self.tab_in_bash(typed))

    def tab_in_bash(self, typed: str) -> str:
        """Return what an interactive bash shows after the text and TAB; it then prints its line in < >."""
        keys = f"{typed}\t\x05>'\x01echo '<\n"
        near, far = pty.openpty()
        words = ["bash", "--norc", "--noprofile", "-i"]
        env = environment(self.environ)
        shell = subprocess.Popen(words, stdin=far, stdout=far, stderr=far, env=env, cwd=self.folder, process_group=0)
        os.close(far)
        self.addCleanup(os.close, near)
        self.addCleanup(shell.wait)
        self.addCleanup(shell.kill)
        os.write(near, b"source ./bash; echo rea''dy\n")
        shown = self.read_until(near, "ready\r")
        os.write(near, keys.encode())
        return shown + self.read_until(near, " >\r")

    def read_until(self, terminal: int, end: str) -> str:
        """Return what the terminal shows until `end` is there."""
        shown, deadline = "", time.monotonic() + WAIT_SECONDS
        while end not in shown and time.monotonic() < deadline:
            if select.select([terminal], [], [], 1)[0]:
                shown += os.read(terminal, 4096).decode("utf-8", "replace")
        return shown

    def test_zsh(self) -> None:
        """Offer the words that zsh asks for with the script's own request; zsh registers the script."""
        self.environ |= {"COMP_WORDS": "gamed players l", "COMP_CWORD": "2", "_GAMED_COMPLETE": "zsh_complete"}
        self.assertEqual(self.run_command()[1].splitlines()[:2], ["plain", "list"])
        self.assertIn("_GAMED_COMPLETE=zsh_complete gamed", (self.folder / "zsh").read_text())
        if which("zsh"):
            del self.environ["_GAMED_COMPLETE"]
            check = "autoload -Uz compinit && compinit -u -D && source ./zsh && print -r -- $_comps[gamed]"
            self.assertEqual(self.run_command("-f", "-c", check, of=("zsh",)), (0, "_gamed_completion\n", ""))

    def test_fish(self) -> None:
        """Offer the words that fish asks for, with what each does."""
        self.environ |= {"COMP_WORDS": "gamed players", "COMP_CWORD": "l", "_GAMED_COMPLETE": "fish_complete"}
        self.assertTrue(self.run_command()[1].startswith("plain,list\t"), self.run_command())
        if which("fish"):
            del self.environ["_GAMED_COMPLETE"]
            check = "source ./fish; complete -C 'gamed players l'"
            code, out, _ = self.run_command("--no-config", "-c", check, of=("fish",))
            self.assertEqual((code, out.split("\t")[0]), (0, "list"))

    def test_installed(self) -> None:
        """Install the manual page and the completions with the lines of docs/owners/commands.md, where shells look."""
        page = (ROOT / "docs/owners/commands.md").read_text("utf-8")
        block = page.partition("## Manual page and completion")[2].partition("```sh\n")[2].partition("```")[0]
        self.assertEqual(self.run_command("-e", "-c", block, of=("bash",)), (0, "", ""))
        shared = self.folder / ".local/share"
        manual = (shared / "man/man1/gamed.1").read_text("utf-8")
        self.assertEqual(manual, self.gamed_here("man")[1])
        if which("man"):
            where = self.run_command("-M", str(shared / "man"), "-w", "gamed", of=("man",))[1]
            self.assertEqual(where, f"{shared / 'man/man1/gamed.1'}\n")
        for shell, file in (
            ("bash", shared / "bash-completion/completions/gamed"),
            ("fish", self.folder / ".config/fish/completions/gamed.fish"),
        ):
            self.assertEqual(file.read_text("utf-8"), (self.folder / shell).read_text("utf-8"))
        self.assertIn("gamed completion zsh", (self.folder / ".zshrc").read_text("utf-8"))

    def test_commands_are_not_imported(self) -> None:
        """Complete the name of a command without an import of any command's module."""
        look = "import atexit, sys; from gamed.cli import main; "
        look += "atexit.register(lambda: print([name for name in sys.modules if 'gamed.cli.' in name])); main()"
        self.environ |= {"COMP_WORDS": "gamed ", "COMP_CWORD": "1", "_GAMED_COMPLETE": "bash_complete"}
        code, out, _ = self.run_command(of=(sys.executable, "-c", look))
        *found, loaded = out.splitlines()
        self.assertEqual((code, len(found)), (0, len(COMMANDS)))
        self.assertNotIn("players", loaded)
        self.assertNotIn("assets", loaded)


class ServerCompletionTests(CommandTestCase):
    def completed(self, words: str, number: int) -> list[str]:
        """Return what bash is offered for the word with this number."""
        self.environ |= {"GAMED_CONFIG": str(self.config), "GAMED_DATA": str(self.data)}
        asked = {"_GAMED_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(number)}
        self.environ |= asked
        try:
            code, out, err = self.run_command()
        finally:
            for name in asked:
                del self.environ[name]
        self.assertEqual((code, err), (0, ""))
        return out.split()

    def test_of_a_server(self) -> None:
        """Complete players, saves, channels, releases and backups of this server."""
        process, _ = self.serve()
        self.stop(process)
        for name in ("anna", "ben"):
            self.gamed("players", "add", name, "--password-stdin", stdin="correct horse\n")
        (self.folder / "build").mkdir()
        (self.folder / "build/a").write_text("a")
        release = json.loads(self.gamed("assets", "publish", str(self.folder / "build"), "--json")[1])["release"]
        with ZipFile(self.folder / "a.zip", "w") as archive:
            archive.writestr("saves/slot-1/1", b"x")
        self.gamed("saves", "import", "anna", str(self.folder / "a.zip"))
        backup = json.loads(self.gamed("backup", str(self.folder / "backups"), "--json")[1])["backup"]
        for words, number, offered in (
            ("gamed players show A", 3, ["anna"]),
            ("gamed players merge ben --into ", 5, ["anna", "ben"]),
            ("gamed saves versions anna ", 4, ["slot-1"]),
            ("gamed assets rollback ", 3, ["stable"]),
            ("gamed assets verify r", 3, [release]),
            (f"gamed restore {self.folder}/backups/g", 2, [backup]),
        ):
            self.assertEqual(sorted(self.completed(words, number)), [f"plain,{each}" for each in offered], words)

    def test_paths(self) -> None:
        """Complete files after --config and folders after --data."""
        self.assertEqual(self.completed("gamed --config x", 2), ["file,x"])
        self.assertEqual(self.completed("gamed serve --data x", 3), ["dir,x"])

    def test_no_server(self) -> None:
        """Offer nothing and print nothing where there is no server, or where its configuration is wrong."""
        self.assertEqual(self.completed("gamed players show ", 3), [])
        self.config.write_text("{")
        for words in ("gamed players show ", "gamed assets rollback ", "gamed saves versions ply_A "):
            self.assertEqual(self.completed(words, len(words.split())), [], words)
