"""What the owner's own machine may ask: numbers, and whether the service is ready; on a port of its own."""

from collections.abc import Awaitable, Sequence
from typing import Protocol

from gamed.http.app import make_app
from gamed.http.bodies import DEFAULT_BODY_POLICIES
from gamed.http.request import Request
from gamed.structs import Part


class MetricsText(Protocol):
    """The metrics in Prometheus's text format."""

    def text(self) -> bytes:
        """Return the metrics as they are now."""


class Readiness(Protocol):
    def problems(self) -> Awaitable[Sequence[str]]:
        """Why the service is not ready, a line each; none: it is."""


class AdminRoutes(Part, frozen=True):
    """Never a room of the public site."""

    app = make_app()
    prefixes = ("/metrics", "/readyz")
    body_policies = DEFAULT_BODY_POLICIES

    _metrics: MetricsText
    _content_type: str
    _readiness: Readiness

    @app.route("/metrics", methods=["GET"])
    def metrics(self, request: Request) -> bytes:
        request.setHeader("Content-Type", self._content_type)
        request.setHeader("Cache-Control", "no-store")
        return self._metrics.text()

    @app.route("/readyz", methods=["GET"])
    async def readyz(self, request: Request) -> str:
        problems = await self._readiness.problems()
        request.setHeader("Content-Type", "text/plain; charset=utf-8")
        request.setHeader("Cache-Control", "no-store")
        if not problems:
            return "ok"
        request.setResponseCode(503)
        return "".join(f"{problem}\n" for problem in problems)
