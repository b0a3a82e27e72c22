"""What is public at all: the paths of every room (SPEC 1.2, 4)."""

from importlib import import_module
from pkgutil import iter_modules

from klein import Klein
from twisted.trial.unittest import SynchronousTestCase

import gamed.web
from gamed.web.admin import AdminRoutes
from tests.support.covers import covers


def paths() -> set[str]:
    """Every path that any room of the web answers on the ports of the game; `--admin` has a port of its own."""
    modules = [import_module(f"gamed.web.{module.name}") for module in iter_modules(gamed.web.__path__)]
    rooms = [value for module in modules for value in vars(module).values() if isinstance(value, type)]
    apps = [room.app for room in rooms if isinstance(getattr(room, "app", None), Klein) and room is not AdminRoutes]
    return {rule.rule for app in apps for rule in app.url_map.iter_rules()}


class RoutesTests(SynchronousTestCase):
    def test_families(self) -> None:
        """Everything lies in the three families that a proxy forwards, but for the health check."""
        known = paths()
        self.assertLessEqual({"/healthz", "/auth/config", "/auth/login", "/game/saves/<text:slot>"}, known)
        families = ("/auth/", "/game/", "/assets/")
        self.assertEqual({path for path in known if not path.startswith(families)}, {"/healthz"})

    @covers("4/18", "threats/65")
    def test_nothing_for_the_owner(self) -> None:
        """No route resets the server's owner, or acts for them at all: that is done on the host."""
        words = ("owner", "admin", "reset")
        self.assertEqual([path for path in paths() if any(word in path for word in words)], [])
