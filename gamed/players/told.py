"""Commands run beside the service; what they did gets into the service's own log (docs/audit.md)."""

from collections.abc import Awaitable, Sequence
from typing import Protocol

from gamed.audit import Audit, Event
from gamed.instants import rfc3339
from gamed.structs import Part


class HostAction(Protocol):
    @property
    def number(self) -> int: ...
    @property
    def command(self) -> str: ...
    @property
    def player_id(self) -> str | None: ...
    @property
    def ran_by(self) -> str: ...
    @property
    def done_ms(self) -> int: ...


class HostActions(Protocol):
    def host_actions(self) -> Awaitable[Sequence[HostAction]]:
        """Some of those that are not in the log yet, oldest first."""

    def host_actions_told(self, number: int) -> Awaitable[None]:
        """They are in the log, up to this one."""


class Teller(Part, frozen=True):
    _actions: HostActions
    _audit: Audit

    async def tell(self) -> int:
        """Everything that waits, once each; a process that dies in between may say some of it again."""
        told = 0
        while actions := await self._actions.host_actions():
            for action in actions:
                self._audit.note(
                    Event.COMMAND,
                    command=action.command,
                    player=action.player_id or "",
                    by=action.ran_by,
                    at=rfc3339(action.done_ms),
                )
            told += len(actions)
            await self._actions.host_actions_told(actions[-1].number)
        return told
