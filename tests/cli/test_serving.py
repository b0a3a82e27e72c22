import json
import os
import signal

from tests.cli.process import (
    GAMED,
    MODULE,
    TWISTD,
    CommandTestCase,
    await_end,
    end_daemon,
    free_port,
    get,
    python_apart,
    without_root_warning,
)
from tests.support.covers import covers
from tests.support.stores import POSTGRESQL, sqlite_files


class SameServiceTests(CommandTestCase):
    forked = False

    @covers("operational/1", "threats/63")
    def test_in_the_foreground(self) -> None:
        """`gamed serve`, `python -m gamed serve` and `twistd --nodaemon --pidfile= gamed serve` are one service.

        Each prints which files it uses, serves the same policy, leaves nothing in the current folder, and ends with 0
        when it is asked to with SIGTERM.
        """
        plain = (*TWISTD, "--nodaemon", "--pidfile=", "gamed", "serve", *self.places)
        for command in ((*GAMED, *self.places, "serve"), (*MODULE, "serve", *self.places), plain):
            port = free_port()
            process = self.start(*command, f"--listen=tcp:{port}:interface=127.0.0.1")
            self.await_answer(port, process)
            self.assertEqual(get(port, "/auth/config"), (200, b'{"mode":"local","providers":[]}'))
            self.assertEqual(self.stop(process), 0, self.output())
            self.assertIn(f"configuration {self.config}", self.output())
            self.assertIn(f"data {self.data}", self.output())
            names = {path.name for path in self.folder.iterdir()}
            self.assertEqual(names - {"data.store"}, {"authentication.json", "data", "out"})

    def test_daemon(self) -> None:
        """`twistd gamed serve` returns once it is started; the daemon answers, holds the folder, and stops cleanly."""
        port = free_port()
        listen = f"--listen=tcp:{port}:interface=127.0.0.1"
        code, out, err = self.run_command("gamed", "serve", *self.places, listen, of=TWISTD)
        self.assertEqual((code, without_root_warning(err)), (0, ""))
        made = "" if POSTGRESQL else " (made just now)"
        self.assertIn(f"configuration {self.config}{made}\n", out)
        pid = int((self.folder / "twistd.pid").read_text())
        self.addCleanup(end_daemon, pid)
        self.await_answer(port)
        self.assertEqual(self.gamed("health"), (0, "ok\n", ""))

        code, out, err = self.gamed("serve", f"--listen=tcp:{free_port()}:interface=127.0.0.1")
        self.assertEqual((code, out), (1, ""))
        self.assertIn("Another gamed already serves", err)

        os.kill(pid, signal.SIGTERM)
        await_end(pid)
        self.assertFalse((self.folder / "twistd.pid").exists())
        self.assertIn("Server Shut Down.", (self.folder / "twistd.log").read_text())

    def test_after_a_kill(self) -> None:
        """The lock falls with the process, however it ended: after kill -9 the next start needs no help."""
        first, _ = self.serve()
        first.kill()
        first.wait()
        second, _ = self.serve()
        self.assertEqual(self.stop(second), 0)


@sqlite_files("a first run without a configuration; PostgreSQL needs one")
class FirstRunTests(CommandTestCase):
    def test_makes_everything_once(self) -> None:
        """Configuration, folder, key and stores are made for their owner only; a second start changes none of them."""
        process, _ = self.serve()
        self.assertEqual(self.config.stat().st_mode & 0o777, 0o640)
        self.assertEqual(list(json.loads(self.config.read_text())), ["mode", "session"])
        self.assertEqual(self.data.stat().st_mode & 0o777, 0o700)
        for path in self.data.iterdir():
            self.assertEqual(path.stat().st_mode & 0o077, 0, path.name)
        self.stop(process)
        before = self.config.read_bytes(), (self.data / "auth.key").read_bytes()
        process, _ = self.serve()
        self.stop(process)
        self.assertEqual((self.config.read_bytes(), (self.data / "auth.key").read_bytes()), before)
        self.assertNotIn("made just now", self.output())

    def test_lost_saves(self) -> None:
        """A start that makes a new state.db beside players says so: its disk may not be mounted."""
        for lost in (False, True):
            process, _ = self.serve()
            self.assertEqual(self.stop(process), 0)
            self.assertEqual(f"There was no {self.data / 'state.db'}: no player has a save now." in self.output(), lost)
            (self.data / "state.db").unlink()

    def test_places_from_the_environment(self) -> None:
        """GAMED_CONFIG and GAMED_DATA name what the options would, as in the container (SPEC 2.1)."""
        config, data = self.folder / "app/config/authentication.json", self.folder / "app"
        python, variables = python_apart(self.folder / "python")
        self.environ = {"GAMED_CONFIG": str(config), "GAMED_DATA": str(data), **variables}
        port = free_port()
        process = self.start(python, *GAMED[1:], "serve", f"--listen=tcp:{port}:interface=127.0.0.1")
        self.await_answer(port, process)
        self.assertTrue(config.exists())
        self.assertTrue((data / "auth.db").exists())
        self.stop(process)
