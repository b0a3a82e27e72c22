"""A walk over each form of the owner's page, in any browser engine."""

import json

from gamed.clock import now_ms
from gamed.database.connection import AUTH, Connection
from gamed.owner import site_sentences as sentences
from gamed.owner.act_routes import _ACTS
from gamed.players import tables
from tests.e2e.cases import ServiceCase
from tests.e2e.client import gamed
from tests.e2e.engines import Engine
from tests.support.stores import store_of

OWNER, OWNER_PASSWORD = "anna", "a long password"
NAMELESS = "A player without a name"
STYLED = "() => getComputedStyle(document.querySelector('.card')).borderRadius"
WIDER = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


class OwnerWalkCase(ServiceCase):
    """`walk_as_owner()` needs a player with a save of several versions, and one who waits."""

    browser: Engine
    site: str

    def looks_right(self) -> None:
        """Assert that the style is applied, and that nothing is wider than the window."""
        self.assertEqual((self.browser.read(STYLED), self.browser.read(WIDER)), ("14px", 0), self.browser.text)

    def walk_as_owner(self, friend: str, shown: str, waiting: str) -> None:
        """Send each form of the page, and search; `waiting` is merged into the friend with the name `shown`."""
        self.done: set[str] = set()
        self.owner_home = f"{self.site}/auth/owner"
        self.turn_page_on()
        self.decides(waiting)
        self.looks_after(friend, shown)
        self.keeps_saves(friend)
        self.invites()
        self.moves_files()
        self.joins_and_erases(waiting, shown)
        self.makes_a_backup()
        self.assertEqual(self.done, _ACTS.keys())
        self.browser.go("Sign out")

    def turn_page_on(self) -> None:
        """Turn the page on, which does not exist for another player, and sign the owner in."""
        gamed(self.service, "players", "add", OWNER, "--password-stdin", stdin=f"{OWNER_PASSWORD}\n")
        gamed(self.service, "owner", "claim", OWNER)
        self.backups = self.folder / "backups"
        self.backups.mkdir()
        gamed(self.service, "owner", "page", "on", "--backups", str(self.backups))
        self.add_nameless()
        self.browser.open(self.owner_home)
        self.browser.wait_for("There is no page at this address")
        self.browser.open(f"{self.site}/auth/account")
        self.browser.go("Sign out")
        self.browser.open(self.owner_home)
        self.browser.fill("Sign in", Name=OWNER, Password=OWNER_PASSWORD)
        self.browser.wait_for("Waiting for you")

    def add_nameless(self) -> None:
        """Add two players who wait, and never chose a name."""

        def work(connection: Connection) -> None:
            for number in (1, 2):
                tables.create_player(connection, f"ply_{number:022d}", now_ms(), "pending", f"{number:06d}")

        store = store_of(self.service.data)
        try:
            store.run_transaction(AUTH, work)
        finally:
            store.close()

    def sends(self, act: str, button: str, notice: str = "", **typed: str) -> None:
        """Send the form of an act; the next page says what was done, by default in the notice of the act's name."""
        self.done.add(act)
        self.browser.fill(button, **typed)
        self.browser.wait_for(sentences.NOTICES[notice or f"o-{act}"].source)
        self.looks_right()

    def opens(self, path: str) -> None:
        self.browser.open(f"{self.owner_home}{path}")
        self.looks_right()

    def finds(self, words: str, shown: str) -> None:
        self.opens("/people")
        self.browser.fill("Find", Find_a_player=words)
        self.browser.go(f"Open: {shown}")
        self.looks_right()

    def decides(self, waiting: str) -> None:
        self.sends("approve", f"Approve: {waiting}")
        self.sends("reject", f"Reject: {NAMELESS}")

    def looks_after(self, friend: str, shown: str) -> None:
        """Write a note, block and unblock, make a reset link, and sign the friend's devices out."""
        for _ in range(2):
            token = json.loads(gamed(self.service, "players", "token", friend, "--json"))["access_token"]
        self.ask("DELETE", "/game/saves/auto", bearer=token, headers={"If-Match": "*"})
        self.finds(shown[:6].lower(), shown)
        self.sends("note", "Keep the note", What_you_want_to_remember="plays on Sundays")
        self.sends("end-device", "Sign out: ", "o-device")
        self.sends("sign-out", "Sign out everywhere", "o-out")
        self.sends("block", "Block")
        self.sends("unblock", "Unblock")
        self.done.add("reset-link")
        self.browser.go("Make a link for a new password")
        self.browser.wait_for("/auth/reset/")
        self.looks_right()

    def keeps_saves(self, friend: str) -> None:
        self.finds(friend, "")
        self.browser.go("Show saves")
        self.sends("undelete", "Bring back: auto")
        self.browser.go("Versions: auto")
        self.sends("restore", "Restore: Version 1")

    def invites(self) -> None:
        self.opens("/invites")
        self.done.add("invite")
        self.browser.fill("Make a link", Name_of_your_friend="Penny", Days_that_the_link_works="3")
        self.browser.wait_for("/auth/invite/")
        self.looks_right()
        self.browser.go("Done")
        self.sends("revoke-invite", "Revoke: Penny", "o-revoke")

    def moves_files(self) -> None:
        build = self.folder / "build"
        build.mkdir()
        for note in ("one", "two"):
            (build / "game.pak").write_text(note)
            gamed(self.service, "assets", "publish", str(build), "--note", note)
        self.opens("/files")
        self.sends("point", "Point here: stable")
        self.sends("rollback", "Roll back: stable")

    def joins_and_erases(self, waiting: str, shown: str) -> None:
        """Merge one account into another, and erase one: each after a page that asks."""
        self.finds(waiting, waiting)
        self.browser.go("Merge into another account")
        self.browser.go(f"Choose: {shown}")
        self.looks_right()
        self.sends("merge", "Merge them")
        self.finds("000002", NAMELESS)
        self.browser.go("Delete this account")
        self.looks_right()
        self.browser.go("Change nothing")
        self.browser.go("Delete this account")
        self.sends("erase", "Delete this account")

    def makes_a_backup(self) -> None:
        self.opens("/backups")
        self.sends("backup", "Make a backup now")
        self.browser.until(lambda: list(self.backups.glob("gamed-*Z/manifest.json")), "a backup")
