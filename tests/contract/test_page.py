"""docs/protocol.md agrees with the code and docs/openapi.yaml."""

import json
import re
from collections.abc import Iterator

from twisted.trial.unittest import SynchronousTestCase

from gamed.http.problems import CODES
from gamed.outcomes import LoginFailure
from tests.contract.document import load, operations
from tests.contract.test_document import answered
from tests.support.covers import covers
from tests.test_spec import ROOT

PAGE = ROOT / "docs/protocol.md"
ROW = re.compile(r"(?m)^\| `([a-z_]+)` \| ([0-9, ]+) \| (.+) \| (.+) \| (.+) \| (.*)\|$")
RETRYABLE = re.compile(r"no|yes|after|with a new login")


def rows() -> Iterator[tuple[str, set[int], str]]:
    """Return the rows of the error table: code, statuses, whether it is retryable."""
    table = PAGE.read_text("utf-8").partition("\n## Errors\n")[2]
    for code, statuses, _, retryable, *_ in ROW.findall(table):
        yield code, {int(status) for status in statuses.split(",")}, retryable


class PageTests(SynchronousTestCase):
    def test_codes(self) -> None:
        """The table has each code once, in the order of CODES."""
        self.assertEqual([code for code, _, _ in rows()], list(CODES))

    def test_statuses(self) -> None:
        """The statuses are those with which a code is answered, also codes of failed logins."""
        for code, statuses, _ in rows():
            self.assertEqual(
                statuses, {status for status, name in answered() if name == code} or {CODES[code].status}, code
            )

    def test_retryable(self) -> None:
        """The column begins with one of four words; a code with Retry-After is retryable."""
        said = {code: retryable for code, _, retryable in rows()}
        self.assertEqual([code for code, word in said.items() if not RETRYABLE.match(word)], [])
        ends = {outcome.value for outcome in LoginFailure}
        waits = [code for code, row in CODES.items() if row.retry_after and code not in ends]
        self.assertEqual([code for code in waits if not said[code].startswith("yes")], [])

    @covers("4/16", "4/17")
    def test_routes(self) -> None:
        """Every path of the document is on the page, and no other."""
        text = PAGE.read_text("utf-8")
        named = {path.rstrip(".") for path in re.findall(r"/(?:auth|game|assets)/[a-z/{}_0-9.]*|/healthz", text)}
        named.discard("/auth/")
        pages = {each.path for each in operations() if each.node["tags"] == ["Browser"]}
        known = set(load()["paths"])
        self.assertEqual(named - known, set())
        self.assertEqual(known - named - pages, set())

    def test_json(self) -> None:
        """Blocks of JSON are valid JSON."""
        blocks = re.findall(r"(?ms)^```json\n(.+?)^```", PAGE.read_text("utf-8"))
        self.assertEqual(len([json.loads(block) for block in blocks]), 5)
