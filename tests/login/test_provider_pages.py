"""Sign-in through a provider as browsers and games see it: the whole way, in memory (PROTOCOL 3.1 to 3.5, 3.8)."""

from typing import Any
from urllib.parse import parse_qsl, urlsplit

from msgspec.structs import replace

from gamed.crypto import Secret
from gamed.dev import documents
from gamed.dev.grants import Grant, GrantError, ResponseMode
from gamed.login.pages import texts
from gamed.outcomes import LoginFailure
from gamed.providers.messages import challenge_of
from tests.login.browser_fake_provider import DISCORD, GOOGLE, FarCase
from tests.login.browser_fixtures import BASE
from tests.login.fixtures import PASSWORD, done
from tests.login.test_pages import EVIL, code
from tests.support.covers import covers
from tests.support.provider import DISCORD_CLIENT, WatchedProvider


class Remembering(WatchedProvider):
    """Knows every token that it ever gave."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.given: list[str] = []

    def discord_tokens(self, grant: Grant) -> dict[str, Any]:
        return self.noted(super().discord_tokens(grant))

    def google_tokens(self, grant: Grant) -> dict[str, Any]:
        return self.noted(super().google_tokens(grant))

    def noted(self, answer: dict[str, Any]) -> dict[str, Any]:
        self.given += [answer[name] for name in ("access_token", "refresh_token", "id_token") if name in answer]
        return answer


@covers("1/4", "1/7", "5/1")
class WholeWay(FarCase):
    @covers("words/9", "words/10", "5/3", "5/4")
    def test_tokens_of_providers_stay(self) -> None:
        """They are used once and are nowhere afterwards: not at the game, in a page, or in auth.db (SPEC 1.7, 5.2)."""
        self.serve_oauth(kind=Remembering)
        seen = []
        for name in ("discord", "google"):
            game, browser = self.game(provider=name), self.surfer()
            page = self.signed_in(browser, game.url)
            told = [game.collect(finish_code=code(page)).body, game.collect().body]
            seen += [page.html, browser.get(game.url).html, *map(repr, told)]
        tables = [table for (table,) in self.desk.rows("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        seen += [repr(self.desk.rows(f"SELECT * FROM {table}")) for table in tables]
        self.assertEqual(len(self.far.given), 4)
        for token in self.far.given:
            self.assertEqual([text for text in seen if token in text], [])

    @covers("4/9", "operational/9")
    def test_discord(self) -> None:
        """Straight there from the game's machine, back, through the port: credentials; what was sent is exact."""
        self.serve_oauth()
        game, browser = self.game(provider="discord", loopback_port=51004), self.surfer()
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
        [sent] = self.far.requests(documents.DISCORD_TOKEN)
        self.assertEqual(sent.form["code"], dict(parse_qsl(urlsplit(back).query))["code"])
        self.assertEqual(sent.form["redirect_uri"], asked["redirect_uri"])
        self.assertEqual(challenge_of_text(sent.form["code_verifier"]), asked["code_challenge"])

    @covers("4/13")
    def test_google(self) -> None:
        """The page, the button, OpenID Connect with a nonce and `iss`, the code typed into the game."""
        self.serve_oauth()
        game, browser = self.game(provider="google"), self.surfer()
        page = self.signed_in(browser, game.url, "bo")
        complete = game.collect(finish_code=code(page)).json
        self.assertEqual((complete["provider"], complete["player"]["created"]), ("google", True))
        again = self.game(provider="google")
        page = self.signed_in(self.surfer(), again.url, "bo")
        self.assertEqual(again.collect(finish_code=code(page)).json["player"]["id"], complete["player"]["id"])
        self.assertEqual(len(self.far.requests(documents.GOOGLE_TOKEN)), 2)

    def test_same_person_two_providers(self) -> None:
        """Two players until they link: nobody is merged by what they look like."""
        self.serve_oauth()
        players = set()
        for name in ("discord", "google"):
            game = self.game(provider=name)
            page = self.signed_in(self.surfer(), game.url)
            players.add(game.collect(finish_code=code(page)).json["player"]["id"])
        self.assertEqual(len(players), 2)

    def test_realms(self) -> None:
        """What the file alone says of each provider is what its identities really are of: none is left behind."""
        self.serve_oauth()
        for name in ("discord", "google"):
            game = self.game(provider=name)
            game.collect(finish_code=code(self.signed_in(self.surfer(), game.url)))
        self.assertEqual(self.desk.rows("SELECT count(*) FROM identity"), [(2,)])
        left = self.desk.store.orphaned_identities
        self.assertEqual([done(left(realms)) for realms in (self.realms, frozenset())], [0, 2])


