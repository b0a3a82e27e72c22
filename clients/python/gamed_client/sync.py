"""Offline play: a game saves to this device, which sends the saves when the server can be reached.

    sync = Sync(client)                               # needs no network, and for the first saves no sign-in
    sync.start()                                      # in the background until `close`, or the end of a `with`
    sync.ready()                                      # waits until the server has responded, at most 5 seconds
    save = sync.read("auto")                          # None: never saved; NotKnown: this device was never online
    sync.write("auto", b"...", meta={"title": "Chapter 3"})       # on this device's disk when it returns
    for conflict in sync.conflicts:                   # both sides have changed: the player chooses
        conflict.keep_mine()                          # or keep_theirs(), or merged(b"...")

A write is based on the version that the game last read or wrote, never on one that has only been downloaded: it does
not overwrite progress that the player has not seen. No rule uses a clock. All rules: docs/developers/offline.md.

Every failure is a GamedError. Methods may be called from any thread; one process at a time may use a player's folder.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from . import (
    Busy,
    Cancellation,
    Cancelled,
    Conflict,
    Credential,
    Deleted,
    Deletion,
    GamedClient,
    GamedError,
    LocalDamaged,
    NotFound,
    NotGamed,
    PlayerBlocked,
    RateLimited,
    Refused,
    Save,
    SaveInfo,
    SignInRequired,
    Unreachable,
    UntrustedAddress,
    Version,
    on_disk,
    path_of,
    pause_after,
    say,
    sync_folder,
    try_lock_file,
    write_whole,
)

FORMAT = 1
UNOWNED = "not.signed.in"
"""Folder for saves from before the first sign-in here. `safe_name` never returns this, so it is not a player's."""
WAIT_SECONDS = 25
"""How long the server waits for a change before it responds to a request for changes."""
AGAIN_SECONDS = 300.0
"""Pause before retrying a refused write, unless the server sends another: the owner can raise a limit meanwhile."""
SLICE_SECONDS = 0.1
"""Between two looks at what cannot wake a waiting thread."""
LONGEST_WAIT_SECONDS = 86400.0
"""Windows has no timeouts over 49 days."""
EXIT_SECONDS = 5.0
"""Longest time that the end of a `with` waits until pending saves are sent."""
STEPS = 4
"""Most writes that one round sends for a slot that keeps changing."""
PAGE_VERSIONS = 32
"""The server limits the rate of requests for more versions."""

ENDING = (SignInRequired, PlayerBlocked)
"""Errors that end the loop: waiting does not help. Call `start` or `run` again once the player can sign in."""
HALTING = (Unreachable, Busy, RateLimited, SignInRequired, PlayerBlocked, NotGamed, UntrustedAddress)
"""Errors that end a round, with those of this device's disk: they concern the server or the player, not one slot."""


class InUse(GamedError):
    """Another process, or another Sync of this one, has this player's folder open."""


class NotKnown(Unreachable):
    """This device has not received the server's list yet: the server may have a save of this slot."""

    def __init__(self) -> None:
        super().__init__("not_known", "This device has not reached the server yet, so it does not know this save.")


class ConflictOver(GamedError):
    """The sides have changed since this conflict was shown, or it was settled: read `conflicts` again."""


# --- The record of a slot: immutable, every change returns a new record -----------------------------------------------


@dataclass(frozen=True)
class Local:
    """Bytes on this device, in a file named by their hash."""

    sha256: str
    size: int
    content_type: str
    meta: Mapping[str, Any]
    modified: str
    """RFC 3339, by this device's or the server's clock: only show it to the player."""

    @classmethod
    def of(cls, info: SaveInfo) -> Local:
        return cls(info.sha256, info.size, info.content_type, info.meta, info.modified)


def same(one: Local | None, other: Local | SaveInfo | None) -> bool:
    """Compare bytes, content type and meta; None equals None."""
    if one is None or other is None:
        return one is other
    return (one.sha256, one.content_type, one.meta) == (other.sha256, other.content_type, other.meta)


def tag(entry: SaveInfo | Deletion | None) -> str | None:
    return entry.etag if isinstance(entry, SaveInfo) else None


@dataclass(frozen=True)
class Sent:
    """A write, or with `local` None a delete, that was sent and may have arrived: it is repeated before any other."""

    local: Local | None
    base: SaveInfo | None


@dataclass(frozen=True)
class Dispute:
    """The server's response to a refused write. `reason`: changed, deleted, or lost (it does not know this save)."""

    reason: str
    base: SaveInfo | None
    current: SaveInfo | None
    copy: SaveInfo | None
    """The conflict copy that the server keeps of the refused bytes."""


