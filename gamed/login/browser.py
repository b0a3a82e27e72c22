"""What a browser may do with a handoff before it is decided: open it, decline it (PROTOCOL 3.2)."""

from msgspec import Struct

from gamed.audit import UNHEARD, Audit
from gamed.audit import Event as SecurityEvent
from gamed.crypto import Index, Indexer, SealBroken
from gamed.instants import Now
from gamed.login.entry import Key
from gamed.login.errors import LinkUnknown, LoginOver, OtherBrowser
from gamed.login.logins import Logins, Move, Step
from gamed.login.news import callback_key, tell
from gamed.login.outcome import Outcome
from gamed.login.transaction import EXCHANGE_GRACE_MS, FINAL, UNDECIDED, Event, LoginTransaction, Stage
from gamed.structs import Part
from gamed.waits import Waits, Woken


class Ask(Struct, frozen=True):
    """The login is undecided: ask this browser who signs in."""

    login: LoginTransaction
    asker: str | None = None
    """For a link: what the player who wants it is called."""


class SeeDone(Struct, frozen=True):
    """This browser has won: its outcome is on the page of this login."""

    login_id: str


class BrowserSide(Part, frozen=True):
    """`browser` is the index of its cookie; None for a browser without."""

    _logins: Logins
    _waits: Waits
    _indexer: Indexer
    _now_ms: Now
    _audit: Audit = UNHEARD

    async def look(self, token: str, browser: Index | None) -> Ask | SeeDone:
        """Where this browser stands; LinkUnknown, LoginOver or OtherBrowser when nothing is asked of it."""
        return _standing(await self.find(Key.token(self._indexer, token)), browser)

    async def enter(self, token: str, browser: Index | None) -> Ask | SeeDone:
        """The link was opened. Opened again while `ready`, it leads to the finish code, not to the game's port."""
        key = Key.token(self._indexer, token)
        login = await self.find(key)
        standing = _standing(login, browser)
        if login.returnable:
            await self.send_back(key)
        return standing

    async def decline(self, token: str, browser: Index, request_id: str = "") -> SeeDone | None:
        """ "This was not me": from any browser while undecided, from the winning one until the game collects.

        None once the login is declined, also when it was before.
        """
        now_ms = self._now_ms()

        def step(login: LoginTransaction) -> LoginTransaction:
            current = login.at(now_ms)
            if current.stage in UNDECIDED or (current.stage is Stage.READY and current.won_by(browser)):
                return current.after(Event.DECLINE, now_ms)
            return current

        move = await self.move(Key.token(self._indexer, token), step)
        after = move.after
        if after.stage is Stage.DENIED:
            if move.is_news:
                words = {"provider": after.provider, "outcome": Outcome.LOGIN_DENIED.value, "request": request_id}
                self._audit.note(SecurityEvent.SIGN_IN_REFUSED, **words)
            return None
        require_winner(after, browser)
        return SeeDone(after.login_id)

    async def refuse(self, token: str, browser: Index, outcome: Outcome) -> SeeDone:
        """Nobody can sign in by this login now, so its game need not wait: this browser brings it the news."""
        now_ms = self._now_ms()

        def step(login: LoginTransaction) -> LoginTransaction:
            current = login.at(now_ms)
            if current.stage not in UNDECIDED:
                return current
            return current.after(Event.OPEN, now_ms).claimed(browser, now_ms).refused(outcome, now_ms)

        after = await self.advance(Key.token(self._indexer, token), step)
        if not after.won_by(browser):
            require_winner(after, browser)
        return SeeDone(after.login_id)

    async def interrupt(self, key: Key, broken: SealBroken) -> LoginTransaction:
        """What a `ready` login keeps cannot be opened: nobody can sign in by it, so its game need not wait."""
        now_ms = self._now_ms()
        self._audit.note(SecurityEvent.DECRYPTION_FAILED, **broken.words)

        def step(login: LoginTransaction) -> LoginTransaction:
            current = login.at(now_ms)
            return current.refused(Outcome.LOGIN_INTERRUPTED, now_ms) if current.stage is Stage.READY else current

        return await self.advance(key, step)

    async def advance(self, key: Key, step: Step) -> LoginTransaction:
        """One step, and whoever waits for this login is told."""
        return (await self.move(key, step)).after

    async def move(self, key: Key, step: Step) -> Move:
        """As advance(), with what it was before."""
        return self.told(await self._logins.advance(key, step))

    def told(self, move: Move | None) -> Move:
        """Whoever waits for a login that has moved is told; LinkUnknown when there is none."""
        if move is None:
            raise LinkUnknown
        if move.is_news:
            self.tell(move.after)
        return move

    def tell(self, login: LoginTransaction) -> None:
        tell(self._waits, login)

    async def exchanged(self, login: LoginTransaction) -> None:
        """Waits for the end of an exchange, for as long as one may take and no longer."""
        ends_ms = self._now_ms() + EXCHANGE_GRACE_MS
        with self._waits.open(callback_key(login)) as slot:
            while (await self.find(Key.id(login.login_id))).stage is Stage.EXCHANGING:
                left_ms = min(ends_ms - self._now_ms(), EXCHANGE_GRACE_MS)
                if left_ms <= 0 or await slot.wait(left_ms / 1000) is not Woken.NEWS:
                    return

    async def send_back(self, key: Key) -> Move:
        """The way through the loopback port is taken once: a browser that comes back is shown the code."""
        now_ms = self._now_ms()
        return await self.move(key, lambda login: login.at(now_ms).sent_back())

    async def find(self, key: Key) -> LoginTransaction:
        login = await self._logins.find(key)
        if login is None:
            raise LinkUnknown
        return login.at(self._now_ms())


def require_winner(login: LoginTransaction, browser: Index | None) -> None:
    """From `exchanging` on a login has one browser, and in the end none."""
    if login.stage in FINAL:
        raise LoginOver(login.outcome)
    if not login.won_by(browser):
        raise OtherBrowser


def _standing(login: LoginTransaction, browser: Index | None) -> Ask | SeeDone:
    if login.stage in UNDECIDED:
        return Ask(login)
    require_winner(login, browser)
    return SeeDone(login.login_id)
