"""Pages are shown in the language that a person chose, and no page has two languages."""

import html
import re
from gettext import c2py
from io import BytesIO
from pathlib import Path

from babel.messages.pofile import read_po
from twisted.logger import formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from gamed.pages.catalogue import placeholders, read_catalogue
from gamed.pages.language import ENGLISH
from gamed.pages.languages import LOCALE, Languages, accepted_tags
from tests.account import gallery as player_gallery
from tests.login import gallery
from tests.login.gallery import Shown
from tests.pages import make_catalogues, make_forms
from tests.pages.marked import FOREIGN

HEADER = b'msgid ""\nmsgstr "Plural-Forms: nplurals=2; plural=n != 1;\\n"\n\n'
NOW_MS = 1_790_000_000_000
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
NO_WORDS = re.compile(
    r"<(bdi)>.*?</bdi>|<(\w+)[^>]* (?:lang=\"en\"|dir=\"(?:ltr|auto)\")[^>]*>[^<]*</\2>|<ol class=\"codes\".*?</ol>",
    re.DOTALL,
)
"""Values, and what is English in every language: addresses, codes, names of events, the checks of `gamed doctor`."""
UNITS = {"KiB", "MiB", "GiB"}


def pages() -> list[Shown]:
    return [page for page in (*gallery.every_page(), *player_gallery.every_page()) if page.page is not None]


class ChoiceTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.languages = Languages()

    def chosen(self, chosen: str = "", locale: str | None = None, accepted: str = "") -> str:
        return self.languages.choose(chosen, locale, accepted).tag

    def test_order(self) -> None:
        """The choice of the person counts first, then the game's, the browser's, the server's, and English last."""
        self.assertEqual(self.chosen("de", "ar", "ja"), "de")
        self.assertEqual(self.chosen("", "ar", "ja"), "ar")
        self.assertEqual(self.chosen("", None, "ja"), "ja")
        self.assertEqual(Languages(default="ar").choose("", None, "tlh, x-y").tag, "ar")
        self.assertEqual(self.chosen(), "en")

    def test_unknown(self) -> None:
        """A cookie or a locale that names no language of the list is as none."""
        for value in ("xx", "DE", "de-DE", "../de", "d\u0000e", "", "e" * 10_000):
            self.assertEqual(self.chosen(value, None, "ja"), "ja", value[:20])
        for value in ("xx", "../de", "", "-", "e" * 10_000, "\u0131", "de" + "-x" * 100):
            self.assertEqual(self.chosen("", value, "ja"), "ja", value[:20])

    def test_look_up(self) -> None:
        """A tag leads to the closest language that there is; Chinese of another script is another language."""
        expected = {
            "de-AT-1996": "de", "DE": "de", "de_CH": "de", "pt": "pt-BR", "pt-PT": "pt-BR", "pt-br": "pt-BR",
            "zh": "zh-Hans", "zh-CN": "zh-Hans", "zh-Hans-SG": "zh-Hans", "zh-TW": "en", "zh_TW": "en",
            "zh-Hant-TW": "en",
        }  # fmt: skip
        self.assertEqual({tag: self.chosen("", tag) for tag in expected}, expected)

    def test_header(self) -> None:
        """Accept-Language is read by weight, within bounds, whatever it holds (RFC 9110, 12.5.4)."""
        self.assertEqual(accepted_tags("fr;q=0.5, de, ja;q=0.9, ar;q=0"), ["de", "ja", "fr"])
        self.assertEqual(accepted_tags("de;Q=0.8;x=1, *, en-US ; q=1.000"), ["en-US", "de"])
        for odd in ("", ",", ";;", "de;q=", "de;q=2", "de;q=0.0000", "de;q=-1", "de;q=nan", "*;q=1", "d" * 20, "q=1"):
            self.assertEqual(accepted_tags(odd), [], odd)
        self.assertEqual(accepted_tags("x" * 510 + ",de"), [])
        self.assertLess(len(accepted_tags("de," * 100_000)), 200)


