"""The declarations of the JavaScript client (.d.mts), made from the comments of its modules.

python -m clients.js.tests.declarations
"""

import json
import subprocess
from pathlib import Path
from shutil import copy
from tempfile import TemporaryDirectory

from tests.e2e.other_origin import installed
from tests.support.nodejs import NODE

FILES = Path(__file__).parents[1]
SCRIPT = Path(__file__).with_name("declarations.mjs")
NODE_TYPES = 'declare module "node:*"\ndeclare var process: any\n'
PATIENCE_SECONDS = 240


def made() -> dict[str, str]:
    """Return the text of each file by its name; raise AssertionError with the flaws that the compiler has found."""
    with TemporaryDirectory() as name:
        folder = Path(name)  # without the present declarations, which the compiler would prefer to the modules
        modules = sorted(Path(copy(file, folder)).name for file in FILES.glob("gamed*.mjs"))
        (folder / "node.d.ts").write_text(NODE_TYPES)
        command = [NODE, str(SCRIPT), str(installed()), name, *modules]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    texts: dict[str, str] = json.loads(done.stdout)
    return texts


if __name__ == "__main__":
    for name, text in made().items():
        (FILES / name).write_text(text, "utf-8")
