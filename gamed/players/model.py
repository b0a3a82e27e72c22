"""The values of players: their state, their names, and the result of checking the owner's code."""

from enum import Enum
from typing import Literal

from msgspec import Struct

State = Literal["active", "pending", "blocked", "erasing"]


class Player(Struct, frozen=True):
    """A row of the table; instants in epoch milliseconds."""

    player_id: str
    state: State
    owner: bool
    created_ms: int
    last_sign_in_ms: int | None
    approval_code: str | None = None
    """The code by which the owner finds a player who was never approved."""


class NamedPlayer(Struct, frozen=True):
    """A player, the name of the local account, and the name that the game shows; both may be None."""

    player: Player
    name: str | None
    display_name: str | None = None

    @property
    def shown(self) -> str | None:
        """Return the name by which people know the player."""
        return self.display_name or self.name


class CodeCheck(Enum):
    """The result of comparing a typed code."""

    RIGHT = "right"
    WRONG = "wrong"
    NONE = "none"
    """There is no code that is valid: none was made, or it was used, is too old, or had too many wrong attempts."""
