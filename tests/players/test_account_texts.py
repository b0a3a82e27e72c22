"""The texts of the player's own page are for people, and each of them is used."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from gamed import players
from gamed.players.account_routes import FAILURES
from gamed.players.pages import texts
from gamed.players.pages.parts import ago, size
from tests.login.test_page_texts import MACHINES


def catalogue() -> Iterator[tuple[str, str]]:
    """Yield every text with its name."""
    for name, value in vars(texts).items():
        if name.isupper():
            found = [value] if isinstance(value, str) else value.values() if isinstance(value, Mapping) else value
            yield from ((name, text) for text in found)


class TextTests(SynchronousTestCase):
    def test_used(self) -> None:
        """Every text is used by a page or a route."""
        used = {
            node.attr
            for module in Path(players.__file__).parent.rglob("*.py")
            for node in ast.walk(ast.parse(module.read_text("utf-8")))
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "texts"
        }
        self.assertEqual({name for name, _ in catalogue()} - used, set())

    def test_for_people(self) -> None:
        """No text has a status, a code or a term of a protocol."""
        self.assertEqual([name for name, text in catalogue() if MACHINES.search(text.replace("{", "").strip())], [])

    def test_failures_have_advice(self) -> None:
        """Every refused action has a sentence that says what to do next."""
        words = ("back", "again", "choose", "first", "Choose", "yourself", "Link")
        self.assertEqual([text for _, text in FAILURES.values() if not any(word in text for word in words)], [])

    def test_times(self) -> None:
        """Times are rounded down to whole minutes, hours and days; the future counts as now."""
        minute, hour, day = 60_000, 3_600_000, 86_400_000
        for past_ms, shown in (
            (-day, "just now"),
            (minute - 1, "just now"),
            (minute, "1 minute ago"),
            (hour - 1, "59 minutes ago"),
            (hour, "1 hour ago"),
            (2 * hour, "2 hours ago"),
            (day, "1 day ago"),
            (40 * day, "40 days ago"),
        ):
            self.assertEqual(ago(past_ms), shown)

    def test_sizes(self) -> None:
        """Sizes have the largest unit that fits."""
        shown = [size(count) for count in (0, 1023, 1024, 1536, 1024**2, 3 * 1024**3)]
        self.assertEqual(shown, ["0 bytes", "1023 bytes", "1.0 KiB", "1.5 KiB", "1.0 MiB", "3.0 GiB"])