@dataclass(frozen=True)
class Record:
    slot: str
    local: Local | None = None
    """The game's bytes; None: none, or deleted."""
    base: SaveInfo | None = None
    """The version that `local` is based on: the game last read it, or the server last acknowledged it."""
    dirty: bool = False
    """True if the game has changed `local` since."""
    sent: Sent | None = None
    remote: SaveInfo | None = None
    """The server's version, as last listed."""
    deleted: bool = False
    """True without bytes if there were some before."""
    dispute: Dispute | None = None
    dropped: Local | None = None
    """The bytes that a conflict or a delete last replaced on this device."""
    spent: SaveInfo | None = None
    """A conflict copy at the server that is not needed once its bytes are current."""
    unsent_copy: Sent | None = None
    """Bytes that a conflict replaced before the server had them. Its `base` is never current, so the server refuses the
    write and keeps the bytes as a conflict copy."""
    unlisted: str | None = None
    """The cursor that this device had when the server acknowledged `base`: the list of changes after it has `base`."""
    offered: Local | None = None
    """Bytes of another player that `Sync.adopt` has copied and the game has not read: they replace nothing here."""

    @property
    def newer(self) -> bool:
        """Return whether the server has a version that the game has not read, and the game has not changed its own."""
        return self.idle and tag(self.remote) != tag(self.base) and (self.remote is not None or self.deleted)

    def wrote(self, local: Local | None) -> Record:
        """Record a write of the game; the same bytes are not a change."""
        if same(self.local, local):
            return self
        dropped = self.dropped if local else self.local
        record = replace(self, local=local, dirty=True, deleted=local is None, dropped=dropped)
        return record.heard(self.remote) if local and self.dispute and self.remote else record

    def removed_here(self, including_newer: bool) -> Record:
        """Record a delete of the game; a version that the game has not read makes it a conflict."""
        if including_newer and self.offered:
            return replace(self, offered=None).removed_here(including_newer)
        if not self.newer:
            return self.wrote(None)
        if self.remote is None or including_newer:
            return self.took().wrote(None)
        dispute = Dispute("changed", self.base, self.remote, None)
        return replace(self.wrote(None), dirty=True, deleted=True, dispute=dispute)

    def took(self) -> Record:
        """Record that the game has read the newer version."""
        local = Local.of(self.remote) if self.remote else None
        dropped = self.dropped if local or not self.local else self.local
        return replace(self, local=local, base=self.remote, dropped=dropped)

    def heard(self, remote: SaveInfo | None, deleted: bool = False) -> Record:
        """Record the server's version of a list; equal bytes are never a conflict, whichever device wrote them."""
        arrived = self.offered and remote and self.offered.sha256 == remote.sha256
        offered = None if arrived else self.offered
        record = replace(self, remote=remote, deleted=deleted and remote is None, offered=offered)
        if remote is None:
            return record._settled(None) if self.local is None and not self.sent else record._moved()
        if self.sent and self.sent.local and self.sent.local.sha256 == remote.sha256:
            return record.acknowledged(remote, exactly=same(self.sent.local, remote))
        if self.local and self.local.sha256 == remote.sha256 and not self.sent:
            return record._settled(remote)
        return record._moved()

    def _settled(self, remote: SaveInfo | None) -> Record:
        """Record equal bytes on both sides; send a different label, or adopt it if the game has not changed its own."""
        if not self.dirty and remote:
            return replace(self, local=Local.of(remote), base=remote, dispute=None)
        return replace(self, base=remote, dirty=bool(remote) and not same(self.local, remote), dispute=None)

    def _moved(self) -> Record:
        """Update an open conflict to the server's current version."""
        if self.dispute is None or tag(self.dispute.current) == tag(self.remote):
            return self
        if self.remote and tag(self.remote) == tag(self.base):
            return replace(self, dispute=None)
        reason = "changed" if self.remote else "deleted" if self.deleted else "lost"
        return replace(self, dispute=replace(self.dispute, reason=reason, current=self.remote))

    def relisted(self, *, known: bool, deleted: bool, listed: bool) -> Record:
        """Apply a whole list; `known`: the base of this record is in the server's history.

        If it is not, the server has lost an acknowledged write, and the game's bytes are pending again.
        """
        record = self if known or self.dirty or self.local is None else replace(self, dirty=True)
        return record if listed else record.heard(None, deleted=deleted)

    def expired(self) -> Record:
        """Apply a whole list in which this slot is missing because it was deleted long ago."""
        if self.local is None or self.base is None or not (self.dirty or self.sent):
            return self.heard(None, deleted=self.base is not None or self.remote is not None or self.deleted)
        dispute = self.dispute or Dispute("deleted", self.base, None, None)
        return replace(self, sent=None, dispute=dispute).heard(None, deleted=True)

    def acknowledged(self, info: SaveInfo | None, *, exactly: bool = True) -> Record:
        """Record that the server performed `sent`, as `info`; the game may have written since."""
        done = exactly and same(self.local, self.sent.local if self.sent else None)
        local = self.local
        if done and info and local:
            local = replace(local, content_type=info.content_type, meta=info.meta)  # the server's spelling
        return replace(self, local=local, base=info, dirty=not done, sent=None)

    def written(self, info: SaveInfo, cursor: str | None) -> Record:
        return replace(self.acknowledged(info), remote=info, deleted=False, unlisted=cursor)

    def removed(self, current: SaveInfo | None = None) -> Record:
        return replace(self.acknowledged(None), remote=current, deleted=current is None)

    def superseded(self, error: Conflict) -> Record:
        """Record that `sent` was performed and another device has written after it."""
        return replace(self.acknowledged(error.yours), remote=error.current, deleted=error.current is None)

    def disputed(self, error: Conflict) -> Record:
        current, copy, deleted = error.current, error.yours, error.code == "deleted"
        reason = "changed" if current else "deleted" if deleted else "lost"
        dispute = Dispute(reason, self.base, current, copy)
        return replace(self, sent=None, dispute=dispute).heard(current, deleted)

    @property
    def idle(self) -> bool:
        """Return whether this device has neither a pending write nor a conflict here."""
        return not (self.dirty or self.sent or self.dispute)

    def adopted(self, local: Local) -> Record:
        """Adopt bytes from before the sign-in, without a base, so that they never replace others."""
        return replace(self, local=local, base=None, dirty=True, deleted=False, dropped=self.local or self.dropped)

    def has(self, digest: str) -> bool:
        """Return whether `read` returns these bytes, now or after a download."""
        return any(side.sha256 == digest for side in (self.local, self.remote, self.offered) if side)

    @property
    def unread(self) -> Local | None:
        """Return the bytes that `read` takes: an offer waits while own ones are pending or in a conflict."""
        return self.offered if self.idle else None

    def took_offered(self) -> Record:
        """Record that the game has read `offered`, which may have arrived: it is sent before any write after it."""
        sent = Sent(self.offered, None)
        return replace(self.adopted(self.offered), offered=None, sent=sent) if self.offered else self

    @property
    def beside(self) -> Sequence[Sent]:
        """Return what is sent apart from the game's writes: `offered` to an empty slot, and `unsent_copy`."""
        taken = self.base or self.remote or self.sent or self.dispute
        offered = Sent(self.offered, None) if self.offered and not taken else None
        return [each for each in (offered, None if self.sent else self.unsent_copy) if each]

    def answered_beside(self, beside: Sent, answer: SaveInfo | Conflict | None) -> Record:
        """Record the server's answer, or None if the file is damaged; ignore it if the bytes are not `beside` any more.

        An `unsent_copy` ends with any answer. `offered` stays to be read where another device was first; otherwise the
        server has it, or only the other player, if its file is damaged.
        """
        if self.unsent_copy == beside:
            return replace(self, unsent_copy=None)
        if beside.base or self.offered != beside.local:
            return self
        stays = isinstance(answer, Conflict) and answer.code != "superseded"
        record = self if stays else replace(self, offered=None)
        if isinstance(answer, Conflict):
            return record.heard(answer.current, deleted=answer.code == "deleted")
        return record.heard(answer) if answer else record

    def kept_mine(self) -> Record:
        spent = self.dispute.copy if self.dispute else None
        return replace(self, base=self._theirs, dirty=True, dispute=None, spent=spent)

    def kept_theirs(self) -> Record:
        theirs, deleted = self._theirs, self.dispute is not None and self.dispute.reason == "deleted"
        record = self._gave_way()
        local = Local.of(theirs) if theirs else None
        return replace(record, local=local, base=theirs, dirty=False, deleted=deleted, dispute=None)

    def merged(self, local: Local) -> Record:
        record = self if self.local and self.local.sha256 == local.sha256 else self._gave_way()
        return replace(record, local=local, base=self._theirs, dirty=True, dispute=None)

    def _gave_way(self) -> Record:
        """Keep this device's bytes as `dropped`, and as `unsent_copy` if the server does not have them.

        The server has only the bytes that it refused; the game may have saved newer ones since.
        """
        if self.local is None or self.dispute is None:
            return self
        copy = self.dispute.copy
        record, base = replace(self, dropped=self.local), copy or self.dispute.base
        if base is None or (copy and copy.sha256 == self.local.sha256):
            return record
        return replace(record, unsent_copy=Sent(self.local, base))

    @property
    def _theirs(self) -> SaveInfo | None:
        return self.dispute.current if self.dispute else None

    @property
    def bodies(self) -> set[str]:
        """Return the hashes of all bytes that must stay on the disk."""
        sides = [self.local, self.base, self.remote, self.dropped, self.offered]
        sides += [sent.local for sent in (self.sent, self.unsent_copy) if sent]
        sides += [self.dispute.base, self.dispute.current] if self.dispute else []
        return {side.sha256 for side in sides if side}

    def to_json(self) -> bytes:
        return json.dumps({"format": FORMAT, **asdict(self)}, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, text: bytes) -> Record:
        value = json.loads(text)
        if value.pop("format") != FORMAT:
            raise ValueError("another format")
        for name in ("base", "remote", "spent"):
            value[name] = _info(value[name])
        for name in ("local", "dropped", "offered"):
            value[name] = _local(value.get(name))
        for name in ("sent", "unsent_copy"):  # records of older versions of this client lack the second
            sent = value.get(name)
            value[name] = Sent(_local(sent["local"]), _info(sent["base"])) if sent else None
        if dispute := value["dispute"]:
            infos = {name: _info(dispute[name]) for name in ("base", "current", "copy")}
            value["dispute"] = Dispute(dispute["reason"], **infos)
        return cls(**value)


def _info(value: dict[str, Any] | None) -> SaveInfo | None:
    return SaveInfo(**{**value, "conflicts": tuple(value["conflicts"])}) if value else None


def _local(value: dict[str, Any] | None) -> Local | None:
    return Local(**value) if value else None


# --- The disk ---------------------------------------------------------------------------------------------------------


