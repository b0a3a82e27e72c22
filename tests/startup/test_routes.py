"""The public paths of all routes are known (SPEC 1/3, 4)."""

from twisted.trial.unittest import SynchronousTestCase

from tests.support.covers import covers
from tests.support.routes import public_apps


def paths() -> set[str]:
    """Return every path that the server answers on the ports of the game."""
    return {rule.rule for app in public_apps() for rule in app.url_map.iter_rules()}


class RoutesTests(SynchronousTestCase):
    def test_families(self) -> None:
        """All paths but the health check and the page at the address begin with a prefix that a proxy forwards."""
        known = paths()
        self.assertLessEqual({"/healthz", "/auth/config", "/auth/login", "/game/saves/<text:slot>"}, known)
        families = ("/auth/", "/game/", "/assets/")
        self.assertEqual({path for path in known if not path.startswith(families)}, {"/", "/healthz"})

    @covers("4/18", "threats/65")
    def test_nothing_for_the_owner(self) -> None:
        """No route resets the owner or acts for the operator: that is done by commands on the host.

        The only such word is in the path of links that set a password, which a command on the host prints.
        """
        words, links = ("owner", "admin", "reset"), ["/auth/reset/<string:link>"]
        self.assertEqual([path for path in paths() if any(word in path for word in words)], links)
