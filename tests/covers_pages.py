"""`python -m tests.covers_pages` writes the Tests columns of docs/internals/spec.md and docs/internals/threats.md.

A table that begins with the column Id and ends with the column Tests has its last column written here, from the
`@covers` decorators of the tests: one link for each file that has such a test. A person writes the other columns. The
rows are written without blanks around their cells, which makes long tables a third shorter. The tests are read with
`ast`: none is imported, and a test keeps its rows when its file moves.
"""

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from os.path import relpath
from pathlib import Path

from msgspec import Struct

from tests.support.covers import covers

ROOT = Path(__file__).parent.parent
PAGES = (ROOT / "docs/internals/spec.md", ROOT / "docs/internals/threats.md")
COMMAND = "python -m tests.covers_pages"


class CoveringTest(Struct, frozen=True):
    """A test, or a whole test case, that a decorator marks."""

    file: Path
    name: str
    ids: tuple[str, ...]


def cells(line: str) -> list[str]:
    """Return the cells of a table's row, or an empty list for a line that is not one."""
    return [cell.strip() for cell in line.strip()[1:-1].split("|")] if line.startswith("|") else []


def rows(page: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line index and the cells of each row of the tables from Id to Tests, without their heads."""
    inside = False
    for index, line in enumerate(page.splitlines()):
        row = cells(line)
        if row and row[0] == "Id" and row[-1] == "Tests":
            inside = True
        elif not row:
            inside = False
        elif inside and set(row) != {"---"}:
            yield index, row


def test_files(root: Path) -> list[Path]:
    """Return the Python files of the tests of the server and of the clients, in the order of their paths."""
    return sorted([*root.glob("tests/**/*.py"), *root.glob("clients/*/tests/**/*.py")])


def covering_tests(file: Path, source: str) -> Iterator[CoveringTest]:
    """Yield the marked tests of a file, in the order of its lines.

    Raise ValueError where a decorator marks something that is not run as a test, or an argument is not a literal id.
    """
    tree = ast.parse(source)
    methods = {item: case for case in tree.body if isinstance(case, ast.ClassDef) for item in case.body}
    decorated = [node for node in ast.walk(tree) if getattr(node, "decorator_list", [])]
    for node in sorted(decorated, key=lambda node: node.lineno):
        ids = marked_ids(file, node)
        if not ids:
            continue
        run = is_test(node) if node in methods else is_case(node) and node in tree.body
        if not run or not file.name.startswith("test_"):
            raise ValueError(f"{file}: line {node.lineno}: @covers marks something that is not a test or a test case.")
        yield CoveringTest(file, f"{methods[node].name}.{node.name}" if node in methods else node.name, ids)


def marked_ids(file: Path, node: ast.stmt) -> tuple[str, ...]:
    """Return the ids that a definition's decorators name; none for another statement."""
    found: list[str] = []
    for call in getattr(node, "decorator_list", []):
        if not isinstance(call, ast.Call) or ast.unparse(call.func).rpartition(".")[2] != "covers":
            continue
        try:
            ids = [ast.literal_eval(argument) for argument in call.args]
            covers(*ids)
        except (TypeError, ValueError) as e:
            raise ValueError(f"{file}: line {call.lineno}: {e}") from None
        found += ids
    return tuple(found)


def is_test(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test")


def is_case(node: ast.stmt) -> bool:
    """Say whether this is a class with a base: a test case may inherit all its tests."""
    return isinstance(node, ast.ClassDef) and bool(node.bases)


def all_covering_tests() -> list[CoveringTest]:
    sources = {file: file.read_text("utf-8") for file in test_files(ROOT)}
    return [test for file, text in sources.items() if "covers(" in text for test in covering_tests(file, text)]


def faults(pages: Iterable[str], tests: Iterable[CoveringTest]) -> list[str]:
    """Return one line for each id that stands in two rows, and for each id of a test that no row has."""
    known: set[str] = set()
    found = []
    for page in pages:
        for _, row in rows(page):
            if row[0] in known:
                found.append(f"two rows: {row[0]}")
            known.add(row[0])
    return found + [f"unknown id: {name} at {test.name}" for test in tests for name in test.ids if name not in known]


def label(file: Path) -> str:
    """Return the short name of a test file: its folders and its module, without `tests` and `test_`."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    return "/".join(part.removeprefix("test_") for part in parts if part not in {"tests", "clients"})


def with_tests(page: str, folder: Path, tests: Iterable[CoveringTest]) -> str:
    """Return the text of a page of this folder, with the Tests columns that these tests make."""
    links: Mapping[str, dict[str, None]] = {row[0]: {} for _, row in rows(page)}
    for test in tests:
        for name in dict.fromkeys(test.ids):
            if name in links:
                links[name][f"[{label(test.file)}]({Path(relpath(test.file, folder)).as_posix()})"] = None
    lines = page.splitlines()
    for index, row in rows(page):
        lines[index] = f"|{'|'.join([*row[:-1], ', '.join(links[row[0]])])}|"
    return "\n".join(lines) + "\n"


def main() -> None:
    try:
        tests = all_covering_tests()
    except ValueError as e:
        sys.exit(str(e))
    pages = {path: path.read_text("utf-8") for path in PAGES}
    if found := faults(pages.values(), tests):
        sys.exit("\n".join(found))
    for path, page in pages.items():
        path.write_text(with_tests(page, path.parent, tests), "utf-8")


if __name__ == "__main__":
    main()
