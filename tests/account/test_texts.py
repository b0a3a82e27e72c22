"""The texts of the player's own page are for people, and each of them is used."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from gamed import account
from gamed.account.browser_routes import FAILURES
from gamed.account.pages import texts
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
            for module in Path(account.__file__).parent.rglob("*.py")
            for node in ast.walk(ast.parse(module.read_text("utf-8")))
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "texts"
        }
        self.assertEqual({name for name, _ in catalogue()} - used, set())

    def test_for_people(self) -> None:
        """No text has a status, a code or a term of a protocol."""
        self.assertEqual([name for name, text in catalogue() if MACHINES.search(text.replace("{", "").strip())], [])

    def test_failures_have_advice(self) -> None:
        """Every refused action has a sentence that says what to do next."""
        words = ("back", "again", "choose", "first", "Choose", "yourself", "Link", "Ask the owner")
        self.assertEqual([text for _, text in FAILURES.values() if not any(word in text for word in words)], [])
