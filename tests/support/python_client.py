"""The files of the Python client as modules; the files stay where game developers find them."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parents[2] / "clients" / "python"
NAMES = ("client", "assets", "sync", "aio")
CLIENT_PATH, ASSETS_PATH, SYNC_PATH, AIO_PATH = (FOLDER / f"gamed_{name}.py" for name in NAMES)


def load(path: Path) -> ModuleType:
    """Return the file as the module that has the file's name; load it once for the whole process."""
    if path.stem not in sys.modules:
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)  # dataclasses look it up by name
        spec.loader.exec_module(module)
    return sys.modules[path.stem]


gamed_client = load(CLIENT_PATH)
gamed_assets = load(ASSETS_PATH)
gamed_sync = load(SYNC_PATH)
gamed_aio = load(AIO_PATH)
