"""These tests sign in through a provider in memory, with browsers and games over HTTP.

See docs/protocol.md: Signing in, Accounts.
"""

from typing import Any
from urllib.parse import parse_qsl, urlsplit

from msgspec.structs import replace

from gamed.crypto import Secret
from gamed.dev import documents
from gamed.dev.clients import EmulatedProvider
from gamed.dev.grants import Grant, GrantError, ResponseMode
from gamed.login import sentences
from gamed.login.local import FormError
from gamed.outcomes import LoginFailure
from gamed.providers.messages import challenge_of
from tests.login.browser_fake_provider import DISCORD, GOOGLE, ProviderCase
from tests.login.browser_fixtures import BASE
from tests.login.fixtures import PASSWORD, done
from tests.login.test_browser_routes import EVIL, code
from tests.support.covers import covers
from tests.support.provider import DISCORD_CLIENT, WatchedProvider
from tests.support.stores import contents


class RecordingProvider(WatchedProvider):
    """A provider that remembers every token that it issued."""

    def __init__(self, *args: Any, **how: Any) -> None:
        super().__init__(*args, **how)
        self.given: list[str] = []

    def tokens(self, provider: EmulatedProvider, grant: Grant) -> dict[str, Any]:
        answer = super().tokens(provider, grant)
        self.given += [answer[name] for name in ("access_token", "refresh_token", "id_token") if name in answer]
        return answer


@covers("1/4", "1/7", "5/1")
class CompleteSignIns(ProviderCase):
    @covers("words/9", "words/10", "5/3", "5/4")
    def test_tokens_of_providers_stay(self) -> None:
        """The provider's tokens reach neither the game nor a page nor auth.db (SPEC 1/14, 5/3)."""
        self.serve_oauth(kind=RecordingProvider)
        seen = []
        for name in ("discord", "google"):
            game, browser = self.game(provider=name), self.new_browser()
            page = self.signed_in(browser, game.url)
            responses = [game.collect(finish_code=code(page)).body, game.collect().body]
            seen += [page.html, browser.get(game.url).html, *map(repr, responses)]
        seen += map(repr, self.server.write(contents).values())
        self.assertEqual(len(self.fake.given), 4)
        for token in self.fake.given:
            self.assertEqual([text for text in seen if token in text], [])

    @covers("4/9", "operational/9")
    def test_discord(self) -> None:
        """Discord without the page, through the port, to credentials; the requests to the provider are exact."""
        self.serve_oauth()
        game, browser = self.game(provider="discord", loopback_port=51004), self.new_browser()
        there = browser.get(game.url)
        back = self.at_provider(there)
        asked = dict(parse_qsl(urlsplit(there.headers["location"]).query, strict_parsing=True))
        self.assertEqual(asked["redirect_uri"], f"{BASE}/auth/discord/callback")
        self.assertEqual((asked["scope"], asked["code_challenge_method"]), ("identify", "S256"))
        self.assertEqual(game.collect().json["stage"], "at_provider")
        callback = browser.get(back)
        self.assertEqual(callback.headers["location"], f"{BASE}/auth/login/done?login_id={game.login['login_id']}")
        link, _ = browser.get(callback.headers["location"]).links
        ticket = dict(parse_qsl(urlsplit(link).query))["ticket"]
        complete = game.collect(ticket=ticket).json
        self.assertEqual((complete["status"], complete["provider"]), ("complete", "discord"))
        [sent] = self.fake.requests(documents.DISCORD_TOKEN)
        self.assertEqual(sent.form["code"], dict(parse_qsl(urlsplit(back).query))["code"])
        self.assertEqual(sent.form["redirect_uri"], asked["redirect_uri"])
        self.assertEqual(challenge_of_text(sent.form["code_verifier"]), asked["code_challenge"])

    @covers("4/13")
    def test_google(self) -> None:
        """Google with the page, a nonce and `iss`, and the code typed into the game."""
        self.serve_oauth()
        game, browser = self.game(provider="google"), self.new_browser()
        page = self.signed_in(browser, game.url, "bo")
        complete = game.collect(finish_code=code(page)).json
        self.assertEqual((complete["provider"], complete["player"]["created"]), ("google", True))
        again = self.game(provider="google")
        page = self.signed_in(self.new_browser(), again.url, "bo")
        self.assertEqual(again.collect(finish_code=code(page)).json["player"]["id"], complete["player"]["id"])
        self.assertEqual(len(self.fake.requests(documents.GOOGLE_TOKEN)), 2)

    def test_same_person_two_providers(self) -> None:
        """One person with two providers is two players until they link."""
        self.serve_oauth()
        players = set()
        for name in ("discord", "google"):
            game = self.game(provider=name)
            page = self.signed_in(self.new_browser(), game.url)
            players.add(game.collect(finish_code=code(page)).json["player"]["id"])
        self.assertEqual(len(players), 2)

    def test_realms(self) -> None:
        """The namespaces of the configuration are those of the identities: no identity is orphaned."""
        self.serve_oauth()
        for name in ("discord", "google"):
            game = self.game(provider=name)
            game.collect(finish_code=code(self.signed_in(self.new_browser(), game.url)))
        self.assertEqual(self.server.rows("SELECT count(*) FROM identity"), [(2,)])
        left = self.server.store.orphaned_identities
        self.assertEqual([done(left(realms)) for realms in (self.server.parts.namespaces, frozenset())], [0, 2])


