"""Downloads: the files that a game loads, always those of one release.

    assets = Assets(client)                           # or Assets(client, Path("content")); sends no request
    assets.download("stable", progress=show)          # only new bytes; continues an interrupted one
    open(assets.path("data/level1.pck"), "rb")        # of the newest complete release; offline too

A download never changes the release that is in use: it adds another one beside it and then replaces `current` in one
step. Its folder, which any program may read:

    current                   the release to load, one line; replaced last
    releases/<release>/...    its files, under their own paths
    releases/<release>.json   its manifest; written once every file is there
    staging/                  files that have partly arrived, kept for the next download
    known                     files that were verified: they are not read again
    use/                      marks of the releases that processes have open
    lock                      held by the one process that downloads

Every failure is a GamedError. Methods may be called from any thread.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import http.client
import json
import os
import queue
import re
import secrets
import shutil
import stat
import sys
import threading
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from . import (
    DEVICES,
    LONGEST_PAUSE_SECONDS,
    TIMEOUT_SECONDS,
    TRIES,
    Answer,
    DownloadCorrupt,
    GamedClient,
    GamedError,
    LocalDamaged,
    NotFound,
    NotGamed,
    NotModified,
    Refused,
    SignInRequired,
    Unreachable,
    Wire,
    error_of,
    hang_up,
    member,
    on_disk,
    pause_after,
    read_answer,
    speaking_to,
    sync_folder,
    try_lock_file,
    write_whole,
)

WORKERS = 4
"""Connections at a time."""
PIECE_BYTES = 8 << 20
"""Larger files are fetched in pieces of this size, several at the same time."""
BLOCK_BYTES = 1 << 16
MAX_MANIFEST_BYTES = 32 << 20
MAX_FILES = 100_000
MAX_FILE_BYTES = (1 << 53) - 1
MAX_PATH_BYTES, MAX_NAME_BYTES = 1024, 255
SPARE_BYTES = 16 << 20
"""Bytes to leave free on the disk after a download."""
RESTARTS = 3
"""How often a download starts again because the server has deleted its release."""
TELL_SECONDS = 0.1

T = TypeVar("T")


class InUse(GamedError):
    """Another process is downloading into this folder."""


class DiskFull(LocalDamaged):
    """The release does not fit on this device; received bytes are kept for the next download."""


class Stopped(Exception):
    """Another thread of the same download has failed, or the game has cancelled it."""


class ProgressFailed(Exception):
    """The game's `progress` has raised an OSError, the argument of this: it is not one of the disk."""


# --- A release: validated before any part of it is used ----------------------------------------------------------

_RELEASE = re.compile(r"r[0-9a-f]{16}")
_CHANNEL = re.compile(r"[a-z][a-z0-9-]{0,31}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_NOT_ON_WINDOWS = frozenset('<>:"|?*\\')
_UNPRINTED = frozenset({"Cc", "Cs", "Zl", "Zp"})
_SUPERSCRIPTS = str.maketrans("\u00b9\u00b2\u00b3", "123")


@dataclass(frozen=True)
class AssetFile:
    """One file of a release: `size` in bytes, `type` a media type."""

    size: int
    sha256: str
    type: str

    @classmethod
    def of(cls, value: object) -> AssetFile:
        if isinstance(value, dict):
            size, digest = member(value, "size", int), member(value, "sha256", str)
            if not isinstance(size, bool) and 0 <= size <= MAX_FILE_BYTES and _SHA256.fullmatch(digest):
                return cls(size, digest, str(value.get("type") or "application/octet-stream"))
        raise NotGamed("not_gamed", "The release's list of files is malformed.")


@dataclass(frozen=True)
class Manifest:
    """The files of a release by their paths: relative, with `/`, valid on every file system that players have."""

    release: str
    published: str
    note: str
    meta: Mapping[str, Any]
    """Values that the owner wrote for the game."""
    files: Mapping[str, AssetFile]
    raw: bytes = field(repr=False, compare=False)

    @classmethod
    def of(cls, raw: bytes) -> Manifest:
        """Parse a manifest; raise NotGamed if this device must not store its files."""
        try:
            value = json.loads(raw, object_pairs_hook=_once_each)
        except (ValueError, RecursionError) as e:
            raise NotGamed("not_gamed", "The server's list of files is malformed.") from e
        if not isinstance(value, dict) or value.get("format") != 1:
            raise NotGamed("not_gamed", "The release has a format that this game does not know; update the game.")
        listed = member(value, "files", dict)
        if len(listed) > MAX_FILES:
            raise NotGamed("not_gamed", f"The release has more than {MAX_FILES} files.")
        refuse_paths(listed)
        files = {path: AssetFile.of(entry) for path, entry in listed.items()}
        sizes: dict[str, int] = {}
        for path, file in files.items():
            if sizes.setdefault(file.sha256, file.size) != file.size:
                raise NotGamed("not_gamed", f"The release gives {path!r} two sizes.")
        meta = value.get("meta")
        texts = str(value.get("published") or ""), str(value.get("note") or "")
        return cls(release_of(raw), *texts, meta if isinstance(meta, dict) else {}, files, raw)

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files.values())


