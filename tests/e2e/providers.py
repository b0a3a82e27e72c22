"""Sign-ins through providers: a recorder in front of each, the service in `oauth` mode behind."""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from hashlib import sha256
from re import escape
from typing import ClassVar
from urllib.parse import parse_qsl, quote, quote_plus, unquote_plus

from msgspec import Struct
from msgspec.structs import replace

from gamed.dev import documents
from gamed.dev.clients import EMULATED, KEY_ID, TEAM_ID
from tests.e2e import other_origin as foreign
from tests.e2e.cases import QUICK, Player, ServiceCase
from tests.e2e.chromium import Window
from tests.e2e.recorder import Exchange, Recorder
from tests.e2e.service import Service, free_port
from tests.support.folders import unused_path
from tests.support.python_client import gamed_client as gc

KEY = b64encode(sha256(b"the master key of these tests").digest()).decode()
SECRET = "a/secret+with:odd%characters=" + "x" * 16
"""Long enough for all providers, and with characters that an encoding could lose."""
CLIENT_ID = "client-1024"
DISCORD_BOT = r"DiscordBot \({base}, [0-9][^ ),]*\)"
GAMED = r"gamed/[0-9][^ ]*"
"""User-Agents; `base` is the service's address."""


class Stand(Struct, frozen=True):
    """A provider: its start, its configuration, its person, and the requests that it must receive."""

    name: str
    """Its name in `authentication.json`."""
    start: Callable[[int, str, str], foreign.Process]
    """Arguments: port, public address, registered redirect URI."""
    members: Callable[[str], Mapping[str, object]]
    """Members of its entry in the file, for its address; client_id and client_secret_env are added."""
    scope: str
    authorize: str
    token: str
    """Path of its token endpoint."""
    nonce: bool = True
    prompt: str | None = None
    agent: str = GAMED
    registered: bool = True
    """False if the file has neither client_id nor client_secret_env."""
    secret_in_form: bool = False
    secret: str | None = None
    """The key that signs client secrets, in PEM; it is in no request."""
    parameters: Mapping[str, str] = {}
    """Further parameters of the authorization request."""
    others: tuple[str, ...] = ()
    """Paths that the service may request beside the token endpoint."""

    @property
    def variable(self) -> str:
        return f"{self.name.upper().replace('-', '_')}_SECRET"


OPENID = "/.well-known/openid-configuration"


def _oidc_provider(port: int, base: str, redirect_uri: str) -> foreign.Process:
    client = {"client_id": CLIENT_ID, "client_secret": SECRET, "redirect_uri": redirect_uri}
    return foreign.node("oidc_provider.mjs", port=port, issuer=base, **client)


def _development(port: int, base: str, redirect_uri: str) -> foreign.Process:
    side = redirect_uri.split("/")[-2]
    secret = SIGNING_KEY if EMULATED[side].signed_secret else SECRET
    return foreign.python(
        "play_development_provider", port=port, base=base, clients=[(side, CLIENT_ID, secret, redirect_uri)]
    )


def _discord_members(base: str) -> dict[str, object]:
    return {
        "authorization_endpoint": base + documents.DISCORD_AUTHORIZE,
        "token_endpoint": base + documents.DISCORD_TOKEN,
        "userinfo_endpoint": base + documents.DISCORD_USER,
    }


