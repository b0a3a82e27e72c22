"""The owner's page that acts: who may see it, what its pages show, and that each act does what its command does."""

from json import loads
from typing import Any

from twisted.internet.defer import fail, succeed

from gamed.account import store as player_store
from gamed.account.link_tables import page_of_invites
from gamed.database.errors import DatabaseUnreachable, new_error
from gamed.database.security_events import page_of_events, page_of_kinds
from gamed.owner import site_sentences as sentences
from gamed.owner import tables
from gamed.owner.model import AT_ONCE, DAY_MS, DailyFigure
from gamed.players import owner_tables
from gamed.players import tables as player_tables
from gamed.players.model import CodeCheck
from gamed.sessions.credentials import RECENT_MS
from tests.account.page_fixtures import HOME as ACCOUNT
from tests.login.browser_fixtures import Page
from tests.login.fixtures import ANNA, PASSWORD, done
from tests.owner.site_fixtures import BO, CLEO, HOME, MACHINE, SiteCase
from tests.support.http import Answer, request_bytes
from tests.support.stores import sqlite_files

BY = f"owner:{ANNA}"
PLACES = ("", "/people", "/invites", "/saves", "/files", "/activity", "/backups", "/time")


def without_ids(answer: Answer) -> tuple[int, dict[str, str], bytes]:
    """Return an answer without what differs in each: the id of the request and its instant."""
    kept = {name: value for name, value in answer.headers.items() if name not in ("date", "x-request-id")}
    return answer.status, kept, answer.body.replace(answer.headers["x-request-id"].encode(), b"")


class GuardTests(SiteCase):
    page_is_on = False

    def test_off(self) -> None:
        """While the page is off, each address is answered as an unknown one, also for the owner."""
        self.begin()
        for accepted in ("text/html", "*/*"):
            unknown = self.unknown(accepted)
            for path in (*PLACES, f"/people/{BO}", f"/people/{BO}/erase", f"/saves/{BO}", "/nothing"):
                answer = self.browser.ask("GET", f"{HOME}{path}", Accept=accepted)
                self.assertEqual(answer.status, 404, path)
                self.assertEqual(without_ids(answer), without_ids(unknown), path)

    def test_other_player(self) -> None:
        """Another player, signed in, gets the answer of an unknown address, for pages and forms."""
        self.add(BO, "bo")
        self.server.write(lambda c: player_tables.set_owner(c, BO))
        self.turn_on()
        self.browser.sign_in()
        for path in PLACES:
            self.assertEqual(self.browser.ask("GET", f"{HOME}{path}", Accept="text/html").status, 404)
        home = self.browser.get("/auth/account")
        self.assertEqual(self.post("block", home, player=BO, state="active").status, 404)
        self.assertEqual(self.state(BO), "active")

    def test_signed_out(self) -> None:
        """A browser that is not signed in gets the page to sign in, which leads to the page that was asked for."""
        self.begin(sign_in=False)
        self.turn_on()
        page = self.open("/people")
        self.assertIn("Sign in as the owner of this server.", page.text)
        shown = self.browser.post(page.form("/sign-in"), {"name": "Anna", "password": PASSWORD})
        self.assertEqual(shown.heading, "People")

    def test_claim_taken_away(self) -> None:
        """A page that was open when the claim was reset on the host does nothing any more."""
        self.add(BO, "bo")
        self.begin()
        self.turn_on()
        form = self.open(f"/people/{BO}").form("/block")
        self.server.write(lambda c: player_tables.clear_owner(c, ANNA))
        self.assertEqual(self.act(form).status, 404)
        self.assertEqual((self.state(BO), self.events()), ("active", []))

    def test_turned_off_meanwhile(self) -> None:
        """A page that was open when the page was turned off on the host does nothing any more."""
        self.add(BO, "bo")
        self.begin()
        self.turn_on()
        form = self.open(f"/people/{BO}").form("/block")
        self.server.write(owner_tables.turn_off)
        self.assertEqual(self.act(form).status, 404)
        self.assertEqual(self.state(BO), "active")

    def test_frames_and_headers(self) -> None:
        """No page is cached, framed or scripted."""
        self.begin()
        self.turn_on()
        for path in PLACES:
            answer = self.browser.ask("GET", f"{HOME}{path}")
            self.assertEqual((answer.status, answer.headers["cache-control"]), (200, "no-store"), path)
            self.assertIn("frame-ancestors 'none'", answer.headers["content-security-policy"])
            self.assertNotIn(b"<script", answer.body)
            framed = self.browser.ask("GET", f"{HOME}{path}", Sec_Fetch_Dest="iframe")
            self.assertEqual(framed.status, 403, path)

    def test_link_in_account(self) -> None:
        """The owner's account leads to the page while it is on, and no other player's does."""
        self.begin()
        self.assertNotIn(HOME, self.browser.get("/auth/account").links)
        self.turn_on()
        self.assertIn(HOME, self.browser.get("/auth/account").links)
        self.server.write(lambda c: player_tables.clear_owner(c, ANNA))
        self.assertNotIn(HOME, self.browser.get("/auth/account").links)


