"""What is public at all: the paths of every room (SPEC 1.2, 4)."""

from twisted.trial.unittest import SynchronousTestCase

from tests.support.covers import covers
from tests.support.routes import public_apps


def paths() -> set[str]:
    """Return every path that the server answers on the ports of the game."""
    return {rule.rule for app in public_apps() for rule in app.url_map.iter_rules()}


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
