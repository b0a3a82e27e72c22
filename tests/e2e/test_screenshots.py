"""The pictures of the pages below docs/images are complete, and small enough for a checkout."""

from twisted.trial.unittest import SynchronousTestCase

from tests.e2e.screenshots import DRAWN, FOLDER, pages
from tests.e2e.test_pages import SCHEMES

PICTURES_BYTES = 2 * 1024**2


class ScreenshotTests(SynchronousTestCase):
    def test_drawn(self) -> None:
        """Each picture shows an existing page, in both schemes, and all are small."""
        self.assertEqual(set(DRAWN.values()) - set(pages()), set())
        pictures = list(FOLDER.iterdir())
        self.assertEqual(
            {picture.name for picture in pictures}, {f"{name}-{scheme}.png" for name in DRAWN for scheme in SCHEMES}
        )
        self.assertLess(sum(picture.stat().st_size for picture in pictures), PICTURES_BYTES)
