"""The values of passkeys: the site that they belong to, ceremonies, responses of authenticators, and stored keys."""

from base64 import urlsafe_b64decode
from binascii import Error
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final, Self
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from gamed.crypto import ID_BYTES, DecryptionFailed, Keys, Purpose, Random, base64url, public_id
from gamed.passkeys.errors import PasskeyRefused, Refusal
from gamed.sessions.browser_rules import BrowserName
from gamed.structs import redacts

MAX_PASSKEYS: Final = 10
"""The most passkeys of one player."""
CHALLENGE_BYTES: Final = 32
HANDLE_BYTES: Final = 32
CEREMONY_MS: Final = 10 * 60_000
"""The time between the page with a challenge and the authenticator's response."""
NAME_CHARACTERS: Final = 64
FIELD_CHARACTERS: Final = 6 * 1024
"""The longest field of a response; its form has at most 8 KiB. A response without attestation has 200 to 1,800."""
PASSKEY: Final = "passkey"
"""The value of `provider` for what a passkey opened."""
ES256, EDDSA, RS256 = -7, -8, -257
ALGORITHMS: Final = (ES256, EDDSA, RS256)
"""COSE algorithms (RFC 9053) in the order of preference; RS256 is that of Windows Hello."""


class PasskeySite(Struct, frozen=True):
    """The site of passkeys (WebAuthn 5.1.2, 5.4.2): both come from `public_url` alone, never from a request."""

    rp_id: str
    origin: str

    @classmethod
    def of(cls, public_url: str | None) -> Self | None:
        """Return the site of a canonical `public_url`; None where browsers allow no passkeys.

        They need https with a host name, or `http://localhost`: an rpId is never an IP address.
        """
        parts = urlsplit(public_url or "")
        host = parts.hostname or ""
        if not host or (parts.scheme != "https" and host != "localhost") or _is_address(host):
            return None
        return cls(host, public_url or "")


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


@redacts("challenge", "user_handle")
class Ceremony(Struct, frozen=True):
    """One registration or authentication: the page has it sealed in a hidden field, the server stores nothing."""

    challenge: bytes
    made_ms: int
    user_handle: bytes = b""
    """The random handle that a new credential gets, which says nothing about the player; empty in a sign-in."""

    @classmethod
    def begin(cls, random: Random, now_ms: int, user_handle: bytes = b"") -> Self:
        return cls(random(CHALLENGE_BYTES), now_ms, user_handle)

    def seal(self, keys: Keys, row: str) -> str:
        """Return it for this row alone, which names the purpose, and the browser, session or login."""
        return base64url(keys.sealer.seal(Purpose.PASSKEY_CEREMONY, row, msgspec.msgpack.encode(self)))

    @classmethod
    def unseal(cls, keys: Keys, row: str, sealed: str, now_ms: int) -> Self:
        """Return what was sealed for the row; raise PasskeyRefused for anything else, and for what is too old."""
        try:
            raw = keys.sealer.unseal(Purpose.PASSKEY_CEREMONY, row, decode(sealed))
        except DecryptionFailed:
            raise PasskeyRefused(Refusal.EXPIRED) from None
        found = msgspec.msgpack.decode(raw, type=cls)
        if not found.made_ms <= now_ms < found.made_ms + CEREMONY_MS:
            raise PasskeyRefused(Refusal.EXPIRED)
        return found


class PasskeyPrompt(Struct, frozen=True):
    """The parts of a page that asks for a passkey: the options of its script in JSON, and the sealed ceremony."""

    options: str
    sealed: str

    def __repr__(self) -> str:
        return "PasskeyPrompt(...)"


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


def suggested_name(browser: BrowserName) -> str:
    """Return a name for a passkey that is made in this browser; "" if nothing is known."""
    return " / ".join(each for each in (browser.system, browser.program) if each)


def decode(text: str) -> bytes:
    """Return the bytes of unpadded base64url (RFC 4648 5); raise PasskeyRefused."""
    try:
        if len(text) > FIELD_CHARACTERS or not text.isascii() or "=" in text:
            raise ValueError
        raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (ValueError, Error):
        raise PasskeyRefused(Refusal.MALFORMED) from None
    if base64url(raw) != text:  # one spelling of each value: the decoder skips characters that it does not know
        raise PasskeyRefused(Refusal.MALFORMED)
    return raw


def _field(fields: Mapping[str, str], name: str) -> bytes:
    return decode(fields.get(name, ""))
