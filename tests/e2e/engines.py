"""Three browser engines behind one set of methods: Chromium by Playwright, Firefox by puppeteer-core over WebDriver
BiDi, and WebKit as MiniBrowser, by selenium, on a screen of its own.

An engine that is not installed fails the test that needs it. Elements are found by their words, as a person or a screen
reader finds them, and pressed where they are on the screen.
"""

import json
import os
import shutil
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from playwright.sync_api import ElementHandle, Error, Page
from selenium.common.exceptions import WebDriverException
from selenium.webdriver import Keys, WebKitGTK
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.webkitgtk.options import Options
from selenium.webdriver.webkitgtk.service import Service

from tests.e2e.chromium import PATIENCE_MS, Window, opened
from tests.e2e.other_origin import installed
from tests.support.descendants import kill_descendants
from tests.support.nodejs import NODE

FIREFOX = os.environ.get("FIREFOX", "/usr/bin/firefox-esr")
WEBKIT_DRIVER = os.environ.get("WEBKIT_DRIVER", "/usr/bin/WebKitWebDriver")
MINI_BROWSER = f"/usr/lib/{os.uname().machine}-linux-gnu/webkit2gtk-4.1/MiniBrowser"
NARROW_BARS = "* { min-width: 0; padding: 0; margin: 0; border: 0; font-size: 1px; -gtk-icon-transform: scale(.1) }"
"""For GTK. With the usual toolbar no window of MiniBrowser is narrower than 447 px."""
WAIT_SECONDS = PATIENCE_MS / 1000
POLL_SECONDS = 0.05
FIND = """(kind, name) => {
    const words = e => {
        const read = e.cloneNode(true);
        read.querySelectorAll('[aria-hidden=true]').forEach(each => each.remove());
        return (e.ariaLabel || read.textContent).replace(/\\s+/g, ' ').trim();
    };
    const kinds = kind === 'field' ? ['label'] : ['button', 'a, summary'];
    const all = kinds.flatMap(of => [...document.querySelectorAll(of)]);
    const named = [...all.filter(e => words(e) === name), ...all.filter(e => words(e).startsWith(name))];
    return named.map(e => e.control || e).find(e => e.checkVisibility()) || null;
}"""
"""Return the visible button, link or field with these words, else the first whose words begin with them."""
FRAME = "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()))"
CENTRE = "arguments[0].scrollIntoView({ block: 'center' })"
"""WebKit's driver does not scroll to an element that is just below the window, and then refuses to click it."""
HEAR = "(at, e) => { window.pressing = at; window.heard = 0; e.addEventListener('click', () => { window.heard = at }) }"
HEARD = "at => window.pressing !== at || window.heard === at"
"""Whether the element was clicked, or its page has been left since."""
TRIES, CLICK_SECONDS = 3, 5.0
TYPED = "() => [...document.querySelectorAll('input:not([type=hidden])')].map(e => `${e.name}=${e.value}`).join(' ')"
LEAVE = "at => { window.left = at }"
ARRIVED = "at => window.left !== at && document.readyState === 'complete'"
PARTS = {".part", ".wkdownload"}
"""The ends of the names of files that Firefox and WebKit are still writing; Firefox has an empty one beside it."""
FIRST = "() => { const first = !window.pressed; window.pressed = true; return first }"
SHOWN = "text => document.body.innerText.includes(text)"


class EngineError(Exception):
    """The browser has refused a call; the text is its answer."""