DISCORD = Stand(
    "discord",
    _development,
    _discord_members,
    "identify",
    documents.DISCORD_AUTHORIZE,
    documents.DISCORD_TOKEN,
    nonce=False,
    prompt="consent",
    agent=DISCORD_BOT,
    others=(documents.DISCORD_USER,),
)
FAKE_GOOGLE = Stand(
    "google",
    _development,
    lambda base: {"issuer": base},
    "openid",
    documents.GOOGLE_AUTHORIZE,
    documents.GOOGLE_TOKEN,
    prompt="select_account",
    others=(OPENID, documents.GOOGLE_KEYS),
)
GOOGLE = Stand(
    "google",
    _oidc_provider,
    lambda base: {"issuer": base},
    "openid",
    "/auth",
    "/token",
    prompt="select_account",
    others=(OPENID, "/jwks"),
)
GITHUB = Stand(
    "github",
    _development,
    lambda base: {
        "authorization_endpoint": f"{base}/github/authorize",
        "token_endpoint": f"{base}/github/token",
        "userinfo_endpoint": f"{base}/github/user",
    },
    "",
    "/github/authorize",
    "/github/token",
    nonce=False,
    prompt="select_account",
    others=("/github/user",),
    secret_in_form=True,
)
TWITCH = Stand(
    "twitch",
    _development,
    lambda base: {"issuer": f"{base}/twitch"},
    "openid",
    "/twitch/authorize",
    "/twitch/token",
    parameters={"force_verify": "true"},
    others=("/twitch/.well-known/openid-configuration", "/twitch/keys"),
    secret_in_form=True,
)
MICROSOFT = Stand(
    "microsoft",
    _development,
    lambda base: {"issuer": f"{base}/microsoft/consumers/v2.0"},
    "openid",
    "/microsoft/authorize",
    "/microsoft/token",
    prompt="select_account",
    others=("/microsoft/consumers/v2.0/.well-known/openid-configuration", "/microsoft/consumers/keys"),
)
MICROSOFT_COMMON = replace(
    MICROSOFT,
    members=lambda base: {"issuer": f"{base}/microsoft/common/v2.0"},
    others=("/microsoft/common/v2.0/.well-known/openid-configuration", "/microsoft/common/keys"),
)
SIGNING_KEY = documents.new_signing_key().decode()
APPLE = Stand(
    "apple",
    _development,
    lambda base: {"issuer": f"{base}/apple", "team_id": TEAM_ID, "key_id": KEY_ID},
    "openid",
    "/apple/authorize",
    "/apple/token",
    parameters={"response_mode": "query"},
    others=("/apple/.well-known/openid-configuration", "/apple/keys"),
    secret_in_form=True,
    secret=SIGNING_KEY,
)
STEAM = Stand(
    "steam",
    lambda port, base, redirect_uri: foreign.python("play_development_provider", port=port, base=base, clients=[]),
    lambda base: {"authorization_endpoint": base + documents.STEAM_LOGIN},
    "",
    documents.STEAM_LOGIN,
    "",
    registered=False,
)
KEYCLOAK = Stand(
    "keycloak",
    _oidc_provider,
    lambda base: {"issuer": base, "label": "Keycloak"},
    "openid",
    "/auth",
    "/token",
    others=(OPENID, "/jwks"),
)
"""npm oidc-provider with its session, which it keeps in the browser."""
MOCK_SERVER = Stand(
    "mock-server",
    lambda port, base, redirect_uri: foreign.node("oauth2_mock_server.mjs", port=port, issuer=base),
    lambda base: {"issuer": base, "label": "Mock server"},
    "openid",
    "/authorize",
    "/token",
    others=(OPENID, "/jwks"),
)
MOCK_SERVER_OAUTH2 = Stand(
    "forge",
    lambda port, base, redirect_uri: foreign.node("oauth2_mock_server.mjs", port=port, issuer=base),
    lambda base: {
        "authorization_endpoint": f"{base}/authorize",
        "token_endpoint": f"{base}/token",
        "userinfo_endpoint": f"{base}/userinfo",
        "subject_field": "sub",
        "scopes": ["read:user"],
    },
    "read:user",
    "/authorize",
    "/token",
    nonce=False,
    others=("/userinfo",),
)
PROVIDER_MOCK = Stand(
    "club",
    lambda port, base, redirect_uri: foreign.python("play_oidc_provider_mock", port=port),
    lambda base: {"issuer": base, "label": "Our club"},
    "openid",
    "/oauth2/authorize",
    "/oauth2/token",
    others=(OPENID, "/jwks"),
)


