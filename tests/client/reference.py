"""The reference client as a module; the file itself stays where developers find it."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

PATH = Path(__file__).parents[2] / "clients" / "python" / "gamed_client.py"


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gamed_client", PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules["gamed_client"] = module  # dataclasses look their module up by name
    spec.loader.exec_module(module)
    return module


gamed_client = sys.modules.get("gamed_client") or _load()
