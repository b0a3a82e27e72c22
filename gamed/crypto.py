"""Keys, indexes and seals: everything that stands between the master key and the disk (SPEC 2.2)."""

from collections.abc import Callable
from enum import Enum
from hmac import compare_digest
from typing import NewType, NoReturn

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hmac import HMAC
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from msgspec import Struct

from gamed.structs import Component, redacts

KEY_BYTES = 32
NONCE_BYTES = 12

Index = NewType("Index", bytes)
"""32 bytes that find a row again without telling what was looked for."""

Random = Callable[[int], bytes]
"""n -> n unpredictable bytes; `secrets.token_bytes`, or a counter in tests."""


class CryptoError(Exception):
    """A key or a sealed value that cannot be used."""


class InvalidKey(CryptoError):
    """Not 32 bytes."""


class DecryptionFailed(CryptoError):
    """Sealed under another key, for another purpose or row, or changed since."""

    def __init__(self, purpose: "Purpose", row: str) -> None:
        self.words = {"value": purpose.name.lower(), "row": row}
        super().__init__(f"{purpose.name} of {row} cannot be opened")


class Secret:
    """Bytes that must not be shown; call reveal() at the one point of use."""

    __slots__ = ("_value",)  # without __dict__, vars() does not show the bytes either

    def __init__(self, value: bytes) -> None:
        self._value = value

    def reveal(self) -> bytes:
        return self._value

    def matches(self, other: "Secret") -> bool:
        """Equal, in time that does not depend on where they differ."""
        return compare_digest(self._value, other._value)

    def __repr__(self) -> str:
        return "Secret()"

    def __str__(self) -> NoReturn:  # also stops f"{secret}" and "%s" % secret
        raise TypeError("a Secret has no text form; call reveal()")

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret is not pickled")


class Purpose(Enum):
    """What an index or a sealed value is for; the same bytes under two purposes have nothing in common."""

    ACCESS_TOKEN = b"access token"
    ACCOUNT_NAME = b"local account name"
    ADDRESS = b"client address"
    APPROVAL = b"approval code"
    BROWSER = b"browser cookie"
    CHECK = b"key check"
    DEVICE_SECRET = b"device secret"
    FORM = b"form field"
    IDENTIFIED = b"pending identity"
    IDENTITY = b"provider identity"
    LIMIT = b"limit bucket"
    LOGIN_TOKEN = b"login token"
    NONCE = b"nonce"
    NOTE = b"note about a player"
    PKCE = b"pkce verifier"
    PROOF = b"return proof"
    REFRESH_CREDENTIAL = b"refresh credential"
    RESULT = b"login result"
    STATE = b"oauth state"
    SUCCESSOR = b"successor pair"


def length_prefixed(*parts: bytes) -> bytes:
    """Parts joined so that no two different lists give the same bytes: each behind its length in 4 bytes."""
    return b"".join([len(part).to_bytes(4, "big") + part for part in parts])


def derive(master: Secret, info: bytes) -> bytes:
    """32 bytes for one use of the master key (HKDF-SHA256, RFC 5869)."""
    return HKDF(SHA256(), KEY_BYTES, salt=None, info=info).derive(master.reveal())


class Indexer:
    """Stable look-up indexes: HMAC-SHA256 over the purpose and the framed parts."""

    def __init__(self, key: bytes) -> None:
        self._begun = {purpose: HMAC(key, SHA256()) for purpose in Purpose}
        """With the key and the purpose in it already: every request makes an index."""
        for purpose, mac in self._begun.items():
            mac.update(length_prefixed(purpose.value))

    def index(self, purpose: Purpose, *parts: bytes) -> Index:
        mac = self._begun[purpose].copy()
        mac.update(length_prefixed(*parts))
        return Index(mac.finalize())


class Sealer(Component, frozen=True):
    """AES-256-GCM with a fresh nonce in front; purpose and row are bound as associated data.

    A value moved to another row or column, or changed by one bit, is SealBroken.
    """

    _cipher: AESGCM
    _random: Random

    def seal(self, purpose: Purpose, row: str, plain: bytes) -> bytes:
        nonce = self._random(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, plain, _bound(purpose, row))

    def unseal(self, purpose: Purpose, row: str, sealed: bytes) -> bytes:
        nonce, body = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
        try:
            return self._cipher.decrypt(nonce, body, _bound(purpose, row))
        except (InvalidTag, ValueError) as e:
            raise DecryptionFailed(purpose, row) from e


def _bound(purpose: Purpose, row: str) -> bytes:
    return length_prefixed(purpose.value, row.encode())


@redacts("check")
class Keys(Struct, frozen=True):
    """The two purpose-isolated keys of SPEC 2.2.4, and what tells one master key from another."""

    indexer: Indexer
    sealer: Sealer
    check: Index
    """HMAC of a constant, kept in auth.db: a wrong master key is recognised before anything is touched."""
    fingerprint: str
    """12 hex digits an owner can compare; tells nothing about the key."""

    @classmethod
    def of(cls, master: Secret, random: Random) -> "Keys":
        if len(master.reveal()) != KEY_BYTES:
            raise InvalidKey(f"a master key is {KEY_BYTES} bytes")
        indexer = Indexer(derive(master, b"gamed 1 hmac"))
        sealer = Sealer(AESGCM(derive(master, b"gamed 1 aes-256-gcm")), random)
        check = indexer.index(Purpose.CHECK, b"gamed")
        return cls(indexer, sealer, check, derive(master, b"gamed 1 fingerprint")[:6].hex())
