"""The store of passkeys runs each operation as one transaction of auth.db.

A response is verified inside the transaction that stores its use: so a challenge works once in all processes. The
library that verifies signatures is imported in a thread: soon after the start if there are passkeys
(gamed/ops/late_modules.py), else by the read before the first one is made, or used in another process.
"""

from collections.abc import Sequence
from functools import partial

from twisted.internet.defer import Deferred

from gamed.crypto import Keys, Purpose
from gamed.database import rate_limits
from gamed.database.connection import Connection, is_storable
from gamed.database.queues import ReadQueue, WriteQueue
from gamed.passkeys import tables, ways_tables
from gamed.passkeys.ceremony import Ceremony, PasskeySite
from gamed.passkeys.errors import PasskeyRefused, Refusal
from gamed.passkeys.limits import MAX_PASSKEYS
from gamed.passkeys.model import Assertion, Credential, Passkey, Proven
from gamed.passkeys.service import AddCommand, RemoveCommand, Removed
from gamed.players import tables as player_tables
from gamed.players.names import SignInMethods
from gamed.rate_limit import RateLimit
from gamed.sessions import tables as session_tables
from gamed.structs import Component

CHANGES = RateLimit(interval_ms=6_000, burst=2 * MAX_PASSKEYS)
"""How often one player may add or rename passkeys."""


class PasskeyStore(Component, frozen=True, kw_only=True):
    """The passkeys of auth.db; every method raises DatabaseError."""

    reads: ReadQueue
    writes: WriteQueue
    keys: Keys

    def list(self, player_id: str) -> Deferred[Sequence[Passkey]]:
        return self.reads.submit(partial(tables.list_of, keys=self.keys, player_id=player_id))

    def credentials(self, player_id: str) -> Deferred[Sequence[Credential]]:
        """Return those of a player's passkeys, before another is made: a server that cannot verify it must say so."""

        def read(connection: Connection) -> Sequence[Credential]:
            _import_rules()
            return tables.credentials_of(connection, self.keys, player_id)

        return self.reads.submit(read)

    def is_known(self, credential_id: bytes) -> Deferred[bool]:
        """Return whether a credential is one of this server, without a write: anyone may send any id.

        Raise DecryptionFailed.
        """

        def read(connection: Connection) -> bool:
            known = tables.find(connection, self.keys, credential_id) is not None
            if known:
                _import_rules()
            return known

        return self.reads.submit(read)

    def prove(self, response: Assertion, ceremony: Ceremony, site: PasskeySite, now_ms: int) -> Deferred[Proven]:
        """Verify an assertion and store its use; raise PasskeyRefused, which stores nothing."""
        prove = partial(prove_passkey, keys=self.keys, ceremony=ceremony, site=site, now_ms=now_ms)
        return self.writes.submit(partial(prove, response=response))

    def add(self, command: AddCommand, site: PasskeySite) -> Deferred[Refusal | None]:
        """Verify a registration and store the passkey; return why it was refused. Raise RateLimited."""
        return self.writes.submit(partial(add_passkey, keys=self.keys, command=command, site=site))

    def rename(self, player_id: str, passkey_id: str, name: str, now_ms: int) -> Deferred[bool]:
        """Store another name; return False if the player has no such passkey. Raise RateLimited."""

        def transaction(connection: Connection) -> bool:
            _count_change(connection, self.keys, player_id, now_ms)
            return is_storable(passkey_id) and tables.rename(connection, self.keys, passkey_id, player_id, name)

        return self.writes.submit(transaction, keys=(player_id, rate_limits.LIMITS))

    def remove(self, command: RemoveCommand, enabled: SignInMethods, rp_id: str) -> Deferred[Removed | None]:
        """Delete a passkey and end its sessions; return None if the player has no such passkey."""
        remove = partial(remove_passkey, command=command, enabled=enabled, rp_id=rp_id)
        return self.writes.submit(remove, keys=(command.caller.player_id, session_tables.LOGINS))


def _import_rules() -> None:
    """Import what verifies responses in a transaction that only reads: one that writes would keep other writers out."""
    import gamed.passkeys.passkey_rules  # noqa: F401 - the transactions that write import it from the cache


