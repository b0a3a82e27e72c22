"""The public paths of all routes are known (SPEC 1/3, 4)."""

import ast
from collections.abc import Mapping

from twisted.trial.unittest import SynchronousTestCase

from gamed.owner.act_routes import _ACTS
from gamed.owner.model import HOME
from tests.support.covers import covers
from tests.support.routes import public_apps
from tests.test_layout import package

OWNER_FUNCTIONS = {"set_owner", "clear_owner"}


def paths() -> set[str]:
    """Return every path that the server answers on the ports of the game."""
    return {rule.rule for app in public_apps() for rule in app.url_map.iter_rules()}


def writers_of_the_owner(sources: Mapping[str, str]) -> set[str]:
    """Return the functions that write who the owner is, or name a function that does, as `module.function`."""
    return {
        f"{module}.{function.name}"
        for module, source in sources.items()
        if any(word in source for word in ("_owner", "owner = "))
        for function in ast.walk(ast.parse(source))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if (isinstance(node, ast.Attribute) and node.attr in OWNER_FUNCTIONS)
        or (isinstance(node, ast.Name) and node.id in OWNER_FUNCTIONS)
        or (isinstance(node, ast.Constant) and isinstance(node.value, str) and "SET owner = " in node.value)
    }


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

    @covers("4/18", "threats/65")
    def test_writers_of_the_owner(self) -> None:
        """Commands on the host choose the owner; else the owner's account takes that along, or ends it, as a whole.

        An erased owner leaves the server without one, and a player who is merged gives it to the heir: neither takes it
        from a player who stays.
        """
        known = {
            "gamed.players.tables.set_owner",
            "gamed.players.tables.clear_owner",
            "gamed.cli.people.owner.claim",
            "gamed.cli.people.owner.reset",
            "gamed.cli.people.owner.transaction",
            "gamed.account.store.mark_removed",
            "gamed.account.store.merge_players",
        }
        self.assertEqual(writers_of_the_owner(package()), known)
        for source in ("tables.clear_owner(c, p)", "f = set_owner", "c.execute('UPDATE player SET owner = 0')"):
            planted = {"gamed.account.page_store": f"def hand_over(c, p):\n    {source}"}
            self.assertEqual(writers_of_the_owner(planted), {"gamed.account.page_store.hand_over"})
