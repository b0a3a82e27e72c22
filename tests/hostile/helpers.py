"""Fixtures that run a whole server in memory with a misbehaving provider, and assert the invariants."""

from collections.abc import Callable, Mapping
from json import loads
from re import escape
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus, urlencode, urlsplit

from msgspec import Struct, field
from msgspec.structs import replace
from treq.testing import RequestTraversalAgent
from twisted.logger import LogEvent, LogLevel, formatEvent, globalLogPublisher

from gamed.config.model import Mode as ServerMode
from gamed.login import sentences
from gamed.ops.logging import LoggedSignInFailures, TwistedAuditLog
from gamed.outcomes import LoginFailure
from gamed.providers.oidc import build_providers
from tests.hostile.fake_provider import ACCESS, CLIENT_SECRET, FAKES, ISSUER, MARK, SUBJECT, settings_of
from tests.login.browser_fixtures import BASE, BrowserCase, Game, Page, PageBrowser
from tests.login.fixtures import TERMS, LoginServer
from tests.login.test_browser_routes import code as code_on
from tests.support.http import Connection
from tests.support.stores import contents

LASTING = ("player", "identity", "session", "credential", "local_account")
PROMPTLY_SECONDS = 1.0
"""Within this time a waiting game gets the outcome."""
WORDS = ("waiting_for_browser", "at_provider", "exchanging", "proof_required")
HEALING_SECONDS = 31.0
"""After this time a repaired provider can be used again."""


class SignIn(Struct, eq=False):
    """A game that waits, and its browser, which is at the provider."""

    game: Game
    browser: PageBrowser
    url: str
    """The address that the browser was redirected to."""
    code: str
    poll: Connection
    """The game's open request."""
    seen: str = "at_provider"
    pages: list[Page] = field(default_factory=list)

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.url).query))

    @property
    def state(self) -> str:
        return self.query["state"]

    def secrets(self) -> tuple[str, ...]:
        return (self.state, self.code, self.query.get("nonce") or self.state, self.query["code_challenge"])


