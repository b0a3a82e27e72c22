"""The responses of authenticators are verified here: WebAuthn Level 2, sections 7.1 and 7.2.

fido2 parses what is CBOR and verifies signatures; its class for servers is not used. That loads the public suffix list
(6 MiB), accepts subdomains, logs ids of credentials, and looks neither at user handles nor at sign counts. Importing
this module imports the library, 20 to 60 ms: a thread does that (gamed/passkeys/store.py).
"""

from collections.abc import Mapping
from hashlib import sha256
from hmac import compare_digest
from struct import unpack
from typing import Any, Final, cast

from cryptography.exceptions import InvalidSignature
from fido2 import cbor
from fido2.cose import CoseKey
from fido2.webauthn import AttestationObject, AuthenticatorData

from gamed.crypto import base64url
from gamed.passkeys.ceremony import Ceremony, PasskeySite
from gamed.passkeys.errors import PasskeyRefused, Refusal
from gamed.passkeys.model import (
    ALGORITHMS,
    RS256,
    Assertion,
    Credential,
    NewPasskey,
    PasskeyRegistration,
    StoredPasskey,
    Use,
)
from gamed.strict_json import JsonMalformed, parse_object

CREATE: Final = "webauthn.create"
GET: Final = "webauthn.get"
CREDENTIAL_BYTES: Final = range(16, 1024)  # WebAuthn 4 (Credential ID)
HEAD_BYTES: Final = 37
"""The authenticator data before its optional parts: rpIdHash, flags, signCount (WebAuthn 6.1)."""
RSA_BITS: Final = range(2048, 4096 + 1)
RSA_EXPONENT: Final = 65537
"""The only one that devices use. A player could choose one of 3,000 bits, with which a verification takes 20 ms."""
UP, UV, BE, BS = 0x01, 0x04, 0x08, 0x10


def check_registration(response: PasskeyRegistration, ceremony: Ceremony, site: PasskeySite) -> NewPasskey:
    """Return the new credential; raise PasskeyRefused. Attestation is ignored: the server has asked for none."""
    _check_client_data(response.client_data, CREATE, ceremony, site)
    try:
        data = AttestationObject(response.attestation).auth_data
        attested = data.credential_data
    except Exception:  # whatever its parser raises on these bytes, such as RecursionError on deep arrays
        raise PasskeyRefused(Refusal.MALFORMED) from None
    flags, sign_count = _check_head(bytes(data), site)
    if attested is None or len(attested.credential_id) not in CREDENTIAL_BYTES:
        raise PasskeyRefused(Refusal.MALFORMED)
    _check_key(attested.public_key)
    credential = Credential(attested.credential_id, cbor.encode(attested.public_key), ceremony.user_handle)
    return NewPasskey(credential, sign_count, bool(flags & BE), bool(flags & BS))


def check_assertion(response: Assertion, ceremony: Ceremony, site: PasskeySite, stored: StoredPasskey) -> Use:
    """Return what to store about this use; raise PasskeyRefused.

    A sign count that went back does not refuse it: a restored device counts anew, too. The player sees an event.
    """
    player_id, credential = stored.player_id, stored.credential
    if not compare_digest(response.user_handle, credential.user_handle):
        raise PasskeyRefused(Refusal.OTHER_USER, player_id)
    _check_client_data(response.client_data, GET, ceremony, site, player_id)
    flags, sign_count = _check_head(response.authenticator_data, site, player_id)
    if bool(flags & BE) is not stored.synced:
        raise PasskeyRefused(Refusal.BACKUP_FLAGS, player_id)
    signed = response.authenticator_data + sha256(response.client_data).digest()
    try:
        AuthenticatorData(response.authenticator_data)  # nothing may follow the parts that the flags announce
        key = cast(Mapping[int, Any], cbor.decode(credential.public_key))
        CoseKey.parse(key).verify(signed, response.signature)
    except Exception:  # InvalidSignature, or what the parser of the optional parts raises
        raise PasskeyRefused(Refusal.SIGNATURE, player_id) from None
    counts = sign_count > 0 or stored.sign_count > 0
    went_back = counts and sign_count <= stored.sign_count
    return Use(max(sign_count, stored.sign_count), bool(flags & BS), went_back)


def _check_client_data(raw: bytes, kind: str, ceremony: Ceremony, site: PasskeySite, player_id: str = "") -> None:
    """Check the client data, which the browser writes (WebAuthn 5.8.1)."""
    try:
        data = parse_object(raw)
    except JsonMalformed:
        raise PasskeyRefused(Refusal.MALFORMED, player_id) from None
    if data.get("type") != kind:
        raise PasskeyRefused(Refusal.OTHER_TYPE, player_id)
    challenge = data.get("challenge")
    expected = base64url(ceremony.challenge).encode()
    if not isinstance(challenge, str) or not compare_digest(challenge.encode("utf-8", "replace"), expected):
        raise PasskeyRefused(Refusal.OTHER_CHALLENGE, player_id)
    if data.get("origin") != site.origin or data.get("crossOrigin", False) is not False:
        raise PasskeyRefused(Refusal.OTHER_ORIGIN, player_id)


def _check_head(data: bytes, site: PasskeySite, player_id: str = "") -> tuple[int, int]:
    """Check the first part of the authenticator data; return the flags and the sign count."""
    if len(data) < HEAD_BYTES:
        raise PasskeyRefused(Refusal.MALFORMED, player_id)
    rp_id_hash, flags, sign_count = unpack(">32sBI", data[:HEAD_BYTES])
    if not compare_digest(rp_id_hash, sha256(site.rp_id.encode()).digest()):
        raise PasskeyRefused(Refusal.OTHER_SITE, player_id)
    if not flags & UP:
        raise PasskeyRefused(Refusal.NOT_PRESENT, player_id)
    if not flags & UV:
        raise PasskeyRefused(Refusal.NOT_VERIFIED, player_id)
    if flags & BS and not flags & BE:
        raise PasskeyRefused(Refusal.BACKUP_FLAGS, player_id)
    return flags, sign_count


def _check_key(key: CoseKey) -> None:
    """Refuse a key of another algorithm, and one that could not verify any signature."""
    if key.ALGORITHM not in ALGORITHMS:
        raise PasskeyRefused(Refusal.ALGORITHM)
    if key.ALGORITHM == RS256:
        modulus, exponent = key.get(-1), key.get(-2)  # RFC 8230 4
        if not isinstance(modulus, bytes) or not isinstance(exponent, bytes):
            raise PasskeyRefused(Refusal.MALFORMED)
        bits = int.from_bytes(modulus, "big").bit_length()
        if bits not in RSA_BITS or int.from_bytes(exponent, "big") != RSA_EXPONENT:
            raise PasskeyRefused(Refusal.ALGORITHM)
    try:
        key.verify(b"", b"")
    except InvalidSignature:
        return  # the key is complete and on its curve
    except Exception:  # a part is missing, is of another type, or is no point of the curve
        raise PasskeyRefused(Refusal.MALFORMED) from None
    raise PasskeyRefused(Refusal.MALFORMED)
