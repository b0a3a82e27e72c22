"""Pages are rendered whole or not at all, and a value is never markup."""

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from jinja2 import nodes
from msgspec import Struct
from twisted.trial.unittest import SynchronousTestCase

from gamed.account.home_routes import HomeRoutes
from gamed.config.model import Look
from gamed.crypto import Indexer
from gamed.http.background import ShieldedTasks
from gamed.login.csrf import BrowserGuard
from gamed.login.responder import PageResponder
from gamed.pages import render
from gamed.pages.catalogue import Catalogue
from gamed.pages.environment import new_environment
from gamed.pages.language import ENGLISH, Forms, Language, fill_plain
from gamed.pages.languages import Languages
from gamed.pages.model import Counted, Frame, LanguageChoice, Page, ServerName, Text
from gamed.pages.render import FOLDER, PageFailed, plain_page
from tests.login.gallery import ID, NOW_MS, RENDERER, SERVERS
from tests.pages.marked import EveryText
from tests.pages.test_texts import shown
from tests.support.http import START_MS, Browser

FRAME = Frame(SERVERS["plain"], ID, NOW_MS)
MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
ROW = re.compile(r"\.(labels|typed|file_bytes|versions)\.")
"""The way to a member of a table that has any number of rows: without one the page has a row less."""


class Without:
    """A value of which one member is missing."""

    def __init__(self, value: object, name: str) -> None:
        self._value, self._name = value, name

    def __getattr__(self, name: str) -> Any:
        if name == self._name:
            raise AttributeError(name)
        return getattr(self._value, name)


def lacking(value: object) -> Iterator[tuple[str, object]]:
    """Yield a value with each of its members missing in turn, at every depth, and the way to that member.

    Of a list the first item of each form is taken. Texts are whole: what they lack is missing in their source.
    """
    if isinstance(value, Mapping):
        for name, member in value.items():
            yield f".{name}", {key: each for key, each in value.items() if key != name}
            yield from ((f".{name}{way}", {**value, name: less}) for way, less in lacking(member))
    elif isinstance(value, Struct) and not isinstance(value, Text | Counted):
        for field in value.__struct_fields__:
            yield f".{field}", Without(value, field)
            yield from ((f".{field}{way}", With(value, field, less)) for way, less in lacking(getattr(value, field)))
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        forms = {type(each): number for number, each in reversed([*enumerate(value)])}
        for number in forms.values():
            before, item, after = value[:number], value[number], value[number + 1 :]
            yield from ((f"[{number}]{way}", [*before, less, *after]) for way, less in lacking(item))


class With:
    """A value of which one member is another one."""

    def __init__(self, value: object, name: str, member: object) -> None:
        self._value, self._name, self._member = value, name, member

    def __getattr__(self, name: str) -> Any:
        return self._member if name == self._name else getattr(self._value, name)


class MissingValueTests(SynchronousTestCase):
    def rendered(self, page: Page, frame: Frame) -> bytes:
        try:
            return RENDERER.render(page, frame)
        except PageFailed as e:
            return e.plain

    def compared(self, whole: bytes, way: str, page: Page, frame: Frame) -> bool:
        """Return whether a page that lacks something is the plain page; fail unless it is that or the whole one."""
        rendered = self.rendered(page, frame)
        if ROW.search(way) and rendered.endswith(b"</html>"):
            return False
        if rendered != whole:
            self.assertEqual(rendered, plain_page(FRAME), way)
        return rendered != whole

    def test_each_in_turn(self) -> None:
        """A page that lacks a value, or a member of one, is the plain page, or the missing one does not matter."""
        tried, plain = set[str](), 0
        for each in shown():
            assert each.page is not None
            template, whole = each.page.template, RENDERER.render(each.page, FRAME)
            for way, values in lacking(each.page.values):
                # of the many pages of one template those with new values or another length are other cases
                case = f"{template} {way} {len(whole)}"
                if case not in tried:
                    tried.add(case)
                    plain += self.compared(whole, way, Page(template, cast("dict[str, object]", values)), FRAME)
        self.assertGreater(len(tried), 3000)
        self.assertGreater(plain, 1500)

    def test_frame(self) -> None:
        """The same holds for what surrounds the content, and for the server's name and look."""
        look = Look("#22aa77", welcome="Be kind.", contact="mailto:anna@game.example")
        named = ServerName("Anna's Arena", "game.example", look)
        frame = Frame(named, ID, NOW_MS, [LanguageChoice("de", "Deutsch", "/auth/language/de")])
        plain = 0
        for name in ("home at plain", "account", "versions", "sign-in open", "denied_page", "owner"):
            page = next(each.page for each in shown() if each.name == name)
            assert page is not None
            whole = RENDERER.render(page, frame)
            for way, less in lacking(frame):
                if way not in (".request_id", ".now_ms"):  # the plain page needs the one, and every age the other
                    plain += self.compared(whole, way, page, cast(Frame, less))
        self.assertGreater(plain, 20)


