"""The reference client as a module; the files themselves stay where developers find them."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

PATH = Path(__file__).parents[2] / "clients" / "python" / "gamed_client.py"


def loaded(path: Path) -> ModuleType:
    """The file as a module under its own name, the same for all who ask."""
    if path.stem not in sys.modules:
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)  # dataclasses look it up by name
        spec.loader.exec_module(module)
    return sys.modules[path.stem]


gamed_client = loaded(PATH)
