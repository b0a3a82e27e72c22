"""docs/security.md: each threat names a defence and tests that exist; what is left is said."""

import re
from collections.abc import Iterator

from attrs import frozen
from twisted.trial.unittest import SynchronousTestCase

from tests.test_spec import ROOT, TEST, is_test

PAGE = ROOT / "docs/security.md"
HEAD = ["Asset", "Attacker", "Attack", "Defence", "Test"]
RESIDUE = ("A code read aloud", "Another user's process on the player's machine", '`login.return_proof: "off"`')


@frozen
class Threat:
    """One row of a table."""

    asset: str
    attacker: str
    attack: str
    defence: str
    test: str


def section(page: str, title: str) -> str:
    """What stands under `## title`."""
    return re.split(r"(?m)^## ", page.partition(f"\n## {title}\n")[2])[0]


def threats(page: str) -> Iterator[Threat]:
    for line in section(page, "Threats").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and cells != HEAD and set(cells) != {"---"}:
            yield Threat(*cells)


def complaints(threat: Threat) -> Iterator[str]:
    """What is wrong with a row; nothing when it is in order."""
    yield from (f"no {name}: {threat.attack}" for name, cell in zip(HEAD, cells(threat), strict=True) if not cell)
    tests = TEST.findall(threat.test)
    if ", ".join(f"`{test}`" for test in tests) != threat.test:
        yield f"more than tests: {threat.attack}"
    yield from (f"no such test: {test}" for test in tests if not is_test(test))


def cells(threat: Threat) -> tuple[str, ...]:
    return (threat.asset, threat.attacker, threat.attack, threat.defence, threat.test)


class SecurityTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.page = PAGE.read_text("utf-8")

    def test_every_threat_is_tried(self) -> None:
        """Each row has all its cells, and each test it names is in the source."""
        listed = list(threats(self.page))
        self.assertGreater(len(listed), 40)
        self.assertEqual([complaint for threat in listed for complaint in complaints(threat)], [])
        self.assertEqual(len({threat.attack for threat in listed}), len(listed))

    def test_what_is_left(self) -> None:
        """What no server can help is said, and the tests it names exist."""
        left = section(self.page, "What is left")
        self.assertEqual([words for words in RESIDUE if f"**{words}.**" not in left], [])
        self.assertEqual([test for test in TEST.findall(left) if not is_test(test)], [])

    def test_planted_faults(self) -> None:
        """An empty cell, a test that is not there, words instead of a test: each is found."""
        good = "`tests.test_security.SecurityTests.test_planted_faults`"
        for test, found in (
            (good, []),
            (f"{good}, {good}", []),
            ("", ["no Test: It is taken."]),
            ("soon", ["more than tests: It is taken."]),
            (f"{good} soon", ["more than tests: It is taken."]),
            (
                "`tests.test_security.SecurityTests.test_no`",
                ["no such test: tests.test_security.SecurityTests.test_no"],
            ),
        ):
            self.assertEqual(list(complaints(Threat("it", "one", "It is taken.", "none", test))), found)
        self.assertEqual(list(complaints(Threat("", "one", "It is taken.", "none", good))), ["no Asset: It is taken."])
