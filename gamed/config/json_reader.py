"""The JSON of a configuration file is read with the position of every value, so that each error has a line and column.

Errors whose meaning is clear (comments, a comma too many or too few, a duplicate name) are collected, and the parser
goes on, so that one run reports them all; any other deviation from RFC 8259 raises JsonSyntaxError. ObjectReader then
converts the members of an object, and collects the errors of its values.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from re import Pattern, compile
from typing import NoReturn, TypeVar

from msgspec import Struct, field

from gamed.config.errors import ConfigError, ConfigProblem, InvalidValue, Path, Position, plain_word, shown
from gamed.structs import Component, redacts

MAX_DEPTH = 16
"""The reader calls itself for each level, and Python ends at 1,000 calls."""
MAX_DIGITS = 30
"""Python refuses to convert more than 4,300 digits, with an error that has no position."""
_SPACE = compile(r"[ \t\r\n]*")
_COMMENT = compile(r"//[^\n]*|#[^\n]*|/\*(?:.|\n)*?(?:\*/|\Z)")
_PLAIN = compile(r'[^"\\\x00-\x1f]*')
_ESCAPE = compile(r'\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})')
_NUMBER = compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_NUMBER_LIKE = compile(r"[-+.0-9][-+.0-9A-Za-z]*")
_WORD = compile(r"\w+")
_WORDS: Mapping[str, object] = {"true": True, "false": False, "null": None}
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_QUOTES = "'`\u2018\u2019\u201c\u201d\u00ab\u00bb"


class JsonSyntaxError(Exception):
    """An error after which the parser does not know what the rest of the text means."""

    def __init__(self, problem: ConfigProblem) -> None:
        self.problem = problem
        super().__init__(problem.message)


class PositionedJson(Struct, frozen=True):
    """The value of a text, and the positions at which each value and each member's name begin."""

    value: object
    values: Mapping[Path, Position]
    names: Mapping[Path, Position]
    recoverable_errors: tuple[ConfigProblem, ...]


