"""The development provider is as strict as a provider can be, and looks like the real ones where it matters."""

from base64 import b64encode
from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import parse_qs, parse_qsl, quote_plus, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey, KeySet
from treq.testing import StubTreq
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from gamed.crypto import Secret
from gamed.dev.clients import KEY_ID, PEOPLE, PERSONAL, SIDES, TEAM_ID
from gamed.dev.documents import new_signing_key
from gamed.dev.grants import ResponseMode, UntrustedClient, challenge_of
from gamed.dev.provider import SLOW_SECONDS
from gamed.providers.messages import ClientCredentials
from gamed.providers.oidc import sign_credentials
from tests.support.provider import (
    BASE,
    DISCORD_SECRET,
    GAME,
    GOOGLE_SECRET,
    SIDE_SECRET,
    SIGNING_KEY,
    START_MS,
    development_provider,
)

AGENT = f"DiscordBot ({GAME}, 1.0)"
VERIFIER = "v" * 86
FORM = "application/x-www-form-urlencoded"
DISCORD = {
    "response_type": "code",
    "client_id": "1024",
    "redirect_uri": f"{GAME}/auth/discord/callback",
    "scope": "identify",
    "state": "a state",
    "code_challenge": challenge_of(VERIFIER),
    "code_challenge_method": "S256",
    "prompt": "consent",
}
GOOGLE = {
    **DISCORD,
    "client_id": "1024.apps.example",
    "redirect_uri": f"{GAME}/auth/google/callback",
    "scope": "openid",
    "nonce": "a nonce",
    "prompt": "select_account",
}
GITHUB = {
    **DISCORD,
    "client_id": "github-1024",
    "redirect_uri": f"{GAME}/auth/github/callback",
    "prompt": "select_account",
}
del GITHUB["scope"]
BASIC = "Basic " + b64encode(f"1024:{quote_plus(DISCORD_SECRET)}".encode()).decode()


def without(members: Mapping[str, str], *names: str) -> dict[str, str]:
    return {name: value for name, value in members.items() if name not in names}


class ProviderCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.provider = development_provider(self.clock)
        self.http = StubTreq(self.provider.app.resource())

    def ask(self, method: str, path: str, headers: Mapping[str, str] | None = None, **how: Any) -> tuple[int, Any]:
        """Send a request that is answered at once; return status and JSON or text."""
        return self.successResultOf(self.begin(method, path, headers, **how))

    def begin(self, method: str, path: str, headers: Mapping[str, str] | None = None, **how: Any) -> Deferred:
        async def answer() -> tuple[int, Any]:
            fields = {"User-Agent": AGENT, **(headers or {})}
            response = await self.http.request(method, BASE + path, headers=fields, allow_redirects=False, **how)
            kind = response.headers.getRawHeaders("content-type", [""])[0]
            body = await (response.json() if kind == "application/json" else response.text())
            return response.code, response.headers.getRawHeaders("location", [body])[0]

        sent = Deferred.fromCoroutine(answer())
        self.http.flush()
        return sent

    def callback(
        self, asked: Mapping[str, str], person: str = "anna", manner: ResponseMode = ResponseMode.AT_ONCE
    ) -> dict:
        """Continue as this person; return the parameters of the callback."""
        path = "/oauth2/authorize" if "nonce" not in asked else "/o/oauth2/v2/auth"
        side = asked["redirect_uri"].split("/")[-2]
        path = f"/{side}/authorize" if side in SIDES else path
        url = self.provider.sign_in(f"{BASE}{path}?{urlencode(asked)}", person, manner)
        self.assertEqual(url.partition("?")[0], asked["redirect_uri"])
        return {name: value for name, [value] in parse_qs(url.partition("?")[2], strict_parsing=True).items()}

    def discord_form(self, **changed: str) -> dict[str, str]:
        code = changed.pop("code", None) or self.callback(DISCORD)["code"]
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": DISCORD["redirect_uri"]}
        return {**form, "code_verifier": VERIFIER, **changed}

    def exchange(self, form: Mapping[str, str], authorization: str | None = BASIC) -> tuple[int, Any]:
        headers = {"Content-Type": FORM, **({"Authorization": authorization} if authorization else {})}
        return self.ask("POST", "/api/v10/oauth2/token", headers, data=urlencode(form).encode())


