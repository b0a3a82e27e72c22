"""One walk in each browser engine: every form of the game's, the account's and the owner's pages, then the garden."""

import json
import re
from html import unescape
from io import BytesIO
from typing import Any, ClassVar
from urllib.parse import urlencode
from zipfile import ZipFile

from cryptography.x509 import DNSName
from twisted.trial.unittest import SynchronousTestCase

from gamed.account import sentences
from gamed.config.settings import Intervals
from gamed.login.local import FormError
from gamed.login.sentences import REFUSED
from tests.cli.process import ROOT, CommandTestCase
from tests.e2e.cases import NAME, PASSWORD
from tests.e2e.engines import ENGINES, Engine
from tests.e2e.every_state import findings
from tests.e2e.owner_walk import OWNER, OwnerWalkCase
from tests.e2e.recorder import Recorder
from tests.e2e.service import gamed_with
from tests.e2e.test_demo import SERVED
from tests.e2e.test_links import NEW_PASSWORD, LinkCase
from tests.e2e.wire import Answer
from tests.login.gallery import every_page
from tests.support.certificates import certificate
from tests.support.ports import free_port

CODE = "() => document.querySelector('.code').innerText.trim()"
LANGUAGE = "() => document.documentElement.lang"
PLACES = "() => [...document.querySelectorAll('.places a')].map(e => e.innerText.trim())"
HERE = "() => document.querySelector(location.hash).getBoundingClientRect().top < innerHeight"
"""Whether the place that was pressed is in the window."""
INTERVALS = Intervals(page_return_seconds=0, page_refresh_seconds=1)
PHONE, DESKTOP = (360, 640), (1280, 800)