class PartTests(SynchronousTestCase):
    def test_parts(self) -> None:
        """Each page is the same in parts, and no part is longer than a few pieces or a moment."""
        self.patch(render, "PART_SECONDS", 60.0)
        for each in shown():
            assert each.page is not None
            parts = [*RENDERER.parts(each.page, FRAME)]
            with self.subTest(each.name):
                self.patch(render, "PART_SECONDS", -1.0)
                pieces = [*RENDERER.parts(each.page, FRAME)]
                self.patch(render, "PART_SECONDS", 60.0)
                self.assertEqual(b"".join(pieces), b"".join(parts))
                self.assertEqual(len(parts), (len(pieces) - 1) // render.PIECES + 1)


class FailingTemplateTests(SynchronousTestCase):
    def setUp(self) -> None:
        guard = BrowserGuard(indexer=Indexer(b"k" * 32), random=bytes, secure=True)
        parts = (lambda: START_MS, ShieldedTasks(), RENDERER, Languages())
        name = cast(str, 5)  # has no first letter, which the page shows
        self.browser = Browser([HomeRoutes(pages=PageResponder(guard, lambda: "https://game.example", name, *parts))])

    def test_answer(self) -> None:
        """A page whose template fails is answered by 500 and a plain page with the request's id, which the log has."""
        answer = self.browser.request("GET", "/", {"Accept": "text/html"})
        self.assertEqual((answer.status, answer.headers["content-type"]), (500, "text/html; charset=utf-8"))
        number = answer.headers["x-request-id"]
        words = "Go back and try again. If it happens again, tell the owner of this server this number:"
        self.assertIn(f"<h1>This page cannot be shown</h1><p>{words} {number}</p></body></html>", answer.body.decode())
        self.assertEqual(answer.headers["content-security-policy"], RENDERER.headers["Content-Security-Policy"])
        self.assertIn(f"page_failed page=home error=UndefinedError request={number}", self.browser.events)
        self.assertEqual([line["status"] for line in self.browser.log.lines], [500])

    def test_page_of_an_error(self) -> None:
        """The page of an error whose template fails is answered in the same way."""
        answer = self.browser.request("GET", "/", {"Accept": "text/html", "Host": "other.example"})
        self.assertEqual(answer.status, 500)
        self.assertIn(answer.headers["x-request-id"], answer.body.decode())


TRAP = "<i>%s%(a)s{0}{a.b}{{ a }}&amp;</i>"
"""A text that a translator could write to be read as markup, a format or a template."""


class Trapped(EveryText):
    """A catalogue in which each text ends with the trap."""

    def __getitem__(self, source: str) -> Sequence[str]:
        return [source + TRAP]


class MarkupTests(SynchronousTestCase):
    def unescaped(self, template: str) -> list[str]:
        """Return what a template does to write a value as markup, or to read a translation as a format."""
        tree, kinds = new_environment().parse(template), (nodes.MarkSafe, nodes.EvalContextModifier, nodes.Mod)
        found = [f"| {each.name}" for each in tree.find_all(nodes.Filter) if each.name in {"safe", "format"}]
        found += [each.attr for each in tree.find_all(nodes.Getattr) if each.attr in {"format", "format_map"}]
        return found + [type(each).__name__ for kind in kinds for each in tree.find_all(kind)]

    def test_templates(self) -> None:
        """No template writes a value as markup or formats a translation, and no extension does either."""
        self.assertEqual(new_environment().extensions, {})
        self.assertTrue(new_environment().autoescape)
        for file in (FOLDER / "templates").iterdir():
            self.assertEqual((file.name, self.unescaped(file.read_text("utf-8"))), (file.name, []))

    def test_planted(self) -> None:
        """The check above finds each of these."""
        for planted in (
            "{{ a | safe }}", "{{ _('a') | format(b) }}", "{{ _('a').format(b) }}", "{{ _('a') % b }}",
            "{% autoescape false %}{{ a }}{% endautoescape %}",
        ):  # fmt: skip
            self.assertEqual(len(self.unescaped(planted)), 1, planted)

    def test_translations(self) -> None:
        """A translation is text: its markup is escaped, and nothing in it is a format."""
        language = Language("xx", Forms(), lambda _: 0, [Catalogue(Trapped(), lambda _: 0)])
        for each in shown():
            page = each.spoken(language).decode()
            body = page.partition("<body>")[2]
            self.assertNotIn("<i>", page, each.name)
            said = html.unescape(re.sub(r"<[^>]+>", "", body))
            self.assertIn(TRAP, said, each.name)
            self.assertEqual(said.count("<i>"), said.count(TRAP), each.name)


class LanguageTests(SynchronousTestCase):
    def test_ages(self) -> None:
        """An age has one unit; more than a day ago it is a day, with the year if that is another one."""
        for age_ms, said in (
            (-HOUR_MS, "just now"),
            (MINUTE_MS - 1, "just now"),
            (MINUTE_MS, "1 min ago"),
            (HOUR_MS - 1, "59 min ago"),
            (DAY_MS - 1, "23 h ago"),
            (DAY_MS, "20 September"),
            (300 * DAY_MS, "25 November 2025"),
        ):
            self.assertEqual(ENGLISH.age(NOW_MS - age_ms, NOW_MS), said)

    def test_values_are_isolated(self) -> None:
        """In an attribute a value of another direction is isolated by characters."""
        self.assertEqual(fill_plain("Link {provider}", ENGLISH, {"provider": "Discord"}), "Link Discord")
        hebrew = "\u05de\u05e9\u05d7\u05e7"
        self.assertEqual(fill_plain("Link {provider}", ENGLISH, {"provider": hebrew}), f"Link \u2068{hebrew}\u2069")
        self.assertEqual(
            fill_plain("{name}", Language("ar", Forms(direction="rtl")), {"name": "Anna"}), "\u2068Anna\u2069"
        )
