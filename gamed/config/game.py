"""`game.json` limits the saves of players (PROTOCOL 7); the file and each of its members are optional."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from gamed.config.json_reader import Converter, ObjectReader, read_object
from gamed.config.validators import choice, duration, flag, number, size

FILE_NAME = "game.json"
DAY, YEAR = 86_400, 365 * 86_400
KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
TIB = 1024 * GIB


class SaveLimits(Struct, frozen=True):
    """The limits of a player, with the defaults of PROTOCOL 7."""

    save_bytes: int = 16 * MIB
    slots: int = 256
    bytes: int = 256 * MIB
    """The current versions of one player together."""
    history_bytes: int = 512 * MIB
    """All other stored versions of one player together."""
    meta_bytes: int = 2048
    keep_versions: int = 10
    keep_hours: int = 24
    keep_days: int = 30
    conflict_copies: int = 5
    """The newest of each slot that are kept."""
    deleted_slots: int = 1000
    """Deleted saves of which the history is kept; beyond it a new slot expires the one that was deleted first."""
    commit_writes: int = 64
    writes_per_minute: int = 60
    """0 is no limit."""
    wait_seconds: int = 25
    upload_seconds: int = 600
    min_free_bytes: int = 256 * MIB
    """Free bytes on the server's disk below which the server stores nothing."""
    allow_blank_saves: bool = False


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


RULES: Mapping[str, Converter[Any]] = {
    "save_bytes": size(1, 2 * GIB),
    "slots": number(1, 100_000),
    "bytes": size(1, TIB),
    "history_bytes": size(0, TIB),
    "meta_bytes": number(0, 8192),
    "keep_versions": number(2, 1000),
    "keep_hours": number(0, 24 * 365),
    "keep_days": number(0, 3650),
    "conflict_copies": number(1, 100),
    "deleted_slots": number(1, 100_000),
    "commit_writes": number(1, 1000),
    "writes_per_minute": number(0, 60_000),
    "wait_seconds": number(0, 60),
    "upload_seconds": number(10, DAY),
    "min_free_bytes": size(0, TIB),
    "allow_blank_saves": flag,
}
"""The converter of each limit of saves; the bounds themselves are allowed."""
MEMBERS = (*RULES, "staged_ttl", "assets")
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
    values = {name: top.value(name, convert, getattr(defaults, name)) for name, convert in RULES.items()}
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
