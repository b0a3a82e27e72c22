"""Log events are lines of the form `event_name key=value ...`, and no value can break a line or forge another one.

    sign_in_failed provider=discord outcome=provider_error request=5f0c detail="token_endpoint: 500"

docs/owners/events.md has tables of all events; a test compares them with the calls of `EventLog`.
"""

from collections.abc import Mapping
from json import dumps
from re import compile
from typing import Any, Protocol

NOTHING = "-"
_BARE = compile(r"[A-Za-z0-9._:+@/{}-]+")


class Logger(Protocol):
    """The methods of `twisted.logger.Logger` that log events use; modules of any layer may import this one."""

    def info(self, format: str, **values: object) -> None: ...

    def warn(self, format: str, **values: object) -> None: ...

    def error(self, format: str, **values: object) -> None: ...

    def failure(self, format: str, failure: Any = None, level: Any = None, **values: object) -> None: ...


class EventLog:
    """A logger of named events. `below` is text for the lines below the event, such as a redacted traceback.

    A value named `request` is the request's id; the JSON format shows it as `request_id`, too.
    """

    def __init__(self, logger: Logger) -> None:
        self._logger = logger

    def info(self, event: str, /, *, below: str = "", **values: object) -> None:
        self._logger.info("{line}", **_members(event, below, values))

    def warn(self, event: str, /, *, below: str = "", **values: object) -> None:
        self._logger.warn("{line}", **_members(event, below, values))

    def error(self, event: str, /, *, below: str = "", **values: object) -> None:
        self._logger.error("{line}", **_members(event, below, values))

    def failure(self, event: str, failure: Any = None, /, **values: object) -> None:
        """Log an unexpected error with its traceback; `failure` is the exception being handled by default."""
        self._logger.failure("{line}", failure, **_members(event, "", values))


def format_event(event: str, values: Mapping[str, object]) -> str:
    """Return the line of an event, without a line end."""
    return " ".join([event, *(f"{key}={format_value(value)}" for key, value in values.items())])


def format_value(value: object) -> str:
    """Return a value as one word, or as a JSON string of ASCII; `-` stands for None and for the empty string."""
    text = NOTHING if value is None else str(value) or NOTHING
    return text if _BARE.fullmatch(text) else dumps(text).replace("\x7f", "\\u007f")


def _members(event: str, below: str, values: Mapping[str, object]) -> dict[str, object]:
    line = format_event(event, values)
    members: dict[str, object] = {"line": f"{line}\n{below}" if below else line}
    return members | ({"request_id": values["request"]} if "request" in values else {})