class Starting(ProviderCase):
    def test_refusals(self) -> None:
        """Each refused start has its code, and no login is written."""
        self.serve_oauth(DISCORD)
        for body, status, problem in (
            ({}, 400, "invalid_request"),
            ({"provider": "google"}, 400, "provider_unknown"),
            ({"provider": "local"}, 400, "provider_unknown"),
            ({"provider": "discord", "intent": "link"}, 401, "token_missing"),
            ({"provider": "discord", "intent": "merge"}, 400, "invalid_request"),
        ):
            answer = self.game(**body).answer
            self.assertEqual((answer.status, answer.json["code"]), (status, problem), body)
        self.assertEqual(self.server.rows("SELECT 1 FROM login"), [])

    def test_left_alone(self) -> None:
        """A provider with an open circuit is 503 with Retry-After, without its cause."""
        self.serve_oauth(DISCORD)
        for _ in range(5):
            game, browser = self.game(provider="discord"), self.new_browser()
            browser.get(self.at_provider(self.go_on(browser, game.url), manner=ResponseMode.FAIL))
            self.assertEqual(game.collect().json["problem"]["code"], "provider_unavailable")
        answer = self.game(provider="discord").answer
        self.assertEqual((answer.status, answer.json["code"]), (503, "provider_unavailable"))
        self.assertEqual(answer.headers["retry-after"], "30")
        self.assertNotIn("alone", answer.json["detail"])
        self.server.clock.advance(30)
        self.assertEqual(self.game(provider="discord").answer.status, 201)


