"""`gamed`, but the service dies of kill -9 when a refresh is on disk and not yet answered."""

import os
import signal
from typing import Any

from msgspec.structs import replace
from twisted.internet.defer import Deferred

from gamed import service
from gamed.cli import main
from gamed.sessions.service import FirstUses, SessionService


class Dying:
    """A store of sessions whose process does not survive its first refresh."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def refresh(self, *arguments: Any) -> Deferred[Any]:
        committed: Deferred[Any] = self._store.refresh(*arguments)
        return committed.addCallback(lambda _: os.kill(os.getpid(), signal.SIGKILL))


class DyingGamed(service.GamedService):
    def _build_sessions(self, first_uses: FirstUses) -> SessionService:
        sessions = super()._build_sessions(first_uses)
        return replace(sessions, _store=Dying(sessions._store))


if __name__ == "__main__":
    service.GamedService = DyingGamed  # type: ignore[misc]
    main()
