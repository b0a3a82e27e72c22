"""Where a provider's subjects are unique, told from the owner's file alone (SPEC 2.2: identity indexes)."""

from collections.abc import Iterable

from msgspec import Struct

from gamed.config.model import Protocol, Provider
from gamed.crypto import Index, Indexer, Purpose
from gamed.identity.discovery import origin
from gamed.identity.provider import Identity
from gamed.structs import hides


@hides("namespace")
class Realm(Struct, frozen=True):
    """An issuer, or the namespace of an OAuth 2.0 provider; the name in the file is no part of it."""

    kind: str
    namespace: str

    @classmethod
    def of(cls, settings: Provider) -> "Realm":
        if settings.protocol is Protocol.OIDC:
            return cls("oidc", settings.issuer or "")
        return cls("oauth2", settings.identity_namespace or origin(settings.userinfo_endpoint or ""))

    @classmethod
    def where(cls, identity: Identity) -> "Realm":
        return cls(identity.kind, identity.namespace)

    def index(self, indexer: Indexer) -> Index:
        """What all identities of this realm have in common in `auth.db`."""
        return indexer.index(Purpose.IDENTITY, self.kind.encode(), self.namespace.encode())


def realm_indexes(indexer: Indexer, providers: Iterable[Provider]) -> frozenset[Index]:
    """Of every provider that is configured."""
    return frozenset(Realm.of(settings).index(indexer) for settings in providers)