class Store:
    """A folder of one player at one server: `cursor`, `lock`, `player`; for each slot one with `record` and bodies.

    A body is stored before the record that names it, and deleted after it, so that a crash never leaves a record
    without its bytes. Only this user can read the folder.
    """

    @on_disk()
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        private_folder(folder / "slots")
        self._handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        if not try_lock_file(self._handle):
            os.close(self._handle)
            raise InUse("in_use", "This game is running already, with the same saves.")

    def close(self) -> None:
        os.close(self._handle)

    @on_disk()
    def records(self) -> dict[str, Record]:
        found = {}
        for place in sorted((self.folder / "slots").iterdir()):
            try:
                found[place.name] = Record.from_json((place / "record").read_bytes())
            except FileNotFoundError:
                continue  # a crash interrupted the first write to it
            except (ValueError, KeyError, TypeError, AttributeError) as e:
                detail = f"{place / 'record'} cannot be read; the files beside it are untouched."
                raise LocalDamaged("state_damaged", detail) from e
            self._tidy(found[place.name])
        return found

    @on_disk()
    def keep(self, record: Record) -> None:
        private_folder(self._of(record.slot))
        write_whole(self._of(record.slot) / "record", record.to_json())
        self._tidy(record)

    def _tidy(self, record: Record) -> None:
        needed = {"record", *record.bodies}
        for path in self._of(record.slot).iterdir():
            if path.name not in needed:
                with contextlib.suppress(OSError):
                    path.unlink()

    @on_disk()
    def add(self, slot: str, data: bytes) -> str:
        digest = sha256(data).hexdigest()
        if self.load(slot, digest) is None:
            private_folder(self._of(slot))
            write_whole(self._of(slot) / digest, data)
        return digest

    @on_disk()
    def forget(self, slot: str) -> None:
        """Delete a slot, its record first."""
        for path in [self._of(slot) / "record", *self._of(slot).iterdir()]:
            path.unlink(missing_ok=True)

    @on_disk()
    def load(self, slot: str, digest: str) -> bytes | None:
        """Return the bytes, or None if they are missing or damaged."""
        try:
            data = (self._of(slot) / digest).read_bytes()
        except FileNotFoundError:
            return None
        return data if sha256(data).hexdigest() == digest else None

    def discard(self, slot: str, digest: str) -> None:
        with contextlib.suppress(OSError):
            (self._of(slot) / digest).unlink()

    @on_disk()
    def has(self, slot: str, info: SaveInfo) -> bool:
        with contextlib.suppress(FileNotFoundError):
            return (self._of(slot) / info.sha256).stat().st_size == info.size
        return False

    @property
    @on_disk()
    def cursor(self) -> str | None:
        with contextlib.suppress(FileNotFoundError):
            return (self.folder / "cursor").read_text("utf-8", "replace")
        return None

    @on_disk()
    def keep_cursor(self, cursor: str) -> None:
        write_whole(self.folder / "cursor", cursor.encode())

    @property
    @on_disk()
    def about(self) -> Mapping[str, Any]:
        """Read `name` of the player, and `adopted`: a text `<slot>/<sha256>` for each save of another player."""
        try:
            value = json.loads((self.folder / "player").read_bytes())
        except (FileNotFoundError, ValueError, RecursionError):
            value = None  # it has nothing that a save depends on
        name, adopted = (value.get("name"), value.get("adopted")) if isinstance(value, dict) else (None, None)
        saves = [save for save in adopted if isinstance(save, str)] if isinstance(adopted, list) else []
        return {"name": name if isinstance(name, str) else None, "adopted": saves}

    @on_disk()
    def keep_about(self, **changes: Any) -> None:
        if {**self.about, **changes} != self.about:
            write_whole(self.folder / "player", json.dumps({**self.about, **changes}).encode())

    def _of(self, slot: str) -> Path:
        return self.folder / "slots" / slot


def private_folder(folder: Path) -> None:
    """Create a folder that only this user can read, on disk when this returns."""
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for place in reversed(missing):
        place.mkdir(mode=0o700, exist_ok=True)
        sync_folder(place.parent)


@dataclass
class Whole:
    """A whole list whose pages are arriving; after an interruption the next round continues it."""

    cursor: str
    expired: bool
    """A slot that is missing on all pages was deleted long ago."""
    listed: dict[str, SaveInfo | Deletion] = field(default_factory=dict)
    compared: set[str] = field(default_factory=set)
    """The slots whose base was compared with their entry."""

    def add(self, cursor: str, listed: Mapping[str, SaveInfo | Deletion]) -> None:
        self.cursor = cursor
        self.listed.update(listed)
        self.compared.difference_update(listed)


# --- The interface of a game ------------------------------------------------------------------------------------------

UNKNOWN, IN_STEP, WAITING, NEWER = "unknown", "in_step", "waiting", "newer"
CONFLICT, REFUSED = "conflict", "refused"


@dataclass(frozen=True)
class Status:
    """One slot, for a menu."""

    slot: str
    state: str
    """unknown: the first list has not arrived; in_step; waiting: an upload or a download is pending; newer: `read`
    returns another device's bytes; conflict: the player has to choose; refused: see `problem`, the bytes are kept
    here."""
    size: int | None
    """Size of the save that `read` would return; the next two describe it, too. None if it is deleted."""
    meta: Mapping[str, Any]
    modified: str
    copies: Sequence[int]
    """Conflict copies at the server, of any device: use `GamedClient.restore` or `dismiss`."""
    problem: GamedError | None = None


@dataclass(frozen=True)
class OtherSave:
    """A save of another player, for a menu."""

    slot: str
    size: int
    meta: Mapping[str, Any]
    modified: str


@dataclass(frozen=True)
class OtherPlayer:
    """Another player of this server whose saves are on this device; only the person knows whether they are theirs."""

    player_id: str
    name: str | None
    """The name at the last sign-in here; None if that is not known."""
    modified: str
    """That of the newest save; RFC 3339, to show."""
    saves: Sequence[OtherSave]


@dataclass(frozen=True)
class Side:
    """One side of a conflict: its bytes, and their description for the player."""

    data: bytes = field(repr=False)
    content_type: str
    meta: Mapping[str, Any]
    modified: str


@dataclass(frozen=True)
class SyncConflict:
    """Both sides have changed `base`. Nothing of the slot is sent until the game calls a method; play may continue."""

    slot: str
    reason: str
    """"changed"; "deleted" at the server; "lost": the server does not know this save (erased, or an old backup)."""
    base_info: SaveInfo | None
    current: SaveInfo | None
    copy: SaveInfo | None
    """The conflict copy that the server keeps of this device's side, beside the current version."""
    _sync: Sync = field(repr=False, compare=False)

    def mine(self) -> Side | None:
        """Return this device's side, as it is now, or None if it was deleted here."""
        with self._sync._lock:
            return self._sync._side(self.slot, self._sync._record(self.slot).local)

    def theirs(self) -> Side | None:
        """Return the server's side, or None if it is deleted or lost; may send a request."""
        return self._sync._side(self.slot, self.current)

    def base(self) -> Side | None:
        """Return the save that both sides continued, or None if there was none or it is not kept."""
        with contextlib.suppress(GamedError):
            return self._sync._side(self.slot, self.base_info)
        return None

    def keep_mine(self) -> None:
        """Write this device's side over theirs, which stays in the server's history."""
        self._sync._answer(self, Record.kept_mine)

    def keep_theirs(self) -> None:
        """Continue from the server's save; `read` returns it.

        The server keeps this device's side as a conflict copy: the next round sends the bytes that the game has saved
        since the conflict began. They also stay here, as `Sync.lost`.
        """
        self.theirs()
        self._sync._answer(self, Record.kept_theirs)

    def merged(self, data: bytes, *, meta: Mapping[str, Any] | None = None) -> None:
        """Continue from new bytes that combine both."""
        with self._sync._lock:
            like = self._sync._record(self.slot).local or self.current
            content_type = like.content_type if like else "application/octet-stream"
            local = self._sync._local(self.slot, data, content_type, meta)
            self._sync._answer(self, lambda record: record.merged(local))


@dataclass(frozen=True)
class Problem:
    error: GamedError
    due: float
    """Time of the next try by the monotonic clock, in seconds."""

    @property
    def final(self) -> bool:
        """Return whether a retry cannot help: the server rejected the write, or a file is damaged."""
        return 400 <= self.error.status < 500 or isinstance(self.error, LocalDamaged)


