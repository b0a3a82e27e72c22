"""Routes of the health and the public configuration, and on the admin port of metrics and readiness.

The public routes are of PROTOCOL 2 and SPEC 2.4. The admin routes listen on a port of their own, for the operator.
"""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Protocol

from gamed.database.errors import DatabaseError
from gamed.http.app import make_app
from gamed.http.bodies import DEFAULT_BODY_POLICIES
from gamed.http.errors import Unhealthy
from gamed.http.json_body import write_json
from gamed.http.request import Request
from gamed.structs import Component


class DatabaseHealth(Protocol):
    """The check of both databases, which runs at most once a second."""

    def check(self) -> Awaitable[None]:
        """Raise DatabaseError while a database does not answer."""


class PublicRoutes(Component, frozen=True):
    """The public routes; `labels` are the names of providers for people, in the order of the configuration.

    Local mode has none.
    """

    app = make_app()
    prefixes = ("/healthz", "/auth/config", "/auth/providers")
    body_policies = DEFAULT_BODY_POLICIES

    _mode: str
    _labels: Mapping[str, str]
    _instance: str
    """Eight hex digits that are new at each start."""
    _store: str
    """The id of the data, which all processes have that serve it."""
    _databases: DatabaseHealth

    @app.route("/healthz", methods=["GET"])
    async def healthz(self, request: Request) -> bytes:
        headers = {"Cache-Control": "no-store", "Gamed-Instance": self._instance, "Gamed-Store": self._store}
        try:
            await self._databases.check()
        except DatabaseError:
            raise Unhealthy(headers=headers) from None
        request.setHeaders({**headers, "Content-Type": "text/plain"})
        return b"ok"

    @app.route("/auth/config", methods=["GET"])
    def config(self, request: Request) -> bytes:
        return write_json(request, 200, {"mode": self._mode, "providers": list(self._labels)})

    @app.route("/auth/providers", methods=["GET"])
    def list_providers(self, request: Request) -> bytes:
        providers = [{"name": name, "label": label} for name, label in self._labels.items()]
        return write_json(request, 200, {"providers": providers})


class MetricsText(Protocol):
    """The metrics in Prometheus's text format."""

    def text(self) -> bytes:
        """Return the metrics as they are now."""


class Readiness(Protocol):
    """The check whether the service is ready."""

    def problems(self) -> Awaitable[Sequence[str]]:
        """Return the reasons why the service is not ready, a line each."""


class AdminRoutes(Component, frozen=True):
    """The admin routes, which the public site never has."""

    app = make_app()
    prefixes = ("/metrics", "/readyz")
    body_policies = DEFAULT_BODY_POLICIES

    _metrics: MetricsText
    _content_type: str
    _readiness: Readiness

    @app.route("/metrics", methods=["GET"])
    def metrics(self, request: Request) -> bytes:
        request.setHeaders({"Content-Type": self._content_type, "Cache-Control": "no-store"})
        return self._metrics.text()

    @app.route("/readyz", methods=["GET"])
    async def readyz(self, request: Request) -> str:
        problems = await self._readiness.problems()
        request.setHeaders({"Content-Type": "text/plain; charset=utf-8", "Cache-Control": "no-store"})
        if not problems:
            return "ok"
        request.setResponseCode(503)
        return "".join(f"{problem}\n" for problem in problems)