def release_of(raw: bytes) -> str:
    """Return the id of a release: a hash of the exact bytes of its manifest."""
    return f"r{sha256(raw).hexdigest()[:16]}"


def _once_each(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a member appears twice")
    return found


def refuse_paths(paths: Iterable[str]) -> None:
    """Raise NotGamed unless all paths are valid and distinct files on every system."""
    files: set[str] = set()
    folders: set[str] = set()
    for path in paths:
        if problem := problem_of(path):
            raise NotGamed("not_gamed", f"The release has a file that must not be written here: {path!r} {problem}.")
        key = fold(path)
        above = ["/".join(key.split("/")[:depth]) for depth in range(1, key.count("/") + 1)]
        if key in files or key in folders or not files.isdisjoint(above):
            raise NotGamed("not_gamed", f"The release has two files, or a file and a folder, of one name: {path!r}.")
        files.add(key)
        folders.update(above)


def fold(path: str) -> str:
    """Return a key that is equal for paths which differ only in case."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def problem_of(path: str) -> str | None:
    """Return the reason why a file cannot have this path; None for a valid one."""
    try:
        names = [name.encode() for name in path.split("/")]
    except UnicodeEncodeError:
        return "is not text"
    if len(path.encode()) > MAX_PATH_BYTES or any(len(name) > MAX_NAME_BYTES for name in names):
        return "is too long"
    if any(name in (b"", b".", b"..") for name in names):
        return "leads elsewhere"
    plain = path.isascii() and path.isprintable()
    if not _NOT_ON_WINDOWS.isdisjoint(path) or not (plain or _UNPRINTED.isdisjoint(map(unicodedata.category, path))):
        return "has characters that some systems refuse"
    if unicodedata.normalize("NFC", path) != path:
        return "is not in the normal form NFC"
    return next(filter(None, map(_problem_of_name, path.split("/"))), None)


flaw_of = problem_of  # the older name, until 1.0


def _problem_of_name(name: str) -> str | None:
    if name[-1] in ". ":
        return "ends in a dot or a space"
    stem = name.partition(".")[0].rstrip(" ").lower()
    if stem in ("conin$", "conout$") or DEVICES.fullmatch(stem.translate(_SUPERSCRIPTS)):
        return "is a device on Windows"
    return None


# --- The disk ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def with_room() -> Iterator[None]:
    """Raise DiskFull on a full disk, LocalDamaged for another error of the disk; also a decorator."""
    try:
        with on_disk():
            yield
    except LocalDamaged as e:
        if isinstance(e.__cause__, OSError) and e.__cause__.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise disk_full() from e
        raise


def disk_full(missing: int = 0) -> DiskFull:
    more = f"{shown_bytes(missing)} more are needed" if missing else "free some space"
    return DiskFull("disk_full", f"This device has no room for the download: {more}, then start it again.")


class Known:
    """The hashes of verified files: a file with the same size and time is not read again.

    The file has a line per file, appended once that is on disk; a file whose line was lost in a crash is read again.
    """

    def __init__(self, path: Path, root: Path) -> None:
        self._path = path
        self._root = root
        self._lock = threading.Lock()
        self._found: dict[str, tuple[int, int, str]] = {}
        with contextlib.suppress(FileNotFoundError):
            for line in path.read_bytes().split(b"\n"):
                with contextlib.suppress(ValueError, TypeError):
                    name, size, time_ns, digest = json.loads(line)
                    self._found[str(name)] = int(size), int(time_ns), str(digest)

    def digest(self, file: Path, again: bool = False) -> str | None:
        """Return the hash of a file, or None if it is not a file; read it if the hash is not known, or `again`."""
        try:
            found = file.lstat()
            if not stat.S_ISREG(found.st_mode):
                return None
            kept = self._found.get(self._name(file))
            if kept and kept[:2] == (found.st_size, found.st_mtime_ns) and not again:
                return kept[2]
            digest = digest_of(file)
        except (FileNotFoundError, NotADirectoryError):
            return None
        self._note(file, found, digest)
        return digest

    def note(self, file: Path, digest: str) -> None:
        self._note(file, file.lstat(), digest)

    def _note(self, file: Path, found: os.stat_result, digest: str) -> None:
        entry = found.st_size, found.st_mtime_ns, digest
        with self._lock:
            self._found[self._name(file)] = entry
            with open(self._path, "ab") as lines:
                lines.write(b"\n" + json.dumps([self._name(file), *entry]).encode())

    def tidy(self) -> None:
        """Delete lines of deleted files, and repeated ones."""
        with self._lock:
            self._found = {name: entry for name, entry in self._found.items() if (self._root / name).exists()}
            lines = [json.dumps([name, *entry]).encode() for name, entry in self._found.items()]
            write_whole(self._path, b"\n".join(lines))

    def _name(self, file: Path) -> str:
        return file.relative_to(self._root).as_posix()


def digest_of(file: Path) -> str:
    digest = sha256()
    with open(file, "rb") as opened:
        while block := opened.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


@dataclass(frozen=True)
class Hold:
    """A locked mark: this process has the release open. The system releases it when the process dies."""

    release: str
    mark: Path
    handle: int

    def let_go(self) -> None:
        os.close(self.handle)
        with contextlib.suppress(OSError):
            self.mark.unlink()


class Place:
    """The folder that the top of this file describes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.releases, self.staging, self.use = root / "releases", root / "staging", root / "use"

    def make(self) -> None:
        for folder in (self.releases, self.staging, self.use):
            folder.mkdir(parents=True, exist_ok=True)

    @property
    def current(self) -> str | None:
        """Return the release that `current` names."""
        try:
            text = (self.root / "current").read_text("ascii", "replace").strip()
        except FileNotFoundError:
            return None
        return text if _RELEASE.fullmatch(text) else None

    def point(self, release: str) -> None:
        """Replace `current`; on Windows this fails while another process reads it."""
        for left in reversed(range(20)):
            try:
                write_whole(self.root / "current", f"{release}\n".encode())
                return
            except PermissionError:
                if not left:
                    raise
            time.sleep(0.05)

    def manifest(self, release: str) -> Manifest | None:
        """Return the manifest of a complete local release, or None for another one."""
        try:
            raw = self._manifest(release).read_bytes()
        except FileNotFoundError:
            return None
        if release_of(raw) != release:
            return None
        with contextlib.suppress(GamedError):
            return Manifest.of(raw)
        return None

    def keep_manifest(self, manifest: Manifest) -> None:
        """Mark the release as complete: its files and their names are on disk."""
        folder = self.folder(manifest.release)
        paths = [path.split("/") for path in manifest.files]
        for each in {folder, *(folder.joinpath(*names[:depth]) for names in paths for depth in range(len(names)))}:
            each.mkdir(parents=True, exist_ok=True)
            sync_folder(each)
        sync_folder(self.releases)
        write_whole(self._manifest(manifest.release), manifest.raw)

    def folder(self, release: str) -> Path:
        return self.releases / release

    def _manifest(self, release: str) -> Path:
        return self.releases / f"{release}.json"

    def files(self) -> Iterator[Path]:
        """Return every file of every release, complete or not."""
        for folder, _, names in os.walk(self.releases):
            if folder != str(self.releases):
                yield from (Path(folder, name) for name in names)

    # -- releases that processes have open --

    def hold(self) -> Hold | None:
        """Lock the current release against removal; return None if there is none."""
        while True:
            release = self.current
            if release is None or not self._manifest(release).exists():
                return None
            mark = self.use / f"{release}.{os.getpid()}-{secrets.token_hex(4)}"
            hold = Hold(release, mark, os.open(mark, os.O_RDWR | os.O_CREAT, 0o600))
            locked = try_lock_file(hold.handle)
            # a removal first replaces `current`, then reads the marks: check in the opposite order
            if locked and self.current == release and mark.exists() and self._manifest(release).exists():
                return hold
            hold.let_go()

    def held(self) -> set[str]:
        """Return the releases that a process has open; remove the marks of ended processes."""
        found = set()
        for mark in self.use.iterdir():
            with contextlib.suppress(OSError):
                handle = os.open(mark, os.O_RDWR)
                free = try_lock_file(handle)
                os.close(handle)
                if free:
                    mark.unlink()
                else:
                    found.add(mark.name.partition(".")[0])
        return found

    def remove_others(self, keep: str) -> None:
        """Delete unused releases; files that are still open on Windows are left to the next call."""
        spared = {keep, *self.held()}
        entries = [entry for entry in self.releases.iterdir() if entry.name.partition(".")[0] not in spared]
        torn = [path for path in self.root.iterdir() if path.name.startswith(".") and path.suffix == ".new"]
        for path in [*sorted(entries, key=Path.is_dir), *torn, *self.staging.iterdir()]:  # manifest first
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                with contextlib.suppress(OSError):
                    path.unlink()


def put_beside(source: Path, target: Path, temporary: Path) -> None:
    """Make a hard link to a file, or a copy on a file system without them."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        target.unlink()
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, temporary)
        with open(temporary, "rb+") as copied:
            os.fsync(copied.fileno())
        os.replace(temporary, target)


# --- The wire ---------------------------------------------------------------------------------------------------------


class Line:
    """One connection to the server, which one thread reuses for its requests. It never follows redirects."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._connection = wire.origin.connect(TIMEOUT_SECONDS)
        self._ended = False

    def close(self) -> None:
        self._connection.close()

    def hang_up(self) -> None:
        """End the wait of another thread for a response, which it does not request again."""
        self._ended = True
        if sock := self._connection.sock:
            hang_up(sock)

    def get(self, path: str, headers: Mapping[str, str], bearer: str | None) -> http.client.HTTPResponse:
        """Return a successful response with an unread body; raise GamedError."""
        fields = {"User-Agent": self._wire.agent, **headers}
        if bearer is not None:
            fields["Authorization"] = f"Bearer {bearer}"
        used = self._connection.sock is not None
        try:
            with speaking_to(self._wire.origin):
                self._connection.request("GET", path, headers=fields)
                response = self._connection.getresponse()
        except GamedError as error:
            self.close()
            if used and isinstance(error, Unreachable) and not self._ended:
                return self.get(path, headers, bearer)  # the server has closed the idle connection
            raise
        if 200 <= response.status < 300:
            return response
        with speaking_to(self._wire.origin):
            raise error_of(read_answer(response))

    def block(self, response: http.client.HTTPResponse, size: int) -> bytes:
        with speaking_to(self._wire.origin):
            found = response.read(size)
        if not found:
            raise Unreachable("unreachable", "The answer of the server broke off.")
        return found

    def done(self, response: http.client.HTTPResponse) -> None:
        """Finish a response; close the connection if its body was not read to the end."""
        if not response.isclosed():
            self.close()


@dataclass(frozen=True)
class Piece:
    """A range of a file, in a file of its own until all have arrived: that is as long as the received bytes."""

    file: AssetFile
    number: int
    part: Path

    @property
    def start(self) -> int:
        return self.number * PIECE_BYTES

    @property
    def size(self) -> int:
        return min(PIECE_BYTES, self.file.size - self.start)

    @property
    def base(self) -> Path:
        """Return the file of the first piece, to which the others are appended."""
        return self.part.with_suffix(".0")

    def arrived(self) -> int:
        """Return the bytes of a piece on disk; a piece without a file was appended to the first."""
        with contextlib.suppress(FileNotFoundError):
            return min(self.part.stat().st_size, self.size)
        with contextlib.suppress(FileNotFoundError):
            return self.size if self.base.stat().st_size >= self.start + self.size else 0
        return 0


def length_of(response: http.client.HTTPResponse, file: AssetFile, start: int, size: int) -> int:
    """Return the number of bytes before the wanted ones: 0, unless the server sends the whole file."""
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise NotGamed("not_gamed", "Something between here and the server changes the files on their way.")
    said = response.headers.get("Content-Range", "") if response.status == 206 else None
    expected = size if response.status == 206 else file.size
    if said not in (None, f"bytes {start}-{start + size - 1}/{file.size}") or response.length not in (None, expected):
        raise DownloadCorrupt("download_corrupt", "The server sends other bytes than its release has.")
    return 0 if response.status == 206 else start


class Access:
    """Requests that carry a token only if the server asks for one: public files do not need a sign-in."""

    def __init__(self, client: GamedClient) -> None:
        self.wire = client.wire
        self._client = client
        self._asked = False

    def ask(self, call: Callable[[str | None], T]) -> T:
        if not self._asked:
            try:
                return call(None)
            except SignInRequired as error:
                if error.code != "token_missing":
                    raise
            self._asked = True
        return self._client.with_token(call)


# --- A download -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Progress:
    """The progress for a bar. `stage`: looking (for files on this device), fetching, finishing."""

    stage: str
    release: str
    done: int
    """Bytes that are on this device."""
    size: int
    """Size of the release in bytes."""
    fetched: int
    """Bytes received over the network since the download began."""


@dataclass
class Missing:
    """A file to download, and the paths that it gets."""

    file: AssetFile
    targets: list[Path] = field(default_factory=list)
    awaited: int = 0
    """Number of pieces that have not arrived."""
    damaged: bool = False
    """True once it has arrived damaged; a second time ends the download."""


class Download:
    """The download of one release into the folder. Threads fetch missing files; the first failure ends all."""

    def __init__(self, access: Access, place: Place, known: Known, manifest: Manifest) -> None:
        self._access = access
        self._place = place
        self._known = known
        self._manifest = manifest
        self._stop = threading.Event()
        self._lock = threading.Lock()
        """Held for all attributes below, which the threads share."""
        self._pieces: queue.Queue[Piece] = queue.Queue()
        self._missing: dict[str, Missing] = {}
        """The keys are the hashes of the files."""
        self._errors: list[BaseException] = []
        self.changed = False
        """True if a file was missing or misplaced."""
        self.progress = Progress("looking", manifest.release, 0, manifest.size, 0)

    def run(self, tell: Callable[[Progress], object], again: bool = False) -> None:
        """Download all files into the release's folder, on disk when it returns; `again` verifies known files, too."""
        tell(self.progress)
        self._look(tell, again)
        self._make_room()
        for missing in self._missing.values():
            self._plan(missing)
        self._tell(tell, stage="fetching")
        lines = [Line(self._access.wire) for _ in range(min(WORKERS, self._pieces.qsize()))]
        threads = [threading.Thread(target=self._work, args=(line,), daemon=True) for line in lines]
        for thread in threads:
            thread.start()
        over = self._access.wire.cancellation
        try:
            with over.ends(self._stop.set):
                while threads and not self._stop.is_set():
                    threads[0].join(TELL_SECONDS)
                    threads = [thread for thread in threads if thread.is_alive()]
                    tell(self.progress)
        finally:
            self._stop.set()  # a thread has failed, `tell` has raised, Ctrl-C was pressed, or the client was cancelled
            while threads := [thread for thread in threads if thread.is_alive()]:
                for line in lines:
                    line.hang_up()  # again: one may only just have connected
                threads[0].join(TELL_SECONDS)
        over.check()
        if self._errors:
            raise self._errors[0]
        self._tell(tell, stage="finishing")

    # -- files on this device --

    def _look(self, tell: Callable[[Progress], object], again: bool) -> None:
        """Copy files of any local release, so that they are not downloaded again."""
        sizes = {file.size for file in self._manifest.files.values()}
        here: dict[str, Path] = {}
        found: dict[Path, str | None] = {}
        for held in self._place.files():
            with contextlib.suppress(FileNotFoundError):
                if held.lstat().st_size in sizes:
                    found[held] = digest = self._known.digest(held, again)
                    here.setdefault(digest or "", held)
            tell(self.progress)
            self._access.wire.cancellation.check()
        folder = self._place.folder(self._manifest.release)
        for path, file in self._manifest.files.items():
            target = folder / path
            if found.get(target) == file.sha256:
                self._count(done=file.size)
            elif file.sha256 in here:
                self._put(here[file.sha256], target, file.sha256)
                self._count(done=file.size)
            else:
                self.changed = True
                self._missing.setdefault(file.sha256, Missing(file)).targets.append(target)

    def _plan(self, missing: Missing) -> None:
        """Queue the pieces of a file; a thread fetches what is missing of each."""
        pieces = self._pieces_of(missing.file)
        missing.awaited = len(pieces)  # before a thread has one
        for piece in pieces:
            self._count(done=piece.arrived())
            self._pieces.put(piece)

    def _pieces_of(self, file: AssetFile) -> list[Piece]:
        numbers = range(max(1, -(-file.size // PIECE_BYTES)))
        return [Piece(file, number, self._place.staging / f"{file.sha256}.{number}") for number in numbers]

    def _make_room(self) -> None:
        """Check the free space before the download, and delete unneeded parts."""
        wanted, held = sum(missing.file.size for missing in self._missing.values()), 0
        for part in self._place.staging.iterdir():
            if part.name.partition(".")[0] in self._missing:
                held += part.lstat().st_size
            else:
                with contextlib.suppress(OSError):
                    part.unlink()
        needed = max(0, wanted - held) + SPARE_BYTES if self._missing else 0
        free = shutil.disk_usage(self._place.root).free
        if needed > free:
            raise disk_full(needed - free)

    # -- the threads --

    def _work(self, line: Line) -> None:
        try:
            while not self._stop.is_set():
                piece = self._pieces.get_nowait()
                self._fetch(line, piece)
                self._arrived(self._missing[piece.file.sha256])
        except (queue.Empty, Stopped):
            pass
        except BaseException as error:
            with self._lock:
                self._errors.append(error)
            self._stop.set()
        finally:
            line.close()

    def _fetch(self, line: Line, piece: Piece) -> None:
        """Fetch the rest of a piece; a try that received some bytes does not count."""
        attempt = 0
        while True:
            before = piece.arrived()
            try:
                self._stream(line, piece)
                return
            except GamedError as error:
                line.close()
                attempt = 0 if piece.arrived() > before else attempt
                pause = pause_after(error, attempt)
                if not error.passing or attempt + 1 == TRIES or pause > LONGEST_PAUSE_SECONDS:
                    raise
            if self._stop.wait(pause):
                raise Stopped
            attempt += 1

    def _stream(self, line: Line, piece: Piece) -> None:
        file, start, wanted = piece.file, piece.start + piece.arrived(), piece.size - piece.arrived()
        if not wanted:
            piece.base.touch()
            return
        headers = {"Range": f"bytes={start}-{start + wanted - 1}", "If-Range": f'"{file.sha256}"'}
        path, how = f"/assets/objects/{file.sha256}", headers if wanted < file.size else {}
        response = self._access.ask(lambda token: line.get(path, how, token))
        skip = length_of(response, file, start, wanted)
        with open(piece.part, "ab") as part:
            while wanted:
                if self._stop.is_set():
                    raise Stopped
                block = line.block(response, min(BLOCK_BYTES, skip or wanted))
                if skip:
                    skip -= len(block)
                    continue
                part.write(block)
                wanted -= len(block)
                self._count(done=len(block), fetched=len(block))
        line.done(response)

    def _arrived(self, missing: Missing) -> None:
        """Count a piece; after the last one join the file, verify it and move it to its paths."""
        with self._lock:
            missing.awaited -= 1
            if missing.awaited:
                return
        file, pieces = missing.file, self._pieces_of(missing.file)
        part = join(pieces)
        if digest_of(part) == file.sha256:
            for target in missing.targets:
                self._put(part, target, file.sha256)
            part.unlink()
            self._count(done=file.size * (len(missing.targets) - 1))
            return
        for piece in pieces:
            piece.part.unlink(missing_ok=True)
        if missing.damaged:
            raise DownloadCorrupt("download_corrupt", "A file of the release arrived damaged, twice.")
        missing.damaged = True
        self._count(done=-file.size)
        self._plan(missing)

    def _put(self, source: Path, target: Path, digest: str) -> None:
        put_beside(source, target, self._place.staging / secrets.token_hex(8))
        self._known.note(target, digest)
        self.changed = True

    def _count(self, *, done: int = 0, fetched: int = 0) -> None:
        with self._lock:
            was = self.progress
            self.progress = replace(was, done=was.done + done, fetched=was.fetched + fetched)

    def _tell(self, tell: Callable[[Progress], object], stage: str) -> None:
        with self._lock:
            self.progress = replace(self.progress, stage=stage)
        tell(self.progress)


def join(pieces: Sequence[Piece]) -> Path:
    """Append all pieces to the first, on disk when it returns; delete each then, so that a crash can be continued."""
    base = pieces[0].base
    with open(base, "rb+") as whole:
        for piece in pieces[1:]:
            if piece.part.exists():
                whole.seek(piece.start)
                with open(piece.part, "rb") as part:
                    shutil.copyfileobj(part, whole, 1 << 20)
                whole.flush()
                os.fsync(whole.fileno())
                piece.part.unlink()
        whole.truncate(pieces[0].file.size)
        whole.flush()
        os.fsync(whole.fileno())
    return base


# --- The interface of a game ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Release:
    """A complete release on this device; no process removes it before this one ends or calls `Assets.switch`."""

    id: str
    folder: Path
    manifest: Manifest = field(repr=False)

    def path(self, name: str) -> Path:
        """Return the path of a file of the release; raise NotFound."""
        if name not in self.manifest.files:
            raise NotFound("file_not_found", f"{name!r} is not in this release.")
        return self.folder / name


class Assets:
    """The releases of a server on this device. Only `download` sends requests."""

    @on_disk()
    def __init__(self, client: GamedClient, folder: Path | None = None) -> None:
        """Open the releases in `folder`, or in one beside the credential; it must not have other files."""
        self.folder = folder or client.folder / "assets" / client.place
        self._place = Place(self.folder)
        self._access = Access(client)
        self._lock = threading.RLock()
        self._open: tuple[Release, Hold] | None = None
        self._place.make()

    def __enter__(self) -> Assets:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # -- this device: no network --

    @property
    def current(self) -> Release | None:
        """The newest complete release at the first read of this property, unchanged until `switch`.

        None if no release was downloaded yet.
        """
        with self._lock:
            if self._open is None:
                self._open = self._newest()
            return self._open[0] if self._open else None

    def path(self, name: str) -> Path:
        """Return the path of a file of the current release; raise NotFound, or Unreachable without a release."""
        release = self.current
        if release is None:
            raise Unreachable("not_arrived", "The game's files have not been downloaded yet.")
        return release.path(name)

    def switch(self) -> Release | None:
        """Change to the newest complete release; call it when the game has closed the files of the old one."""
        with self._lock:
            newest = self._newest()
            self.close()
            self._open = newest
        return newest[0] if newest else None

    def close(self) -> None:
        """Let other processes remove the release that this one had open."""
        with self._lock:
            if self._open:
                self._open[1].let_go()
            self._open = None

    @on_disk()
    def _newest(self) -> tuple[Release, Hold] | None:
        hold = self._place.hold()
        if hold is None:
            return None
        manifest = self._place.manifest(hold.release)
        if manifest is None:
            hold.let_go()
            return None
        return Release(hold.release, self._place.folder(hold.release).absolute(), manifest), hold

    # -- the server --

    def download(
        self,
        channel: str = "stable",
        *,
        progress: Callable[[Progress], object] = lambda _: None,
        verify: bool = False,
    ) -> Manifest:
        """Download a channel's release, or one by its id; it is complete and current when this returns.

        Bytes that are here already are not fetched; `verify` checks all of them first. `progress` is called often, in
        this thread; it may raise to end the download. Received bytes are kept for the next download. `current` stays
        as it is until `switch`. Raise NotFound, SignInRequired if files are for players only, DiskFull,
        LocalDamaged, DownloadCorrupt, InUse, Unreachable and other errors of requests.
        """

        def tell(shown: Progress) -> None:
            try:
                progress(shown)
            except OSError as error:
                raise ProgressFailed(error) from error

        try:
            return self._download(channel, tell, verify)
        except ProgressFailed as failed:
            raise failed.args[0] from None

    @with_room()
    def _download(self, channel: str, progress: Callable[[Progress], object], verify: bool) -> Manifest:
        if not (_CHANNEL.fullmatch(channel) or _RELEASE.fullmatch(channel)):
            raise Refused("invalid_channel", "A channel's name has 1-32 of a-z 0-9 - and begins with a letter.")
        with self._alone():
            for left in reversed(range(RESTARTS)):
                manifest = self._manifest(channel)
                try:
                    self._fetch(manifest, progress, verify)
                    return manifest
                except NotFound:  # the owner has removed it meanwhile: try the newer one
                    if not left:
                        raise
        raise AssertionError("RESTARTS is at least 1")

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        handle = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if not try_lock_file(handle):
                raise InUse("in_use", "Another process is downloading into this folder.")
            yield
        finally:
            os.close(handle)

    def _manifest(self, channel: str) -> Manifest:
        """Read the manifest. Later requests name its release, so that a publication meanwhile does not matter."""
        current = self._place.current
        here = self._place.manifest(current) if current else None
        headers = {"If-None-Match": f'"{here.release}"'} if here else {}
        get = partial(self._access.wire.call, "GET", f"/assets/{channel}", headers=headers)
        try:
            answer = self._access.ask(lambda token: get(bearer=token, check=check_release, limit=MAX_MANIFEST_BYTES))
        except NotModified:
            if here is None:
                raise
            return here
        return Manifest.of(answer.body)

    def _fetch(self, manifest: Manifest, progress: Callable[[Progress], object], verify: bool) -> None:
        known = Known(self.folder / "known", self.folder)
        download = Download(self._access, self._place, known, manifest)
        download.run(progress, verify)
        if download.changed or self._place.manifest(manifest.release) is None:
            self._place.keep_manifest(manifest)
        if self._place.current != manifest.release:
            self._place.point(manifest.release)
        self._place.remove_others(manifest.release)
        if download.changed or verify:
            known.tidy()


def check_release(answer: Answer) -> None:
    """Raise DownloadCorrupt unless the manifest has the hash that the release is named by."""
    named = answer.headers.get("Asset-Release") or answer.headers.get("ETag", "").strip().partition('"')[2].rstrip('"')
    if not _RELEASE.fullmatch(named):
        raise NotGamed("not_gamed", "The server's answer lacks 'ETag'.")
    if release_of(answer.body) != named:
        raise DownloadCorrupt("download_corrupt", "The list of files arrived damaged.")


# --- The command line: gamed_client assets FOLDER ---------------------------------------------------------------------


class Bar:
    """A progress bar on a terminal; prints nothing elsewhere."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._drawn = ""
        self.last: Progress | None = None

    def __call__(self, progress: Progress) -> None:
        self.last = progress
        line = self.line(progress, time.monotonic() - self._began)
        if sys.stderr.isatty() and line != self._drawn:
            print(f"\r{line.ljust(len(self._drawn))}", end="", file=sys.stderr, flush=True)
            self._drawn = line

    def line(self, progress: Progress, seconds: float) -> str:
        share = progress.done / progress.size if progress.size else 1.0
        filled = int(share * 20)
        rate = f"  {shown_bytes(int(progress.fetched / seconds))}/s" if progress.fetched and seconds > 1 else ""
        amount = f"{shown_bytes(progress.done)} of {shown_bytes(progress.size)}"
        return f"{progress.stage:9} [{'#' * filled}{'.' * (20 - filled)}] {share:4.0%}  {amount}{rate}"

    def end(self) -> None:
        if self._drawn:
            print(file=sys.stderr)


def shown_bytes(size: int) -> str:
    value, units = float(size), iter(("bytes", "KiB", "MiB", "GiB", "TiB"))
    unit = next(units)
    while value >= 1000 and unit != "TiB":
        value, unit = value / 1024, next(units)
    return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"


def run_assets(client: GamedClient, options: argparse.Namespace) -> tuple[Mapping[str, Any], str]:
    """Run `gamed_client assets FOLDER`."""
    with Assets(client, options.files) as assets:
        fetched = 0
        if not options.offline:
            bar = Bar()
            try:
                assets.download(options.channel, progress=bar, verify=options.verify)
            finally:
                bar.end()
            fetched = bar.last.fetched if bar.last else 0
        release = assets.current
        if release is None:
            raise NotFound("release_not_found", "No release has been downloaded into this folder yet.")
        manifest = release.manifest
    found = {"release": release.id, "note": manifest.note, "published": manifest.published, "meta": manifest.meta}
    amounts = {"folder": str(release.folder), "files": len(manifest.files), "size": manifest.size, "fetched": fetched}
    words = f"{len(manifest.files)} files, {shown_bytes(manifest.size)}, of which {shown_bytes(fetched)} were fetched"
    return {**found, **amounts}, f"{release.id} is in {release.folder}: {words}."
