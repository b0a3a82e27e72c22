"""What the browser that signed in sees afterwards: its way back to the game, or how it ended (PROTOCOL 3.4)."""

from msgspec import Struct

from gamed.crypto import Index, Keys, Purpose, SealBroken
from gamed.login.browser import BrowserSide
from gamed.login.entry import Key, token_of
from gamed.login.errors import OtherBrowser
from gamed.login.newcomer import code_of
from gamed.login.outcome import Outcome
from gamed.login.proof import ReturnProof
from gamed.login.transaction import Intent, LoginTransaction, Proof, Stage
from gamed.structs import Part, hides


class Working(Struct, frozen=True):
    """The provider is being asked."""


@hides("ticket")
class Return(Struct, frozen=True):
    """Send the browser on to the game, once."""

    login: LoginTransaction
    ticket: str


@hides("code", "token")
class ShowCode(Struct, frozen=True):
    """A person carries the proof to the game. `token` addresses the form "This was not me"."""

    login: LoginTransaction
    code: str
    token: str


class GoBack(Struct, frozen=True):
    """Nothing is left to do here; `signed_in` once the game has collected, `linked` if that was all it wanted.

    Unless `final`, the game may still give the sign-in up.
    """

    signed_in: bool
    linked: bool = False
    final: bool = False


class Over(Struct, frozen=True):
    """It ended without credentials."""

    outcome: Outcome
    approval_code: str | None = None
    """What a newcomer tells the owner."""


Done = Working | Return | ShowCode | GoBack | Over


class DoneSide(Part, frozen=True):
    """`browser` is the index of its cookie; None for a browser without."""

    _browsers: BrowserSide
    _keys: Keys

    async def done(self, login_id: str, browser: Index | None) -> Done:
        """What became of it, for the winning browser only: OtherBrowser for any other, whatever the stage."""
        key = Key.id(login_id)
        login = await self._browsers.find(key)
        if not login.won_by(browser):
            raise OtherBrowser
        try:
            return await self._shown(key, login)
        except SealBroken as e:
            return self._seen(await self._browsers.interrupt(key, e))

    async def _shown(self, key: Key, login: LoginTransaction) -> Done:
        if login.returnable:
            move = await self._browsers.send_back(key)
            login = move.after
            if move.before.returnable and login.returned_to_game:
                return Return(login, self._proof(login).ticket.reveal().decode())
        return self._seen(login)

    def _seen(self, login: LoginTransaction) -> Done:
        match login.stage:
            case Stage.READY if login.return_proof is not Proof.NONE:
                return ShowCode(login, self._proof(login).shown(), token_of(self._keys.indexer, login.login_id))
            case Stage.READY:
                return GoBack(signed_in=False)
            case Stage.DELIVERED | Stage.COLLECTED:
                return GoBack(signed_in=True, linked=login.intent is Intent.LINK, final=login.final)
            case _:
                return Working() if login.outcome is None else self._over(login, login.outcome)

    def _over(self, login: LoginTransaction, outcome: Outcome) -> Over:
        return Over(outcome, code_of(self._keys.indexer, login))

    def _proof(self, login: LoginTransaction) -> ReturnProof:
        sealed = login.sealed_proof or b""
        return ReturnProof.from_bytes(self._keys.sealer.unseal(Purpose.PROOF, login.login_id, sealed))