class NowTests(SiteCase):
    def test_waiting(self) -> None:
        """Players who wait come first with their codes; approving one lets them play, and is an event."""
        self.add(BO, "bo", code="515072")
        self.begin()
        page = self.open()
        self.assertIn("B bo asked just now \u00b7 name and password Code 515072 Approve Reject", page.text)
        page = self.act(page.form("/approve"))
        self.assertIn(sentences.NOTICES["o-approve"].source, page.text)
        self.assertEqual(self.state(BO), "active")
        self.assertEqual(self.events(), [("players approve", BO, BY)])
        self.assertIn("bo was approved by Anna", page.text)

    def test_reject(self) -> None:
        """A rejected player is forgotten."""
        self.add(BO, "bo", code="515072")
        self.begin()
        page = self.act(self.open().form("/reject"))
        self.assertIn(sentences.NOTICES["o-reject"].source, page.text)
        self.assertEqual((self.state(BO), self.events()), (None, [("players reject", BO, BY)]))

    def test_second_tab(self) -> None:
        """The second of two tabs that decide changes nothing and says so."""
        self.add(BO, "bo", code="515072")
        self.begin()
        first, second = self.open(), self.open()
        self.act(first.form("/reject"))
        page = self.act(second.form("/approve"))
        self.assertEqual((page.status, page.heading), (404, "Nothing was changed"))
        self.add(CLEO, "cleo", code="111222")
        first, second = self.open(), self.open()
        self.act(first.form("/approve"))
        page = self.act(second.form("/reject"))
        self.assertEqual(page.status, 409)
        self.assertIn(sentences.CHANGED.source, page.text)
        self.assertEqual(self.state(CLEO), "active")

    def test_machine(self) -> None:
        """The disk has a bar with what uses it, and the page says since when all is well."""
        self.begin()
        text = self.open().text
        self.assertIn("Databases 12 KiB Game files 1 GiB Everything else 59 GiB Free 40 GiB", text)
        self.assertIn("Healthy since", text)
        self.assertIn("gamed 1.2.3", text)
        self.machine = lambda: succeed(MACHINE)

    def test_late_backup(self) -> None:
        """A backup is marked once it is older than the interval of the configuration."""
        self.begin()
        self.assertIn("none yet", self.open().text)

    def test_figures(self) -> None:
        """Figures of two days or more are a line, with a text for those who do not see it."""
        self.begin()
        day = self.server.now_ms() // DAY_MS
        for number in range(3):
            figure = DailyFigure(day - number, 10, number + 2, 5, 1000, 0, 0)
            self.server.write(lambda c, figure=figure: tables.count_day(c, figure))
        self.assertIn('aria-label="Players each day: between 2 and 4"', self.open().html)
        page = self.open("/time")
        self.assertIn("svg", page.tags)
        self.assertIn("Each day", page.text)


class TurnTests(SiteCase):
    def test_turns(self) -> None:
        """While a page of many rows is rendered, the reactor does other work after every few rows."""
        for number in range(AT_ONCE):
            self.add(f"ply_{number:022d}", f"player{number}", code=f"{number:06d}")
        self.begin()
        for path in ("", "/people"):
            self.assertGreater(self.turns(HOME + path), 6, path)

    def test_activity(self) -> None:
        """So it is on a page of events."""
        self.begin()
        few = self.turns(f"{HOME}/activity")
        for number in range(AT_ONCE):
            self.add(f"ply_{number:022d}")
            self.act(self.open(f"/people/ply_{number:022d}").form("/block"))
        self.assertGreater(self.turns(f"{HOME}/activity"), few)

    def test_leaving(self) -> None:
        """A browser that leaves while its page is rendered ends that, and the server logs no error."""
        self.begin()
        connection = self.browser.site.connect()
        cookie = {"Cookie": f"__Host-ga={self.browser.token}"}
        connection.channel.dataReceived(request_bytes("GET", f"{HOME}/people", cookie))
        self.browser.site.watched(connection.leave)
        self.server.clock.advance(0)
        self.assertEqual(connection.transport.value(), b"")
        self.assertEqual(self.open("/people").status, 200)


