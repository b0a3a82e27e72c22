"""What came back for one request, or why nothing did."""

from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from enum import StrEnum

from msgspec import Struct, field

from gamed.strict_json import JsonMalformed, parse_object


class Cause(StrEnum):
    """Why nobody answered."""

    REFUSED = "refused"
    TIMEOUT = "timeout"
    NO_WAY = "no way"
    NAME = "name"
    CERTIFICATE = "certificate"
    OTHER = "other"


class Unreached(Struct, frozen=True):
    """No answer; `detail` is the system's word for it."""

    cause: Cause
    detail: str


class Answer(Struct, frozen=True):
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


Reached = Answer | Unreached
