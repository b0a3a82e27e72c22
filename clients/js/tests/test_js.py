"""The JavaScript client's own tests: in Node.js, and the parts that only browsers have in Chromium."""

import json
import re
import subprocess
from pathlib import Path

from playwright.sync_api import Page
from twisted.trial.unittest import SynchronousTestCase

from clients import texts
from clients.python.tests.client.fake_server import FakeGamed
from tests.cli.process import GAMED, ROOT, CommandTestCase, free_port
from tests.e2e.chromium import Window
from tests.support.folders import unused_path
from tests.support.nodejs import NODE, NPM, with_node
from tests.support.python_client import gamed_client as gc
from tests.support.python_client import gamed_sync as gs

HERE = Path(__file__).parent
PATIENCE_SECONDS = 240
BROWSER = """async ([base, complete]) => {
    const { GamedClient } = await import("/gamed.mjs")
    window.client = await GamedClient.open(base, { app: "tabs" })
    if (complete) await window.client.keep(complete)
    return window.client.credential.playerId
}"""
GIVEN_UP = """async () => {
    const { Assets } = await import("/gamed_assets.mjs")
    const assets = await Assets.open(window.client)
    const enough = ({ fetched }) => { if (fetched > 1_000_000) throw new Error("enough") }
    return assets.download("beta", { progress: enough }).then(() => "whole", (error) => error.message)
}"""
WHOLE = """async () => {
    const { Assets } = await import("/gamed_assets.mjs")
    const assets = await Assets.open(window.client)
    let last
    await assets.download("beta", { progress: (progress) => (last = progress) })
    const again = await Assets.open(window.client)
    const kind = (await again.url("welcome.txt")).split(":")[0]
    return [kind, (await again.bytes("music/theme.bin")).length, last.size - last.fetched]
}"""
NO_SERVER = """async (base) => {
    const { GamedClient } = await import("/gamed.mjs")
    const client = await GamedClient.open(base, { app: "none" })
    return client.policy().catch((error) => error.detail)
}"""
FULL = """async ([base, complete]) => {
    const { GamedClient } = await import("/gamed.mjs")
    const { Sync } = await import("/gamed_sync.mjs")
    const client = await GamedClient.open(base, { app: "full" })
    await client.keep(complete)
    await client.put("theirs", "of another device", { base: null })
    const sync = await Sync.open(client)
    const put = IDBObjectStore.prototype.put
    IDBObjectStore.prototype.put = function (value, key) {
        if (this.name === "bodies") this.add(value, key)
        return this.name === "bodies" ? this.add(value, key) : put.call(this, value, key)
    }
    const failed = await sync.write("mine", "x").catch((error) => error)
    sync.start()
    await sync.ready()
    const theirs = sync.status("theirs").problem
    IDBObjectStore.prototype.put = put
    await sync.write("mine", "of this device")
    const late = performance.now() + 20_000
    const sent = () => sync.status("mine").state === "in_step" || performance.now() > late
    while (!sent()) await new Promise((done) => setTimeout(done, 20))
    const mine = sync.status("mine").state
    await sync.close()
    return [failed?.code, failed?.cause?.name, theirs?.code, mine]
}"""
"""Stores with requests that fail, as on a full disk, and without them."""
ASK = "() => { window.asked = Promise.all([1, 2, 3].map(() => window.client.whoami())) }"


