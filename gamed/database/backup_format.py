"""What a backup is called, what its manifest says, and which backups have had their day (SPEC 2.2 rule 2)."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from re import ASCII, Pattern, compile
from typing import Final

from msgspec import Struct

from gamed.strict_json import JsonMalformed, parse_object

MANIFEST: Final = "manifest.json"
STORES: Final = ("auth.db", "state.db")
SETTINGS: Final = ("authentication.json", "game.json")
FORMAT: Final = 1
_NAME: Final = compile(r"gamed-[0-9]{8}T[0-9]{6}Z", ASCII)
_PART: Final = compile(r"\.gamed-[0-9]{8}T[0-9]{6}Z\.part", ASCII)
_INSTANT: Final = compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z", ASCII)
_SHA256: Final = compile(r"[0-9a-f]{64}", ASCII)
_WORD: Final = compile(r"[!-~]{1,64}", ASCII)


class BackupError(Exception):
    """Something that is no whole backup; `str` says what is wrong with it."""


class BackupFile(Struct, frozen=True):
    """One file of a backup."""

    bytes: int
    sha256: str
    """In hex."""


class BackupManifest(Struct, frozen=True):
    """What `manifest.json` says about the folder that it is in."""

    made_at: str
    """RFC 3339; every write that was acknowledged before is in the backup."""
    gamed: str
    """The version that made it."""
    fingerprint: str | None
    """Of the key that auth.db is written with; None when no service ever opened it. Never the key."""
    key_source: str | None
    """`master` or `file`."""
    schemas: Mapping[str, int]
    players: int
    saves: int
    files: Mapping[str, BackupFile]

    def members(self) -> dict[str, object]:
        """As JSON."""
        return {
            "format": FORMAT,
            "made_at": self.made_at,
            "gamed": self.gamed,
            "key": {"fingerprint": self.fingerprint, "source": self.key_source},
            "schemas": dict(self.schemas),
            "players": self.players,
            "saves": self.saves,
            "files": {name: {"bytes": file.bytes, "sha256": file.sha256} for name, file in self.files.items()},
        }


def stamp(now_ms: int) -> str:
    """UTC to the second, as `20261121T195400Z`."""
    return f"{datetime.fromtimestamp(now_ms // 1000, UTC):%Y%m%dT%H%M%SZ}"


def folder_name(now_ms: int, taken: Collection[str]) -> str:
    """The name of a backup that is made now; a second later where that one is taken."""
    while (name := f"gamed-{stamp(now_ms)}") in taken:
        now_ms += 1000
    return name


def part_name(name: str) -> str:
    """What a folder is called while it is not whole: not yet, or not any more."""
    return f".{name}.part"


def is_part(name: str) -> bool:
    return _PART.fullmatch(name) is not None


def expired_backups(names: Collection[str], made: str, keep: int) -> list[str]:
    """Those of the backups that go when `keep` stay, oldest first; other names are no business of ours.

    The one that was just `made` stays, whatever its name: the clock may have been wrong before.
    """
    others = sorted(name for name in names if _NAME.fullmatch(name) and name != made)
    return others[: max(0, len(others) - (keep - 1))]


def parse_manifest(text: bytes) -> BackupManifest:
    """BackupError unless it is one that this version understands; every name in it is one of ours."""
    try:
        members = parse_object(text)
        if members.get("format") != FORMAT:
            raise BackupError(f"its {MANIFEST} is of another version of gamed")
        key, schemas = _object(members["key"]), _object(members["schemas"])
        files = {name: _copied(_object(file)) for name, file in _object(members["files"]).items()}
        fingerprint, source = key["fingerprint"], key["source"]
        manifest = BackupManifest(
            _text(members["made_at"], _INSTANT),
            _text(members["gamed"], _WORD),
            None if fingerprint is None else _text(fingerprint, _WORD),
            None if source is None else _text(source, _WORD),
            {name: _number(version) for name, version in schemas.items()},
            _number(members["players"]),
            _number(members["saves"]),
            files,
        )
    except (JsonMalformed, KeyError, TypeError):
        raise BackupError(f"its {MANIFEST} is damaged") from None
    if not set(STORES) <= set(files) <= {*STORES, *SETTINGS}:
        raise BackupError(f"its {MANIFEST} does not name the files of a backup")
    return manifest


def _object(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise TypeError
    return value


def _text(value: object, form: Pattern[str]) -> str:
    if not isinstance(value, str) or not form.fullmatch(value):
        raise TypeError
    return value


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError
    return value


def _copied(members: dict[str, object]) -> BackupFile:
    return BackupFile(_number(members["bytes"]), _text(members["sha256"], _SHA256))
