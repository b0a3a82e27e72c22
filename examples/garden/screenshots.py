#!/usr/bin/env python3
"""Plays the garden in Chromium and takes its pictures: `.venv/bin/python examples/garden/screenshots.py`.

They are for its page, and one is for the README. Needs what the tests need (Playwright, Chromium). The pictures go to
docs/images, or to the folder named as argument. It says how long each step of the player took. With GAMED_URL and
GAMED_PAGE_URL in its environment it plays there, else it starts `gamed dev`.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Page, sync_playwright

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium-headless-shell")
SERVER_NAME = "Rose Street 7"
README_WINDOW = {"width": 390, "height": 690}
"""As large as the README's other pictures, which tests/e2e/screenshots.py draws."""
PLANTED = (1, 2, 2, 3, 3, 3, 8, 9, 9, 9, 10, 10, 15, 16, 16, 16)
MINE, THEIRS = (4, 4, 5, 22, 22, 22), (14, 14, 14, 19, 20, 20, 20)


def press(page: Page, plots: tuple[int, ...]) -> None:
    for plot in plots:
        page.get_by_role("button", name=f"Plot {plot}: ", exact=False).click()
    page.mouse.move(0, 0)


def said(page: Page, text: str) -> None:
    page.get_by_text(text, exact=True).locator("visible=true").first.wait_for()


class Stopwatch:
    def __init__(self) -> None:
        self._since = time.monotonic()

    def lap(self, name: str) -> None:
        now = time.monotonic()
        print(f"{name}: {now - self._since:.1f} s", flush=True)
        self._since = now


def play(server: str, address: str, target: Path) -> None:
    (target / "readme").mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        context = browser.new_context(viewport={"width": 1000, "height": 800}, locale="en-GB", color_scheme="light")
        context.set_default_timeout(60_000)
        page = context.new_page()
        watch = Stopwatch()
        page.goto(address)
        page.get_by_role("heading", name="Sign in to play").wait_for()
        page.get_by_label("Server").fill(server)
        page.get_by_role("button", name="Sign in", exact=True).click()
        with context.expect_page() as opened:
            page.get_by_role("button", name="Sign in with Discord").click()
        page.get_by_text("The sign-in goes on in another tab.").wait_for()
        sign_in = opened.value
        sign_in.get_by_role("button", name="Continue with Discord").wait_for()
        sign_in.get_by_role("button", name="Continue with Discord").click()
        sign_in.get_by_role("button", name="Continue as Anna").click()
        page.get_by_label("The six letters").fill(sign_in.locator(".code").inner_text())
        page.get_by_role("button", name="Continue").click()
        sign_in.close()
        page.get_by_role("heading", name="Your plots").wait_for()
        watch.lap("signed in")
        press(page, PLANTED[:1])
        said(page, "Saved")
        watch.lap("saved")
        press(page, PLANTED[1:])
        page.locator("#scene-image").wait_for()
        said(page, "Saved")
        page.screenshot(path=target / "garden.png")
        other = context.new_page()
        other.goto(address)
        said(other, "3 flowers, 5 growing, 0 picked")
        page.bring_to_front()  # Chromium slows down a page in the background
        page.get_by_label("Stay offline").check()
        press(page, MINE)
        other.bring_to_front()
        press(other, THEIRS)
        said(other, "Saved")
        page.bring_to_front()
        page.get_by_label("Stay offline").uncheck()
        page.locator("#conflict[open] #theirs-when:not(:empty)").wait_for()
        watch.lap("two tabs went on, and the player is asked")
        page.screenshot(path=target / "choice.png")
        page.set_viewport_size(README_WINDOW)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.screenshot(path=target / "readme" / f"choice-{scheme}.png")
        browser.close()


def main() -> int:
    if "GAMED_PAGE_URL" in os.environ:  # started by the server below
        play(os.environ["GAMED_URL"], os.environ["GAMED_PAGE_URL"], Path(sys.argv[1]))
        return 0
    target = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "docs" / "images").absolute()
    target.mkdir(parents=True, exist_ok=True)
    served = ["--static", HERE, "--static", ROOT / "clients" / "js", "--assets", HERE / "assets"]
    script = f"'{sys.executable}' '{Path(__file__).resolve()}' '{target}'"
    with TemporaryDirectory() as folder:
        dev = [sys.executable, "-m", "gamed", "dev", "--folder", folder]
        subprocess.run([*dev, "--script", "true"], check=True)  # writes the configuration
        file = Path(folder) / "authentication.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "server_name": SERVER_NAME}))
        return subprocess.run([*dev, *map(str, served), "--script", script], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
