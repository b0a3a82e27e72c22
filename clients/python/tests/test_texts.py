"""Texts for players have no names of a program: classes, error numbers, exceptions as they print themselves."""

import ast
from collections.abc import Iterator

from twisted.trial.unittest import SynchronousTestCase

from tests.support.python_client import PACKAGE

FOREIGN = ("__name__", "__class__", "errno", "args")


def flaws(source: str) -> Iterator[str]:
    """Yield the values in texts that a player should not read, with the line."""
    tree = ast.parse(source)
    caught = {node.name for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler) and node.name}
    for node in ast.walk(tree):
        if not isinstance(node, ast.FormattedValue):
            continue
        names = {child.attr for child in ast.walk(node) if isinstance(child, ast.Attribute)}
        whole = isinstance(node.value, ast.Name) and node.value.id in caught
        if whole or names & set(FOREIGN):
            yield f"line {node.lineno}: {ast.unparse(node.value)}"


class TextTests(SynchronousTestCase):
    def test_files(self) -> None:
        """The files of the client have no such value."""
        files = sorted(PACKAGE.glob("*.py"))
        self.assertGreaterEqual(len(files), 3)
        self.assertEqual({file.name: [*flaws(file.read_text("utf-8"))] for file in files}, {f.name: [] for f in files})

    def test_finds(self) -> None:
        """The check finds each form of such a value."""
        for text in ('f"{type(e).__name__}"', 'f"{e}"', 'f"{e!r}"', 'f"{e.errno}"'):
            source = f"try:\n    pass\nexcept OSError as e:\n    print({text})\n"
            self.assertEqual(len([*flaws(source)]), 1, text)
        self.assertEqual([*flaws('try:\n    pass\nexcept OSError as e:\n    print(f"{e.strerror}")\n')], [])
