"""Health and public policy (PROTOCOL 2, SPEC 2.4).

What the owner's own machine may ask: numbers, and whether the service is ready; on a port of its own.
"""

from collections.abc import Awaitable, Sequence
from typing import Protocol

from gamed.database.errors import DatabaseError
from gamed.http.app import make_app
from gamed.http.bodies import DEFAULT_BODY_POLICIES
from gamed.http.errors import Unhealthy
from gamed.http.json_body import write_json
from gamed.http.request import Request
from gamed.structs import Component


class Stores(Protocol):
    """Both stores; asked at most once a second, however often `check` is called."""

    def check(self) -> Awaitable[None]:
        """StoreError while one does not answer."""


class PublicRoutes(Component, frozen=True):
    """What anyone may know. `providers` in the order of the file, none in local mode."""

    app = make_app()
    prefixes = ("/healthz", "/auth/config")
    body_policies = DEFAULT_BODY_POLICIES

    _mode: str
    _providers: Sequence[str]
    _instance: str
    """8 hex digits per start."""
    _stores: Stores

    @app.route("/healthz", methods=["GET"])
    async def healthz(self, request: Request) -> bytes:
        headers = {"Cache-Control": "no-store", "Gamed-Instance": self._instance}
        try:
            await self._stores.check()
        except DatabaseError:
            raise Unhealthy(headers=headers) from None
        request.setHeaders({**headers, "Content-Type": "text/plain"})
        return b"ok"

    @app.route("/auth/config", methods=["GET"])
    def config(self, request: Request) -> bytes:
        return write_json(request, 200, {"mode": self._mode, "providers": list(self._providers)})


class MetricsText(Protocol):
    """The metrics in Prometheus's text format."""

    def text(self) -> bytes:
        """Return the metrics as they are now."""


class Readiness(Protocol):
    def problems(self) -> Awaitable[Sequence[str]]:
        """Why the service is not ready, a line each; none: it is."""


class AdminRoutes(Component, frozen=True):
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
