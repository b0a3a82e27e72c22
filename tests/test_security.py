"""docs/internals/threats.md has a defence and tests for each threat, docs/owners/risks.md the remaining risks."""

from collections import Counter
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import astuple
from twisted.trial.unittest import SynchronousTestCase

from tests.covers_pages import ROOT, cells

THREATS = ROOT / "docs/internals/threats.md"
PAGE = ROOT / "docs/owners/risks.md"
HEAD = ["Id", "Asset", "Attacker", "Attack", "Defence", "Tests"]
RESIDUE = ("A code read aloud", "Another user's process on the player's machine", '`login.return_proof: "off"`')


class Threat(Struct, frozen=True):
    """One row of a table."""

    name: str
    asset: str
    attacker: str
    attack: str
    defence: str
    tests: str


def threats(page: str) -> Iterator[Threat]:
    """Yield the rows of the tables of threats, without their heads."""
    for line in page.splitlines():
        row = cells(line)
        if row and row != HEAD and set(row) != {"---"}:
            yield Threat(*row)


def complaints(threat: Threat) -> list[str]:
    """Return one line for each cell of a threat that is empty, and for an id of another kind of page."""
    empty = [f"no {name}: {threat.attack}" for name, cell in zip(HEAD, astuple(threat), strict=True) if not cell]
    return empty if threat.name.startswith("threats/") else [*empty, f"not an id of a threat: {threat.name}"]


class SecurityTests(SynchronousTestCase):
    def test_every_threat_is_tested(self) -> None:
        """Each row has all its cells, so that it has at least one test; CoversTests checks the column of tests."""
        listed = list(threats(THREATS.read_text("utf-8")))
        self.assertGreater(len(listed), 40)
        self.assertEqual([complaint for threat in listed for complaint in complaints(threat)], [])
        self.assertEqual(len({threat.attack for threat in listed}), len(listed))
        names = Counter(threat.name for threat in listed)
        self.assertEqual([name for name, count in names.items() if count > 1], [])

    def test_remaining_risks(self) -> None:
        """The page names the risks that a server cannot prevent."""
        left = PAGE.read_text("utf-8")
        self.assertEqual([words for words in RESIDUE if f"**{words}.**" not in left], [])

    def test_planted_faults(self) -> None:
        """Each empty cell, and an id of another page, is found."""
        row = ["threats/1", "it", "one", "It is taken.", "none", "a test"]
        self.assertEqual(complaints(Threat(*row)), [])
        self.assertEqual(complaints(Threat(*row[:5], "")), ["no Tests: It is taken."])
        self.assertEqual(complaints(Threat(row[0], "", *row[2:])), ["no Asset: It is taken."])
        self.assertEqual(complaints(Threat("1/1", *row[1:])), ["not an id of a threat: 1/1"])
