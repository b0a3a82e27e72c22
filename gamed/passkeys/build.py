"""Builds the passkeys of a service."""

from gamed.context import ServiceContext
from gamed.passkeys.model import PasskeySite
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
