"""Which member of an account is the player: stable, never empty, never an error in disguise (SPEC 2.2)."""

from collections.abc import Mapping
from re import ASCII, compile

from gamed.identity.provider import ProviderError

MAX_LENGTH = 255
MAX_NUMBER = 2**64
_SNOWFLAKE = compile(r"[0-9]{1,20}", ASCII)
_OPENID = compile(r"[!-~](?:[ -~]{0,253}[!-~])?", ASCII)


def snowflake(value: object) -> str:
    """Discord's `id`: 1 to 20 digits, as text."""
    if not isinstance(value, str) or not _SNOWFLAKE.fullmatch(value):
        raise ProviderError("userinfo_endpoint: id is not text of 1 to 20 digits")
    return value


def openid_subject(value: object) -> str:
    """`sub` of an ID token: 1 to 255 ASCII characters, none of them a control character (OIDC Core 2)."""
    if not isinstance(value, str) or not _OPENID.fullmatch(value):
        raise ProviderError("ID token: sub is not 1 to 255 ASCII characters")
    return value


def account_subject(account: Mapping[str, object], name: str) -> str:
    """The member `name` of any other provider's account.

    Text of 1 to 255 visible characters, taken as it is; or a whole number from 1, which is the same subject as its
    decimal text, so that a provider that changes from numbers to text changes nobody's identity.
    """
    value = account.get(name)
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < MAX_NUMBER:
        return str(value)
    if isinstance(value, str) and 0 < len(value) <= MAX_LENGTH and value.isprintable() and value == value.strip():
        return value
    raise ProviderError("userinfo_endpoint: the member that subject_field names is no text or number that can be used")
