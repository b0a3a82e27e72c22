"""Pictures of every page in Chromium, light and dark: `.venv/bin/python -m tests.e2e.screenshots`.

The pictures go to docs/images/pages, or to the folder named as argument, with a language behind it if not in English:
`.venv/bin/python -m tests.e2e.screenshots /tmp/pages ar`. With `--all` it is every page of the galleries, in all its
states, at three widths; these take some minutes and are not part of the repository.

Without arguments it also draws the wide pictures of the guides into docs/images/guides, and two of the three pictures
of the README, which have one height, into docs/images/readme. `examples/screenshots.py` draws the third, of a game.
"""

import re
import struct
from argparse import ArgumentParser
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, product
from pathlib import Path
from zlib import compress, crc32

from playwright.sync_api import Browser, Page

from gamed.pages.language import ENGLISH, Language
from gamed.pages.languages import Languages
from tests.account import gallery as player_gallery
from tests.e2e.chromium import chromium
from tests.e2e.test_pages import HERE, SCHEMES
from tests.login import gallery as login_gallery
from tests.login.gallery import RENDERER, Shown

IMAGES = Path(__file__).parents[2] / "docs" / "images"
FOLDER, GUIDES, README = IMAGES / "pages", IMAGES / "guides", IMAGES / "readme"
PHONE = {"width": 390, "height": 640}
WINDOWS = (PHONE, {"width": 768, "height": 1024}, {"width": 1280, "height": 800})
DRAWN: Mapping[str, str] = {
    "home": "home at plain",
    "sign-in": "sign-in open",
    "sign-up": "account open",
    "sign-in-wrong": "sign-in refused wrong",
    "provider": "provider login",
    "link": "provider link",
    "adopt": "provider adopt",
    "name": "name not chosen",
    "return": "return at plain",
    "app": "app at plain",
    "code": "code from plain",
    "waiting": "waiting_page",
    "done": "back at plain",
    "linked": "linked_page",
    "denied": "denied_page",
    "expired": "outcome login_expired",
    "blocked": "outcome player_blocked",
    "pending": "new player with a code",
    "account-sign-in": "account sign-in password",
    "account-sign-in-again": "account again password",
    "account": "account",
    "account-at-providers": "account at providers",
    "account-versions": "versions",
    "account-delete-copy": "copy",
    "account-deleted": "account deleted",
    "account-nothing-changed": "nothing changed",
    "invite": "invite",
    "invite-at-providers": "invite at providers",
    "reset": "reset",
    "reset-done": "reset done",
    "link-over": "link over",
    "owner": "owner",
    "owner-now": "now",
    "owner-person": "person friend",
}
"""Names of the pictures, and of the pages in the galleries."""
IN_GUIDES: Mapping[str, str] = {
    "account": "account at providers",
    "activity": "activity all",
    "backups": "backups",
    "check-files": "files",
    "figures": "now quiet",
    "home": "home at plain",
    "home-with-words": "home with words",
    "invited": "invite",
    "link": "link",
    "on-the-host": "owner",
    "over-time": "time",
    "saves": "slots",
    "signing-in": "account at providers#h-sign-in",
    "unavailable": "problem store_unavailable",
    "versions": "versions",
    "versions-of-programs": "owner#h-versions",
    "waiting": "person asking",
    "wrong-address": "problem route_not_found HOME",
}
"""Wide pictures for the guides: the page in the gallery, from the heading with the id behind `#`."""
GUIDES_WINDOW = {"width": 720, "height": 480}
IN_README: Mapping[str, str] = {"sign-in": "sign-in open", "account": "account"}
README_WINDOW = {"width": 390, "height": 690}
REDUCE = """async ([png, count]) => {
    const image = new Image();
    image.src = 'data:image/png;base64,' + png;
    await image.decode();
    const [width, height] = [image.naturalWidth, image.naturalHeight];
    const context = new OffscreenCanvas(width, height).getContext('2d');
    context.drawImage(image, 0, 0);
    const pixels = new Uint32Array(context.getImageData(0, 0, width, height).data.buffer), times = new Map();
    for (const pixel of pixels) times.set(pixel, (times.get(pixel) || 0) + 1);
    const split = pixel => [pixel & 255, pixel >> 8 & 255, pixel >> 16 & 255];
    const palette = [...times].sort((a, b) => b[1] - a[1]).slice(0, count).map(([pixel]) => split(pixel));
    const far = (a, b) => (a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2 + (a[2] - b[2]) ** 2;
    const nearest = new Map([...times.keys()].map(pixel => {
        const distances = palette.map(colour => far(colour, split(pixel)));
        return [pixel, distances.indexOf(Math.min(...distances))];
    }));
    let indexes = '';
    for (const pixel of pixels) indexes += String.fromCharCode(nearest.get(pixel));
    return [width, height, palette.flat(), btoa(indexes)];
}"""
"""Return the picture with its most frequent colours: width, height, palette, and the index of each pixel."""
COLOURS = 64