def decode(raw: bytes) -> str:
    """Decode UTF-8 with or without a byte order mark; raise JsonSyntaxError at the first invalid byte."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        before = raw[: e.start].decode("utf-8-sig", "replace")
        position = Position(before.count("\n") + 1, len(before) - before.rfind("\n"))
        raise JsonSyntaxError(ConfigProblem(position, (), "not UTF-8; save the file with the encoding UTF-8")) from None


def read(text: str) -> PositionedJson:
    """Read the whole text as one JSON value; raise JsonSyntaxError."""
    reader = _JsonReader(text, [0, *(place.end() for place in compile("\n").finditer(text))])
    value = reader.read_document()
    return PositionedJson(value, reader.values, reader.names, tuple(reader.recoverable_errors))


@redacts("_text")
class _JsonReader(Struct, eq=False):
    _text: str
    _lines: list[int]
    _at: int = 0
    values: dict[Path, Position] = field(default_factory=dict)
    names: dict[Path, Position] = field(default_factory=dict)
    recoverable_errors: list[ConfigProblem] = field(default_factory=list)

    def read_document(self) -> object:
        self._skip(())
        if self._at == len(self._text):
            self._fail((), "the file is empty")
        value = self._value(())
        self._skip(())
        if self._at < len(self._text):
            self._fail((), "expected nothing more after the end of the outermost value")
        return value

    def _value(self, path: Path) -> object:
        if len(path) > MAX_DEPTH:
            self._fail(path[:2], f"nested deeper than {MAX_DEPTH} levels")
        self.values[path] = self._position(self._at)
        first = self._peek()
        if first == "{":
            return self._object(path)
        if first == "[":
            return self._array(path)
        if first == '"':
            return self._string(path)
        if first and first in "-+.0123456789":
            return self._number(path)
        return self._word(path)

    def _object(self, path: Path) -> dict[str, object]:
        members: dict[str, object] = {}
        self._at += 1
        while self._more("}", path, first=not members):
            name, member = self._name(path, members)
            value = self._value(member)
            members.setdefault(name, value)
        return members

    def _array(self, path: Path) -> list[object]:
        items: list[object] = []
        self._at += 1
        while self._more("]", path, first=not items):
            items.append(self._value((*path, len(items))))
        return items

    def _more(self, close: str, path: Path, *, first: bool) -> bool:
        """Skip the comma between two members; return False after the closing bracket."""
        before = self._at
        self._skip(path)
        comma = self._at if self._peek() == "," and not first else None
        if comma is not None:
            self._at += 1
            self._skip(path)
        if self._peek() == close:
            if comma is not None:
                self._add_recoverable(comma, path, f"no comma may stand before the closing {close}")
            self._at += 1
            return False
        if comma is None and not first:
            if self._peek() == "":
                self._fail(path, f"the file ends before the closing {close}")
            if self._peek() != '"':
                self._fail(path, f"expected a comma or the closing {close}")
            self._add_recoverable(before, path, "a comma is missing here")
        return True

    def _name(self, path: Path, members: Mapping[str, object]) -> tuple[str, Path]:
        start = self._at
        if self._peek() == "":
            self._fail(path, "the file ends before the closing }")
        if self._peek() != '"':
            self._fail(path, 'expected a name in double quotes, such as "mode"')
        name = self._string(path)
        member = (*path, name)
        if name in members:
            first = self.names[member]
            self._add_recoverable(start, member, f"given twice, first on line {first.line}")
            member = (*path, f"{name}\n{start}")  # its positions must not replace those of the first member
        self.names[member] = self._position(start)
        self._skip(path)
        if self._peek() != ":":
            self._fail(path, f"expected a colon after {shown(name)}")
        self._at += 1
        self._skip(path)
        return name, member

    def _string(self, path: Path) -> str:
        start, text = self._at, ""
        self._at += 1
        while True:
            plain = self._match(_PLAIN)
            text += plain
            match self._peek():
                case '"':
                    self._at += 1
                    break
                case "\\":
                    text += self._escape(path)
                case "" | "\n" | "\r":
                    self._fail(path, "this string is not closed on its line", start)
                case _:
                    self._fail(path, "a control character must be written as an escape such as \\t")
        joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if joined.count("\ufffd") != text.count("\ufffd"):
            self._fail(path, "half of a surrogate pair stands alone", start)
        return joined

    def _escape(self, path: Path) -> str:
        escape = self._match(_ESCAPE)
        if not escape:
            self._fail(path, "not an escape of JSON; write a backslash as \\\\")
        if escape[1] == "u":
            return chr(int(escape[2:], 16))
        return _ESCAPED.get(escape[1], escape[1])

    def _number(self, path: Path) -> int | float:
        start = self._at
        text = self._match(_NUMBER_LIKE)
        match = _NUMBER.fullmatch(text)
        if match is None or len(text) > MAX_DIGITS:
            self._fail(path, "not a number of JSON; text stands in double quotes", start)
        return float(text) if match[1] or match[2] else int(text)

    def _word(self, path: Path) -> object:
        start = self._at
        word = self._match(_WORD)
        if word in _WORDS:
            return _WORDS[word]
        if word.lower() in _WORDS:
            self._fail(path, f"write {word.lower()} in small letters", start)
        if word or (self._peek() and self._peek() in _QUOTES):
            self._fail(path, 'text stands in straight double quotes, such as "local"', start)
        self._fail(path, "expected a value here", start)

    def _skip(self, path: Path) -> None:
        self._match(_SPACE)
        while comment := _COMMENT.match(self._text, self._at):
            self._add_recoverable(self._at, path, "JSON has no comments; remove this one")
            self._at = comment.end()
            self._match(_SPACE)

    def _match(self, form: Pattern[str]) -> str:
        match = form.match(self._text, self._at)
        self._at = match.end() if match else self._at
        return match[0] if match else ""

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _position(self, at: int) -> Position:
        line = bisect_right(self._lines, at)
        return Position(line, at - self._lines[line - 1] + 1)

    def _add_recoverable(self, at: int, path: Path, message: str) -> None:
        self.recoverable_errors.append(ConfigProblem(self._position(at), path, message))

    def _fail(self, path: Path, message: str, at: int | None = None) -> NoReturn:
        raise JsonSyntaxError(ConfigProblem(self._position(self._at if at is None else at), path, message))


T = TypeVar("T")
D = TypeVar("D")
Converter = Callable[[object], T]
"""A function that converts a value of the file; it raises InvalidValue."""


class ObjectReader(Component, frozen=True, kw_only=True):
    """A reader of the object at `path`, or of an empty object if there is none; it collects problems and warnings."""

    document: PositionedJson
    problems: list[ConfigProblem]
    warnings: list[ConfigProblem]
    path: Path
    members: Mapping[str, object]

    def __contains__(self, name: str) -> bool:
        return name in self.members

    def section(self, name: str) -> "ObjectReader":
        """Return the reader of the object under `name`, or of an empty one if the member is absent or not an object."""
        value = self.members.get(name, {})
        if not isinstance(value, dict):
            self.problem(name, "expected an object in { }")
            value = {}
        return ObjectReader(
            document=self.document,
            problems=self.problems,
            warnings=self.warnings,
            path=(*self.path, name),
            members=value,
        )

    def value(self, name: str, converter: Converter[T], default: D) -> T | D:
        """Convert a member; return `default` if it is absent or invalid."""
        if name not in self.members:
            return default
        return self._convert(name, self.members[name], converter, default)

    def required(self, name: str, converter: Converter[T], missing: str = "missing") -> T | None:
        """Convert a member that must be present; return None if it is absent or invalid."""
        if name not in self.members:
            self.problem(name, missing)
        return self.value(name, converter, None)

    def items(self, name: str, converter: Converter[T], default: tuple[T, ...]) -> tuple[T, ...]:
        """Convert each item of a list; return `default` if the member is absent or not a list."""
        if name not in self.members:
            return default
        values = self.members[name]
        if not isinstance(values, list):
            self.problem(name, "expected a list in [ ]")
            return default
        converted = [self._convert((name, n), value, converter, None) for n, value in enumerate(values)]
        for n, item in enumerate(converted):
            if item is not None and item in converted[:n]:
                self.problem((name, n), "given twice")
        return tuple(item for item in converted if item is not None)

    def reject_unknown(self, known: Collection[str], hints: Mapping[str, str] | None = None) -> None:
        """Add a problem for each member whose name is not known."""
        for name in self.members:
            if name not in known:
                position = self.document.names[*self.path, name]
                self.problems.append(ConfigProblem(position, (*self.path, name), _unknown(name, known, hints or {})))

    def problem(self, where: str | Path, message: str) -> None:
        """Add a problem at the member's value, or at the object if the member is absent."""
        self.problems.append(self._at(where, message))

    def warning(self, where: str | Path, message: str) -> None:
        """Add a warning about an allowed value."""
        self.warnings.append(self._at(where, message))

    def _at(self, where: str | Path, message: str) -> ConfigProblem:
        path = (*self.path, *((where,) if isinstance(where, str) else where))
        outwards = (path[:length] for length in range(len(path), -1, -1))
        position = next(self.document.values[outer] for outer in outwards if outer in self.document.values)
        return ConfigProblem(position, path, message)

    def _convert(self, where: str | Path, value: object, converter: Converter[T], default: D) -> T | D:
        try:
            return converter(value)
        except InvalidValue as e:
            for message in e.messages:
                self.problem(where, message)
            return default