class PeopleTests(SiteCase):
    def test_pages(self) -> None:
        """Players are listed by id, 50 at a time, and each once."""
        for number in range(AT_ONCE + 10):
            self.add(f"ply_{number:022}", f"player{number}")
        self.begin()
        page, seen = self.open("/people"), 0
        self.assertIn(f"{AT_ONCE + 11} players", page.text)
        seen = page.html.count(">Open<")
        self.assertEqual(seen, AT_ONCE)
        [more] = [link for link in page.links if "after=" in link]
        later = self.browser.get(more)
        self.assertEqual(later.html.count(">Open<"), 11)
        self.assertIn("To the first players", later.text)

    def test_find(self) -> None:
        """A player is found by a part of either name, by the code, and nobody by nothing; the address shows no name."""
        self.add(BO, "bobby", shown="Bo \U0001f98a")
        self.add(CLEO, "cleo", code="111222")
        self.begin()
        form = self.open("/people").form("/find")
        self.assertEqual(form["method"], "post")
        for wanted, found in (
            ("OBB", True),
            ("\U0001f98a", True),
            (BO, True),
            ("cleo", False),
            ("111222", False),
            ("", False),
        ):
            page = self.act(form, wanted=wanted)
            self.assertEqual(f"people/{BO}" in page.html, found, wanted)
        self.assertIn(f"people/{CLEO}", self.act(form, wanted="111222").html)
        self.assertIn("Nobody has that in their name.", self.act(form, wanted="<b>x").text)

    def test_find_many(self) -> None:
        """A search with many results goes on behind the last one, through slices of players who do not fit."""
        for number in range(900):
            self.add(f"ply_{number:022}", shown="Match" if number % 10 == 0 else "Other")
        self.begin()
        page = self.act(self.open("/people").form("/find"), wanted="match")
        self.assertEqual(page.html.count(">Open<"), AT_ONCE)
        more = [form for form in page.forms if form["fields"].get("after")]
        self.assertEqual(len(more), 1)
        self.assertEqual(self.act(more[0]).html.count(">Open<"), 40)

    def test_person(self) -> None:
        """The page of a person shows ways to sign in, devices and what happened, in words."""
        self.add(BO, "bobby", shown="Bo")
        self.play(BO, device_name="Deck", name="MyGame")
        self.begin()
        text = self.open(f"/people/{BO}").text
        for words in ("Account name bobby", "Deck MyGame", "Name and password", "Delete this account"):
            self.assertIn(words, text)
        for wrong in (f"/people/{CLEO}", "/people/bobby", "/people/%00", "/people/ply_"):
            self.assertEqual(self.open(wrong).status, 404, wrong)

    def test_block(self) -> None:
        """Blocking ends what the player does at once; unblocking lets them play again."""
        self.add(BO, "bo")
        game = self.play(BO)
        self.begin()
        page = self.act(self.open(f"/people/{BO}").form("/block"))
        self.assertIn(sentences.NOTICES["o-block"].source, page.text)
        self.assertEqual(self.site.request("GET", "/auth/sessions", game).status, 403)
        self.assertIn("bo was blocked by Anna", page.text)
        page = self.act(page.form("/unblock"))
        self.assertIn(sentences.NOTICES["o-unblock"].source, page.text)
        self.assertEqual(self.site.request("GET", "/auth/sessions", game).status, 200)
        self.assertEqual([each[0] for each in self.events()], ["players block", "players unblock"])

    def test_note(self) -> None:
        """A note is kept sealed, and shown to the owner as text."""
        self.add(BO, "bo")
        self.begin()
        page = self.act(self.open(f"/people/{BO}").form("/note"), note="Anna's brother </textarea><b>")
        self.assertIn("Anna's brother </textarea><b>", page.text)
        self.assertNotIn("b", page.tags - {"b"} if "<b>\n" in page.html else set())
        self.assertNotIn(
            b"brother", self.server.rows("SELECT sealed_note FROM player WHERE player_id = :id", id=BO)[0][0]
        )
        self.assertEqual(self.post("note", page, player=BO, note="x" * 2001).status, 400)
        self.act(page.form("/note"), note="")
        self.assertEqual(self.server.rows("SELECT sealed_note FROM player WHERE player_id = :id", id=BO), [(None,)])

    def test_devices(self) -> None:
        """One device, or all, are signed out; another player's device is not."""
        self.add(BO, "bo")
        self.add(CLEO, "cleo")
        other = self.play(CLEO)
        other_id = self.session_id
        game = self.play(BO)
        self.begin()
        page = self.open(f"/people/{BO}")
        refused = self.post("end-device", page, player=BO, session=other_id)
        self.assertEqual(refused.status, 409)
        self.assertEqual(self.site.request("GET", "/auth/sessions", other).status, 200)
        page = self.act(page.form("/end-device"))
        self.assertIn(sentences.NOTICES["o-device"].source, page.text)
        self.assertEqual(self.site.request("GET", "/auth/sessions", game).status, 401)
        game = self.play(BO)
        page = self.act(self.open(f"/people/{BO}").form("/owner/do/sign-out"))
        self.assertEqual(self.site.request("GET", "/auth/sessions", game).status, 401)
        self.assertEqual(self.events()[-1], ("sessions revoke", BO, BY))

    def test_reset_link(self) -> None:
        """A reset link is shown once, works, and is in no address, log or event."""
        self.add(BO, "bo")
        self.begin()
        page = self.act(self.open(f"/people/{BO}").form("/reset-link"))
        self.assertEqual(page.heading, "A link for a new password")
        url = next(word for word in page.text.split() if "/auth/reset/" in word)
        token = url.rpartition("/")[2]
        self.assertEqual(self.new_account_browser().get(url).status, 200)
        self.assertNotIn(token, str(self.server.security) + str(self.events()))
        self.add(CLEO)
        self.assertEqual(self.post("reset-link", self.open(), player=CLEO).status, 409)

    def test_old_sign_in(self) -> None:
        """A reset link, a merge and an erasure need a sign-in of the last ten minutes, and lead back after it."""
        self.add(BO, "bo")
        self.add(CLEO, "cleo")
        self.begin()
        page = self.open(f"/people/{BO}")
        self.server.clock.advance(RECENT_MS / 1000 + 1)
        for action, more in (("reset-link", {}), ("erase", {}), ("merge", {"heir": CLEO})):
            refused = self.post(action, page, player=BO, **more)
            self.assertEqual((refused.status, refused.heading), (403, "Sign in again"), action)
        self.assertEqual(self.open(f"/people/{BO}/erase").heading, "Sign in again")
        again = self.post("erase", page, player=BO)
        shown = self.browser.post(again.form("/sign-in"), {"name": "Anna", "password": PASSWORD})
        self.assertEqual(shown.heading, "Delete this account?")
        self.assertIn(sentences.NOTICES["again"].source, shown.text)
        self.assertEqual((self.state(BO), self.events()), ("active", []))


