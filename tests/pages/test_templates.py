"""Templates hold no markup but their own: nothing is marked safe, and nothing is inserted by an extension."""

from jinja2 import nodes
from markupsafe import Markup
from twisted.trial.unittest import SynchronousTestCase

from gamed.pages.environment import new_environment, words
from gamed.pages.language import ENGLISH
from gamed.pages.model import Text
from gamed.pages.render import FOLDER


class TemplateTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.environment = new_environment()

    def unescaped(self, name: str, source: str) -> list[str]:
        """Return each filter and block of a template that switches escaping off, with what it is for."""
        tree = self.environment.parse(source)
        found = [each for each in tree.find_all(nodes.Filter) if each.name in {"safe", "unbroken", "tojson"}]
        switched = tree.find_all((nodes.ScopedEvalContextModifier, nodes.EvalContextModifier))
        named = [f"{name}: {_subject(each.node)} | {each.name}" for each in found]
        return [*named, *(f"{name}: {type(each).__name__}" for each in switched)]

    def test_escaped(self) -> None:
        """One value is markup: a heading that was escaped before."""
        found = []
        for name in self.environment.list_templates():
            found += self.unescaped(name, (FOLDER / "templates" / name).read_text("utf-8"))
        self.assertEqual(found, ["_alone.html: self.title() | unbroken"])

    def test_planted(self) -> None:
        """Each way around the escaping is found when it is planted."""
        for planted in ("{{ name | safe }}", "{{ name | upper | safe }}", "{% filter safe %}x{% endfilter %}"):
            self.assertEqual(len(self.unescaped("x", planted)), 1, planted)
        self.assertEqual(self.unescaped("x", "{{ name | e }}"), [])

    def test_settings(self) -> None:
        """Every template is escaped, whatever its name; no extension is loaded, that of translations neither."""
        self.assertIs(self.environment.autoescape, True)
        self.assertEqual(dict(self.environment.extensions), {})
        shown = self.environment.from_string("{{ name }}").render(name="<b>")
        self.assertEqual(shown, "&lt;b&gt;")


def _subject(node: nodes.Node | None) -> str:
    match node:
        case nodes.Name():
            return node.name
        case nodes.Call(node=nodes.Getattr(node=nodes.Name(name=owner), attr=attr)):
            return f"{owner}.{attr}()"
        case _:
            return type(node).__name__


class LabelTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.words = words(ENGLISH, 0)

    def test_markup_in_an_attribute(self) -> None:
        """A text for an attribute takes the text of markup, and is escaped once, where it is written."""
        shown = self.words["plain"](
            "{action}: {name}", action=Markup("<b>Open</b>"), name=Markup("Anna&#39;s &amp; Bo")
        )
        self.assertEqual(shown, "Open: Anna's & Bo")

    def test_equal_names(self) -> None:
        """Equal names but the first have numbers, and an item without a name has the other text."""
        names = ["Bo", None, Text("Bo"), "", Text("{browser} here", {"browser": "<b>"})]
        labels = [label for _, label in self.words["labelled"](range(5), names, "nobody")]
        self.assertEqual(labels, ["Bo", "nobody", "Bo (2)", "nobody (2)", "<b> here"])


class UnbrokenTests(SynchronousTestCase):
    """A short word with a hyphen stays on one line in a heading."""

    def unbroken(self, heading: str) -> str:
        template = new_environment().from_string("{{ heading | e | unbroken }}")
        return template.render(heading=heading)

    def test_words(self) -> None:
        """Such a word is kept whole, a long one may break, and what is escaped stays escaped."""
        whole = '<span class="whole">sign-in</span>'
        self.assertEqual(self.unbroken("This sign-in is over"), f"This {whole} is over")
        self.assertEqual(self.unbroken("sign-in"), whole)
        for heading in ("Sign in", "a-very-long-word-with-hyphens", "a - b", ""):
            self.assertEqual(self.unbroken(heading).replace('<span class="whole">-</span>', "-"), heading)
        self.assertEqual(self.unbroken("<b> sign-in"), f"&lt;b&gt; {whole}")
