"""A new player chooses a display name in the browser, before or after the game collects.

See docs/protocol.md: Accounts.
"""

from functools import partial
from typing import Any

from msgspec.structs import replace

from gamed.config.model import Registration
from gamed.crypto import Index
from gamed.login.browser import RedirectToResult
from gamed.login.collect import CollectRequest
from gamed.login.errors import LoginEnded, NameSettled, UnknownLoginLink, WrongBrowser
from gamed.login.keys import PresentedProof
from gamed.login.newcomer import NewcomerService
from gamed.login.start import StartedLogin
from gamed.login.transaction import RETENTION_MS, LoginIntent, LoginStage
from gamed.players import tables as player_tables
from gamed.players.errors import DisplayNameInvalid
from gamed.rate_limit import RateLimited
from tests.login.examples import BROWSER, OTHER
from tests.login.fake_provider import FakeProvider
from tests.login.fixtures import ADDRESS, ANNA, APPROVAL, PASSWORD, LoginCase, LoginServer, done
from tests.login.test_races import together


class NewcomerCase(LoginCase):
    """Bo signs in for the first time, at a provider."""

    def setUp(self) -> None:
        self.server = self.begin()

    def begin(self, **terms: Any) -> LoginServer:
        server = self.oauth_server(FakeProvider(), **terms)
        self.newcomers = NewcomerService(context=server.context, browsers=server.browsers, store=server.store)
        return server

    def choose(self, started: StartedLogin, text: str, browser: Index = BROWSER) -> None:
        answer = done(self.newcomers.choose(started.token, browser, ADDRESS, text))
        self.assertEqual(answer, RedirectToResult(started.login.login_id))

    def chosen(self, started: StartedLogin) -> str | None:
        name: str | None = done(self.newcomers.get(started.token, BROWSER)).name
        return name

    def collect(self, started: StartedLogin) -> Any:
        return self.server.collect(started, code=self.server.code(started))

    def names(self) -> list[str | None]:
        """Return the display names of all players but Anna."""
        server = self.server
        found = done(server.databases.reads.submit(lambda c: player_tables.list_players(c, server.keys.sealer)))
        return [each.display_name for each in found if each.player.player_id != ANNA]

    def assert_settled(self, started: StartedLogin) -> None:
        self.assertRaises(NameSettled, done, self.newcomers.get(started.token, BROWSER))
        self.assertRaises(NameSettled, self.choose, started, "Mallory")


class BeforeCollectTests(NewcomerCase):
    def test_chosen(self) -> None:
        """The name is sealed with the login until the game collects it with the new player."""
        started = self.server.signed_in("bo")
        self.assertIsNone(self.chosen(started))
        self.choose(started, " Bo  M\u0075\u0308ller ")
        self.assertEqual((self.chosen(started), self.names()), ("Bo M\u00fcller", []))
        self.assertIs(self.server.login(started).stage, LoginStage.READY)
        self.assertNotIn(b"Bo", self.server.login(started).sealed_identity or b"")
        complete = self.collect(started)
        self.assertEqual((complete.result.created, complete.result.name), (True, "Bo M\u00fcller"))
        self.assertEqual(self.names(), ["Bo M\u00fcller"])

    def test_skipped(self) -> None:
        """Without a name, or with an empty one after all, the player has none."""
        for texts in ((), ("",), ("Bo", "  ")):
            started = self.server.signed_in(f"bo{len(texts)}")
            for text in texts:
                self.choose(started, text)
            self.assertIsNone(self.collect(started).result.name)
        self.assertEqual(self.names(), [None] * 3)

    def test_again(self) -> None:
        """A repeated collect has the same name, the next sign-in has the player's, and neither asks again."""
        started = self.server.signed_in("bo")
        self.choose(started, "Bo")
        self.assertEqual(self.collect(started).result.name, self.server.collect(started).result.name)
        player_id = self.server.collect(started).result.player_id
        rename = player_tables.set_display_name
        self.server.write(lambda c: rename(c, self.server.keys.sealer, player_id, "Bo the Second"))
        later = self.server.signed_in("bo")
        self.assert_settled(later)
        self.assertEqual(self.collect(later).result.name, "Bo the Second")

    def test_approval(self) -> None:
        """A player who waits for approval has the name already, so that the owner can see it."""
        self.server = self.begin(registration=APPROVAL)
        started = self.server.signed_in("bo")
        self.choose(started, "Bo")
        self.collect(started)
        self.assertEqual(self.names(), ["Bo"])
        self.assertRaises(LoginEnded, self.choose, started, "Bob")

    def test_refused(self) -> None:
        """A name that is not allowed changes nothing, and another browser may neither see nor choose one."""
        started = self.server.signed_in("bo")
        self.choose(started, "Bo")
        for text in ("a" * 33, "a\u202eb", "\u2800", "a\nb", "\ud800", "x" * 8000):
            self.assertRaises(DisplayNameInvalid, self.choose, started, text)
        self.assertRaises(WrongBrowser, self.choose, started, "Mallory", OTHER)
        self.assertRaises(WrongBrowser, done, self.newcomers.get(started.token, None))
        self.assertRaises(UnknownLoginLink, done, self.newcomers.get("nowhere", BROWSER))
        self.assertEqual(self.chosen(started), "Bo")

    def test_nobody_new(self) -> None:
        """Only a newcomer who may become a player is asked: no link, adoption, local account, closed registration."""
        server = self.server
        undecided = server.start()
        self.assertRaises(UnknownLoginLink, done, self.newcomers.get(undecided.token, BROWSER))
        adopting = server.start(intent=LoginIntent.ADOPT)
        server.finish_callback(server.redirect_state(adopting, name="Anna", password=PASSWORD), who="anna")
        self.assert_settled(adopting)
        self.server = self.begin(registration=Registration.CLOSED)
        self.assert_settled(self.server.signed_in("bo"))
        self.server = self.local_server()
        self.newcomers = NewcomerService(
            context=self.server.context, browsers=self.server.browsers, store=self.server.store
        )
        local = self.server.start()
        self.server.create(local, "Bo")
        self.assert_settled(local)

    def test_ended(self) -> None:
        """A declined or expired login takes no name."""
        declined, expired = self.server.signed_in("bo"), self.server.signed_in("bo")
        self.server.decline(declined)
        self.server.clock.advance(3600)
        for started in (declined, expired):
            self.assertRaises(LoginEnded, self.choose, started, "Bo")

    def test_too_often(self) -> None:
        """An address may choose as many names in a minute as it may open links."""
        server = self.server
        limits = server.terms.limits
        self.assertEqual(limits.entries_per_minute, 0)
        context = replace(server.context, policy=replace(server.terms, limits=replace(limits, entries_per_minute=2)))
        self.newcomers = NewcomerService(context=context, browsers=server.browsers, store=server.store)
        started = server.signed_in("bo")
        for text in ("Bo", "Bob"):
            self.choose(started, text)
        self.assertRaises(RateLimited, self.choose, started, "Bobby")
        self.assertEqual(self.chosen(started), "Bob")