class OwnTests(SynchronousTestCase):
    """The owner's files beside the configuration."""

    def test_corrects(self) -> None:
        """An owner's text takes the place of ours; texts that the file lacks stay."""
        language = Languages({"de.po": HEADER + b'msgid "Sign out"\nmsgstr "Ade"\n'}).get("de")
        self.assertEqual(language.gettext("Sign out"), "Ade")
        self.assertEqual(language.gettext("Your account"), Languages().get("de").gettext("Your account"))

    def test_adds(self) -> None:
        """A language that we do not have is offered, by its own name if that is known, with days of ISO 8601 if not."""
        own = HEADER + b'msgid "Sign out"\nmsgstr "Logga ut"\n'
        languages = Languages({"sv.po": own, "tlh.po": own})
        named = dict(languages.names)
        self.assertEqual((named["sv"], named["tlh"]), ("Svenska", "tlh"))
        self.assertEqual(languages.get("tlh").day(NOW_MS, 0), "2026-09-21")
        self.assertEqual(languages.get("sv").day(NOW_MS, 0), "21 september 2026")

    def test_left_out(self) -> None:
        """A file that cannot be used is left out with an event; the pages are as without it."""
        bad = {"de.po": b"", "my.texts.po": b"", "sv.po": b'msgid "x"\n', "fr.po": b"\xff" * 300_000}
        seen: list[str] = []
        globalLogPublisher.addObserver(observer := lambda event: seen.append(formatEvent(event)))
        self.addCleanup(globalLogPublisher.removeObserver, observer)
        languages = Languages(bad)
        named = [line.split() for line in seen]
        self.assertEqual([words[:2] for words in named], [["language_left_out", f"file={name}"] for name in bad])
        self.assertEqual(languages.names, Languages().names)


class FormTests(SynchronousTestCase):
    def test_current(self) -> None:
        """The table is what Babel's data give."""
        self.assertEqual((LOCALE / "forms.json").read_text("utf-8"), make_forms.content())

    def test_ages(self) -> None:
        """Each language writes minutes, hours, days, durations and sizes in its own way."""
        instants = [NOW_MS - each for each in (60_000, 5 * 60_000, 3 * HOUR_MS, 40 * DAY_MS, 400 * DAY_MS)]
        expected = {
            "en": ["1 min ago", "5 min ago", "3 h ago", "12 August", "17 August 2025", "2 h 5 min", "1.5 KiB"],
            "de": ["vor 1 Min.", "vor 5 Min.", "vor 3 Std.", "12. August", "17. August 2025", "2 Std. 5 Min.",
                   "1,5 KiB"],
            "ja": ["1 \u5206\u524d", "5 \u5206\u524d", "3 \u6642\u9593\u524d", "8\u670812\u65e5",
                   "2025\u5e748\u670817\u65e5", "2 \u6642\u9593 5 \u5206", "1.5 KiB"],
            "pl": ["1 min temu", "5 min temu", "3 godz. temu", "12 sierpnia", "17 sierpnia 2025", "2 godz. 5 min",
                   "1,5 KiB"],
        }  # fmt: skip
        for tag, texts in expected.items():
            language = Languages().get(tag)
            ages = [language.age(instant, NOW_MS) for instant in instants]
            self.assertEqual([*ages, language.duration(7500), language.size(1536)], texts)

    def test_one_hour(self) -> None:
        """One hour has the sign of hours, and not the unit's name in the plural."""
        written = {tag: Languages().get(tag).duration(3660) for tag in ("es", "pt-BR", "pl")}
        self.assertEqual(written, {"es": "1 h 1 min", "pt-BR": "1 h 1 min", "pl": "1 godz. 1 min"})

    def test_numbers(self) -> None:
        for tag, text in {"en": "12,345", "de": "12.345", "fr": "12\u202f345"}.items():
            self.assertEqual([Languages().get(tag).number(count) for count in (9999, 12345)], ["9999", text])

    def test_each_rule(self) -> None:
        """The rule of each language names a form for each number."""
        for tag in make_forms.LANGUAGES.split():
            forms = Languages()._forms_of(tag)
            self.assertLess({c2py(forms.plural)(count) for count in range(1000)}, set(range(len(forms.hours) + 1)), tag)


