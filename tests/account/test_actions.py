"""Each action of the player's own page does what the game's API does, for the signed-in player alone."""

import json
import re
from base64 import b64encode
from io import BytesIO
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit
from zipfile import ZipFile

from gamed.account import sentences
from gamed.account.own_data import EVENTS
from gamed.account.views import ended_page
from gamed.audit import SecurityEvent
from gamed.config.game import SaveLimits
from gamed.database.event_counts import EventCount, EventKey
from gamed.database.security_events import write_events
from gamed.login.browser import Ended
from gamed.login.local import FormError
from gamed.outcomes import LoginFailure
from gamed.players import tables as player_tables
from gamed.sessions.browser_rules import BROWSER_IDLE_MS, BrowserName, NewBrowserSession
from gamed.sessions.browser_tables import open_browser
from gamed.sessions.credentials import RECENT_MS
from gamed.timestamps import rfc3339
from tests.account.page_fixtures import BERT, HOME, AccountCase
from tests.login.browser_fake_provider import GOOGLE
from tests.login.browser_fixtures import Page
from tests.login.fixtures import ANNA, PASSWORD, done

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
NEW_PASSWORD = "a battery staple"
ONE, TWO, THREE = b"\x01one", b"\x02two", b"\x03three"


class DeviceTests(AccountCase):
    def setUp(self) -> None:
        super().setUp()
        self.deck = self.play(device_name="Deck", name="MyGame")
        self.deck_id = self.session_id
        self.home = self.browser.sign_in()

    def alive(self, game: dict[str, str]) -> bool:
        return self.site.request("GET", "/auth/sessions", game).status == 200

    def test_list(self) -> None:
        """The page lists each device in its own words, with the time of its last use."""
        self.assertIn("Deck MyGame \u00b7 used just now \u00b7 signed in just now Rename Sign out", self.home.text)
        self.assertIn('title="2027-01-15T08:00:00.000Z"', self.home.html)
        self.server.clock.advance(20 * 60)
        self.assertIn("used 20 min ago", self.browser.get(HOME).text)

    def test_browsers(self) -> None:
        """Signed-in browsers are listed by the names that people know, this one first and marked."""
        other = self.new_account_browser(FIREFOX)
        self.server.clock.advance(60)
        other.sign_in()
        page = self.browser.get(HOME)
        self.assertIn("Devices Sign out everywhere else A browser this browser signed in 1 min ago", page.text)
        self.assertIn("Firefox on Linux used just now \u00b7 signed in just now Sign out", page.text)
        self.assertIn("Firefox on Linux this browser signed in just now", other.get(HOME).text)
        self.assertEqual([f["fields"] for f in page.forms if f["fields"].get("session_id") == self.own_id()], [])

    def own_id(self) -> str:
        """Return the id of this browser's session, the oldest one."""
        [session_id] = self.server.rows("SELECT session_id FROM browser_session ORDER BY created_ms LIMIT 1")[0]
        return str(session_id)

    def test_stored_name(self) -> None:
        """Nothing of what a browser sends about itself is stored, only names that gamed knows."""
        other = self.new_account_browser(f"{FIREFOX} secret/1 <b>")
        other.sign_in()
        rows = self.server.rows("SELECT agent FROM browser_session ORDER BY agent")
        self.assertEqual(sorted(rows, key=repr), [("Firefox/Linux",), (None,)])

    def test_end_browser(self) -> None:
        """Signing another browser out ends its session alone, and the log has it."""
        other = self.new_account_browser()
        self.server.clock.advance(1)
        other.sign_in()
        [form] = [f for f in self.browser.get(HOME).forms if f["fields"].get("session_id", "").startswith("brs_")]
        page = self.browser.post(form)
        self.assertIn(sentences.NOTICES["browser-out"].source, page.text)
        self.assertIn("Sign in to see your devices and saves.", other.get(HOME).text)
        self.assertIn(f"session_revoked player={ANNA} session={form['fields']['session_id']}", self.server.security)
        self.assertTrue(self.alive(self.deck))
        self.assertEqual(self.browser.post(form).status, 404)

    def test_expired_browser(self) -> None:
        """A browser whose session has expired is not listed."""
        self.new_account_browser().sign_in()
        self.assertEqual(self.browser.get(HOME).text.count("A browser"), 2)
        for _ in range(2):
            self.server.clock.advance(BROWSER_IDLE_MS / 2000 + 1)
            page = self.browser.get(HOME)
        self.assertEqual(page.text.count("A browser"), 1)

    def test_equal_names(self) -> None:
        """Devices of one name have numbers, on the page and for a screen reader."""
        self.play(device_name="Deck")
        self.new_account_browser().sign_in()
        page = self.browser.get(HOME)
        labels = re.findall(r'aria-label="Sign out: ([^"]+)"', page.html)
        self.assertEqual(sorted(labels), ["A browser (2)", "Deck", "Deck (2)"])
        self.assertIn("Deck (2)", page.text)

    def test_markup(self) -> None:
        """The words of a device are no markup."""
        self.play(device_name='<script>alert(1)</script>"')
        page = self.browser.get(HOME)
        self.assertNotIn("script", page.tags)
        self.assertIn('<script>alert(1)</script>"', page.text)
        self.assertIn('aria-label="Sign out: &lt;script&gt;alert(1)&lt;/script&gt;&#34;"', page.html)
        self.assertIn("<bdi>&lt;script&gt;", page.html)

    def test_sign_out(self) -> None:
        """Signing a device out ends its session, and no other one."""
        other = self.play(device_name="Laptop")
        page = self.browser.post(self.home.form("/sign-out-device", session_id=self.deck_id))
        self.assertIn(sentences.NOTICES["signed-out"].source, page.text)
        self.assertEqual((self.alive(self.deck), self.alive(other)), (False, True))
        self.assertIn(f"session_revoked player={ANNA} session={self.deck_id}", self.server.security)

    def test_sign_out_others(self) -> None:
        """Signing out everywhere else ends all games and all other browsers, not this one."""
        other = self.new_account_browser()
        other.sign_in()
        page = self.browser.post(self.home.form("/sign-out-others"))
        self.assertIn("No game is signed in as you.", page.text)
        self.assertFalse(self.alive(self.deck))
        self.assertIn("Sign in to see your devices and saves.", other.get(HOME).text)
        self.assertIn(f"signed_out player={ANNA} scope=others", self.server.security)

    def test_other_player(self) -> None:
        """The session of another player is unknown here."""
        account = {"player_id": BERT, "name": "Bert", "password": "x", "now_ms": self.server.now_ms()}
        self.server.write(lambda c: player_tables.add_local_player(c, self.server.keys, **account))
        theirs = self.play(BERT)
        form = self.home.form("/sign-out-device")
        browser = NewBrowserSession.generate(self.server.random, BrowserName())
        who = {"player_id": BERT, "provider": "local", "now_ms": self.server.now_ms(), "verified": True}
        self.server.write(lambda c: open_browser(c, self.server.keys.indexer, browser, **who))
        unknown = (
            self.session_id,
            browser.session_id,
            "",
            "ses_1",
            "brs_" + "A" * 22,
            "brs_\x00",
            "x" * 500,
            "ses_\x00",
        )
        for session_id in unknown:
            page = self.browser.post(form, {"session_id": session_id})
            self.assertEqual((page.status, sentences.DEVICE_GONE.source in page.text), (404, True))
        self.assertTrue(self.alive(theirs))
        self.assertEqual(len(self.server.rows("SELECT 1 FROM browser_session")), 2)


