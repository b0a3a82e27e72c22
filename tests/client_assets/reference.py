"""The third file of the reference client as a module."""

import importlib.util
import sys
from types import ModuleType

from tests.client import reference

PATH = reference.PATH.with_name("gamed_assets.py")
gamed_client = reference.gamed_client


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gamed_assets", PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules["gamed_assets"] = module
    spec.loader.exec_module(module)
    return module


gamed_assets = sys.modules.get("gamed_assets") or _load()
