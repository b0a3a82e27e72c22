"""An invite and a reset link of a running service, opened in a real browser, and posted by two at once."""

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from threading import Barrier
from typing import Any, ClassVar
from urllib.parse import urlencode

from playwright.sync_api import Page

from gamed.account import sentences
from tests.e2e.cases import PASSWORD, ServiceCase
from tests.e2e.chromium import Window
from tests.e2e.client import gamed
from tests.e2e.other_origin import installed
from tests.e2e.test_pages import AXE, CUT, NARROW, SCHEMES, SMALL, tabbed
from tests.e2e.wire import Answer
from tests.support.covers import covers

NEW_PASSWORD = "a battery staple"
LINK = re.compile(r"https?://(?:127\.0\.0\.1|localhost):\d+/auth/(?:invite|reset)/\S+")


class LinkCase(ServiceCase):
    """A test with links that the owner's commands print."""

    config: ClassVar[Any] = {"mode": "local", "login": {"registration": "approval"}}

    def link(self, *arguments: str, stdin: str = "") -> str:
        """Run a command for the owner; return the link that it prints, or ""."""
        found = LINK.search(gamed(self.service, "players", *arguments, stdin=stdin))
        return found[0] if found else ""


class LinkPageTests(LinkCase):
    def assert_usable(self, window: Window, url: str) -> None:
        """Check the page of a link: narrow, in both schemes, with the keyboard and with axe-core."""
        axe = (installed() / "node_modules" / "axe-core" / "axe.min.js").read_text("utf-8")

        def check(page: Page) -> list[str]:
            page.set_viewport_size(NARROW)
            page.goto(url)
            found = tabbed(page) + page.evaluate(CUT) + page.evaluate(SMALL)
            for scheme in SCHEMES:
                page.emulate_media(color_scheme=scheme)
                page.evaluate(axe)
                found += page.evaluate(AXE)
            return found

        self.assertEqual(window.step(check), [])

    def fill(self, window: Window, button: str, **typed: str) -> None:
        """Type into the fields of a page with the keyboard alone, and press its button."""

        def step(page: Page) -> None:
            for label, text in typed.items():
                page.get_by_label(label).focus()
                page.keyboard.press("ControlOrMeta+A")
                page.keyboard.type(text)
            page.get_by_role("button", name=button).focus()
            page.keyboard.press("Enter")

        window.step(step)

    def assert_signs_in(self, name: str, password: str, *, signed_in: bool = True) -> None:
        """Sign in at the player's page in a browser of its own."""
        window = self.window()
        window.open(f"{self.service.base}/auth/account")
        window.sign_in(name, password)
        window.wait_for("Sign out" if signed_in else "Wrong name or password.")

    def test_invite(self) -> None:
        """A newcomer opens the link several times, creates an account, and gets to their page without an approval."""
        url = self.link("invite", "--name", "Cleo")
        for _ in range(2):
            self.assert_usable(self.window(), url)
        window = self.window()
        window.open(url)
        self.fill(window, "Create account", Name="Cleo.7", Password=PASSWORD)
        window.wait_for("Sign out")
        self.assertEqual(window.url.partition("?")[0], f"{self.service.base}/auth/account")
        self.assertIn("Hello, Cleo", window.text)
        self.assert_signs_in("Cleo.7", PASSWORD)
        window.open(url)
        self.assertEqual(window.status, 410)
        self.assertIn(sentences.INVITE_USED.source, window.text)
        other = self.window()
        other.open(url)
        self.assertIn(sentences.LINK_OVER.source, other.text)

    def test_reset(self) -> None:
        """A player sets a password with the link; it signs in, the old one does not, and the link has ended."""
        self.link("add", "Anna", "--password-stdin", stdin=f"{PASSWORD}\n")
        url = self.link("reset-link", "Anna")
        self.assert_usable(self.window(), url)
        self.assert_signs_in("Anna", PASSWORD)
        window = self.window()
        window.open(url)
        self.fill(window, "Set password", Password=NEW_PASSWORD)
        window.wait_for("You are signed out everywhere.")
        self.assert_signs_in("Anna", PASSWORD, signed_in=False)
        self.assert_signs_in("Anna", NEW_PASSWORD)
        window.open(url)
        self.assertEqual(window.status, 410)


class RaceTests(LinkCase):
    """Two browsers that post the form of one link at the same moment."""

    config: ClassVar[Any] = {**LinkCase.config, "limits": {"passwords_per_minute": 0}}

    def post_at_once(self, url: str, forms: Sequence[dict[str, str]]) -> list[Answer]:
        """Open the link in a browser for each form, then post all forms at once."""
        path = url.removeprefix(self.service.base)
        prepared = [self.opened(path, form) for form in forms]
        barrier = Barrier(len(forms))

        def post(prepared: tuple[bytes, dict[str, str]]) -> Answer:
            body, headers = prepared
            barrier.wait(60)
            return self.ask("POST", path, body=body, headers=headers)

        with ThreadPoolExecutor(len(forms)) as threads:
            return list(threads.map(post, prepared))

    def opened(self, path: str, form: dict[str, str]) -> tuple[bytes, dict[str, str]]:
        """Open the link in a new browser; return the body and the header fields of its form."""
        page = self.ask("GET", path)
        field = re.search(r'name="form" value="([^"]+)"', page.body.decode())
        assert field is not None, page.body
        body = urlencode({"form": unescape(field[1]), **form}).encode()
        cookie = page.headers["set-cookie"].partition(";")[0]
        return body, {"Cookie": cookie, "Content-Type": "application/x-www-form-urlencoded"}

    def events(self, name: str) -> int:
        return self.service.text().count(f"[gamed.security#info] {name} ")

    @covers("threats/67")
    def test_invite(self) -> None:
        """An invite that two newcomers post at the same time makes one of them a player; the other gets 410."""
        for round_ in range(1, 4):
            names = [f"Cleo{round_}", f"Dora{round_}"]
            url = self.link("invite")
            answers = self.post_at_once(url, [{"name": name, "password": PASSWORD} for name in names])
            self.assertEqual(sorted(answer.status for answer in answers), [303, 410])
            self.assertEqual([answer.body.count(sentences.LINK_OVER.source.encode()) for answer in answers].count(1), 1)
            rows = self.service.rows()
            self.assertEqual([rows[table] for table in ("player", "local_account", "browser_session")], [round_] * 3)
            self.assertEqual((self.events("invite_used"), self.events("sign_in")), (round_, round_))

    @covers("threats/67")
    def test_reset(self) -> None:
        """A reset link to which two passwords are posted at the same time sets one of them; the other gets 410."""
        self.link("add", "Anna", "--password-stdin", stdin=f"{PASSWORD}\n")
        for round_ in range(1, 4):
            passwords = [f"battery staple {round_}", f"correct horse {round_}"]
            url = self.link("reset-link", "Anna")
            answers = self.post_at_once(url, [{"password": password} for password in passwords])
            self.assertEqual(sorted(answer.status for answer in answers), [200, 410])
            self.assertEqual(self.events("password_changed"), round_)
            for password, answer in zip(passwords, answers, strict=True):
                self.assertEqual(self.signs_in("Anna", password), answer.status == 200)

    def signs_in(self, name: str, password: str) -> bool:
        """Return whether a name and password sign in on the player's page."""
        body, headers = self.opened("/auth/account", {"name": name, "password": password})
        return self.ask("POST", "/auth/account/sign-in", body=body, headers=headers).status == 303