class LabelTests(SiteCase):
    def test_odd_names(self) -> None:
        """A screen reader hears the name of a player, an invite and a device as it is, whatever signs it has."""
        odd = "Anna's A&B <i>"
        self.add(BO, "bo", shown=odd)
        self.add(CLEO, shown=odd, code="111222")
        self.put(self.play(BO, device_name=odd), "auto", b"one")
        self.begin()
        self.act(self.open("/invites").form("/invite"), name=odd)
        for path, action in (
            ("", "Approve"),
            ("/people", "Open"),
            (f"/people/{CLEO}/merge", "Choose"),
            (f"/people/{BO}", "Sign out"),
            ("/invites", "Revoke"),
            ("/saves", "Open"),
        ):
            page = self.open(path)
            self.assertIn(f"{action}: {odd}", page.labels, path)
        self.assertIn(f"Open: {odd} (2)", self.open("/people").labels)


class ProtectedTests(SiteCase):
    def test_own_player(self) -> None:
        """No act applies to the owner's own player: 403, with the command that does it on the host."""
        self.add(BO, "bo")
        self.play(ANNA)
        own_session = self.session_id
        self.begin()
        page = self.open(f"/people/{ANNA}")
        self.assertIn("This is you.", page.text)
        self.assertEqual([form["action"] for form in page.forms if "/owner/do/" in form["action"]], [])
        for action, command, fields in (
            ("block", "players block", {"state": "active"}),
            ("note", "players note", {"note": "x"}),
            ("sign-out", "sessions revoke", {}),
            ("end-device", "sessions revoke", {"session": own_session}),
            ("reset-link", "players reset-link", {}),
            ("erase", "players erase", {}),
            ("merge", "players merge", {"heir": BO}),
            ("restore", "saves restore", {"slot": "auto", "version": "1"}),
            ("undelete", "saves undelete", {"slot": "auto"}),
        ):
            refused = self.post(action, page, player=ANNA, **fields)
            self.assertEqual(refused.status, 403, action)
            self.assertIn(f"On the server run: gamed {command}", refused.text)
        refused = self.post("merge", page, player=BO, heir=ANNA)
        self.assertEqual(refused.status, 403)
        for question in (f"/people/{ANNA}/erase", f"/people/{ANNA}/merge", f"/people/{BO}/merge/{ANNA}"):
            self.assertEqual(self.open(question).status, 403, question)
        self.assertEqual((self.state(ANNA), self.state(BO), self.events()), ("active", "active", []))
        self.assertEqual(self.server.rows("SELECT count(*) FROM reset_link"), [(0,)])


