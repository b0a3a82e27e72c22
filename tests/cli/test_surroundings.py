import json
import os
import subprocess
from collections.abc import Sequence

from tests.cli.process import GAMED, WAIT_SECONDS, CommandTestCase, environment, free_port

WARNED = '{"mode": "local", "session": {"access_ttl": "30s"}}'


class SurroundingsTests(CommandTestCase):
    """Commands in a process with unusual streams, limits or variables: the answer is still one sentence."""

    def shell(self, redirection: str, *arguments: str | bytes) -> tuple[int, bytes, bytes]:
        """Run a shell command in this folder, with the redirections of its standard streams."""
        command: Sequence[str | bytes] = ["sh", "-c", f'exec "$@" {redirection}', "sh", *GAMED, *self.places]
        done = subprocess.run(
            [*command, *arguments],
            capture_output=True,
            timeout=WAIT_SECONDS,
            cwd=self.folder,
            env=environment(self.environ),
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    def test_closed_input(self) -> None:
        """Without any standard input, or text in it, there is no password, and that is said."""
        self.stop(self.serve()[0])
        for options in ((), ("--password-stdin",)):
            code, out, err = self.shell("<&-", "players", "add", "anna", *options)
            self.assertEqual((code, out), (2, b""))
            self.assertIn(b"Error: Standard input is", err)
        (self.folder / "typed").write_bytes(b"correct horse \xff")
        self.environ["PYTHONIOENCODING"] = "utf-8:strict"
        code, out, err = self.shell("<typed", "players", "add", "anna", "--password-stdin")
        self.assertEqual((code, out, err), (1, b"", b"gamed: The password is not UTF-8. Pass it in that encoding.\n"))

    def test_full_output(self) -> None:
        """Report output that cannot be written as an error of one line."""
        self.assertEqual(self.shell(">/dev/full", "key", "new"), (1, b"", b"gamed: No space left on device\n"))

    def test_no_text(self) -> None:
        """A name in bytes that are no text is wrong usage; a path is printed as well as it can be."""
        self.stop(self.serve()[0])
        code, out, err = self.shell("", "players", "token", b"\xff")
        self.assertEqual((code, out), (2, b""))
        self.assertIn(b"Invalid value for 'NAME-or-ID': this is not UTF-8.", err)
        code, out, err = self.shell("", "--data", os.fsencode(self.folder) + b"/\xff", "check", "config")
        self.assertEqual((code, err), (0, b""))
        self.assertIn(b"/\\udcff\n", out)

    def test_folder_in_the_way(self) -> None:
        """A file where a folder has to be stops the start with its name."""
        self.stop(self.serve()[0])
        (self.data / "tmp").rmdir()
        (self.data / "tmp").touch()
        code, _, err = self.gamed("serve", f"--listen=tcp:{free_port()}:interface=127.0.0.1")
        self.assertEqual((code, err), (1, f"gamed: File exists: {self.data / 'tmp'}\n"))

    def test_closed_or_full_stderr(self) -> None:
        """A refusal keeps its exit code, a warning stops nothing, and stdout stays what scripts read."""
        for redirection in ("2>&-", "2>/dev/full"):
            self.config.write_text("{")
            self.assertEqual(self.shell(redirection, "check", "config"), (78, b"", b""), redirection)
            self.config.write_text(WARNED)
            self.assertEqual(self.shell(redirection, "players", "list"), (1, b"", b""), redirection)
            code, out, _ = self.shell(redirection, "check", "config")
            self.assertEqual((code, b"warning" in out), (0, False), redirection)

    def test_a_start_with_full_stderr(self) -> None:
        """The server starts, too, when its warnings cannot be written."""
        self.write_config(json.loads(WARNED))
        port = free_port()
        listen = f"--listen=tcp:{port}:interface=127.0.0.1"
        process = self.start("sh", "-c", 'exec "$@" 2>/dev/full', "sh", *GAMED, *self.places, "serve", listen)
        self.await_answer(port, process)
        self.assertEqual(self.stop(process), 0)
