"""The add-on for Godot 4 works in an export for the web, in Chromium."""

import json
import subprocess
from atexit import register
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from shutil import copy, rmtree
from tempfile import mkdtemp
from threading import Thread

from playwright.sync_api import BrowserContext, Page, sync_playwright
from twisted.trial.unittest import SynchronousTestCase

from clients.conformance.tests.test_godot3 import own_folders
from clients.godot3.tests.addon import AUTOLOAD, add_addon
from clients.godot4.tests import test_readme
from clients.godot4.tests.engine import godot4, web_template
from tests.e2e.chromium import ARGUMENTS, PROGRAM
from tests.e2e.client import CONFIG, gamed
from tests.e2e.service import Service

from gamed_conformance.browser import Browser  # isort: skip  (the helpers set its path)

GAME = Path(__file__).with_name("specimens") / "page.gd"
SOFTWARE = ("--enable-unsafe-swiftshader", "--use-angle=swiftshader")
"""The engine needs WebGL 2, also where there is no graphics card."""
LIMIT_MS = 60_000
PRESET = """\
[preset.0]
name="Web"
platform="Web"
export_filter="all_resources"
include_filter=""
exclude_filter=""
[preset.0.options]
custom_template/release=""
"""
PAGE = """\
<!doctype html><link rel="icon" href="data:,"><canvas id="canvas"></canvas><script src="index.js"></script>
<script>new Engine({executable: "index", canvasResizePolicy: 0, args: []}).startGame()</script>
"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *words: object) -> None:
        """Print nothing."""


class Web(SynchronousTestCase):
    def setUp(self) -> None:
        """Serve the exported game from a site of its own, and start a server with one player."""
        self.folder = Path(mkdtemp(prefix="gamed-godot-"))
        register(rmtree, self.folder, ignore_errors=True)
        site = self.folder / "site"
        site.mkdir()
        for path in web_template().iterdir():
            (site / path.name).symlink_to(path)
        pages = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=site))
        Thread(target=pages.serve_forever, daemon=True).start()
        self.addCleanup(pages.server_close)
        self.addCleanup(pages.shutdown)
        self.origin = f"http://127.0.0.1:{pages.server_port}"
        self.service = Service(self.folder / "world", {**CONFIG, "cors_origins": [self.origin]}).start()
        self.addCleanup(self.service.close)
        gamed(self.service, "players", "add", "anna", "--password-stdin", stdin="correct horse\n")
        self.export(site)

    def export(self, site: Path) -> None:
        """Write a project with the add-on, and its pack into the site."""
        project = self.folder / "project"
        add_addon("godot4", project)
        settings = f'{test_readme.Readme.project}{AUTOLOAD}[gamed]\nserver="{self.service.base}"\n'
        settings = settings.replace('Watch="*res://watch.gd"\n', "")
        settings += '[rendering]\nrenderer/rendering_method="gl_compatibility"\n'
        (project / "project.godot").write_text(settings, "utf-8")
        (project / "main.tscn").write_text(test_readme.Readme.scene, "utf-8")
        (project / "export_presets.cfg").write_text(PRESET, "utf-8")
        copy(GAME, project / "main.gd")
        engine = [*own_folders(), godot4(), "--headless", "--path", project]
        command = [*engine, "--export-pack", "Web", site / "index.pck"]
        subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT_MS / 1000, check=True)
        (site / "index.html").write_text(PAGE, "utf-8")

    def in_chromium(self, story: Callable[[BrowserContext], None]) -> None:
        """Run this with one profile of Chromium, in a thread, since Playwright has a loop of its own."""

        def run() -> None:
            with sync_playwright() as playwright:
                arguments = [*(each for each in ARGUMENTS if each != "--disable-gpu"), *SOFTWARE]
                browser = playwright.chromium.launch(executable_path=PROGRAM, args=arguments)
                story(browser.new_context())
                browser.close()

        with ThreadPoolExecutor(1) as thread:
            thread.submit(run).result()

    def opened(self, context: BrowserContext, last: str) -> Page:
        """Open the game until it prints this; sign in where it asks."""
        page = context.new_page()
        page.on("console", lambda message: self.sign_in(page, message.text))
        with page.expect_console_message(lambda message: message.text == last, timeout=LIMIT_MS):
            page.goto(self.origin)
        return page

    def sign_in(self, page: Page, printed: str) -> None:
        if printed.startswith("LINK "):
            self.links.append(printed)
            seen = Browser(self.service.port).sign_in(printed.split()[1], "anna", "correct horse")
            page.evaluate(f"window.typedCode = {json.dumps(seen['code'])}")

    def test_reload(self) -> None:
        """The player types the code once; the game goes on after a reload, and refuses a second tab meanwhile."""
        self.links: list[str] = []

        def story(context: BrowserContext) -> None:
            self.opened(context, "Level 1").close()
            first = self.opened(context, "Level 2")
            self.opened(context, "PROBLEM in_use").close()
            first.close()
            self.opened(context, "Level 3")

        self.in_chromium(story)
        self.assertEqual(len(self.links), 1)
