"""These tests read the texts of the pages: each is shown, each failure says what to do, none holds protocol terms."""

import ast
import html
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from gamed.http.problems import CODES
from gamed.login import pages
from gamed.login.pages import texts
from gamed.login.pages.results import ended_page, error_page
from gamed.outcomes import LoginFailure
from tests.login import gallery
from tests.login.gallery import COMMON, SERVERS, Shown, every_page
from tests.support.covers import covers

ADVICE = re.compile(
    r"(Start again|Try again|Sign in again|sign in again) from the game|[Oo]pen the link (again from the game|yourself)"
    r"|Wait \S+ seconds?, then try again|[Tt]ry again( in .+| later)?\.|(Check|Choose) .+\.|[Aa]sk (its|the) owner"
    r"|Wrong name or password\."  # the fields to correct are below it
    r"|tell (its|the) owner|Remove that one in the game|cancel in the game"
)
"""The things a person can do when something failed; a sentence of another kind needs a row here, and a reason."""
MACHINES = re.compile(
    r"\b(HTTP|JSON|application/|header|request|method|parameter|body|query|UTF-8|token|credential|cookie|null|None)\b"
    r"|\b[45]\d\d\b|_",
    re.IGNORECASE,
)


def words(shown: bytes) -> str:
    """Return the text of a page as a person reads it."""
    body = shown.decode().partition("</head>")[2]
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body)).split())


def catalogue() -> Iterator[tuple[str, str]]:
    """Yield every text of the catalogue with its name."""
    for name, value in vars(texts).items():
        if not name.isupper() or name.startswith("_"):
            continue
        if isinstance(value, str):
            yield name, value
        elif isinstance(value, Mapping):
            for key, entry in value.items():
                yield from ((f"{name}[{key}]", text) for text in ([entry] if isinstance(entry, str) else entry))


def failures() -> list[Shown]:
    return [page for page in every_page() if page.failure]


class WordTests(SynchronousTestCase):
    def test_every_page_is_in_the_gallery(self) -> None:
        """The gallery calls each function that makes a page."""
        made, called = set(), set()
        for module in Path(pages.__file__).parent.glob("*.py"):
            made |= {
                node.name
                for node in ast.parse(module.read_text("utf-8")).body
                if isinstance(node, ast.FunctionDef) and node.name.endswith("_page")
            }
        for node in ast.walk(ast.parse(Path(gallery.__file__).read_text("utf-8"))):
            if isinstance(node, ast.Attribute):
                called.add(node.attr)
        self.assertEqual(made - called, set())
        self.assertGreater(len(made), 9)

    def test_every_sentence_is_shown(self) -> None:
        """Every text of the catalogue is shown on a page."""
        said = [words(page.html) for page in every_page()]
        statuses = [words(error_page(status, "", "It failed.", request_id="")) for status in (*texts.ERROR_TITLE, 418)]
        unsaid = []
        for name, sentence in catalogue():
            parts = [" ".join(part.split()) for part in re.split(r"\{\w+\}", sentence)]
            pattern = re.compile(r"\s?.*\s?".join(map(re.escape, parts)))
            if not any(pattern.search(text) for text in said + statuses):
                unsaid.append(name)
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

    def test_planted_faults(self) -> None:
        """The two checks above find planted faults."""
        for code in ("unsupported_media_type", "head_too_large", "method_not_allowed", "bad_request"):
            self.assertIsNone(ADVICE.search(CODES[code].detail), code)
        for sentence in ("Send the body as application/json.", "Error 403.", "login_denied", "A bad request."):
            self.assertIsNotNone(MACHINES.search(sentence), sentence)

    def test_a_problem_without_words_of_its_own(self) -> None:
        """A problem without a text of its own shows the error's wait in seconds."""
        self.assertIn(
            "Try again in 12 seconds.",
            words(error_page(429, "rate_limited", "Try again in 12 seconds.", request_id="")),
        )

    def test_one_second(self) -> None:
        """A wait that is nearly over is not "1 seconds"."""
        said = {page.name: words(page.html) for page in every_page()}
        self.assertIn("Wait 1 second, then try again.", said["sign-in limit nearly over"])
        self.assertEqual([name for name, text in said.items() if "1 seconds" in text], [])

    def test_texts_of_failures_differ(self) -> None:
        """No two outcomes have the same text."""
        read = [words(ended_page(outcome, SERVERS["plain"])) for outcome in LoginFailure]
        self.assertEqual(len(set(read)), len(read))

    @covers("threats/8")
    def test_nothing_of_the_device_is_markup(self) -> None:
        """The client's description adds no element to the page."""
        for page in every_page():
            self.assertNotIn(b"<script", page.html, page.name)
            self.assertEqual(page.html.count(b"<h1>"), 1, page.name)