class RemovalTests(SiteCase):
    def test_erase(self) -> None:
        """Erasing asks first, then deletes account and saves, and is an event of the owner."""
        self.add(BO, "bo")
        game = self.play(BO)
        self.assertEqual(self.put(game, "auto", b"\x01one").status, 201)
        self.begin()
        page = self.open(f"/people/{BO}/erase")
        self.assertNotIn("gamed owner confirm", page.text)
        page = self.act(page.form("/erase"))
        self.assertEqual(page.heading, "People")
        self.assertIn(sentences.NOTICES["o-erase"].source, page.text)
        self.assertIsNone(self.state(BO))
        self.assertEqual(
            done(self.server.databases.reads.submit(lambda c: c.rows("SELECT count(*) FROM save"))), [(0,)]
        )
        self.assertIn(("players erase", BO, BY), self.events())
        self.assertEqual(self.site.request("GET", "/game/saves", game).status, 401)

    def test_erase_twice(self) -> None:
        """A second tab finds nobody any more."""
        self.add(BO, "bo")
        self.begin()
        form = self.open(f"/people/{BO}/erase").form("/erase")
        self.act(form)
        self.assertEqual(self.act(form).status, 404)
        self.assertEqual([each[0] for each in self.events()], ["players erase"])

    def test_merge(self) -> None:
        """The owner chooses who keeps the account among all; then saves and ways to sign in move."""
        self.add(BO, "bo")
        self.add(CLEO, shown="Cleo")
        game = self.play(BO)
        self.put(game, "auto", b"\x01one")
        self.begin()
        page = self.open(f"/people/{BO}/merge")
        self.assertNotIn(f"/merge/{ANNA}", page.html)
        found = self.act(page.form("/find"), wanted="cle")
        self.assertIn(f"{HOME}/people/{BO}/merge/{CLEO}", found.links)
        page = self.open(f"/people/{BO}/merge/{CLEO}")
        self.assertIn("become those of Cleo", page.text)
        page = self.act(page.form("/merge"))
        self.assertEqual(page.heading, "Cleo")
        self.assertIsNone(self.state(BO))
        self.assertEqual(self.read(self.play(CLEO), "auto"), b"\x01one")
        self.assertIn(("players merge", CLEO, BY), self.events())

    def begin_merge(self) -> None:
        """Merge Bo into Cleo as a process does that ends before the saves move."""
        self.add(BO, "bo")
        self.add(CLEO, "cleo")
        self.put(self.play(BO), "auto", b"\x01one")
        now_ms = self.server.now_ms()
        self.server.write(lambda c: player_store.merge_players(c, self.server.keys, BO, CLEO, now_ms))
        self.server.shift_ms += 1
        self.begin()

    def saves(self) -> list[tuple[str, str]]:
        """Return player and slot of each save."""
        return done(self.server.databases.reads.submit(lambda c: c.rows("SELECT player_id, slot FROM save")))

    def test_merge_after_unfinished_merge(self) -> None:
        """Saves that an earlier merge has not moved yet arrive at the last heir, not at an id that nobody has."""
        self.begin_merge()
        dora = self.add("ply_" + "D" * 22, "dora")
        self.act(self.open(f"/people/{CLEO}/merge/{dora}").form("/merge"))
        self.assertEqual((self.state(BO), self.state(CLEO)), (None, None))
        self.assertEqual(self.read(self.play(dora), "auto"), b"\x01one")
        self.assertEqual(self.saves(), [(dora, "auto")])

    def test_erase_after_unfinished_merge(self) -> None:
        """Saves that an earlier merge has not moved yet are erased, too."""
        self.begin_merge()
        self.act(self.open(f"/people/{CLEO}/erase").form("/erase"))
        self.assertEqual((self.state(BO), self.state(CLEO), self.saves()), (None, None, []))
        self.assertEqual(done(self.account.removals.resume()), 0)

    def test_postponed(self) -> None:
        """An act that has begun is not shown as one that changed nothing: the clean-up ends it."""
        self.add(BO, "bo")
        self.add(CLEO, "cleo")
        self.put(self.play(BO), "auto", b"\x01one")
        self.put(self.play(CLEO), "auto", b"\x01two")
        dora = self.add("ply_" + "D" * 22, "dora")
        self.begin()
        state = self.server.databases.state
        submit, calls = state.submit, []

        def fail_later(*args: Any, **kwargs: Any) -> Any:
            """Accept the check before the mark alone."""
            calls.append(args)
            return submit(*args, **kwargs) if len(calls) == 1 else fail(new_error(DatabaseUnreachable))

        for form, notice, player in (
            (self.open(f"/people/{BO}/erase").form("/erase"), "o-erase", BO),
            (self.open(f"/people/{CLEO}/merge/{dora}").form("/merge"), "o-merge", CLEO),
        ):
            calls.clear()
            state.submit = fail_later  # type: ignore[method-assign]
            page = self.act(form)
            state.submit = submit  # type: ignore[method-assign]
            self.assertEqual(page.status, 200)
            self.assertIn(sentences.NOTICES[notice].source, page.text)
            self.assertEqual(self.state(player), "erasing")
        self.assertEqual(done(self.account.removals.resume()), 2)
        self.assertEqual(self.saves(), [(dora, "auto")])

    def test_merge_refused(self) -> None:
        """A player cannot be merged with themselves, or into one who waits or is gone."""
        self.add(BO, "bo")
        self.add(CLEO, "cleo", code="111222")
        self.begin()
        page = self.open()
        self.assertEqual(self.post("merge", page, player=BO, heir=BO).status, 409)
        self.assertEqual(self.post("merge", page, player=BO, heir=CLEO).status, 409)
        self.assertEqual(self.post("merge", page, player=BO, heir="ply_gone").status, 404)
        self.assertEqual((self.state(BO), self.events()), ("active", []))