class Starting(FarCase):
    def test_refusals(self) -> None:
        """Each with its code, and no login written."""
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
        self.assertEqual(self.desk.rows("SELECT 1 FROM login"), [])

    def test_left_alone(self) -> None:
        """A provider that failed again and again: 503 with Retry-After, and its cause is not told."""
        self.serve_oauth(DISCORD)
        for _ in range(5):
            game, browser = self.game(provider="discord"), self.surfer()
            browser.get(self.at_provider(self.go_on(browser, game.url), manner=ResponseMode.FAIL))
            self.assertEqual(game.collect().json["problem"]["code"], "provider_unavailable")
        answer = self.game(provider="discord").answer
        self.assertEqual((answer.status, answer.json["code"]), (503, "provider_unavailable"))
        self.assertEqual(answer.headers["retry-after"], "30")
        self.assertNotIn("alone", answer.json["detail"])
        self.desk.clock.advance(30)
        self.assertEqual(self.game(provider="discord").answer.status, 201)


class ProviderPage(FarCase):
    def test_words(self) -> None:
        """Server and host, provider, the device's words marked as such, since when; two buttons that look the same."""
        self.serve_oauth()
        game = self.game(provider="discord", client={"name": "MyGame", "device_name": EVIL})
        self.desk.clock.advance(125)
        browser = self.surfer()
        page = browser.get(game.url)
        self.assertEqual((page.status, page.heading), (200, "Sign in"))
        for words in ("Anna's Arena", "game.example", "with Discord", texts.DEVICE_LABEL, "Started 2 minutes ago"):
            self.assertIn(words, page.text)
        self.assertIn("<bdi>MyGame</bdi>", page.html)
        self.assertNotIn("script", page.tags)
        self.assertEqual([form["action"].rpartition("/")[2] for form in page.forms], ["continue", "decline"])
        buttons = [part.split("</button>")[0] for part in page.html.split("<button ")[1:]]
        self.assertEqual([button.split(">")[1] for button in buttons], ["Continue with Discord", "This was not me"])
        self.assertEqual(len({button.split(">")[0] for button in buttons}), 1)
        self.assertTrue(str(browser.cookie).startswith("__Host-gl="))

    @covers("threats/2")
    def test_who_sees_it(self) -> None:
        """Whoever follows a link: from another site, to another machine, or for a game without a port."""
        self.serve_oauth()
        game = self.game(provider="discord", loopback_port=51004)
        for site in ("cross-site", "same-site", "same-origin"):
            self.assertEqual(self.surfer().get(game.url, Sec_Fetch_Site=site).status, 200)
        self.assertEqual(self.surfer().get(game.url, Sec_Fetch_Site="none").status, 303)
        self.assertEqual(self.surfer().get(self.game(provider="discord").url).status, 200)

    def test_straight_sets_the_cookie(self) -> None:
        """The redirect itself brings it; the callback would not be believed without."""
        self.serve_oauth()
        game, browser = self.game(provider="discord", loopback_port=51004), self.surfer()
        there = browser.get(game.url)
        self.assertTrue(str(browser.cookie).startswith("__Host-gl="))
        self.assertIn("Secure; HttpOnly; SameSite=Lax", there.headers["set-cookie"])
        self.assertEqual(there.html, "")
        again = browser.get(game.url)
        self.assertNotIn("set-cookie", again.headers)

    @covers("threats/7")
    def test_prefetched(self) -> None:
        """A guess of the browser makes no attempt, and ends nothing where one would fail; nor does a frame."""
        self.serve_oauth(GOOGLE)
        self.far.metadata = unavailable  # type: ignore[method-assign]
        game, browser = self.game(provider="google", loopback_port=51004), self.surfer()
        self.assertEqual(browser.get(game.url, Sec_Purpose="prefetch").status, 503)
        self.assertEqual(browser.get(game.url, Sec_Fetch_Dest="iframe").status, 403)
        self.assertEqual(self.desk.rows("SELECT 1 FROM authorization_attempt"), [])
        self.assertEqual(game.collect().json["stage"], "waiting_for_browser")

    @covers("threats/5")
    def test_forged(self) -> None:
        """The button works from its own page in its own browser only."""
        self.serve_oauth()
        game, browser, stranger = self.game(provider="discord"), self.surfer(), self.surfer()
        form = browser.get(game.url).form("/continue")
        stranger.get(game.url)
        for page in (
            stranger.post(form),
            browser.post({**form, "fields": {}}),
            browser.post(form, Sec_Fetch_Site="cross-site"),
            browser.post(form, Sec_Fetch_Dest="iframe"),
        ):
            self.assertEqual(page.status, 403)
        self.assertEqual(self.desk.rows("SELECT 1 FROM authorization_attempt"), [])
        self.assertEqual(browser.post(form).status, 303)

    def test_decline(self) -> None:
        """This was not me: over, before any provider was asked."""
        self.serve_oauth()
        game, browser = self.game(provider="discord"), self.surfer()
        denied = browser.post(browser.get(game.url).form("/decline"))
        self.assertEqual(denied.heading, texts.DENIED_TITLE)
        self.assertEqual(game.collect().json["problem"]["code"], "login_denied")
        self.assertEqual(len(self.far.sent), 0)

    def test_no_local_form(self) -> None:
        """In oauth mode nobody signs in with a password alone."""
        self.serve_oauth()
        game, browser = self.game(provider="discord"), self.surfer()
        form = browser.get(game.url).form("/continue")
        local = {**form, "action": form["action"].replace("/continue", "/local")}
        self.assertEqual(browser.post(local, {"name": "Anna", "password": PASSWORD}).status, 404)
        self.assertEqual(game.collect().json["stage"], "waiting_for_browser")

    def test_provider_down(self) -> None:
        """The game is told, its browser has one sentence and no button, the owner a line; later sign-ins work."""
        self.serve_oauth(GOOGLE)
        metadata, self.far.metadata = self.far.metadata, unavailable  # type: ignore[method-assign]
        game, browser = self.game(provider="google", loopback_port=51004), self.surfer()
        there = browser.get(game.url)
        self.assertEqual(there.headers["location"], f"{BASE}/auth/login/done?login_id={game.login['login_id']}")
        page = browser.get(there.headers["location"])
        title, advice = texts.ENDED[LoginFailure.PROVIDER_UNAVAILABLE]
        self.assertEqual((page.status, page.heading, page.forms), (200, title, []))
        self.assertIn(advice, page.text)
        self.assertEqual(game.collect().json["problem"]["code"], "provider_unavailable")
        self.assertEqual((browser.get(game.url).status, self.surfer().get(game.url).status), (410, 410))
        self.desk.clock.advance(30)
        self.far.metadata = metadata  # type: ignore[method-assign]
        game = self.game(provider="google", loopback_port=51004)
        self.assertTrue(self.surfer().get(game.url).headers["location"].startswith("https://"))
        [line] = self.desk.log.lines
        self.assertTrue(line.startswith("failed google provider_unavailable "), line)


