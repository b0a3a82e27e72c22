"""The errors of a login; `problems.py` maps them to status codes (docs/protocol.md: Signing in)."""

from collections.abc import Mapping

from gamed.outcomes import LoginFailure
from gamed.rate_limit import RateLimited


class LoginError(Exception):
    """A login request that does not fit its transaction."""


class InvalidTransition(LoginError):
    """An event that the transition table does not allow in this stage."""


class LoginExpired(InvalidTransition):
    """An event that only the deadline forbids: the login has expired."""


class InvalidStart(LoginError):
    """A member of the start request that cannot be used; `pointer` is RFC 6901."""

    def __init__(self, pointer: str, detail: str) -> None:
        self.members: Mapping[str, object] = {"errors": [{"pointer": pointer, "detail": detail}]}
        super().__init__(f"{pointer}: {detail}")


class ProviderUnknown(LoginError):
    """A provider that this server does not have."""

    def __str__(self) -> str:
        return "Choose a provider that GET /auth/config lists; in local mode send none."


class LoginProviderUnavailable(LoginError):
    """A provider of this server that cannot be used at present."""

    def __init__(self, retry_after: int | None = None) -> None:
        self.retry_after = retry_after or 30
        super().__init__("This provider cannot be used right now. Try again in a moment.")


class TooManyLogins(LoginError):
    """A start above `limits.live_logins` when no pending login can be evicted."""

    retry_after = 15

    def __str__(self) -> str:
        return "Too many people are signing in right now. Try again in a moment."


class DrawingBusy(LoginError):
    """A QR code while too many others wait to be drawn; the same request may succeed in a moment."""

    retry_after = 1

    def __str__(self) -> str:
        return "Too many pictures at once. Try again in a moment."


class ReauthenticationRequired(LoginError):
    """A link request of a session whose sign-in is too long ago."""

    def __str__(self) -> str:
        return "Sign in again, then link the account within ten minutes."


class DeviceSecretInvalid(LoginError):
    """A missing or malformed device secret, or one whose login is unknown or deleted."""

    def __str__(self) -> str:
        return "This sign-in is not known here. Start again from the game."


class LoginCollected(LoginError):
    """A collect or cancel after the game has used the credentials."""

    def __str__(self) -> str:
        return "The credentials of this sign-in were used already. Sign out with them, or start a new sign-in."


class InvalidProof(LoginError):
    """A wrong ticket or finish code; the game may try `attempts_left` more codes."""

    def __init__(self, attempts_left: int) -> None:
        self.members: Mapping[str, object] = {"attempts_left": attempts_left}
        again = "Look at the browser and type it again." if attempts_left else "Start again from the game."
        super().__init__(f"That is not the code in the browser. {again}")


class UnknownLoginLink(LoginError):
    """A login token or id that was never issued, or whose login was deleted an hour after its end."""


class LinkClosed(LoginError):
    """The link of a login that no browser can open any more: it is in use by one, or the login has ended."""

    def __str__(self) -> str:
        return "The link of this sign-in was used, or has expired. Start again from the game."


class LoginEnded(LoginError):
    """The link of a login that has ended; `outcome` is None when it was collected, `locale` is the game's language."""

    def __init__(self, outcome: LoginFailure | None, locale: str | None) -> None:
        self.outcome, self.locale = outcome, locale
        super().__init__("This sign-in is over. Start again from the game.")


class WrongBrowser(LoginError):
    """A browser that asks for a login that belongs to another browser."""


class NameSettled(LoginError):
    """A name for a login that made no player, or one that has a name already; the player's session may change it."""


class CallbackMalformed(LoginError):
    """A callback that violates RFC 6749 or RFC 9207; it has no effect."""


class CallbacksLimited(RateLimited):
    """A callback above `limits.callbacks_per_minute` of its address; it has no effect."""

    def __str__(self) -> str:
        wait = "1 second" if self.retry_after == 1 else f"{self.retry_after} seconds"
        return f"Too many sign-ins came back from your network at once. Wait {wait}, then reload this page."
