"""An operation on a player, a name or a password can fail in these ways; `str(error)` is the text for a person."""

from enum import Enum


class PlayerError(Exception):
    """A player, name or password that cannot be used for the requested operation."""


class NameMalformed(PlayerError):
    """A text that is not an account name."""


class DisplayNameInvalid(PlayerError):
    """A text that is not allowed as a display name."""


class PasswordMalformed(PlayerError):
    """A text that is not allowed as a password."""


class NameTaken(PlayerError):
    """A name that another account has, or that looks the same after folding."""

    def __str__(self) -> str:
        return "This name is taken. Choose another."


class PlayerUnknown(PlayerError):
    """A name or id that is not a player's; `wanted` is what was looked for, empty if not known."""

    def __init__(self, text: str = "", wanted: str = "") -> None:
        super().__init__(text)
        self.wanted = wanted


class PlayerChanged(PlayerError):
    """A player whose state is another one than the one that was shown."""

    def __init__(self, state: str) -> None:
        super().__init__(f"This player is {state} by now. Nothing was changed.")
        self.state = state


class MergeRefused(PlayerError):
    """Two players who cannot be merged; nothing was changed."""


class LinkUnknown(PlayerError):
    """The token of an invite or reset link that was never issued, or was deleted long after its end."""


class LinkEnded(PlayerError):
    """An invite or reset link that was used or revoked, or has expired."""


class LinkUnused(PlayerError):
    """A sign-in that an invite began and that failed; the invite is still open."""


class OwnInviteUsed(LinkEnded):
    """An invite that made the player of this browser."""


class PlayerMayNotSignIn(PlayerError):
    """A reset link whose player is blocked or being erased."""


class PasswordsBusy(PlayerError):
    """A password check that was rejected because too many are waiting; the same request may succeed in a moment."""

    retry_after = 2

    def __str__(self) -> str:
        return "Too many sign-ins at once. Try again in a moment."


class LastIdentity(PlayerError):
    """An identity without which the player could not sign in any more."""

    def __str__(self) -> str:
        return "This is the last way to sign in as this player. Link another first."


class AdoptRefusal(Enum):
    """The reason why an old account cannot be brought into another one."""

    OWN = "own"
    LINKED = "linked"
    """It has an account at a provider, by which its player signs in, or it is the owner's."""
    BLOCKED = "blocked"
    """Its player, or the one who asks, may not sign in."""
    PASSWORD = "password"
    """Its password was changed since it was checked."""


class AdoptionRefused(PlayerError):
    """An old account that stays as it is."""

    def __init__(self, reason: AdoptRefusal) -> None:
        super().__init__(reason.value)
        self.reason = reason


class AccountReauthenticationRequired(PlayerError):
    """An operation that needs a more recent sign-in of this player, or one without a recovery code (`recovered`)."""

    recovered = False

    def __init__(self, player_id: str = "", *, recovered: bool = False) -> None:
        super().__init__()
        self.player_id = player_id
        self.recovered = recovered

    def __str__(self) -> str:
        if self.recovered:
            return (
                "A recovery code is not enough for that. Sign in with the password or a passkey, or ask the server's"
                " owner for a link for a new password."
            )
        return "Sign in again, then ask once more within ten minutes."
