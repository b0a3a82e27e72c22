"""Pages are rendered whole or not at all, and a value is never markup."""

from twisted.trial.unittest import SynchronousTestCase

from gamed.pages.language import ENGLISH, Forms, Language, fill_plain
from gamed.pages.model import Frame, Page
from gamed.pages.render import plain_page
from tests.login.gallery import ID, NOW_MS, RENDERER, SERVERS
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