class HostileCase(BrowserCase):
    """`self.fake` is the provider, `self.heard` the lines of the owner's log."""

    name = "idp"
    fake: Any

    def serve_hostile(self, name: str = "idp", agent: Any = None, clock: Any = None, home: str = "") -> None:
        """Serve in oauth mode with one provider; `agent` and `clock` replace those in memory."""
        self.server = server = LoginServer(self, replace(TERMS, mode=ServerMode.OAUTH, ttl_seconds=3600))
        access = replace(server.access, sign_in_failed=LoggedSignInFailures().sign_in_failed)
        context = replace(server.context, audit=TwistedAuditLog())
        authorize = replace(server.authorize, access=access)
        callbacks = replace(server.callbacks, context=context, access=access)
        server.parts = replace(server.parts, authorize=authorize, callbacks=callbacks)
        self.enable(name, agent, clock, home)
        self.sign_ins: list[SignIn] = []
        self.heard: list[tuple[LogLevel, str]] = []
        globalLogPublisher.addObserver(self._hear)
        self.addCleanup(globalLogPublisher.removeObserver, self._hear)

    def enable(self, name: str, agent: Any = None, clock: Any = None, home: str = "") -> None:
        """Add this provider to the others; from now on it is `self.fake`."""
        self.name, server = name, self.server
        self.fake = FAKES[name](server.now_ms)
        self.wire = RequestTraversalAgent(self.fake)
        settings = {name: settings_of(name, home)}
        server.providers.update(
            build_providers(settings, BASE, agent or self.wire, clock or server.clock, server.now_ms)
        )
        self.open_site()

    def repair(self) -> None:
        """Make the provider correct again."""
        held, seen = self.fake.held, self.fake.seen
        self.fake.__init__(self.server.now_ms)
        self.fake.held, self.fake.seen = held, seen

    def pass_time(self, seconds: float) -> None:
        self.server.clock.advance(seconds)
        self.wire.flush()

    # -- the parties --

    def begin(self) -> tuple[Game, PageBrowser, Page]:
        """Start a login of a game, and continue in its browser."""
        game, browser = self.game(provider=self.name), self.new_browser()
        return game, browser, browser.post(browser.get(game.url).form("/continue"))

    def depart(self) -> SignIn:
        game, browser, page = self.begin()
        return self.departed(game, browser, page)

    def departed(self, game: Game, browser: PageBrowser, page: Page) -> SignIn:
        self.assertEqual(page.status, 303, page.text)
        url = page.headers["location"]
        self.fake.visited(url)
        sign_in = self.sign_in(game, browser, game.wait(wait=25, seen="at_provider"), url)
        self.sign_ins.append(sign_in)
        return sign_in

    def sign_in(self, game: Game, browser: PageBrowser, poll: Connection, url: str = "") -> SignIn:
        return SignIn(game, browser, url, f"code-{len(self.sign_ins) + 7}", poll)

    def callback(self, sign_in: SignIn, **query: str) -> str:
        """Return the address of the callback as the provider writes it; omit empty parameters."""
        asked = {"state": sign_in.state, "code": sign_in.code, **query}
        return f"/auth/{self.name}/callback?{urlencode({name: value for name, value in asked.items() if value})}"

    def return_(self, sign_in: SignIn, waits: float = 0, **query: str) -> Page:
        """Return the browser to the callback, advance the clock by `waits` until the response, and follow to done."""
        connection = self.site.send("GET", self.callback(sign_in, **query), sign_in.browser.headers())
        if waits:
            self.pass_time(waits - 0.1)
            self.assertEqual(connection.answers, [], "given up too early")
            self.pass_time(0.1)
        self.wire.flush()
        back = Page(connection.answer)
        sign_in.pages.append(back)
        self.assertEqual(back.status, 303, back.text)
        self.assertEqual(back.headers["location"], f"{BASE}/auth/login/done?login_id={sign_in.game.login['login_id']}")
        sign_in.pages.append(sign_in.browser.get(back.headers["location"]))
        return sign_in.pages[-1]

    def poll_result(self, sign_in: SignIn) -> dict[str, Any]:
        """Return the response that the waiting game gets within a second."""
        began = self.server.clock.seconds()
        while True:
            while not sign_in.poll.answers and self.server.clock.seconds() < began + PROMPTLY_SECONDS:
                self.server.clock.advance(0.05)
            self.assertTrue(sign_in.poll.answers, "the game is not notified")
            answer = sign_in.poll.answer
            if answer.status != 202:
                return dict(answer.json)
            sign_in.poll = sign_in.game.wait(wait=25, seen=answer.json["stage"])

    def signs_in(self) -> None:
        """Sign in with a correct provider, from start to credentials."""
        sign_in = self.depart()
        self.finishes(sign_in)

    def finishes(self, sign_in: SignIn) -> None:
        page = self.return_(sign_in)
        self.assertEqual(sign_in.game.collect(finish_code=code_on(page)).json["status"], "complete")

    # -- what must be true --

    def lasting(self) -> list[Any]:
        return [self.server.rows(f"SELECT * FROM {table} ORDER BY 1, 2") for table in LASTING]

    def saves(self) -> list[Any]:
        """Return the content of every table of state.db."""
        return [*self.successResultOf(self.server.databases.state.submit(contents)).values()]

    def owner_lines(self) -> list[str]:
        return [line for level, line in self.heard if level >= LogLevel.warn]

    def ends(self, sign_in: SignIn, page: Page, outcome: LoginFailure, cause: str) -> None:
        """Assert that the game has its code, the player one sentence, the owner one line, and none another's text."""
        result = self.poll_result(sign_in)
        self.assertEqual((result["status"], result["problem"]["code"]), ("failed", outcome.value))
        title, advice = sentences.ENDED[outcome]
        self.assertEqual((page.status, page.heading), (200, title.source))
        self.assertIn(advice.source, page.text)
        self.assertEqual((page.forms, page.links), ([], []))
        [line] = self.owner_lines()
        request = escape(sign_in.pages[0].headers["x-request-id"])
        words = f"sign_in_failed provider={self.name} outcome={outcome.value} request={request} detail="
        self.assertRegex(line, rf"\A{words}[ -~]+\Z")
        detail = line.partition(" detail=")[2]
        said = loads(detail) if detail.startswith('"') else detail
        self.assertRegex(said, rf"\A[ -~]*{escape(cause)}[ -~]*\Z")
        self.assertNotIn(said, page.html)
        self.assertNotIn(said, str(result))
        self.assertNotIn("access_token", result)

    def nothing_leaks(self) -> None:
        """Assert that no log, page, response or row has a secret or a word of the provider's."""
        rows = [self.server.rows(f"SELECT * FROM {name}") for name in ("login", "authorization_attempt", *LASTING)]
        secrets = {CLIENT_SECRET, quote(CLIENT_SECRET), quote_plus(CLIENT_SECRET), ACCESS, SUBJECT, MARK, "eyJ"}
        for sign_in in self.sign_ins:
            secrets |= set(sign_in.secrets())
        texts_ = [line for _, line in self.heard] + [str(self.site.log.lines), repr(rows)]
        for sign_in in self.sign_ins:
            texts_ += [page.html + repr(page.headers) for page in sign_in.pages] + [sign_in.poll.raw.decode()]
        for text in texts_:
            self.assertEqual([secret for secret in secrets if secret in text], [], text[:500])

    def sent_once(self) -> None:
        """Assert that no code was sent twice, and the client secret only to the token endpoint."""
        codes = [call.form.get("code") for call in self.fake.seen if call.method == "POST"]
        self.assertEqual(len(codes), len(set(codes)))
        for call in self.fake.seen:
            if call.method != "POST":
                self.assertEqual(call.body, b"")
                self.assertNotIn("Basic", repr(call.headers))
                self.assertNotIn("?", call.url)

    def _hear(self, event: LogEvent) -> None:
        self.heard.append((event.get("log_level", LogLevel.info), formatEvent(event)))


def method_name(name: str) -> str:
    return "test_" + "".join(each if each.isalnum() else "_" for each in name)


def tests_of(case: type[HostileCase], modes: Any, run: Callable[[Any, Any], None]) -> None:
    """Add one test for each mode."""
    for mode in modes:

        def method(self: Any, mode: Any = mode) -> None:
            run(self, mode)

        method.__doc__ = f"{mode.name}: {mode.outcome.value if mode.outcome else 'the sign-in works'}."
        assert not hasattr(case, method_name(mode.name)), mode.name
        setattr(case, method_name(mode.name), method)


Headers = Mapping[str, str]
__all__ = ["BASE", "ISSUER", "HostileCase", "SignIn", "tests_of"]