class NodeTests(SynchronousTestCase):
    def test_suite(self) -> None:
        """`node --test` passes, and ran all tests."""
        files = sorted(HERE.glob("*.test.mjs"))
        command = [NODE, "--test", "--test-reporter=tap", *map(str, files)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        written = sum(len(re.findall(r"^test\(", file.read_text("utf-8"), re.MULTILINE)) for file in files)
        self.assertIn(f"# pass {written}\n", done.stdout)

    def test_node_and_npm_of_the_package(self) -> None:
        """The packaged `node` and `npm` run on a machine without them, and `node` on PATH is the tests' own."""
        command = ["sh", "-c", 'command -v node; node --version; exec "$@"', "sh", *NPM, "--version"]
        done = subprocess.run(command, env=with_node({"PATH": "/bin"}), capture_output=True, text=True, check=True)
        path, node, npm = done.stdout.splitlines()
        self.assertEqual(path, NODE)
        self.assertGreaterEqual(tuple(map(int, node.removeprefix("v").split("."))), (22, 12))
        self.assertRegex(npm, r"^\d+\.\d+\.\d+$")

    def test_one_width_and_no_packages(self) -> None:
        """Lines have at most one width, but for translations, and modules import only the files beside them."""
        for file in sorted((ROOT / "clients" / "js").glob("*.mjs")):
            text = file.read_text("utf-8")
            before, _, after = text.partition(texts.BEGIN)
            written = before + after.rpartition(texts.END)[2]
            self.assertEqual([line for line in written.splitlines() if len(line) > 120], [], file)
            if file.name != "driver.mjs":
                self.assertEqual(re.findall(r'^(?:import|\} from) "(?!\./gamed)', text, re.MULTILINE), [], file)


SAVED = """
import {{ GamedClient }} from "{clients}/gamed.mjs"
import {{ Sync }} from "{clients}/gamed_sync.mjs"
const client = await GamedClient.open("http://127.0.0.1:1", {{ folder: "{folder}" }})
{step}
const sync = await Sync.open(client)
const known = sync.status("auto").state !== "unknown"
const before = known ? await sync.read("auto") : null
await sync.write("auto", "of JavaScript", {{ meta: {{ title: "Küche" }} }})
console.log(JSON.stringify([client.credential.playerId, before && new TextDecoder().decode(before.data)]))
"""


class OneFolderTests(SynchronousTestCase):
    """The JavaScript client and the Python client read each other's files."""

    def in_node(self, folder: Path, step: str = "") -> list[object]:
        """Return the player and the saves that JavaScript reads, and let it write a save."""
        script = SAVED.format(clients=ROOT / "clients" / "js", folder=folder, step=step)
        command = [NODE, "--input-type=module", "-e", script]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
        self.assertEqual(done.stderr, "")
        return json.loads(done.stdout)

    def test_one_folder(self) -> None:
        folder = unused_path(self)
        kept = {**FakeGamed().credentials(), "expires_in": 900}
        self.assertEqual(self.in_node(folder, f"await client.keep({json.dumps(kept)})"), ["ply_1", None])
        client = gc.GamedClient("http://127.0.0.1:1", folder=folder)
        self.assertEqual(client.credential.refresh_credential, kept["refresh_credential"])
        with gs.Sync(client) as sync:
            save = sync.read("auto")
            self.assertEqual((save.data, save.meta), (b"of JavaScript", {"title": "Küche"}))
            sync.write("auto", b"of Python", meta={"title": "Keller"})
        self.assertEqual(self.in_node(folder), ["ply_1", "of Python"])


class BrowserTests(CommandTestCase):
    def setUp(self) -> None:
        """A development server with an empty page of a game, which may use the client."""
        super().setUp()
        port, page_port = free_port(), free_port()
        self.base, self.address = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{page_port}/"
        folder, page = self.folder / "dev", self.folder / "page"
        page.mkdir()
        (page / "index.html").write_text("<!doctype html><title>Game</title>")
        ports = [f"--port={port}", f"--provider-port={free_port()}", f"--static-port={page_port}"]
        statics = [f"--static={page}", f"--static={ROOT / 'clients' / 'js'}"]
        process = self.start(*GAMED, "dev", *ports, f"--folder={folder}", *statics)
        self.await_answer(port, process)
        self.complete = json.loads((folder / "players.json").read_text("utf-8"))["players"]["anna"]
        self.window = Window()
        self.addCleanup(self.window.close)

    def test_browser(self) -> None:
        """Two tabs share the sign-in, and one refreshes it for both; a cancelled download continues where it was."""
        seen, found = self.window.step(self.refreshes)
        self.assertEqual(found, [self.complete["player"]["id"]] * 8)
        self.assertEqual(seen.count("POST /auth/session/refresh"), 1)
        self.assertEqual(seen.count("GET /game/"), 6)
        self.assertEqual(self.window.step(lambda tab: tab.evaluate(GIVEN_UP)), "enough")
        kind, size, here = self.window.step(lambda tab: tab.evaluate(WHOLE))
        self.assertEqual((kind, size), ("blob", 2 << 20))
        self.assertGreater(here, 1_000_000)

    def test_failed_request(self) -> None:
        """A request of IndexedDB that fails is an error of the disk with its cause, and does not end the loop."""

        def found(tab: Page) -> object:
            tab.goto(self.address)
            return tab.evaluate(FULL, [self.base, self.complete])

        self.assertEqual(self.window.step(found), ["local_disk", "ConstraintError", "local_disk", "in_step"])

    def test_no_server(self) -> None:
        """An unreachable server is reported in a text for the player, not with the browser's name for its error."""

        def message(tab: Page) -> str:
            tab.goto(self.address)
            return str(tab.evaluate(NO_SERVER, f"http://127.0.0.1:{free_port()}"))

        said = self.window.step(message)
        self.assertIn("does not answer, or does not allow this page", said)
        self.assertNotIn("TypeError", said)

    def refreshes(self, first: Page) -> tuple[list[str], list[object]]:
        """Return the requests of both tabs, and the players that they get."""
        seen: list[str] = []
        tabs = [first, first.context.new_page()]
        for tab in tabs:
            tab.goto(self.address)
            tab.on("request", lambda request: seen.append(f"{request.method} {request.url.removeprefix(self.base)}"))
        found = [tabs[0].evaluate(BROWSER, [self.base, {**self.complete, "expires_in": 0}])]
        found.append(tabs[1].evaluate(BROWSER, [self.base, None]))
        for tab in tabs:
            tab.evaluate(ASK)
        found += [answer["player"]["id"] for tab in tabs for answer in tab.evaluate("() => window.asked")]
        return seen, found
