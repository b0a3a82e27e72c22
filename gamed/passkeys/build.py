"""Builds the passkeys and recovery codes of a service."""

from gamed.context import ServiceContext
from gamed.passkeys.ceremony import PasskeySite
from gamed.passkeys.recovery import RecoveryService
from gamed.passkeys.recovery_store import RecoveryStore
from gamed.passkeys.service import PasskeyService
from gamed.passkeys.store import PasskeyStore
from gamed.players.names import SignInMethods
from gamed.sessions.service import RevocationListener


def build_passkeys(context: ServiceContext, methods: SignInMethods, revoked: RevocationListener) -> PasskeyService:
    """Return the service; `revoked` is notified of players whose sessions end."""
    databases = context.databases
    return PasskeyService(
        store=PasskeyStore(reads=databases.reads, writes=databases.auth, keys=context.keys),
        site=PasskeySite.of(context.config.public_url),
        keys=context.keys,
        random=context.random,
        now_ms=context.now_ms,
        methods=methods,
        revoked=revoked,
        audit=context.audit,
    )


def build_recovery(context: ServiceContext, revoked: RevocationListener, *, on: bool) -> RecoveryService:
    """Return the service of recovery codes, which has none unless `on`; `revoked` is as for passkeys."""
    databases = context.databases
    return RecoveryService(
        store=RecoveryStore(reads=databases.reads, writes=databases.auth, keys=context.keys),
        on=on,
        random=context.random,
        now_ms=context.now_ms,
        revoked=revoked,
        audit=context.audit,
    )