class AccountTests(OwnerWalkCase, LinkCase):
    """A player from the invite to the deletion of the account, and the owner, in local mode."""

    intervals: ClassVar = INTERVALS
    config: ClassVar[Any] = {**LinkCase.config, "limits": {"passwords_per_minute": 0}}

    def prepare(self) -> None:
        """Serve as on the internet: browsers see https, and cookies have the prefix `__Host-`."""
        super().prepare()
        proxy = Recorder(self.service.port, certificate(self.folder, DNSName("localhost")))
        self.addCleanup(proxy.close)
        self.site = proxy.base
        self.service.configure({**self.config, "public_url": self.site})
        admin = free_port()
        self.service.arguments, self.owner = [f"--admin=tcp:{admin}:interface=127.0.0.1"], f"http://localhost:{admin}/"

    def ask(self, method: str, path: str, **how: Any) -> Answer:
        headers = {"Host": self.site.removeprefix("https://"), **how.pop("headers", {})}
        return super().ask(method, path, headers=headers, **how)

    def test_chromium(self) -> None:
        """Each form does what its button says in Chromium."""
        self.walk(ENGINES["chromium"]())

    def test_firefox(self) -> None:
        """Each form does what its button says in Firefox."""
        self.walk(ENGINES["firefox"]())

    def test_webkit(self) -> None:
        """Each form does what its button says in WebKit."""
        self.walk(ENGINES["webkit"]())

    def walk(self, browser: Engine) -> None:
        self.addCleanup(browser.close)
        self.browser, self.home = browser, f"{self.site}/auth/account"
        browser.resize(*PHONE)
        self.is_invited()
        self.speaks_another_language()
        self.is_renamed()
        self.asks_for_an_account()
        self.signs_a_game_in()
        browser.resize(*DESKTOP)
        self.restores_a_version()
        self.chooses_a_copy()
        self.deletes_a_save()
        self.downloads_all()
        self.signs_another_browser_out()
        self.signs_the_game_out()
        self.changes_the_password()
        browser.resize(*PHONE)
        self.walk_as_owner(NAME, "Z. Beeblebrox", "Tricia")
        browser.resize(*DESKTOP)
        self.gets_a_new_password()
        self.deletes_the_account()
        self.is_read_by_the_owner()
        self.assertEqual([error for error in browser.errors() if "status of 4" not in error], [])

    def assert_notice_once(self, key: str) -> None:
        """Assert that a notice is shown once: neither Back nor a reload shows it again."""
        words = sentences.NOTICES[key].source
        self.assertIn(words, self.browser.text)
        self.looks_right()
        self.browser.reload()
        self.assertNotIn(words, self.browser.text)

    def assert_not_after_back(self, key: str) -> None:
        """Assert that the page with the notice, left by a link, comes back without it."""
        words = sentences.NOTICES[key].source
        self.assertIn(words, self.browser.text)
        self.browser.open(f"{self.home}/saves/none")
        self.browser.wait_for(sentences.SAVE_WRONG.source)
        self.browser.back()
        self.browser.wait_for("Sign out")
        self.assertNotIn(words, self.browser.text)

    def is_invited(self) -> None:
        self.browser.open(self.link("invite"))
        self.looks_right()
        self.browser.fill("Create account", Name=NAME, Password=PASSWORD)
        self.assertIn(f"Hello, {NAME}", self.browser.text)
        self.looks_right()

    def speaks_another_language(self) -> None:
        for before, chosen, tag in (("Language", "Deutsch", "de"), ("Sprache", "English", "en")):
            self.browser.press(before)
            self.browser.go(chosen)
            self.assertEqual(self.browser.read(LANGUAGE), tag)

    def is_renamed(self) -> None:
        self.browser.fill("Save name", Name_that_games_show="Z. Beeblebrox")
        self.assertIn("Hello, Z. Beeblebrox", self.browser.text)
        self.assert_not_after_back("named")

    def asks_for_an_account(self) -> None:
        """Create an account from a game, in another player's name, which the owner has to approve."""
        login = self.start()
        self.browser.open(login["login_url"])
        self.browser.go("Create an account")
        self.looks_right()
        self.browser.fill("Create account", Name=NAME, Password=PASSWORD)
        self.assertIn(REFUSED[FormError.NAME_TAKEN].source, self.browser.text)
        self.browser.fill("Create account", Name="Trillian", Password=PASSWORD, Name_that_games_show="Tricia")
        answer = self.collect(login, finish_code=self.browser.read(CODE))
        self.assertEqual(answer.json["problem"]["code"], "player_pending")
        self.browser.reload()
        self.browser.wait_for("Tell the owner this number")
        self.looks_right()

    def signs_a_game_in(self) -> None:
        """Decline one sign-in; in the next one type a wrong password, then the right one, and read the code."""
        self.browser.open(self.start()["login_url"])
        self.browser.go("This was not me")
        self.browser.wait_for("You were not signed in")
        login = self.start(client={"name": "MyGame", "platform": "linux", "device_name": "ANNA-PC"})
        self.browser.open(login["login_url"])
        self.looks_right()
        self.browser.go("Create an account")
        self.browser.go("Sign in")
        self.browser.fill("Sign in", Name=NAME, Password="wrong horse")
        self.assertIn(REFUSED[FormError.WRONG].source, self.browser.text)
        self.browser.fill("Sign in", Password=PASSWORD)
        self.looks_right()
        answer = self.collect(login, finish_code=self.browser.read(CODE))
        self.assertEqual(answer.status, 200, answer.body)
        self.token = answer.json["access_token"]
        self.browser.wait_for("You can go back to the game")

    def save(self, data: bytes, condition: str, value: str) -> Answer:
        return self.ask("PUT", "/game/saves/auto", body=data, bearer=self.token, headers={condition: value})

    def saved(self) -> bytes:
        return self.ask("GET", "/game/saves/auto", bearer=self.token).body

    def restores_a_version(self) -> None:
        first = self.save(b"\x01one", "If-None-Match", "*")
        self.save(b"\x02two", "If-Match", first.headers["etag"])
        self.browser.open(self.home)
        self.looks_right()
        self.browser.go("Versions: auto")
        self.looks_right()
        self.assertEqual(self.browser.download("Download: Version 1"), ("auto-1.sav", b"\x01one"))
        self.browser.go("Restore: Version 1")
        self.assert_notice_once("restored")
        self.assertEqual(self.saved(), b"\x01one")

    def chooses_a_copy(self) -> None:
        """Delete one copy after a page that asks, use another one, and keep the current one instead of a third."""
        for data in (b"\x03three", b"\x04four", b"\x05five"):
            self.assertEqual(self.save(data, "If-Match", '"1-0000000000000000"').status, 412)
        self.browser.open(self.home)
        self.browser.go("Choose: auto")
        self.looks_right()
        self.browser.go("Delete this copy: Version 4")
        self.looks_right()
        self.browser.go("Keep it")
        self.browser.go("Delete this copy: Version 4")
        self.browser.go("Delete this copy")
        self.assert_notice_once("dismissed")
        self.browser.go("Use this copy: Version 5")
        self.assert_notice_once("restored")
        self.browser.go("Keep this one")
        self.looks_right()
        self.browser.go("Delete the other copy")
        self.assert_notice_once("kept")
        self.assertEqual(self.saved(), b"\x04four")

    def deletes_a_save(self) -> None:
        """Delete the save after a page that asks, and bring it back from the list."""
        self.browser.go("Delete this save")
        self.looks_right()
        self.browser.go("Delete this save")
        self.assert_notice_once("save-deleted")
        self.browser.go("Bring back: auto")
        self.assert_notice_once("restored")
        self.assertEqual(self.saved(), b"\x04four")

    def downloads_all(self) -> None:
        """Download the archive of all saves, with the account's data."""
        self.browser.open(self.home)
        name, data = self.browser.download("Download all")
        self.assertRegex(name, r"^[\w.-]+\.zip$")
        archive = ZipFile(BytesIO(data))
        self.assertEqual(archive.read("saves/auto/1"), b"\x01one")
        self.assertEqual(json.loads(archive.read("me.json"))["name"], NAME)

    def signs_another_browser_out(self) -> None:
        """Sign out one of two browsers, which has to sign in again then."""
        cookie = self.sign_in_elsewhere("Mozilla/5.0 (Windows NT 10.0) Gecko/20100101 Firefox/153.0")
        self.assertIn("Sign out everywhere else", self.shown_elsewhere(cookie))
        self.browser.reload()
        self.browser.go("Sign out: Firefox on Windows")
        self.assert_notice_once("browser-out")
        self.assertIn("Sign in to see your devices and saves.", self.shown_elsewhere(cookie))

    def sign_in_elsewhere(self, agent: str) -> str:
        """Sign in to the account with another browser; return its cookie."""
        page = self.ask("GET", "/auth/account")
        field = re.search(r'name="form" value="([^"]+)"', page.body.decode())
        assert field is not None, page.body
        headers = {"Cookie": page.headers["set-cookie"].partition(";")[0], "User-Agent": agent}
        form = urlencode({"form": unescape(field[1]), "name": NAME, "password": PASSWORD})
        sent = {**headers, "Content-Type": "application/x-www-form-urlencoded"}
        done = self.ask("POST", "/auth/account/sign-in", body=form.encode(), headers=sent)
        path = done.headers["location"].removeprefix(self.site).replace("/auth/login/done", "/auth/account/done")
        return self.ask("GET", path, headers=headers).headers["set-cookie"].partition(";")[0]

    def shown_elsewhere(self, cookie: str) -> str:
        return self.ask("GET", "/auth/account", headers={"Cookie": cookie}).body.decode()

    def signs_the_game_out(self) -> None:
        """Rename the device with the game, then sign it out there, and all others."""
        self.browser.open(self.home)
        self.browser.go("Rename: ANNA-PC")
        self.looks_right()
        self.browser.fill("Save name", Name_of_the_device="Deck")
        self.assert_notice_once("device-named")
        self.browser.open(self.home)
        self.browser.go("Sign out: Deck")
        self.assert_notice_once("signed-out")
        self.assertEqual(self.ask("GET", "/game/", bearer=self.token).status, 401)
        self.browser.go("Sign out everywhere else")
        self.assert_notice_once("others-out")

    def changes_the_password(self) -> None:
        self.browser.fill("Change password", Old_password="wrong horse", New_password=NEW_PASSWORD)
        self.assertIn(sentences.PASSWORD_REFUSED[FormError.WRONG].source, self.browser.text)
        self.browser.fill("Change password", Old_password=PASSWORD, New_password=NEW_PASSWORD)
        self.assert_notice_once("password")
        self.browser.go("Sign out")
        self.browser.fill("Sign in", Name=NAME, Password=NEW_PASSWORD)
        self.assertIn("Hello, Z. Beeblebrox", self.browser.text)

    def gets_a_new_password(self) -> None:
        """Use a reset link, which signs this browser out."""
        self.browser.open(self.link("reset-link", NAME))
        self.looks_right()
        self.browser.fill("Set password", Password=PASSWORD)
        self.browser.wait_for("You are signed out everywhere.")
        self.browser.go("Open your account")
        self.browser.fill("Sign in", Name=NAME, Password=PASSWORD)

    def deletes_the_account(self) -> None:
        self.browser.fill("Delete account", Type_the_word="nothing")
        self.browser.wait_for(sentences.NOT_TYPED.source)
        self.browser.back()
        self.browser.fill("Delete account", Type_the_word="delete")
        self.browser.wait_for("Your account is deleted")
        self.looks_right()
        self.assertEqual(self.service.rows()["player"], 1)

    def is_read_by_the_owner(self) -> None:
        """The owner's own page opens on both screens and in another language, and its places are there."""
        for size in (PHONE, DESKTOP):
            self.browser.resize(*size)
            self.browser.open(self.owner)
            self.looks_right()
        self.assertIn(OWNER, self.browser.text)
        for name in self.browser.read(PLACES):
            self.browser.press(name)
            self.browser.until(lambda: self.browser.evaluate(HERE), name)
        self.speaks_another_language()


