"""The version of gamed is the version of every client and of every package."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
CLIENTS = ROOT / "clients"
SOURCE = ROOT / "gamed" / "__init__.py"
"""The one place that defines the version."""

_STATED = re.compile(r'^__version__ = "([^"]+)"$', re.MULTILINE)
_VERSION = re.compile(r"(?P<release>\d+\.\d+\.\d+)(?:(?P<stage>a|b|rc)(?P<number>\d+))?(?:\.dev(?P<dev>\d+))?")
_STAGES = {"a": "alpha", "b": "beta", "rc": "rc"}


class VersionError(Exception):
    """A version that no package can have, or a client that states another one."""


@dataclass(frozen=True)
class Place:
    """A line of a client that states the version; the group of the pattern is the version itself."""

    path: str
    pattern: re.Pattern[str]
    semver: bool = False

    def read(self) -> str:
        """Return the version that the client states."""
        return self._find()[1]

    def write(self) -> None:
        """Change the line to the version of gamed."""
        found = self._find()
        text = found.string[: found.start(1)] + self.expected() + found.string[found.end(1) :]
        (ROOT / self.path).write_text(text, "utf-8", newline="\n")

    def expected(self) -> str:
        return semver(version()) if self.semver else version()

    def _find(self) -> re.Match[str]:
        found = self.pattern.search((ROOT / self.path).read_text("utf-8"))
        if found is None:
            raise VersionError(f"{self.path} does not state a version. Add a line that {self.pattern.pattern} matches.")
        return found


PLACES = (
    Place("clients/python/gamed_client/__init__.py", _STATED),
    Place("clients/js/gamed.mjs", re.compile(r'^export const VERSION = "([^"]+)"$', re.MULTILINE)),
    Place("clients/js/package.json", re.compile(r'^  "version": "([^"]+)"', re.MULTILINE), semver=True),
    Place("clients/csharp/GamedClient.cs", re.compile(r'public const string ClientVersion = "([^"]+)";')),
    Place("clients/csharp/Gamed.Client.csproj", re.compile(r"<Version>([^<]+)</Version>"), semver=True),
    Place("clients/godot4/gamed.gd", re.compile(r'^const VERSION = "([^"]+)"$', re.MULTILINE)),
    Place("clients/godot4/plugin.cfg", re.compile(r'^version="([^"]+)"$', re.MULTILINE)),
)


def version() -> str:
    """Return the version of gamed, as Python writes it (PEP 440)."""
    found = _STATED.search(SOURCE.read_text("utf-8"))
    if found is None:
        raise VersionError(f"{SOURCE} does not state a version. Add its line __version__.")
    return found[1]


def semver(text: str) -> str:
    """Return a version of PEP 440 as the SemVer 2.0 of npm, NuGet and Unity: `1.0.0rc1` is `1.0.0-rc.1`."""
    found = _VERSION.fullmatch(text)
    if found is None:
        raise VersionError(
            f"{text!r} is not a version that every package can have. Use one such as 1.2.0, 1.2.0rc1 or 1.2.0.dev1."
        )
    parts = []
    if found["stage"]:
        parts += [_STAGES[found["stage"]], found["number"]]
    if found["dev"]:
        parts += ["dev", found["dev"]]
    return found["release"] + ("-" + ".".join(parts) if parts else "")


def check_places() -> None:
    """Raise VersionError if a client states another version than gamed."""
    semver(version())
    others = [f"{place.path} states {found}" for place in PLACES if (found := place.read()) != place.expected()]
    if others:
        raise VersionError(f"gamed is {version()}, but {', '.join(others)}. Run clients/build --set-version.")
