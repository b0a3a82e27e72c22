"""The author and the addresses that every package states, from `clients/project.json`."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from gamed_packaging.versions import CLIENTS, ROOT, version

FILE = CLIENTS / "project.json"
_ADDRESS = re.compile(r"https://[a-z0-9.-]+(?:/[A-Za-z0-9._~{}/-]*)?")


class ProjectError(Exception):
    """A project.json that no registry accepts, or a page that links to a missing file."""


@dataclass(frozen=True)
class Project:
    """The fields; an address is None before the project has one, and no package names it then."""

    author: str
    repository: str | None
    """The address for `git clone`."""
    documentation: str | None
    """The address of the pages for people."""
    files: str | None
    """The address of a file of the repository, with {version} and {path}."""

    def link(self, folder: Path, target: str) -> str | None:
        """Return the address of a relative link in a page of `folder`; None if files have no address."""
        path, mark, part = target.partition("#")
        found = (folder / path).resolve()
        if not found.exists() or not found.is_relative_to(ROOT):
            raise ProjectError(f"{folder / 'README.md'} links to {target}, which is not in the checkout.")
        if self.files is None:
            return None
        return self.files.format(version=version(), path=found.relative_to(ROOT).as_posix()) + mark + part


def project() -> Project:
    """Read project.json; raise ProjectError if a field is missing or is not an address."""
    try:
        found = Project(**json.loads(FILE.read_text("utf-8")))
    except (ValueError, TypeError) as error:
        raise ProjectError(f"{FILE} is not a JSON object with author, repository, documentation, files.") from error
    if not isinstance(found.author, str) or not found.author:
        raise ProjectError(f"{FILE} lacks the author. Enter a name.")
    for name in ("repository", "documentation", "files"):
        address = getattr(found, name)
        if address is not None and (not isinstance(address, str) or not _ADDRESS.fullmatch(address)):
            raise ProjectError(f"{FILE}: {name} is not an address. Enter one that begins with https://, or null.")
    if found.files is not None and not re.fullmatch(r"[^{}]*(?:\{version\}[^{}]*)?\{path\}[^{}]*", found.files):
        raise ProjectError(f"{FILE}: files lacks {{path}}. Enter the address of a file, with {{version}} and {{path}}.")
    return found