class Sync:
    """One player's saves on this device, and their exchange with the server."""

    @on_disk()
    def __init__(self, client: GamedClient, folder: Path | None = None) -> None:
        """Open the saves of the signed-in player, without a request; `folder` replaces the one beside the credential.

        Before the first sign-in at this server the saves wait on this device: the first `send` after the sign-in, or
        the first Sync, adopts them for the player. Raise SignInRequired after a sign-out, InUse, LocalDamaged.
        """
        self._client = client
        self._folder = (folder or client.folder / "sync") / client.place
        credential = client.credential
        if credential is None and _has_players(self._folder):
            raise _signed_out()
        self.player_id = credential.player_id if credential else ""
        """Empty before the first sign-in."""
        self._store = Store(self._folder / (safe_name(self.player_id) if credential else UNOWNED))
        self._lock = threading.RLock()
        """Held for each read and change of the records; never while a request waits for the network."""
        self._sending = threading.Lock()
        self._ended = threading.Condition(self._lock)
        """Notified when a round has ended, or this Sync."""
        self._bell = threading.Event()
        self._waits: list[Cancellation] = []
        """Those of the rounds and loops that run: `close` ends their requests at once."""
        self._thread: threading.Thread | None = None
        self._changed: Callable[[Status], object] = lambda status: None
        """The callback that was passed to `start`."""
        self._starts = 0
        """How often `start` or `run` was called."""
        self._tried_starts = 0
        """That number at the beginning of the last round that has ended: `problem` does not concern later starts."""
        self._closed = False
        self._whole: Whole | None = None
        """The whole list whose pages are arriving."""
        self._succeeded = False
        """True once a round of this Sync has succeeded."""
        self.problem: GamedError | None = None
        """The error of the last round; None if it succeeded: for a display that says "offline"."""
        self._problems: dict[str, Problem] = {}
        self._copy_problems: dict[str, Problem] = {}
        """Problems of each slot's `unsent_copy`, apart from the others: they must not delay writes or downloads."""
        try:
            self._records = self._store.records()
            self._cursor = self._store.cursor
            if credential:
                self._note_name(self._store, credential)
                self._adopt_left()
        except BaseException:
            self._store.close()
            raise
        quiet = [status for status in self.slots() if status.state in (IN_STEP, WAITING)]
        self._reported = {status.slot: self._look_of(status) for status in quiet}

    def start(self, changed: Callable[[Status], object] | None = None) -> None:
        """Call `run` in a thread until `close`; an error that ends it earlier is in `problem`.

        After such an end call it again, once a player has signed in. While the thread works, a further call only
        replaces `changed`, if it has one.
        """
        with self._lock:
            self._open()
            self._changed = changed or self._changed
            self._starts += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._run_until_closed, daemon=True)
                self._thread.start()

    def _run_until_closed(self) -> None:
        """Run again after a `start` that came during the round that ended the loop: its error is an older sign-in's."""
        try:
            while self._thread is not None:
                with contextlib.suppress(GamedError):
                    self.run(Cancellation(), self._report)
                with self._lock:
                    if self._closed or self._tried_starts == self._starts:
                        self._thread = None
        except Cancelled:
            pass  # gamed_client.aio cancels it at the end of an AsyncSync
        except BaseException:
            with self._lock:
                self._thread = None
            raise

    def _report(self, status: Status) -> None:
        self._changed(status)

    def close(self, within: float = 0) -> None:
        """Release the folder for other processes. Pending writes stay pending.

        After `start`, first wait at most `within` seconds until they are sent, or until the server cannot be reached.
        """
        with self._lock:
            if self._thread is not None:
                self._ended.wait_for(self._needs_no_longer, within)
            if not self._closed:
                self._closed = True
                self._store.close()
                self._ended.notify_all()
            self._bell.set()  # an idle `run` of the game then finds that this is closed
            for over in tuple(self._waits):
                over.cancel()

    def __enter__(self) -> Sync:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close(EXIT_SECONDS)

    def _needs_no_longer(self) -> bool:
        """Return whether a round has nothing more to send, or cannot send it now."""
        tried = [record for slot, record in self._records.items() if slot not in self._problems and not record.dispute]
        failed = self._failed and not self._lacks_space
        return self._closed or failed or not any(record.dirty or record.sent for record in tried)

    @property
    def _lacks_space(self) -> bool:
        """Return whether the last round only could not store another device's save: all writes are still sent then."""
        full = self.problem is not None and self.problem.code == "local_disk"
        return full and any(problem.error.code == "local_disk" for problem in self._problems.values())

    def ready(self, within: float = 5) -> bool:
        """Wait for the first round, at most `within` seconds; return whether this device has ever received a list.

        Call it after `run` was started and before the first `read`. False: this device was never online with this
        player; `read` raises NotKnown. A device that knows its saves does not wait for a server that does not respond.
        """
        with self._lock:
            self._ended.wait_for(self._needs_no_wait, within)
            return self._cursor is not None

    def _needs_no_wait(self) -> bool:
        """Return whether waiting for a round would not help `ready`."""
        hopeless = self._cursor is not None or isinstance(self.problem, ENDING)
        return self._succeeded or self._closed or (self._failed and hopeless)

    @property
    def _failed(self) -> bool:
        """Return whether the last round failed, and `start` has not been called since to overcome that."""
        overcome = isinstance(self.problem, ENDING) and self._tried_starts != self._starts
        return self.problem is not None and not overcome

    # -- the game's side: this device only, no network --

    def read(self, slot: str) -> Save | None:
        """Return the newest save on this device; the game's next write is based on it.

        None if the slot was never written. Raise NotKnown before the first list (see `ready`), Deleted, LocalDamaged,
        and Unreachable while a listed save has not been downloaded. In a conflict the result is this device's side.
        """
        return self._look(slot, take=True)

    def peek(self, slot: str) -> Save | None:
        """Return the same save for a preview or a copy; the next write is not based on it."""
        return self._look(slot, take=False)

    def write(
        self,
        slot: str,
        data: bytes,
        *,
        meta: Mapping[str, Any] | None = None,
        content_type: str = "application/octet-stream",
    ) -> None:
        """Write a save to this device's disk, based on the version that the game last read or wrote here.

        The next round sends it. Newer bytes replace older ones that have not been sent. Raise LocalDamaged if the disk
        cannot store them.
        """
        with self._lock:
            local = self._local(slot, data, content_type, meta)
            self._change(slot, lambda record: record.wrote(local))
        self._bell.set()

    def delete(self, slot: str, *, including_newer: bool = False) -> None:
        """Delete the version that the game last read or wrote; the server can restore it for a while.

        If another device has saved a newer one, it is a conflict. With `including_newer` that one is deleted, too: only
        for a player who has seen it. Raise NotKnown before the first list, unless the game has written this slot here.
        """
        path_of(slot)
        with self._lock:
            if self._unknown(self._record(slot)):
                raise NotKnown
            self._change(slot, lambda record: record.removed_here(including_newer))
        self._bell.set()

    def slots(self) -> list[Status]:
        """List the status of every slot that has bytes or a pending change."""
        with self._lock:
            return [status for status in map(self.status, sorted(self._records)) if _shown(status)]

    def status(self, slot: str) -> Status:
        with self._lock:
            record, problem = self._record(slot), self._problems.get(slot)
            shown = problem or self._copy_problems.get(slot)
            held = self._seen(record).local
            return Status(
                slot,
                self._state(record, problem),
                size=held.size if held else None,
                meta=held.meta if held else {},
                modified=held.modified if held else "",
                copies=tuple(record.remote.conflicts) if record.remote else (),
                problem=shown.error if shown else None,
            )

    @property
    def conflicts(self) -> list[SyncConflict]:
        with self._lock:
            found = sorted(self._records.items())
            return [self._conflict(slot, record.dispute) for slot, record in found if record.dispute]

    def lost(self, slot: str) -> Side | None:
        """Return the bytes that `keep_theirs` or a delete, also on this device, last replaced here: to undo that."""
        with self._lock:
            return self._side(slot, self._record(slot).dropped)

    dropped = lost
    """The older name of `lost`, deprecated: it works until 1.0."""

    def other_players(self) -> list[OtherPlayer]:
        """List the other players of this server whose saves are on this device: to ask the player before `adopt`.

        They are of another person, or of this one, whom a server that was set up anew has given another id. Saves
        that the player has as well or has adopted are left out, and players whose saves another process has open.
        """
        found = []
        with self._lock:
            self._open()
            known = self._store.about["adopted"]
            for name in self._other_folders():
                with contextlib.suppress(InUse, LocalDamaged), contextlib.closing(Store(self._folder / name)) as left:
                    listed = {s: of for s, of in self._left_in(left).items() if f"{s}/{of.sha256}" not in known}
                    saves = [OtherSave(s, of.size, of.meta, of.modified) for s, of in listed.items()]
                    if saves:
                        newest = max(save.modified for save in saves)
                        found.append(OtherPlayer(name, left.about["name"], newest, saves))
        return found

    def adopt(self, player_id: str, slots: Collection[str] | None = None) -> list[str]:
        """Copy saves of another player, all that `other_players` lists or `slots`; return the slots that were copied.

        Call it only after the player has said that the saves are theirs. They replace nothing: each is `newer` until
        `read` returns it, and a write of the game meanwhile does not replace it. The next round sends those whose slot
        is empty at the server; elsewhere a conflict follows the `read`. A slot with a pending write or a conflict is
        left out: call it again later. The other player's saves stay here. Raise InUse, LocalDamaged, and
        SignInRequired before the sign-in.
        """
        done = []
        with self._lock:
            self._open()
            if not self.player_id:
                raise _signed_out()
            if player_id not in self._other_folders():
                return []
            known = self._store.about["adopted"]
            with contextlib.closing(Store(self._folder / player_id)) as left:
                try:
                    for slot, local in self._left_in(left).items():
                        wanted = f"{slot}/{local.sha256}" not in known if slots is None else slot in slots
                        offered = partial(replace, offered=local)
                        if wanted and self._record(slot).idle and self._copied(left, slot, local, offered):
                            done.append(slot)
                finally:
                    self._bell.set()
        return done

    @on_disk()
    def _other_folders(self) -> list[str]:
        own = {self._store.folder.name}
        return sorted(path.name for path in self._folder.iterdir() if "." not in path.name and path.name not in own)

    def _left_in(self, left: Store) -> dict[str, Local]:
        """Return what `read` would return in each slot of `left`, without what this player has already."""
        found = {}
        for slot, record in left.records().items():
            arrived = record.newer and record.remote and left.has(slot, record.remote)
            local = record.unread or (record.took().local if arrived else record.local)
            if local and _is_slot(slot) and not self._record(slot).has(local.sha256):
                found[slot] = local
        return found

    def _look(self, slot: str, take: bool) -> Save | None:
        path_of(slot)
        with self._lock:
            record = self._record(slot)
            if self._unknown(record):
                raise NotKnown
            if record.offered and self._store.load(slot, record.offered.sha256) is None:
                record = self._change(slot, lambda r: replace(r, offered=None))  # the other player still has it
            seen = self._seen(record)
            if seen.local is None and record.newer and record.remote:
                raise Unreachable("not_arrived", "This save has not arrived on this device yet.")
            data = self._bytes(slot, seen.local) if seen.local else b""
            if take:
                self._change(slot, lambda _: seen)
            if seen.local is None:
                if seen.deleted:
                    raise Deleted("deleted", "This save was deleted.")
                return None
            etag = "" if seen.dirty or not seen.base else seen.base.etag
            return Save(etag, data, seen.local.content_type, seen.local.meta)

    def _bytes(self, slot: str, local: Local) -> bytes:
        data = self._store.load(slot, local.sha256)
        if data is None:
            record = self._record(slot)
            if not record.dirty and record.base:
                self._store.discard(slot, local.sha256)  # the next round fetches it again
            raise LocalDamaged("local_damaged", f"The file of {slot} on this device is damaged or gone.")
        return data

    def _unknown(self, record: Record) -> bool:
        """Return whether the server may have a save of this slot that this device has not listed."""
        known = record.local or record.base or record.remote or record.unread
        return self._cursor is None and known is None

    def _arrived(self, record: Record) -> bool:
        """Return whether a newer version has been downloaded."""
        return record.newer and (record.remote is None or self._store.has(record.slot, record.remote))

    def _seen(self, record: Record) -> Record:
        """Return the record after a `read`."""
        if record.unread:
            return record.took_offered()
        return record.took() if self._arrived(record) else record

    def _state(self, record: Record, problem: Problem | None) -> str:
        if record.dispute:
            return CONFLICT
        if problem:
            return REFUSED
        if record.unread or self._arrived(record):
            return NEWER
        if record.slot in self._copy_problems:
            return REFUSED
        if record.dirty or record.sent or record.newer or record.unsent_copy:
            return WAITING
        return UNKNOWN if self._unknown(record) else IN_STEP

    def _conflict(self, slot: str, dispute: Dispute) -> SyncConflict:
        return SyncConflict(slot, dispute.reason, dispute.base, dispute.current, dispute.copy, self)

    def _side(self, slot: str, of: Local | SaveInfo | None) -> Side | None:
        """Read bytes from this device, else from the server."""
        if of is None:
            return None
        data = self._store.load(slot, of.sha256)
        if data is None and isinstance(of, SaveInfo):
            data = self._fetched(self._client.only(self.player_id), of)
            self._keep_body(slot, data)
        if data is None:
            raise LocalDamaged("local_damaged", f"The file of {slot} on this device is damaged or gone.")
        return Side(data, of.content_type, of.meta, of.modified)

    def _local(self, slot: str, data: bytes, content_type: str, meta: Mapping[str, Any] | None) -> Local:
        """Store the bytes; return their Local."""
        path_of(slot)
        try:
            plain = json.loads(json.dumps(meta or {}, allow_nan=False))
        except (TypeError, ValueError) as e:
            raise Refused("bad_meta", "The meta of a save is a JSON object.") from e
        if not isinstance(plain, dict):
            raise Refused("bad_meta", "The meta of a save is a JSON object.")
        with self._lock:
            self._open()
            digest = self._store.add(slot, data)
        modified = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        return Local(digest, len(data), content_type, plain, modified)

    def _answer(self, shown: SyncConflict, how: Callable[[Record], Record]) -> None:
        with self._lock:
            dispute = self._record(shown.slot).dispute
            if dispute is None or self._conflict(shown.slot, dispute) != shown:
                raise ConflictOver("conflict_over", "This conflict has changed since it was shown.")
            self._change(shown.slot, how)
        self._bell.set()

    def _record(self, slot: str) -> Record:
        return self._records.get(slot) or Record(slot)

    def _change(self, slot: str, how: Callable[[Record], Record]) -> Record:
        """Change a record, on disk when it returns."""
        with self._lock:
            self._open()
            before = self._record(slot)
            after = how(before)
            if after != before:
                self._store.keep(after)
                self._records[slot] = after
            if before.offered and not after.offered:
                self._note_adopted(f"{slot}/{before.offered.sha256}")
            return after

    def _note_adopted(self, save: str) -> None:
        """Leave a save out of `other_players` from now on: the game has read it, or the server has it."""
        with contextlib.suppress(LocalDamaged):  # it is only listed again
            known = self._store.about["adopted"]
            if save not in known:
                self._store.keep_about(adopted=[*known, save])

    def _open(self) -> None:
        if self._closed:
            raise InUse("closed", "This Sync was closed.")

    # -- the server's side --

    def send(self, *, cancellation: Cancellation | None = None) -> list[Status]:
        """Run a round: request the changes, send pending writes, download newer saves; return the changed statuses.

        Raise errors that concern the server or the player (Unreachable, SignInRequired, ...); one that concerns a slot
        is in its status. `cancellation` ends it at once with Cancelled, `close` with InUse. After a failure, a cancel,
        or the end of the process, call it again: nothing is lost.
        """
        with self._until(cancellation or Cancellation()) as over, self._turn(over):
            self._send_all(over)
            return self._news()

    pump = send
    """The older name of `send`, deprecated: it works until 1.0."""

    @property
    def trouble(self) -> GamedError | None:
        """The older name of `problem`, deprecated: it works until 1.0."""
        return self.problem

    @contextlib.contextmanager
    def _until(self, stop: threading.Event | Cancellation) -> Iterator[Cancellation]:
        """Yield what `stop`, the client's cancellation and `close` cancel; after `close`, raise InUse for Cancelled."""
        # not `stop` itself, which the game may share among other calls: they go on after a `close`
        over = Cancellation()
        with self._client.wire.cancellation.ends(over.cancel):
            with self._lock:
                self._open()
                self._waits.append(over)
            try:
                with _ended_by(stop, over):
                    yield over
            except Cancelled:
                self._open()
                raise
            finally:
                self._waits.remove(over)
                over.cancel()

    @contextlib.contextmanager
    def _turn(self, over: Cancellation) -> Iterator[None]:
        """Wait until no other round runs."""
        while not self._sending.acquire(timeout=SLICE_SECONDS):
            over.check()
        try:
            yield
        finally:
            self._sending.release()

    def _send_all(self, over: Cancellation) -> None:
        """Run one round and note its error for `problem`."""
        starts = self._starts
        try:
            self._round(over)
        except GamedError as error:
            self._note_end(error, starts)
            raise
        self._note_end(None, starts)

    def _note_end(self, problem: GamedError | None, starts: int) -> None:
        with self._lock:
            self.problem = problem
            self._tried_starts = starts
            self._succeeded = self._succeeded or problem is None
            self._ended.notify_all()

    @staticmethod
    def _note_name(store: Store, credential: Credential) -> None:
        """Keep the player's name beside the saves: it has to outlast the credential, for `other_players`."""
        if credential.player_name is not None:
            with contextlib.suppress(LocalDamaged):  # the next start tries again
                store.keep_about(name=credential.player_name)

    def _adopt_left(self) -> None:
        """Adopt the saves from before the sign-in, unless another process has them open."""
        if (self._folder / UNOWNED).is_dir():
            with contextlib.suppress(InUse), contextlib.closing(Store(self._folder / UNOWNED)) as left:
                self._adopt_all(left, left.records())

    def _adopt_all(self, left: Store, records: Mapping[str, Record]) -> None:
        """Move the saves of `left` here, except those with a pending write here or a damaged file."""
        for slot, record in records.items():
            local, mine = record.local, self._record(slot)
            if local and not same(mine.local, local):
                adopted = partial(Record.adopted, local=local)
                if not (mine.idle and self._copied(left, slot, local, adopted)):
                    continue
            left.forget(slot)

    def _copied(self, left: Store, slot: str, local: Local, how: Callable[[Record], Record]) -> bool:
        """Copy bytes of `left` and change the record; return False if their file is damaged."""
        data = left.load(slot, local.sha256)
        if data is not None:
            self._store.add(slot, data)
            self._change(slot, how)
        return data is not None

    def _own(self) -> None:
        """Open the player's saves once a player has signed in, and adopt the earlier ones."""
        credential = self._client.credential
        if credential is None:
            raise _signed_out()
        with self._lock:
            self._open()
            store, left, records = Store(self._folder / safe_name(credential.player_id)), self._store, self._records
            try:
                known, cursor = store.records(), store.cursor
            except BaseException:
                store.close()
                raise
            self.player_id, self._store, self._records, self._cursor = credential.player_id, store, known, cursor
            with contextlib.closing(left):
                self._note_name(store, credential)
                self._adopt_all(left, records)

    def _round(self, over: Cancellation) -> None:
        if not self.player_id:
            self._own()
        client = self._client.only(self.player_id, tries=1).cancellable(over)
        self._hear(client)
        for slot in self._known():
            for beside in self._record(slot).beside:
                self._send_beside(client, slot, beside)
            for _ in range(STEPS):
                if not self._send(client, slot):
                    break
            self._dismiss(client, slot)
        for slot in self._known():
            self._fetch(client, slot)
        for problem in list(self._problems.values()):
            if problem.error.code == "local_disk":  # another device's save does not fit
                raise LocalDamaged("local_disk", problem.error.detail)

    def run(
        self, stop: threading.Event | Cancellation, changed: Callable[[Status], object] = lambda status: None
    ) -> None:
        """Call `send` whenever a change is pending here or at the server, until `stop`; run this in its own thread.

        `stop` ends it at once, also during a request: nothing is lost. `changed` is called in this thread with each
        changed status. Raise errors that waiting cannot end: SignInRequired, PlayerBlocked, InUse once this Sync is
        closed; run it again after a sign-in. Other errors are in `problem` until a retry succeeds.
        """
        with self._lock:
            self._starts += 1
        attempt = 0
        try:
            with self._until(stop) as over:
                threading.Thread(target=self._listen, args=(over,), daemon=True).start()
                while not _is_over(stop):
                    self._bell.clear()
                    error = self._tried(over)
                    for status in self._news():
                        changed(status)
                    attempt = min(attempt + 1, 8) if error else 0
                    heed = error is None or self._lacks_space
                    self._pause(over, pause_after(error, attempt) if error else self._until_due(), heed)
        except (Cancelled, InUse):
            if not _is_over(stop):
                raise

    def _tried(self, over: Cancellation) -> GamedError | None:
        """Run one round; return an error that a retry may end, raise others."""
        try:
            with self._turn(over):
                self._send_all(over)
        except (*ENDING, InUse):
            raise
        except GamedError:
            pass  # the error is in `problem`
        return self.problem

    def _pause(self, over: Cancellation, seconds: float, heed: bool) -> None:
        """Wait for the next try, or for a change of the game or the server; raise Cancelled."""
        if heed:
            with over.ends(self._bell.set):
                self._bell.wait(min(seconds, LONGEST_WAIT_SECONDS))
        else:
            over.wait(seconds)
        over.check()

    def _until_due(self) -> float:
        with self._lock:
            dues = [p.due for problems in (self._problems, self._copy_problems) for p in problems.values()]
            return max(0.0, min(dues, default=1e9) - time.monotonic())

    def _listen(self, over: Cancellation) -> None:
        """Wait at the server for changes, and ring; the round requests the changes."""
        attempt = 0
        while not over.cancelled:
            cursor, began = self._cursor, time.monotonic()
            try:
                rang = cursor is not None and self._waited(cursor, over)
                attempt = 0
            except Cancelled:
                return
            except GamedError as error:
                if isinstance(error, ENDING):
                    self._bell.set()  # a round tries the same; after a sign-in it succeeds, and this waits again
                over.wait(pause_after(error, attempt))
                attempt, rang = min(attempt + 1, 8), False
            if rang:
                self._bell.set()
            if rang or time.monotonic() - began < 1:  # the round needs a moment; at most one request per second
                over.wait(1)

    def _waited(self, cursor: str, over: Cancellation) -> bool:
        # a request that goes on after the end counts among the few that a player may have, and ends another device's
        client = self._client.only(self.player_id, tries=1).cancellable(over)
        return client.changes(cursor, wait=WAIT_SECONDS).cursor != cursor

    def _known(self) -> list[str]:
        with self._lock:
            return sorted(self._records)

    def _news(self) -> list[Status]:
        """Return the statuses that have changed since the last report to the game."""
        with self._lock:
            statuses = {slot: self.status(slot) for slot in self._records}
            now = {slot: self._look_of(status) for slot, status in statuses.items()}
            before, self._reported = self._reported, now
        return [status for slot, status in statuses.items() if now[slot] != before.get(slot) and _shown(status)]

    def _look_of(self, status: Status) -> Sequence[str | None]:
        """Return the values whose change is reported to the game: also a newer version at the server."""
        of = tag(self._record(status.slot).remote) if status.state in (NEWER, CONFLICT) else None
        return status.state, of, status.problem.code if status.problem else None

    def _hear(self, client: GamedClient) -> None:
        """Request all changes, page by page, before any write is sent."""
        with self._lock:
            unlisted = {slot for slot, record in self._records.items() if record.unlisted == (self._cursor or "")}
        while self._hear_page(client, unlisted):
            pass

    def _hear_page(self, client: GamedClient, unlisted: set[str]) -> bool:
        """Request a page of changes; return whether there are more.

        The cursor is stored last, so that an interrupted page is requested again. `unlisted` are the slots that this
        device has written since the cursor: if a list of changes lacks that version, the server may have lost it.
        """
        asked = self._whole.cursor if self._whole else self._cursor
        try:
            changes = client.changes(asked)
        except Refused as error:
            if asked is None or error.status != 400:
                raise
            changes = client.changes()  # the server does not know this cursor
        if changes.more and changes.cursor == asked:
            raise NotGamed("not_gamed", "The server's pages of changes do not end.")
        listed = {entry.slot: entry for entry in changes.saves if _is_slot(entry.slot)}
        if changes.whole:
            self._whole = Whole(changes.cursor, changes.expired)
        if self._whole:
            self._whole.add(changes.cursor, listed)
            if changes.more:
                return True
            self._hear_all(client, self._whole)
            listed = self._whole.listed
            unlisted.clear()
        for slot in sorted(unlisted if not changes.more else unlisted.intersection(listed)):
            base, entry = self._record(slot).base, listed.get(slot)
            if base and tag(entry) != base.etag:
                self._compare(client, slot, entry, whole=False)
            unlisted.discard(slot)
        for slot, entry in listed.items():
            remote = entry if isinstance(entry, SaveInfo) else None
            self._change(slot, partial(Record.heard, remote=remote, deleted=remote is None))
        with self._lock:
            self._open()
            if changes.cursor != self._cursor:
                self._store.keep_cursor(changes.cursor)
                self._cursor = changes.cursor
        self._whole = None
        return changes.more

    def _hear_all(self, client: GamedClient, whole: Whole) -> None:
        """Compare all records with a whole list: the server may have lost writes.

        A base that is not in the server's history makes the game's bytes pending again.
        """
        self._problems.clear()
        self._copy_problems.clear()
        for slot in sorted({*self._known()} - whole.compared):
            record, entry = self._record(slot), whole.listed.get(slot)
            if entry is None and whole.expired:
                self._change(slot, Record.expired)
            elif entry is None or (record.base is not None and record.base.etag != tag(entry)):
                self._compare(client, slot, entry)
            whole.compared.add(slot)

    def _compare(self, client: GamedClient, slot: str, entry: SaveInfo | Deletion | None, whole: bool = True) -> None:
        """Look for a record's base in the server's history; unless the list is `whole`, it need not have the slot."""
        record = self._record(slot)
        history: Sequence[Version] = ()
        if known_version := record.base or record.remote:
            with contextlib.suppress(NotFound):  # the server never had it
                history = client.versions(slot, down_to=known_version.version, limit=PAGE_VERSIONS)
        deleted = [version.kind for version in history if version.kind != "conflict"][:1] == ["delete"]
        has = record.base is None or any(version.save and version.save.etag == record.base.etag for version in history)
        agrees = isinstance(entry, SaveInfo) and record.local is not None and entry.sha256 == record.local.sha256
        listed = entry is not None or not whole
        known = (has and (deleted or listed)) or agrees
        self._change(slot, partial(Record.relisted, known=known, deleted=deleted, listed=listed))

    def _send(self, client: GamedClient, slot: str) -> bool:
        """Send a slot's pending write; return whether to call it again."""
        sent = self._next(slot)
        if sent is None:
            return False
        try:
            how = self._put(client, slot, sent) if sent.local else self._remove(client, slot, sent)
        except GamedError as error:
            self._refused(self._problems, slot, error)
        else:
            self._change(slot, how)
        return True

    def _next(self, slot: str) -> Sent | None:
        """Return the write to send, on disk first: the same one until the server has answered it."""
        with self._lock:
            record, problem = self._record(slot), self._problems.get(slot)
            sent = record.sent
            if problem and sent:
                if problem.final and not same(sent.local, record.local):
                    sent = None  # the server refused it, and the game has written other bytes since
                elif time.monotonic() < problem.due:
                    return None
            if record.dispute or (sent is None and not record.dirty):
                return None
            self._problems.pop(slot, None)
            if sent is None and record.local is None and record.base is None:
                self._change(slot, lambda r: replace(r, dirty=False, sent=None))  # the server never had it
                return None
            return self._change(slot, lambda r: replace(r, sent=sent or Sent(r.local, r.base))).sent

    def _put(self, client: GamedClient, slot: str, sent: Sent) -> Callable[[Record], Record]:
        assert sent.local is not None
        data, cursor = self._bytes(slot, sent.local), self._cursor
        try:
            info = put_local(client, slot, data, sent.local, sent.base)
        except Conflict as error:
            return partial(Record.superseded if error.code == "superseded" else Record.disputed, error=error)
        return partial(Record.written, info=info, cursor=cursor)

    def _remove(self, client: GamedClient, slot: str, sent: Sent) -> Callable[[Record], Record]:
        assert sent.base is not None
        try:
            client.delete(slot, base=sent.base)
        except NotFound:
            pass  # the slot is empty, as wanted
        except Conflict as error:
            history = client.versions(slot, down_to=sent.base.version, limit=PAGE_VERSIONS)
            deletes = [version.parent for version in history if version.kind == "delete"]
            if sent.base.version not in deletes:
                return partial(Record.disputed, error=error)
            return partial(Record.removed, current=error.current)  # performed before another device wrote
        return Record.removed

    def _refused(self, problems: dict[str, Problem], slot: str, error: GamedError) -> None:
        """Note the error of a slot; raise one that ends the round."""
        _check_round(error)
        asked = error.retry_after or AGAIN_SECONDS
        with self._lock:
            problems[slot] = Problem(error, time.monotonic() + asked)

    def _send_beside(self, client: GamedClient, slot: str, beside: Sent) -> None:
        """Send bytes until the server has answered; other writes do not wait for it. A damaged file is given up."""
        if beside.local is None or self._too_early(self._copy_problems, slot):
            return
        answer: SaveInfo | Conflict | None = None
        try:
            data = self._store.load(slot, beside.local.sha256)
            if data is not None:
                answer = put_local(client, slot, data, beside.local, beside.base)
        except Conflict as refusal:
            answer = refusal
        except GamedError as error:
            self._refused(self._copy_problems, slot, error)
            return
        with self._lock:
            self._copy_problems.pop(slot, None)
            self._change(slot, partial(Record.answered_beside, beside=beside, answer=answer))

    def _dismiss(self, client: GamedClient, slot: str) -> None:
        """Delete a conflict copy whose bytes have become current, so that the player does not see it as a conflict."""
        record = self._record(slot)
        if record.spent is None or record.dirty or record.sent or record.dispute:
            return
        if record.base and record.base.sha256 == record.spent.sha256:
            try:
                client.dismiss(slot, record.spent.version)
            except GamedError as error:
                _check_round(error)  # else the copy expires later
        self._change(slot, lambda r: replace(r, spent=None))

    def _too_early(self, problems: Mapping[str, Problem], slot: str) -> bool:
        """Return whether a retry has to wait."""
        return slot in problems and time.monotonic() < problems[slot].due

    def _fetch(self, client: GamedClient, slot: str) -> None:
        """Download the bytes that the game may read next, also offline."""
        record = self._record(slot)
        wanted = record.base if not record.dirty else None
        if record.dispute or record.newer:
            wanted = record.dispute.current if record.dispute else record.remote
        if wanted is None or self._store.has(slot, wanted) or self._too_early(self._problems, slot):
            return
        try:
            data = self._fetched(client, wanted)
        except NotFound:
            return  # it was replaced meanwhile: the next list has the new version
        except GamedError as error:
            self._refused(self._problems, slot, error)
            return
        with self._lock:
            self._problems.pop(slot, None)
            try:
                self._keep_body(slot, data)
            except LocalDamaged as error:  # else every round would download it again
                self._problems[slot] = Problem(error, time.monotonic() + AGAIN_SECONDS)

    def _keep_body(self, slot: str, data: bytes) -> None:
        """Store the bytes if a record still names them."""
        with self._lock:
            self._open()
            if sha256(data).hexdigest() in self._record(slot).bodies:
                self._store.add(slot, data)

    def _fetched(self, client: GamedClient, info: SaveInfo) -> bytes:
        data = client.version(info.slot, info.version).data
        if sha256(data).hexdigest() != info.sha256:
            raise NotFound("version_gone", "The server has another save under this version.")
        return data


