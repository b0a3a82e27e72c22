"""The JavaScript client's own tests: in Node.js, and what only a browser has in Chromium."""

import json
import re
import subprocess
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.e2e.chromium import Window
from tests.porch.process import GAMED, ROOT, PorchTestCase, free_port

HERE = Path(__file__).parent
PATIENCE_SECONDS = 240
BROWSER = """async ([base, complete]) => {
    const { GamedClient } = await import("/gamed.mjs")
    window.client = await GamedClient.open(base, { app: "tabs" })
    if (complete) await window.client.keep(complete)
    return window.client.credential.playerId
}"""
ASK = "() => { window.asked = Promise.all([1, 2, 3].map(() => window.client.whoami())) }"


class NodeTests(SynchronousTestCase):
    def test_suite(self) -> None:
        """`node --test` passes, and ran what is there."""
        files = sorted(HERE.glob("*.test.mjs"))
        command = ["node", "--test", "--test-reporter=tap", *map(str, files)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        written = sum(len(re.findall(r"^test\(", file.read_text("utf-8"), re.MULTILINE)) for file in files)
        self.assertIn(f"# pass {written}\n", done.stdout)

    def test_one_width_and_no_packages(self) -> None:
        """Lines of one width, and nothing imported but the files beside."""
        for file in sorted((ROOT / "clients" / "js").glob("*.mjs")):
            text = file.read_text("utf-8")
            self.assertEqual([line for line in text.splitlines() if len(line) > 120], [], file)
            if file.name != "driver.mjs":
                self.assertEqual(re.findall(r'^(?:import|\} from) "(?!\./gamed)', text, re.MULTILINE), [], file)


class BrowserTests(PorchTestCase):
    def test_tabs_refresh_once(self) -> None:
        """Two tabs of one browser share the sign-in, and one of them refreshes it for both."""
        port, page_port = free_port(), free_port()
        ports = [f"--port={port}", f"--provider-port={free_port()}", f"--static-port={page_port}"]
        folder, page = self.folder / "dev", self.folder / "page"
        page.mkdir()
        (page / "index.html").write_text("<!doctype html><title>Game</title>")
        statics = [f"--static={page}", f"--static={ROOT / 'clients' / 'js'}"]
        process = self.start(*GAMED, "dev", *ports, f"--folder={folder}", *statics)
        self.await_answer(port, process)
        complete = json.loads((folder / "players.json").read_text("utf-8"))["players"]["anna"]
        window, base = Window(), f"http://127.0.0.1:{port}"
        self.addCleanup(window.close)

        def refreshes(first) -> tuple[list[str], list[object]]:
            tabs, seen = [first, first.context.new_page()], []
            for tab in tabs:
                tab.goto(f"http://127.0.0.1:{page_port}/")
                tab.on("request", lambda request: seen.append(f"{request.method} {request.url.removeprefix(base)}"))
            found = [tabs[0].evaluate(BROWSER, [base, {**complete, "expires_in": 0}])]
            found.append(tabs[1].evaluate(BROWSER, [base, None]))
            for tab in tabs:
                tab.evaluate(ASK)
            found += [told["player"]["id"] for tab in tabs for told in tab.evaluate("() => window.asked")]
            return seen, found

        seen, found = window.step(refreshes)
        self.assertEqual(found, [complete["player"]["id"]] * 8)
        self.assertEqual(seen.count("POST /auth/session/refresh"), 1)
        self.assertEqual(seen.count("GET /game/"), 6)
