"""The client as a program, and as a folder to copy."""

import ast
import json
import os
import signal
import subprocess
import sys
import threading
from shutil import copytree

from twisted.trial.unittest import SynchronousTestCase

from clients.python.tests.client.cases import ClientCase
from clients.python.tests.client.fake_server import CODE, problem
from tests.support.covers import covers
from tests.support.folders import unused_path
from tests.support.python_client import CLIENT_PATH as PATH
from tests.support.python_client import FOLDER, PACKAGE


class CommandLine(ClientCase):
    """`python -m gamed_client ...`, by the older name of the command."""

    def setUp(self) -> None:
        super().setUp()
        self.clock = 4e9  # the program runs by the real clock: what this test keeps is fresh for it

    def run_client(self, *arguments: str, stdin: bytes = b"", environ: dict[str, str] | None = None):
        command = [sys.executable, str(PATH), "--server", self.server, "--folder", str(self.folder), *arguments]
        env = {**os.environ, **(environ or {})}
        return subprocess.run(command, check=False, input=stdin, capture_output=True, timeout=120, env=env)

    def test_saves(self) -> None:
        """put, ls, get and rm return the same bytes, with nothing but results on stdout."""
        self.signed_in()
        raw = bytes(range(256))
        source, target = self.folder.parent / "in.bin", self.folder.parent / "out.bin"
        source.write_bytes(raw)
        put = self.run_client("--json", "save", "put", "auto", str(source))
        self.assertEqual(json.loads(put.stdout)["version"], 1)
        self.assertEqual(self.run_client("save", "get", "auto").stdout, raw)
        self.run_client("save", "get", "auto", str(target))
        self.assertEqual(target.read_bytes(), raw)
        tag = json.loads(self.run_client("--json", "save", "ls").stdout)["saves"][0]["etag"]
        again = self.run_client("save", "put", "auto", "-", "--if-match", tag, stdin=b"second")
        self.assertEqual((again.returncode, self.fake.saves["auto"]), (0, (2, b"second")))
        self.assertEqual(self.run_client("save", "rm", "auto").returncode, 0)
        self.assertEqual(self.fake.saves, {})

    def test_exit_codes(self) -> None:
        """Each kind of failure has its exit code, and its text is on stderr, without a traceback."""
        none = self.run_client("whoami")
        self.assertEqual((none.returncode, none.stdout), (3, b""))
        self.signed_in()
        self.fake.saves["auto"] = (1, b"x")
        for arguments, code, word in [
            (["save", "put", "auto", "-"], 4, b"version_conflict"),
            (["save", "get", "other"], 5, b"save_not_found"),
            (["save", "get", "NO"], 1, b"invalid_slot"),
            (["save", "put", "auto", "/does/not/exist"], 1, b"/does/not/exist"),
            (["save"], 2, b"usage"),
        ]:
            done = self.run_client(*arguments, stdin=b"y")
            self.assertEqual((done.returncode, done.stdout), (code, b""), arguments)
            self.assertIn(word, done.stderr)
            self.assertNotIn(b"Traceback", done.stderr)

    def test_json_errors(self) -> None:
        """With --json an error is an object, too, with the server's members."""
        self.signed_in()
        self.fake.scripted["GET", "/game/"].append(problem(403, "player_blocked", since="today"))
        done = self.run_client("--json", "whoami")
        self.assertEqual(json.loads(done.stdout)["error"]["code"], "player_blocked")
        self.assertEqual(json.loads(done.stdout)["error"]["since"], "today")
        self.assertEqual(done.stderr, b"")

    def test_login(self) -> None:
        """`login --no-browser` prints the address, asks again after a typing error, and prints no secret."""
        self.fake.stage = "proof_required"
        done = self.run_client("login", "--no-browser", stdin=f"nonsense\nbbb-bbb\n{CODE}\n".encode())
        self.assertEqual(done.stdout, b"Signed in as ply_1.\n")
        self.assertIn(f"{self.server}/auth/login/".encode(), done.stderr)
        self.assertIn(b"Attempts left: 4", done.stderr)
        self.assertEqual(len([s for s in self.fake.requests("/auth/login/collect") if "finish_code" in s.json]), 2)
        for secret in [b"gds_", b"gat_", b"grc_"]:
            self.assertNotIn(secret, done.stdout + done.stderr)
        self.assertEqual(self.run_client("logout").stdout, b"Signed out.\n")
        self.assertIsNone(self.on_disk())

    def test_proxy_is_ignored(self) -> None:
        """The client ignores proxies of the environment: they would read requests to this machine."""
        self.signed_in()
        nobody = "http://127.0.0.1:1"
        done = self.run_client("whoami", environ={"http_proxy": nobody, "HTTP_PROXY": nobody, "ALL_PROXY": nobody})
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_choice(self) -> None:
        """In `oauth` mode the terminal lists the providers; the player types a number or a name."""
        self.fake.mode, self.fake.providers, self.fake.stage = "oauth", ("discord", "google"), "proof_required"
        for typed in ["7\n2\n", "google\n"]:
            done = self.run_client("login", "--no-browser", stdin=f"{typed}{CODE}\n".encode())
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(b"1  Sign in with Discord", done.stderr)
            self.assertEqual(self.fake.started["provider"], "google")
            self.assertNotIn("intent", self.fake.started)
            self.fake.outcome = None
        self.run_client("login", "--no-browser", "--adopt", "--provider=google", stdin=f"{CODE}\n".encode())
        self.assertEqual(self.fake.started["intent"], "adopt")

    def test_browser_hook(self) -> None:
        """The person's own browser is opened by its command, and again for "Show me a code"."""
        self.fake.stage = "proof_required"
        script = self.folder.parent / "browser"
        script.write_text(f'#!{sys.executable}\nimport sys\nopen("{script}.url", "a").write(sys.argv[1] + "\\n")\n')
        script.chmod(0o700)
        done = self.run_client("login", stdin=f"\n{CODE}\n".encode(), environ={"BROWSER": f"{script} %s"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(b"Press Enter to see a code", done.stderr)
        url = self.fake.login_url.format(base=self.server)
        self.assertEqual((script.parent / "browser.url").read_text(), f"{url}\n{url}\n")

    def test_interrupted(self) -> None:
        """Ctrl-C ends the program without a message, and cancels the login."""
        began = threading.Event()
        self.fake.watch = lambda request: request.path.endswith("/collect") and began.set()
        place = ["--server", self.server, "--folder", str(self.folder)]
        command = [sys.executable, str(PATH), *place, "login", "--no-browser"]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            self.assertTrue(began.wait(20))
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=120)
        self.assertEqual((process.returncode, out), (130, b""))
        self.assertNotIn(b"Traceback", err)
        self.assertEqual(len(self.fake.requests("/auth/login/cancel")), 1)


@covers("1/14")
class OneFolder(SynchronousTestCase):
    """The client is one folder to copy, and needs Python 3.9."""

    def setUp(self) -> None:
        files = sorted(PACKAGE.glob("*.py"))
        self.assertEqual(len(files), 6)
        self.trees = {path.name: ast.parse(path.read_text("utf-8"), feature_version=(3, 9)) for path in files}
        self.nodes = [node for tree in self.trees.values() for node in ast.walk(tree)]

    def test_standard_library_only(self) -> None:
        """The files import only Python's standard library and each other; segno is optional."""
        imported = set()
        for node in self.nodes:
            if isinstance(node, ast.Import):
                imported |= {name.name.partition(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add(node.module.partition(".")[0])
        self.assertEqual(imported - sys.stdlib_module_names - {"__future__"}, {"segno"})

    def test_first_file(self) -> None:
        """The first file imports the others inside functions: a game may leave them out."""
        loaded = [node for node in self.trees["__init__.py"].body if isinstance(node, ast.ImportFrom)]
        self.assertEqual({node.level for node in loaded}, {0})

    @covers("threats/29")
    def test_no_shell(self) -> None:
        """Find no call in the sources that starts a program."""
        names = {node.attr for node in self.nodes if isinstance(node, ast.Attribute)}
        self.assertEqual(names & {"system", "popen", "Popen", "startfile", "spawn", "execv", "subprocess"}, set())

    def test_module(self) -> None:
        """`python -m gamed_client` runs the folder, also below another package."""
        for name in ("gamed_client", "mygame.gamed_client"):
            folder = unused_path(self)
            copytree(PACKAGE, folder.joinpath(*name.split(".")))
            done = subprocess.run([sys.executable, "-m", name, "--help"], cwd=folder, capture_output=True, check=False)
            self.assertEqual((done.returncode, done.stdout[:19]), (0, b"usage: gamed_client"), done.stderr)


class OlderNames(SynchronousTestCase):
    """The names of the single files, until 1.0."""

    def run_script(self, script: str, *options: str) -> list[str]:
        """Run lines that a game of an earlier version has; return what they print."""
        command = [sys.executable, *options, "-c", script]
        done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.splitlines()

    def test_same_modules(self) -> None:
        """Either import is the same module object, whichever comes first, and only the older one warns: once."""
        for name in ("sync", "assets", "aio", "texts"):
            for first, second in ((f"gamed_{name}", f"gamed_client.{name}"), (f"gamed_client.{name}", f"gamed_{name}")):
                printed = self.run_script(
                    "import importlib, warnings\n"
                    "with warnings.catch_warnings(record=True) as caught:\n"
                    "    warnings.simplefilter('always')\n"
                    f"    names = ['{first}', '{second}', '{first}', 'gamed_client']\n"
                    "    one, two, again, package = map(importlib.import_module, names)\n"
                    f"print(one is two is again is package.{name}, [str(each.message) for each in caught])\n"
                    "print([each.category.__name__ for each in caught], one.__name__)\n"
                )
                text = f"gamed_{name} is gamed_client.{name} now; this name works until 1.0."
                self.assertEqual(printed, [f"True {[text]}", f"['DeprecationWarning'] gamed_client.{name}"])

    def test_place_of_the_warning(self) -> None:
        """The warning names the line of the game, so that a program's own file shows it."""
        script = "import gamed_sync\n"
        done = subprocess.run([sys.executable, "-c", script], cwd=FOLDER, capture_output=True, text=True, check=False)
        self.assertIn("<string>:1: DeprecationWarning: gamed_sync is gamed_client.sync now", done.stderr)

    def test_classes(self) -> None:
        """Pickles, isinstance and patches by the older name meet the same classes."""
        printed = self.run_script(
            "import pickle\n"
            "from unittest import mock\n"
            "from gamed_client.sync import Status, Sync\n"
            "newer = pickle.dumps(Status('a', 'in_step', 1, {}, '', ()), 0)\n"
            "older = newer.replace(b'gamed_client.sync', b'gamed_sync')\n"
            "found = pickle.loads(older)\n"
            "print(isinstance(found, Status), found.slot, b'gamed_sync' in older)\n"
            "with mock.patch('gamed_sync.Sync.status', lambda sync, slot: 'patched'):\n"
            "    print(Sync.status(None, 'a'))\n"
            "from gamed_sync import NotKnown\n"
            "from gamed_client import sync\n"
            "print(NotKnown is sync.NotKnown)\n",
            "-W",
            "ignore::DeprecationWarning",
        )
        self.assertEqual(printed, ["True a True", "patched", "True"])
