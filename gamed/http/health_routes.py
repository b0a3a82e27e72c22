"""Routes of the health and the public configuration, and on the admin port of metrics and readiness.

The public routes are those of SPEC 2.4 and of docs/protocol.md: Conventions, Signing in. The admin routes listen on a
port of their own, for the operator.
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


class PublicRoutes(Component, frozen=True, kw_only=True):
    """The public routes; `labels` are the names of providers for people, in the order of the configuration.

    Local mode has none.
    """

    app = make_app()
    prefixes = ("/healthz", "/auth/config", "/auth/providers")
    body_policies = DEFAULT_BODY_POLICIES

    mode: str
    labels: Mapping[str, str]
    instance: str
    """Eight hex digits that are new at each start."""
    store: str
    """The id of the data, which all processes have that serve it."""
    databases: DatabaseHealth

    @app.route("/healthz", methods=["GET"])
    async def healthz(self, request: Request) -> bytes:
        headers = {"Cache-Control": "no-store", "Gamed-Instance": self.instance, "Gamed-Store": self.store}
        try:
            await self.databases.check()
        except DatabaseError:
            raise Unhealthy(headers=headers) from None
        request.setHeaders({**headers, "Content-Type": "text/plain"})
        return b"ok"

    @app.route("/auth/config", methods=["GET"])
    def config(self, request: Request) -> bytes:
        return write_json(request, 200, {"mode": self.mode, "providers": list(self.labels)})

    @app.route("/auth/providers", methods=["GET"])
    def list_providers(self, request: Request) -> bytes:
        providers = [{"name": name, "label": label} for name, label in self.labels.items()]
        return write_json(request, 200, {"providers": providers})


class MetricsText(Protocol):
    """The metrics in Prometheus's text format."""

    def text(self) -> bytes:
        """Return the metrics as they are now."""


class Readiness(Protocol):
    """The check whether the service is ready."""

    def problems(self) -> Awaitable[Sequence[str]]:
        """Return the reasons why the service is not ready, a line each."""


class AdminRoutes(Component, frozen=True, kw_only=True):
    """The admin routes, which the public site never has."""

    app = make_app()
    prefixes = ("/metrics", "/readyz")
    body_policies = DEFAULT_BODY_POLICIES

    source: MetricsText
    content_type: str
    readiness: Readiness

    @app.route("/metrics", methods=["GET"])
    def metrics(self, request: Request) -> bytes:
        request.setHeaders({"Content-Type": self.content_type, "Cache-Control": "no-store"})
        return self.source.text()

    @app.route("/readyz", methods=["GET"])
    async def readyz(self, request: Request) -> str:
        problems = await self.readiness.problems()
        request.setHeaders({"Content-Type": "text/plain; charset=utf-8", "Cache-Control": "no-store"})
        if not problems:
            return "ok"
        request.setResponseCode(503)
        return "".join(f"{problem}\n" for problem in problems)