class RenameDeviceTests(AccountCase):
    def setUp(self) -> None:
        super().setUp()
        self.deck = self.play(device_name="Deck", name="MyGame")
        self.deck_id = self.session_id
        self.browser.sign_in()
        self.asked = self.browser.get(f"{HOME}/devices/{self.deck_id}")

    def names(self) -> list[str | None]:
        """Return the devices' names as games list them."""
        listed = self.site.request("GET", "/auth/sessions", self.deck).json["sessions"]
        return [each["client"].get("device_name") for each in listed]

    def test_rename(self) -> None:
        """The new name is on the page, in the game's own list and at saves; the log has the event, not the name."""
        self.assertIn(f"{HOME}/devices/{self.deck_id}", self.browser.get(HOME).links)
        self.assertIn("Deck MyGame \u00b7 used just now", self.asked.text)
        page = self.browser.post(self.asked.form("/rename-device"), {"device_name": "  Anna\u0065\u0301s  Deck "})
        self.assertIn(sentences.NOTICES["device-named"].source, page.text)
        self.assertIn("Anna\u00e9s Deck MyGame", page.text)
        self.assertEqual(self.names(), ["Anna\u00e9s  Deck"])
        self.assertEqual(self.put(self.deck, "auto", ONE).json["device"], "Anna\u00e9s  Deck")
        self.assertIn(f"device_renamed player={ANNA} session={self.deck_id}", self.server.security)

    def test_kept(self) -> None:
        """The other reported members stay, and a refresh does not bring the old name back."""
        self.server.write(lambda c: c.execute('UPDATE session SET client = \'{"name":"MyGame"}\'').rowcount)
        self.browser.post(self.asked.form("/rename-device"), {"device_name": "TV"})
        refreshed = self.site.post_json("/auth/session/refresh", {"refresh_credential": self.refresh_credential})
        self.deck = {"Authorization": f"Bearer {refreshed.json['access_token']}"}
        [session] = self.site.request("GET", "/auth/sessions", self.deck).json["sessions"]
        self.assertEqual(session["client"], {"name": "MyGame", "device_name": "TV"})

    def test_damaged(self) -> None:
        """A description that is damaged is replaced by the name."""
        self.server.write(lambda c: c.execute("UPDATE session SET client = '['").rowcount)
        self.browser.post(self.asked.form("/rename-device"), {"device_name": "TV"})
        self.assertEqual(self.names(), ["TV"])

    def test_refused(self) -> None:
        """A name of none or of more than 64 visible characters is refused at its field, and nothing changes."""
        for name in ("", " ", "\u200b\u2028", "x" * 65, "x" * 5000):
            page = self.browser.post(self.asked.form("/rename-device"), {"device_name": name})
            self.assertEqual((page.status, page.heading), (400, "Rename this device"), name[:20])
            self.assertIn(sentences.DEVICE_NAME_UNUSABLE.source, page.text)
        self.assertEqual(page.form("/rename-device")["fields"]["device_name"], "x" * 260)
        self.assertEqual(self.names(), ["Deck"])

    def test_unknown(self) -> None:
        """Another player's device, one that was signed out, and a browser are unknown here."""
        account = {"player_id": BERT, "name": "Bert", "password": "x", "now_ms": self.server.now_ms()}
        self.server.write(lambda c: player_tables.add_local_player(c, self.server.keys, **account))
        self.play(BERT, device_name="Theirs")
        theirs, browser = self.session_id, self.server.rows("SELECT session_id FROM browser_session")[0][0]
        form = self.asked.form("/rename-device")
        for session_id in (theirs, browser, "", "ses_\x00", "x" * 500):
            page = self.browser.post(form, {"session_id": session_id, "device_name": "Mine"})
            self.assertEqual((page.status, sentences.DEVICE_GONE.source in page.text), (404, True))
        self.assertEqual(self.browser.get(f"{HOME}/devices/{theirs}").status, 404)
        self.browser.post(self.browser.get(HOME).form("/sign-out-device", session_id=self.deck_id))
        self.assertEqual(self.browser.post(form, {"device_name": "Mine"}).status, 404)
        self.assertEqual(self.server.rows("SELECT count(*) FROM session WHERE client LIKE '%Mine%'"), [(0,)])

    def test_too_often(self) -> None:
        """Renaming is limited for each player."""
        form = self.asked.form("/rename-device")
        statuses = [self.browser.post(form, {"device_name": f"TV {number}"}).status for number in range(11)]
        self.assertEqual(statuses, [200] * 10 + [429])


class NoticeTests(AccountCase):
    """The next page alone says what was done."""

    def setUp(self) -> None:
        super().setUp()
        self.home = self.browser.sign_in()
        self.notice = sentences.NOTICES["named"].source

    def test_once(self) -> None:
        """A reload shows the notice no more; its cookie is for this host, and no script reads it."""
        answer = self.browser.post_only(self.home.form("/do/name"), {"name": "Anna"})
        self.assertEqual(answer.headers["location"], f"https://game.example{HOME}")
        [cookie] = [each for each in answer.cookies if each.startswith("__Host-gn=")]
        self.assertEqual(cookie, "__Host-gn=named; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=60")
        self.assertIn(self.notice, self.browser.get(HOME).text)
        self.assertNotIn(self.notice, self.browser.get(HOME).text)

    def test_foreign_link(self) -> None:
        """The address of a page cannot make it say that something was done."""
        for query in ("?done=password", "?done=named", "?notice=named"):
            page = self.browser.get(f"{HOME}{query}")
            self.assertEqual((page.status, "notice" in page.html.partition("</style>")[2]), (200, False))

    def test_unknown(self) -> None:
        """A cookie of another content says nothing."""
        for value in ("", "x", "named-", "<b>", "x" * 500):
            self.browser.cookies["__Host-gn"] = value
            self.assertNotIn("notice", self.browser.get(HOME).html.partition("</style>")[2])


