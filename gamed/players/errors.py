"""What may be wrong with a player's name or password; `str(error)` tells a person what to do."""


class PlayerError(Exception):
    """A player, name or password that cannot be used as asked."""


class NameMalformed(PlayerError):
    """Not an account name."""


class PasswordMalformed(PlayerError):
    """Not a password that may be chosen."""


class NameTaken(PlayerError):
    """Another account has this name, or one that looks the same after folding."""

    def __str__(self) -> str:
        return "This name is taken. Choose another."


class PlayerUnknown(PlayerError):
    """No player with this name or id."""


class PasswordsBusy(PlayerError):
    """Too many passwords wait to be checked; the same request may succeed in a moment."""

    retry_after = 2

    def __str__(self) -> str:
        return "Too many sign-ins at once. Try again in a moment."


class LastIdentity(PlayerError):
    """Without it the player could not sign in any more."""

    def __str__(self) -> str:
        return "This is the last way to sign in as this player. Link another first."


class AccountReauthenticationRequired(PlayerError):
    """What is asked for needs a sign-in that is not long ago."""

    def __str__(self) -> str:
        return "Sign in again, then ask once more within ten minutes."
