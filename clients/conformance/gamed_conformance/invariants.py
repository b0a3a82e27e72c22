"""These checks hold in every scenario."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .fake_server import SECRET
from .matching import Mismatch
from .scenario_run import ScenarioRun

INTERNAL = re.compile(r"\((?:[A-Z]\w*|\w*error)\)|\b\w*[a-z](?:Error|Exception)\b|\bE[A-Z]{4,}\b")
"""`(TypeError)`, `(gaierror)`, `WebException`, `ECONNREFUSED`: a program's names, not words for a person."""


def check_invariants(scenario_run: ScenarioRun) -> None:
    for check in (
        no_secret_elsewhere,
        no_secret_in_urls,
        no_secret_said,
        no_class_names,
        files_are_private,
        nothing_unexpected,
    ):
        check(scenario_run)


def no_secret_elsewhere(scenario_run: ScenarioRun) -> None:
    """Check that secrets of one server are never sent to another (docs/protocol.md: Rules for clients)."""
    handed = {name: {s for s in end.given if s} for name, end in scenario_run.ends.items()}
    for name, end in scenario_run.ends.items():
        foreign = set().union(*(given for other, given in handed.items() if other != name))
        for request in end.seen:
            sent = set(SECRET.findall(repr((request.line, request.headers)).encode() + request.body))
            if sent & foreign:
                raise Mismatch(f"{request.line} at {name} carries a secret of another server")


def no_secret_in_urls(scenario_run: ScenarioRun) -> None:
    """Check that credentials are sent only in the Authorization header or a JSON body.

    See docs/protocol.md: Conventions.
    """
    for end in scenario_run.ends.values():
        for request in end.seen:
            if SECRET.search(request.path.encode()):
                raise Mismatch(f"a secret in the address of {request.method}")
            if "cookie" in request.headers:
                raise Mismatch(f"a cookie in {request.line}")


def no_secret_said(scenario_run: ScenarioRun) -> None:
    """Check that no result and no output of the client contains a secret."""
    secrets = set().union(*(end.secrets for end in scenario_run.ends.values()))
    for driver in scenario_run.world.drivers:
        for line in list(driver.lines):
            if secrets & set(SECRET.findall(line.encode())):
                raise Mismatch(f"a secret was printed: {SECRET.sub(b'...', line.encode()).decode()}")


def no_class_names(scenario_run: ScenarioRun) -> None:
    """Check that `detail`, which games show to players, has neither a class's name nor an errno."""
    for error in errors_said(scenario_run):
        if error.get("kind") != "Driver" and INTERNAL.search(str(error.get("detail"))):
            raise Mismatch(f"a text for players names a class: {error['detail']!r}")


def errors_said(scenario_run: ScenarioRun) -> Iterator[Mapping[str, Any]]:
    for driver in scenario_run.world.drivers:
        for line in list(driver.lines):
            with contextlib.suppress(ValueError, AttributeError):  # an engine's banner, a line that a kill cut off
                answer = json.loads(line)
                for error in (answer.get("error"), (answer.get("ok") or {}).get("problem")):
                    if isinstance(error, dict):
                        yield error


def files_are_private(scenario_run: ScenarioRun) -> None:
    """Check that only this user can read a file with a secret in it."""
    if os.name != "posix":
        return
    for path in Path(scenario_run.memory["folder"]).rglob("*"):
        if path.is_file() and SECRET.search(path.read_bytes()) and path.stat().st_mode & 0o077:
            raise Mismatch(f"{path.name} holds a secret and has the mode {path.stat().st_mode & 0o777:o}")


def nothing_unexpected(scenario_run: ScenarioRun) -> None:
    """Check that a rule has answered each request of a scenario without a real server."""
    for name, end in scenario_run.ends.items():
        if end.unexpected:
            raise Mismatch(f"unexpected at {name}: {end.unexpected}")