class Engine(ABC):
    """A browser with one profile and a stack of pages, of which the last one is used."""

    interrupted: tuple[type[Exception], ...]
    """The errors of a call while the page is being left."""
    programs: tuple[str, ...] = ()
    """The programs that have to be installed."""
    opens_windows = True
    """Whether a script may open a page later than in the moment of a press."""
    stores_blobs = True
    """Whether IndexedDB takes a Blob; without, the client stores no assets."""

    @abstractmethod
    def open(self, url: str) -> None: ...
    @abstractmethod
    def evaluate(self, script: str, *values: object) -> Any:
        """Return what a function in JavaScript returns for these values."""

    @abstractmethod
    def click(self, kind: str, name: str) -> None: ...
    @abstractmethod
    def type(self, label: str, text: str) -> None:
        """Replace the text of a field with the keyboard."""

    @abstractmethod
    def download(self, name: str) -> tuple[str, bytes]:
        """Follow a link that downloads a file; return the file's name and bytes."""

    @abstractmethod
    def resize(self, width: int, height: int) -> None: ...
    @abstractmethod
    def _newest(self) -> bool: ...
    @abstractmethod
    def beside(self) -> None:
        """Use a new page beside this one."""

    @abstractmethod
    def leave(self) -> None:
        """Close the page that follow() or beside() has opened; the one before is used again."""

    @abstractmethod
    def draw(self, path: Path) -> None: ...
    @abstractmethod
    def errors(self) -> list[str]:
        """Return the errors of the console since the last call, of the pages and of their policies.

        WebKit's driver passes none on.
        """

    @abstractmethod
    def close(self) -> None: ...

    def until(self, true: Callable[[], object], what: str) -> None:
        """Return once `true` returns a true value; it may fail while a page is being left."""
        limit = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                if true():
                    return
            except self.interrupted:
                pass
            if time.monotonic() > limit:
                shown, typed = self.evaluate("() => document.body.innerText"), self.evaluate(TYPED)
                raise AssertionError(f"{shown}\n{typed}\nnot within {WAIT_SECONDS:.0f} s: {what}")
            time.sleep(POLL_SECONDS)

    def wait_for(self, text: str) -> None:
        self.until(lambda: self.evaluate(SHOWN, text), text)

    def _to_next_page(self, step: Callable[[], object], what: str) -> None:
        at = time.monotonic()  # Back may show a page as it was left before
        self.evaluate(LEAVE, at)
        step()
        self.until(lambda: self.evaluate(ARRIVED, at), what)

    def go(self, name: str) -> None:
        """Press a button or follow a link; return once the next page is there."""
        self._to_next_page(lambda: self.press(name), name)

    def press(self, name: str) -> None:
        """Press a button that stays on the page, once it is there."""
        self.until(lambda: self.evaluate(f"(...of) => ({FIND})(...of) !== null", "button", name), name)
        self.click("button", name)

    def _download_into(self, folder: Path, name: str) -> tuple[str, bytes]:
        """Follow a link that downloads a file into this empty folder; once it is whole, delete and return it."""
        self.press(name)
        found: list[Path] = []

        def whole() -> bool:
            found[:] = folder.iterdir()
            return len(found) == 1 and found[0].suffix not in PARTS and found[0].stat().st_size > 0

        self.until(whole, f"the file of {name}")
        [file] = found
        data = file.read_bytes()
        file.unlink()
        return file.name, data

    def leads_to(self, name: str, text: str) -> None:
        """Follow a link of a page that loads itself again from time to time; return once this text is there.

        That may happen between any two calls, so the link is pressed once in each document that has it.
        """

        def there() -> bool:
            if self.evaluate(SHOWN, text):
                return True
            if self.evaluate(f"(...of) => ({FIND})(...of) !== null", "button", name) and self.evaluate(FIRST):
                self.click("button", name)
            return False

        self.until(there, text)

    def fill(self, button: str, **typed: str) -> None:
        """Type into the fields of a form, by label, and post it."""
        for label, text in typed.items():
            self.type(label.replace("_", " "), text)
        self.go(button)

    def back(self) -> None:
        self._to_next_page(lambda: self.evaluate("() => history.back()"), "back")

    def reload(self) -> None:
        self._to_next_page(lambda: self.evaluate("() => location.reload()"), "reload")

    def follow(self, link: str) -> None:
        """Use the page that a script has opened, or that this link opens where the browser lets only people do it."""
        if not self.opens_windows:
            self.press(link)
        self.until(self._newest, "a new page")
        self.until(lambda: self.evaluate(ARRIVED, 0), "the new page")

    def read(self, script: str) -> Any:
        """Return what a function returns for the page, also for one that loads itself again in the same moment."""
        found: list[Any] = []

        def once() -> bool:
            found.append(self.evaluate(script))
            return True

        self.until(once, script)
        return found[-1]

    @property
    def text(self) -> str:
        return str(self.read("() => document.body.innerText"))


