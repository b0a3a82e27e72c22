"""The service of passkeys: ceremonies for pages, sign-ins, and the list of a player.

A page has the ceremony sealed in its form, so that showing it writes nothing, however often a page is loaded. Once its
response is accepted, the challenge is stored as used.

See WebAuthn Level 2, 7.1 and 7.2; docs/internals/threats.md: Signing in.
"""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from gamed.audit import NULL_AUDIT_LOG, AuditLog, SecurityEvent
from gamed.crypto import DecryptionFailed, Keys, Random, base64url
from gamed.passkeys.ceremony import Ceremony, PasskeyPrompt, PasskeySite, prompt
from gamed.passkeys.errors import LastPasskey, PasskeyRefused, PasskeysFull, PasskeysOff, PasskeyUnknown, Refusal
from gamed.passkeys.limits import MAX_PASSKEYS
from gamed.passkeys.model import (
    ALGORITHMS,
    HANDLE_BYTES,
    Assertion,
    Credential,
    Passkey,
    PasskeyRegistration,
    Proven,
    new_passkey_id,
)
from gamed.players.names import SignInMethods
from gamed.sessions.credentials import AuthenticatedSession
from gamed.sessions.service import RevocationListener
from gamed.structs import Component, redacts
from gamed.timestamps import Now


@redacts("name")
class AddCommand(Struct, frozen=True):
    """A passkey that a signed-in browser has made."""

    caller: AuthenticatedSession
    response: PasskeyRegistration
    ceremony: Ceremony
    passkey_id: str
    name: str
    now_ms: int


class RemoveCommand(Struct, frozen=True):
    """A passkey that its player removes."""

    caller: AuthenticatedSession
    passkey_id: str
    now_ms: int


class Removed(Struct, frozen=True):
    """The result of a removal: the sessions that ended with it, or that nothing changed."""

    sessions: int = 0
    own_ended: bool = False
    """The requesting session is one of them."""
    last: bool = False
    """It is the player's last way to sign in, so it stays."""


class PasskeyRecords(Protocol):
    """The passkeys of auth.db, which gamed.passkeys.store.PasskeyStore implements."""

    def list(self, player_id: str) -> Awaitable[Sequence[Passkey]]: ...
    def credentials(self, player_id: str) -> Awaitable[Sequence[Credential]]: ...
    def is_known(self, credential_id: bytes) -> Awaitable[bool]: ...
    def prove(self, response: Assertion, ceremony: Ceremony, site: PasskeySite, now_ms: int) -> Awaitable[Proven]: ...
    def add(self, command: AddCommand, site: PasskeySite) -> Awaitable[Refusal | None]: ...
    def rename(self, player_id: str, passkey_id: str, name: str, now_ms: int) -> Awaitable[bool]: ...
    def remove(self, command: RemoveCommand, enabled: SignInMethods, rp_id: str) -> Awaitable[Removed | None]: ...