class ProviderCase(ServiceCase):
    """The service in `oauth` mode with `stands` as its providers; each has a recorder in `self.recorders`."""

    intervals: ClassVar = QUICK
    stands: ClassVar[tuple[Stand, ...]] = ()
    secret: ClassVar[str] = SECRET
    """The secret that the owner has set in the variable."""
    client_id: ClassVar[str] = CLIENT_ID

    def setUp(self) -> None:
        self.prepare()
        self.service.configure(self.configuration())
        self.service.start()

    def prepare(self) -> None:
        """Prepare everything but the service's configuration and its start."""
        self.folder = unused_path(self)
        variables = {stand.variable: stand.secret or self.secret for stand in self.stands}
        self.service = Service(
            self.folder, None, {"GAMED_MASTER_KEY": KEY, **variables}, forked=self.forked, intervals=self.intervals
        )
        self.addCleanup(self._end)
        self.recorders: dict[str, Recorder] = {}
        self._processes: dict[str, tuple[int, foreign.Process]] = {}
        for stand in self.stands:
            port = free_port()
            self.recorders[stand.name] = recorder = Recorder(port)
            self.addCleanup(recorder.close)
            self._processes[stand.name] = port, stand.start(port, recorder.base, self.redirect_uri(stand))
        self.addCleanup(lambda: [process.close() for _, process in self._processes.values()])

    def register(self, stand: Stand) -> None:
        """Register the current redirect URI in the provider's console."""
        port = self.withdraw(stand)
        started = stand.start(port, self.recorders[stand.name].base, self.redirect_uri(stand))
        self._processes[stand.name] = port, started

    def withdraw(self, stand: Stand) -> int:
        """Stop the provider, and the responses of its recorder; return its port."""
        port, process = self._processes[stand.name]
        process.close()
        return port

    def redirect_uri(self, stand: Stand) -> str:
        return f"{self.service.base}/auth/{stand.name}/callback"

    def configuration(self) -> dict[str, object]:
        providers = {
            stand.name: {
                **({"client_id": self.client_id, "client_secret_env": stand.variable} if stand.registered else {}),
                **stand.members(self.recorders[stand.name].base),
            }
            for stand in self.stands
        }
        common = {"public_url": self.service.base, "master_key_env": "GAMED_MASTER_KEY"}
        return {"mode": "oauth", **common, "providers": providers}

    def signed_in(self, stand: Stand, window: Window, *steps: Callable[[], object], **how: object):
        """Return a client that has signed in, at the provider by these steps."""
        client = self.client(**how)
        client.sign_in(Player(), provider=stand.name, open_browser=self.opens(window, *steps))
        window.wait_for("You can go back to the game")
        return client

    def on_device(self, device: str, stand: Stand, window: Window, *steps: Callable[[], object]):
        """Sign in on another device by typing the code, which is quicker than the browser's return."""
        client = gc.GamedClient(self.service.base, folder=self.folder / device)
        browser = self.opens(window, lambda: window.press("Continue with"), *steps)
        client.sign_in(Player(window.code), provider=stand.name, open_browser=browser, loopback=False)
        return client

    # -- what a provider was sent --

    def assertSent(self, stand: Stand) -> None:
        """Compare the requests of one complete sign-in with those of SPEC 1, 2.3, 4 and 5."""
        recorder = self.recorders[stand.name]
        asked = self._authorization(stand, recorder)
        exchange, form = self._exchange(stand, recorder)
        [back] = [
            exchange.answer_headers["location"]
            for exchange in recorder.of_browser()
            if exchange.answer_headers.get("location", "").startswith(self.redirect_uri(stand))
        ]
        callback = dict(parse_qsl(back.partition("?")[2], strict_parsing=True))
        self.assertEqual(callback["state"], asked["state"])
        self.assertEqual(form["code"], callback["code"])
        challenge = b64encode(sha256(form["code_verifier"].encode()).digest(), b"-_").decode().rstrip("=")
        self.assertEqual(asked["code_challenge"], challenge)
        if stand.nonce:
            claims = json.loads(exchange.answer)["id_token"].split(".")[1]
            nonce = json.loads(b64decode(claims + "==", b"-_"))["nonce"]
            self.assertEqual(asked["nonce"], nonce)
        self._manners(stand, recorder)
        self._secret_once(stand, recorder, exchange)

    def _authorization(self, stand: Stand, recorder: Recorder) -> dict[str, str]:
        """Check the first request of the browser: it has exactly these parameters."""
        first = next(exchange for exchange in recorder.exchanges if exchange.from_browser)
        self.assertEqual((first.method, first.path), ("GET", stand.authorize))
        asked = dict(first.parameters)
        self.assertEqual(len(asked), len(first.parameters))
        expected = {
            "response_type": "code",
            "client_id": CLIENT_ID,
            "redirect_uri": self.redirect_uri(stand),
            **({"scope": stand.scope} if stand.scope else {}),
            "code_challenge_method": "S256",
            **({"prompt": stand.prompt} if stand.prompt else {}),
            **stand.parameters,
        }
        random = {"state", "code_challenge", *(["nonce"] if stand.nonce else [])}
        self.assertEqual({name: asked[name] for name in asked.keys() - random}, expected)
        for name in random:
            self.assertRegex(asked[name], r"\A[A-Za-z0-9_-]{43}\Z")
        self.assertEqual(len({asked[name] for name in random}), len(random))
        return asked

    def _exchange(self, stand: Stand, recorder: Recorder) -> tuple[Exchange, dict[str, str]]:
        """Check the one token request: this code, this verifier, the unchanged secret."""
        [exchange] = [exchange for exchange in recorder.exchanges if exchange.path == stand.token]
        form = dict(exchange.form)
        self.assertEqual(len(form), len(exchange.form))
        self.assertEqual((exchange.method, exchange.query, exchange.status), ("POST", "", 200), exchange.answer)
        self.assertEqual(exchange.headers["content-type"], "application/x-www-form-urlencoded")
        self.assertEqual(form["grant_type"], "authorization_code")
        self.assertEqual(form["redirect_uri"], self.redirect_uri(stand))
        self.assertRegex(form["code_verifier"], r"\A[A-Za-z0-9._~-]{86}\Z")
        if stand.secret_in_form:
            self.assertNotIn("authorization", exchange.headers)
            pair = [form.pop("client_id"), form.pop("client_secret")]
            if stand.secret is not None:  # the provider has verified it
                self.assertEqual(pair.pop().count("."), 2)
        else:
            scheme, _, encoded = exchange.headers["authorization"].partition(" ")
            self.assertEqual(scheme, "Basic")
            pair = [unquote_plus(part) for part in b64decode(encoded).decode().split(":")]
        self.assertEqual(pair, [CLIENT_ID, SECRET] if stand.secret is None else [CLIENT_ID])
        self.assertEqual(set(form), {"grant_type", "code", "redirect_uri", "code_verifier"})
        return exchange, form

    def _manners(self, stand: Stand, recorder: Recorder) -> None:
        """Check that each request of the service names it, has no coding and no cookie, and has the right target."""
        agent = stand.agent.replace("{base}", escape(self.service.base))
        for exchange in recorder.of_service():
            self.assertRegex(exchange.headers["user-agent"], rf"\A{agent}\Z")
            self.assertEqual(exchange.headers.get("accept-encoding"), "identity")
            self.assertNotIn("cookie", exchange.headers)
            self.assertIn(exchange.path, {stand.token, *stand.others})
            self.assertEqual(exchange.status, 200)

    def _secret_once(self, stand: Stand, recorder: Recorder, exchange: Exchange) -> None:
        """Check that only the token request has the client secret, and no page, file or log."""
        pair = f"{quote_plus(CLIENT_ID)}:{quote_plus(SECRET)}"
        forms = [
            SECRET,
            quote_plus(SECRET),
            quote(SECRET),
            b64encode(pair.encode()).decode(),
            b64encode(SECRET.encode()),
        ]
        if stand.secret is not None:
            lines = stand.secret.splitlines()[1:-1]
            forms = [*lines, *(quote_plus(line) for line in lines), *(quote(line, safe="") for line in lines)]
        hidden = [form.encode() if isinstance(form, str) else form for form in forms]
        for other in recorder.exchanges:
            whole = repr((other.path, other.query, other.headers)).encode() + other.body + other.answer
            found = [form for form in hidden if form in whole]
            self.assertEqual(bool(found), other is exchange and stand.secret is None, (other.method, other.path))
        for path, content in {**self.service.files(), "environ": self.service.environment()}.items():
            self.assertEqual([path for form in hidden if form in content], [])
