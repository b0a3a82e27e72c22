"""What signs in as a player, and which of it may be taken away (PROTOCOL 3.8)."""

from collections.abc import Iterable

from msgspec import Struct

from gamed.crypto import Index
from gamed.structs import hides

LOCAL = "local"
"""What stands for a provider where a name and a password of this server sign in."""


@hides("realm")
class Identity(Struct, frozen=True):
    """One line of a player's list; instants in epoch milliseconds."""

    provider: str
    """Its name in the file when it was linked, or LOCAL."""
    linked_ms: int
    last_used_ms: int
    realm: Index | None = None
    """What gave it (gamed.identity.realm); None: this server."""


class WaysIn(Struct, frozen=True):
    """What the owner's configuration lets sign in."""

    local: bool
    realms: frozenset[Index] = frozenset()

    def open_to(self, identity: Identity) -> bool:
        """A provider that was taken out, or has another issuer now, signs nobody in."""
        return self.local if identity.realm is None else identity.realm in self.realms


def is_last(identities: Iterable[Identity], provider: str, ways: WaysIn) -> bool:
    """Whether nothing that can sign in would be left without this one."""
    return not any(ways.open_to(identity) for identity in identities if identity.provider != provider)
