"""Secrets are stored only as keyed indexes and as sealed values; both keys derive from the master key (SPEC 2.2).

Credentials and public ids have a fixed form: a malformed one is rejected without a database read (docs/protocol.md:
Conventions).
"""

from binascii import b2a_base64, crc32
from collections.abc import Callable
from enum import Enum, StrEnum
from hmac import compare_digest
from re import ASCII, compile
from typing import NewType, NoReturn

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hmac import HMAC
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from msgspec import Struct

from gamed.structs import Component, redacts

KEY_BYTES = 32
NONCE_BYTES = 12  # the size that NIST SP 800-38D recommends for AES-GCM
ENTROPY_BYTES = 32
ID_BYTES = 16
_REST = compile(r"[A-Za-z0-9_-]{49}", ASCII)
"""The body and the checksum, which follow the prefix."""
_URL_SAFE = bytes.maketrans(b"+/", b"-_")

Index = NewType("Index", bytes)
"""32 bytes that find a row again and reveal nothing about the value that they were made from."""

Random = Callable[[int], bytes]
"""A function that returns n unpredictable bytes: `secrets.token_bytes`, or a counter in tests."""


class CryptoError(Exception):
    """A key or a sealed value is not usable."""


class InvalidKey(CryptoError):
    """A key that is not 32 bytes long."""


class DecryptionFailed(CryptoError):
    """The value was sealed under another key or for another purpose or row, or has been changed."""

    def __init__(self, purpose: "Purpose", row: str) -> None:
        self.details = {"value": purpose.name.lower(), "row": row}
        super().__init__(f"{purpose.name} of {row} cannot be opened")


class Secret:
    """Bytes that must not be shown; call reveal() at the one point of use."""

    __slots__ = ("_value",)  # without __dict__, vars() does not show the bytes either

    def __init__(self, value: bytes) -> None:
        self._value = value

    def reveal(self) -> bytes:
        return self._value

    def matches(self, other: "Secret") -> bool:
        """Compare two secrets in a time that does not depend on the place of the first difference."""
        return compare_digest(self._value, other._value)

    def __repr__(self) -> str:
        return "Secret()"

    def __str__(self) -> NoReturn:  # also stops f"{secret}" and "%s" % secret
        raise TypeError("a Secret has no text form; call reveal()")

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret is not pickled")


class Purpose(Enum):
    """The purpose of an index or a sealed value; the same bytes have unrelated indexes under two purposes."""

    ACCESS_TOKEN = b"access token"
    ACCOUNT_NAME = b"local account name"
    ADDRESS = b"client address"
    APPROVAL = b"approval code"
    BROWSER = b"browser cookie"
    BROWSER_SESSION = b"browser session"
    CHECK = b"key check"
    CONFIRMATION = b"owner's confirmation code"
    DEVICE_SECRET = b"device secret"
    DISPLAY_NAME = b"display name"
    FORM = b"form field"
    IDENTIFIED = b"pending identity"
    IDENTITY = b"provider identity"
    INVITE = b"invite link"
    LIMIT = b"limit bucket"
    LOGIN_TOKEN = b"login token"
    NONCE = b"nonce"
    NOTE = b"note about a player"
    PASSKEY = b"passkey credential"
    PASSKEY_CEREMONY = b"passkey ceremony"
    PASSKEY_NAME = b"passkey name"
    PKCE = b"pkce verifier"
    PROOF = b"return proof"
    RECOVERY_CODE = b"recovery code"
    REFRESH_CREDENTIAL = b"refresh credential"
    RESET = b"password reset link"
    RESULT = b"login result"
    RETURN = b"return to a page"
    STATE = b"oauth state"
    SUCCESSOR = b"successor pair"


def length_prefixed(*parts: bytes) -> bytes:
    """Join parts so that no two different lists give the same bytes: each follows its length in 4 bytes."""
    return b"".join([len(part).to_bytes(4, "big") + part for part in parts])


def derive(master: Secret, info: bytes) -> bytes:
    """Return 32 bytes for one use of the master key (HKDF-SHA256, RFC 5869)."""
    return HKDF(SHA256(), KEY_BYTES, salt=None, info=info).derive(master.reveal())


