"""Pages are rendered whole or not at all, and a value is never markup."""

import html
import re
from collections.abc import Sequence

from jinja2 import nodes
from twisted.trial.unittest import SynchronousTestCase

from gamed.pages.catalogue import Catalogue
from gamed.pages.environment import new_environment
from gamed.pages.language import ENGLISH, Forms, Language, fill_plain
from gamed.pages.model import Frame, Page
from gamed.pages.render import FOLDER, plain_page
from tests.login.gallery import ID, NOW_MS, RENDERER, SERVERS
from tests.pages.test_languages import EveryText
from tests.pages.test_texts import shown

FRAME = Frame(SERVERS["plain"], ID, NOW_MS)
MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000


class MissingValueTests(SynchronousTestCase):
    def test_each_in_turn(self) -> None:
        """A page with one value missing is the plain page with the request's id, never half a page."""
        plain, cases = plain_page(FRAME), 0
        for each in shown():
            assert each.page is not None
            for name in each.page.values:
                left = {key: value for key, value in each.page.values.items() if key != name}
                rendered = RENDERER.render(Page(each.page.template, left), FRAME)
                if rendered != plain:  # a value that only another form of this page shows
                    self.assertTrue(rendered.rstrip().endswith(b"</html>"))
                    continue
                cases += 1
        self.assertGreater(cases, 400)


TRAP = "<i>%s%(a)s{0}{a.b}{{ a }}&amp;</i>"
"""What a translator could write to be read as markup, a format or a template."""


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