class AfterCollectTests(NewcomerCase):
    def test_late(self) -> None:
        """A name that comes after the collect, or after the first use, is stored with the player, once."""
        for use in (False, True):
            self.server = self.begin()
            started = self.server.signed_in("bo")
            complete = self.collect(started)
            if use:
                done(self.server.sessions.authenticate(complete.result.pair.access.reveal().decode()))
                self.assertIs(self.server.login(started).stage, LoginStage.COLLECTED)
            self.assertIsNone(self.chosen(started))
            self.choose(started, "")
            self.choose(started, "Bo")
            self.assertEqual(self.names(), ["Bo"])
            self.assert_settled(started)

    def test_collected_meanwhile(self) -> None:
        """A name that is sent while the game collects is stored with the player, whichever is written first."""
        for collect_first in (True, False):
            server = self.server = self.begin()
            started = server.signed_in("bo")
            proof = PresentedProof.finish_code(server.code(started))
            collect = partial(server.collects.collect, CollectRequest(server.secret(started), presented=proof))
            choose = partial(self.newcomers.choose, started.token, BROWSER, ADDRESS, "Bo")
            results = together(server, *((collect, choose) if collect_first else (choose, collect)))
            self.assertIn(RedirectToResult(started.login.login_id), results)
            self.assertEqual(self.names(), ["Bo"])

    def test_not_any_more(self) -> None:
        """A name is refused once the session has ended, the player is blocked or gone, or has chosen another one."""
        for change in (
            lambda c, who: c.execute("UPDATE session SET revoked_ms = 1").rowcount,
            lambda c, who: player_tables.set_state(c, who, "blocked"),
            lambda c, who: player_tables.set_state(c, who, "erasing"),
            lambda c, who: c.execute("DELETE FROM player WHERE player_id = ?", (who,)).rowcount,
            lambda c, who: player_tables.set_display_name(c, self.server.keys.sealer, who, "Other"),
        ):
            self.server = self.begin()
            started = self.server.signed_in("bo")
            player_id = self.collect(started).result.player_id
            self.server.write(lambda c, change=change, who=player_id: change(c, who))
            self.assert_settled(started)
            self.assertNotIn("Mallory", self.names())

    def test_known_player(self) -> None:
        """The login of a player who is not new takes no name, also if the player has none."""
        self.collect(self.server.signed_in("bo"))
        self.server.clock.advance(1)
        again = self.server.signed_in("bo")
        self.assert_settled(again)
        self.collect(again)
        self.assert_settled(again)
        self.assertEqual(self.names(), [None])

    def test_after_the_retention(self) -> None:
        """An hour after its end the login is deleted, and its page with it."""
        started = self.server.signed_in("bo")
        done(self.server.sessions.authenticate(self.collect(started).result.pair.access.reveal().decode()))
        self.server.clock.advance(RETENTION_MS / 1000)
        done(self.server.lifecycle.expire())
        self.assertRaises(UnknownLoginLink, self.choose, started, "Bo")
