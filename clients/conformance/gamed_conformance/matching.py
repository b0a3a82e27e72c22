"""Expectations are data: named members must match, others may have any value."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any

REFERENCE = re.compile(r"\$\{([A-Za-z0-9_.]+)\}")


class Mismatch(Exception):
    """The place, the expected value, the found value."""


def expect(expected: Any, found: Any, where: str = "the result") -> None:
    """Compare. Objects: the named members; lists: every item; else equal. `{"$...": x}` are the matchers below."""
    if isinstance(expected, dict) and len(expected) == 1 and next(iter(expected)) in MATCHERS:
        [(name, argument)] = expected.items()
        if not MATCHERS[name](argument, found):
            raise Mismatch(f"{where} is {found!r}; expected {name} {argument!r}")
    elif isinstance(expected, dict):
        if not isinstance(found, Mapping):
            raise Mismatch(f"{where} is {found!r}; expected an object with {sorted(expected)}")
        for name, value in expected.items():
            expect(value, found.get(name), f"{where}.{name}")
    elif isinstance(expected, list):
        if not isinstance(found, list) or len(found) != len(expected):
            raise Mismatch(f"{where} is {found!r}; expected {len(expected)} of {expected!r}")
        for number, (one, other) in enumerate(zip(expected, found, strict=True)):
            expect(one, other, f"{where}[{number}]")
    elif expected != found or (type(expected) is not type(found) and not _numbers(expected, found)):
        raise Mismatch(f"{where} is {found!r}; expected {expected!r}")


def matches(expected: Any, found: Any) -> bool:
    try:
        expect(expected, found)
    except Mismatch:
        return False
    return True


def _numbers(*values: Any) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _has(argument: Any, found: Any) -> bool:
    """Return whether each item of `argument` fits an item of the list, or is part of the text."""
    if isinstance(found, str):
        return str(argument) in found
    wanted = argument if isinstance(argument, list) else [argument]
    return isinstance(found, list) and all(any(matches(one, other) for other in found) for one in wanted)


MATCHERS = {
    "$any": lambda argument, found: found is not None,
    "$not": lambda argument, found: not matches(argument, found),
    "$between": lambda argument, found: _numbers(found) and argument[0] <= found <= argument[1],
    "$one_of": lambda argument, found: any(matches(one, found) for one in argument),
    "$has": _has,
    "$pattern": lambda argument, found: isinstance(found, str) and re.fullmatch(argument, found) is not None,
    "$unordered": lambda argument, found: (
        isinstance(found, list) and len(found) == len(argument) and _has(argument, found)
    ),
}


def filled(value: Any, memory: Mapping[str, Any]) -> Any:
    """Replace `${name.member}` by the remembered value, `{"$repeat": [text, n]}` by a long text, `$joined` by one."""
    if isinstance(value, str):
        if whole := REFERENCE.fullmatch(value):
            return looked_up(whole[1], memory)
        return REFERENCE.sub(lambda found: str(looked_up(found[1], memory)), value)
    if isinstance(value, list):
        return [filled(item, memory) for item in value]
    if isinstance(value, dict):
        if set(value) == {"$repeat"}:
            text, count = value["$repeat"]
            return text * count
        if set(value) == {"$joined"}:
            return "".join(filled(value["$joined"], memory))
        return {filled(name, memory): filled(item, memory) for name, item in value.items()}
    return value


def looked_up(path: str, memory: Mapping[str, Any]) -> Any:
    found: Any = memory
    for name in path.split("."):
        try:
            found = found[int(name)] if isinstance(found, list) else found[name]
        except (KeyError, IndexError, TypeError) as e:
            raise Mismatch(f"nothing is remembered as {path}") from e
    return found


def encoded(arguments: dict[str, Any]) -> dict[str, Any]:
    """Encode each `text` of a scenario as the `data` of a driver, also in the entries of `writes`."""
    if "text" in arguments:
        arguments = {**arguments, "data": base64.b64encode(arguments["text"].encode()).decode()}
        del arguments["text"]
    if "writes" in arguments:
        arguments = {**arguments, "writes": [encoded(entry) for entry in arguments["writes"]]}
    return arguments


def decoded(result: Any) -> Any:
    """Decode each `data` of a driver as `text`."""
    if isinstance(result, dict) and isinstance(result.get("data"), str):
        try:
            return {**result, "text": base64.b64decode(result["data"], validate=True).decode("utf-8", "replace")}
        except ValueError:
            raise Mismatch(f"the driver's data is not Base64: {result['data'][:80]!r}") from None
    return result