class ActivityTests(AccountCase):
    """The page says in words what happened to an account."""

    def record(self, event: SecurityEvent, hours: int, times: int = 1, **values: str) -> None:
        now_ms = self.server.now_ms()
        at_ms = now_ms - hours * 3_600_000
        count = EventCount(EventKey.of(event, {"player": ANNA, **values}, at_ms), at_ms, at_ms, times)
        self.server.write(lambda connection: write_events(connection, [count], now_ms))

    def test_shown(self) -> None:
        """The latest events come first, each with its age and number; another player's are not among them."""
        self.record(SecurityEvent.SIGN_IN, 3, provider="local", created="no")
        self.record(SecurityEvent.SIGN_IN_REFUSED, 1, 3, provider="local", outcome="wrong_password")
        self.record(SecurityEvent.SIGN_IN_REFUSED, 0, provider="local", outcome="player_pending")
        self.record(SecurityEvent.PASSWORD_CHANGED, 0, player=BERT)
        text = self.browser.sign_in().text
        self.assertIn("Wrong password 3 times not you? 1 h ago Signed in with name and password 3 h ago", text)
        self.assertNotIn("Password changed", text)

    def test_wrong_password(self) -> None:
        """A wrong password is recorded with the player of a known name, and without one for any other name."""
        self.browser.sign_in(password="battery staple")
        self.browser.sign_in("Nobody", "battery staple")
        lines = [line for line in self.server.security if line.startswith("sign_in_refused")]
        self.assertEqual([f"player={ANNA}" in line for line in lines], [True, False])

    def test_bounded(self) -> None:
        """The page has the latest hundred events, most of them in a list to open."""
        for hours in range(130):
            self.record(SecurityEvent.PLAYER_RENAMED, hours)
        page = self.browser.sign_in()
        self.assertEqual((page.text.count("Name changed"), "details" in page.tags), (100, True))