def prove_passkey(
    connection: Connection, *, keys: Keys, response: Assertion, ceremony: Ceremony, site: PasskeySite, now_ms: int
) -> Proven:
    """Read, verify, write; PasskeyStore.prove() describes the rest."""
    from gamed.passkeys.passkey_rules import check_assertion

    stored = tables.find(connection, keys, response.credential_id)
    if stored is None:
        raise PasskeyRefused(Refusal.UNKNOWN)
    use = check_assertion(response, ceremony, site, stored)
    if not tables.use_challenge(connection, keys.indexer, ceremony, now_ms):
        raise PasskeyRefused(Refusal.EXPIRED, stored.player_id)
    tables.record_use(connection, stored.passkey_id, use, now_ms)
    return Proven(stored.player_id, stored.passkey_id, use.went_back)


def add_passkey(connection: Connection, keys: Keys, command: AddCommand, site: PasskeySite) -> Refusal | None:
    """Read, verify, write; PasskeyStore.add() describes the rest. A refusal is a value, so that it counts, too."""
    _count_change(connection, keys, command.caller.player_id, command.now_ms)
    try:
        _add(connection, keys, command, site)
    except PasskeyRefused as e:
        return e.refusal
    return None


def _add(connection: Connection, keys: Keys, command: AddCommand, site: PasskeySite) -> None:
    """Raise PasskeyRefused before anything is written.

    The session is read here once more: it may have ended since the request was authenticated.
    """
    from gamed.passkeys.passkey_rules import check_registration

    player_id, now_ms = command.caller.player_id, command.now_ms
    if session_tables.living_player(connection, command.caller.session_id, now_ms) != player_id:
        raise PasskeyRefused(Refusal.EXPIRED, player_id)
    if ways_tables.count_passkeys(connection, player_id) >= MAX_PASSKEYS:
        raise PasskeyRefused(Refusal.TOO_MANY, player_id)
    new = check_registration(command.response, command.ceremony, site)
    owner_id = tables.owner_of(connection, keys.indexer, new.credential.credential_id)
    if owner_id is not None:  # the ids of other players' credentials are not to be found out by trying
        raise PasskeyRefused(Refusal.KNOWN if owner_id == player_id else Refusal.OTHER_PLAYER, player_id)
    if not tables.use_challenge(connection, keys.indexer, command.ceremony, now_ms):
        raise PasskeyRefused(Refusal.EXPIRED, player_id)
    named = {"passkey_id": command.passkey_id, "player_id": player_id, "rp_id": site.rp_id, "name": command.name}
    tables.insert(connection, keys, new, **named, now_ms=now_ms)


def remove_passkey(
    connection: Connection, command: RemoveCommand, enabled: SignInMethods, rp_id: str
) -> Removed | None:
    """Delete a passkey and end the sessions that it opened, the requesting one last.

    With `last` nothing changed: the player could not sign in any more. Passkeys of another host than `rp_id`, which is
    "" where browsers allow none, sign nobody in.
    """
    player_id, own, passkey_id = command.caller.player_id, command.caller.session_id, command.passkey_id
    hosts = tables.hosts_of(connection, player_id)
    if passkey_id not in hosts:
        return None
    usable = [each for each, host in hosts.items() if host == rp_id]
    methods = player_tables.sign_in_methods(connection, player_id)
    if usable == [passkey_id] and not any(enabled.is_enabled(each) for each in methods):
        return Removed(last=True)
    opened = tables.sessions_of(connection, passkey_id, player_id)
    for session_id in sorted(opened, key=lambda session_id: session_id == own):
        session_tables.revoke_any(connection, session_id, command.now_ms)
    tables.delete(connection, passkey_id, player_id)
    return Removed(sessions=len(opened), own_ended=own in opened)


def _count_change(connection: Connection, keys: Keys, player_id: str, now_ms: int) -> None:
    bucket = keys.indexer.index(Purpose.LIMIT, b"passkey", player_id.encode())
    rate_limits.acquire(connection, {bucket: CHANGES}, now_ms)
