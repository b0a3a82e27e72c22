"""All Klein apps that players reach, found in the route modules of the package."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from klein import Klein

import gamed
from gamed.http.health_routes import AdminRoutes
from gamed.owner.routes import OwnerRoutes

ADMIN = (AdminRoutes, OwnerRoutes)
ROOT = Path(gamed.__file__).parent


def public_apps() -> Iterator[Klein]:
    """Yield the app of every class with routes; those of `--admin` have a port of their own and no contract."""
    seen = set()
    for file in sorted(ROOT.glob("*/*routes.py")):
        module = import_module(f"gamed.{file.parent.name}.{file.stem}")
        for value in vars(module).values():
            app = getattr(value, "app", None)
            if isinstance(value, type) and isinstance(app, Klein) and value not in ADMIN and id(app) not in seen:
                seen.add(id(app))
                yield app