class SaveTests(AccountCase):
    def setUp(self) -> None:
        super().setUp()
        self.deck = self.play(device_name="Deck")
        first = self.put(self.deck, "auto", ONE)
        self.put(self.deck, "auto", TWO, If_Match=first.headers["etag"])
        self.home = self.browser.sign_in()
        self.slot = self.browser.get(f"{HOME}/saves/auto")

    def test_list(self) -> None:
        """The page lists the slots with size and time, and links to their versions."""
        self.assertIn("auto 4 B \u00b7 just now \u00b7 Deck Versions", self.home.text)
        self.assertIn(f"{HOME}/saves/auto", self.home.links)
        self.assertIn("2 current just now Deck 4 B", self.slot.text)
        self.assertIn('<a href="/auth/account#saves" aria-current="true">', self.slot.html)
        self.assertNotIn('#saves" aria-current', self.home.html)
        self.assertIn("1 just now Deck 4 B", self.slot.text)

    def test_lost_version(self) -> None:
        """A save whose current version is lost does not look deleted."""
        lost = "DELETE FROM save_version WHERE slot = 'auto' AND version = 2"
        state = self.server.databases.state
        self.assertEqual(self.successResultOf(state.submit(lambda c: c.execute(lost).rowcount)), 1)
        home = self.browser.get(HOME)
        self.assertIn("Please tell the owner of this server.", home.text)
        self.assertNotIn("deleted", home.text)

    def test_many_slots(self) -> None:
        """Fifty slots are on a page, deleted ones too, and a link leads to the next by name."""
        for number in range(60):
            self.server.clock.advance(1)
            self.assertEqual(self.put(self.deck, f"s{number:02d}", ONE).status, 201)
        first = self.browser.get(HOME)
        self.assertEqual((first.html.count("Versions: "), "Versions: s48" in first.html), (50, True))
        second = self.browser.get(f"{HOME}?after=s48")
        self.assertIn(f"{HOME}?after=s48", first.html)
        self.assertEqual((second.html.count("Versions: "), "More saves" in second.text), (11, False))
        for wrong in ("", "A", "..", "x" * 65):
            self.assertEqual(self.browser.get(f"{HOME}?after={wrong}").status, 400)

    def test_copies_first(self) -> None:
        """Saves with copies to choose from are the first ones of the first page, and in their place on a later one."""
        for number in range(60):
            self.server.clock.advance(1)
            self.put(self.deck, f"s{number:02d}", ONE)
        self.assertEqual(self.put(self.deck, "s55", TWO, If_Match='"9-0000000000000000"').status, 412)
        first, second = self.browser.get(HOME), self.browser.get(f"{HOME}?after=s48")
        self.assertEqual(
            [each for each in first.links if "/saves/" in each][:2], [f"{HOME}/saves/s55", f"{HOME}/saves/auto"]
        )
        self.assertEqual((first.text.count("2 copies to choose from"), second.text.count("2 copies")), (1, 1))
        self.assertIn(f"{HOME}?after=s48", first.html)

    def test_many_copies(self) -> None:
        """Fifty saves with copies are on a page, and a link leads to the next of them, then to the others."""
        for number in range(60):
            self.server.clock.advance(2)
            self.put(self.deck, f"s{number:02d}", ONE)
            self.put(self.deck, f"s{number:02d}", TWO, If_Match='"9-0000000000000000"')
        first, second = self.browser.get(HOME), self.browser.get(f"{HOME}?copied=s49")
        self.assertEqual((first.text.count("2 copies to choose from"), first.text.count("Versions")), (50, 0))
        self.assertIn(f"{HOME}?copied=s49#saves", first.html)
        saves = [each.removeprefix(f"{HOME}/saves/") for each in second.links if "/saves/" in each]
        self.assertEqual((saves[:10], saves[10:12]), ([f"s{number}" for number in range(50, 60)], ["auto", "s00"]))
        self.assertIn(f"{HOME}?after=s48#saves", second.html)
        self.assertIn("To the first saves", second.text)
        for wrong in ("", "A", "..", "x" * 65):
            self.assertEqual(self.browser.get(f"{HOME}?copied={wrong}").status, 400)

    def test_many_versions(self) -> None:
        """A long history has pages; a version of an old page can be restored, and the current one is marked once."""
        for number in range(120):
            self.server.clock.advance(1)
            self.put(self.deck, "auto", f"{number}".encode(), If_Match="*")
        first = self.browser.get(f"{HOME}/saves/auto")
        self.assertEqual((first.text.count("current"), "Older versions" in first.text), (1, True))
        self.assertIn(f"{HOME}/saves/auto?before=23", first.html)
        older = self.browser.get(f"{HOME}/saves/auto?before=23")
        self.assertEqual((older.text.count("current"), "Older versions" in older.text), (0, False))
        self.assertIn("22", older.text)
        restored = self.browser.post(older.form("/restore", version="2"))
        self.assertIn(sentences.NOTICES["restored"].source, restored.text)
        self.assertEqual(self.read(self.deck, "auto"), TWO)
        self.assertEqual(self.browser.get(f"{HOME}/saves/auto?before=x").status, 400)

    def test_download(self) -> None:
        """A version comes as a file that the browser stores and never shows."""
        answer = self.browser.ask("GET", f"{HOME}/saves/auto/versions/1")
        self.assertEqual((answer.status, answer.body), (200, ONE))
        self.assertEqual(answer.headers["content-disposition"], 'attachment; filename="auto-1.sav"')
        self.assertEqual(answer.headers["content-security-policy"], "sandbox")
        self.assertEqual(answer.headers["content-type"], "application/octet-stream")
        self.assertEqual(answer.headers["cache-control"], "no-store")

    def test_page_as_a_save(self) -> None:
        """A save that is a page is not sent as one."""
        self.put(self.deck, "evil", b"<script>1</script>", If_None_Match="*", Content_Type="text/html")
        answer = self.browser.ask("GET", f"{HOME}/saves/evil/versions/1")
        self.assertEqual(answer.headers["content-type"], "application/octet-stream")
        self.assertEqual(answer.headers["content-security-policy"], "sandbox")

    def test_restore(self) -> None:
        """Restoring an older version makes its bytes current, for the game, too."""
        page = self.browser.post(self.slot.form("/restore", version="1"))
        self.assertIn(sentences.NOTICES["restored"].source, page.text)
        self.assertEqual(self.read(self.deck, "auto"), ONE)

    def test_waiting_game(self) -> None:
        """A game that waits for changes gets the restored save at once."""
        listing = self.site.request("GET", "/game/saves", self.deck).json
        wait = {**self.deck, "Prefer": "wait=20"}
        call = self.site.send("GET", f"/game/saves?since={listing['cursor']}", wait)
        self.assertEqual(call.answers, [])
        self.browser.post(self.slot.form("/restore", version="1"))
        [save] = call.answer.json["saves"]
        self.assertEqual((save["slot"], save["version"]), ("auto", 3))

    def test_saved_meanwhile(self) -> None:
        """Nothing is restored if a game has saved since the page was shown."""
        current = self.site.request("HEAD", "/game/saves/auto", self.deck).headers["etag"]
        self.put(self.deck, "auto", THREE, If_Match=current)
        page = self.browser.post(self.slot.form("/restore", version="1"))
        self.assertEqual((page.status, sentences.SAVE_CHANGED.source in page.text), (409, True))
        self.assertEqual(self.read(self.deck, "auto"), THREE)

    def test_undelete(self) -> None:
        """A deleted save is listed, and comes back by restoring a version."""
        etag = self.site.request("HEAD", "/game/saves/auto", self.deck).headers["etag"]
        self.site.request("DELETE", "/game/saves/auto", {**self.deck, "If-Match": etag})
        self.assertIn("auto deleted just now", self.browser.get(HOME).text)
        self.browser.post(self.browser.get(f"{HOME}/saves/auto").form("/restore", version="2"))
        self.assertEqual(self.read(self.deck, "auto"), TWO)

    def test_delete(self) -> None:
        """A page asks before a save is deleted; the game has it no more, and the list brings it back."""
        self.assertIn(f"{HOME}/saves/auto/delete", self.slot.links)
        asked = self.browser.get(f"{HOME}/saves/auto/delete")
        self.assertEqual((asked.status, asked.heading), (200, "Delete this save?"))
        self.assertIn("auto 4 B \u00b7 just now \u00b7 Deck", asked.text)
        self.assertIn("You can bring it back in your account until 14 February", asked.text)
        self.server.clock.advance(RECENT_MS / 1000 + 1)
        page = self.browser.post(asked.form("/delete-save"))
        self.assertIn(sentences.NOTICES["save-deleted"].source, page.text)
        self.assertEqual(self.site.request("GET", "/game/saves/auto", self.deck).code, "deleted")
        self.assertIn("auto deleted just now \u00b7 kept until 14 February Bring back Versions", page.text)
        page = self.browser.post(page.form("/bring-back"))
        self.assertIn(sentences.NOTICES["restored"].source, page.text)
        self.assertEqual((page.heading, self.read(self.deck, "auto")), ("Hello, Anna", TWO))

    def test_deleted_in_a_waiting_game(self) -> None:
        """A game that waits for changes learns of the deletion at once."""
        asked = self.browser.get(f"{HOME}/saves/auto/delete")
        listing = self.site.request("GET", "/game/saves", self.deck).json
        wait = {**self.deck, "Prefer": "wait=20"}
        call = self.site.send("GET", f"/game/saves?since={listing['cursor']}", wait)
        self.browser.post(asked.form("/delete-save"))
        [save] = call.answer.json["saves"]
        self.assertEqual((save["slot"], "deleted" in save), ("auto", True))

    def test_saved_before_deletion(self) -> None:
        """A save that a game has changed since the question is not deleted, and one that is deleted stays so."""
        asked = self.browser.get(f"{HOME}/saves/auto/delete")
        self.put(self.deck, "auto", THREE, If_Match="*")
        page = self.browser.post(asked.form("/delete-save"))
        self.assertEqual((page.status, sentences.SAVE_CHANGED.source in page.text), (409, True))
        self.assertEqual(self.read(self.deck, "auto"), THREE)
        form = self.browser.get(f"{HOME}/saves/auto/delete").form("/delete-save")
        for typed, status in (({"etag": ""}, 404), ({"slot": "none"}, 404), ({"slot": "../auto"}, 404), ({}, 200)):
            self.assertEqual(self.browser.post(form, typed).status, status, typed)
        self.assertEqual(self.browser.post(form).status, 200)
        self.assertEqual(self.browser.get(f"{HOME}/saves/auto/delete").status, 409)
        self.assertNotIn(f"{HOME}/saves/auto/delete", self.browser.get(f"{HOME}/saves/auto").links)

    def test_bring_back_late(self) -> None:
        """A deleted save that a game has written again is not replaced; without versions there is nothing to bring."""
        self.site.request("DELETE", "/game/saves/auto", {**self.deck, "If-Match": "*"})
        form = self.browser.get(HOME).form("/bring-back")
        self.put(self.deck, "auto", THREE)
        page = self.browser.post(form)
        self.assertEqual((page.status, sentences.SAVE_CHANGED.source in page.text), (409, True))
        self.site.request("DELETE", "/game/saves/auto", {**self.deck, "If-Match": "*"})
        pruned = "DELETE FROM save_version WHERE kind <> 'delete'"
        done(self.server.databases.state.submit(lambda c: c.execute(pruned).rowcount))
        page = self.browser.get(HOME)
        self.assertEqual([each for each in page.forms if each["action"].endswith("/bring-back")], [])

    def conflict(self) -> Page:
        """Let a second device save over an older version; return the page of the slot."""
        refused = self.put(self.play(device_name="Phone"), "auto", THREE, If_Match='"1-0000000000000000"')
        self.assertEqual(refused.status, 412)
        return self.browser.get(f"{HOME}/saves/auto")

    def test_keep_copy(self) -> None:
        """Using a conflict copy makes it current and removes the copy."""
        page = self.browser.post(self.conflict().form("/keep"))
        self.assertIn(sentences.NOTICES["restored"].source, page.text)
        self.assertEqual(self.read(self.deck, "auto"), THREE)
        self.assertNotIn("other copy", page.text)

    def test_keep_current(self) -> None:
        """Keeping the current save deletes the copies that the page showed, after a page that says so."""
        page = self.conflict()
        self.assertIn("Keep this one Download", page.text)
        asked = self.browser.get(f"{HOME}/saves/auto/keep")
        self.assertEqual((asked.status, asked.heading), (200, "Keep the current save?"))
        self.assertIn("1 other copy is gone for good", asked.text)
        self.put(self.deck, "auto", ONE, If_Match='"1-0000000000000000"')
        page = self.browser.post(asked.form("/keep-current"))
        self.assertIn(sentences.NOTICES["kept"].source, page.text)
        self.assertEqual(page.text.count("Use this copy"), 1)
        self.assertEqual(self.read(self.deck, "auto"), TWO)
        self.assertEqual(self.browser.post(asked.form("/keep-current")).status, 200)
        self.assertEqual(self.browser.get(f"{HOME}/saves/auto").text.count("Use this copy"), 1)

    def test_kept_meanwhile(self) -> None:
        """No copy is deleted if a game has saved since, if a number is of no copy, or without a recent sign-in."""
        self.assertEqual(self.browser.get(f"{HOME}/saves/auto/keep").status, 409)
        self.conflict()
        form = self.browser.get(f"{HOME}/saves/auto/keep").form("/keep-current")
        self.assertEqual(self.browser.post(form, {"copies": "1"}).status, 409)
        self.assertEqual(self.browser.post(form, {"etag": ""}).status, 409)
        self.assertEqual(self.browser.post(form, {"copies": "x \u0663 99"}).status, 200)
        self.put(self.deck, "auto", ONE, If_Match="*")
        page = self.browser.post(form)
        self.assertEqual((page.status, sentences.SAVE_CHANGED.source in page.text), (409, True))
        self.server.clock.advance(RECENT_MS / 1000 + 1)
        for asked in (self.browser.get(f"{HOME}/saves/auto/keep"), self.browser.post(form)):
            self.assertEqual((asked.status, asked.heading), (403, "Sign in again"))
        self.assertIn("other copy", self.browser.get(f"{HOME}/saves/auto").text)

    def test_copies_of_a_deleted_save(self) -> None:
        """At a deleted save with a copy there is nothing to keep but the copy."""
        self.conflict()
        self.site.request("DELETE", "/game/saves/auto", {**self.deck, "If-Match": "*"})
        page = self.browser.get(f"{HOME}/saves/auto")
        self.assertEqual(("Keep this one" in page.text, 'class="main" aria-label="Use' in page.html), (False, True))
        self.assertEqual(self.browser.get(f"{HOME}/saves/auto/keep").status, 409)
        self.browser.post(page.form("/keep"))
        self.assertEqual(self.read(self.deck, "auto"), THREE)

    def test_old_copy(self) -> None:
        """A copy is shown first however many versions are newer, and on the pages of older versions, too."""
        self.conflict()
        self.put(self.deck, "auto", ONE, If_Match="*")
        for number in range(120):
            self.server.clock.advance(1)
            self.put(self.deck, "auto", f"{number}".encode(), If_Match="*")
        for query in ("", "?before=5"):
            page = self.browser.get(f"{HOME}/saves/auto{query}")
            self.assertEqual(page.form("/keep")["fields"]["version"], "3", query)
            self.assertIn("124 current" if not query else "current Version 124", page.text)
        self.browser.post(page.form("/keep"))
        self.assertEqual(self.read(self.deck, "auto"), THREE)

    def test_dismiss_copy(self) -> None:
        """Deleting a conflict copy changes nothing else."""
        self.conflict()
        self.assertIn("2 copies to choose from", self.browser.get(HOME).text)
        asked = self.browser.get(f"{HOME}/saves/auto/versions/3/delete")
        self.assertEqual((asked.status, asked.heading), (200, "Delete this copy?"))
        self.assertIn("auto 6 B \u00b7 just now \u00b7 Phone", asked.text)
        self.assertIn("other copy", self.browser.get(f"{HOME}/saves/auto").text)
        page = self.browser.post(asked.form("/dismiss"))
        self.assertIn(sentences.NOTICES["dismissed"].source, page.text)
        self.assertNotIn("other copy", page.text)
        self.assertEqual(self.read(self.deck, "auto"), TWO)

    def test_page_before_dismissal(self) -> None:
        """The page of a save deletes nothing itself: it leads to a page that asks first."""
        page = self.conflict()
        self.assertEqual([form for form in page.forms if form["action"].endswith("/dismiss")], [])
        self.assertIn(f'href="{HOME}/saves/auto/versions/3/delete"', page.html)
        for number, status in (("1", 409), ("9", 409), ("0", 404), ("x", 404), ("3", 200)):
            self.assertEqual(self.browser.get(f"{HOME}/saves/auto/versions/{number}/delete").status, status, number)
        away = self.new_account_browser().get(f"{HOME}/saves/auto/versions/3/delete")
        self.assertIn("Sign in to see your devices and saves.", away.text)

    def test_dismissal_needs_a_recent_sign_in(self) -> None:
        """Ten minutes after the sign-in both the page and its form ask for a new one first."""
        self.conflict()
        path = f"{HOME}/saves/auto/versions/3/delete"
        form = self.browser.get(path).form("/dismiss")
        self.server.clock.advance(RECENT_MS / 1000 + 1)
        for asked in (self.browser.get(path), self.browser.post(form)):
            self.assertEqual((asked.status, asked.heading), (403, "Sign in again"))
        self.assertIn("other copy", self.browser.get(f"{HOME}/saves/auto").text)
        self.browser.post(asked.form("/sign-in"), {"name": "Anna", "password": PASSWORD})
        page = self.browser.post(self.browser.get(path).form("/dismiss"))
        self.assertIn(sentences.NOTICES["dismissed"].source, page.text)

    def test_wrong_input(self) -> None:
        """Unknown slots, versions and tags get a page that says so, and nothing changes."""
        form = self.slot.form("/restore", version="1")
        for typed, status in (
            ({"slot": "none"}, 404),
            ({"slot": "../auto"}, 404),
            ({"slot": "x" * 300}, 404),
            ({"version": "99"}, 409),
            ({"version": "-1"}, 409),
            ({"version": ""}, 409),
            ({"etag": "no tag"}, 404),
            ({"etag": '"9-9f86d081884c7d65"'}, 409),
            ({"etag": ""}, 409),
        ):
            page = self.browser.post(form, typed)
            self.assertEqual((page.status, page.heading), (status, "Nothing was changed"), typed)
        dismissed = self.browser.post({**form, "action": f"{HOME}/do/dismiss"}, {"version": "1"})
        self.assertEqual(dismissed.status, 409)
        for path in ("none", "none/versions/1", "auto/versions/99", "auto/versions/x", "%ff"):
            self.assertGreaterEqual(self.browser.get(f"{HOME}/saves/{path}").status, 400, path)
        self.assertEqual(self.read(self.deck, "auto"), TWO)

    def test_other_player(self) -> None:
        """Another player's saves are not found."""
        account = {"player_id": BERT, "name": "Bert", "password": "x", "now_ms": self.server.now_ms()}
        self.server.write(lambda c: player_tables.add_local_player(c, self.server.keys, **account))
        self.put(self.play(BERT), "secret", ONE)
        self.assertNotIn("secret", self.browser.get(HOME).text)
        for path in ("secret", "secret/versions/1"):
            self.assertEqual(self.browser.get(f"{HOME}/saves/{path}").status, 404)
        self.assertEqual(self.browser.post(self.slot.form("/restore", version="1"), {"slot": "secret"}).status, 404)

    def test_export(self) -> None:
        """The export is the ZIP file of the game's API with a file before all others, as a file to store."""
        answer = self.browser.ask("GET", f"{HOME}/export", Range="bytes=0-1", If_None_Match="*")
        self.assertEqual((answer.status, answer.headers["content-security-policy"]), (200, "sandbox"))
        self.assertEqual(answer.headers["content-disposition"], 'attachment; filename="saves.zip"')
        self.assertEqual(answer.headers["cache-control"], "no-store")
        archives = [
            ZipFile(BytesIO(each.body)) for each in (answer, self.site.request("GET", "/game/export", self.deck))
        ]
        members = [{name: archive.read(name) for name in archive.namelist()} for archive in archives]
        self.assertEqual([*members[0]], ["me.json", "saves/auto/1", "saves/auto/2", "manifest.json"])
        self.assertIsNone(archives[0].testzip())
        del members[0]["me.json"]
        self.assertEqual(*members)

    def own_data(self) -> dict[str, Any]:
        """Return what the export has of the account."""
        archive = ZipFile(BytesIO(self.browser.ask("GET", f"{HOME}/export").body))
        found: dict[str, Any] = json.loads(archive.read("me.json"))
        return found

    def test_own_data(self) -> None:
        """The export has the player's names, ways to sign in, devices, browsers and activity."""
        found = self.own_data()
        now, began = rfc3339(self.server.now_ms()), found.pop("created_at")
        self.assertEqual(began, rfc3339(self.server.rows("SELECT created_ms FROM player")[0][0]))
        instants = {"signed_in_at": now, "last_used_at": now}
        [browser] = [session_id for (session_id,) in self.server.rows("SELECT session_id FROM browser_session")]
        devices = [{"session_id": self.session_id, "provider": "local", **instants, "client": {"device_name": "Deck"}}]
        browsers = [{"session_id": browser, "provider": "local", **instants, "program": None, "system": None}]
        ways = [{"provider": "local", "linked_at": began, "last_used_at": now}]
        who = {"format": 1, "player": ANNA, "name": "Anna", "display_name": None, "exported_at": now}
        who |= {"sign_in": ways, "passkeys": [], "recovery_codes_left": 0}
        expected = {**who, "devices": devices, "browsers": browsers, "activity": found["activity"]}
        self.assertEqual(found, expected)

    def test_own_activity(self) -> None:
        """The export has the latest events without what is about the owner's machine, and a bounded number of them."""
        now_ms = self.server.now_ms()
        values = {"player": ANNA, "command": "players note", "by": "uid:1000", "at": rfc3339(now_ms)}
        counts = [EventCount(EventKey.of(SecurityEvent.COMMAND, values, now_ms), now_ms, now_ms, 2)]
        for hours in range(1, EVENTS + 5):
            at_ms = now_ms - hours * 3_600_000
            counts.append(EventCount(EventKey.of(SecurityEvent.SIGNED_OUT, {"player": ANNA}, at_ms), at_ms, at_ms, 1))
        self.server.write(lambda connection: write_events(connection, counts, now_ms))
        activity = self.own_data()["activity"]
        command = {"event": "command", "last_at": rfc3339(now_ms), "times": 2, "command": "players note"}
        self.assertEqual((activity[0], len(activity)), (command, EVENTS))

    def test_export_needs_a_recent_sign_in(self) -> None:
        """Ten minutes after the sign-in the page asks for a new one, and sends no file."""
        self.server.clock.advance(RECENT_MS / 1000 + 1)
        asked = self.browser.get(f"{HOME}/export")
        self.assertEqual((asked.status, asked.heading), (403, "Sign in again"))
        self.assertNotIn("content-disposition", asked.headers)
        self.browser.post(asked.form("/sign-in"), {"name": "Anna", "password": PASSWORD})
        self.assertEqual(self.browser.ask("GET", f"{HOME}/export").headers["content-type"], "application/zip")

    def test_no_secrets(self) -> None:
        """Nothing in the export is an index or a secret of the databases, or the number at a provider."""
        self.serve_providers()
        self.play_at("discord")
        self.sign_in_at("discord")
        text = json.dumps(self.own_data())
        self.assertEqual(self.own_data()["sign_in"][0]["provider"], "discord")
        for secret in (self.browser.token or "", "127.0.0.1", "203.0.113", "gat_", "grc_", "gbs_", "subject"):
            self.assertNotIn(secret, text)
        for table in ("identity", "session", "browser_session", "credential"):
            for row in self.server.rows(f"SELECT * FROM {table}"):
                for value in (each for each in row if isinstance(each, bytes)):
                    self.assertNotIn(value.hex(), text)
                    self.assertNotIn(b64encode(value).decode(), text)

    def test_damaged_saves_database(self) -> None:
        """While state.db is damaged, the page shows everything else."""
        damage = "UPDATE save_version SET created_ms = -1"
        done(self.server.databases.state.submit(lambda c: c.execute(damage).rowcount))
        page = self.browser.get(HOME)
        self.assertEqual(
            (
                page.status,
                "Deck" in page.text,
                "Your saves cannot be read right now. Please tell the owner of this server, and try again later."
                in page.text,
            ),
            (200, True, True),
        )


