"""Events of the log: their form, and the page that lists all of them."""

import ast
import re
from collections.abc import Iterator
from json import loads

from hypothesis import given
from hypothesis.strategies import text
from msgspec import Struct
from twisted.internet.task import Clock
from twisted.logger import LogEvent, Logger, LogLevel, formatEvent
from twisted.trial.unittest import SynchronousTestCase

from gamed.audit import FIELDS, WARNINGS
from gamed.event_log import EventLog, format_event, format_value
from gamed.http.access_log import AccessLog, EndedRequest
from tests.support.covers import covers
from tests.test_spec import ROOT

LEVELS = {"info": "info", "warn": "warn", "error": "error", "failure": "critical", "log": "warn or error"}
"""How a method of EventLog appears in the table; `log` is a local name for one of two methods."""
ROW = re.compile(r"(?m)^\| `([a-z_]+)` \| (-|(?:`\w+` ?)+) \| (info|warn|error|critical|warn or error) \| .+ \|$")
EVENT = re.compile(r"[a-z]+(_[a-z]+)*")


class Emitted(Struct, frozen=True, order=True):
    """An event with its keys in order and its level."""

    name: str
    keys: tuple[str, ...]
    level: str


def emitted(source: str) -> Iterator[Emitted]:
    """Yield the events that calls in a module log."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and (level := level_of(node.func)) is not None:
            [name, *_] = node.args
            if isinstance(name, ast.Constant):
                keys = tuple(str(keyword.arg) for keyword in node.keywords if keyword.arg != "below")
                yield Emitted(name.value, keys, level)


def level_of(function: ast.expr) -> str | None:
    """Return the level of a call of an event log, None for any other call."""
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        return LEVELS.get(function.attr) if function.value.id in {"_log", "events"} else None
    return LEVELS["log"] if isinstance(function, ast.Name) and function.id == "log" else None


def loggers(source: str) -> Iterator[str]:
    """Yield the places where a module makes a logger of Twisted's that is not inside of an EventLog."""
    tree = ast.parse(source)
    wrapped = {id(node.args[0]) for node in calls(tree, "EventLog")}
    yield from (ast.unparse(node) for node in calls(tree, "Logger") if id(node) not in wrapped)


def calls(tree: ast.AST, name: str) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            yield node


def sources() -> dict[str, str]:
    return {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in (ROOT / "gamed").rglob("*.py")}


class FormTests(SynchronousTestCase):
    def test_words_and_strings(self) -> None:
        """A value of safe characters is bare; any other is a JSON string; a missing one is a dash."""
        values = {"a": "x:1/{y}", "b": 7, "c": None, "d": "", "e": 'say "x" \\', "f": "a\nb\x7f\u202e\udcff"}
        self.assertEqual(
            format_event("happened", values),
            r'happened a=x:1/{y} b=7 c=- d=- e="say \"x\" \\" f="a\nb\u007f\u202e\udcff"',
        )

    @covers("threats/48")
    @given(text())
    def test_no_value_forges_a_line(self, value: str) -> None:
        """A value becomes printable ASCII without a line end, and is read back as it was."""
        shown = format_value(value)
        self.assertTrue(shown.isascii() and shown.isprintable(), shown)
        self.assertEqual(loads(shown) if shown.startswith('"') else shown, value or "-")
        self.assertEqual(" " in shown, " " in value)

    def test_levels(self) -> None:
        """Each method logs at its level; braces in a value are not a format; the request's id is a member, too."""
        seen: list[LogEvent] = []
        log = EventLog(Logger("gamed.room", observer=seen.append))
        log.info("a")
        log.warn("b", request="5f0c", value="{line}")
        log.error("c", below="  at once")
        self.assertEqual([event["log_level"] for event in seen], [LogLevel.info, LogLevel.warn, LogLevel.error])
        self.assertEqual([formatEvent(event) for event in seen], ["a", "b request=5f0c value={line}", "c\n  at once"])
        self.assertEqual([event.get("request_id") for event in seen], [None, "5f0c", None])

    def test_failure(self) -> None:
        """The exception that is being handled is logged with its traceback."""
        seen: list[LogEvent] = []
        try:
            raise ArithmeticError("why")
        except ArithmeticError:
            EventLog(Logger("gamed.room", observer=seen.append)).failure("broken", database="state")
        [event] = seen
        self.assertEqual((formatEvent(event), event["log_level"]), ("broken database=state", LogLevel.critical))
        self.assertEqual(event["log_failure"].type, ArithmeticError)


class PageTests(SynchronousTestCase):
    def test_table(self) -> None:
        """The tables of the page have each event that gamed logs, with its keys and level, and no other."""
        page = (ROOT / "docs/owners/events.md").read_text("utf-8")
        rows = [Emitted(name, tuple(re.findall(r"\w+", keys)), level) for name, keys, level in ROW.findall(page)]
        found = {event for source in sources().values() for event in emitted(source)}
        security = {Emitted(event.value, FIELDS[event], "warn" if event in WARNINGS else "info") for event in FIELDS}
        self.assertGreater(len(found), 25)
        self.assertEqual(sorted(rows), sorted(found | security | {self.http_request()}))

    def test_names(self) -> None:
        """A name stands for one event: snake_case, with the same keys and level wherever it is logged."""
        found = {event for source in sources().values() for event in emitted(source)}
        names = [event.name for event in found]
        self.assertEqual([name for name in names if not EVENT.fullmatch(name)], [])
        self.assertEqual(len(names), len(set(names)), sorted(found))

    def test_nothing_logs_past_the_events(self) -> None:
        """Every logger is an EventLog; the one beside is for lines of requests, which are events already."""
        bare = {f"{path}: {logger}" for path, source in sources().items() for logger in loggers(source)}
        self.assertEqual(bare, {"gamed/service.py: Logger(NAMESPACE)"})

    def test_planted(self) -> None:
        """An event of any form is found, and so is a logger of Twisted's."""
        source = (
            "_log = Logger()\n_log.warn('one', a=1, below=x)\n_log.failure('two')\n"
            "log = _log.warn\nlog('three', b=2)\nother.warn('no', c=3)"
        )
        self.assertEqual(
            list(emitted(source)),
            [Emitted("one", ("a",), "warn"), Emitted("two", (), "critical"), Emitted("three", ("b",), "warn or error")],
        )
        self.assertEqual(list(loggers(source)), ["Logger()"])

    def http_request(self) -> Emitted:
        """Return the event of the access log, as it is written."""
        written: list[str] = []
        log = AccessLog(written.append, Clock(), lambda: 0)  # type: ignore[arg-type]
        log.log(EndedRequest(request_id="1", method="GET", template="-", status=404, size=0, seconds=0))
        log.flush()
        _, name, *words = written[0].split()
        return Emitted(name, tuple(word.partition("=")[0] for word in words), "info")