class PasskeyService(Component, frozen=True, kw_only=True):
    """The operations on passkeys; without a site there is no prompt, and every response is refused."""

    store: PasskeyRecords
    site: PasskeySite | None
    keys: Keys
    random: Random
    now_ms: Now
    methods: SignInMethods
    revoked: RevocationListener
    audit: AuditLog = NULL_AUDIT_LOG

    async def registration_prompt(self, caller: AuthenticatedSession, server: str, player: str) -> PasskeyPrompt:
        """Return the parts of the page that makes a passkey for this player; raise PasskeysOff or PasskeysFull.

        `server` and `player` are the names that a device shows in its list of passkeys.
        """
        if self.site is None:
            raise PasskeysOff
        if len(await self.store.list(caller.player_id)) >= MAX_PASSKEYS:
            raise PasskeysFull  # here already: the device would keep a passkey that the server refuses
        existing = await self.store.credentials(caller.player_id)
        # All passkeys of a player have one handle: a device then keeps one of them, not one for each registration.
        handle = existing[0].user_handle if existing else self.random(HANDLE_BYTES)
        ceremony = Ceremony.begin(self.random, self.now_ms(), handle)
        options = {
            "rp": {"id": self.site.rp_id, "name": server},
            "user": {"id": base64url(handle), "name": player, "displayName": player},
            "pubKeyCredParams": [{"type": "public-key", "alg": each} for each in ALGORITHMS],
            "excludeCredentials": [{"type": "public-key", "id": base64url(each.credential_id)} for each in existing],
            "authenticatorSelection": {
                "residentKey": "required",
                "requireResidentKey": True,  # WebAuthn Level 1 knows this name alone
                "userVerification": "required",
            },
            "attestation": "none",
        }
        return prompt("create", options, ceremony, self.keys, _registration_row(caller))

    async def prove(self, row: str, fields: Mapping[str, str]) -> Proven:
        """Return the player and the passkey of a posted assertion; raise PasskeyRefused. Do not cancel this."""
        if self.site is None:
            raise PasskeyRefused(Refusal.EXPIRED)
        now_ms = self.now_ms()
        ceremony = Ceremony.unseal(self.keys, row, fields.get("ceremony", ""), now_ms)
        response = Assertion.of(fields)
        try:
            known = await self.store.is_known(response.credential_id)
        except DecryptionFailed as e:  # the row was changed; the player signs in another way, and removes it
            self.audit.record(SecurityEvent.DECRYPTION_FAILED, **e.details)
            known = False
        if not known:
            raise PasskeyRefused(Refusal.UNKNOWN)
        proven = await self.store.prove(response, ceremony, self.site, now_ms)
        if proven.went_back:
            values = {"player": proven.player_id, "passkey": proven.passkey_id}
            self.audit.record(SecurityEvent.PASSKEY_COUNT_BACK, **values)
        return proven

    async def add(self, caller: AuthenticatedSession, fields: Mapping[str, str], name: str) -> None:
        """Store the passkey of a posted registration; raise PasskeyRefused or RateLimited. Do not cancel this."""
        if self.site is None:
            raise PasskeyRefused(Refusal.EXPIRED)
        now_ms = self.now_ms()
        ceremony = Ceremony.unseal(self.keys, _registration_row(caller), fields.get("ceremony", ""), now_ms)
        passkey_id = new_passkey_id(self.random)
        command = AddCommand(caller, PasskeyRegistration.of(fields), ceremony, passkey_id, name, now_ms)
        refusal = await self.store.add(command, self.site)
        if refusal is not None:
            raise PasskeyRefused(refusal, caller.player_id)
        self.audit.record(SecurityEvent.PASSKEY_ADDED, player=caller.player_id, passkey=passkey_id)

    async def rename(self, caller: AuthenticatedSession, passkey_id: str, name: str) -> None:
        """Give a passkey of the caller another name; raise PasskeyUnknown or RateLimited."""
        if not await self.store.rename(caller.player_id, passkey_id, name, self.now_ms()):
            raise PasskeyUnknown
        self.audit.record(SecurityEvent.PASSKEY_RENAMED, player=caller.player_id, passkey=passkey_id)

    async def remove(self, caller: AuthenticatedSession, passkey_id: str) -> Removed:
        """Remove a passkey of the caller, and end the sessions that it opened.

        Raise PasskeyUnknown, or LastPasskey if the player could not sign in any more.
        """
        command = RemoveCommand(caller, passkey_id, self.now_ms())
        removed = await self.store.remove(command, self.methods, self.site.rp_id if self.site else "")
        if removed is None:
            raise PasskeyUnknown
        if removed.last:
            raise LastPasskey
        values = {"player": caller.player_id, "passkey": passkey_id, "sessions": str(removed.sessions)}
        self.audit.record(SecurityEvent.PASSKEY_REMOVED, **values)
        if removed.sessions:
            self.revoked(caller.player_id)
        return removed


def _registration_row(caller: AuthenticatedSession) -> str:
    return f"register:{caller.session_id}"