class BrowserTests(ProviderCase):
    """The authorization endpoint and its page."""

    def test_page(self) -> None:
        """Everybody is there, plainly marked, and denying is possible."""
        for path, asked in (("/oauth2/authorize", DISCORD), ("/o/oauth2/v2/auth", GOOGLE)):
            status, page = self.ask("GET", f"{path}?{urlencode(asked)}")
            self.assertEqual(status, 200)
            for words in ("Development provider", "Deny", *(f"Continue as {person.name}" for person in PEOPLE)):
                self.assertIn(words, page)
        self.assertIn("Development provider", self.ask("GET", "/")[1])

    def test_form(self) -> None:
        """The form leads to the callback, with a code or with the refusal."""
        for person, member in (("bo", "code"), ("", "error")):
            form = urlencode({"query": urlencode(DISCORD), "person": person, "manner": "at once"}).encode()
            status, url = self.ask("POST", "/oauth2/authorize", {"Content-Type": FORM}, data=form)
            self.assertEqual(status, 303)
            self.assertTrue(url.startswith(DISCORD["redirect_uri"] + "?"), url)
            self.assertEqual(parse_qs(urlsplit(url).query)["state"], ["a state"])
            self.assertIn(member, parse_qs(urlsplit(url).query))

    def test_odd_forms(self) -> None:
        """Answer an unknown player, an unknown response mode or a forged form with a page, not a redirect."""
        for changed in ({"person": "zaphod"}, {"manner": "odd"}, {"query": "client_id=other"}, {"query": ""}):
            form = urlencode({"query": urlencode(DISCORD), "person": "bo", **changed}).encode()
            self.assertEqual(self.ask("POST", "/oauth2/authorize", {"Content-Type": FORM}, data=form)[0], 400)

    def test_callback(self) -> None:
        """Google says who it is and adds parameters of its own; Discord sends code and state."""
        self.assertEqual(set(self.callback(DISCORD)), {"code", "state"})
        found = self.callback(GOOGLE)
        self.assertEqual((found["iss"], found["state"]), (BASE, "a state"))
        self.assertLessEqual({"code", "scope", "authuser", "prompt"}, set(found))
        self.assertEqual(self.callback(GOOGLE, "")["error"], "access_denied")

    def test_untrusted(self) -> None:
        """An unknown client or address is never redirected."""
        for changed in (
            {"client_id": "1025"},
            {"client_id": GOOGLE["client_id"]},
            {"redirect_uri": DISCORD["redirect_uri"] + "/"},
            {"redirect_uri": DISCORD["redirect_uri"].replace("https", "http")},
            {"redirect_uri": GOOGLE["redirect_uri"]},
            {"redirect_uri": ""},
        ):
            query = urlencode({**DISCORD, **changed})
            self.assertEqual(self.ask("GET", f"/oauth2/authorize?{query}")[0], 400, changed)
            self.assertRaises(UntrustedClient, self.provider.sign_in, f"{BASE}/oauth2/authorize?{query}", "anna")
        for query in (urlencode(DISCORD) + "&scope=identify", "", "client_id"):
            self.assertEqual(self.ask("GET", f"/oauth2/authorize?{query}")[0], 400, query)

    def test_mistakes(self) -> None:
        """Return a client's mistake as an error through the browser, without a sign-in page."""
        for asked, error in (
            ({**DISCORD, "response_type": "token"}, "unsupported_response_type"),
            ({**DISCORD, "scope": "identify email"}, "invalid_scope"),
            ({**GOOGLE, "scope": "openid email"}, "invalid_scope"),
            (without(GOOGLE, "scope"), "invalid_scope"),
            (without(DISCORD, "state"), "invalid_request"),
            (without(DISCORD, "code_challenge"), "invalid_request"),
            (without(DISCORD, "code_challenge_method"), "invalid_request"),
            ({**DISCORD, "code_challenge_method": "plain"}, "invalid_request"),
            ({**DISCORD, "code_challenge": VERIFIER}, "invalid_request"),
            ({**GOOGLE, "nonce": ""}, "invalid_request"),
            ({**GOOGLE, "access_type": "offline"}, "invalid_request"),
            ({**DISCORD, "prompt": "odd"}, "invalid_request"),
        ):
            self.assertEqual(self.callback(asked)["error"], error, asked)

    def test_other_names(self) -> None:
        """Under another host name it says nothing: a web page cannot reach it by a name of its own."""
        for method, path in (("GET", "/"), ("GET", "/.well-known/openid-configuration"), ("POST", "/token")):
            self.assertEqual(self.ask(method, path, {"Host": "evil.example"})[0], 421)


