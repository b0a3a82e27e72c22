#!/usr/bin/env python3
"""Plays the games in Chromium and takes their pictures: `.venv/bin/python examples/screenshots.py`.

They are for the pages of the games, and one is for the README. Needs what the tests need (Playwright, Chromium). The
pictures go to docs/images, or to the folder named as argument. It prints how long each step of the players took. With
GAMED_URL and GAMED_PAGE_URL in its environment it plays there, else it starts `gamed dev`.
"""

import json
import os
import subprocess
import sys
import time
from base64 import b64decode, b64encode
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium-headless-shell")
SERVER_NAME = "Rose Street 7"
WINDOW = {"width": 1000, "height": 800}
README_WINDOW = {"width": 390, "height": 690}
"""As large as the README's other pictures, which tests/e2e/screenshots.py draws."""
SMALLER = 0.72
"""The narrowest window in which both gardens of the choice are side by side has 540 pixels."""
HALF_WINDOW = {"width": 490, "height": 690}
PLANTED = (1, 2, 2, 3, 3, 3, 8, 9, 9, 9, 10, 10, 15, 16, 16, 16)
MINE, THEIRS = (4, 4, 5, 22, 22, 22), (14, 14, 14, 19, 20, 20, 20)
COLUMNS = (4, 4, 3, 5, 5, 3, 6)
SIDE_BY_SIDE = """<style>body { display: flex; gap: 20px; margin: 0; background: #777 }</style>"""


class Stopwatch:
    def __init__(self) -> None:
        self._since = time.monotonic()

    def lap(self, name: str) -> None:
        now = time.monotonic()
        print(f"{name}: {now - self._since:.1f} s", flush=True)
        self._since = now


def opened(browser: Browser, window: dict[str, int]) -> BrowserContext:
    """Return a browser of its own, as another device has one."""
    size: Any = window
    context = browser.new_context(viewport=size, locale="en-GB", color_scheme="light")
    context.set_default_timeout(60_000)
    return context


def sign_in(page: Page, server: str, game: str) -> None:
    """Open the game and sign in as Anna."""
    page.goto(game)
    page.get_by_role("heading", name="Sign in to play").wait_for()
    page.get_by_label("Server").fill(server)
    page.get_by_role("button", name="Sign in", exact=True).click()
    with page.context.expect_page() as tab:
        page.get_by_role("button", name="Sign in with Discord").click()
    tab.value.get_by_role("button", name="Continue with Discord").click()
    tab.value.get_by_role("button", name="Continue as Anna").click()
    page.get_by_role("textbox", name="six letters").fill(tab.value.locator(".code").inner_text())
    page.get_by_role("button", name="Continue").click()
    tab.value.close()
    page.get_by_text("Anna on ").wait_for()


def said(page: Page, text: str) -> None:
    page.get_by_text(text, exact=True).locator("visible=true").first.wait_for()


def press(page: Page, plots: tuple[int, ...]) -> None:
    for plot in plots:
        page.get_by_role("button", name=f"Plot {plot}: ", exact=False).click()
    page.mouse.move(0, 0)


def drawn_smaller(page: Page) -> bytes:
    """Return a picture in the size of README_WINDOW of a larger window, whose text Chromium draws smaller."""
    size: Any = {name: round(length / SMALLER) for name, length in README_WINDOW.items()}
    page.set_viewport_size(size)
    session = page.context.new_cdp_session(page)
    scaled = {**size, "deviceScaleFactor": SMALLER, "mobile": False}
    session.send("Emulation.setDeviceMetricsOverride", scaled)
    png = b64decode(session.send("Page.captureScreenshot", {"format": "png"})["data"])
    session.detach()
    return png


def play_garden(browser: Browser, server: str, address: str, target: Path) -> None:
    """One plays in two tabs, and is asked which garden to keep."""
    (target / "readme").mkdir(exist_ok=True)
    watch = Stopwatch()
    context = opened(browser, WINDOW)
    page = context.new_page()
    sign_in(page, server, address)
    page.get_by_role("heading", name="Your plots").wait_for()
    watch.lap("garden: signed in")
    press(page, PLANTED[:1])
    said(page, "Saved")
    watch.lap("garden: saved")
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
    watch.lap("garden: two tabs played on, and the player is asked")
    page.screenshot(path=target / "choice.png")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        (target / "readme" / f"choice-{scheme}.png").write_bytes(drawn_smaller(page))
    context.close()


def play_board(browser: Browser, server: str, address: str, target: Path) -> None:
    """Two play by turns, each in a browser of their own."""
    watch = Stopwatch()
    players = [opened(browser, HALF_WINDOW).new_page() for _ in range(2)]
    for page, name, side in zip(players, ("Anna", "Bo"), ("flowers", "leaves"), strict=True):
        sign_in(page, server, address)
        page.get_by_label("Your name").fill(name)
        page.get_by_role("button", name=f"Play {side}").click()
        page.get_by_text(f"{name} (you)").wait_for()
    watch.lap("board: both sit")
    for at, column in enumerate(COLUMNS):
        page = players[at % 2]
        page.get_by_text("Your turn.").wait_for()
        page.get_by_role("button", name=f"Column {column}:").click()
        if at < 2:
            players[1 - at].get_by_text(f"chose column {column}. Your turn.").wait_for()
            watch.lap(f"board: move {at + 1} is in the other browser")
    for page in players:
        page.mouse.move(0, 0)
        said(page, "Saved")
    players[1].get_by_text(f"Anna chose column {COLUMNS[-1]}. Your turn.").wait_for()
    context = opened(browser, {"width": 1000, "height": HALF_WINDOW["height"]})
    paper = context.new_page()
    pictures = [b64encode(page.screenshot()).decode() for page in players]
    images = [f"<img src='data:image/png;base64,{picture}'>" for picture in pictures]
    paper.set_content(SIDE_BY_SIDE + "".join(images), wait_until="load")
    paper.screenshot(path=target / "board.png")
    for each in (context, *(page.context for page in players)):
        each.close()


def play(server: str, address: str, target: Path) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        play_board(browser, server, f"{address}board/", target)
        play_garden(browser, server, f"{address}garden/", target)
        browser.close()


def main() -> int:
    if "GAMED_PAGE_URL" in os.environ:  # started by the server below
        play(os.environ["GAMED_URL"], os.environ["GAMED_PAGE_URL"], Path(sys.argv[1]))
        return 0
    target = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "docs" / "images").absolute()
    target.mkdir(parents=True, exist_ok=True)
    served = ["--static", HERE, "--static", ROOT / "clients" / "js", "--assets", HERE / "garden" / "assets"]
    script = f"'{sys.executable}' '{Path(__file__).resolve()}' '{target}'"
    with TemporaryDirectory() as folder:
        dev = [sys.executable, "-m", "gamed", "dev", "--folder", folder]
        subprocess.run([*dev, "--script", "true"], check=True)  # writes the configuration
        file = Path(folder) / "authentication.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "server_name": SERVER_NAME}))
        return subprocess.run([*dev, *map(str, served), "--script", script], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
