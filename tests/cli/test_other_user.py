"""Commands run as root on the data folder of a service that runs as another user.

See docs/owners/players.md: Where commands find the key; SPEC 2.2.
"""

import json
import os
import pwd
import py_compile
import subprocess
from importlib.util import cache_from_source
from pathlib import Path
from shutil import rmtree

from twisted.trial.unittest import SynchronousTestCase

import gamed.cli.commands  # what the other user has to be able to import, too
import gamed.service  # noqa: F401
from gamed.cli.process import refuse_foreign_folder
from tests.cli.other_user import library_folders, package_for_all, python_for_all, reachable
from tests.cli.process import GAMED, CommandTestCase, folder_of, free_port, get

OTHER = 54321
"""A user whom this machine has no name for, as in a container."""
RUN = "from gamed.cli import main; main()"
DROP = "import os, sys; os.setgroups([]); os.setgid({0}); os.setuid({0}); os.execv(sys.argv[1], sys.argv[1:])"


class OtherUserTests(CommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.uid = OTHER if os.geteuid() == 0 else os.geteuid()
        self.folder.chmod(0o755)
        self.python, self.for_all = python_for_all()
        self.environ |= self.for_all
        self.data.mkdir(0o700)
        self.write_config()
        if self.uid == OTHER:
            os.chown(self.data, OTHER, OTHER)

    def serve_as_other(self) -> int:
        port = free_port()
        serve = [self.python, "-c", RUN, *self.places, "serve", f"--listen=tcp:{port}:interface=127.0.0.1"]
        drop = [self.python, "-c", DROP.format(OTHER)] if self.uid == OTHER else []
        self.process = self.start(*drop, *serve)
        self.await_answer(port, self.process)
        return port

    def run_as_root(self, *arguments: str, stdin: str = "") -> str:
        """Run a command as root; return its output."""
        code, out, err = self.run_command(*self.places, *arguments, of=(self.python, "-c", RUN), stdin=stdin)
        self.assertEqual((code, err), (0, ""), arguments)
        return out

    def fork_commands(self) -> None:
        """Run the commands of root from now on with the Python of this process, which can fork them."""
        self.python = GAMED[0]
        for name in self.for_all:
            del self.environ[name]

    def foreign_files(self) -> list[Path]:
        """Return the files in the data folder that are not the service's user's own, or that others can read."""
        files = [self.data, *self.data.rglob("*")]
        return [file for file in files if file.stat().st_uid != self.uid or file.stat().st_mode & 0o077]

    def test_every_command(self) -> None:
        """Each works beside the running service, holds from its next request on, and leaves no file of root's."""
        port = self.serve_as_other()
        self.fork_commands()
        for name in ("Anna", "ben", "carl"):
            self.run_as_root("players", "add", name, "--password-stdin", stdin="correct horse")
        token = json.loads(self.run_as_root("players", "token", "anna", "--json"))["access_token"]
        self.assertEqual(get(port, "/auth/sessions", token)[0], 200)
        for arguments in (
            ("doctor",),
            ("players", "list"),
            ("players", "show", "anna"),
            ("players", "note", "anna", "my sister"),
            ("players", "block", "ben"),
            ("players", "unblock", "ben"),
            ("owner", "claim", "anna"),
            ("owner", "show"),
            ("owner", "reset"),
            ("sessions", "list"),
            ("key", "fingerprint"),
            ("players", "merge", "carl", "--into", "ben"),
            ("players", "erase", "ben", "--yes"),
        ):
            self.run_as_root(*arguments)
        self.run_as_root("players", "password", "anna", "--password-stdin", stdin="battery staple")
        self.assertEqual(get(port, "/auth/sessions", token)[0], 401)
        self.assertIn("0 sessions", self.run_as_root("sessions", "revoke", "anna"))
        self.assertEqual(self.foreign_files(), [])
        self.assertEqual(self.run_as_root("health"), "ok\n")
        self.assertEqual(self.stop(self.process), 0)
        self.assertIn(f"by=uid:{os.getuid()} ", self.output())
        self.assertEqual(self.foreign_files(), [])

    def test_serve_as_root(self) -> None:
        """Root is refused, and the command that the refusal prints starts the server as the folder's user, with the
        configuration and the data that the environment names, also from a folder that this user cannot enter."""
        if self.uid != OTHER:
            self.assertIsNone(refuse_foreign_folder(self.data))
            return
        self.environ |= {"GAMED_CONFIG": str(self.config), "GAMED_DATA": str(self.data)}
        closed = self.folder / "closed"
        closed.mkdir(0o700)
        for uid, user in ((OTHER, str(OTHER)), (pwd.getpwnam("nobody").pw_uid, "nobody")):
            os.chown(self.data, uid, uid)
            port = free_port()
            serve = (self.python, "-c", RUN, "serve", f"--listen=tcp:{port}:interface=127.0.0.1")
            code, out, err = self.run_command(of=serve)
            self.assertEqual((code, out), (78, ""), err)
            command = err.strip().partition("with the same settings: ")[2]
            self.assertTrue(command.startswith(f"setpriv --reuid={user} "), err)
            process = self.start("/bin/sh", "-c", f"cd {closed} && exec {command}")
            self.await_answer(port, process)
            self.assertEqual({path.stat().st_uid for path in self.data.iterdir()}, {uid})
            self.assertEqual(self.stop(process), 0, self.output())
            rmtree(self.data)
            self.data.mkdir(0o700)

    def test_assets(self) -> None:
        """Give the service's user what root publishes; refuse a file that this user cannot read, by its name."""
        self.serve_as_other()
        assets = self.folder / "assets"
        assets.mkdir(mode=0o755)
        (assets / "readme.txt").write_bytes(b"hello")
        self.run_as_root("assets", "publish", str(assets))
        self.assertIn("no errors: 1 release,", self.run_as_root("assets", "verify"))
        self.assertEqual(self.foreign_files(), [])
        (assets / "closed.txt").write_bytes(b"root's own")
        (assets / "closed.txt").chmod(0o000)
        command = (*self.places, "assets", "publish", str(assets))
        code, _, err = self.run_command(*command, of=(self.python, "-c", RUN))
        self.assertEqual((code, "closed.txt: cannot be read (Permission denied)" in err), (1, True), err)
        if self.uid == OTHER:
            (self.folder / "home").mkdir(mode=0o700)
            (self.folder / "home/assets").mkdir()
            command = (*self.places, "assets", "publish", str(self.folder / "home/assets"))
            code, _, err = self.run_command(*command, of=(self.python, "-c", RUN))
            self.assertEqual((code, f"uid {OTHER}" in err), (1, True), err)

    def test_assets_of_another(self) -> None:
        """If only players may download, and the service cannot take the right to read the files from their group, the
        start is refused with what to do; then it serves."""
        if self.uid != OTHER:
            return
        objects = self.folder / "published/objects"
        objects.mkdir(parents=True)
        objects.chmod(0o750)
        (self.data / "assets").symlink_to(objects.parent)
        self.config.with_name("game.json").write_text('{"assets": {"access": "players"}}')
        serve = (self.python, "-c", RUN, *self.places, "serve", f"--listen=tcp:{free_port()}:interface=127.0.0.1")
        code, _, err = self.run_command(of=(self.python, "-c", DROP.format(OTHER), *serve))
        self.assertEqual(code, 78, err)
        self.assertIn(f"the group of {objects} can read the files", err)
        subprocess.run(["/bin/sh", "-c", err.strip().partition("Run: ")[2]], check=True)
        self.assertEqual(objects.stat().st_mode & 0o777, 0o700)
        self.assertEqual(get(self.serve_as_other(), "/healthz")[0], 200)

    def test_nobody_else(self) -> None:
        """A user who is neither root nor the service's can do nothing, and gets one sentence as an error."""
        self.serve_as_other()
        if self.uid != OTHER:
            self.data.chmod(0o000)
            self.addCleanup(self.data.chmod, 0o700)
        drop = [self.python, "-c", DROP.format(OTHER + 1)] if self.uid == OTHER else []
        done = subprocess.run(
            [*drop, self.python, "-c", RUN, *self.places, "players", "list"],
            capture_output=True,
            text=True,
            timeout=120,
            cwd=self.folder,
            env={"PATH": os.environ["PATH"], **self.environ},
            check=False,
        )
        self.assertIn(done.returncode, (1, 78), done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        self.assertEqual((done.stdout, done.stderr.count("\n")), ("", 1))


class ReachableTests(SynchronousTestCase):
    """Which files of this machine another user can use as they are."""

    def test_link_in_a_closed_folder(self) -> None:
        """A link in a folder that only its owner may enter is closed to others, even if it leads to an open file: so is
        the `python` of a virtual environment below a home of mode 0700."""
        closed = folder_of(self)
        (closed / "python").symlink_to("/bin/sh")
        self.assertEqual((reachable(Path("/bin/sh")), reachable(closed / "python")), (True, False))

    def test_missing_folders(self) -> None:
        """Folders that Python lists but that do not exist, as Debian's does, are left out."""
        folder = folder_of(self)
        self.assertEqual(library_folders([str(folder / "dist-packages"), str(folder)]), [folder])


class CopiesTests(SynchronousTestCase):
    """The copies for a user who cannot read this checkout."""

    def test_bytecode(self) -> None:
        """A copy has the bytecode that Python would otherwise compile at each start, and every user can read it."""
        closed, copies = folder_of(self), folder_of(self)
        copies.chmod(0o755)
        (closed / "etc").mkdir()
        package = closed / "gamed"
        package.mkdir()
        package.chmod(0o755)
        (package / "__init__.py").write_text("MODE = 1\n")
        (package / "__init__.py").chmod(0o644)
        bytecode = Path(py_compile.compile(str(package / "__init__.py"), doraise=True))
        unfinished = bytecode.with_name(f"{bytecode.name}.140123")  # as importlib calls it before it renames it
        unfinished.write_bytes(b"")
        self.addCleanup(os.umask, os.umask(0o077))  # as a service in this process may have left it
        found = package_for_all(package, copies) / "gamed"
        self.assertNotEqual(found, package)
        copied = Path(cache_from_source(str(found / "__init__.py")))
        self.assertEqual(copied.read_bytes(), bytecode.read_bytes())
        self.assertEqual((found / "__init__.py").stat().st_mtime_ns, (package / "__init__.py").stat().st_mtime_ns)
        self.assertTrue(reachable(found / "__init__.py"))
        self.assertFalse((copied.parent / unfinished.name).exists())