class LaterWayTests(SiteCase):
    """Somebody at the owner's unlocked browser has linked an account of their own, and signs in with it."""

    def test_proves_nothing(self) -> None:
        """A way linked after the page was opened needs the code, until the operator opens the page again."""
        self.add(BO, "bo")
        self.begin(sign_in=False)
        later = "UPDATE local_account SET linked_ms = linked_ms + 1 WHERE player_id = :player_id"
        self.server.write(lambda c: c.execute(later, {"player_id": ANNA}).close())
        self.browser.sign_in()
        self.assertIn("run on the server: gamed owner confirm", self.open(f"/people/{BO}/erase").text)
        self.act(self.open(f"/people/{BO}/erase").form("/erase"))
        self.assertEqual(self.state(BO), "active")
        self.browser.post(
            self.browser.get(ACCOUNT).form("/password"), {"old": PASSWORD, "new": "another horse battery"}
        )
        self.assertIn("run on the server: gamed owner confirm", self.open(f"/people/{BO}/erase").text)
        self.server.write(lambda c: owner_tables.trust_ways(c, self.server.now_ms() + 1))
        self.browser.cookies.clear()
        self.browser.sign_in(password="another horse battery")
        self.assertNotIn("gamed owner confirm", self.open(f"/people/{BO}/erase").text)