class DiscordTests(ProviderCase):
    """Token and user endpoint of the Discord side."""

    def test_whole(self) -> None:
        """Code, token, user: with HTTP Basic, or the secret in the form."""
        for authorization, members in (
            (BASIC, {}),
            (None, {"client_id": "1024", "client_secret": DISCORD_SECRET}),
        ):
            status, tokens = self.exchange(self.discord_form(**members), authorization)
            self.assertEqual((status, tokens["token_type"], tokens["scope"]), (200, "Bearer", "identify"))
            bearer = {"Authorization": f"Bearer {tokens['access_token']}"}
            status, user = self.ask("GET", "/api/v10/users/@me", bearer)
            self.assertEqual((status, user["id"], user["global_name"]), (200, PEOPLE[0].subjects["discord"], "Anna"))

    def test_client(self) -> None:
        """Without the right secret, sent once, there is no token; the code is not spent by that."""
        form = self.discord_form()
        google = {"client_id": "1024.apps.example", "client_secret": GOOGLE_SECRET}
        for authorization, members in (
            (None, {}),
            (None, {"client_id": "1024"}),
            (None, {"client_id": "1024", "client_secret": "wrong"}),
            (None, google),
            ("Basic " + b64encode(b"1024:wrong").decode(), {}),
            ("Basic !", {}),
            (BASIC.replace("Basic", "Bearer"), {}),
        ):
            status, answer = self.exchange({**form, **members}, authorization)
            self.assertEqual((status, answer["error"]), (401, "invalid_client"), members)
        for members in ({"client_id": "1024", "client_secret": DISCORD_SECRET}, {"client_id": "1025"}):
            self.assertEqual(self.exchange({**form, **members})[1]["error"], "invalid_request")
        self.assertEqual(self.exchange(form)[0], 200)

    def test_code_once(self) -> None:
        """A code is spent by its first use, whatever came with it."""
        form = self.discord_form()
        self.assertEqual(self.exchange(form)[0], 200)
        self.assertEqual(
            self.exchange(form), (400, {"error": "invalid_grant", "error_description": "the code was used before"})
        )
        form = self.discord_form()
        self.assertEqual(self.exchange({**form, "code_verifier": "w" * 86})[1]["error"], "invalid_grant")
        self.assertEqual(self.exchange(form)[1]["error_description"], "the code was used before")

    def test_bound(self) -> None:
        """A code is good for its verifier, its address, its client and a minute."""
        for changed, words in (
            ({"code_verifier": "w" * 86}, "the code_verifier does not fit"),
            ({"code_verifier": ""}, "the code_verifier does not fit"),
            ({"redirect_uri": GOOGLE["redirect_uri"]}, "another redirect_uri"),
            ({"code": "unknown"}, "unknown code"),
            ({"code": self.callback(GOOGLE)["code"]}, "the code is another client's"),
        ):
            status, answer = self.exchange(self.discord_form(**changed))
            self.assertEqual((status, answer["error"], answer["error_description"]), (400, "invalid_grant", words))
        form = self.discord_form()
        self.clock.advance(60)
        self.assertEqual(self.exchange(form)[1]["error_description"], "the code has expired")
        self.assertEqual(self.exchange(self.discord_form(grant_type="password"))[1]["error"], "unsupported_grant_type")

    def test_form_only(self) -> None:
        """JSON, or a name twice, is no token request."""
        for kind, body in (("application/json", b"{}"), (FORM, b"code=a&code=b"), (FORM, b"")):
            headers = {"Content-Type": kind, "Authorization": BASIC}
            status, answer = self.ask("POST", "/api/v10/oauth2/token", headers, data=body)
            self.assertEqual((status, answer["error"]), (400, "invalid_request"))

    def test_user_agent(self) -> None:
        """Block each request without a `DiscordBot (address, version)` User-Agent, with an HTML page."""
        for agent in ("", "treq", "DiscordBot", "DiscordBot (game.example, 1.0)", "DiscordBot (https://game.example)"):
            for method, path in (("POST", "/api/v10/oauth2/token"), ("GET", "/api/v10/users/@me")):
                status, answer = self.ask(method, path, {"User-Agent": agent})
                self.assertEqual((status, "1010" in answer), (403, True), agent)

    def test_tokens(self) -> None:
        """Only a token that was given out, as Bearer, for an hour."""
        _, tokens = self.exchange(self.discord_form())
        for authorization in ("Bearer x", f"bearer {tokens['access_token']}", ""):
            answer = self.ask("GET", "/api/v10/users/@me", {"Authorization": authorization})
            self.assertEqual(answer, (401, {"message": "401: Unauthorized", "code": 0}))
        self.clock.advance(3600)
        bearer = {"Authorization": f"Bearer {tokens['access_token']}"}
        self.assertEqual(self.ask("GET", "/api/v10/users/@me", bearer)[0], 401)

    def test_manners(self) -> None:
        """Slow and failing, as the person at the page wished."""
        form = self.discord_form(code=self.callback(DISCORD, manner=ResponseMode.FAIL)["code"])
        self.assertEqual(self.exchange(form)[0], 503)
        form = self.discord_form(code=self.callback(DISCORD, manner=ResponseMode.SLOW)["code"])
        headers = {"Content-Type": FORM, "Authorization": BASIC}
        slow = self.begin("POST", "/api/v10/oauth2/token", headers, data=urlencode(form).encode())
        self.clock.advance(SLOW_SECONDS - 1)
        self.http.flush()
        self.assertNoResult(slow)
        self.clock.advance(1)
        self.http.flush()
        self.assertEqual(self.successResultOf(slow)[0], 200)


