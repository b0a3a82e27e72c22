"""HTTP requests of a game and of browsers to the routes of a login."""

from functools import partial
from html.parser import HTMLParser
from json import dumps
from typing import Any
from urllib.parse import urlencode, urlsplit

from msgspec.structs import replace
from twisted.trial.unittest import SynchronousTestCase

from gamed.account.home_routes import render_for_any
from gamed.bounded_threads import WorkThreads
from gamed.config.model import Look
from gamed.context import ServiceContext
from gamed.http.app import RouteGroup
from gamed.http.background import ShieldedTasks
from gamed.http.settings import HttpSettings
from gamed.login.build import build_pages
from gamed.login.responder import PageResponder
from tests.login.fixtures import PASSWORD, TERMS, LoginServer
from tests.support.http import BASE_HOST, Answer, Browser, Connection

BASE = f"https://{BASE_HOST}"


VOID = {"br", "img", "input", "link", "meta"}
"""The elements of our pages that have no end."""


class Page(HTMLParser):
    """A page as a person and a browser read it."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.status, self.headers = answer.status, answer.headers
        self.forms: list[dict[str, Any]] = []
        self.links: list[str] = []
        self.languages: list[str] = []
        """The links that choose a language."""
        self.tags: set[str] = set()
        self.labels: list[str] = []
        """The texts that a screen reader reads in place of those of elements."""
        self.words: list[str] = []
        self.titles: dict[str, str] = {}
        self._inside: list[str] = []
        self.html = answer.body.decode("utf-8")
        self.feed(self.html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self.tags.add(tag)
        if label := named.get("aria-label"):
            self.labels.append(label)
        if tag not in VOID:
            self._inside.append(tag)
        if tag == "form":
            form = {"action": named["action"], "method": named["method"], "fields": {}}
            self.forms.append({**form, "options": named.get("data-options")})
        elif tag == "input" and (named.get("type") != "checkbox" or "checked" in named):
            self.forms[-1]["fields"][named["name"]] = named.get("value") or ""
        elif tag == "a":
            links = self.languages if "hreflang" in named else self.links
            links.append(named["href"] or "")

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        for name in ("h1", "title"):
            if name in self._inside:
                self.titles[name] = self.titles.get(name, "") + data
        if "style" not in self._inside and "script" not in self._inside:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    @property
    def heading(self) -> str:
        return self.titles["h1"]

    def form(self, action: str, **marks: str) -> dict[str, Any]:
        """Return the form to `.../{action}` whose fields hold `marks`, by default the first."""
        found = [f for f in self.forms if f["action"].endswith(action) and marks.items() <= f["fields"].items()]
        return found[0]


class PageBrowser:
    """A browser with a cookie that sends a browser's headers and follows no redirect by itself."""

    def __init__(self, site: Browser) -> None:
        self.site = site
        self.cookie: str | None = None

    def headers(self, **more: str) -> dict[str, str]:
        sent = {"Cookie": self.cookie} if self.cookie else {}
        return {**sent, **{name.replace("_", "-"): value for name, value in more.items()}}

    def get(self, url: str, **headers: str) -> Page:
        return self._page(self.site.get(_path(url), self.headers(**headers)))

    def post(self, form: dict[str, Any], typed: dict[str, str] | None = None, **headers: str) -> Page:
        fields = urlencode({**form["fields"], **(typed or {})})
        sent = {"Sec_Fetch_Site": "same-origin", "Sec_Fetch_Dest": "document", **headers}
        return self._page(self.site.post_form(form["action"], fields, self.headers(**sent)))

    def sign_in(self, url: str, name: str = "Anna", password: str = PASSWORD) -> Page:
        return self.post(self.get(url).form("/local"), {"name": name, "password": password})

    def create(self, url: str, name: str, password: str = PASSWORD) -> Page:
        return self.post(self.get(f"{url}/create").form("/local", create="yes"), {"name": name, "password": password})

    def _page(self, answer: Answer) -> Page:
        for cookie in answer.cookies:
            self.cookie = cookie.split(";")[0]
        return Page(answer)


class Game:
    """A game client with one login."""

    def __init__(self, site: Browser, token: str | None = None, **body: Any) -> None:
        self.site = site
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self.answer = site.post_json("/auth/login", body, headers)
        self.login = self.answer.json
        self.url = self.login.get("login_url")

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.login['device_secret']}"}

    def collect(self, **body: Any) -> Answer:
        return self.site.post_json("/auth/login/collect", body, self.bearer)

    def wait(self, **body: Any) -> Connection:
        """Begin a collect that may be answered later."""
        headers = {"Content-Type": "application/json", **self.bearer}
        return self.site.send("POST", "/auth/login/collect", headers, dumps(body).encode())

    def cancel(self) -> Answer:
        return self.site.request("POST", "/auth/login/cancel", self.bearer)


class BrowserCase(SynchronousTestCase):
    """A test with the routes of a login, Anna's account, and a game."""

    base = BASE
    server_name: str | None = "Anna's Arena"
    look: Look | None = None
    drawing_threads: WorkThreads | None = None
    """The threads that draw QR codes; None draws at once."""

    def serve(self, passwords_per_minute: int = 0, **terms: Any) -> Browser:
        self.server = LoginServer(self, replace(TERMS, **terms), passwords_per_minute, threads=self.drawing_threads)
        return self.open_site()

    def open_site(self, policy: HttpSettings | None = None) -> Browser:
        server, service = self.server, self.server.service
        config = replace(service.config, public_url=self.base, server_name=self.server_name, look=self.look)
        service = replace(service, settings=replace(service.settings, config=config), tasks=ShieldedTasks())
        pages = build_pages(service, replace(server.access, public_url=self.base))
        groups = [*server.parts.routes(pages), *self.more_routes(service, pages)]
        unknown = partial(render_for_any, pages)
        self.site = Browser(groups, policy, clock=server.clock, now_ms=server.now_ms, render_unknown=unknown)
        return self.site

    def more_routes(self, service: ServiceContext, pages: PageResponder) -> list[RouteGroup]:
        """Return further routes of the site; none by default."""
        return []

    def game(self, **body: Any) -> Game:
        """Start a login; `token` is an access token to send."""
        return Game(self.site, **body)

    def new_browser(self) -> PageBrowser:
        return PageBrowser(self.site)


def _path(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}" if parts.query else parts.path
