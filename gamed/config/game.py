"""The settings of `game.json`: limits of saves, and assets; the file and each member are optional.

See docs/owners/configuration.md: Saves and assets.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Annotated, Any

from msgspec import Struct, field
from msgspec.structs import fields, replace

from gamed.config.json_reader import Converter, ObjectReader, read_object
from gamed.config.validators import choice, duration, flag, number, size

FILE_NAME = "game.json"
DAY, YEAR = 86_400, 365 * 86_400
KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
TIB = 1024 * GIB


class Limit(Struct, frozen=True):
    """The values that one limit may have; both bounds are allowed."""

    form: Callable[[int, int], Converter[int]]
    """How the file writes it: `number`, or `size` for bytes, which may have a unit."""
    lowest: int
    highest: int
    in_overview: bool = True
    """`GET /game/` shows it to clients."""


class SaveLimits(Struct, frozen=True):
    """The limits of a player: a row for each member of game.json, in the order of `GET /game/`.

    The converters, that response, openapi.yaml and configuration.md are made from these rows, or tested against them.
    """

    save_bytes: Annotated[int, Limit(size, 1, 2 * GIB)] = 16 * MIB
    """One save."""
    slots: Annotated[int, Limit(number, 1, 100_000)] = 256
    """Saves of one player."""
    deleted_slots: Annotated[int, Limit(number, 1, 100_000)] = 1000
    """Deleted saves of which the history is kept; beyond it a new slot expires the one that was deleted first."""
    bytes: Annotated[int, Limit(size, 1, TIB)] = 256 * MIB
    """The current versions of one player together."""
    history_bytes: Annotated[int, Limit(size, 0, TIB)] = 512 * MIB
    """All other stored versions of one player together."""
    meta_bytes: Annotated[int, Limit(number, 0, 8192)] = 2048
    """One Save-Meta."""
    commit_writes: Annotated[int, Limit(number, 1, 1000)] = 64
    """Entries of one commit."""
    writes_per_minute: Annotated[int, Limit(number, 0, 60_000)] = 60
    """Changes of one player; 0 is no limit."""
    wait_seconds: Annotated[int, Limit(number, 0, 60)] = 25
    """One long poll; with 0 the server answers at once."""
    # 2: the current version and the one before it, without which a refused or wrong write could not be undone
    keep_versions: Annotated[int, Limit(number, 2, 1000)] = 10
    """The newest versions of each slot, which always stay."""
    keep_hours: Annotated[int, Limit(number, 0, 24 * 365, in_overview=False)] = 24
    """How long, of older versions, the newest of each hour stays."""
    keep_days: Annotated[int, Limit(number, 0, 3650)] = 30
    """How long the newest version of each day stays; also how long conflict copies and deleted saves stay."""
    conflict_copies: Annotated[int, Limit(number, 1, 100, in_overview=False)] = 5
    """The newest of each slot that are kept."""
    upload_seconds: Annotated[int, Limit(number, 10, DAY, in_overview=False)] = 600
    """One upload."""
    min_free_bytes: Annotated[int, Limit(size, 0, TIB, in_overview=False)] = 256 * MIB
    """Free bytes on the server's disk below which the server stores nothing."""
    allow_blank_saves: bool = False
    """Accept saves that are empty or all zeros, which usually come from a crash."""


LIMITS: Mapping[str, Limit] = {
    row.name: limit for row in fields(SaveLimits) for limit in getattr(row.type, "__metadata__", ())
}
"""The bounds of each number in SaveLimits."""


class AssetAccess(StrEnum):
    """The clients that may download assets: all, or only those of signed-in players."""

    PUBLIC = "public"
    PLAYERS = "players"


class AssetSettings(Struct, frozen=True):
    """The members of `assets`."""

    access: AssetAccess = AssetAccess.PUBLIC
    keep_releases: int = 5


class GameSettings(Struct, frozen=True):
    """The settings of the whole file."""

    saves: SaveLimits = field(default_factory=SaveLimits)
    staged_seconds: int = DAY
    """The time after which staged bytes that no commit used are deleted."""
    assets: AssetSettings = field(default_factory=AssetSettings)


CONVERTERS: Mapping[str, Converter[Any]] = {
    **{name: limit.form(limit.lowest, limit.highest) for name, limit in LIMITS.items()},
    "allow_blank_saves": flag,
}
MEMBERS = (*CONVERTERS, "staged_ttl", "assets")
ASSETS = ("access", "keep_releases")


def parse_game(text: str, file: str = FILE_NAME) -> GameSettings:
    """Return the settings; raise ConfigError with all problems, in which `file` is the name of the file."""
    with read_object(text, file, '{"slots": 100}') as top:
        top.reject_unknown(MEMBERS)
        staged_seconds = top.value("staged_ttl", duration(60, YEAR), DAY)
        game = GameSettings(_saves(top), staged_seconds, _assets(top.section("assets")))
    return game


def _saves(top: ObjectReader) -> SaveLimits:
    defaults = SaveLimits()
    values = {name: top.value(name, convert, getattr(defaults, name)) for name, convert in CONVERTERS.items()}
    limits = replace(defaults, **values)
    if limits.save_bytes > limits.bytes:
        name = "save_bytes" if "save_bytes" in top else "bytes"
        top.problem(name, "one save may be larger (save_bytes) than all saves of a player together (bytes)")
    return limits


def _assets(section: ObjectReader) -> AssetSettings:
    section.reject_unknown(ASSETS)
    defaults = AssetSettings()
    access = section.value("access", choice(AssetAccess), defaults.access)
    return AssetSettings(access, section.value("keep_releases", number(1, 1000), defaults.keep_releases))
