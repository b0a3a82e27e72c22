"""What connections and requests ask of the site, and of the route it finds for them."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from gamed.web.gates import Gate
from gamed.web.pace import Pace
from gamed.web.raw_head import RawHead

if TYPE_CHECKING:
    from gamed.web.channel import Channel
    from gamed.web.fast import PlainRequest
    from gamed.web.request import Request


class Route(Protocol):
    """Who answers a request."""

    @property
    def template(self) -> str:
        """What a log line may say of the path."""

    @property
    def gate(self) -> Gate: ...

    def call(self, request: "Request") -> object:
        """Run the handler: its result, or a Deferred of it."""

    def answer_error(self, request: "Request", error: BaseException) -> bytes:
        """Set status and headers for the error; its body."""


class Server(Protocol):
    """The site."""

    @property
    def nowhere(self) -> Route:
        """Answers errors where no route is known."""

    def seconds(self) -> float:
        """A clock that never goes back."""

    def call_soon(self, act: Callable[[], object]) -> None:
        """Call `act` in the next turn of the reactor."""

    def pace(self) -> Pace:
        """Of a new body."""

    def request_id(self) -> str:
        """A new one; says nothing about the client."""

    def plain(self, data: bytes, channel: "Channel") -> "tuple[PlainRequest, int] | None":
        """The plain request that begins `data`, judged, and where its body begins; None where it is not plain."""

    def judge(self, request: "Request", raw: RawHead, length: int | None) -> None:
        """Set `route` and `head`; raise the first reason not to serve."""

    def place(self, request: "Request", start: bytes) -> None:
        """Set `route` and `head` as far as the first line tells of a head that cannot be served. Never raises."""

    def seal(self, request: "Request") -> None:
        """Set the headers of every answer, just before its first byte leaves."""

    def done(self, request: "Request", status: int) -> None:
        """The answer is written, or the client left."""

    def closed(self, channel: "Channel") -> None:
        """The connection is gone."""
