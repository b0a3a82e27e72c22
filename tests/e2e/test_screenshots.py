"""The pictures of the pages below docs/images are complete, and small enough for a checkout."""

import struct
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from gamed.pages.language import ENGLISH
from tests.e2e.chromium import chromium
from tests.e2e.screenshots import (
    DRAWN,
    FOLDER,
    GUIDES,
    GUIDES_WINDOW,
    IN_GUIDES,
    IN_README,
    PHONE,
    README,
    README_WINDOW,
    draw_all,
    file_name,
    pages,
)
from tests.e2e.test_pages import SCHEMES
from tests.test_sentences import people_pages

PICTURES_BYTES = 2 * 1024**2
GUIDES_BYTES = 1024**2
EMPTY_BYTES = 4_000
"""More than a picture of a page without words has."""


def size_of(picture: Path) -> tuple[int, int]:
    """Return the width and the height of a PNG."""
    width, height = struct.unpack(">II", picture.read_bytes()[16:24])
    return width, height


class ScreenshotTests(SynchronousTestCase):
    def test_drawn(self) -> None:
        """Each picture shows an existing page, in both schemes, and all are small."""
        self.assertEqual(set(DRAWN.values()) - set(pages()), set())
        pictures = list(FOLDER.iterdir())
        self.assertEqual(
            {picture.name for picture in pictures}, {f"{name}-{scheme}.png" for name in DRAWN for scheme in SCHEMES}
        )
        self.assertLess(sum(picture.stat().st_size for picture in pictures), PICTURES_BYTES)

    def test_guides(self) -> None:
        """Each wide picture shows an existing page, in both schemes and in one size, and a page for people shows it."""
        self.assertEqual({name.partition("#")[0] for name in IN_GUIDES.values()} - set(pages()), set())
        pictures = list(GUIDES.iterdir())
        names = {f"{name}-{scheme}.png" for name in IN_GUIDES for scheme in SCHEMES}
        self.assertEqual({picture.name for picture in pictures}, names)
        sizes = {size_of(picture) for picture in pictures}
        self.assertEqual(sizes, {(GUIDES_WINDOW["width"], GUIDES_WINDOW["height"])})
        self.assertLess(sum(picture.stat().st_size for picture in pictures), GUIDES_BYTES)
        texts = "".join(page.read_text("utf-8") for page in people_pages())
        self.assertEqual({name for name in IN_GUIDES if f"images/guides/{name}-light.png" not in texts}, set())

    def test_readme(self) -> None:
        """The README's three pictures are as large as each other, in both schemes, and the README shows each."""
        self.assertLessEqual(set(IN_README.values()), set(pages()))
        names = {f"{name}-{scheme}.png" for name in {*IN_README, "choice"} for scheme in SCHEMES}
        self.assertEqual({picture.name for picture in README.iterdir()}, names)
        sizes = {size_of(picture) for picture in README.iterdir()}
        self.assertEqual(sizes, {(README_WINDOW["width"], README_WINDOW["height"])})
        text = (README.parents[2] / "README.md").read_text("utf-8")
        self.assertEqual({name for name in names if f'="docs/images/readme/{name}"' not in text}, set())

    def test_all(self) -> None:
        """Every page of the galleries can be drawn, in all its states, and no picture replaces another one."""
        pictures = chromium().do(lambda browser: dict(draw_all(browser, ENGLISH, [PHONE], ["light"])))
        self.assertEqual(set(pictures), {f"{file_name(name)}-390-light.png" for name in pages()})
        self.assertEqual(len(pictures), len(pages()))
        self.assertGreater(len(set(pictures.values())), len(pages()) // 2)
        self.assertEqual([name for name, png in pictures.items() if len(png) < EMPTY_BYTES], [])
