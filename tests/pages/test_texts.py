"""These tests read the texts of the pages: each is shown, each failure says what to do, none holds protocol terms."""

import ast
import html
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from jinja2 import nodes
from msgspec.structs import replace
from twisted.trial.unittest import SynchronousTestCase

import gamed
from gamed.account import views as account_views
from gamed.http.problems import CODES, plain_problem
from gamed.login import sentences, views
from gamed.outcomes import LoginFailure
from gamed.owner import site_views
from gamed.owner import views as owner_views
from gamed.pages.environment import new_environment
from gamed.pages.languages import Languages
from gamed.pages.model import text
from gamed.pages.render import FOLDER
from tests.account import gallery as player_gallery
from tests.login import gallery
from tests.login.gallery import COMMON, RENDERER, Shown
from tests.owner import gallery as owner_gallery
from tests.support.covers import covers

ADVICE = re.compile(
    r"(Start again|Try again|Sign in again|sign in again) from the game|[Oo]pen (the|your) link (again|yourself)"
    r"|[Tt]ry again( in .+| later)?\.|(Check|Choose) .+\.|[Aa]sk (its|the) owner"
    r"|Wrong name or (password|recovery code)\."  # the fields to correct are below it
    r"|tell (its|the) owner|remove it in the game|cancel in the game"
    r"|Open your account, then go on|Its address is|Open the first page of this server\."
)
"""The things a person can do when something failed; a sentence of another kind needs a row here, and a reason."""
MACHINES = re.compile(
    r"\b(HTTP|JSON|application/|header|request|method|parameter|body|query|UTF-8|token|credential|null|None)\b"
    r"|\b[45]\d\d\b|_",
    re.IGNORECASE,
)


def attributes(page: bytes) -> str:
    """Return what a screen reader reads of the page besides its text."""
    return " ".join(html.unescape(label) for label in re.findall(r'aria-label="([^"]*)"', page.decode()))


def words(page: bytes) -> str:
    """Return the text of a page as a person reads it."""
    body = page.decode().partition("</head>")[2]
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body)).split())


def has_in_turn(text: str, parts: Iterable[str]) -> bool:
    """Return whether the text has these parts, one after the other. A pattern for that takes two minutes for all."""
    at = 0
    for part in parts:
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return True


