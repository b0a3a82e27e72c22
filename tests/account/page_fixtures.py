"""The player's own page with all routes that it shares data with, and browsers that visit it."""

from typing import Any
from urllib.parse import urlencode

from msgspec.structs import replace

from gamed.account.build import build_account
from gamed.config.game import SaveLimits
from gamed.context import ServiceContext
from gamed.http.app import RouteGroup
from gamed.http.spool import run_inline
from gamed.login.responder import PageResponder
from gamed.login.transaction import ClientInfo
from gamed.saves.build import build_saves, build_waits
from gamed.sessions.build import build_sessions
from gamed.sessions.credentials import generate_pair, new_session_id
from gamed.sessions.routes import SessionRoutes
from gamed.sessions.service import FirstUses
from gamed.sessions.tables import open_session
from tests.login.browser_fake_provider import ProviderCase
from tests.login.browser_fixtures import Page
from tests.login.fixtures import ANNA, PASSWORD
from tests.support.folders import unused_path
from tests.support.http import Answer, Browser, request_bytes

HOME = "/auth/account"
BERT = "ply_" + "B" * 22


class AccountBrowser:
    """A browser with cookies by name, which follows redirects of the server itself."""

    def __init__(self, site: Browser, user_agent: str = "") -> None:
        self.site, self.user_agent = site, user_agent
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
        if self.user_agent:
            sent["User-Agent"] = self.user_agent
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

    save_limits = SaveLimits()

    def setUp(self) -> None:
        self.serve()
        self.player_id = ANNA
        self.browser = self.new_account_browser()

    def more_routes(self, service: ServiceContext, pages: PageResponder) -> list[RouteGroup]:
        folder = unused_path(self)
        (folder / "tmp").mkdir(parents=True)
        game = replace(service.settings.game, saves=self.save_limits)
        service = replace(service, settings=replace(service.settings, data=folder, game=game))
        waits = build_waits(service)
        sessions = build_sessions(service, waits.changes.notify, FirstUses())
        saves = build_saves(service, sessions, waits, in_thread=run_inline, usage_of_disk=lambda: (0, 0, 2**40))
        self.account = account = build_account(service, waits.changes.notify)
        self.responder = account.responder(self.server.parts, sessions, saves, pages)
        accounts = account.routes(self.responder, self.server.parts)
        return [*accounts, SessionRoutes(sessions=sessions, detached=service.tasks), saves.save_routes, saves.exports]

    def new_account_browser(self, user_agent: str = "") -> AccountBrowser:
        return AccountBrowser(self.site, user_agent)

    def serve_providers(self, **terms: Any) -> None:
        """Serve in oauth mode with the development provider."""
        self.serve_oauth(**terms)
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
        self.refresh_credential = pair.refresh.reveal().decode()
        server.write(lambda c: open_session(c, server.keys, **values, client=info, pair=pair, now_ms=now_ms))
        return {"Authorization": f"Bearer {pair.access.reveal().decode()}"}

    def turns(self, path: str) -> int:
        """Ask for a page; return how often the reactor did other work before the answer."""
        connection = self.browser.site.connect()
        request = request_bytes("GET", path, {"Cookie": f"__Host-ga={self.browser.token}"})
        turns: list[float] = []

        def other_work() -> None:
            if not connection.transport.value():
                turns.append(self.server.clock.seconds())
                self.server.clock.callLater(0, other_work)

        self.server.clock.callLater(0, other_work)
        connection.send(request)
        self.assertEqual(connection.answer.status, 200)
        return len(turns)

    def put(self, game: dict[str, str], slot: str, data: bytes, **condition: str) -> Answer:
        wanted = {name.replace("_", "-"): value for name, value in condition.items()} or {"If-None-Match": "*"}
        return self.site.request("PUT", f"/game/saves/{slot}", {**game, **wanted}, data)

    def read(self, game: dict[str, str], slot: str) -> bytes:
        return self.site.request("GET", f"/game/saves/{slot}", game).body


def _code(page: Page) -> str:
    return page.html.partition('class="code">')[2][:7]


def _path(url: str) -> str:
    """Return the target of a request, which has no fragment."""
    return url.removeprefix("https://game.example").partition("#")[0]
