"""One object of the file, taken member by member; every problem is noted and the reading goes on."""

from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from typing import TypeVar

from gamed.config.positions import Document
from gamed.config.problems import Path, Problem, Wrong, plain_word, shown
from gamed.structs import Part

T = TypeVar("T")
D = TypeVar("D")
Rule = Callable[[object], T]
"""Turns a value into what it means, or raises Wrong."""


class Section(Part, frozen=True):
    """Members of the object at `path`; none when there is no such object."""

    _document: Document
    _problems: list[Problem]
    _warnings: list[Problem]
    path: Path
    members: Mapping[str, object]

    @classmethod
    def top(
        cls, document: Document, problems: list[Problem], warnings: list[Problem], example: str = '{"mode": "local"}'
    ) -> "Section":
        """The outermost object; what is found goes into the two lists."""
        value = document.value
        if not isinstance(value, dict):
            problems.append(Problem(document.places[()], (), f"expected an object, such as {example}"))
            value = {}
        return cls(document, problems, warnings, (), value)

    def __contains__(self, name: str) -> bool:
        return name in self.members

    def section(self, name: str) -> "Section":
        """The object under `name`; when absent, or not an object, one without members."""
        value = self.members.get(name, {})
        if not isinstance(value, dict):
            self.problem(name, "expected an object in { }")
            value = {}
        return Section(self._document, self._problems, self._warnings, (*self.path, name), value)

    def value(self, name: str, rule: Rule[T], default: D) -> T | D:
        """What the member means; `default` when it is absent or wrong."""
        if name not in self.members:
            return default
        return self._judge(name, self.members[name], rule, default)

    def needed(self, name: str, rule: Rule[T], missing: str = "missing") -> T | None:
        """Like `value`, of a member that may not be absent."""
        if name not in self.members:
            self.problem(name, missing)
        return self.value(name, rule, None)

    def items(self, name: str, rule: Rule[T], default: tuple[T, ...]) -> tuple[T, ...]:
        """A list, each item by the rule; `default` when absent."""
        if name not in self.members:
            return default
        values = self.members[name]
        if not isinstance(values, list):
            self.problem(name, "expected a list in [ ]")
            return default
        judged = [self._judge((name, n), value, rule, None) for n, value in enumerate(values)]
        for n, item in enumerate(judged):
            if item is not None and item in judged[:n]:
                self.problem((name, n), "given twice")
        return tuple(item for item in judged if item is not None)

    def only(self, known: Collection[str], hints: Mapping[str, str] | None = None) -> None:
        """A problem for every member whose name is not known."""
        for name in self.members:
            if name not in known:
                position = self._document.names[*self.path, name]
                self._problems.append(Problem(position, (*self.path, name), _unknown(name, known, hints or {})))

    def problem(self, where: str | Path, message: str) -> None:
        """At the value of the member; where there is none, at the object that lacks it."""
        self._problems.append(self._at(where, message))

    def warning(self, where: str | Path, message: str) -> None:
        """Allowed, but told to the owner."""
        self._warnings.append(self._at(where, message))

    def _at(self, where: str | Path, message: str) -> Problem:
        path = (*self.path, *((where,) if isinstance(where, str) else where))
        outwards = (path[:length] for length in range(len(path), -1, -1))
        position = next(self._document.places[outer] for outer in outwards if outer in self._document.places)
        return Problem(position, path, message)

    def _judge(self, where: str | Path, value: object, rule: Rule[T], default: D) -> T | D:
        try:
            return rule(value)
        except Wrong as wrong:
            for message in wrong.messages:
                self.problem(where, message)
            return default


def _unknown(name: str, known: Collection[str], hints: Mapping[str, str]) -> str:
    if name in hints:
        return f"no such member here; {hints[name]}"
    folded = name.casefold().replace("-", "_")
    close = get_close_matches(folded, known, 1) if plain_word(name) else []
    if close:
        return f"no such member here; did you mean {close[0]}?"
    return f"no such member here; known are {', '.join(shown(other) for other in known)}"
