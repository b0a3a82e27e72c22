"""These tests fill, lock or write-protect auth.db at each step of a sign-in: an error response, later a success."""

from collections.abc import Callable
from typing import Any

from gamed.dev.grants import ResponseMode
from gamed.dev.provider import SLOW_SECONDS
from gamed.login.transaction import EXCHANGE_MS
from tests.login.browser_fake_provider import ProviderCase
from tests.login.browser_fixtures import BASE, Page
from tests.login.fixtures import done
from tests.login.test_browser_routes import code
from tests.support.databases import hold, unwritable
from tests.support.http import Answer
from tests.support.stores import POSTGRESQL, refuse_to_wait

LASTING = ("player", "identity", "session", "credential")


class DatabaseErrors(ProviderCase):
    exchanges = 0

    def setUp(self) -> None:
        self.serve_oauth()
        self.hold()

    def hold(self) -> None:
        """Prepare the connections: no lock is waited for, and a failed connection is replaced."""
        self.server.write(refuse_to_wait)
        done(self.server.databases.reads.submit(refuse_to_wait))

    def full(self) -> Callable[[], None]:
        """Leave no room for another page."""
        if POSTGRESQL:
            return unwritable(self.server.databases.auth)
        [(pages,)] = self.server.rows("PRAGMA page_count")
        self.limit_pages(pages)
        return lambda: self.limit_pages(1_000_000)

    def limit_pages(self, pages: int) -> None:
        self.server.write(lambda connection: connection.execute(f"PRAGMA max_page_count = {pages}").fetchall())

    def read_only(self) -> Callable[[], None]:
        """Make every new connection read-only, as on a disk that is mounted read-only."""
        return unwritable(self.server.databases.auth)

    def locked(self) -> Callable[[], None]:
        """Hold a write lock, as another process does that keeps its transaction open."""
        return hold(self.server.databases.auth)

    def refused(self, answer: Answer | Page, status: int, what: str) -> None:
        self.assertEqual(answer.status, status, what)
        self.assertEqual("retry-after" in answer.headers, True, what)
        self.assertNotIn("location", answer.headers)
        if isinstance(answer, Page):
            self.assertEqual(answer.headers["content-type"], "text/html; charset=utf-8")
        else:
            self.assertEqual(answer.json["code"], {503: "busy", 507: "storage_full"}[status], what)

    def tried(self, fail: Callable[[], Callable[[], None]], status: int) -> None:
        """Try each step that writes, first while the database fails, then again."""

        def twice(what: str, step: Callable[[], Any], good: int) -> Any:
            self.hold()
            before, repair = self.everything(), fail()
            self.refused(step(), status, what)
            repair()
            self.assertEqual(self.everything(), before, what)
            answer = step()
            self.assertEqual(answer.status, good, what)
            return answer

        site, browser = self.site, self.new_browser()
        start = {"provider": "discord", "loopback_port": 51004}
        login = twice("start", lambda: site.post_json("/auth/login", start), 201).json
        bearer = {"Authorization": f"Bearer {login['device_secret']}"}
        page = browser.get(login["login_url"], Sec_Fetch_Site="cross-site")
        sent = twice("button", lambda: browser.post(page.form("/continue")), 303)
        callback = self.fake.sign_in(sent.headers["location"], "anna")
        back = twice("callback", lambda: browser.get(callback), 303)
        self.assertEqual(len(self.fake.requests("/api/v10/oauth2/token")), self.exchanges + 1)
        self.exchanges += 1
        twice("done", lambda: browser.get(back.headers["location"]), 200)
        shown = code(browser.get(back.headers["location"]))

        def collect() -> Answer:
            return site.post_json("/auth/login/collect", {"finish_code": shown}, bearer)

        complete = twice("collect", collect, 200).json
        self.assertEqual(complete["status"], "complete")
        twice("cancel", lambda: site.request("POST", "/auth/login/cancel", bearer), 204)
        self.assertEqual(self.server.rows("SELECT count(*) FROM session WHERE revoked_ms IS NULL"), [(0,)])

        login = site.post_json("/auth/login", {"provider": "discord"}).json
        page = browser.get(login["login_url"])
        twice("decline", lambda: browser.post(page.form("/decline")), 200)

    def everything(self) -> list[Any]:
        tables = ("login", "authorization_attempt", *LASTING)
        return [self.server.rows(f"SELECT * FROM {table} ORDER BY 1") for table in tables]

    def test_read_only(self) -> None:
        """A read-only file is 507 storage_full with Retry-After, as JSON and as pages."""
        self.tried(self.read_only, 507)

    def test_locked(self) -> None:
        """A locked file is 503 busy; a callback that could not be written did not use up its code."""
        self.tried(self.locked, 503)

    def test_at_the_end_of_an_exchange(self) -> None:
        """The provider's result cannot be written: the game learns the end within a minute."""
        for fail, status in ((self.locked, 503), (self.read_only, 507)):
            game, browser = self.game(provider="discord"), self.new_browser()
            callback = self.at_provider(self.go_on(browser, game.url), "anna", ResponseMode.SLOW)
            back = self.site.send("GET", callback.removeprefix(BASE), browser.headers())
            self.hold()
            repair = fail()
            self.pass_time(SLOW_SECONDS)
            self.refused(Page(back.answer), status, "callback")
            repair()
            self.assertEqual(game.collect().json["stage"], "exchanging")
            self.server.clock.advance(EXCHANGE_MS / 1000)
            self.assertEqual(game.collect().json["problem"]["code"], "login_interrupted")
            self.assertEqual(browser.get(callback).status, 410)
            again = self.game(provider="discord")
            shown = code(self.signed_in(browser, again.url))
            self.assertEqual(again.collect(finish_code=shown).json["status"], "complete")

    def test_full(self) -> None:
        """On a full disk starts are 507; logins under way lose nothing, and continue when there is space."""
        browsers = [self.new_browser() for _ in range(3)]
        games = [self.game(provider="discord") for _ in browsers]
        backs = [
            self.at_provider(self.go_on(browser, game.url), person)
            for browser, game, person in zip(browsers, games, ("anna", "bo", "dilek"), strict=True)
        ]
        room = self.full()
        answer = self.site.post_json("/auth/login", {"provider": "discord"})
        for _ in range(200):
            if answer.status == 507:
                break
            self.assertEqual(answer.status, 201)
            self.server.clock.advance(1)
            answer = self.site.post_json("/auth/login", {"provider": "discord"})
        self.refused(answer, 507, "start")
        self.assertEqual([game.collect().json["stage"] for game in games], ["at_provider"] * 3)
        room()
        for game, browser, back in zip(games, browsers, backs, strict=True):
            browser.get(back)
            shown = code(browser.get(browser.get(game.url).headers["location"]))
            self.assertEqual(game.collect(finish_code=shown).json["status"], "complete")
        self.assertEqual(self.site.post_json("/auth/login", {"provider": "discord"}).status, 201)