class GoogleTests(ProviderCase):
    """The OpenID Connect side."""

    def test_whole(self) -> None:
        """Discovery leads to an ID token that its keys verify, made for this client, this nonce, now."""
        document = self.ask("GET", "/.well-known/openid-configuration")[1]
        self.assertEqual(document["issuer"], BASE)
        self.assertTrue(document["authorization_response_iss_parameter_supported"])
        found = self.callback(GOOGLE, "bo")
        form = {
            "grant_type": "authorization_code",
            "code": found["code"],
            "redirect_uri": GOOGLE["redirect_uri"],
            "code_verifier": VERIFIER,
            "client_id": GOOGLE["client_id"],
            "client_secret": GOOGLE_SECRET,
        }
        path = document["token_endpoint"].removeprefix(BASE)
        status, tokens = self.ask("POST", path, {"Content-Type": FORM}, data=urlencode(form).encode())
        self.assertEqual(status, 200)
        keys = self.ask("GET", document["jwks_uri"].removeprefix(BASE))[1]
        self.assertNotIn("d", keys["keys"][0])
        token = jwt.decode(tokens["id_token"], KeySet.import_key_set(keys), algorithms=["RS256"])
        self.assertEqual(token.header["kid"], keys["keys"][0]["kid"])
        now = START_MS // 1000
        expected = {
            "iss": BASE,
            "aud": GOOGLE["client_id"],
            "azp": GOOGLE["client_id"],
            "sub": PEOPLE[1].subjects["google"],
        }
        self.assertLessEqual(
            {**expected, "nonce": "a nonce", "iat": now, "exp": now + 3600}.items(), token.claims.items()
        )

    def test_no_user_endpoint(self) -> None:
        """Identify the player by the ID token alone."""
        self.assertNotIn("userinfo_endpoint", self.ask("GET", "/.well-known/openid-configuration")[1])


