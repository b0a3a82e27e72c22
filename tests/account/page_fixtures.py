"""The player's own page with all routes that it shares data with, and browsers that visit it."""

from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from twisted.internet.defer import Deferred

from gamed.account.browser import AccountPage, AccountSignIn
from gamed.account.browser_routes import AccountRoutes, AccountServices
from gamed.account.browser_store import AccountPageStore
from gamed.account.guard import AccountGuard
from gamed.account.links import InviteService, ResetService
from gamed.account.links_routes import LinkRoutes
from gamed.account.links_store import LinkStore
from gamed.account.pages.account import SignInChoice
from gamed.account.routes import PlayerRoutes
from gamed.account.service import AccountService, RemovalService
from gamed.account.store import PlayerStore
from gamed.config.game import SaveLimits
from gamed.config.model import Mode
from gamed.http.app import RouteGroup
from gamed.http.spool import run_inline
from gamed.login.browser_routes import PageResponder
from gamed.login.transaction import ClientInfo
from gamed.long_poll import LongPollRegistry
from gamed.ops.logging import TwistedAuditLog
from gamed.players.names import SignInMethods
from gamed.providers.discovery import namespace_indexes
from gamed.saves.batch_routes import ExportRoutes
from gamed.saves.change_waits import ChangeWaiters
from gamed.saves.erase import EraseService
from gamed.saves.erase_store import EraseStore
from gamed.saves.export import ExportService
from gamed.saves.export_store import ExportArchive
from gamed.saves.limits import DiskReservations, PlayerRateLimiter
from gamed.saves.routes import SaveRoutes
from gamed.saves.service import SaveEnvironment, SaveService
from gamed.saves.store import SaveStore
from gamed.saves.uploads import SaveBodyPolicy, UploadAdmission
from gamed.sessions.credentials import CredentialIssuer, generate_pair, new_session_id
from gamed.sessions.routes import SessionRoutes
from gamed.sessions.service import SessionService
from gamed.sessions.store import SessionStore
from gamed.sessions.tables import open_session
from tests.login.browser_fake_provider import DISCORD, GOOGLE, ProviderCase
from tests.login.browser_fixtures import Page
from tests.login.fixtures import ANNA, PASSWORD
from tests.support.http import Answer, Browser

HOME = "/auth/account"
BERT = "ply_" + "B" * 22


