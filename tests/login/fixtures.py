"""The services of a login over databases in memory, with a manual clock and repeatable bytes."""

from collections.abc import Collection, Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlencode, urlsplit

from argon2 import PasswordHasher
from msgspec.structs import replace
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from gamed.bounded_threads import WorkThreads
from gamed.config.model import Config, LoginSettings, Mode, Provider, Registration, ReturnProofSetting, SessionLifetimes
from gamed.crypto import Index, Keys, Secret
from gamed.login.authorize import RedirectToProvider
from gamed.login.browser import (
    Declined,
    RedirectToResult,
    ReturnToGame,
    ShowFinishCode,
)
from gamed.login.build import build_login
from gamed.login.callback import CallbackRequest
from gamed.login.collect import Collected, CollectRequest, CollectService
from gamed.login.keys import LoginLookup, PresentedProof, secret_index
from gamed.login.local import SignInForm
from gamed.login.policy import LoginPolicy, ProviderAccess
from gamed.login.routes import drawing_threads
from gamed.login.start import StartedLogin, StartRequest
from gamed.login.transaction import LoginIntent, LoginTransaction
from gamed.ops.logging import TwistedAuditLog
from gamed.ops.stored_events import StoringAuditLog
from gamed.outcomes import LoginFailure
from gamed.players import tables as player_tables
from gamed.players.passwords import AsyncPasswordHasher
from gamed.providers.base import IdentityProvider
from gamed.sessions.build import build_sessions
from gamed.sessions.credentials import SessionPolicy
from gamed.sessions.service import FirstUses
from tests.login.examples import BROWSER, START_MS, CountingRandom
from tests.support.components import service_context
from tests.support.databases import InlineReactor, InlineThreads, databases_of_another_process, memory_databases

T = TypeVar("T")
ANNA, PASSWORD = "ply_" + "A" * 22, "correct horse"
QUICK_HASHER = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
"""The least work: each of a thousand hashes would need 30 ms. tests/players has hashes of the real cost."""
PASSWORD_HASH = QUICK_HASHER.hash(PASSWORD)
TERMS = LoginPolicy(mode=Mode.LOCAL, session=SessionPolicy(900, 2_592_000), ttl_seconds=600)


BASE = "https://game.example"
ADDRESS, REQUEST = "203.0.113.7", "req-1"


class QuickPasswordHasher(AsyncPasswordHasher):
    """Hashes with the least work, and verifies the password of an unknown account with as little."""

    async def hash(self, password: Secret) -> str:
        return await self._threads.run(lambda: QUICK_HASHER.hash(password.reveal()))

    async def verify(self, encoded: str | None, password: Secret) -> bool:
        return await super().verify(encoded or PASSWORD_HASH, password) and encoded is not None


def config_of(terms: LoginPolicy, providers: Mapping[str, Provider]) -> Config:
    """Return the configuration that has these terms and providers."""
    session = terms.session
    return Config(
        mode=terms.mode,
        public_url=BASE,
        providers=providers,
        session=SessionLifetimes(
            session.access_seconds, session.refresh_seconds, terms.ttl_seconds, session.max_lifetime_seconds
        ),
        login=LoginSettings(terms.return_proof, terms.registration, terms.app_links),
        limits=terms.limits,
        cors_origins=terms.web_origins,
    )


