"""The names of slots (PROTOCOL 4): the same on every file system a player may export to."""

from re import ASCII, compile
from typing import Final

from gamed.saves.errors import InvalidSlot

_FORM: Final = compile(r"[a-z0-9][a-z0-9._-]{0,63}", ASCII)
_NUMBERED: Final = frozenset(f"{port}{digit}" for port in ("com", "lpt") for digit in "0123456789")
DEVICES: Final = frozenset({"con", "prn", "aux", "nul"}) | _NUMBERED
"""Names that Windows gives to devices, with any extension behind them."""


def check_slot(name: str) -> str:
    """The name as it is, or InvalidSlot."""
    if not _FORM.fullmatch(name) or name.endswith("."):
        raise InvalidSlot(
            "A slot's name is 1 to 64 of a-z 0-9 . _ - (lower case), begins with a letter or digit and does not end "
            "in a dot, such as auto or slot-1.sav."
        )
    if name.partition(".")[0] in DEVICES:
        raise InvalidSlot("This is the name of a device on Windows, where no file can have it. Choose another name.")
    return name