class WithoutHistoryTests(AccountCase):
    """The server keeps no deleted saves."""

    save_limits = SaveLimits(keep_days=0)

    def test_delete(self) -> None:
        """A deletion is for good there: the page says so, and both need a recent sign-in."""
        deck = self.play()
        self.put(deck, "auto", ONE)
        self.browser.sign_in()
        asked = self.browser.get(f"{HOME}/saves/auto/delete")
        self.assertIn("the server cannot bring it back", asked.text)
        self.server.clock.advance(RECENT_MS / 1000 + 1)
        for page in (self.browser.get(f"{HOME}/saves/auto/delete"), self.browser.post(asked.form("/delete-save"))):
            self.assertEqual((page.status, page.heading), (403, "Sign in again"))
        self.assertEqual(self.read(deck, "auto"), ONE)


class NameTests(AccountCase):
    def setUp(self) -> None:
        super().setUp()
        self.home = self.browser.sign_in()

    def test_change(self) -> None:
        """The new name is shown on the page and to games; an empty field means the account's name."""
        page = self.browser.post(self.home.form("/name"), {"name": "  Anna  Lena "})
        self.assertIn(sentences.NOTICES["named"].source, page.text)
        self.assertEqual(page.heading, "Hello, Anna Lena")
        self.assertEqual(self.stored(), "Anna Lena")
        self.browser.post(page.form("/name"), {"name": " "})
        self.assertEqual(self.stored(), "Anna")

    def stored(self) -> str | None:
        """Return the name in the database."""
        return self.server.write(lambda c: player_tables.display_name_of(c, self.server.keys.sealer, ANNA))

    def test_refused(self) -> None:
        """A name that is too long or cannot be seen is refused, and nothing changes."""
        for name in ("x" * 33, "a\u202eb", "\u2800", "x" * 5000, "a\x00b"):
            page = self.browser.post(self.home.form("/name"), {"name": name})
            self.assertEqual((page.status, sentences.NAME_UNUSABLE.source in page.text), (400, True), name[:20])
        self.assertEqual(self.browser.get(HOME).heading, "Hello, Anna")


