"""A finding of `gamed doctor` names a check, its result, and what to do; the checks get HTTP replies or failures."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct, field
from msgspec.structs import asdict

from gamed.strict_json import JsonMalformed, parse_object


class Level(StrEnum):
    """The result of a check."""

    OK = "ok"
    SKIPPED = "skipped"
    """The check did not run; the finding has the reason."""
    WARNING = "warning"
    PROBLEM = "problem"


class Finding(Struct, frozen=True):
    """The result of one check: `check` is its name for scripts, `advice` one sentence on what to do, or ""."""

    check: str
    level: Level
    text: str
    advice: str = ""

    def members(self) -> dict[str, str]:
        return {**asdict(self), "level": self.level.value}


def ok(check: str, text: str) -> Finding:
    return Finding(check, Level.OK, text)


def skipped(check: str, reason: str, advice: str = "") -> Finding:
    return Finding(check, Level.SKIPPED, f"not tried: {reason}", advice)


def warning(check: str, text: str, advice: str) -> Finding:
    return Finding(check, Level.WARNING, text, advice)


def problem(check: str, text: str, advice: str) -> Finding:
    return Finding(check, Level.PROBLEM, text, advice)


def lines(findings: Sequence[Finding], show: Callable[[Level, str], str] = lambda level, text: text) -> Iterator[str]:
    """Yield the findings as lines for a person; `show` may colour the word of a level."""
    for finding in findings:
        yield f"{show(finding.level, f'{finding.level.value:8}')} {finding.check}: {finding.text}"
        if finding.advice:
            yield f"{'':8} -> {finding.advice}"


def summary(findings: Sequence[Finding]) -> str:
    """Return the counts, as `1 problem, 2 warnings`."""
    counts = [(sum(each.level is level for each in findings), level) for level in (Level.PROBLEM, Level.WARNING)]
    return ", ".join(f"{count} {level.value}{'' if count == 1 else 's'}" for count, level in counts)


def any_problem(findings: Sequence[Finding]) -> bool:
    return any(finding.level is Level.PROBLEM for finding in findings)


class FailureCause(StrEnum):
    """The reason why a request got no response."""

    REFUSED = "refused"
    TIMEOUT = "timeout"
    NO_WAY = "no way"
    NAME = "name"
    CERTIFICATE = "certificate"
    OTHER = "other"


class HttpFailure(Struct, frozen=True):
    """A request without a response; `detail` is the message of the system."""

    cause: FailureCause
    detail: str


class CertificateTimes(Struct, frozen=True):
    """The instants between which a TLS certificate is valid, in epoch milliseconds."""

    begins_ms: int
    ends_ms: int


class HttpReply(Struct, frozen=True):
    """A complete response; header names are in lower case."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    seconds: float = 0.0
    """The time from the request to the end of the response."""
    certificate: CertificateTimes | None = None
    """None without TLS."""

    def json(self) -> dict[str, object]:
        """Return the body as a JSON object; {} if it is not one."""
        try:
            return parse_object(self.body)
        except JsonMalformed:
            return {}

    def date_ms(self) -> int | None:
        """Return the response's Date, to the second (RFC 9110 6.6.1); None if it is missing or malformed."""
        from email.utils import parsedate_to_datetime  # late: check data needs findings, and no dates

        try:
            return int(parsedate_to_datetime(self.headers["date"]).timestamp() * 1000)
        except (KeyError, ValueError, OverflowError):
            return None


Reached = HttpReply | HttpFailure
