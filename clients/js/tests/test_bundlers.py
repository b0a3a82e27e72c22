"""The bundlers that games use make one file of the package for browsers, and the client in it works."""

import json
import os
import re
import subprocess
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from shutil import rmtree

from playwright.sync_api import Page
from twisted.trial.unittest import SynchronousTestCase

from clients.packaging.tests.building import made
from tests.cli.process import ROOT
from tests.e2e.chromium import Window
from tests.e2e.other_origin import installed
from tests.support.nodejs import NODE, NPM, with_node

SCRIPTS = Path(__file__).parent / "bundlers"
FOLDER = ROOT / ".build" / "js-bundlers"
LIMIT_SECONDS = 240
LEFT_OUT = re.compile(r"""\b(from|import|require)\s*\(?\s*["'][@.\w]""")
"""An import that a bundle still has."""
PARTS = ("", "/sync", "/assets", "/dialog")
MOST_BYTES = 41_000
"""The client alone, minified by webpack; 40,324 on 2026-11-28. Compressed, each zlib makes another size of it."""
GAME = """
import { GamedClient } from "@gamed/client"
import { Sync } from "@gamed/client/sync"
import { Assets } from "@gamed/client/assets"
import { Dialog } from "@gamed/client/dialog"

async function play() {
  const client = await GamedClient.open("http://127.0.0.1:1", { app: "bundled" })
  const sync = await Sync.open(client)
  await sync.write("auto", "level 1")
  const save = await sync.read("auto")
  const assets = await Assets.open(client)
  new Dialog()
  return `${new TextDecoder().decode(save.data)}, ${assets.current}`
}
play().then(
  (text) => (document.title = text),
  (error) => (document.title = String(error)),
)
"""


class Quiet(SimpleHTTPRequestHandler):
    """Serves the files of a folder, without a log."""

    def log_message(self, format: str, *args: object) -> None:
        pass


def environ() -> dict[str, str]:
    return with_node({**os.environ, "npm_config_cache": str(FOLDER / "npm-cache")})


class Bundlers(SynchronousTestCase):
    def setUp(self) -> None:
        """Make a project beside the bundlers, in which the package is installed."""
        self.project = installed(SCRIPTS, FOLDER) / f"game-{os.getpid()}"
        self.addCleanup(rmtree, self.project, ignore_errors=True)
        self.project.mkdir()
        (self.project / "package.json").write_text(json.dumps({"name": "game", "private": True, "type": "module"}))
        self.run_node(*NPM[1:], "install", "--offline", "--no-audit", "--no-fund", str(made("npm")[0]))

    def run_node(self, *arguments: str) -> None:
        done = subprocess.run(
            [NODE, *arguments],
            cwd=self.project,
            env=environ(),
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)

    def bundled(self, tool: str, name: str, text: str) -> Path:
        source, target = self.project / f"{name}.mjs", self.project / f"{name}.{tool}.js"
        source.write_text(text)
        self.run_node(str(FOLDER / "bundle.mjs"), tool, str(source), str(target))
        return target

    def check(self, tool: str) -> None:
        for part in PARTS:
            name = part.strip("/") or "client"
            bundle = self.bundled(tool, name, f'import * as part from "@gamed/client{part}"\nconsole.log(part)\n')
            self.assertNotRegex(bundle.read_text("utf-8"), LEFT_OUT)
        self.assertEqual(self.title(self.bundled(tool, "game", GAME)), "level 1, null")

    def title(self, bundle: Path) -> str:
        """Return what the game in a page has written as its title."""
        (self.project / "index.html").write_text(f'<title></title><script type="module" src="{bundle.name}"></script>')
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=self.project))
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        window = Window()
        self.addCleanup(window.close)
        found: list[str] = []

        def opened(page: Page) -> None:
            page.goto(f"http://127.0.0.1:{server.server_address[1]}/")
            page.wait_for_function("document.title !== ''")
            found.append(page.title())

        window.step(opened)
        return found[0]

    def test_size(self) -> None:
        """A page loads a small file: webpack leaves the comments of the sources out."""
        bundle = self.bundled(
            "webpack", "size", 'import * as part from "@gamed/client"\nconsole.log(part)\n'
        ).read_bytes()
        self.assertEqual(bundle.count(b"@param"), 0)
        self.assertLess(len(bundle), MOST_BYTES)

    def test_esbuild(self) -> None:
        """esbuild bundles each part without a warning, and a page saves with the bundle."""
        self.check("esbuild")

    def test_vite(self) -> None:
        """Vite bundles each part without a warning, and a page saves with the bundle."""
        self.check("vite")

    def test_webpack(self) -> None:
        """webpack bundles each part without a warning, and a page saves with the bundle."""
        self.check("webpack")