class CodeTests(SiteCase):
    """The owner signed in where nothing proves that a person was asked."""

    def setUp(self) -> None:
        super().setUp()
        self.add(BO, "bo")
        self.begin()
        self.server.write(lambda c: c.execute("UPDATE browser_session SET verified = 0").close())

    def test_needed(self) -> None:
        """A code of the host is needed for what cannot be undone, and for nothing else."""
        page = self.open(f"/people/{BO}/erase")
        self.assertIn("run on the server: gamed owner confirm", page.text)
        for typed in ("", "12345678", "1234 5678"):
            refused = self.act(page.form("/erase"), code=typed)
            self.assertEqual(refused.status, 403, typed)
            self.assertIn(sentences.CODES[CodeCheck.NONE].source, refused.text)
        self.assertEqual(self.state(BO), "active")
        page = self.act(self.open(f"/people/{BO}").form("/block"))
        self.assertEqual(self.state(BO), "blocked")

    def test_once(self) -> None:
        """A code works once, typed with or without its blank, for ten minutes."""
        code = self.code()
        form = self.open(f"/people/{BO}/erase").form("/erase")
        self.act(form, code=code)
        self.assertIsNone(self.state(BO))
        self.add(BO, "bo")
        refused = self.act(form, code=code)
        self.assertEqual((refused.status, self.state(BO)), (403, "active"))
        code = self.code()
        self.server.shift_ms += owner_tables.CODE_MS
        refused = self.act(form, code=code.replace(" ", ""))
        self.assertEqual((refused.status, self.state(BO)), (403, "active"))

    def test_attempts(self) -> None:
        """After five wrong codes the right one is void, too."""
        code = self.code()
        form = self.open(f"/people/{BO}/erase").form("/erase")
        for _ in range(owner_tables.CODE_ATTEMPTS):
            refused = self.act(form, code="00000000")
            self.assertIn(sentences.CODES[CodeCheck.WRONG].source, refused.text)
        refused = self.act(form, code=code)
        self.assertIn(sentences.CODES[CodeCheck.NONE].source, refused.text)
        self.assertEqual(self.state(BO), "active")

    def test_merge(self) -> None:
        """A merge needs a code, too."""
        self.add(CLEO, "cleo")
        form = self.open(f"/people/{BO}/merge/{CLEO}").form("/merge")
        self.assertEqual(self.act(form, code="1").status, 403)
        self.assertEqual(self.state(BO), "active")
        self.act(form, code=self.code())
        self.assertIsNone(self.state(BO))

    def test_reset_link(self) -> None:
        """A reset link needs a code, too: with it anyone could take the account over, and adopt it for good."""
        page = self.open(f"/people/{BO}")
        self.assertIn("run on the server: gamed owner confirm", page.text)
        form = page.form("/reset-link")
        refused = self.act(form, code="00000000")
        self.assertEqual(refused.status, 403)
        self.assertIn(sentences.CODES[CodeCheck.NONE].source, refused.text)
        self.assertEqual((self.server.rows("SELECT count(*) FROM reset_link"), self.events()), ([(0,)], []))
        shown = self.act(form, code=self.code())
        self.assertEqual((shown.status, shown.heading), (200, "A link for a new password"))
        self.assertEqual(self.server.rows("SELECT count(*) FROM reset_link"), [(1,)])

    def test_at_rest(self) -> None:
        """The code is stored as an index alone, and is in no log."""
        code = self.code().replace(" ", "")
        rows = self.server.rows("SELECT * FROM owner_code")
        self.assertNotIn(code, str(rows) + str(self.server.security))


class InviteTests(SiteCase):
    def test_make(self) -> None:
        """A link with a QR code is shown once; it works, is listed without itself, and can be revoked."""
        self.begin()
        page = self.act(self.open("/invites").form("/invite"), name="Penny", days="3")
        self.assertEqual(page.heading, "Your invite")
        self.assertIn("svg", page.tags)
        url = next(word for word in page.text.split() if "/auth/invite/" in word)
        friend = self.new_account_browser()
        self.assertIn("Penny", friend.get(url).html)
        page = self.open("/invites")
        self.assertIn("Penny made just now", page.text)
        self.assertNotIn(url.rpartition("/")[2], page.html)
        page = self.act(page.form("/revoke-invite"))
        self.assertIn(sentences.NOTICES["o-revoke"].source, page.text)
        self.assertEqual(friend.get(url).status, 410)
        self.assertEqual([each[0] for each in self.events()], ["players invite", "players revoke-invite"])

    def test_revoke_twice(self) -> None:
        """A second tab finds the invite used up."""
        self.begin()
        self.act(self.open("/invites").form("/invite"))
        form = self.open("/invites").form("/revoke-invite")
        self.act(form)
        self.assertEqual(self.act(form).status, 409)

    def test_unusable(self) -> None:
        """A name or a number of days that cannot be is refused at the form, which has what was typed."""
        self.begin()
        form = self.open("/invites").form("/invite")
        for name, days in (
            ("x" * 33, "7"),
            ("a\u200bb\x00", "7"),
            ("", "0"),
            ("", "91"),
            ("", "\u0661"),
            ("", "-1"),
            ("", "1e1"),
            ("", ""),
        ):
            page = self.act(form, name=name, days=days)
            self.assertEqual(page.status, 400, (name, days))
            self.assertIn(sentences.INVITE_UNUSABLE.source, page.text)
        self.assertEqual(self.server.rows("SELECT count(*) FROM invite"), [(0,)])

    def test_pages(self) -> None:
        """Open invites are listed 50 at a time, the newest first, each once."""
        self.begin()
        form = self.open("/invites").form("/invite")
        for number in range(AT_ONCE + 3):
            self.server.clock.advance(1)
            self.act(form, name=f"Guest {number}")
        page = self.open("/invites")
        self.assertEqual(page.html.count('do/revoke-invite"'), AT_ONCE)
        [more] = [link for link in page.links if "after=" in link]
        self.assertEqual(self.browser.get(more).html.count('do/revoke-invite"'), 3)