class GitHubTests(ProviderCase):
    """The GitHub side, whose paths are below its name."""

    def exchange_here(self, headers: Mapping[str, str] = {}, **members: str) -> tuple[int, Any]:
        """Redeem a new code with the client secret in the form; return what the token endpoint answers."""
        client = {"client_id": GITHUB["client_id"], "client_secret": SIDE_SECRET}
        form = {**self.discord_form(code=self.callback(GITHUB, "bo")["code"]), **client, **members}
        form["redirect_uri"] = GITHUB["redirect_uri"]
        return self.ask("POST", "/github/token", {"Content-Type": FORM, **headers}, data=urlencode(form).encode())

    def test_whole(self) -> None:
        """A code, a token and the account with its number."""
        status, tokens = self.exchange_here()
        self.assertEqual((status, tokens["token_type"], tokens["scope"]), (200, "bearer", ""))
        bearer = {"Authorization": f"Bearer {tokens['access_token']}"}
        status, user = self.ask("GET", "/github/user", bearer)
        self.assertEqual((status, user["id"], user["name"]), (200, int(PEOPLE[1].subjects["github"]), "Bo"))
        self.assertEqual(self.ask("GET", "/github/user", {"Authorization": "Bearer x"})[0], 401)

    def test_secret(self) -> None:
        """The secret is in the form, as GitHub documents it, and must be right."""
        self.assertEqual(self.exchange_here({"Authorization": BASIC})[1]["error"], "invalid_request")
        for wrong in ({"client_secret": "wrong"}, {"client_id": "another"}):
            status, answer = self.exchange_here(**wrong)
            self.assertEqual((status, answer["error"]), (200, "incorrect_client_credentials"))

    def test_mistakes(self) -> None:
        """A scope, or another prompt, is a mistake here."""
        self.assertEqual(self.callback({**GITHUB, "scope": "user"})["error"], "invalid_scope")
        self.assertEqual(self.callback({**GITHUB, "prompt": "consent"})["error"], "invalid_request")

    def test_unknown_side(self) -> None:
        """Below another name, or at an endpoint that GitHub does not have, nothing is found."""
        self.assertEqual(self.ask("GET", "/gitlab/authorize")[0], 404)
        self.assertEqual(self.ask("GET", "/gitlab/user")[0], 404)
        self.assertEqual(self.ask("GET", "/google/authorize")[0], 404)
        self.assertEqual(self.ask("POST", "/discord/token")[0], 404)


class SideCase(ProviderCase):
    """An OpenID Connect provider whose paths are below its name."""

    side = ""
    asked: ClassVar[Mapping[str, str]] = {}

    def whole(self, **changed: str) -> tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]]:
        """Sign Bo in; return the discovery document, the tokens, and the claims of the verified ID token."""
        document = self.ask("GET", f"/{self.side}/.well-known/openid-configuration")[1]
        found = self.callback(self.asked, "bo")
        form = {
            "grant_type": "authorization_code",
            "code": found["code"],
            "redirect_uri": self.asked["redirect_uri"],
            "code_verifier": VERIFIER,
            "client_id": self.asked["client_id"],
            "client_secret": SIDE_SECRET,
            **changed,
        }
        path = document["token_endpoint"].removeprefix(BASE)
        status, tokens = self.ask("POST", path, {"Content-Type": FORM}, data=urlencode(form).encode())
        if status != 200:
            return document, tokens, {}
        keys = self.ask("GET", document["jwks_uri"].removeprefix(BASE))[1]
        token = jwt.decode(tokens["id_token"], KeySet.import_key_set(keys), algorithms=["RS256"])
        return document, tokens, token.claims


