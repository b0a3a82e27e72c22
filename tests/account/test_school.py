"""Thirty pupils behind one address sign in for the first time within five minutes, with the limits by default.

Each gets through. A page that asks a pupil to wait says for how many seconds. See docs/owners/configuration.md: Limits.
"""

from collections.abc import Callable, Iterator
from functools import partial
from heapq import heappop, heappush
from typing import Any

from gamed.config.model import AuthLimits
from gamed.dev import provider
from gamed.dev.clients import SamplePerson
from tests.account.page_fixtures import AccountBrowser
from tests.account.test_links import LinkCase
from tests.login.browser_fixtures import Game, Page, PageBrowser
from tests.login.fixtures import APPROVAL, CLOSED, PASSWORD
from tests.support.covers import covers
from tests.support.http import Answer

PUPILS = 30
PACE = 10
"""Seconds from one pupil to the next: five minutes for all."""
LONGEST = 60
"""Seconds that a pupil may have to wait where all begin in the same second."""
PASSWORDS = 5
Steps = Iterator[int]
"""The sign-in of one pupil; each value is a number of seconds that the server asked for."""


class SchoolTests(LinkCase):
    def setUp(self) -> None:
        people = {}
        for number in range(PUPILS):
            subjects = {"discord": f"{10**17 + number}", "google": f"{10**20 + number}"}
            people[f"p{number}"] = SamplePerson(f"p{number}", f"P{number}", subjects)
        self.patch(provider, "BY_KEY", people)

    def send(self, request: Callable[[], Any], found: list[Any]) -> Steps:
        """Send a request again until the server accepts it; add its response to `found`."""
        while (response := request()).status == 429:
            seconds = int(response.headers["retry-after"])
            text = response.text if isinstance(response, Page) else response.json["detail"]
            self.assertIn(f"Try again in {seconds} second", text)
            yield seconds
        found.append(response)

    def started(self, body: dict[str, str], games: list[Game]) -> Steps:
        while (game := self.game(**body)).answer.status == 429:
            yield int(game.answer.headers["retry-after"])
        games.append(game)

    def collected(self, game: Game, result: Page) -> Steps:
        code = result.html.partition('class="code">')[2][:7]
        found: list[Answer] = []
        yield from self.send(lambda: game.collect(finish_code=code), found)
        [answer] = found
        body = answer.json
        self.ends.append(body["problem"]["code"] if body["status"] == "failed" else body["status"])

    def at_provider_of(self, name: str) -> Callable[[int], Steps]:
        """Return the sign-in of a pupil with an account there."""

        def steps(number: int) -> Steps:
            games: list[Game] = []
            yield from self.started({"provider": name}, games)
            browser, found = PageBrowser(self.site), list[Any]()
            yield from self.send(lambda: browser.get(games[0].url), found)
            yield from self.send(lambda: browser.post(found[-1].form("/continue")), found)
            back = self.at_provider(found[-1], f"p{number}")
            yield from self.send(lambda: browser.get(back), found)
            result = browser.get(found[-1].headers["location"])
            form = browser.get(f"{games[0].url}/name").form("/name")
            yield from self.send(lambda: browser.post(form, {"display_name": f"P{number}"}), found)
            yield from self.collected(games[0], result)

        return steps

    def with_new_account(self, number: int) -> Steps:
        games: list[Game] = []
        yield from self.started({}, games)
        browser, found = PageBrowser(self.site), list[Any]()
        yield from self.send(lambda: browser.get(f"{games[0].url}/create"), found)
        typed, form = {"name": f"p{number}", "password": PASSWORD}, found[-1].form("/local", create="yes")
        yield from self.send(lambda: browser.post(form, typed), found)
        yield from self.collected(games[0], browser.get(found[-1].headers["location"]))

    def with_account(self, number: int) -> Steps:
        """Sign in once more; each fifth pupil mistypes the password first."""
        games: list[Game] = []
        yield from self.started({}, games)
        browser, found = PageBrowser(self.site), list[Any]()
        yield from self.send(lambda: browser.get(games[0].url), found)
        form, tries = found[-1].form("/local"), [PASSWORD] if number % 5 else ["correct hrose", PASSWORD]
        for password in tries:
            typed = {"name": f"p{number}", "password": password}
            yield from self.send(lambda typed=typed: browser.post(form, typed), found)  # type: ignore[misc]
        yield from self.collected(games[0], browser.get(found[-1].headers["location"]))

    def with_invite(self, number: int) -> Steps:
        path, browser, found = self.invite(f"P{number}"), AccountBrowser(self.site), list[Any]()
        yield from self.send(lambda: browser.get(path), found)
        typed = {"name": f"p{number}", "password": PASSWORD}
        yield from self.send(lambda: browser.post(found[0].form(path), typed), found)
        self.ends.append(found[-1].heading)

    def lesson(self, pupil: Callable[[int], Steps], pace: int) -> int:
        """Let all pupils sign in, one after `pace` seconds each; return the longest that one of them had to wait."""
        self.ends: list[str] = []
        clock = self.server.clock
        waiting: list[tuple[float, int, Steps]] = []
        for number in range(PUPILS):
            heappush(waiting, (clock.seconds() + number * pace, number, pupil(number)))
        waited = [0] * PUPILS
        while waiting:
            at, number, steps = heappop(waiting)
            clock.advance(max(0, at - clock.seconds()))
            for seconds in steps:
                waited[number] += seconds
                heappush(waiting, (clock.seconds() + seconds, number, steps))
                break
        return max(waited)

    def local(self, **terms: Any) -> None:
        self.serve(passwords_per_minute=PASSWORDS, limits=AuthLimits(), **terms)

    def assert_admitted(self, pupil: Callable[[int], Steps], end: str, serve: Callable[[], None], longest: int) -> None:
        """Check both a class that signs in within five minutes, and one that does so in the same second."""
        for pace, most in ((PACE, 0), (0, longest)):
            serve()
            self.assertLessEqual(self.lesson(pupil, pace), most, pace)
            self.assertEqual(self.ends, [end] * PUPILS, pace)

    @covers("8/9")
    def test_open(self) -> None:
        """At a provider no pupil waits; new passwords in the same second are checked after half a minute at most."""
        for name in ("discord", "google"):
            serve = partial(self.serve_oauth, passwords_per_minute=PASSWORDS, limits=AuthLimits())
            self.assert_admitted(self.at_provider_of(name), "complete", serve, 0)
        self.assert_admitted(self.with_new_account, "complete", self.local, LONGEST)

    @covers("8/9")
    def test_approval(self) -> None:
        """Where the owner approves newcomers, every pupil gets a code for the owner, and none waits for it."""
        serve = partial(self.serve_oauth, passwords_per_minute=PASSWORDS, limits=AuthLimits(), registration=APPROVAL)
        self.assert_admitted(self.at_provider_of("discord"), "player_pending", serve, 0)
        local = partial(self.local, registration=APPROVAL)
        self.assert_admitted(self.with_new_account, "player_pending", local, LONGEST)

    @covers("8/9")
    def test_invites(self) -> None:
        """Every pupil uses an invite while registration is closed, and signs in from the game in the next lesson."""
        for pace, most in ((PACE, 0), (0, LONGEST)):
            self.local(registration=CLOSED)
            self.assertLessEqual(self.lesson(self.with_invite, pace), most)
            self.assertEqual([end[:7] for end in self.ends], ["Hello, "] * PUPILS)
            self.server.clock.advance(3600)
            self.assertLessEqual(self.lesson(self.with_account, pace), most)
            self.assertEqual(self.ends, ["complete"] * PUPILS)