class Indexer:
    """A maker of stable indexes: HMAC-SHA256 over the purpose and the length-prefixed parts."""

    def __init__(self, key: bytes) -> None:
        self._prefixed = {purpose: HMAC(key, SHA256()) for purpose in Purpose}
        """HMACs that have processed the key and the purpose already, because every request makes an index."""
        for purpose, mac in self._prefixed.items():
            mac.update(length_prefixed(purpose.value))

    def index(self, purpose: Purpose, *parts: bytes) -> Index:
        mac = self._prefixed[purpose].copy()
        mac.update(length_prefixed(*parts))
        return Index(mac.finalize())


class Sealer(Component, frozen=True, kw_only=True):
    """An AES-256-GCM cipher; a sealed value is a random nonce and the ciphertext.

    Purpose and row are bound as associated data: a value that was copied to another row or column, or changed by one
    bit, raises DecryptionFailed.
    """

    cipher: AESGCM
    random: Random

    def seal(self, purpose: Purpose, row: str, plain: bytes) -> bytes:
        nonce = self.random(NONCE_BYTES)
        return nonce + self.cipher.encrypt(nonce, plain, _bound(purpose, row))

    def unseal(self, purpose: Purpose, row: str, sealed: bytes) -> bytes:
        nonce, body = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
        try:
            return self.cipher.decrypt(nonce, body, _bound(purpose, row))
        except (InvalidTag, ValueError) as e:
            raise DecryptionFailed(purpose, row) from e


def _bound(purpose: Purpose, row: str) -> bytes:
    return length_prefixed(purpose.value, row.encode())


@redacts("check")
class Keys(Struct, frozen=True):
    """The two purpose-isolated keys of SPEC 2.2/10, and two values that identify the master key."""

    indexer: Indexer
    sealer: Sealer
    check: Index
    """The HMAC of a constant, stored in auth.db to recognise a wrong master key before anything is written."""
    fingerprint: str
    """12 hex digits that the operator can compare; they reveal nothing about the key."""

    @classmethod
    def of(cls, master: Secret, random: Random) -> "Keys":
        if len(master.reveal()) != KEY_BYTES:
            raise InvalidKey(f"a master key is {KEY_BYTES} bytes")
        indexer = Indexer(derive(master, b"gamed 1 hmac"))
        sealer = Sealer(cipher=AESGCM(derive(master, b"gamed 1 aes-256-gcm")), random=random)
        check = indexer.index(Purpose.CHECK, b"gamed")
        return cls(indexer, sealer, check, derive(master, b"gamed 1 fingerprint")[:6].hex())


class MalformedToken(Exception):
    """A text with a wrong prefix, length, alphabet or checksum."""


class TokenType(StrEnum):
    """The type of a credential, which is also its prefix."""

    DEVICE_SECRET = "gds_"
    ACCESS_TOKEN = "gat_"
    REFRESH_CREDENTIAL = "grc_"
    BROWSER_SESSION = "gbs_"


def base64url(raw: bytes) -> str:
    """Encode bytes with the URL-safe alphabet of RFC 4648 section 5, without padding."""
    return b2a_base64(raw, newline=False).rstrip(b"=").translate(_URL_SAFE).decode()


def generate_token(kind: TokenType, entropy: bytes) -> Secret:
    """Return a credential: the prefix, 43 characters of 32 bytes, 6 characters of CRC-32 over both."""
    raw = (kind + base64url(entropy)).encode()
    return Secret(raw + checksum(raw))


def parse_token(kind: TokenType, text: str) -> Secret:
    """Return a well-formed credential, whether or not it was ever issued; raise MalformedToken."""
    raw = text.encode() if text.startswith(kind) and _REST.fullmatch(text, 4) else b""
    if not raw or raw[47:] != checksum(raw[:47]):
        raise MalformedToken(f"not of the form {kind.value}...")
    return Secret(raw)


def checksum(raw: bytes) -> bytes:
    """Return 6 base64url characters that detect a mistyped credential; they are not a protection against attackers."""
    return b2a_base64(crc32(raw).to_bytes(4, "big"), newline=False)[:6].translate(_URL_SAFE)


def public_id(prefix: str, raw: bytes) -> str:
    """Return an id that may be shown: `ply_`, `ses_` or `lgn_` and 22 base64url characters of 16 random bytes."""
    return f"{prefix}_{base64url(raw[:ID_BYTES])}"