@contextmanager
def read_object(text: str, file: str, example: str) -> Iterator[ObjectReader]:
    """Yield the reader of a file's outermost object; at the end raise ConfigError with all its problems."""
    try:
        document = read(text)
    except JsonSyntaxError as e:
        raise ConfigError(file, [e.problem]) from None
    problems = list(document.recoverable_errors)
    if isinstance(document.value, dict):
        yield ObjectReader(document=document, problems=problems, warnings=[], path=(), members=document.value)
    else:
        problems.append(ConfigProblem(document.values[()], (), f"expected an object, such as {example}"))
        raise ConfigError(file, problems)
    if problems:
        raise ConfigError(file, list(dict.fromkeys(problems)))


def _unknown(name: str, known: Collection[str], hints: Mapping[str, str]) -> str:
    return f"no such member here; {hints[name] if name in hints else suggestion(name, known)}"


def suggestion(name: str, known: Collection[str]) -> str:
    """Return a question with the known name that an unknown one resembles, else a list of all known names."""
    from difflib import get_close_matches  # late: only mistakes need it

    folded = name.casefold().replace("-", "_")
    close = get_close_matches(folded, known, 1) if plain_word(name) else []
    return f"did you mean {close[0]}?" if close else f"known are {', '.join(shown(other) for other in known)}"