class TwitchTests(SideCase):
    side = "twitch"
    asked: ClassVar = {
        **without(GOOGLE, "prompt"),
        "client_id": "twitch-1024",
        "redirect_uri": f"{GAME}/auth/twitch/callback",
        "force_verify": "true",
    }

    def test_whole(self) -> None:
        """Its scope is a list, its subject a number as text, and no callback has `iss`."""
        document, tokens, claims = self.whole()
        self.assertEqual((document["issuer"], tokens["scope"]), (f"{BASE}/twitch", ["openid"]))
        expected = {
            "iss": f"{BASE}/twitch",
            "aud": "twitch-1024",
            "sub": PEOPLE[1].subjects["twitch"],
            "nonce": "a nonce",
        }
        self.assertLessEqual(expected.items(), claims.items())
        self.assertEqual(set(self.callback(self.asked)), {"code", "state"})

    def test_mistakes(self) -> None:
        """Without force_verify, or with a prompt, which Twitch does not know, no page is shown."""
        for asked in (without(self.asked, "force_verify"), {**self.asked, "prompt": "login"}):
            self.assertEqual(self.callback(asked)["error"], "invalid_request")
        refused = {"status": 403, "message": "invalid client secret"}
        self.assertEqual(self.whole(client_secret="wrong")[1], refused)
        self.assertEqual(self.whole(client_id="another")[1], {"status": 400, "message": "invalid client"})


class MicrosoftTests(SideCase):
    side = "microsoft/common/v2.0"
    asked: ClassVar = {
        **GOOGLE,
        "client_id": "microsoft-1024",
        "redirect_uri": f"{GAME}/auth/microsoft/callback",
    }

    def test_whole(self) -> None:
        """The document has the template of issuers, as the key has, and the token the issuer of the person's tenant."""
        document, tokens, claims = self.whole()
        self.assertEqual(document["issuer"], f"{BASE}/microsoft/{{tenantid}}/v2.0")
        tenant, _, subject = PEOPLE[1].subjects["microsoft"].partition("/")
        expected = {"iss": f"{BASE}/microsoft/{tenant}/v2.0", "tid": tenant, "sub": subject, "aud": "microsoft-1024"}
        self.assertLessEqual(expected.items(), claims.items())
        self.assertEqual(tokens["token_type"], "Bearer")
        self.assertIn("client_secret_basic", document["token_endpoint_auth_methods_supported"])
        [key] = self.ask("GET", "/microsoft/common/keys")[1]["keys"]
        self.assertEqual(key["issuer"], document["issuer"])

    def test_consumers(self) -> None:
        """The document of personal accounts has their issuer; there are no others, and none without tenants."""
        path = ".well-known/openid-configuration"
        document = self.ask("GET", f"/microsoft/consumers/v2.0/{path}")[1]
        self.assertEqual(document["issuer"], f"{BASE}/microsoft/{PERSONAL}/v2.0")
        [key] = self.ask("GET", document["jwks_uri"].removeprefix(BASE))[1]["keys"]
        self.assertEqual(key["issuer"], document["issuer"])
        for place in ("microsoft", "microsoft/others/v2.0", "twitch/common/v2.0", "github", "google"):
            self.assertEqual(self.ask("GET", f"/{place}/{path}")[0], 404, place)
        for place in ("microsoft", "microsoft/others", "twitch/common", "github", "discord"):
            self.assertEqual(self.ask("GET", f"/{place}/keys")[0], 404, place)


