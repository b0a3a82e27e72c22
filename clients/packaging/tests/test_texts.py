"""The clients have the texts of the catalogues, in every language of the pages."""

import re
from types import SimpleNamespace

from twisted.trial.unittest import SynchronousTestCase

from clients import texts
from gamed.pages.catalogue import placeholders
from gamed.pages.languages import Languages
from tests.support.python_client import load

CLIENT = load("gamed_client.texts")
LANGUAGES = Languages()


def error(code: str, **problem: object) -> SimpleNamespace:
    return SimpleNamespace(code=code, detail="In English.", problem=problem)


class FileTests(SynchronousTestCase):
    def test_current(self) -> None:
        """Each client's file has today's texts and translations; run `python -m clients.texts`."""
        for form in texts.FORMS:
            self.assertEqual((texts.CLIENTS / form.path).read_text("utf-8"), texts.made(form), form.path)

    def test_used(self) -> None:
        """Each text is one of a client, and each text that a script looks up is listed."""
        listed = {each.source for each in texts.DIALOGS}
        self.assertEqual(listed - {source for form in texts.FORMS for source in texts.sources(form)}, set())
        call = re.compile(r'(?:[Tt]exts?|_text)\.?(?:[Tt]ext)?\((?:[Ll]ocale, |Drawn, )?"([A-Z][^"]+)"')
        for form in texts.FORMS:
            found = {each for name in form.scripts for each in call.findall((texts.CLIENTS / name).read_text("utf-8"))}
            self.assertGreater(len(found), 5, form.path)
            self.assertEqual(found - listed, set(), form.path)

    def test_plain(self) -> None:
        """A text has at most one placeholder, and no forms of plurals, which the clients do not know."""
        for each in (*texts.DIALOGS, *(line for lines in texts.PLAYERS_PROBLEMS.values() for line in lines)):
            self.assertLessEqual(len(placeholders(each.source)), 1, each.source)

    def test_size(self) -> None:
        """The file that a web game loads stays below 64 KiB."""
        self.assertLess((texts.CLIENTS / texts.JAVASCRIPT.path).stat().st_size, 64 * 1024)


class LookUpTests(SynchronousTestCase):
    def test_tags(self) -> None:
        """A game's language leads to the same texts as on the server's pages."""
        names = [
            "de",
            "de_AT",
            "pt",
            "PT-br",
            "pt_PT.UTF-8",
            "zh",
            "zh-CN",
            "zh_TW",
            "zh-Hant-HK",
            "zh_Hans_SG",
            "C",
            "xx",
        ]
        expected = {name: LANGUAGES.find(name.partition(".")[0]) or "en" for name in names}
        self.assertEqual({name: CLIENT.Texts(name).tag for name in names}, expected)

    def test_every_language(self) -> None:
        """Each text is that of the catalogue, or English."""
        for tag, _ in LANGUAGES.names:
            client = CLIENT.Texts(tag)
            for source in texts.sources(texts.PYTHON):
                values = dict.fromkeys(placeholders(source), "7")
                filled = LANGUAGES.get(tag).gettext(source)
                shown = client.text(source, **values).replace("\u2068", "").replace("\u2069", "")
                self.assertEqual(shown, re.sub(r"\{\w+\}", "7", filled), tag)
            self.assertEqual(client.right_to_left, LANGUAGES.get(tag).direction == "rtl")

    def test_values(self) -> None:
        """A value is text, whatever it holds, and is kept apart in a script from right to left."""
        self.assertIn("{provider}{0}", CLIENT.Texts("de").text("Sign in with {provider}", provider="{provider}{0}"))
        self.assertIn("\u2068A\u2069", CLIENT.Texts("ar").text("Sign in with {provider}", provider="A"))


class ProblemTests(SynchronousTestCase):
    def test_translated(self) -> None:
        """The player reads what happened and what to do in their language; the number for the owner comes with it."""
        german = LANGUAGES.get("de")
        lines = [german.gettext(line.source) for line in texts.PLAYERS_PROBLEMS["player_pending"]]
        said = CLIENT.Texts("de").problem(error("player_pending", approval_code="482917")).split("\n")
        self.assertEqual((said[:2], said[2].endswith(" 482917")), (lines, True))

    def test_english(self) -> None:
        """In English, and for a code without a text, the player reads the detail of the error."""
        self.assertEqual(CLIENT.Texts("en").problem(error("player_blocked")), "In English.")
        self.assertEqual(CLIENT.Texts("de").problem(error("teapot")), "In English.")

    def test_strange_number(self) -> None:
        """A member that is not a number of digits is not shown."""
        for number in ("1 <b>", "9" * 50, None, 5):
            self.assertNotIn("<b>", CLIENT.Texts("de").problem(error("player_pending", approval_code=number)))
