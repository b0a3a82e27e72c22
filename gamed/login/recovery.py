"""A player signs in with a recovery code on the page of a login or of the account, instead of a password or passkey.

See docs/owners/configuration.md: Limits.
"""

from typing import TYPE_CHECKING

from gamed.audit import SecurityEvent
from gamed.login.keys import RecoveryAccount
from gamed.login.local import FormError, PasswordAuthenticator, SignInForm, SignInRejected
from gamed.players.errors import NameMalformed
from gamed.players.names import name_index, parse_name
from gamed.sessions.credentials import RECOVERY_CODE
from gamed.structs import Component, Late

if TYPE_CHECKING:
    from gamed.passkeys.recovery import RecoveryService


class RecoveryAuthenticator(Component, frozen=True, kw_only=True):
    """The check of a typed name and recovery code, which counts with the passwords of that name and address."""

    passwords: PasswordAuthenticator
    codes: Late["RecoveryService"]

    async def authenticate(self, form: SignInForm, typed: str) -> RecoveryAccount:
        """Return the account of the name, if the code is one of its player; raise SignInRejected.

        The code is used up when the session opens, so that a sign-in that ends before costs none.
        """
        await self.passwords.limit(form)
        indexer = self.passwords.context.keys.indexer
        try:
            name = name_index(indexer, parse_name(form.name))
        except NameMalformed:
            name = name_index(indexer, "")  # found nowhere, with the reads of an unknown name
        found = await self.codes.get().find(name, typed)
        if found.index is None:
            values = {"provider": RECOVERY_CODE, "outcome": "wrong_recovery_code", "request": form.request_id}
            if found.player_id:  # as with a wrong password, its player reads it in the account
                values["player"] = found.player_id
            self.passwords.context.audit.record(SecurityEvent.SIGN_IN_REFUSED, **values)
            raise SignInRejected(FormError.RECOVERY)
        return RecoveryAccount(found.player_id, found.index)