def put_local(client: GamedClient, slot: str, data: bytes, local: Local, base: SaveInfo | None) -> SaveInfo:
    return client.put(slot, data, base=base, content_type=local.content_type, meta=local.meta or None)


def _is_over(stop: threading.Event | Cancellation) -> bool:
    return stop.cancelled if isinstance(stop, Cancellation) else stop.is_set()


@contextlib.contextmanager
def _ended_by(stop: threading.Event | Cancellation, over: Cancellation) -> Iterator[None]:
    """Cancel `over` at `stop`; raise Cancelled if that is cancelled already."""
    if isinstance(stop, Cancellation):
        with stop.ends(over.cancel):
            yield
    else:
        threading.Thread(target=_cancel_at, args=(stop, over), daemon=True).start()  # an Event calls no function
        yield


def _cancel_at(stop: threading.Event, over: Cancellation) -> None:
    while not (over.cancelled or stop.wait(SLICE_SECONDS)):
        pass
    over.cancel()


def _signed_out() -> SignInRequired:
    return SignInRequired("signed_out", "No player is signed in here.")


def _check_round(error: GamedError) -> None:
    if isinstance(error, HALTING) or error.code == "local_disk":
        raise error


def _has_players(folder: Path) -> bool:
    """Return whether a player has signed in here before."""
    return folder.is_dir() and any("." not in path.name for path in folder.iterdir())