def sources() -> Iterator[str]:
    """Yield every text in English: those of the templates, and those that features hand over."""
    environment = new_environment()
    for name in environment.list_templates():
        tree = environment.parse((FOLDER / "templates" / name).read_text("utf-8"))
        for call in tree.find_all(nodes.Call):
            if isinstance(call.node, nodes.Name) and call.node.name in {"_", "n_"}:
                yield from (each.value for each in call.args if isinstance(each, nodes.Const))
    for module in (
        path for path in Path(gamed.__file__).parent.rglob("*.py") if "pages.model import" in path.read_text()
    ):
        for node in ast.walk(ast.parse(module.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"text", "counted"}:
                yield from (each.value for each in node.args if isinstance(each, ast.Constant) and each.value != "")


def shown() -> list[Shown]:
    """Return all pages of the two galleries."""
    return [*gallery.every_page(), *player_gallery.every_page()]


def failures() -> list[Shown]:
    return [page for page in gallery.every_page() if page.failure]


class WordTests(SynchronousTestCase):
    def test_every_page_is_in_the_gallery(self) -> None:
        """The galleries call each function that makes a page, and show each template."""
        made, called = set(), set()
        for module in (views, account_views, owner_views, site_views):
            made |= {name for name in vars(module) if name.endswith("_page") and not name.startswith("_")}
        for module in (gallery, player_gallery, owner_gallery):
            tree = ast.parse(Path(module.__file__ or "").read_text("utf-8"))
            called |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
            called |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        self.assertEqual(made - called, set())
        self.assertGreater(len(made), 20)
        templates = {f"{page.page.template}.html" for page in shown() if page.page is not None}
        self.assertEqual({name for name in RENDERER.names if not name.startswith("_")} - templates, set())

    def test_every_sentence_is_shown(self) -> None:
        """Every text is shown on a page of the galleries."""
        said = [words(page.html) for page in shown()] + [attributes(page.html) for page in shown()]
        for status in (*sentences.TITLES, 418):
            page = views.error_page(status, text("It failed."), request_id="")
            said.append(words(Shown.of("", page).html))
        every = {" ".join(source.split()) for source in sources()}
        self.assertGreater(len(every), 200)
        unsaid = []
        for sentence in every:
            parts = [part.strip() for part in re.split(r"\{\w+\}", sentence)]
            if not any(has_in_turn(text, parts) for text in said):
                unsaid.append(sentence)
        self.assertEqual(unsaid, [])

    def test_every_failure_says_what_to_do(self) -> None:
        """Every outcome, rejection and problem for a browser has a page that says what to do."""
        self.assertEqual([page.name for page in failures() if not ADVICE.search(words(page.html))], [])
        names = {page.name for page in failures()}
        self.assertEqual({f"outcome {outcome.value}" for outcome in LoginFailure} - names, set())
        self.assertEqual({f"problem {code}" for code in COMMON} - names, set())

    def test_nothing_speaks_to_machines(self) -> None:
        """A page for a failure has no status, code or protocol term."""
        found = {page.name: MACHINES.findall(words(page.html)) for page in failures()}
        self.assertEqual({name: terms for name, terms in found.items() if any(terms)}, {})

    def test_no_text_speaks_to_machines(self) -> None:
        """No text of any page has a status, a code or a term of a protocol; of the account's pages, either."""
        allowed = {"none yet"}  # of backups, on the owner's page: a word for people
        said = {" ".join(source.replace("{", "").split()) for source in sources()} - allowed
        self.assertEqual(sorted(sentence for sentence in said if MACHINES.search(sentence)), [])

    def test_planted_faults(self) -> None:
        """The two checks above find planted faults."""
        for code in ("unsupported_media_type", "head_too_large", "method_not_allowed", "bad_request"):
            self.assertIsNone(ADVICE.search(CODES[code].detail), code)
        for sentence in ("Send the body as application/json.", "Error 403.", "login_denied", "A bad request."):
            self.assertIsNotNone(MACHINES.search(sentence), sentence)

    def test_no_detail(self) -> None:
        """No problem shows its own detail, which is English and for programs; a wait is in seconds."""
        for code in CODES:
            for place in sentences.Place:
                problem = replace(plain_problem(code), detail="Send other bytes.")
                page = views.problem_page(problem, request_id="", place=place, address="https://game.example")
                self.assertNotIn("Send other bytes.", words(Shown.of("", page).html), code)
        limited = replace(plain_problem("rate_limited"), retry_after=12)
        self.assertIn("Try again in 12 seconds.", words(Shown.of("", views.problem_page(limited, request_id="")).html))

    def test_one_second(self) -> None:
        """A wait that is nearly over is not "1 seconds"."""
        said = {page.name: words(page.html) for page in shown()}
        self.assertIn("Try again in 1 second.", said["sign-in limit nearly over"])
        self.assertEqual([name for name, text in said.items() if "1 seconds" in text], [])

    def test_texts_of_failures_differ(self) -> None:
        """No two outcomes have the same text."""
        read = [words(Shown.of("", views.ended_page(outcome)).html) for outcome in LoginFailure]
        self.assertEqual(len(set(read)), len(read))

    @covers("threats/8")
    def test_nothing_of_the_device_is_markup(self) -> None:
        """The client's description adds no element to the page."""
        for page in shown():
            scripts = 1 if page.page is not None and page.page.scripted else 0  # the one of passkeys
            self.assertEqual(page.html.count(b"<script"), scripts, page.name)
            self.assertEqual(len(re.findall(rb"<h1[ >]", page.html)), 1, page.name)

    def test_no_instants(self) -> None:
        """In no language does a person read or hear an instant: ages and days have it in their title alone."""
        instant = re.compile(r"\d\d:\d\d|\d{4}-\d\d-\d\d|UTC|GMT")
        languages, found = Languages(), {}
        pages = [page for page in shown() if page.page is not None]
        for tag, _ in languages.names:
            for page in pages:
                spoken = page.spoken(languages.get(tag))
                found[f"{tag} {page.name}"] = instant.findall(words(spoken) + attributes(spoken))
        self.assertEqual({name: instants for name, instants in found.items() if instants}, {})
        self.assertIn('title="2026-', next(page for page in shown() if page.name == "owner of many").html.decode())