class ProviderPage(ProviderCase):
    def test_words(self) -> None:
        """The page shows server, host, provider, the client's description, its age, and both buttons."""
        self.serve_oauth()
        game = self.game(provider="discord", client={"name": "MyGame", "device_name": EVIL})
        self.server.clock.advance(125)
        browser = self.new_browser()
        page = browser.get(game.url)
        self.assertEqual((page.status, page.heading), (200, "Sign in"))
        for words in (
            "Anna's Arena",
            "game.example",
            "with Discord .",
            "Reported by the device",
            "asked 2 min ago",
        ):
            self.assertIn(words, page.text)
        self.assertIn("<bdi>MyGame</bdi>", page.html)
        self.assertNotIn("script", page.tags)
        self.assertEqual([form["action"].rpartition("/")[2] for form in page.forms], ["continue", "decline"])
        buttons = [part.split("</button>")[0] for part in page.html.split("<button ")[1:]]
        self.assertEqual([button.split(">")[1] for button in buttons], ["Continue with Discord", "This was not me"])
        self.assertEqual(
            [button.split(">")[0] for button in buttons], ['type="submit" class="main"', 'type="submit" class="plain"']
        )
        self.assertTrue(str(browser.cookie).startswith("__Host-gl="))

    @covers("threats/2")
    def test_who_sees_it(self) -> None:
        """The page is shown for a link from another site, on another machine, and for a game without a port."""
        self.serve_oauth()
        game = self.game(provider="discord", loopback_port=51004)
        for site in ("cross-site", "same-site", "same-origin"):
            self.assertEqual(self.new_browser().get(game.url, Sec_Fetch_Site=site).status, 200)
        self.assertEqual(self.new_browser().get(game.url, Sec_Fetch_Site="none").status, 303)
        self.assertEqual(self.new_browser().get(self.game(provider="discord").url).status, 200)

    def test_redirect_sets_the_cookie(self) -> None:
        """The redirect without the page sets the cookie that the callback needs."""
        self.serve_oauth()
        game, browser = self.game(provider="discord", loopback_port=51004), self.new_browser()
        there = browser.get(game.url)
        self.assertTrue(str(browser.cookie).startswith("__Host-gl="))
        self.assertIn("Secure; HttpOnly; SameSite=Lax", there.headers["set-cookie"])
        self.assertEqual(there.html, "")
        again = browser.get(game.url)
        self.assertNotIn("set-cookie", again.headers)

    @covers("threats/7")
    def test_prefetched(self) -> None:
        """A prefetch and a frame make no attempt and end no login."""
        self.serve_oauth(GOOGLE)
        self.fake.metadata = unavailable  # type: ignore[method-assign]
        game, browser = self.game(provider="google", loopback_port=51004), self.new_browser()
        self.assertEqual(browser.get(game.url, Sec_Purpose="prefetch").status, 503)
        self.assertEqual(browser.get(game.url, Sec_Fetch_Dest="iframe").status, 403)
        self.assertEqual(self.server.rows("SELECT 1 FROM authorization_attempt"), [])
        self.assertEqual(game.collect().json["stage"], "waiting_for_browser")

    @covers("threats/5")
    def test_forged(self) -> None:
        """The button works only from its own page in its own browser."""
        self.serve_oauth()
        game, browser, other_browser = self.game(provider="discord"), self.new_browser(), self.new_browser()
        form = browser.get(game.url).form("/continue")
        other_browser.get(game.url)
        for page in (
            other_browser.post(form),
            browser.post({**form, "fields": {}}),
            browser.post(form, Sec_Fetch_Site="cross-site"),
            browser.post(form, Sec_Fetch_Dest="iframe"),
        ):
            self.assertEqual(page.status, 403)
        self.assertEqual(self.server.rows("SELECT 1 FROM authorization_attempt"), [])
        self.assertEqual(browser.post(form).status, 303)

    def test_decline(self) -> None:
        """ "This was not me" ends the login before any request to the provider."""
        self.serve_oauth()
        game, browser = self.game(provider="discord"), self.new_browser()
        denied = browser.post(browser.get(game.url).form("/decline"))
        self.assertEqual(denied.heading, "You were not signed in")
        self.assertEqual(game.collect().json["problem"]["code"], "login_denied")
        self.assertEqual(len(self.fake.sent), 0)

    def test_no_local_form(self) -> None:
        """In oauth mode a password alone signs in no player."""
        self.serve_oauth()
        game, browser = self.game(provider="discord"), self.new_browser()
        form = browser.get(game.url).form("/continue")
        local = {**form, "action": form["action"].replace("/continue", "/local")}
        self.assertEqual(browser.post(local, {"name": "Anna", "password": PASSWORD}).status, 404)
        self.assertEqual(game.collect().json["stage"], "waiting_for_browser")

    def test_provider_down(self) -> None:
        """A failing provider: game, browser and log get the outcome; later sign-ins work."""
        self.serve_oauth(GOOGLE)
        metadata, self.fake.metadata = self.fake.metadata, unavailable  # type: ignore[method-assign]
        game, browser = self.game(provider="google", loopback_port=51004), self.new_browser()
        there = browser.get(game.url)
        self.assertEqual(there.headers["location"], f"{BASE}/auth/login/done?login_id={game.login['login_id']}")
        page = browser.get(there.headers["location"])
        title, advice = sentences.ENDED[LoginFailure.PROVIDER_UNAVAILABLE]
        self.assertEqual((page.status, page.heading, page.forms), (200, title.source, []))
        self.assertIn(advice.source, page.text)
        self.assertEqual(game.collect().json["problem"]["code"], "provider_unavailable")
        self.assertEqual((browser.get(game.url).status, self.new_browser().get(game.url).status), (410, 410))
        self.server.clock.advance(30)
        self.fake.metadata = metadata  # type: ignore[method-assign]
        game = self.game(provider="google", loopback_port=51004)
        self.assertTrue(self.new_browser().get(game.url).headers["location"].startswith("https://"))
        [line] = self.server.log.lines
        self.assertTrue(line.startswith("failed google provider_unavailable "), line)