def _shown(status: Status) -> bool:
    return status.size is not None or status.state not in (IN_STEP, UNKNOWN)


def _is_slot(name: str) -> bool:
    """Return whether the name is a slot; a later protocol may list others."""
    with contextlib.suppress(Refused):
        return bool(path_of(name))
    return False


def safe_name(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) else sha256(name.encode()).hexdigest()


# --- The command line: gamed_client sync FOLDER -----------------------------------------------------------------------


@dataclass
class Mirror:
    """A folder that plays a game: each file with the name of a slot is the game's save.

    A file is changed before its record. After a crash in between it counts as the same bytes, or as a write.
    """

    sync: Sync
    folder: Path
    delete: bool
    before: dict[str, tuple[int, int]] | None = None
    """Size and time of each file at the last look of `--watch`. A file that still changes waits for the next one."""

    def bring_in(self) -> None:
        """Write the player's changes in the folder to the saves."""
        files = {path.name: path for path in self.folder.iterdir() if _is_slot(path.name) and path.is_file()}
        for slot, path in sorted(files.items()):
            if self._rests(path):
                data = path.read_bytes()
                if not self._holds(slot, data):
                    self.sync.write(slot, data)
        if self.delete:
            for slot in self.sync._known():
                if slot not in files and self.sync._record(slot).local:
                    self.sync.delete(slot)

    def bring_out(self) -> None:
        """Write the changes of other devices to the folder, and remove deleted files."""
        for slot in self.sync._known():
            status, path = self.sync.status(slot), self.folder / slot
            if path.exists() and not (status.state == NEWER and self._holds(slot, path.read_bytes())):
                continue
            try:
                if save := self.sync.peek(slot):
                    write_whole(path, save.data)
            except Deleted:
                path.unlink(missing_ok=True)
            except Unreachable:
                pass  # it has not arrived yet
            with contextlib.suppress(GamedError):
                self.sync.read(slot)

    def show(self, conflict: SyncConflict) -> str:
        """Write the server's save beside it, under a name that is not a slot."""
        theirs = conflict.theirs()
        if theirs is None:
            return f"{conflict.slot}: {conflict.reason} at the server, and changed here"
        write_whole(self.folder / f".{conflict.slot}.theirs", theirs.data)
        return f"{conflict.slot}: changed here and at the server; theirs is .{conflict.slot}.theirs"

    def settle(self, conflict: SyncConflict, keep: str) -> None:
        path = self.folder / conflict.slot
        if keep == "mine":
            conflict.keep_mine()
        else:
            theirs = conflict.theirs()
            if theirs is None:
                path.unlink(missing_ok=True)
            else:
                write_whole(path, theirs.data)
            conflict.keep_theirs()
        (self.folder / f".{conflict.slot}.theirs").unlink(missing_ok=True)

    def _rests(self, path: Path) -> bool:
        if self.before is None:
            return True
        found = path.stat()
        now = found.st_size, found.st_mtime_ns
        was, self.before[path.name] = self.before.get(path.name), now
        return was == now

    def _holds(self, slot: str, data: bytes) -> bool:
        local = self.sync._record(slot).local
        return local is not None and local.sha256 == sha256(data).hexdigest()


