"""Errors of a configuration file are reported together, with line, column and member, never with a value (SPEC 7)."""

from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

Path = tuple[str | int, ...]
"""The steps from the top of the file to one value, such as ("providers", "discord", "scopes", 0)."""


class Position(Struct, frozen=True, order=True):
    """A line and a column in a file, both counted from 1; a column is a character."""

    line: int
    column: int


class ConfigProblem(Struct, frozen=True):
    """One error or warning, and the value that it is about."""

    position: Position
    path: Path
    message: str

    def line(self, file: str) -> str:
        """Return a line such as `authentication.json:6:19: session.access_ttl: expected a duration such as "15m"`."""
        member = f"{dotted(self.path)}: " if self.path else ""
        return f"{file}:{self.position.line}:{self.position.column}: {member}{self.message}"


class ConfigError(Exception):
    """A file with errors; its text has one line for each problem, in the order of the file, and then the hint."""

    def __init__(self, file: str, problems: Sequence[ConfigProblem], hint: str = "") -> None:
        self.problems = tuple(sorted(problems, key=lambda problem: problem.position))
        lines = [problem.line(file) for problem in self.problems]
        super().__init__("\n".join([*lines, hint] if hint else lines))


class ConfigErrors(ConfigError):
    """The errors of more than one file."""

    def __init__(self, errors: Sequence[ConfigError]) -> None:
        Exception.__init__(self, "\n".join(map(str, errors)))
        self.problems = tuple(problem for error in errors for problem in error.problems)


class InvalidValue(Exception):
    """A value that breaks one rule or several; each message names what was expected, and no part of the value."""

    def __init__(self, *messages: str) -> None:
        super().__init__("; ".join(messages))
        self.messages = messages


def dotted(path: Path) -> str:
    """Return a path such as `providers.discord.scopes[0]`, with `...` for a name that may be a misplaced secret."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{shown(step)}"
    return text.removeprefix(".")


def shown(name: str) -> str:
    """Return a member's name if it may be printed, else `...`."""
    return name if plain_word(name) else "..."


def plain_word(name: str) -> bool:
    """Return whether a name is short, of letters, digits, `_` and `-`, and does not look like a secret."""
    plain = name.isascii() and all(c.isalnum() or c in "_-" for c in name)
    return 0 < len(name) <= 40 and plain and not looks_random(name)


def looks_random(text: str) -> bool:
    """Return whether a text is long and of digits or of both cases without words: rather a secret than a name."""
    if len(text) < 20:
        return False
    digits = any(c.isdigit() for c in text)
    both_cases = text != text.lower() and text != text.upper()
    case_changes = sum(a.isupper() != b.isupper() for a, b in pairwise(text) if (a + b).isalpha())
    return (digits and (both_cases or "_" not in text)) or (both_cases and case_changes > len(text) // 4)
