"""Tickets are JSON Web Tokens (RFC 7519) that Ed25519 keys sign (RFC 8037).

The keys are derived from the master key, each by its number, so no database and no backup has them. A ticket of this
server is parsed as strictly as it was written: any other header is refused, whatever it asks for (RFC 8725 3.1).
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from joserfc import jws
from joserfc.errors import JoseError, UnsupportedAlgorithmError
from joserfc.jwk import OKPKey
from msgspec import Struct

from gamed.crypto import Secret, derive
from gamed.providers.id_token import decode_base64url
from gamed.strict_json import parse_object
from gamed.structs import redacts
from gamed.tickets.model import MAX_TICKET_CHARACTERS, KeyPeriod

ALGORITHM: Final = "EdDSA"
TYPE: Final = "gamed-ticket+jwt"
"""The `typ` that no other token has, so that none is taken for a ticket, nor a ticket for another token."""
CACHED_KEYS: Final = 8
"""Deriving one takes as long as two signatures; at most three are in use."""


class _OneAlgorithm(jws.JWSRegistry):
    """A registry of the one algorithm.

    RFC 9864 calls it Ed25519 and deprecates the name EdDSA, for which joserfc warns. Servers with older libraries, such
    as Debian 12's PyJWT, know the name EdDSA alone.
    """

    def get_alg(self, name: str) -> Any:
        if name != ALGORITHM:
            raise UnsupportedAlgorithmError(f"Algorithm of '{name}' is not allowed")
        return self.algorithms[ALGORITHM]


_REGISTRY = _OneAlgorithm(algorithms=[ALGORITHM])


@redacts("key")
class TicketKey(Struct, frozen=True):
    """A signing key with its public part."""

    key: OKPKey
    kid: str
    """The thumbprint of RFC 7638, so that no two keys have the same name, not even those of two master keys."""
    jwk: Mapping[str, str]
    """The public key (RFC 8037 2)."""


@redacts("claims")
class UnverifiedTicket(Struct, frozen=True):
    """A ticket whose form is valid, and whose signature is not verified yet."""

    text: str
    kid: str
    claims: Mapping[str, object]


class TicketKeys:
    """The signing keys of one master key."""

    def __init__(self, master: Secret) -> None:
        self._key = lru_cache(CACHED_KEYS)(partial(_derive, master))

    def jwks(self, periods: Sequence[KeyPeriod]) -> dict[str, object]:
        """Return the JWK set (RFC 7517 5) of these keys."""
        return {"keys": [self._key(period.number).jwk for period in periods]}

    def sign(self, period: KeyPeriod, claims: Mapping[str, object]) -> str:
        """Return a ticket with these claims."""
        key = self._key(period.number)
        header = {"alg": ALGORITHM, "typ": TYPE, "kid": key.kid}
        return jws.serialize_compact(header, msgspec.json.encode(claims), key.key, registry=_REGISTRY)

    @staticmethod
    def parse(text: str) -> UnverifiedTicket | None:
        """Return a ticket in the form in which this server writes it; None for any other text."""
        if len(text) > MAX_TICKET_CHARACTERS:
            return None
        try:
            first, second, _signature = (decode_base64url(part) for part in text.split("."))
            header, claims = parse_object(first), parse_object(second)
        except ValueError:
            return None
        kid = header.get("kid")
        if not isinstance(kid, str) or header != {"alg": ALGORITHM, "typ": TYPE, "kid": kid}:
            return None
        return UnverifiedTicket(text, kid, claims)

    def verify(self, ticket: UnverifiedTicket, periods: Sequence[KeyPeriod]) -> bool:
        """Return whether one of these keys has signed the ticket."""
        keys = (self._key(period.number) for period in periods)
        key = next((each.key for each in keys if each.kid == ticket.kid), None)
        if key is None:
            return False
        try:
            jws.deserialize_compact(ticket.text, key, registry=_REGISTRY)
        except (JoseError, ValueError):
            return False
        return True


def _derive(master: Secret, number: int) -> TicketKey:
    raw = Ed25519PrivateKey.from_private_bytes(derive(master, b"gamed 1 ticket ed25519 %d" % number))
    key = OKPKey.import_key(raw)
    kid = key.thumbprint()
    public = {name: str(value) for name, value in key.as_dict(private=False).items() if name in ("kty", "crv", "x")}
    return TicketKey(key, kid, {**public, "kid": kid, "alg": ALGORITHM, "use": "sig"})
