"""One finding per thing that was looked at: how bad it is, and what to do."""

from collections.abc import Iterator, Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import asdict


class Level(StrEnum):
    """How a thing was found."""

    OK = "ok"
    SKIPPED = "skipped"
    """Not tried; the finding says why."""
    WARNING = "warning"
    PROBLEM = "problem"


class Finding(Struct, frozen=True):
    """`check` names what was looked at, for scripts; `advice` is one sentence on what to do, "" where nothing is."""

    check: str
    level: Level
    said: str
    advice: str = ""

    def members(self) -> dict[str, str]:
        """As JSON."""
        return {**asdict(self), "level": self.level.value}


def ok(check: str, said: str) -> Finding:
    return Finding(check, Level.OK, said)


def skipped(check: str, why: str, advice: str = "") -> Finding:
    return Finding(check, Level.SKIPPED, f"not tried: {why}", advice)


def warning(check: str, said: str, advice: str) -> Finding:
    return Finding(check, Level.WARNING, said, advice)


def problem(check: str, said: str, advice: str) -> Finding:
    return Finding(check, Level.PROBLEM, said, advice)


def lines(findings: Sequence[Finding]) -> Iterator[str]:
    """For a person."""
    for finding in findings:
        yield f"{finding.level.value:8} {finding.check}: {finding.said}"
        if finding.advice:
            yield f"{'':8} -> {finding.advice}"


def summary(findings: Sequence[Finding]) -> str:
    """`1 problem, 2 warnings`."""
    counts = [(sum(each.level is level for each in findings), level) for level in (Level.PROBLEM, Level.WARNING)]
    return ", ".join(f"{count} {level.value}{'' if count == 1 else 's'}" for count, level in counts)


def any_problem(findings: Sequence[Finding]) -> bool:
    return any(finding.level is Level.PROBLEM for finding in findings)
