"""The public paths of all routes are known (SPEC 1/3, 4)."""

from twisted.trial.unittest import SynchronousTestCase

from gamed.owner.act_routes import _ACTS
from gamed.owner.model import HOME
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
        """No route resets the owner or makes one: that is done by commands on the host.

        The owner's page, which the host turns on, is the only other place of such a word, beside the path of links that
        set a password. None of its acts is about the claim or about the page itself.
        """
        words, links = ("owner", "admin", "reset"), ["/auth/reset/<string:link>"]
        named = [path for path in paths() if any(word in path for word in words)]
        self.assertEqual([path for path in named if not path.startswith(f"{HOME}/") and path != HOME], links)
        self.assertEqual(
            [name for name in _ACTS if any(word in name for word in ("claim", "owner", "page", "code"))], []
        )
