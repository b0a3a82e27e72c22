"""The page for game developers says what is true: its programs run, its files, names and codes exist."""

import re
import subprocess
import sys
from pathlib import Path
from shutil import copy, copytree

from twisted.trial.unittest import SynchronousTestCase

from clients.godot3 import generate
from gamed.http.problems import CODES
from tests.cli.process import GAMED, WAIT_SECONDS, environment
from tests.support.folders import unused_path
from tests.support.nodejs import with_node
from tests.support.python_client import gamed_assets as ga
from tests.support.python_client import gamed_client as gc
from tests.test_guides import blocks
from tests.test_spec import ROOT

PAGE = "docs/developers/game-developers.md"
OWN_CODES = {"unreachable", "untrusted_address", "disk_full"}
"""The codes of the clients: no server sends them."""
WRAPPED = """
using System; using System.Collections.Concurrent; using System.Collections.Generic; using System.Threading;
using System.Threading.Tasks; using Gamed;
static class Application {{ public const string version = "1"; public static void OpenURL(string url) {{ }} }}
static class Page {{
    static bool OpenOnMainThread(string url) {{ Application.OpenURL(url); return true; }}
    static async Task PlayAsync(string server, IPerson person, ConcurrentQueue<SyncStatus> changed,
        byte[] bytes) {{
{text}
    }}
}}
"""


def text() -> str:
    return (ROOT / PAGE).read_text("utf-8")


class PageTests(SynchronousTestCase):
    def test_programs(self) -> None:
        """Python, JavaScript and curl, as they are printed, one after the other against `gamed dev`."""
        folder = unused_path(self)
        folder.mkdir()
        copytree(ROOT / "clients/python/gamed_client", folder / "gamed_client")
        for client in (ROOT / "clients/js").glob("gamed*.mjs"):
            copy(client, folder)
        [script] = [block for block in blocks(PAGE, "python") if "GAMED_PLAYERS" in block]
        [[page], [curl]] = blocks(PAGE, "js"), blocks(PAGE, "bash")
        for name, program in (("online.py", script), ("online.mjs", page), ("online.sh", curl)):
            (folder / name).write_text(program)
        command = f"sh -ec '{sys.executable} online.py; node online.mjs; bash -e online.sh'"
        done = subprocess.run(
            [*GAMED, "dev", "--script", command],
            capture_output=True,
            text=True,
            timeout=2 * WAIT_SECONDS,
            cwd=folder,
            env=with_node(environment({"HOME": str(folder)})),
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.splitlines()[:2], ["all is well", "level 1"])
        [printed] = [block for block in blocks(PAGE, "") if block.startswith('{"slot":"curl"')]
        said = "\n".join(done.stdout.splitlines()[2:])
        self.assertTrue(re.fullmatch(re.escape(printed.strip()).replace(r"\.\.\.", ".*"), said), said)

    def test_csharp(self) -> None:
        """Its lines are compiled with the client."""
        folder = Path(self.mktemp())
        folder.mkdir()
        [lines] = blocks(PAGE, "csharp")
        (folder / "Page.cs").write_text(WRAPPED.format(text=lines))
        client = [str(path) for path in (ROOT / "clients/csharp").glob("Gamed*.cs")]
        command = [
            "mcs",
            "-target:library",
            "-r:System.Net.Http.dll",
            f"-out:{folder}/Page.dll",
            f"{folder}/Page.cs",
            *client,
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=2 * WAIT_SECONDS, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_python(self) -> None:
        """Its first lines are the game of the client's page, whose tests run it."""
        first, _ = blocks(PAGE, "python")
        readme = (ROOT / "clients/python/README.md").read_text("utf-8")
        self.assertIn(f"```python\n{first}```", readme)

    def test_godot(self) -> None:
        """The functions that its lines call exist, with at least as many parameters."""
        [lines] = blocks(PAGE, "gdscript")
        source = "".join(text for name, text in generate.scripts().items() if name.startswith("gamed"))
        called = set(re.findall(r"(?:client|saves)\.(\w+)\(", lines))
        self.assertEqual(called, {"ensure_signed_in", "run", "ready", "read", "write"})
        self.assertEqual({name for name in called if f"\nfunc {name}(" not in source}, set())

    def test_files(self) -> None:
        """Each file that is to be copied is there, in the folder that is named."""
        rows = re.findall(r"(?m)^\| .+? \| `(clients/\w+/)`: (.+?) \|", text())
        self.assertGreaterEqual(len(rows), 4)
        named = [ROOT / folder / file for folder, files in rows for file in re.findall(r"`(\S+?)`", files)]
        self.assertEqual([str(file) for file in named if not file.exists()], [])
        [written] = re.findall(
            r"\| Godot 3 \| (.+?), written by `python clients/godot3/generate\.py FOLDER` \|", text()
        )
        self.assertEqual(re.findall(r"`(\S+?)`", written), list(generate.COPIED_BY_GAMES))

    def test_codes(self) -> None:
        """Each code is one that the server sends, or one of the clients' own."""
        table = text().partition("| When | Show |")[2].partition("\n\n")[0]
        named = {code for row in re.findall(r"\((`.+?`)[^)]*\) \|", table) for code in re.findall(r"`(\w+)`", row)}
        states = {"unknown", "newer", "conflict", "refused"}
        self.assertEqual(named - set(CODES) - OWN_CODES - states, set())
        self.assertIs(gc.BY_CODE["session_revoked"], gc.SignInRequired)
        self.assertEqual(ga.disk_full().code, "disk_full")

    def test_commands(self) -> None:
        """Each command line of the Python client is one that it takes."""
        lines = [line for block in blocks(PAGE, "") for line in block.splitlines() if "gamed_client " in line]
        self.assertGreaterEqual(len(lines), 3)
        for line in lines:
            gc.parser().parse_args(line.split()[3:])
