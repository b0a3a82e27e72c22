"""Every page in every language in a real browser: nothing is cut off on a phone, and each character has a font."""

from collections.abc import Collection, Sequence
from functools import cache
from re import compile

from gamed.pages.languages import Languages
from tests.account import gallery as player_gallery
from tests.e2e import test_pages
from tests.e2e.other_origin import installed
from tests.login import gallery
from tests.login.gallery import Shown
from tests.pages.test_languages import FOREIGN

MARKED = compile("\u00ab[^\u00ab\u00bb]*")
LATIN = ("de", "es", "fr", "it", "nl", "pl", "pt-BR", "tr")
CYRILLIC = ("ru", "uk")
EAST_ASIAN = ("ja", "ko", "zh-Hans")
RIGHT_TO_LEFT = ("ar",)
MISSING = """() => {
    const draw = text => {
        const canvas = new OffscreenCanvas(60, 60), context = canvas.getContext('2d');
        context.font = '40px ' + getComputedStyle(document.body).fontFamily;
        context.fillText(text, 5, 45);
        return context.getImageData(0, 0, 60, 60).data.join();
    };
    const box = draw('\\u{10FFFE}');  // a character that no font has
    const used = new Set([...document.body.innerText].filter(c => c.trim() && !/[\\p{Cc}\\p{Cf}]/u.test(c)));
    return [...used].filter(c => draw(c) === box);
}"""


@cache
def distinct() -> Sequence[Shown]:
    """Return the pages of both galleries without those that differ from others only by values."""
    found: dict[object, Shown] = {}
    for page in (*gallery.every_page(), *player_gallery.every_page()):
        if page.page is not None:
            found.setdefault((page.page.template, frozenset(MARKED.findall(page.spoken(FOREIGN).decode()))), page)
    return list(found.values())


def pages_in(tag: str) -> list[Shown]:
    language = Languages().get(tag)
    return [Shown(f"{tag} {page.name}", page.spoken(language)) for page in distinct()]


class FittingTests(test_pages.PageCase):
    def fits(self, tags: Collection[str]) -> None:
        for tag in tags:
            self.assertEqual(self.look(pages_in(tag), lambda page: page.evaluate(test_pages.CUT)), {})

    def test_all(self) -> None:
        """Each language is in one of the tests below; those of English are in test_pages."""
        offered = {tag for tag, _ in Languages().names}
        self.assertEqual(offered, {"en", *LATIN, *CYRILLIC, *EAST_ASIAN, *RIGHT_TO_LEFT})

    def test_latin(self) -> None:
        """No page in a language of Latin letters is cut off."""
        self.fits(LATIN)

    def test_cyrillic(self) -> None:
        """No page in a language of Cyrillic letters is cut off."""
        self.fits(CYRILLIC)

    def test_east_asian(self) -> None:
        """No page in Chinese, Japanese or Korean is cut off."""
        self.fits(EAST_ASIAN)

    def test_right_to_left(self) -> None:
        """No page from right to left is cut off."""
        self.fits(RIGHT_TO_LEFT)


class FontTests(test_pages.PageCase):
    def test_characters(self) -> None:
        """This machine has a font for each character, so that the tests above measure what people see."""
        for tag in (*CYRILLIC, *EAST_ASIAN, *RIGHT_TO_LEFT):
            shown = [page for page in pages_in(tag) if page.name in {f"{tag} account", f"{tag} sign-in open"}]
            self.assertEqual(len(shown), 2)
            self.assertEqual(self.look(shown, lambda page: page.evaluate(MISSING)), {})

    def test_it_finds_something(self) -> None:
        """A character that no font has is found."""
        page = Shown("odd", gallery.every_page()[0].html.replace(b"<h1>", b"<h1>\xf3\xa0\x80\x80\xf0\xbf\xbf\xbd"))
        self.assertNotEqual(self.look([page], lambda page: page.evaluate(MISSING)), {})


class AccessibleTests(test_pages.PageCase):
    def test_axe(self) -> None:
        """axe-core finds nothing on the pages of languages with other scripts and directions."""
        names = {"account", "versions", "sign-in open", "account open", "code from plain", "invite", "owner"}
        tags = ("de", "ar", "ja", "ru")
        pages = [page for tag in tags for page in pages_in(tag) if page.name.partition(" ")[2] in names]
        self.assertEqual(len(pages), 28)
        source = (installed() / "node_modules" / "axe-core" / "axe.min.js").read_text("utf-8")
        self.assertEqual(self.look(pages, lambda page: page.evaluate(test_pages.AXE), source), {})