class AccountBrowser:
    """A browser with cookies by name, which follows redirects of the server itself."""

    def __init__(self, site: Browser) -> None:
        self.site = site
        self.cookies: dict[str, str] = {}

    def get(self, url: str, **headers: str) -> Page:
        return self._follow(self.ask("GET", url, **headers))

    def ask(self, method: str, url: str, **headers: str) -> Answer:
        """Send a request without following a redirect."""
        return self._keep(self.site.request(method, _path(url), self._headers(headers)))

    def post(self, form: dict[str, Any], typed: dict[str, str] | None = None, **headers: str) -> Page:
        return self._follow(self.post_only(form, typed, **headers))

    def post_only(self, form: dict[str, Any], typed: dict[str, str] | None = None, **headers: str) -> Answer:
        """Send a form without following a redirect."""
        fields = urlencode({**form["fields"], **(typed or {})})
        sent = {"Sec_Fetch_Site": "same-origin", "Sec_Fetch_Dest": "document", **headers}
        return self._keep(self.site.post_form(form["action"], fields, self._headers(sent)))

    def sign_in(self, name: str = "Anna", password: str = PASSWORD) -> Page:
        """Sign in with a local account."""
        return self.post(self.get(HOME).form("/sign-in"), {"name": name, "password": password})

    @property
    def token(self) -> str | None:
        """Return the cookie of the browser session."""
        return self.cookies.get("__Host-ga")

    def _headers(self, more: dict[str, str]) -> dict[str, str]:
        sent = {name.replace("_", "-"): value for name, value in more.items()}
        if self.cookies:
            sent["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        return sent

    def _keep(self, answer: Answer) -> Answer:
        for cookie in answer.cookies:
            name, _, value = cookie.partition(";")[0].partition("=")
            self.cookies[name] = value
            if not value:
                del self.cookies[name]
        return answer

    def _follow(self, answer: Answer) -> Page:
        for _ in range(5):
            location = answer.headers.get("location", "")
            if answer.status != 303 or not location.startswith("https://game.example"):
                break
            answer = self.ask("GET", location)
        return Page(answer)


class AccountCase(ProviderCase):
    """A test of the page in local mode, with Anna's account; `serve_oauth()` changes the mode."""

    def setUp(self) -> None:
        self.serve()
        self.player_id = ANNA
        self.browser = self.new_account_browser()

    def more_routes(self, pages: PageResponder) -> list[RouteGroup]:
        server, databases, tasks = self.server, self.server.databases, pages.tasks
        keys, random, now_ms = server.keys, server.random, server.now_ms
        folder = Path(self.mktemp()).absolute()
        folder.mkdir()
        limits = SaveLimits()
        waiters = ChangeWaiters(LongPollRegistry(server.clock), databases)
        audit = TwistedAuditLog(server.security.append)
        self.issuer = CredentialIssuer(keys, server.terms.session, random)
        sessions = SessionService(
            SessionStore(databases.reads, databases.auth, self.issuer), waiters.revoked, now_ms, audit
        )
        environment = SaveEnvironment(limits, now_ms, random, waiters)
        store = SaveStore(databases, keys, limits, PlayerRateLimiter.of_lists())
        saves = SaveService(store, sessions, environment, PlayerRateLimiter.of(limits))
        disk = DiskReservations(lambda: 2**40, limits.min_free_bytes)
        uploads = UploadAdmission(limits, folder, disk, _inline)
        erase_store = EraseStore(databases, random)
        erase = EraseService(saves, erase_store, environment)
        exports = ExportRoutes(
            ExportService(saves, partial(ExportArchive, databases, folder), disk), tasks, server.clock
        )
        players = PlayerStore(databases.reads, databases.auth, keys)
        oauth = server.terms.mode is Mode.OAUTH
        methods = SignInMethods(not oauth, namespace_indexes(keys.indexer, (DISCORD, GOOGLE) if oauth else ()))
        removals = RemovalService(players, erase_store, now_ms, audit)
        account = AccountService(players, removals, waiters.revoked, methods, now_ms, audit)
        accounts = AccountPageStore(databases.reads, databases.auth, keys)
        login = server.context, server.store, accounts, server.authorize, server.passwords, server.waiters
        page = AccountPage(server.context, accounts, sessions, account, saves, server.passwords, waiters.revoked)
        sign_in, guard = AccountSignIn(*login), AccountGuard(pages.guard)
        links = LinkStore(databases.reads, databases.auth, keys)
        invites = InviteService(server.context, links, server.store, server.passwords, sign_in)
        resets = ResetService(server.context, links, server.store, server.passwords, waiters.revoked)
        services = AccountServices(sign_in, page, sessions, account, saves, exports)
        labels = {name: provider.label for name, provider in server.providers.items()}
        return [
            AccountRoutes(services, guard, SignInChoice(labels), pages),
            LinkRoutes(invites, resets, guard, labels, pages),
            SessionRoutes(sessions, tasks),
            PlayerRoutes(sessions, account, tasks),
            SaveRoutes(saves, tasks, SaveBodyPolicy(saves, limits, uploads), erase),
            exports,
        ]

    def new_account_browser(self) -> AccountBrowser:
        return AccountBrowser(self.site)

    def serve_providers(self, **terms: Any) -> None:
        """Serve in oauth mode with the development provider."""
        self.serve_oauth(**{"providers": ("discord", "google"), **terms})
        self.browser = self.new_account_browser()

    def sign_in_at(
        self, provider: str = "discord", person: str = "anna", browser: AccountBrowser | None = None
    ) -> Page:
        """Sign in to the page at a provider."""
        visitor = browser or self.browser
        away = visitor.post(visitor.get(HOME).form("/sign-in", provider=provider))
        return visitor.get(self.at_provider(away, person))

    def play_at(self, provider: str = "discord", person: str = "anna") -> dict[str, str]:
        """Sign in from a game at a provider, which makes the player; return the game's header."""
        game, browser = self.game(provider=provider), self.new_browser()
        shown = self.signed_in(browser, game.url, person)
        collected = game.collect(finish_code=shown.text.partition("in the game. ")[2][:7] or _code(shown))
        self.player_id = collected.json["player"]["id"]
        return {"Authorization": f"Bearer {collected.json['access_token']}"}

    def play(self, player_id: str = ANNA, **client: str) -> dict[str, str]:
        """Sign a game in without a browser; return its header."""
        server, now_ms = self.server, self.server.now_ms()
        pair = generate_pair(server.random, now_ms, server.terms.session, now_ms)
        self.session_id = new_session_id(server.random)
        values = {"session_id": self.session_id, "player_id": player_id, "provider": "local", "login_id": None}
        info = ClientInfo.of(client).to_json()
        server.write(lambda c: open_session(c, server.keys, **values, client=info, pair=pair, now_ms=now_ms))
        return {"Authorization": f"Bearer {pair.access.reveal().decode()}"}

    def put(self, game: dict[str, str], slot: str, data: bytes, **condition: str) -> Answer:
        wanted = {name.replace("_", "-"): value for name, value in condition.items()} or {"If-None-Match": "*"}
        return self.site.request("PUT", f"/game/saves/{slot}", {**game, **wanted}, data)

    def read(self, game: dict[str, str], slot: str) -> bytes:
        return self.site.request("GET", f"/game/saves/{slot}", game).body


def _code(page: Page) -> str:
    return page.html.partition('class="code">')[2][:7]


def _inline(work: Any) -> Deferred[None]:
    return run_inline(work)


def _path(url: str) -> str:
    return url.removeprefix("https://game.example")