class ChromiumEngine(Engine):
    """The browser of all other tests, with a profile of its own."""

    interrupted = (Error, EngineError)

    def __init__(self, scheme: str = "light") -> None:
        self._window = Window()
        self._window.step(lambda page: page.emulate_media(color_scheme=scheme))  # type: ignore[arg-type]
        self._errors: list[str] = []
        self._pages: list[Page] = []
        self._watch(self._window.page)

    def _watch(self, page: Page) -> None:
        page.on("pageerror", lambda error: self._errors.append(str(error)))
        page.on("console", lambda line: self._errors.append(line.text) if line.type == "error" else None)
        self._pages.append(page)

    def _step(self, step: Callable[[Page], Any]) -> Any:
        return self._window.step(lambda _: step(self._pages[-1]))

    def _element(self, page: Page, kind: str, name: str) -> ElementHandle:
        found = page.evaluate_handle(f"of => ({FIND})(...of)", [kind, name]).as_element()
        if found is None:
            raise EngineError(name)
        return found

    def open(self, url: str) -> None:
        self._step(lambda page: opened(page, url))

    def evaluate(self, script: str, *values: object) -> Any:
        return self._step(lambda page: page.evaluate(f"of => ({script})(...of)", list(values)))

    def click(self, kind: str, name: str) -> None:
        self._step(lambda page: self._element(page, kind, name).click(no_wait_after=True))

    def type(self, label: str, text: str) -> None:
        def step(page: Page) -> None:
            field = self._element(page, "field", label)
            field.select_text()
            page.keyboard.type(text)

        self._step(step)

    def download(self, name: str) -> tuple[str, bytes]:
        def step(page: Page) -> tuple[str, bytes]:
            with page.expect_download() as started:
                self._element(page, "button", name).click(no_wait_after=True)
            return started.value.suggested_filename, started.value.path().read_bytes()

        return self._step(step)  # type: ignore[no-any-return]

    def resize(self, width: int, height: int) -> None:
        self._step(lambda page: page.set_viewport_size({"width": width, "height": height}))

    def _newest(self) -> bool:
        def step(page: Page) -> bool:
            page.evaluate("0")  # Playwright learns of pages only during a call
            opened = [each for each in page.context.pages if each not in self._pages]
            if opened:
                self._watch(opened[-1])
            return bool(opened)

        return bool(self._step(step))

    def beside(self) -> None:
        self._step(lambda page: self._watch(page.context.new_page()))

    def leave(self) -> None:
        self._step(lambda page: page.close())
        self._pages.pop()
        self._step(lambda page: page.bring_to_front())

    def draw(self, path: Path) -> None:
        self._step(lambda page: page.screenshot(path=path, full_page=True))

    def errors(self) -> list[str]:
        found, self._errors = self._errors, []
        return found

    def close(self) -> None:
        self._window.close()


