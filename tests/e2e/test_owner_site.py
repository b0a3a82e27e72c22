"""The owner's page of a real service in a real browser: a friend asks, the owner approves, blocks and restores."""

import json
from typing import ClassVar

from playwright.sync_api import Page

from gamed.owner import site_sentences as sentences
from tests.e2e.cases import NAME, PASSWORD, ServiceCase
from tests.e2e.chromium import Window
from tests.e2e.client import gamed
from tests.e2e.other_origin import installed
from tests.e2e.test_pages import AXE, CUT, NARROW, SCHEMES, SMALL
from tests.support.covers import covers

OWNER, OWNER_PASSWORD = "anna", "a long password"
OWNER_PLAYERS = "1 player"
PLACES = ("", "/people", "/invites", "/saves", "/files", "/activity", "/backups", "/time")


class OwnerSiteTests(ServiceCase):
    config: ClassVar = {"mode": "local", "login": {"registration": "approval"}}

    def setUp(self) -> None:
        super().setUp()
        self.home = f"{self.service.base}/auth/owner"
        gamed(self.service, "players", "add", OWNER, "--password-stdin", stdin=f"{OWNER_PASSWORD}\n")
        gamed(self.service, "owner", "claim", OWNER)
        self.backups = self.folder / "backups"
        self.backups.mkdir()

    def turn_on(self) -> Window:
        """Turn the page on, and sign the owner in to it."""
        gamed(self.service, "owner", "page", "on", "--backups", str(self.backups))
        window = self.window()
        window.open(self.home)
        window.sign_in(OWNER, OWNER_PASSWORD)
        window.wait_for("Invite a friend")
        return window

    def press(self, window: Window, name: str, said: str) -> None:
        """Press the button of exactly this name, and wait for a notice."""
        window.step(lambda page: page.get_by_role("button", name=name, exact=True).first.click())
        window.wait_for(said)

    @covers("threats/71")
    def test_friend(self) -> None:
        """A friend asks; the owner approves, blocks, unblocks and restores a save without a terminal."""
        friend, login = self.window(), self.start()
        friend.open(login["login_url"])
        friend.create_account(NAME, PASSWORD)
        asked = self.collect(login, finish_code=friend.code()).json["problem"]
        self.assertEqual(asked["code"], "player_pending")
        owner = self.turn_on()
        self.assertIn(asked["approval_code"], owner.text)
        self.press(owner, f"Approve: {NAME}", sentences.NOTICES["o-approve"].source)

        login = self.start()
        friend.open(login["login_url"])
        friend.sign_in(NAME, PASSWORD)
        held = self.collect(login, finish_code=friend.code()).json
        token = held["access_token"]
        first = self.ask("PUT", "/game/saves/auto", body=b"\x01one", bearer=token, headers={"If-None-Match": "*"})
        tag = first.headers["etag"]
        self.ask("PUT", "/game/saves/auto", body=b"\x02two", bearer=token, headers={"If-Match": tag})

        player = held["player"]["id"]
        owner.open(f"{self.home}/saves/{player}/auto")
        self.press(owner, "Restore: Version 1", sentences.NOTICES["o-restore"].source)
        self.assertEqual(self.ask("GET", "/game/saves/auto", bearer=token).body, b"\x01one")

        owner.open(f"{self.home}/people/{player}")
        self.press(owner, "Block", sentences.NOTICES["o-block"].source)
        self.assertEqual(self.ask("GET", "/game/saves", bearer=token).json["code"], "player_blocked")
        self.press(owner, "Unblock", sentences.NOTICES["o-unblock"].source)
        self.assertEqual(self.ask("GET", "/game/saves", bearer=token).status, 200)
        events = json.loads(gamed(self.service, "events", "--json"))
        done = {each["values"]["command"] for each in events if each["values"].get("by", "").startswith("owner:ply_")}
        self.assertEqual(done, {"players approve", "saves restore", "players block", "players unblock"})
        self.assertIn("was blocked by anna", self.shown(owner, "/activity"))

    def shown(self, window: Window, path: str) -> str:
        window.open(f"{self.home}{path}")
        return window.text

    def test_backup(self) -> None:
        """The page makes a backup that the host can check, and shows it with its age and size."""
        owner = self.turn_on()
        owner.open(f"{self.home}/backups")
        self.press(owner, "Make a backup now", sentences.NOTICES["o-backup"].source)

        def made(page: Page) -> None:
            for _ in range(60):
                page.goto(f"{self.home}/backups")
                if "just now" in page.inner_text("main") and "is being made" not in page.inner_text("main"):
                    return
                page.wait_for_timeout(500)

        owner.step(made)
        self.assertNotIn("was not made", owner.text)
        [name] = [path.name for path in self.backups.iterdir()]
        self.assertIn(name, owner.text)
        self.assertIn(OWNER_PLAYERS, gamed(self.service, "restore", "--check", str(self.backups / name)))

    @covers("threats/71")
    def test_usable(self) -> None:
        """Each page fits 320 px in both schemes, its buttons are large enough, and axe-core reports nothing."""
        axe = (installed() / "node_modules" / "axe-core" / "axe.min.js").read_text("utf-8")
        owner = self.turn_on()

        def look(page: Page) -> dict[str, object]:
            found: dict[str, object] = {}
            page.set_viewport_size(NARROW)
            for path in PLACES:
                page.goto(f"{self.home}{path}")
                bad = page.evaluate(CUT) + page.evaluate(SMALL)
                for scheme in SCHEMES:
                    page.emulate_media(color_scheme=scheme)
                    page.evaluate(axe)
                    bad += page.evaluate(AXE)
                if page.evaluate("document.documentElement.scrollWidth") > NARROW["width"]:
                    bad.append("wide")
                if bad:
                    found[path] = bad
            return found

        self.assertEqual(owner.step(look), {})

    @covers("threats/71")
    def test_off(self) -> None:
        """Turned off on the host, an open page does nothing any more, and the address does not exist."""
        owner = self.turn_on()
        gamed(self.service, "owner", "page", "off")
        owner.open(self.home)
        self.assertEqual(owner.status, 404)
        self.assertEqual(self.ask("GET", "/auth/owner").status, 404)