class ActivityTests(SiteCase):
    def test_filters(self) -> None:
        """Events are sentences with names, and a filter shows only its kind."""
        self.add(BO, "bo")
        self.begin()
        self.act(self.open(f"/people/{BO}").form("/block"))
        self.assertIn("bo was blocked by Anna", self.open("/activity").text)
        self.assertIn("bo was blocked by Anna", self.open("/activity?show=owner").text)
        self.assertNotIn("bo was blocked", self.open("/activity?show=sign-ins").text)
        for wrong in ("?show=x", "?before=x", "?before=1", "?before=1-" + "9" * 30):
            self.assertEqual(self.open(f"/activity{wrong}").status, 400, wrong)

    def test_pages(self) -> None:
        """Events are paged, each once, also those of a filter that skips most."""
        self.begin()
        query = "INSERT INTO security_event (hour, event, player_id, detail, first_ms, last_ms, times, logged) VALUES "
        now_ms = self.server.now_ms()
        rows = [
            (
                number,
                "sign_in" if number % 25 else "callback_rejected",
                "",
                loads('"{}"') + " " * number,
                now_ms - number,
            )
            for number in range(1, 2001)
        ]

        def work(connection: Any) -> None:
            for number, event, player, detail, at_ms in rows:
                connection.execute(
                    f"{query} (:number, :event, :player, :detail, :at_ms, :at_ms, 1, 1)",
                    {"number": number, "event": event, "player": player, "detail": detail, "at_ms": at_ms},
                ).close()

        self.server.write(work)
        found, link = 0, f"{HOME}/activity?show=alarming"
        for _ in range(5):
            page = self.browser.get(link)
            found += page.text.count("came back from")
            more = [each for each in page.links if "before=" in each]
            if not more:
                break
            link = more[0]
        self.assertEqual(found, 80)


class ProviderTests(SiteCase):
    """An owner who signs in at a provider."""

    def begin_at(self, provider: str) -> Page:
        """Sign the owner in there, and return the page that asks before an erasure."""
        self.serve_oauth()
        self.browser = self.new_account_browser()
        self.play_at(provider)
        self.add(BO, shown="Bo")
        self.server.write(lambda c: player_tables.set_owner(c, self.player_id))
        self.turn_on()
        self.sign_in_at(provider)
        return self.open(f"/people/{BO}/erase")

    def test_unproven(self) -> None:
        """A provider that answers for an open session proves nothing: a code of the host is needed."""
        page = self.begin_at("discord")
        self.assertIn("gamed owner confirm", page.text)
        self.assertEqual(self.act(page.form("/erase"), code="").status, 403)
        self.assertEqual(self.state(BO), "active")
        self.act(page.form("/erase"), code=self.code())
        self.assertIsNone(self.state(BO))

    def test_google(self) -> None:
        """The same holds for Google; tests.e2e.test_asked_again has a provider that proves that it asked."""
        self.assertIn("gamed owner confirm", self.begin_at("google").text)


@sqlite_files("its query plans; tests.database.postgresql.test_plans has PostgreSQL's")
class PlanTests(SiteCase):
    def test_indexes(self) -> None:
        """No list of the page reads a whole table or sorts one, but that of open invites, which are 500 at most."""
        keys = self.server.keys

        def plans(connection: Any) -> list[str]:
            statements: list[str] = []
            connection.set_trace_callback(statements.append)
            player_tables.players_after(connection, keys.sealer, "ply_a", 10)
            page_of_events(connection, 1, (5, 5), 10)
            page_of_kinds(connection, 1, (5, 5), rows=10, kinds=["command"], searched=100)
            page_of_invites(connection, keys, 1, (5, "inv_a"), 10)
            tables.list_figures(connection, self.server.now_ms())
            owner_tables.read_switch(connection)
            connection.set_trace_callback(None)
            return [str(row[-1]) for sql in statements for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}")]

        found = self.server.write(plans)
        self.assertEqual([step for step in found if step.startswith("SCAN") and step != "SCAN owner_page"], [])
        self.assertLessEqual(len([step for step in found if "TEMP B-TREE" in step]), 1)
