"""What a handoff may say instead of yes; the web knows the status codes (PROTOCOL 3)."""

from collections.abc import Mapping

from gamed.outcomes import LoginFailure
from gamed.rate_limit import RateLimited


class LoginError(Exception):
    """A login request that does not fit its transaction."""


class InvalidTransition(LoginError):
    """No arrow of the table leaves this stage for this event."""


class LoginExpired(InvalidTransition):
    """Only the clock forbids it: the time for this sign-in is over."""


class InvalidStart(LoginError):
    """A member of the request to start that cannot be used; `pointer` is RFC 6901."""

    def __init__(self, pointer: str, detail: str) -> None:
        self.members: Mapping[str, object] = {"errors": [{"pointer": pointer, "detail": detail}]}
        super().__init__(f"{pointer}: {detail}")


class ProviderUnknown(LoginError):
    """Not a provider of this server."""

    def __str__(self) -> str:
        return "Choose a provider that GET /auth/config lists; in local mode send none."


class LoginProviderUnavailable(LoginError):
    """A provider of this server that cannot be used at present."""

    def __init__(self, retry_after: int | None = None) -> None:
        self.retry_after = retry_after or 30
        super().__init__("This provider cannot be used right now. Try again in a moment.")


class TooManyLogins(LoginError):
    """As many sign-ins are under way as this server takes, and none that nobody attends to."""

    retry_after = 15

    def __str__(self) -> str:
        return "Too many people are signing in right now. Try again in a moment."


class ReauthenticationRequired(LoginError):
    """A link is asked for by a session whose sign-in is too long ago."""

    def __str__(self) -> str:
        return "Sign in again, then link the account within ten minutes."


class DeviceSecretInvalid(LoginError):
    """No credential, not a device secret, or one of a login long forgotten."""

    def __str__(self) -> str:
        return "This sign-in is not known here. Start again from the game."


class LoginCollected(LoginError):
    """The credentials were used already; there is nothing left to collect or cancel."""

    def __str__(self) -> str:
        return "The credentials of this sign-in were used already. Sign out with them, or start a new sign-in."


class InvalidProof(LoginError):
    """Not the ticket or code that the browser was given; codes may be tried `attempts_left` more times."""

    def __init__(self, attempts_left: int) -> None:
        self.members: Mapping[str, object] = {"attempts_left": attempts_left}
        again = "Look at the browser and type it again." if attempts_left else "Start again from the game."
        super().__init__(f"That is not the code in the browser. {again}")


class UnknownLoginLink(LoginError):
    """No login has this token or id: never had, or forgotten an hour after its end."""


class LoginEnded(LoginError):
    """The link of a login that has ended; `outcome` is None when it was collected."""

    def __init__(self, outcome: LoginFailure | None) -> None:
        self.outcome = outcome
        super().__init__("This sign-in is over. Start again from the game.")


class CallbackMalformed(LoginError):
    """A redirect to the callback that no provider would write; it has no effect."""


class CallbacksLimited(RateLimited):
    """More redirects to the callback from one address than `limits.callbacks_per_minute`; this one has no effect."""

    def __str__(self) -> str:
        wait = "1 second" if self.retry_after == 1 else f"{self.retry_after} seconds"
        return f"Too many sign-ins came back from your network at once. Wait {wait}, then reload this page."


class WrongBrowser(LoginError):
    """The login belongs to the browser that finished it first."""