class PasswordTests(AccountCase):
    def setUp(self) -> None:
        super().setUp()
        self.game = self.play()  # type: ignore[assignment]
        self.home = self.browser.sign_in()

    def change(self, old: str = PASSWORD, new: str = NEW_PASSWORD) -> Page:
        return self.browser.post(self.browser.get(HOME).form("/password"), {"old": old, "new": new})

    def test_change(self) -> None:
        """A new password signs in from then on, the old one does not."""
        page = self.change()
        self.assertIn(sentences.NOTICES["password"].source, page.text)
        self.assertIn(f"password_changed player={ANNA}", self.server.security)
        self.server.clock.advance(1)
        other = self.new_account_browser()
        other.sign_in()
        self.assertIsNone(other.token)
        self.assertIn("Hello, ", other.sign_in(password=NEW_PASSWORD).heading)
        self.assertIsNotNone(other.token)

    def test_ends_sessions(self) -> None:
        """A new password ends every game's session and every other browser's; this browser gets a new cookie."""
        other, before = self.new_account_browser(), self.browser.token
        other.sign_in()
        self.change()
        self.assertEqual(self.site.request("GET", "/auth/sessions", self.game).code, "session_revoked")
        self.assertIn("Sign in to see your devices and saves.", other.get(HOME).text)
        self.assertNotEqual(self.browser.token, before)
        self.assertIn("Anna", self.browser.get(HOME).text)

    def test_wrong_old_password(self) -> None:
        """A wrong old password changes nothing, and the page says so next to the form."""
        page = self.change(old="something else")
        self.assertEqual((page.status, sentences.PASSWORD_REFUSED[FormError.WRONG].source in page.text), (200, True))
        self.assertEqual(self.site.request("GET", "/auth/sessions", self.game).status, 200)

    def test_malformed_new_password(self) -> None:
        """A new password that is too short or too long changes nothing."""
        for new in ("", "short", "x" * 129, "x" * 6000):
            page = self.change(new=new)
            self.assertEqual(
                (page.status, sentences.PASSWORD_REFUSED[FormError.PASSWORD_MALFORMED].source in page.text),
                (200, True),
                new[:20],
            )
        self.assertIn("Hello, ", self.new_account_browser().sign_in().heading)

    def test_limit(self) -> None:
        """Guessing the old password is limited as at the sign-in."""
        self.serve(passwords_per_minute=2)
        self.browser = self.new_account_browser()
        self.browser.sign_in()
        self.assertEqual([self.change(old="something else").status for _ in range(2)], [200, 429])

    def test_limit_of_a_session(self) -> None:
        """A stolen session cannot guess the old password from many addresses, and the player can still sign in."""
        self.serve(passwords_per_minute=2)
        self.browser = self.new_account_browser()
        self.browser.sign_in()
        form = self.browser.get(HOME).form("/password")
        typed = {"old": "something else", "new": NEW_PASSWORD}
        sent = [self.browser.post_only(form, typed, X_Forwarded_For=f"203.0.113.{n}").status for n in range(4)]
        self.assertEqual(sent, [200, 200, 429, 429])
        other = self.new_account_browser()
        shown = other.get(HOME).form("/sign-in")
        other.post(shown, {"name": "Anna", "password": PASSWORD}, X_Forwarded_For="203.0.113.9")
        self.assertIsNotNone(other.token)

    def test_replaced_meanwhile(self) -> None:
        """A password that the owner replaced in the same moment stays."""
        [(encoded,)] = self.server.rows("SELECT password FROM local_account")
        self.server.write(lambda c: player_tables.set_password(c, ANNA, str(encoded), self.server.now_ms()))
        page = self.change()
        self.assertIn(sentences.PASSWORD_REFUSED[FormError.WRONG].source, page.text)


