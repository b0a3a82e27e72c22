"""The site of a server's passkeys, and the ceremonies of its pages: what each sign-in page needs.

What else there is about passkeys is imported at its first use (gamed/structs.py: Late).
"""

from base64 import urlsafe_b64decode
from binascii import Error
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final, Self
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from gamed.crypto import DecryptionFailed, Keys, Purpose, Random, base64url
from gamed.passkeys.errors import PasskeyRefused, Refusal
from gamed.structs import redacts
from gamed.timestamps import CLOCKS_MS

CHALLENGE_BYTES: Final = 32
CEREMONY_MS: Final = 10 * 60_000
"""The time between the page with a challenge and the authenticator's response."""
FIELD_CHARACTERS: Final = 6 * 1024
"""The longest field of a response; its form has at most 8 KiB. A response without attestation has 200 to 1,800."""


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
        # From a machine whose clock is ahead it comes from the future. It can be used once, so a longer life gives a
        # thief nothing more.
        if not found.made_ms - CLOCKS_MS <= now_ms < found.made_ms + CEREMONY_MS:
            raise PasskeyRefused(Refusal.EXPIRED)
        return found


class PasskeyPrompt(Struct, frozen=True):
    """The parts of a page that asks for a passkey: the options of its script in JSON, and the sealed ceremony."""

    options: str
    sealed: str

    def __repr__(self) -> str:
        return "PasskeyPrompt(...)"


def prompt(call: str, options: Mapping[str, object], ceremony: Ceremony, keys: Keys, row: str) -> PasskeyPrompt:
    """Return the parts of a page whose script calls `create` or `get` with these options (WebAuthn 5.1)."""
    shown = {**options, "challenge": base64url(ceremony.challenge), "timeout": CEREMONY_MS}
    return PasskeyPrompt(msgspec.json.encode({"call": call, "publicKey": shown}).decode(), ceremony.seal(keys, row))


def sign_in_prompt(site: PasskeySite, ceremony: Ceremony, keys: Keys, row: str) -> PasskeyPrompt:
    """Return the parts of a sign-in page.

    `row` names the page's purpose and its browser, and a login if there is one: the response counts for it alone.
    The page names no credential, so it shows nobody who has a passkey.
    """
    return prompt("get", {"rpId": site.rp_id, "userVerification": "required"}, ceremony, keys, row)


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