class Adopt(FarCase):
    def test_page(self) -> None:
        """Name and password with their labels, the provider's button, the way to say no; then the same player."""
        self.serve_oauth(DISCORD)
        game, browser = self.game(provider="discord", intent="adopt", loopback_port=51004), self.surfer()
        page = browser.get(game.url)
        self.assertEqual((page.status, page.heading), (200, texts.ADOPT_TITLE))
        self.assertEqual(set(page.form("/continue")["fields"]), {"form", "name", "password"})
        wrong = browser.post(page.form("/continue"), {"name": "Anna", "password": "wrong horse"})
        self.assertEqual((wrong.status, texts.REFUSED_WRONG in wrong.text), (200, True))
        self.assertEqual(wrong.form("/continue")["fields"]["name"], "Anna")
        self.assertNotIn("horse", wrong.html)
        there = browser.post(wrong.form("/continue"), {"name": "Anna", "password": PASSWORD})
        back = browser.get(browser.get(self.at_provider(there)).headers["location"])
        ticket = dict(parse_qsl(urlsplit(back.links[0]).query))["ticket"]
        complete = game.collect(ticket=ticket).json
        self.assertEqual(complete["player"], {"id": "ply_" + "A" * 22, "created": False, "owner": False})
        self.assertEqual(self.game(provider="discord", intent="adopt").answer.status, 400)


