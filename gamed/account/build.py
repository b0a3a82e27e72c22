"""Builds a player's page, sign-in methods and removal, invites and reset links, and their routes."""

from collections.abc import Sequence
from contextlib import suppress

from msgspec import Struct

from gamed.account.action_routes import ActionRoutes
from gamed.account.browser import AccountPage, AccountSignIn
from gamed.account.browser_routes import AccountRoutes
from gamed.account.browser_store import AccountPageStore
from gamed.account.guard import AccountGuard
from gamed.account.home_routes import HomeRoutes
from gamed.account.links import InviteService, ResetService
from gamed.account.links_routes import LinkRoutes
from gamed.account.links_store import LinkStore
from gamed.account.own_data import OwnData
from gamed.account.responder import AccountResponder, AccountServices
from gamed.account.routes import PlayerRoutes
from gamed.account.service import AccountService, RemovalService
from gamed.account.store import PlayerStore
from gamed.account.views import SignInChoice
from gamed.context import ServiceContext
from gamed.database.errors import DatabaseError
from gamed.http.app import RouteGroup
from gamed.login.build import LoginComponents, enabled_methods
from gamed.login.responder import PageResponder
from gamed.ops.stored_events import CommandLogger
from gamed.saves.build import SaveComponents
from gamed.saves.erase_store import EraseStore
from gamed.sessions.service import RevocationListener, SessionService

ERASING_COMMANDS = frozenset({"players erase", "players merge"})
"""The commands after which the write-ahead logs may hold what was erased."""


class AccountComponents(Struct, frozen=True, kw_only=True, eq=False):
    """Players' own accounts (docs/protocol.md: Accounts), their removal, and the log entries of operators' commands."""

    account: AccountService
    removals: RemovalService
    commands: CommandLogger
    context: ServiceContext
    revoked: RevocationListener

    def responder(
        self, login: LoginComponents, sessions: SessionService, saves: SaveComponents, pages: PageResponder
    ) -> AccountResponder:
        """Return the answers to signed-in browsers, which the owner's page shares."""
        context, databases, guard = login.context, self.context.databases, AccountGuard(browsers=pages.guard)
        store = AccountPageStore(reads=databases.reads, writes=databases.auth, keys=context.keys)
        sign_in = AccountSignIn(
            context=context,
            logins=login.store,
            store=store,
            authorize=login.authorize,
            passwords=login.passwords,
            passkeys=login.passkeys,
            recovery=login.recovery,
            waiters=login.waiters,
        )
        page = AccountPage(
            context=context,
            store=store,
            sessions=sessions,
            account=self.account,
            saves=saves.saves,
            passwords=login.passwords,
            ways=login.passkeys.ways,
            passkeys=login.passkeys.service,
            recovery=login.recovery.codes,
            revoked=self.revoked,
        )
        own_data = OwnData(
            store=store,
            sessions=sessions,
            account=self.account,
            ways=login.passkeys.ways,
            now_ms=context.now_ms,
        )
        services = AccountServices(sign_in, page, sessions, self.account, saves.saves, saves.exports, own_data)
        providers = self.context.config.providers.values()
        choice = SignInChoice(login.labels, [each.label for each in providers if not each.asks_again])
        return AccountResponder(services=services, guard=guard, choice=choice, pages=pages, keys=context.keys)

    def routes(self, responder: AccountResponder, login: LoginComponents) -> Sequence[RouteGroup]:
        context, databases, services = login.context, self.context.databases, responder.services
        guard, pages = responder.guard, responder.pages
        links = LinkStore(reads=databases.reads, writes=databases.auth, keys=context.keys)
        invites = InviteService(
            context=context,
            store=links,
            logins=login.store,
            passwords=login.passwords,
            sign_in=services.sign_in,
        )
        resets = ResetService(
            context=context,
            store=links,
            logins=login.store,
            passwords=login.passwords,
            ways=login.passkeys.ways,
            revoked=self.revoked,
        )
        return (
            HomeRoutes(pages=pages),
            PlayerRoutes(sessions=services.sessions, account=self.account, detached=pages.tasks),
            AccountRoutes(responder=responder),
            ActionRoutes(responder=responder),
            LinkRoutes(invites=invites, resets=resets, guard=guard, labels=login.labels, pages=pages),
        )

    async def clean_up(self) -> None:
        """Log the commands of operators, which needs auth.db alone, then finish removals; raise DatabaseError."""
        commands = await self.commands.log()
        await self.removals.resume()
        if not ERASING_COMMANDS.isdisjoint(commands):  # it has ended, or resume() has ended its work
            self.context.databases.clear_logs()

    async def close(self) -> None:
        """Log the commands of operators before the databases close; the next start logs those that fail now."""
        with suppress(DatabaseError):
            await self.commands.log()


def build_account(context: ServiceContext, revoked: RevocationListener) -> AccountComponents:
    """Return the accounts over the databases of the context; `revoked` is notified of players who are removed."""
    config, databases, now_ms, audit = context.config, context.databases, context.now_ms, context.audit
    players = PlayerStore(reads=databases.reads, writes=databases.auth, keys=context.keys)
    methods = enabled_methods(config, context.keys.indexer)
    removals = RemovalService(
        records=players,
        saves=EraseStore(databases=databases, random=context.random, now_ms=now_ms),
        now_ms=now_ms,
        audit=audit,
    )
    return AccountComponents(
        account=AccountService(
            store=players, removals=removals, revoked=revoked, methods=methods, now_ms=now_ms, audit=audit
        ),
        removals=removals,
        commands=CommandLogger(reads=databases.reads, writes=databases.auth, audit=audit),
        context=context,
        revoked=revoked,
    )
