"""The format of a backup: its name, its manifest, and which backups `--keep` deletes (SPEC 2.2/8)."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from re import ASCII, compile
from typing import Annotated, Final

from msgspec import Meta, Struct, ValidationError, convert, to_builtins

from gamed.strict_json import JsonMalformed, parse_object

MANIFEST: Final = "manifest.json"
STORES: Final = ("auth.db", "state.db")
DUMP: Final = "store.dump"
"""The file of a PostgreSQL store, in place of STORES."""
SETTINGS: Final = ("authentication.json", "game.json")
FORMAT: Final = 1
_NAME: Final = compile(r"gamed-[0-9]{8}T[0-9]{6}Z", ASCII)
_PART: Final = compile(r"\.gamed-[0-9]{8}T[0-9]{6}Z\.part", ASCII)
_INSTANT: Final = compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z", ASCII)
_SHA256: Final = compile(r"[0-9a-f]{64}", ASCII)
_WORD: Final = compile(r"[!-~]{1,64}", ASCII)
_Word = Annotated[str, Meta(pattern=rf"\A{_WORD.pattern}\Z")]
_Number = Annotated[int, Meta(ge=0)]


class BackupError(Exception):
    """A folder that is not a complete backup; the text says why."""


class SchemaDiffers(BackupError):
    """A copy whose tables are not what the scripts up to its number make."""


class IntegrityResult(Struct, frozen=True):
    """The contents of a database's copy; `rows` is the number of players, or of current saves."""

    name: str
    """`auth` or `state`."""
    schema: int
    rows: int


class DumpContents(Struct, frozen=True):
    """The contents of a dump of PostgreSQL."""

    schemas: Mapping[str, int]
    """The versions of the schemas."""
    players: int
    saves: int
    written_by: int
    """The version of pg_dump; an older pg_restore cannot read the file."""
    store_id: str | None
    """The id of the store; None if no service ever opened it."""


class BackupFile(Struct, frozen=True):
    """One file of a backup."""

    bytes: _Number
    sha256: Annotated[str, Meta(pattern=rf"\A{_SHA256.pattern}\Z")]
    """In hex."""


class BackupKey(Struct, frozen=True):
    """The key that auth.db needs, never its bytes; both are None if no service ever opened auth.db."""

    fingerprint: _Word | None
    source: _Word | None
    """`master` or `file`."""


class BackupStore(Struct, frozen=True):
    """The store that was copied; older versions of gamed noted nothing about it."""

    id: _Word | None = None
    """None also if no service ever opened the store."""
    postgresql: _Number | None = None
    """The version of the pg_dump that wrote the file DUMP; None for the files of SQLite."""


class BackupManifest(Struct, frozen=True, kw_only=True):
    """The contents of `manifest.json`, which describes the folder that it is in; the members are in this order."""

    made_at: Annotated[str, Meta(pattern=rf"\A{_INSTANT.pattern}\Z")]
    """The time in RFC 3339; every write that was acknowledged before it is in the backup."""
    gamed: _Word
    """The version of gamed that made the backup."""
    key: BackupKey
    store: BackupStore = BackupStore()
    schemas: Mapping[str, _Number]
    players: _Number
    saves: _Number
    files: Mapping[str, BackupFile]

    def members(self) -> dict[str, object]:
        """Return the members of the JSON object."""
        return {"format": FORMAT, **to_builtins(self)}


class BackupProgress(Struct, frozen=True):
    """The bytes that a backup has copied, and those that it has to; None for a dump, which is compressed."""

    copied: int
    whole: int | None

    @property
    def percent(self) -> int | None:
        return None if self.whole is None else min(100, self.copied * 100 // max(1, self.whole))


def stamp(now_ms: int) -> str:
    """Return the time in UTC to the second, as `20261121T195400Z`."""
    return f"{datetime.fromtimestamp(now_ms // 1000, UTC):%Y%m%dT%H%M%SZ}"


def folder_name(now_ms: int, existing: Collection[str]) -> str:
    """Return the name of a backup that is made now; if that name exists, the one of a second later."""
    while (name := f"gamed-{stamp(now_ms)}") in existing:
        now_ms += 1000
    return name


def part_name(name: str) -> str:
    """Return the name of a backup while it is incomplete: while it is made or deleted."""
    return f".{name}.part"


def is_backup(name: str) -> bool:
    """Return whether this is the name of a complete backup."""
    return _NAME.fullmatch(name) is not None


def is_part(name: str) -> bool:
    """Return whether this is the name of an incomplete backup."""
    return _PART.fullmatch(name) is not None


def expired_backups(names: Collection[str], made: str, keep: int) -> list[str]:
    """Return the names of the backups to delete so that `keep` stay, oldest first; ignore names of other files.

    The backup that was just `made` stays, whatever its name. Those with a later name go first: the clock was ahead when
    they were made, and would else have each new one deleted by the next.
    """
    others = sorted((name for name in names if is_backup(name) and name != made), key=lambda name: (name < made, name))
    return others[: max(0, len(others) - (keep - 1))]


def parse_manifest(text: bytes) -> BackupManifest:
    """Return the manifest; raise BackupError unless this version knows its format and all names in it."""
    try:
        members = parse_object(text)
        if members.get("format") != FORMAT:
            raise BackupError(f"its {MANIFEST} is of another version of gamed")
        manifest = convert(members, BackupManifest)
    except (JsonMalformed, ValidationError):
        raise BackupError(f"its {MANIFEST} is damaged") from None
    postgresql = manifest.store.postgresql
    if postgresql is not None and set(manifest.schemas) != {"auth", "state"}:
        raise BackupError(f"its {MANIFEST} is damaged")
    stores = set(STORES if postgresql is None else [DUMP])
    if not stores <= manifest.files.keys() <= stores | {*SETTINGS}:
        raise BackupError(f"its {MANIFEST} does not name the files of a backup")
    return manifest
