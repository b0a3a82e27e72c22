"""Passkeys can be refused in these ways."""

from enum import Enum


class PasskeyError(Exception):
    """A request about passkeys that this server refuses."""


class PasskeysOff(PasskeyError):
    """A request about passkeys on a server whose address cannot have any."""


class PasskeysFull(PasskeyError):
    """A request for another passkey of a player who has as many as the server keeps."""


class PasskeyUnknown(PasskeyError):
    """A passkey that the player does not have."""


class LastPasskey(PasskeyError):
    """A passkey without which its player could not sign in any more."""


class CodesReplaced(PasskeyError):
    """A request to replace recovery codes that were replaced before."""


class Refusal(Enum):
    """The reason why the response of an authenticator is not accepted; the values are those of the log."""

    MALFORMED = "malformed"
    EXPIRED = "challenge_expired"
    """The challenge is older than ten minutes, was used before, or belongs to another browser, session or login."""
    OTHER_CHALLENGE = "other_challenge"
    OTHER_TYPE = "other_type"
    OTHER_ORIGIN = "other_origin"
    OTHER_SITE = "other_rp_id"
    NOT_PRESENT = "user_not_present"
    NOT_VERIFIED = "user_not_verified"
    BACKUP_FLAGS = "backup_flags"
    ALGORITHM = "algorithm"
    UNKNOWN = "unknown_credential"
    OTHER_USER = "other_user_handle"
    SIGNATURE = "signature"
    KNOWN = "known_credential"
    OTHER_PLAYER = "credential_of_another"
    TOO_MANY = "too_many"


class PasskeyRefused(PasskeyError):
    """A response of an authenticator that is not accepted; `player_id` is the player of a known credential, or ""."""

    def __init__(self, refusal: Refusal, player_id: str = "") -> None:
        super().__init__(refusal.value)
        self.refusal = refusal
        self.player_id = player_id
