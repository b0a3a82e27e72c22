"""The wiring of `--admin`: a port for this machine only, with `/metrics` and `/readyz`."""

from collections.abc import Sequence
from secrets import token_bytes
from typing import Any

from twisted.internet.defer import Deferred

from gamed.clock import now_ms
from gamed.http.client_address import HttpSettings
from gamed.http.server import build_server
from gamed.ops.listening import Listening
from gamed.ops.metrics import CONTENT_TYPE, Counters, Gauges, Metrics
from gamed.storage.stores import Stores
from gamed.web.admin import AdminRoutes

CONNECTIONS = 16


class Admin:
    """Open from the start until everything else is closed."""

    def __init__(self, reactor: Any, endpoint: str, counters: Counters, gauges: Gauges, stores: Stores) -> None:
        self._stores = stores
        self._stopping = False
        routes = AdminRoutes(Metrics(counters, gauges), CONTENT_TYPE, self)
        policy = HttpSettings("localhost", connections=CONNECTIONS)
        self._site = build_server([routes], policy, reactor, access_log=_Unlogged(), now_ms=now_ms, random=token_bytes)
        self._listening = Listening(reactor, (endpoint,), self._site)

    @property
    def port(self) -> int:
        return self._listening.port

    def open(self) -> None:
        """CannotListenError when it cannot."""
        self._listening.startService()

    def stopping(self) -> None:
        """The service is not ready any more, and says so."""
        self._stopping = True

    async def problems(self) -> Sequence[str]:
        """gamed.web.admin.Readiness."""
        if self._stopping:
            return ["the service is stopping"]
        return await self._stores.silent()

    def close(self) -> Deferred[None]:
        """Fires when its connections are closed."""
        self._listening.stopService()
        return self._site.shut_down()


class _Unlogged:
    """Whoever asks every few seconds would fill the log."""

    def log(self, **values: Any) -> None: ...