class FirefoxEngine(Engine):
    """Firefox without a screen; `node/firefox.mjs` has it, in a process that ends with this one's pipe."""

    interrupted = (EngineError,)
    programs = (FIREFOX,)

    def __init__(self, scheme: str = "light") -> None:
        self._downloads = Path(mkdtemp(prefix="gamed-firefox-"))
        command = [NODE, "firefox.mjs", FIREFOX, scheme, str(self._downloads)]
        environ = {**os.environ, "LANG": "en_US.UTF-8"}
        self._process = subprocess.Popen(
            command, cwd=installed(), env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        try:
            self._answer()
        except BaseException:
            self.close()
            raise

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise EngineError(f"{FIREFOX} does not start, or has ended")
        answer = json.loads(line)
        if "error" in answer:
            raise EngineError(answer["error"])
        return answer["result"]

    def _call(self, *call: object) -> Any:
        assert self._process.stdin is not None
        print(json.dumps(call), file=self._process.stdin, flush=True)
        return self._answer()

    def open(self, url: str) -> None:
        self._call("open", url)

    def evaluate(self, script: str, *values: object) -> Any:
        return self._call("evaluate", script, values)

    def click(self, kind: str, name: str) -> None:
        self._call("click", [FIND, kind, name])

    def type(self, label: str, text: str) -> None:
        self._call("type", [FIND, "field", label], text)

    def download(self, name: str) -> tuple[str, bytes]:
        return self._download_into(self._downloads, name)

    def resize(self, width: int, height: int) -> None:
        self._call("resize", width, height)

    def _newest(self) -> bool:
        return bool(self._call("newest"))

    def beside(self) -> None:
        self._call("beside")

    def leave(self) -> None:
        self._call("leave")

    def draw(self, path: Path) -> None:
        self._call("draw", str(path.absolute()))

    def errors(self) -> list[str]:
        return list(self._call("errors"))

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            kill_descendants(self._process.pid)  # Firefox, in a session of its own
            self._process.kill()
            self._process.wait()
            raise
        finally:
            self._process.stdout.close()
            shutil.rmtree(self._downloads)


class WebKitEngine(Engine):
    """WebKitGTK's MiniBrowser, always with a private window. It needs a screen, which Xvfb is; its windows have no
    tabs, as a hidden one draws nothing and a screenshot would wait for ever."""

    interrupted = (WebDriverException, EngineError)
    programs = (WEBKIT_DRIVER, MINI_BROWSER, "Xvfb")
    opens_windows = stores_blobs = False

    def __init__(self, scheme: str = "light") -> None:
        self._folder = Path(mkdtemp(prefix="gamed-webkit-"))
        (self._folder / "gtk-3.0").mkdir()
        (self._folder / "gtk-3.0" / "gtk.css").write_text(NARROW_BARS)
        self._downloads = self._folder / "downloads"
        self._downloads.mkdir()
        (self._folder / "user-dirs.dirs").write_text(f'XDG_DOWNLOAD_DIR="{self._downloads}"')
        screen = ["Xvfb", "-displayfd", "1", "-screen", "0", "1600x1200x24", "-nolisten", "tcp"]
        quiet = subprocess.DEVNULL
        try:
            self._screen = subprocess.Popen(screen, stdout=subprocess.PIPE, stderr=quiet, text=True)
        except OSError:
            shutil.rmtree(self._folder)
            raise
        try:
            assert self._screen.stdout is not None
            self._driver = self._started(self._screen.stdout.readline().strip(), scheme)
        except BaseException:
            self._end()
            raise
        self._pages = [self._driver.current_window_handle]

    def _started(self, display: str, scheme: str) -> WebKitGTK:
        options = Options()
        options.binary_location = MINI_BROWSER
        options.add_argument("--automation")
        options.accept_insecure_certs = True
        folders = {name: str(self._folder) for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME")}
        theme = "Adwaita:dark" if scheme == "dark" else "Adwaita"
        own: Mapping[str, str] = {"DISPLAY": f":{display}", "LANG": "en_US.UTF-8", "GTK_THEME": theme, **folders}
        service = Service(WEBKIT_DRIVER, env={**os.environ, **own})
        driver = WebKitGTK(options, service)
        driver.set_page_load_timeout(WAIT_SECONDS)
        return driver

    def _element(self, kind: str, name: str) -> WebElement:
        found = self._driver.execute_script(f"return ({FIND})(...arguments)", kind, name)
        if not isinstance(found, WebElement):
            raise EngineError(name)
        return found

    def open(self, url: str) -> None:
        self._driver.get(url)

    def evaluate(self, script: str, *values: object) -> Any:
        return self._driver.execute_script(f"return ({script})(...arguments)", *values)

    def click(self, kind: str, name: str) -> None:
        """Click it, and again if no click reached it: on a busy machine the driver may click beside what moves."""
        at = time.monotonic()
        for _ in range(TRIES):
            found = self._element(kind, name)
            self._driver.execute_script(CENTRE, found)
            self._driver.execute_script(f"({HEAR})(...arguments)", at, found)
            found.click()
            limit = time.monotonic() + CLICK_SECONDS
            while time.monotonic() < limit:
                try:
                    if self.evaluate(HEARD, at):
                        return
                except self.interrupted:
                    return
                time.sleep(POLL_SECONDS)
        raise EngineError(f"no click reached {name}")

    def type(self, label: str, text: str) -> None:
        """Type it, and again if not every key reached the field; the driver loses some on a busy machine.

        A field with `autofocus` takes the focus just before the page's first frame, which may come long after the
        page is complete: keys typed until then would end in it.
        """
        field = self._element("field", label)
        self._driver.execute_async_script(FRAME)
        for _ in range(TRIES):
            field.send_keys(Keys.CONTROL, "a")
            field.send_keys(text)
            if str(field.get_property("value")).casefold() == text.casefold():
                return
        raise EngineError(f"{label} has {field.get_property('value')!r} after {text!r}")

    def download(self, name: str) -> tuple[str, bytes]:
        return self._download_into(self._downloads, name)

    def resize(self, width: int, height: int) -> None:
        """Give the page this size: the window has the height of a toolbar more."""
        self._driver.set_window_size(width, height)
        inner = self.evaluate("() => innerHeight")
        self._driver.set_window_size(width, 2 * height - inner)

    def _newest(self) -> bool:
        opened = [each for each in self._driver.window_handles if each not in self._pages]
        if opened:
            self._pages.append(opened[-1])
            self._driver.switch_to.window(opened[-1])
        return bool(opened)

    def beside(self) -> None:
        self._driver.switch_to.new_window("window")
        self._pages.append(self._driver.current_window_handle)

    def leave(self) -> None:
        self._driver.close()
        self._pages.pop()
        self._driver.switch_to.window(self._pages[-1])

    def draw(self, path: Path) -> None:
        """Draw what the window shows: the driver draws nothing below it."""
        self._driver.save_screenshot(str(path))

    def errors(self) -> list[str]:
        return []

    def close(self) -> None:
        try:
            self._driver.quit()
        finally:
            self._end()

    def _end(self) -> None:
        self._screen.terminate()
        self._screen.wait(WAIT_SECONDS)
        assert self._screen.stdout is not None
        self._screen.stdout.close()
        shutil.rmtree(self._folder, ignore_errors=True)  # a browser that ends still writes its cache


ENGINES: Mapping[str, type[Engine]] = {
    "chromium": ChromiumEngine,
    "firefox": FirefoxEngine,
    "webkit": WebKitEngine,
}
