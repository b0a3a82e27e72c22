"""One finding per thing that was looked at: how bad it is, and what to do.

What came back for one request, or why nothing did.
"""

from collections.abc import Iterator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from enum import StrEnum

from msgspec import Struct, field
from msgspec.structs import asdict

from gamed.strict_json import JsonMalformed, parse_object


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


class FailureCause(StrEnum):
    """Why nobody answered."""

    REFUSED = "refused"
    TIMEOUT = "timeout"
    NO_WAY = "no way"
    NAME = "name"
    CERTIFICATE = "certificate"
    OTHER = "other"


class HttpFailure(Struct, frozen=True):
    """No answer; `detail` is the system's word for it."""

    cause: FailureCause
    detail: str


class HttpReply(Struct, frozen=True):
    """A whole answer; names of headers in small letters."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    seconds: float = 0.0
    """From the request to the end of the answer."""
    certificate_ends_ms: int | None = None
    """Epoch milliseconds; None without TLS."""

    def json(self) -> dict[str, object]:
        """The body as an object; {} when it is none."""
        try:
            return parse_object(self.body)
        except JsonMalformed:
            return {}

    def date_ms(self) -> int | None:
        """What the other side's clock showed, to the second (RFC 9110 6.6.1)."""
        try:
            return int(parsedate_to_datetime(self.headers["date"]).timestamp() * 1000)
        except (KeyError, ValueError, OverflowError):
            return None


Reached = HttpReply | HttpFailure