class AppleTests(SideCase):
    side = "apple"
    asked: ClassVar = {
        **without(GOOGLE, "prompt"),
        "client_id": "apple-1024",
        "redirect_uri": f"{GAME}/auth/apple/callback",
        "response_mode": "query",
    }

    def secret(self, header: Mapping[str, str] = {}, key: bytes = SIGNING_KEY, **claims: object) -> str:
        """Return a client secret, which is right unless a part of it is changed."""
        now = START_MS // 1000
        right = {"iss": TEAM_ID, "sub": "apple-1024", "aud": f"{BASE}/apple", "iat": now, "exp": now + 600}
        head = {"alg": "ES256", "kid": KEY_ID, **header}
        return jwt.encode(head, {**right, **claims}, ECKey.import_key(key), algorithms=["ES256"])

    def test_whole(self) -> None:
        """A secret that the key signs is exchanged for an ID token."""
        document, tokens, claims = self.whole(client_secret=self.secret())
        self.assertEqual((document["issuer"], tokens["token_type"]), (f"{BASE}/apple", "Bearer"))
        expected = {"iss": f"{BASE}/apple", "aud": "apple-1024", "sub": PEOPLE[1].subjects["apple"]}
        self.assertLessEqual(expected.items(), claims.items())

    def test_denied(self) -> None:
        """Apple has an error of its own for a person who cancels."""
        self.assertEqual(self.callback(self.asked, "")["error"], "user_cancelled_authorize")

    def test_secrets(self) -> None:
        """Another key, name or time than Apple's documentation has is refused."""
        now = START_MS // 1000
        for secret in (
            self.secret(key=new_signing_key()),
            self.secret({"kid": "XXXXXXXXXX"}),
            self.secret(iss="XXXXXXXXXX"),
            self.secret(sub="another"),
            self.secret(aud="https://appleid.apple.com"),
            self.secret(iat=now + 1),
            self.secret(exp=now),
            self.secret(exp=now + 15_777_001),
            SIDE_SECRET,
            "a.b.c",
        ):
            self.assertEqual(self.whole(client_secret=secret)[1]["error"], "invalid_client", secret)

    def test_clocks(self) -> None:
        """A secret of gamed's own is taken if its machine is two minutes ahead, or almost an hour behind."""
        credentials = ClientCredentials("apple-1024", Secret(SIGNING_KEY))
        for seconds, right in ((0, True), (120, True), (121, False), (-3599, True), (-3600, False)):
            here_ms = START_MS + seconds * 1000
            signed = sign_credentials(credentials, TEAM_ID, KEY_ID, f"{BASE}/apple", here_ms)
            tokens = self.whole(client_secret=signed.secret.reveal().decode())[1]
            self.assertEqual("id_token" in tokens, right, seconds)

    def test_response_mode(self) -> None:
        """Only a callback by GET is emulated, as gamed wants none by POST."""
        for asked in (without(self.asked, "response_mode"), {**self.asked, "response_mode": "form_post"}):
            self.assertEqual(self.callback(asked)["error"], "invalid_request")