class Adopt(ProviderCase):
    def test_page(self) -> None:
        """The page asks for name and password; the provider's account then signs in the same player."""
        self.serve_oauth(DISCORD)
        game, browser = self.game(provider="discord", intent="adopt", loopback_port=51004), self.new_browser()
        page = browser.get(game.url)
        self.assertEqual((page.status, page.heading), (200, "Keep your account"))
        self.assertEqual(set(page.form("/continue")["fields"]), {"form", "name", "password"})
        wrong = browser.post(page.form("/continue"), {"name": "Anna", "password": "wrong horse"})
        self.assertEqual((wrong.status, sentences.REFUSED[FormError.WRONG].source in wrong.text), (200, True))
        self.assertEqual(wrong.form("/continue")["fields"]["name"], "Anna")
        self.assertNotIn("horse", wrong.html)
        there = browser.post(wrong.form("/continue"), {"name": "Anna", "password": PASSWORD})
        back = browser.get(browser.get(self.at_provider(there)).headers["location"])
        ticket = dict(parse_qsl(urlsplit(back.links[0]).query))["ticket"]
        complete = game.collect(ticket=ticket).json
        self.assertEqual(complete["player"], {"id": "ply_" + "A" * 22, "created": False, "owner": False, "name": None})
        adopted = "<bdi>Discord</bdi> now signs you in as <bdi>Anna</bdi>. This page can be closed."
        self.assertIn(adopted, browser.get(done_url(game.login)).html)
        self.assertEqual(self.game(provider="discord", intent="adopt").answer.status, 400)


class Link(ProviderCase):
    def test_whole(self) -> None:
        """A player of Discord links Google: the page names the player, and both sign in the same one."""
        self.serve_oauth()
        first = self.game(provider="discord")
        complete = first.collect(finish_code=code(self.signed_in(self.new_browser(), first.url))).json
        game = self.game(token=complete["access_token"], provider="google", intent="link", loopback_port=51004)
        browser = self.new_browser()
        page = browser.get(game.url)
        self.assertEqual(page.heading, "Link Google")
        self.assertIn(f"<bdi>{complete['player']['id']}</bdi>", page.html)
        back = browser.get(browser.get(self.at_provider(browser.post(page.form("/continue")))).headers["location"])
        ticket = dict(parse_qsl(urlsplit(back.links[0]).query))["ticket"]
        self.assertEqual(game.collect(ticket=ticket).json, {"status": "complete", "linked": {"provider": "google"}})
        linked = f"The account is linked to <bdi>{complete['player']['id']}</bdi>. This page can be closed."
        self.assertIn(linked, browser.get(done_url(game.login)).html)
        again = self.game(provider="google")
        player = again.collect(finish_code=code(self.signed_in(self.new_browser(), again.url))).json["player"]
        self.assertEqual((player["id"], player["created"]), (complete["player"]["id"], False))

    def test_recent_sign_in(self) -> None:
        """A link with a sign-in older than ten minutes is 403."""
        self.serve_oauth()
        first = self.game(provider="discord")
        complete = first.collect(finish_code=code(self.signed_in(self.new_browser(), first.url))).json
        self.server.clock.advance(600.001)
        answer = self.game(token=complete["access_token"], provider="google", intent="link").answer
        self.assertEqual((answer.status, answer.json["code"]), (403, "reauthentication_required"))


class Outcomes(ProviderCase):
    def test_denied_at_the_provider(self) -> None:
        """A denial at the provider: the browser sees what to do, the game gets the code."""
        self.serve_oauth()
        for name in ("discord", "google"):
            game, browser = self.game(provider=name), self.new_browser()
            page = self.signed_in(browser, game.url, "")
            self.assertEqual(
                (page.status, page.heading), (200, sentences.ENDED[LoginFailure.PROVIDER_DENIED][0].source)
            )
            self.assertEqual(game.collect().json["problem"]["code"], "provider_denied")
            self.assertEqual(browser.get(game.url).status, 410)

    def test_wrong_secret(self) -> None:
        """A wrong client secret: the game gets the outcome, the page names no secret, the log has cause and request."""
        self.serve_oauth(DISCORD)
        self.fake.clients = (replace(DISCORD_CLIENT, client_secret=Secret(b"reset")),)
        game, browser = self.game(provider="discord"), self.new_browser()
        page = self.signed_in(browser, game.url)
        self.assertEqual(page.heading, sentences.ENDED[LoginFailure.PROVIDER_MISCONFIGURED][0].source)
        self.assertNotIn("secret", page.text.lower())
        self.assertEqual(game.collect().json["problem"]["code"], "provider_misconfigured")
        [line] = self.server.log.lines
        self.assertIn("invalid_client", line)
        self.assertIn("client_secret_env", line)


def unavailable() -> dict[str, object]:
    raise GrantError(503, "temporarily_unavailable", "maintenance")


def challenge_of_text(verifier: str) -> str:
    return challenge_of(Secret(verifier.encode()))


def done_url(login: dict[str, str]) -> str:
    return f"{BASE}/auth/login/done?login_id={login['login_id']}"
