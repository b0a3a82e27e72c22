"""What is wrong with the owner's file: all of it at once, by place and member, never by value (SPEC 7)."""

from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

Path = tuple[str | int, ...]
"""From the top of the file to one value: ("providers", "discord", "scopes", 0)."""


class Position(Struct, frozen=True, order=True):
    """Counted from 1; columns are characters."""

    line: int
    column: int


class ConfigProblem(Struct, frozen=True):
    """One thing to mend."""

    position: Position
    path: Path
    message: str

    def line(self, file: str) -> str:
        """`authentication.json:6:19: session.access_ttl: expected a duration such as "15m"`."""
        member = f"{dotted(self.path)}: " if self.path else ""
        return f"{file}:{self.position.line}:{self.position.column}: {member}{self.message}"


class ConfigError(Exception):
    """A file that cannot be used; `str` is one line per problem, in the file's order, and the hint."""

    def __init__(self, file: str, problems: Sequence[ConfigProblem], hint: str = "") -> None:
        self.problems = tuple(sorted(problems, key=lambda problem: problem.position))
        lines = [problem.line(file) for problem in self.problems]
        super().__init__("\n".join([*lines, hint] if hint else lines))


class ConfigErrors(ConfigError):
    """More than one file that cannot be used."""

    def __init__(self, errors: Sequence[ConfigError]) -> None:
        Exception.__init__(self, "\n".join(map(str, errors)))
        self.problems = tuple(problem for error in errors for problem in error.problems)


class InvalidValue(Exception):
    """A value that breaks a rule, or several; each message says what was expected and holds nothing of the value."""

    def __init__(self, *messages: str) -> None:
        super().__init__("; ".join(messages))
        self.messages = messages


def dotted(path: Path) -> str:
    """`providers.discord.scopes[0]`; a name that is no plain word is shown as `...`: it may be a misplaced secret."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{shown(step)}"
    return text.removeprefix(".")


def shown(name: str) -> str:
    """A member's name as it may be printed."""
    return name if plain_word(name) else "..."


def plain_word(name: str) -> bool:
    """Short, of letters, digits, `_` and `-`, and not made like a key or secret."""
    return 0 < len(name) <= 40 and name.isascii() and all(c.isalnum() or c in "_-" for c in name) and not random(name)


def random(text: str) -> bool:
    """Long, and of digits or both cases with no words in it: more likely a secret than a name."""
    if len(text) < 20:
        return False
    digits = any(c.isdigit() for c in text)
    both_cases = text != text.lower() and text != text.upper()
    return (digits and (both_cases or "_" not in text)) or (both_cases and _changes(text) > len(text) // 4)


def _changes(text: str) -> int:
    """How often the case changes from one letter to the next."""
    return sum(a.isupper() != b.isupper() for a, b in pairwise(text) if (a + b).isalpha())
