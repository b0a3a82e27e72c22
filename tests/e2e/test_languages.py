"""Every page in every language in a real browser: nothing is cut off on a phone, each character has a font, and
axe-core finds nothing."""

from collections.abc import Collection, Sequence

from gamed.pages.languages import Languages
from tests.e2e import test_pages
from tests.e2e.structures import every_page, structures
from tests.e2e.test_pages import axe, axe_core
from tests.login import gallery
from tests.login.gallery import Shown

LATIN = ("de", "es", "fr", "it", "nl", "pl", "pt-BR", "tr")
CYRILLIC = ("ru", "uk")
EAST_ASIAN = ("ja", "ko", "zh-Hans")
RIGHT_TO_LEFT = ("ar",)
ONE_OF_EACH = ("de", "ru", "ja", "ar")
UNSPOKEN = """() => {
    const plain = text => text.replace(/[\u2068\u2069]/g, '').trim().toLowerCase();
    return [...document.querySelectorAll('a[aria-label], button[aria-label]')]
        .filter(e => !plain(e.ariaLabel).includes(plain(e.textContent))).map(e => e.ariaLabel);
}"""
"""Labels of links and buttons that lack the words on them."""
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


def pages_in(tag: str, pages: Sequence[Shown]) -> list[Shown]:
    language = Languages().get(tag)
    return [Shown(f"{tag} {page.name}", page.spoken(language)) for page in pages]


class FittingTests(test_pages.PageCase):
    """Every page in every language on a phone. Those of English are in test_pages."""

    def fits(self, tags: Collection[str]) -> None:
        for tag in tags:
            self.assertEqual(self.measure(pages_in(tag, every_page()), test_pages.CUT), {})

    def test_all(self) -> None:
        """Each language is in one of the tests below."""
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

    def test_it_finds_what_is_cut(self) -> None:
        """A word that cannot break is found on the page that has it, and on no other."""
        first, *others = every_page()[:3]
        wide = Shown("wide", first.html.replace(b"<h1>", b"<h1><pre>" + b"W" * 99 + b"</pre>"))
        self.assertEqual(list(self.measure([first, wide, *others], test_pages.CUT)), ["wide"])


class FontTests(test_pages.PageCase):
    def test_characters(self) -> None:
        """This machine has a font for each character, so that the tests above measure what people see."""
        shown = [page for page in every_page() if page.name in {"account", "sign-in open"}]
        self.assertEqual(len(shown), 2)
        for tag in (*CYRILLIC, *EAST_ASIAN, *RIGHT_TO_LEFT):
            found = self.look(pages_in(tag, shown), lambda page: page.evaluate(MISSING))
            self.assertEqual(found, {})

    def test_it_finds_something(self) -> None:
        """A character that no font has is found."""
        page = Shown("odd", gallery.every_page()[0].html.replace(b"<h1>", b"<h1>\xf3\xa0\x80\x80\xf0\xbf\xbf\xbd"))
        self.assertNotEqual(self.look([page], lambda page: page.evaluate(MISSING)), {})


class AccessibleTests(test_pages.PageCase):
    """axe-core in other languages. Its rules of colours see the same in each, and take most of its time."""

    def found(self, pages: Sequence[Shown], *without: str) -> test_pages.Found:
        rules = [*without, "label-content-name-mismatch"]
        return self.measure(pages, axe(without=rules), axe_core())

    def test_scripts(self) -> None:
        """axe-core finds nothing on pages in other scripts and directions.

        A language of the same script has other words, which no rule but those of colours and sizes looks into, and
        tests.pages.test_languages finds a text that is empty.
        """
        self.assertGreater(len(structures()), 50)
        for tag in ONE_OF_EACH:
            self.assertEqual(self.found(pages_in(tag, structures()), "color-contrast"), {})

    def test_all(self) -> None:
        """axe-core finds nothing on some pages in every language, in one of each script with its rules of colours."""
        names = {"account", "versions", "sign-in open", "account open", "code from plain", "invite", "owner"}
        shown = [page for page in every_page() if page.name in names]
        self.assertEqual(len(shown), len(names))
        for tag in (*LATIN, *CYRILLIC, *EAST_ASIAN, *RIGHT_TO_LEFT):
            without = () if tag in ONE_OF_EACH else ("color-contrast",)
            self.assertEqual(self.found(pages_in(tag, shown), *without), {})

    def test_spoken_labels(self) -> None:
        """In every language the label that a screen reader speaks has the words of the button (WCAG 2.2, 2.5.3).

        axe-core's own rule knows no words without spaces between them, and takes Arabic letters for icons.
        """
        labelled = [page for page in structures() if b"aria-label" in page.html.partition(b"<footer")[0]]
        pages = [page for tag, _ in Languages().names for page in pages_in(tag, labelled)]
        self.assertEqual(self.measure(pages, UNSPOKEN), {})

    def test_it_finds_something(self) -> None:
        """These checks find a field without a label, a language that does not exist, and a label in other words."""
        [page] = pages_in("de", [each for each in every_page() if each.name == "sign-in open"])
        for good, bad in ((b'<label for="name">', b"<label>"), (b'lang="de"', b'lang="xx-nothing"')):
            planted = Shown("planted", page.html.replace(good, bad))
            self.assertEqual(list(self.found([page, planted], "color-contrast")), ["planted"])
        planted = Shown("planted", page.html.replace(b'class="main">', b'class="main" aria-label="Something else">'))
        self.assertEqual(list(self.measure([page, planted], UNSPOKEN)), ["planted"])
