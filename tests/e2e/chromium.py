"""Headless Chromium as a person's browser, in a thread of its own."""

import atexit
import os
import queue
import re
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from playwright.sync_api import Browser, Error, Page, sync_playwright

PROGRAM = os.environ.get("CHROMIUM", "/usr/bin/chromium-headless-shell")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run", "--disable-quic"]
PATIENCE_MS = 60_000
STEP_SECONDS = 300
T = TypeVar("T")


class Chromium:
    """One browser program per test process; all calls of Playwright must come from one thread."""

    def __init__(self) -> None:
        self._work: queue.Queue[tuple[Callable[[Browser], Any], Future[Any]] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._browser: Browser | None = None
        atexit.register(self._close)

    def later(self, step: Callable[[Browser], T]) -> "Future[T]":
        """Run `step` in the browser's thread, after all earlier ones."""
        future: Future[T] = Future()
        self._work.put((step, future))
        return future

    def do(self, step: Callable[[Browser], T]) -> T:
        """Run `step` and wait for it; inside a step, at once."""
        if threading.current_thread() is self._thread:
            return step(self._browser)
        return self.later(step).result(STEP_SECONDS)

    def _run(self) -> None:
        try:
            with sync_playwright() as playwright:
                self._browser = playwright.chromium.launch(
                    executable_path=PROGRAM, args=ARGUMENTS, timeout=2 * PATIENCE_MS
                )
                for step, future in iter(self._work.get, None):
                    try:
                        future.set_result(step(self._browser))
                    except BaseException as e:
                        future.set_exception(e)
                self._browser.close()
        except BaseException as e:  # no browser: every test that needs one fails with the reason
            for _, future in iter(self._work.get, None):
                future.set_exception(e)

    def _close(self) -> None:
        self._work.put(None)
        self._thread.join(10)


_started: list[Chromium] = []


def chromium() -> Chromium:
    if not _started:
        _started.append(Chromium())
    return _started[0]


def settled(page: Page) -> str:
    """Return the page's HTML. If the page redirects by itself, wait for the next one, as it has none until then."""
    while True:
        try:
            return page.content()
        except Error as e:
            if "navigating" not in e.message:
                raise
            page.wait_for_load_state()


def opened(page: Page, url: str) -> int:
    """Open a page and return its status; retry once if the page before redirects by itself in the same moment."""
    try:
        answer = page.goto(url)
    except Error as e:
        if "interrupted by another navigation" not in e.message and "ERR_ABORTED" not in e.message:
            raise
        answer = page.goto(url)
    return answer.status if answer else 0


class Window:
    """One browser with its own cookies, and one page in it."""

    def __init__(self) -> None:
        self._chromium = chromium()
        self.seen: list[tuple[str, str]] = []
        """Address and HTML of each page on which it stopped."""
        self.page: Page = self._chromium.do(lambda browser: browser.new_context(ignore_https_errors=True).new_page())
        self.step(lambda page: page.context.set_default_timeout(PATIENCE_MS))

    def close(self) -> None:
        self.step(lambda page: page.context.close())

    def step(self, step: Callable[[Page], T]) -> T:
        return self._chromium.do(lambda _: step(self.page))

    def later(self, *steps: Callable[[], object]) -> "Future[list[object]]":
        """Run steps of this window beside the test."""
        return self._chromium.later(lambda _: [step() for step in steps])

    def note(self) -> None:
        self.seen.append((self.url, self.html))

    @property
    def url(self) -> str:
        return self.step(lambda page: page.url)

    @property
    def html(self) -> str:
        return self.step(settled)

    @property
    def text(self) -> str:
        return self.step(lambda page: page.inner_text("main"))

    @property
    def cookies(self) -> dict[str, str]:
        return self.step(lambda page: {cookie["name"]: cookie["value"] for cookie in page.context.cookies()})

    @property
    def status(self) -> int:
        """Return the status of the last page."""
        return self._status

    def open(self, url: str) -> None:
        self._status = self.step(lambda page: opened(page, url))
        self.note()

    def open_create_form(self) -> None:
        """Follow the link to the form for a new account."""
        self.step(lambda page: page.get_by_role("link", name="Create an account").click())
        self.step(lambda page: page.wait_for_url("**/create"))

    def create_account(self, name: str, password: str) -> None:
        """Follow the link to the form for a new account, unless the window shows it, and post it."""
        if not self.url.endswith("/create"):
            self.open_create_form()

        def fill(page: Page) -> None:
            form = page.locator("form").filter(has=page.get_by_label("Password"))
            form.get_by_label("Name", exact=True).fill(name)
            form.get_by_label("Password").fill(password)
            form.get_by_role("button").click()

        self.step(fill)
        self.note()

    def sign_in(self, name: str, password: str) -> None:
        """Sign in with an existing account."""

        def fill(page: Page) -> None:
            form = page.locator("form").filter(has=page.get_by_label("Password"))
            form.get_by_label("Name", exact=True).fill(name)
            form.get_by_label("Password").fill(password)
            form.get_by_role("button").click()

        self.step(fill)
        self.note()

    def press(self, button: str) -> None:
        self.step(
            lambda page: page.get_by_role("button", name=button).or_(page.get_by_role("link", name=button)).click()
        )
        self.note()

    def wait_for(self, text: str) -> None:
        """Wait until the page has this text."""
        self.step(lambda page: page.get_by_text(text).first.wait_for())
        self.note()

    def code(self) -> str:
        """Return the finish code of this page."""
        return self.step(lambda page: page.inner_text(".code")).strip()

    def has_code(self) -> bool:
        """Return whether any part of this page looks like a code."""
        return bool(re.search(r"\b[BCDFGHJKLMNPQRSTVWXZ]{3}-?[BCDFGHJKLMNPQRSTVWXZ]{3}\b", self.html))
