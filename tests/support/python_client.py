"""The Python client as modules; its folder stays where game developers find it."""

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parents[2] / "clients" / "python"
PACKAGE = FOLDER / "gamed_client"
CLIENT_PATH = FOLDER / "gamed_client.py"
"""The client as a program."""


def load(name: str) -> ModuleType:
    """Return a module of the client; load it once for the whole process."""
    if "gamed_client" not in sys.modules:
        spec = importlib.util.spec_from_file_location("gamed_client", PACKAGE / "__init__.py")
        module = sys.modules["gamed_client"] = importlib.util.module_from_spec(spec)  # dataclasses look it up by name
        spec.loader.exec_module(module)
    return importlib.import_module(name)


gamed_client = load("gamed_client")
gamed_assets = load("gamed_client.assets")
gamed_sync = load("gamed_client.sync")
gamed_aio = load("gamed_client.aio")