class FailureLines:
    """The operator's log as a list of lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def sign_in_failed(self, provider: str, outcome: LoginFailure, cause: str, request_id: str) -> None:
        self.lines.append(f"failed {provider} {outcome.value} {request_id}: {cause}")


class LoginServer:
    """A login server in memory with one player, Anna, who has a local account."""

    def __init__(
        self,
        test: SynchronousTestCase,
        terms: LoginPolicy = TERMS,
        passwords_per_minute: int = 0,
        providers: Mapping[str, IdentityProvider] | None = None,
        *,
        beside: "LoginServer | None" = None,
        configured: Mapping[str, Provider] | None = None,
        threads: WorkThreads | None = None,
    ) -> None:
        """Build a server with its own databases, or another process of the server `beside`.

        `providers` are those of the logins; `configured` have the settings of which some are made.
        `threads` draw QR codes, by default at once.
        """
        self.clock = Clock()
        self.shift_ms = 0
        self.database_clock = reactor = InlineReactor()
        self.random = beside.random if beside else CountingRandom()
        self.keys = Keys.of(Secret(b"k" * 32), self.random)
        if beside is None:
            self.databases = memory_databases(test, self.now_ms, reactor)
        else:
            self.databases = databases_of_another_process(test, beside.databases, self.now_ms, reactor)
        limits = replace(terms.limits, passwords_per_minute=passwords_per_minute)
        self.terms = replace(terms, limits=limits)
        self.security: list[str] = []
        self.revoked: list[str] = []
        """The players of whom a session ended because they were too many."""
        self.audit = StoringAuditLog(TwistedAuditLog(self.security.append), self.databases.auth, self.now_ms)
        self.living: set[str] = set()
        self.providers = dict(providers or {})
        self.log = FailureLines()
        self.access = ProviderAccess(
            providers=self.providers, public_url=BASE, port=lambda: 0, sign_in_failed=self.log.sign_in_failed
        )
        self.service = service_context(
            self.keys,
            self.databases,
            self.audit,
            self.now_ms,
            config=config_of(self.terms, configured or {}),
            reactor=self.clock,
            random=self.random,
            instance_id="first",
        )
        uses = FirstUses()
        self.sessions = build_sessions(self.service, lambda player_id: None, uses)
        hasher = QuickPasswordHasher(reactor, InlineThreads())
        self.parts = parts = build_login(
            self.service,
            self.sessions,
            self.revoked.append,
            self.access,
            uses,
            hasher=hasher,
            drawing=drawing_threads(reactor, threads or InlineThreads()),
            find_ended=self.ended,
        )
        self.context, self.store, self.waiters = parts.context, parts.store, parts.waiters
        self.starts, self.lifecycle, self.collects = parts.starts, parts.lifecycle, parts.collects
        self.browsers, self.results, self.callbacks = parts.browsers, parts.results, parts.callbacks
        self.passwords, self.local, self.authorize = parts.passwords, parts.local, parts.authorize
        if beside is None:
            account = {"player_id": ANNA, "name": "Anna", "password": PASSWORD_HASH, "now_ms": START_MS}
            self.write(lambda connection: player_tables.add_local_player(connection, self.keys, **account))

    async def ended(self, processes: Collection[str]) -> Collection[str]:
        """Return the processes that have ended; without a test that adds to `living`, all of them."""
        return set(processes) - self.living

    def as_instance(self, instance_id: str) -> None:
        """Let this process of the service receive the callbacks from now on."""
        self.callbacks = replace(self.callbacks, context=replace(self.context, instance_id=instance_id))

    def new_collects(self) -> CollectService:
        return CollectService(context=self.context, store=self.store, waiters=self.waiters, revoked=self.revoked.append)

    def now_ms(self) -> int:
        """Return the wall clock, which `shift_ms` sets; timers do not follow it."""
        return START_MS + round(self.clock.seconds() * 1000) + self.shift_ms

    def write(self, transaction: Any) -> Any:
        return done(self.databases.auth.submit(transaction))

    def rows(self, query: str, **values: Any) -> list[Any]:
        return list(done(self.databases.reads.submit(lambda c: c.execute(query, values).fetchall())))

    def login(self, started: StartedLogin) -> LoginTransaction:
        """Return the login as the database holds it."""
        found = done(self.store.find(LoginLookup("login_id", started.login.login_id)))
        assert found is not None
        return found

    # the parties

    def start(
        self, port: int | None = None, intent: LoginIntent = LoginIntent.LOGIN, token: str | None = None, **more: str
    ) -> StartedLogin:
        """Start at `provider`, by default the first, from `address`; `more` are members of the client."""
        provider, address = more.pop("provider", next(iter(self.providers), None)), more.pop("address", ADDRESS)
        uri = more.pop("return_uri", None)
        return done(self.starts.start(StartRequest(provider, intent, more, port, address, token, uri)))

    def open_link(
        self, started: StartedLogin, browser: Index = BROWSER, site: str | None = None, address: str = ADDRESS
    ) -> Any:
        """Open the link; `site` is Sec-Fetch-Site."""
        return done(self.authorize.open_link(SignInForm(started.token, browser, address, request_id=REQUEST), site))

    def press_continue(
        self, started: StartedLogin, browser: Index = BROWSER, name: str = "", password: str = ""
    ) -> Any:
        """Press the button that continues to the provider."""
        return done(self.authorize.continue_(SignInForm(started.token, browser, ADDRESS, name, password, REQUEST)))

    def redirect_state(self, started: StartedLogin, browser: Index = BROWSER, **typed: str) -> str:
        """Continue to the provider; return the state that the browser takes along."""
        answer = self.press_continue(started, browser, **typed)
        assert isinstance(answer, RedirectToProvider), answer
        return parse_qs(urlsplit(answer.url).query)["state"][0]

    def callback(self, state: str, browser: Index | None = BROWSER, who: str = "anna", **other: str) -> Any:
        """Begin a callback from `address`, by default with a code of `who`."""
        provider = other.pop("provider", next(iter(self.providers), "discord"))
        address = other.pop("address", ADDRESS)
        query = urlencode({"state": state, **(other or {"code": f"{who}|{state}"})}).encode()
        return self.callbacks.complete(CallbackRequest(provider, query, browser, address, REQUEST))

    def finish_callback(self, *arguments: Any, **other: Any) -> Any:
        """Complete a callback() that does not wait."""
        return done(self.callback(*arguments, **other))

    def signed_in(self, who: str = "anna", **start: Any) -> StartedLogin:
        """Sign in up to the stage `ready`."""
        started = self.start(**start)
        back = self.finish_callback(self.redirect_state(started), who=who, provider=started.login.provider)
        assert isinstance(back, RedirectToResult), back
        return started

    def form(
        self, started: StartedLogin, browser: Index = BROWSER, name: str = "Anna", password: str = PASSWORD
    ) -> SignInForm:
        return SignInForm(started.token, browser, ADDRESS, name, password, REQUEST)

    def sign_in(self, started: StartedLogin, browser: Index = BROWSER, **fields: str) -> Any:
        return done(self.local.sign_in(self.form(started, browser, **fields)))

    def create(self, started: StartedLogin, name: str, password: str = PASSWORD, browser: Index = BROWSER) -> Any:
        return done(self.local.sign_in(self.form(started, browser, name, password), create=True))

    def decline(self, started: StartedLogin, browser: Index = BROWSER) -> RedirectToResult | Declined:
        return done(self.browsers.decline(started.token, browser, REQUEST))

    def result(self, started: StartedLogin, browser: Index | None = BROWSER) -> Any:
        return done(self.results.get(started.login.login_id, browser)).result

    def code(self, started: StartedLogin, browser: Index = BROWSER) -> str:
        """Return the finish code as the browser shows it."""
        shown = self.result(started, browser)
        assert isinstance(shown, ShowFinishCode), shown
        return shown.code

    def ticket(self, started: StartedLogin) -> str:
        """Return the ticket that the browser sends to the loopback port."""
        sent = self.result(started)
        assert isinstance(sent, ReturnToGame), sent
        return sent.ticket

    def secret(self, started: StartedLogin) -> Index:
        return secret_index(self.keys.indexer, started.device_secret)

    def begin_collect(self, started: StartedLogin, **collect: Any) -> Deferred[Collected]:
        """Begin a collect that may wait, as the route does."""
        ask = CollectRequest(self.secret(started), request_id=REQUEST, **collect)

        async def both() -> Collected:
            answer = await self.collects.wait(ask)
            return await self.collects.collect(ask) if answer is None else answer

        return Deferred.fromCoroutine(both())

    def collect(self, started: StartedLogin, code: str | None = None, ticket: str | None = None, **collect: Any) -> Any:
        """Collect without waiting."""
        presented = PresentedProof.finish_code(code) if code is not None else None
        presented = PresentedProof.ticket(ticket) if ticket is not None else presented
        return done(self.begin_collect(started, presented=presented, **collect))

    def cancel(self, started: StartedLogin) -> None:
        done(self.lifecycle.cancel(self.secret(started)))


def done(work: Any) -> Any:
    """Return the result of work that does not wait, or raise its error."""
    results: list[Any] = []
    deferred = work if isinstance(work, Deferred) else Deferred.fromCoroutine(work)
    deferred.addBoth(results.append)
    assert results, "it waits"
    if hasattr(results[0], "raiseException"):
        results[0].raiseException()
    return results[0]


class LoginCase(SynchronousTestCase):
    """A test of complete logins."""

    def local_server(self, passwords_per_minute: int = 0, **terms: Any) -> LoginServer:
        return LoginServer(self, replace(TERMS, **terms), passwords_per_minute)

    def oauth_server(self, *providers: IdentityProvider, **terms: Any) -> LoginServer:
        """Return a server in oauth mode."""
        return LoginServer(
            self, replace(TERMS, mode=Mode.OAUTH, **terms), providers={each.name: each for each in providers}
        )


CLOSED, APPROVAL, OFF = Registration.CLOSED, Registration.APPROVAL, ReturnProofSetting.OFF