class CatalogueTests(SynchronousTestCase):
    """The catalogues that the package has."""

    def test_complete(self) -> None:
        """Each has all texts of the templates and of the code, no others, and nothing untranslated."""
        there = {path.name: path.read_bytes() for path in Path(str(LOCALE)).glob("*.po")}
        self.assertGreater(len(there), 3)
        sources = {message[0] if isinstance(message, tuple) else message for _, _, message in make_catalogues.sources()}
        for name, raw in there.items():
            texts = read_catalogue(raw).texts
            self.assertEqual((name, sources - texts.keys(), texts.keys() - sources), (name, set(), set()))

    def test_up_to_date(self) -> None:
        """The files are as the command writes them."""
        for path in Path(str(LOCALE)).glob("*.po"):
            raw = path.read_bytes()
            self.assertEqual(make_catalogues.updated(path.name.removesuffix(".po"), raw).decode(), raw.decode())

    def test_read_by_others(self) -> None:
        """Babel reads the same texts from the files."""
        for path in Path(str(LOCALE)).glob("*.po"):
            raw = path.read_bytes()
            other = {
                message.id[0] if message.pluralizable else message.id: list(message.string)
                if message.pluralizable
                else [message.string]
                for message in read_po(BytesIO(raw))
                if message.id
            }
            self.assertEqual({source: list(forms) for source, forms in read_catalogue(raw).texts.items()}, other)

    def test_marks(self) -> None:
        """A translation keeps line ends and spaces at its ends, and has no markup."""
        for path in Path(str(LOCALE)).glob("*.po"):
            for source, forms in read_catalogue(path.read_bytes()).texts.items():
                for form in forms:
                    self.assertEqual((source[0] == " ", source[-1] == " "), (form[0] == " ", form[-1] == " "), form)
                    self.assertIsNone(re.search(r"[<>]|&\w+;", form), form)
                    self.assertEqual(placeholders(source) - {"count"}, placeholders(form) - {"count"}, form)


class PageTests(SynchronousTestCase):
    def test_one_language(self) -> None:
        """No page has a word of ours that is not looked up: each stands in the marks of the catalogue."""
        found = {}
        for page in pages():
            body = page.spoken(FOREIGN).decode().partition("</head>")[2].partition('<footer class="languages">')[0]
            body = NO_WORDS.sub(" ", body)
            words = html.unescape(" ".join(re.findall(r'(?:aria-label|placeholder|title)="([^"]*)"', body)))
            words += " " + html.unescape(re.sub(r"<[^>]+>", " ", body))
            while "\u00ab" in words:
                inner = re.sub("\u00ab[^\u00ab\u00bb]*\u00bb", " ", words)
                if inner == words:
                    break
                words = inner
            rest = set(re.findall(r"[A-Za-z]{3,}", words)) - UNITS
            if rest:
                found[page.name] = rest
        self.assertEqual(found, {})

    def test_direction(self) -> None:
        """The page names its language and direction."""
        page = next(each for each in pages() if each.name == "sign-in open")
        for tag, direction in {"en": "ltr", "ar": "rtl", "ja": "ltr"}.items():
            shown = page.spoken(Languages().get(tag))
            self.assertIn(f'<html lang="{tag}" dir="{direction}">'.encode(), shown)

    def test_english_is_as_before(self) -> None:
        """Without a catalogue the sources are what is shown."""
        page = pages()[0]
        self.assertEqual(page.spoken(ENGLISH), page.html)
