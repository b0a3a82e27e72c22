"""OAuth 2.0 providers: what they are sent, and whom their answers make (docs/internals/threats.md: Providers)."""

from urllib.parse import parse_qsl, urlsplit

from twisted.trial.unittest import SynchronousTestCase

from gamed import __version__
from gamed.providers.base import ExternalIdentity, ProviderError
from gamed.providers.messages import challenge_of
from tests.providers.fake_provider import (
    CLIENT_SECRET,
    PUBLIC_URL,
    VERIFIER,
    Reply,
    discord,
    generic,
    github,
    started,
)
from tests.support.covers import covers

TOKEN = "/api/v10/oauth2/token"
ME = "/api/v10/users/@me"


class GoodPathTests(SynchronousTestCase):
    def test_discord_destination(self) -> None:
        """The browser is sent to Discord with exactly these parameters, each once."""
        destination = self.successResultOf(discord().go(nonce=None))
        parts = urlsplit(destination.url)
        self.assertEqual(parts._replace(query="").geturl(), "https://discord.com/oauth2/authorize")
        self.assertEqual(
            sorted(parse_qsl(parts.query)),
            sorted(
                {
                    "response_type": "code",
                    "client_id": "client:7",
                    "redirect_uri": f"{PUBLIC_URL}/auth/discord/callback",
                    "scope": "identify",
                    "state": "s" * 43,
                    "code_challenge": challenge_of(VERIFIER),
                    "code_challenge_method": "S256",
                    "prompt": "consent",
                }.items()
            ),
        )
        self.assertFalse(destination.iss_promised)

    def test_discord_identity(self) -> None:
        """A code becomes the account's id in Discord's namespace."""
        identity = self.successResultOf(discord().identify("code-80351110224678912"))
        self.assertEqual(identity, ExternalIdentity("oauth2", "https://discord.com", "80351110224678912"))

    def test_what_discord_is_sent(self) -> None:
        """The code once, the secret once as HTTP Basic in form encoding, the token once; nothing in URLs."""
        fixture = discord()
        self.successResultOf(fixture.identify())
        token, me = fixture.fake.seen
        self.assertEqual((token.method, token.url), ("POST", "https://discord.com" + TOKEN))
        self.assertEqual(
            token.form,
            {
                "grant_type": "authorization_code",
                "code": "code-7",
                "redirect_uri": f"{PUBLIC_URL}/auth/discord/callback",
                "code_verifier": "v" * 86,
            },
        )
        self.assertEqual(token.basic, "client%3A7:s%3Ae+c%25ret%2B%2F%3D")
        self.assertEqual(token.headers["content-type"], ["application/x-www-form-urlencoded"])
        self.assertEqual((me.method, me.url, me.body), ("GET", "https://discord.com" + ME, b""))
        self.assertEqual(me.headers["authorization"], ["Bearer at.code-7"])
        for call in (token, me):
            self.assertEqual(call.headers["user-agent"], [f"DiscordBot ({PUBLIC_URL}, {__version__})"])
            self.assertEqual(call.headers["accept-encoding"], ["identity"])
            self.assertNotIn("cookie", call.headers)

    def test_any_other_provider(self) -> None:
        """Without a namespace of its own it is the origin of its user endpoint; its User-Agent is plain."""
        fixture = generic()
        self.assertEqual(self.successResultOf(fixture.identify()).namespace, "https://forge.example:8443")
        self.assertEqual(fixture.fake.seen[0].headers["user-agent"], [f"gamed/{__version__}"])
        query = dict(parse_qsl(urlsplit(self.successResultOf(fixture.go(None)).url).query))
        self.assertLessEqual(query.keys() & {"scope", "prompt", "nonce"}, set())


class GitHubTests(SynchronousTestCase):
    def test_destination(self) -> None:
        """The browser is sent to GitHub without any scope, and the player chooses the account there."""
        parts = urlsplit(self.successResultOf(github().go(nonce=None)).url)
        self.assertEqual(parts._replace(query="").geturl(), "https://github.com/login/oauth/authorize")
        self.assertEqual(
            dict(parse_qsl(parts.query, strict_parsing=True)),
            {
                "response_type": "code",
                "client_id": "client:7",
                "redirect_uri": f"{PUBLIC_URL}/auth/github/callback",
                "state": "s" * 43,
                "code_challenge": challenge_of(VERIFIER),
                "code_challenge_method": "S256",
                "prompt": "select_account",
            },
        )

    def test_sent(self) -> None:
        """The secret is in the form, as GitHub documents it, and JSON is asked for, without which it answers a form."""
        fixture = github()
        self.successResultOf(fixture.identify())
        token, user = fixture.fake.seen
        self.assertEqual((token.method, token.url), ("POST", "https://github.com/login/oauth/access_token"))
        self.assertEqual(token.headers["accept"], ["application/json"])
        self.assertNotIn("authorization", token.headers)
        self.assertEqual(
            token.form,
            {
                "grant_type": "authorization_code",
                "client_id": "client:7",
                "client_secret": CLIENT_SECRET,
                "code": "code-7",
                "redirect_uri": f"{PUBLIC_URL}/auth/github/callback",
                "code_verifier": "v" * 86,
            },
        )
        self.assertEqual(
            (user.url, user.headers["authorization"]), ("https://api.github.com/user", ["Bearer at.code-7"])
        )
        self.assertEqual(user.headers["user-agent"], [f"gamed/{__version__}"])

    def test_identity(self) -> None:
        """The account's number identifies a player; neither the name nor a number as text does."""
        self.assertEqual(
            self.successResultOf(github().identify("code-583231")),
            ExternalIdentity("oauth2", "https://api.github.com", "583231"),
        )
        for value in ("583231", "octocat", 0, -7, 7.0, True, None, 2**64):
            fixture = github()
            fixture.fake.script("/user", Reply.json({"id": value, "login": "octocat"}))
            self.failureResultOf(started(fixture.identify()), ProviderError)


@covers("threats/17")
class SubjectTests(SynchronousTestCase):
    def test_discord_ids(self) -> None:
        """At Discord an id is text of digits; a number, a name or nothing is no player."""
        for value in (7, "anna", "", None, True, "9" * 21, ["7"], {"id": "7"}):
            fixture = discord()
            fixture.fake.script(ME, Reply.json({"id": value, "username": "anna"}))
            self.failureResultOf(started(fixture.identify()), ProviderError)

    def test_other_ids(self) -> None:
        """Elsewhere it is the member that the owner named, as text or as a whole number."""
        for value, subject in ((7, "7"), ("anna", "anna")):
            fixture = generic(subject_field="login")
            fixture.fake.script(ME, Reply.json({"id": 8, "login": value}))
            self.assertEqual(self.successResultOf(fixture.identify()).subject, subject)
        self.failureResultOf(started(generic(subject_field="login").identify()), ProviderError)

    def test_id_token_is_not_looked_at(self) -> None:
        """An ID token that comes along with an access token counts for nothing."""
        fixture = discord()
        granted = {"access_token": "at.code-7", "token_type": "Bearer", "id_token": ["a.b.c", 7]}
        fixture.fake.script(TOKEN, Reply.json(granted))
        self.assertEqual(self.successResultOf(fixture.identify()).subject, "7")

    def test_own_namespace(self) -> None:
        """A namespace that the owner gave is the identity's, whatever the address."""
        fixture = generic(identity_namespace="https://forge.example")
        self.assertEqual(self.successResultOf(fixture.identify()).namespace, "https://forge.example")
