"""The values of passkeys: responses of authenticators, and stored keys."""

from collections.abc import Mapping
from typing import Final, Self

from msgspec import Struct

from gamed.crypto import ID_BYTES, Random, public_id
from gamed.passkeys.ceremony import decode
from gamed.structs import redacts

HANDLE_BYTES: Final = 32
ES256, EDDSA, RS256 = -7, -8, -257
ALGORITHMS: Final = (ES256, EDDSA, RS256)
"""COSE algorithms (RFC 9053) in the order of preference; RS256 is that of Windows Hello."""


@redacts("client_data", "attestation")
class PasskeyRegistration(Struct, frozen=True):
    """The response of an authenticator that has made a credential (WebAuthn 5.2.1)."""

    client_data: bytes
    attestation: bytes

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> Self:
        """Return the response in the fields of a form; raise PasskeyRefused."""
        return cls(_field(fields, "client_data"), _field(fields, "attestation"))


@redacts("credential_id", "client_data", "authenticator_data", "signature", "user_handle")
class Assertion(Struct, frozen=True):
    """The response of an authenticator that has signed a challenge (WebAuthn 5.2.2)."""

    credential_id: bytes
    client_data: bytes
    authenticator_data: bytes
    signature: bytes
    user_handle: bytes

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> Self:
        """Return the response in the fields of a form; raise PasskeyRefused."""
        return cls(*(_field(fields, name) for name in cls.__struct_fields__))


@redacts("credential_id", "public_key", "user_handle")
class Credential(Struct, frozen=True):
    """The sealed part of a passkey; `public_key` is a COSE key in CBOR (RFC 9052 7)."""

    credential_id: bytes
    public_key: bytes
    user_handle: bytes


class NewPasskey(Struct, frozen=True):
    """A credential whose registration is verified."""

    credential: Credential
    sign_count: int
    synced: bool
    backed_up: bool


@redacts("name")
class Passkey(Struct, frozen=True):
    """A passkey in its player's list; instants in epoch milliseconds."""

    passkey_id: str
    name: str
    rp_id: str
    synced: bool
    backed_up: bool
    created_ms: int
    last_used_ms: int | None


class StoredPasskey(Struct, frozen=True):
    """A passkey as an assertion is compared with it."""

    passkey_id: str
    player_id: str
    credential: Credential
    sign_count: int
    synced: bool


class Use(Struct, frozen=True):
    """A verified assertion: the values to store, and whether the sign count went back (WebAuthn 6.1.1)."""

    sign_count: int
    backed_up: bool
    went_back: bool


class Proven(Struct, frozen=True):
    """The player and the passkey of a verified assertion that was stored."""

    player_id: str
    passkey_id: str
    went_back: bool


def new_passkey_id(random: Random) -> str:
    return public_id("pky", random(ID_BYTES))


def _field(fields: Mapping[str, str], name: str) -> bytes:
    return decode(fields.get(name, ""))
