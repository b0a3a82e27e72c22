"""The package for npm is installed without a network, typed, and signs in and saves at a real server."""

import json
import os
import re
import shutil
import tarfile
from functools import cache
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from clients.conformance.tests.helpers import CLIENTS
from clients.js.tests.test_bundlers import FOLDER, SCRIPTS
from clients.packaging.tests.building import call, folder, made, played
from tests.e2e.other_origin import installed
from tests.support.folders import unused_path
from tests.support.nodejs import NODE, NPM, with_node

OFFLINE = ("--offline", "--no-audit", "--no-fund", "--no-update-notifier", "--ignore-scripts")
GAME = """
import { GamedClient } from "@gamed/client"
import { Sync } from "@gamed/client/sync"
const person = {
  chooseProvider: (providers) => providers[0].name,
  browserOpened: (url) => console.log(url),
  finishCode: () => null,
  problem: (error) => console.log(error.detail),
}
const client = await GamedClient.open(process.env.GAMED_SERVER, { app: "packaged" })
if (!(await client.ensureSignedIn(person, { openBrowser: null }))) process.exit(1)
const sync = await Sync.open(client)
const stop = new AbortController()
const running = sync.run(stop.signal)
await sync.ready()
const save = await sync.read("auto")
await sync.write("auto", String(save ? Number(new TextDecoder().decode(save.data)) + 1 : 1))
await sync.pump()
console.log("Level", new TextDecoder().decode((await client.get("auto")).data))
stop.abort()
await running
await sync.close()
"""
STRICT = "--noEmit --strict --exactOptionalPropertyTypes --noUncheckedIndexedAccess --target es2022 --lib es2022,dom"


def environ() -> dict[str, str]:
    return with_node({"PATH": os.environ["PATH"], "npm_config_cache": str(folder() / "npm-cache")})


@cache
def project() -> Path:
    """Return a project of npm in which only the package is installed."""
    root = folder() / "game"
    root.mkdir()
    (root / "package.json").write_text('{"name": "game", "private": true, "type": "module"}')
    call([*NPM, "install", *OFFLINE, str(made("npm")[0])], root, environ())
    return root


class Npm(SynchronousTestCase):
    def test_files(self) -> None:
        """The package has the files that `npm pack` would take."""
        source = folder() / "js"
        shutil.copytree(CLIENTS / "js", source)
        [packed] = json.loads(call([*NPM, "pack", "--dry-run", "--json", *OFFLINE], source, environ()))
        with tarfile.open(made("npm")[0]) as archive:
            names = {name.removeprefix("package/") for name in archive.getnames()}
        self.assertEqual(names, {file["path"] for file in packed["files"]})
        self.assertEqual(made("npm")[0].name, packed["filename"])

    def test_publint(self) -> None:
        """publint has nothing to suggest about the package."""
        program = installed(SCRIPTS, FOLDER) / "node_modules" / "publint" / "src" / "cli.js"
        said = call([NODE, str(program), "run", str(made("npm")[0]), "--strict"], folder(), environ())
        self.assertIn("All good!", said)

    def test_game(self) -> None:
        """A game with the installed package signs in, saves and loads, on its second start, too."""
        game = project() / "game.js"
        game.write_text(GAME)
        home = unused_path(self)
        home.mkdir()
        for level in (1, 2):
            self.assertEqual(played([NODE, str(game)], home)[-1], f"Level {level}")

    def test_alone(self) -> None:
        """Nothing else is installed with it."""
        lock = json.loads((project() / "package-lock.json").read_text("utf-8"))
        self.assertEqual([name for name in lock["packages"] if name], ["node_modules/@gamed/client"])

    def test_types(self) -> None:
        """`tsc --strict` finds the types of each part under the name of the package, as Node.js and as bundlers do."""
        text = (CLIENTS / "js" / "tests" / "specimens" / "game.ts").read_text("utf-8")
        text, renamed = re.subn(r'"\.\./\.\./gamed(?:_(\w+))?\.mjs"', name_of_part, text)
        self.assertGreaterEqual(renamed, 4)
        game = project() / "typed.ts"
        game.write_text(text)
        compiler = [NODE, str(installed() / "node_modules" / "typescript" / "bin" / "tsc"), *STRICT.split()]
        for how in (["--module", "nodenext"], ["--module", "esnext", "--moduleResolution", "bundler"]):
            self.assertEqual(call([*compiler, *how, str(game)], project(), environ()), "")


def name_of_part(found: re.Match[str]) -> str:
    return f'"@gamed/client/{found[1]}"' if found[1] else '"@gamed/client"'
