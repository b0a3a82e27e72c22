"""`gamed` with a service that kills itself when a refresh is committed and not yet answered."""

import os
import signal
from typing import Any

from msgspec.structs import replace
from twisted.internet.defer import Deferred

from gamed import service
from gamed.cli import main
from gamed.sessions.build import build_sessions
from gamed.sessions.service import SessionService


class KillingStore:
    """A session store that kills its process after the first refresh."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def refresh(self, *arguments: Any) -> Deferred[Any]:
        committed: Deferred[Any] = self._store.refresh(*arguments)
        return committed.addCallback(lambda _: os.kill(os.getpid(), signal.SIGKILL))


def build(*arguments: Any) -> SessionService:
    sessions = build_sessions(*arguments)
    return replace(sessions, store=KillingStore(sessions.store))


if __name__ == "__main__":
    service.build_sessions = build
    main()
