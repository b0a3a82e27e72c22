"""A later version of gamed for tests: a copy of the package, with further scripts for its databases."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import gamed

PACKAGE = Path(gamed.__file__).parent


def make_later_version(folder: Path, scripts: Mapping[str, str]) -> str:
    """Copy gamed into a new folder, and add these scripts; return the PYTHONPATH of that version.

    `scripts` has texts by their paths in gamed/database, such as `postgresql/schema/auth/002_later.sql`.
    """
    shutil.copytree(PACKAGE, folder / PACKAGE.name)  # with what Python has compiled, which takes seconds
    for path, script in scripts.items():
        (folder / PACKAGE.name / "database" / path).write_text(script, "utf-8")
    return str(folder)