def run_folder(client: GamedClient, options: argparse.Namespace) -> tuple[Mapping[str, Any], str]:
    """Run `gamed_client sync FOLDER` once, or with --watch until interrupted."""
    options.files.mkdir(parents=True, exist_ok=True)
    with Sync(client) as sync:
        mirror = Mirror(sync, options.files, options.delete)
        for path in sorted(options.files.iterdir()):
            if not path.name.startswith(".") and not _is_slot(path.name):
                say(f"{path.name} stays here: not the name of a slot (a-z 0-9 . _ -).")
        if options.watch:
            _watch(mirror, options.keep)
        mirror.bring_in()
        sync.send()
        if options.keep:
            for conflict in sync.conflicts:
                mirror.settle(conflict, options.keep)
            sync.send()
        mirror.bring_out()
        shown = [mirror.show(conflict) for conflict in sync.conflicts]
        if shown:
            raise Conflict("version_conflict", "; ".join(shown) + ". Choose with --keep mine or --keep theirs.")
        found = sync.slots()
    lines = [f"{s.slot}\t{s.state}\t{s.size}\t{s.problem.code if s.problem else ''}".rstrip() for s in found]
    return {"slots": [_as_json(status) for status in found]}, "\n".join(lines)


def _watch(mirror: Mirror, keep: str | None) -> None:
    """Sync until interrupted, or until the sync itself ends."""
    sync, mirror.before = mirror.sync, {}
    shown: list[SyncConflict] = []
    problem = None
    sync.start(lambda status: say(f"{status.slot}: {status.state}"))
    while sync._thread is not None:
        if sync.problem is not problem:
            problem = sync.problem
            say(problem.detail if problem else "In touch again.")
        mirror.bring_in()
        mirror.bring_out()
        for conflict in sync.conflicts:
            if keep:
                mirror.settle(conflict, keep)
            elif conflict not in shown:
                shown.append(conflict)
                say(mirror.show(conflict))
        time.sleep(1)
    if sync.problem:
        raise sync.problem


def _as_json(status: Status) -> dict[str, Any]:
    return {**asdict(replace(status, problem=None)), "problem": status.problem.code if status.problem else None}