def pages() -> Mapping[str, Shown]:
    """Return the pages of both galleries by name."""
    return {page.name: page for page in chain(login_gallery.every_page(), player_gallery.every_page())}


def draw(browser: Browser, target: Path, language: Language) -> None:
    """Write a picture of each page in each scheme."""
    draw_pages(browser, target, language, DRAWN, PHONE, whole=True)


def draw_pages(
    browser: Browser,
    target: Path,
    language: Language,
    names: Mapping[str, str],
    window: Mapping[str, int],
    *,
    whole: bool,
) -> None:
    """Write a picture of each named page in each scheme: the whole page, or what is in the window."""
    shown = pages()
    for scheme in SCHEMES:
        with browser.new_context(viewport=window, color_scheme=scheme) as context:  # type: ignore[arg-type]
            page, paper = context.new_page(), context.new_page()
            for picture, place in names.items():
                name, _, heading = place.partition("#")
                load(page, shown[name].spoken(language))
                if heading:
                    page.locator(f"#{heading}").evaluate("element => element.closest('section').scrollIntoView()")
                png = page.screenshot(full_page=whole, caret="hide")
                (target / f"{picture}-{scheme}.png").write_bytes(reduce(paper, png))


def draw_guides(browser: Browser) -> None:
    """Write the wide pictures of the guides."""
    GUIDES.mkdir(parents=True, exist_ok=True)
    draw_pages(browser, GUIDES, Languages().get(ENGLISH.tag), IN_GUIDES, GUIDES_WINDOW, whole=False)


def draw_readme(browser: Browser) -> None:
    """Write the README's pictures of pages."""
    README.mkdir(parents=True, exist_ok=True)
    draw_pages(browser, README, Languages().get(ENGLISH.tag), IN_README, README_WINDOW, whole=False)


def draw_all(
    browser: Browser,
    language: Language,
    windows: Sequence[Mapping[str, int]] = WINDOWS,
    schemes: Sequence[str] = SCHEMES,
) -> Iterator[tuple[str, bytes]]:
    """Yield name and PNG of every page of the galleries in each window and scheme.

    They are written into one document, whose policy stays in force: loading each takes a third more time.
    """
    shown = {file_name(name): page.spoken(language) for name, page in pages().items()}
    for window, scheme in product(windows, schemes):
        with browser.new_context(viewport=window, color_scheme=scheme) as context:  # type: ignore[arg-type]
            page = context.new_page()
            load(page, next(iter(shown.values())))
            for name, html in shown.items():
                page.set_content(html.decode())
                yield f"{name}-{window['width']}-{scheme}.png", page.screenshot(full_page=True, caret="hide")


def file_name(name: str) -> str:
    """Return the name of a page in letters, digits and hyphens."""
    return re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")[:80]


def load(page: Page, html: bytes) -> None:
    """Show this page as the server sends it."""
    page.unroute_all()
    page.route(HERE, lambda route: route.fulfill(body=html, headers=dict(RENDERER.headers)))
    page.goto(HERE)


def reduce(paper: Page, png: bytes) -> bytes:
    """Return the picture as a PNG with a palette, a third of the size; `paper` is an empty page to compute on."""
    width, height, palette, encoded = paper.evaluate(REDUCE, [b64encode(png).decode(), COLOURS])
    indexes = b64decode(encoded)
    rows = b"".join(b"\0" + indexes[start : start + width] for start in range(0, width * height, width))
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = (b"IHDR", header), (b"PLTE", bytes(palette)), (b"IDAT", compress(rows, 9)), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", crc32(name + data)) for name, data in parts
    )


def main() -> None:
    options = ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    options.add_argument("language", nargs="?", default=ENGLISH.tag)
    options.add_argument("--all", action="store_true", help="every page of the galleries, at three widths")
    given = options.parse_args()
    if given.all and given.folder == FOLDER:
        options.error("Name a folder: the repository keeps a part of these pictures only.")
    given.folder.mkdir(parents=True, exist_ok=True)
    language = Languages().get(given.language)
    if given.all:
        chromium().later(lambda browser: write_all(browser, given.folder, language)).result()
    else:
        chromium().do(lambda browser: draw(browser, given.folder, language))
    if given.folder == FOLDER:
        chromium().do(draw_guides)
        chromium().do(draw_readme)


def write_all(browser: Browser, target: Path, language: Language) -> None:
    for name, png in draw_all(browser, language):
        (target / name).write_bytes(png)


if __name__ == "__main__":
    main()
