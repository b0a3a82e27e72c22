"""A handoff apart from what moves it forward: given up, ended by the clock, cut short by a restart (PROTOCOL 3)."""

from gamed.crypto import Index
from gamed.instants import Now
from gamed.login.entry import Key
from gamed.login.errors import DeviceSecretInvalid, LoginCollected
from gamed.login.logins import Logins
from gamed.login.news import tell
from gamed.login.transaction import Event, LoginTransaction, Stage
from gamed.structs import Part
from gamed.waits import Waits


class Handoff(Part, frozen=True):
    _logins: Logins
    _waits: Waits
    _now_ms: Now

    async def cancel(self, secret: Index) -> None:
        """The game gives up, in any stage but `collected`, as often as it likes: no credential works afterwards."""
        now_ms = self._now_ms()

        def step(login: LoginTransaction) -> LoginTransaction:
            current = login.at(now_ms)
            return current if current.final else current.after(Event.CANCEL, now_ms)

        move = await self._logins.advance(Key.secret(secret), step)
        if move is None:
            raise DeviceSecretInvalid
        if move.is_news:
            tell(self._waits, move.after)
        if move.after.stage is Stage.COLLECTED:
            raise LoginCollected

    async def sweep(self) -> None:
        """Write down what the clock has ended, tell who waits, forget what is long over."""
        while moved := await self._logins.sweep(self._now_ms()):
            for secret in moved:
                self._waits.wake(secret)

    async def recover(self, started_ms: int | None = None) -> None:
        """Interrupt what was being exchanged when the service ended; StoreError, then call it again.

        `started_ms`: when this process started, for a later call; None before the first request.
        """
        await self._logins.interrupt(self._now_ms(), started_ms)
