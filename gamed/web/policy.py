"""Health and public policy (PROTOCOL 2, SPEC 2.4)."""

from collections.abc import Awaitable, Sequence
from typing import Protocol

from gamed.http.app import make_app
from gamed.http.bodies import DEFAULT_BODY_POLICIES
from gamed.http.errors import Unhealthy
from gamed.http.request import Request
from gamed.store import StoreError
from gamed.structs import Part
from gamed.web.json_io import write_json


class Stores(Protocol):
    """Both stores; asked at most once a second, however often `check` is called."""

    def check(self) -> Awaitable[None]:
        """StoreError while one does not answer."""


class PolicyRoutes(Part, frozen=True):
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
        except StoreError:
            raise Unhealthy(headers=headers) from None
        request.setHeaders({**headers, "Content-Type": "text/plain"})
        return b"ok"

    @app.route("/auth/config", methods=["GET"])
    def config(self, request: Request) -> bytes:
        return write_json(request, 200, {"mode": self._mode, "providers": list(self._providers)})
