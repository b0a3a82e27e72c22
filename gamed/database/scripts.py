"""The numbered scripts of a schema. Their texts can be kept: a command of root may lose the right to read them."""

from collections.abc import Mapping
from pathlib import Path

_kept: dict[Path, Mapping[Path, str]] = {}
"""The texts of scripts by their paths, by folder."""


def scripts_in(folder: Path) -> list[Path]:
    """Return the scripts in the order of their numbers."""
    return sorted(_kept[folder] if folder in _kept else folder.glob("[0-9][0-9][0-9]_*.sql"))


def read_script(script: Path) -> str:
    """Return the text of a script that scripts_in() returned."""
    return _kept[script.parent][script] if script.parent in _kept else script.read_text("utf-8")


def keep_scripts(folder: Path) -> None:
    """Keep the texts of all scripts in this folder; nothing there is read again."""
    _kept[folder] = {script: script.read_text("utf-8") for script in scripts_in(folder)}