class ProviderTests(AccountCase):
    def setUp(self) -> None:
        self.serve_providers()
        self.deck = self.play_at("discord")
        self.home = self.sign_in_at("discord")

    def link(self, provider: str = "google", person: str = "anna") -> Page:
        away = self.browser.post(self.browser.get(HOME).form("/link", provider=provider))
        return self.browser.get(self.at_provider(away, person))

    def ways(self) -> list[str]:
        found = self.site.request("GET", "/auth/identities", self.deck).json["identities"]
        return [each["provider"] for each in found]

    def test_link(self) -> None:
        """A linked provider signs in as the same player, and the browser keeps its session."""
        token = self.browser.token
        page = self.link()
        self.assertIn(sentences.NOTICES["linked"].source, page.text)
        self.assertEqual((self.ways(), self.browser.token), (["discord", "google"], token))
        self.assertIn(f"identity_linked player={self.player_id} provider=google", self.server.security)
        other = self.new_account_browser()
        self.assertIn("Discord", self.sign_in_at("google", browser=other).text)

    def test_link_taken(self) -> None:
        """An account of another player is not linked, and players are not merged."""
        mine = self.deck
        self.play_at("google", "bo")
        page = self.link("google", "bo")
        self.assertIn("Not linked", page.text)
        self.deck = mine
        self.assertEqual(self.ways(), ["discord"])

    def test_link_after_sign_out(self) -> None:
        """A link ends without effect if the browser's session has ended meanwhile."""
        away = self.browser.post(self.home.form("/link", provider="google"))
        back = self.at_provider(away)
        self.browser.post(self.browser.get(HOME).form("/sign-out"))
        page = self.browser.get(back)
        self.assertEqual(page.heading, "Not linked")
        self.assertIn(sentences.LINK_ENDED[LoginFailure.SESSION_REVOKED].source, page.text)
        self.assertEqual(self.ways(), ["discord"])

    def test_link_cancelled(self) -> None:
        """A link that the player cancels at the provider is not linked; nothing says that they are signed out."""
        away = self.browser.post(self.home.form("/link", provider="google"))
        [state] = parse_qs(urlsplit(away.headers["location"]).query)["state"]
        answer = urlencode({"state": state, "error": "access_denied", "iss": GOOGLE.issuer})
        page = self.browser.get(f"/auth/google/callback?{answer}")
        self.assertEqual((page.heading, "signed in" in page.text), ("Not linked", False))
        self.assertIn(sentences.LINK_ENDED[LoginFailure.PROVIDER_DENIED].source, page.text)
        self.assertIn(f"{HOME}#sign-in", page.links)
        self.assertIn("Discord", self.browser.get(HOME).text)

    def test_link_fails(self) -> None:
        """No end of a link is headed as that of a sign-in."""
        for outcome in LoginFailure:
            self.assertEqual(ended_page(Ended(outcome, linking=True)).values["title"], sentences.NOT_LINKED)

    def test_unlink(self) -> None:
        """An unlinked provider signs in no more; the last one stays."""
        page = self.link()
        page = self.browser.post(page.form("/unlink", provider="google"))
        self.assertIn(sentences.NOTICES["unlinked"].source, page.text)
        self.assertEqual(self.ways(), ["discord"])
        self.assertEqual([form for form in page.forms if form["action"].endswith("/unlink")], [])
        forged = self.browser.post({**page.form("/sign-out"), "action": f"{HOME}/do/unlink"}, {"provider": "discord"})
        self.assertEqual((forged.status, sentences.LAST_WAY.source in forged.text), (409, True))

    def test_sign_in_again(self) -> None:
        """Ten minutes after the sign-in, linking, unlinking and deleting ask for a new sign-in first."""
        page = self.link()
        self.server.clock.advance(RECENT_MS / 1000 + 1)
        for action, typed in (("unlink", {"provider": "google"}), ("link", {"provider": "google"}), ("delete", {})):
            form = {**page.form("/sign-out"), "action": f"{HOME}/do/{action}"}
            asked = self.browser.post(form, {**typed, "word": "delete"})
            self.assertEqual((asked.status, asked.heading), (403, "Sign in again"), action)
        self.assertEqual(self.ways(), ["discord", "google"])
        away = self.browser.post(asked.form("/sign-in", provider="discord"))
        page = self.browser.get(self.at_provider(away))
        self.browser.post(page.form("/unlink", provider="google"))
        self.assertEqual(self.ways(), ["discord"])

    def test_unknown_provider(self) -> None:
        """A provider that the server does not have cannot be chosen."""
        for action in ("link", "sign-in"):
            form = {**self.home.form("/sign-out"), "action": f"{HOME}/do/{action}"}
            if action == "sign-in":
                form = self.new_account_browser().get(HOME).form("/sign-in")
            self.assertIn(self.browser.post(form, {"provider": "nobody"}).status, (400, 403), action)

    def test_no_password(self) -> None:
        """With providers there is no password to change."""
        form = {**self.home.form("/sign-out"), "action": f"{HOME}/do/password"}
        self.assertEqual(self.browser.post(form, {"old": "x", "new": "y"}).status, 404)


class DeleteTests(AccountCase):
    def setUp(self) -> None:
        super().setUp()
        self.deck = self.play()
        self.put(self.deck, "auto", ONE)
        self.home = self.browser.sign_in()

    def test_delete(self) -> None:
        """Deleting everything erases the player and all saves, and signs everything out."""
        page = self.browser.post(self.home.form("/delete"), {"word": " Delete "})
        self.assertEqual((page.status, page.heading), (200, "Your account is deleted"))
        self.assertIsNone(self.browser.token)
        for table in ("player", "local_account", "session", "browser_session", "save", "save_version"):
            self.assertEqual(self.server.rows(f"SELECT * FROM {table}"), [], table)
        self.assertEqual(self.site.request("GET", "/game/", self.deck).status, 401)
        self.assertIn(f"erased player={ANNA}", self.server.security)

    def test_word(self) -> None:
        """Without the word nothing is deleted."""
        for word in ("", "no", "delete it"):
            page = self.browser.post(self.home.form("/delete"), {"word": word})
            self.assertEqual((page.status, sentences.NOT_TYPED.source in page.text), (400, True))
        self.assertEqual(self.read(self.deck, "auto"), ONE)