class SteamTests(ProviderCase):
    """The Steam side, where no client is registered and nothing is exchanged."""

    realm = f"{GAME}/"
    return_to = f"{GAME}/auth/steam/callback?state={'s' * 43}"

    def asked(self, **changed: str) -> str:
        select = "http://specs.openid.net/auth/2.0/identifier_select"
        right = {
            "openid.ns": "http://specs.openid.net/auth/2.0",
            "openid.mode": "checkid_setup",
            "openid.claimed_id": select,
            "openid.identity": select,
            "openid.return_to": self.return_to,
            "openid.realm": self.realm,
        }
        members = {**right, **{f"openid.{name}": value for name, value in changed.items()}}
        return urlencode({name: value for name, value in members.items() if value})

    def assertion(self, person: str = "bo", mode: ResponseMode = ResponseMode.AT_ONCE) -> dict[str, str]:
        """Return the fields of the callback beside the state."""
        url = self.provider.sign_in(f"{BASE}/steam/openid/login?{self.asked()}", person, mode)
        self.assertTrue(url.startswith(f"{self.return_to}&"), url)
        return dict(parse_qsl(url.removeprefix(f"{self.return_to}&"), strict_parsing=True))

    def confirm(self, fields: Mapping[str, str]) -> Deferred:
        form = urlencode({**fields, "openid.mode": "check_authentication"}).encode()
        return self.begin("POST", "/steam/openid/login", {"Content-Type": FORM}, data=form)

    def is_valid(self, fields: Mapping[str, str]) -> bool:
        status, body = self.successResultOf(self.confirm(fields))
        self.assertEqual(status, 200)
        self.assertTrue(body.startswith("ns:http://specs.openid.net/auth/2.0\nis_valid:"), body)
        return body.endswith(":true\n")

    def test_whole(self) -> None:
        """An assertion has the person's account, and is confirmed once."""
        fields = self.assertion()
        self.assertEqual(fields["openid.claimed_id"], f"{BASE}/steam/openid/id/{PEOPLE[1].subjects['steam']}")
        self.assertEqual((self.is_valid(fields), self.is_valid(fields)), (True, False))
        self.assertEqual(self.assertion("")["openid.mode"], "cancel")

    def test_changed(self) -> None:
        """A field that is changed, missing or in another order is not confirmed."""
        for name in ("claimed_id", "identity", "return_to", "response_nonce", "signed", "sig", "op_endpoint"):
            fields = self.assertion()
            self.assertFalse(self.is_valid({**fields, f"openid.{name}": fields[f"openid.{name}"][:-1] + "x"}), name)
            self.assertFalse(self.is_valid(without(fields, f"openid.{name}")), name)
        fields = self.assertion()
        signed = ",".join(reversed(fields["openid.signed"].split(",")))
        self.assertFalse(self.is_valid({**fields, "openid.signed": signed}))

    def test_manners(self) -> None:
        """The direct verification is slow or fails, as the person at the page wished."""
        self.assertEqual(self.successResultOf(self.confirm(self.assertion(mode=ResponseMode.FAIL)))[0], 503)
        slow = self.confirm(self.assertion(mode=ResponseMode.SLOW))
        self.assertNoResult(slow)
        self.clock.advance(SLOW_SECONDS)
        self.http.flush()
        self.assertEqual(self.successResultOf(slow)[0], 200)

    def test_page(self) -> None:
        """The page and its form lead to the callback; odd forms and mistakes get a page, no redirect."""
        status, page = self.ask("GET", f"/steam/openid/login?{self.asked()}")
        self.assertEqual((status, "Continue as Bo" in page, GAME in page), (200, True, True))
        for person, expected in (("bo", 303), ("", 303), ("zaphod", 400)):
            form = urlencode({"query": self.asked(), "person": person, "manner": "at once"}).encode()
            self.assertEqual(self.ask("POST", "/steam/openid/login", {"Content-Type": FORM}, data=form)[0], expected)
        for changed in (
            {"ns": "http://openid.net/signon/1.1"},
            {"mode": "checkid_immediate"},
            {"identity": f"{BASE}/steam/openid/id/1"},
            {"realm": "https://evil.example/"},
            {"realm": GAME},
            {"return_to": f"{GAME}/auth/steam/callback"},
            {"return_to": f"https://evil.example/?state={'s' * 43}"},
            {"return_to": ""},
            {"more": "1"},
        ):
            self.assertEqual(self.ask("GET", f"/steam/openid/login?{self.asked(**changed)}")[0], 400, changed)
        self.assertEqual(self.ask("GET", f"/steam/openid/login?{self.asked()}&{self.asked()}")[0], 400)

    def test_bounded(self) -> None:
        """Assertions that are never confirmed are forgotten, the oldest first."""
        first = self.assertion()
        for _ in range(1000):
            last = self.assertion()
        self.assertEqual((self.is_valid(first), self.is_valid(last)), (False, True))


class RecordTests(ProviderCase):
    def test_sent(self) -> None:
        """Record requests for assertions, with header names in lower case."""
        self.exchange(self.discord_form())
        [sent] = self.provider.requests("/api/v10/oauth2/token")
        self.assertEqual(
            (sent.method, sent.headers["user-agent"], sent.form["code_verifier"]), ("POST", AGENT, VERIFIER)
        )
        self.assertNotIn(VERIFIER, repr(sent))

    def test_bounded(self) -> None:
        """Records, codes and tokens are forgotten, the oldest first."""
        first = self.callback(DISCORD)["code"]
        for _ in range(1100):
            last = self.callback(DISCORD)["code"]
            self.provider.grants.token(PEOPLE[0])
            self.provider.sent.append(None)
        self.assertEqual(self.exchange(self.discord_form(code=first))[1]["error_description"], "unknown code")
        self.assertEqual(self.exchange(self.discord_form(code=last))[0], 200)
        self.assertEqual(len(self.provider.sent), 1000)