class Link(FarCase):
    def test_whole(self) -> None:
        """Discord's player links Google: the page names them, collect says which, both sign in the same player."""
        self.serve_oauth()
        first = self.game(provider="discord")
        complete = first.collect(finish_code=code(self.signed_in(self.surfer(), first.url))).json
        game = self.game(token=complete["access_token"], provider="google", intent="link", loopback_port=51004)
        browser = self.surfer()
        page = browser.get(game.url)
        self.assertEqual(page.heading, "Link Google")
        self.assertIn(f"<bdi>{complete['player']['id']}</bdi>", page.html)
        back = browser.get(browser.get(self.at_provider(browser.post(page.form("/continue")))).headers["location"])
        ticket = dict(parse_qsl(urlsplit(back.links[0]).query))["ticket"]
        self.assertEqual(game.collect(ticket=ticket).json, {"status": "complete", "linked": {"provider": "google"}})
        self.assertIn(texts.LINKED_LEAD, browser.get(done_url(game.login)).text)
        again = self.game(provider="google")
        player = again.collect(finish_code=code(self.signed_in(self.surfer(), again.url))).json["player"]
        self.assertEqual((player["id"], player["created"]), (complete["player"]["id"], False))

    def test_recent_sign_in(self) -> None:
        """Older than ten minutes: 403."""
        self.serve_oauth()
        first = self.game(provider="discord")
        complete = first.collect(finish_code=code(self.signed_in(self.surfer(), first.url))).json
        self.desk.clock.advance(600.001)
        answer = self.game(token=complete["access_token"], provider="google", intent="link").answer
        self.assertEqual((answer.status, answer.json["code"]), (403, "reauthentication_required"))


class Outcomes(FarCase):
    def test_denied_at_the_provider(self) -> None:
        """The browser sees one sentence of what to do, the game its code."""
        self.serve_oauth()
        for name in ("discord", "google"):
            game, browser = self.game(provider=name), self.surfer()
            page = self.signed_in(browser, game.url, "")
            self.assertEqual((page.status, page.heading), (200, texts.ENDED[LoginFailure.PROVIDER_DENIED][0]))
            self.assertEqual(game.collect().json["problem"]["code"], "provider_denied")
            self.assertEqual(browser.get(game.url).status, 410)

    def test_wrong_secret(self) -> None:
        """Typed for the game, a page that blames nobody's secret, the cause and the request for the owner."""
        self.serve_oauth(DISCORD)
        self.far.clients = (replace(DISCORD_CLIENT, client_secret=Secret(b"reset")),)
        game, browser = self.game(provider="discord"), self.surfer()
        page = self.signed_in(browser, game.url)
        self.assertEqual(page.heading, texts.ENDED[LoginFailure.PROVIDER_MISCONFIGURED][0])
        self.assertNotIn("secret", page.text.lower())
        self.assertEqual(game.collect().json["problem"]["code"], "provider_misconfigured")
        [line] = self.desk.log.lines
        self.assertIn("invalid_client", line)
        self.assertIn("client_secret_env", line)


def unavailable() -> dict[str, object]:
    raise GrantError(503, "temporarily_unavailable", "maintenance")


def challenge_of_text(verifier: str) -> str:
    return challenge_of(Secret(verifier.encode()))


def done_url(login: dict[str, str]) -> str:
    return f"{BASE}/auth/login/done?login_id={login['login_id']}"