class GardenTests(CommandTestCase):
    """A player of the garden, with `gamed dev`."""

    def setUp(self) -> None:
        super().setUp()
        ports = {name: free_port() for name in ("--port", "--provider-port", "--static-port")}
        words = [str(ROOT / word) if "/" in word else word for word in SERVED]
        options = [*(f"{name}={port}" for name, port in ports.items()), f"--folder={self.folder / 'dev'}"]
        process = self.start(*gamed_with(INTERVALS), "dev", *options, *words)
        self.await_answer(ports["--port"], process)
        self.site = f"http://127.0.0.1:{ports['--port']}"
        self.home = f"{self.site}/auth/account"
        self.address = f"http://127.0.0.1:{ports['--static-port']}/"

    def test_chromium(self) -> None:
        """The garden is played, saved and restored in Chromium."""
        self.walk(ENGINES["chromium"]())

    def test_firefox(self) -> None:
        """The garden is played, saved and restored in Firefox."""
        self.walk(ENGINES["firefox"]())

    def test_webkit(self) -> None:
        """The garden is played, saved and restored in WebKit."""
        self.walk(ENGINES["webkit"]())

    def walk(self, browser: Engine) -> None:
        self.addCleanup(browser.close)
        self.browser = browser
        browser.resize(*DESKTOP)
        self.is_invited()
        self.adopts()
        self.signs_in()
        self.plays()
        self.uses_the_account()
        self.restores()
        self.is_signed_out()
        self.assertEqual([error for error in browser.errors() if "status of 401" not in error], [])

    def command(self, *arguments: str, stdin: str = "") -> str:
        """Run a command of the owner on the folder of `gamed dev`; return its output."""
        folder = self.folder / "dev"
        self.config, self.data = folder / "authentication.json", folder / "data"
        self.environ["GAMED_DEV_MASTER_KEY"] = (folder / "master.key").read_text("utf-8").strip()
        code, said, errors = self.gamed(*arguments, stdin=stdin)
        self.assertEqual(code, 0, errors)
        return said

    def is_invited(self) -> None:
        """Use an invite at a provider, which makes the player."""
        [link] = re.findall(rf"{self.site}/auth/invite/\S+", self.command("players", "invite"))
        self.browser.open(link)
        self.browser.go("Continue with Discord")
        self.browser.go("Continue as Dilek")
        self.browser.wait_for("No game is signed in as you.")

    def adopts(self) -> None:
        """Bring an account from before into this one: first with a wrong password, then with the right one."""
        self.command("players", "add", NAME, "--password-stdin", stdin=f"{PASSWORD}\n")
        self.browser.reload()
        self.browser.press("Played here before")
        self.browser.fill("Bring it into this account", Name=NAME, Password="wrong horse")
        self.browser.wait_for(REFUSED[FormError.WRONG].source)
        self.browser.fill("Bring it into this account", Password=PASSWORD)
        self.browser.wait_for(sentences.NOTICES["adopted"].source)
        self.browser.go("Sign out")
        self.browser.wait_for("Sign in to see your devices and saves.")

    def signs_in(self) -> None:
        """Sign in as a new player, in a page that the game opens; choose a name, and type the code into the game."""
        self.browser.open(self.address)
        self.browser.press("Sign in")
        self.browser.press("Sign in with Discord")
        self.browser.follow("Open it")
        self.browser.go("Continue with Discord")
        self.browser.go("Continue as Chidi")
        self.browser.leads_to("Choose what games call you", "Name that games show")
        self.browser.fill("Save", Name_that_games_show="Chidi")
        code = self.browser.read(CODE)
        self.browser.leave()
        self.browser.type("The six letters", code.lower())
        self.browser.press("Continue")
        self.browser.wait_for("Your plots")
        self.browser.wait_for("Saved")
        self.sees_the_picture()

    def plays(self) -> None:
        """Play, and find the same garden after a reload, with the picture that the server sent."""
        self.browser.press("Plot 1:")
        self.browser.wait_for("0 flowers, 1 growing, 0 picked")
        self.browser.wait_for("Saved")
        for plot in (2, 2, 3, 3, 3):
            self.browser.press(f"Plot {plot}:")
        self.browser.wait_for("1 flower, 2 growing, 0 picked")
        self.browser.wait_for("Saved")
        self.browser.reload()
        self.browser.wait_for("1 flower, 2 growing, 0 picked")
        self.sees_the_picture()

    def sees_the_picture(self) -> None:
        """Wait for the picture above the plots: it moves them, so that what is pressed before may be beside a plot."""
        if self.browser.stores_blobs:
            picture = "() => document.querySelector('#scene-image').naturalWidth === 640"
            self.browser.until(lambda: self.browser.evaluate(picture), "the picture")

    def uses_the_account(self) -> None:
        """Sign in to the account at the provider, beside the game; link another provider, and unlink it."""
        self.browser.beside()
        self.browser.open(self.home)
        self.browser.go("Continue with Discord")
        self.browser.go("Continue as Chidi")
        self.browser.wait_for("Hello, Chidi")
        self.browser.go("Link: Google")
        self.browser.go("Continue as Chidi")
        self.browser.wait_for(sentences.NOTICES["linked"].source)
        self.browser.go("Unlink: Google")
        self.browser.wait_for(sentences.NOTICES["unlinked"].source)

    def restores(self) -> None:
        """Restore the first garden; the game, which is still open, offers it."""
        self.browser.wait_for("1 flower, 2 growing, 0 picked")
        self.browser.go("Versions: 1 flower")
        self.browser.go("Restore: Version 1")
        self.browser.wait_for(sentences.NOTICES["restored"].source)
        self.browser.leave()
        self.browser.press("Load it")
        self.browser.wait_for("0 flowers, 1 growing, 0 picked")

    def is_signed_out(self) -> None:
        """Sign the game out on the account page; the game asks for another sign-in."""
        self.browser.beside()
        self.browser.open(self.home)
        self.browser.go("Sign out: Browser on")
        self.browser.wait_for(sentences.NOTICES["signed-out"].source)
        self.browser.leave()
        self.browser.wait_for("Sign in to play")


class EveryStateTests(SynchronousTestCase):
    def test_it_finds_something(self) -> None:
        """The command that loads all states finds a page without style, one that is cut off, and what is blocked."""
        [good] = [page.html for page in every_page() if page.name == "sign-in open"]
        planted = {
            "good": good,
            "no-style": good.replace(b":root {", b"x {"),
            "cut-off": good.replace(b"<h1>", b"<h1><pre>" + b"W" * 99 + b"</pre>"),
            "blocked": good.replace(b"<h1>", b'<h1 style="color: red">'),
        }
        browser = ENGINES["chromium"]()
        self.addCleanup(browser.close)
        found = findings(browser, planted)
        self.assertEqual({line.partition(":")[0] for line in found}, set(planted) - {"good"})
        self.assertIn("blocked: style-src-attr", found)
