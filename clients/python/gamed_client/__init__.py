"""Reference client of a gamed server, protocol 1.0: sign in, stay signed in, keep saves.

Standard library only, Python 3.9 or newer: copy this folder into a game, or run it. With the package segno installed
it can also show a sign-in's link as a QR code.

    client = GamedClient("https://play.example.org", app="mygame")
    if client.ensure_signed_in(MyDialogs()):          # a Person: how the game asks the player; or Terminal()
        save = client.get("auto")                     # None: never saved
        client.put("auto", b"...", base=save)         # raises Conflict, and loses neither side

    python -m gamed_client --server https://play.example.org login

To play offline too, use gamed_client.sync: it keeps the newest bytes on the device and sends them when the server can
be reached. gamed_client.assets downloads the files that a game loads: a release, and only the changes of the next one.
gamed_client.aio has the same calls for asyncio.

Every failure is a GamedError with the `code` of the protocol and a `detail` that a person can read.
Methods may be called from any thread; several processes may share one sign-in.
"""

from __future__ import annotations

import argparse
import base64
import binascii
import contextlib
import copy
import errno
import hashlib
import http.client
import http.server
import json
import locale as locales
import os
import queue
import random
import re
import socket
import socketserver
import ssl
import struct
import sys
import tempfile
import threading
import time
import webbrowser
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar, cast
from urllib.parse import parse_qs, quote, urlencode, urlsplit

if sys.platform == "win32":
    import ctypes
    import msvcrt
else:
    import fcntl

__version__ = "1.0.0rc1"

TIMEOUT_SECONDS = 15.0
TRIES = 4
LOCK_SECONDS = 0.05
"""Between two tries to lock a file that another thread or process has."""
LONGEST_PAUSE_SECONDS = 30.0
EARLY_SECONDS = 30.0
"""The client refreshes an access token this long before it expires, at most."""
EARLY_SHARE = 0.1
"""The client refreshes a short-lived access token when this share of its lifetime is left."""
RETURN_SECONDS = 5.0
"""How long to wait for the browser's return before offering a code, and how long the return waits for its response."""
MAX_JSON_BYTES = 4 << 20
MAX_RETURN_CHARACTERS = 4096
"""Most characters of the browser's return after the app's own address."""
EXPORT_SECONDS = 120.0
"""The server may take this long to prepare an export before it sends the first byte."""
LONGEST_EXPORT_PAUSE_SECONDS = 60.0
"""The server answers `busy` with 30 seconds while an export whose connection broke still runs."""
ASK_FIRST_BYTES = 64 << 10
"""A commit asks the server first whether it has the bytes of a save that is larger than this."""
MAX_SAVE_BYTES = 256 << 20

T = TypeVar("T")


# --- Errors: one class for each thing a game does about them, chosen by `code` ---------------------------------------


class GamedError(Exception):
    """A failure: `code` is for the program, `detail` for the person. The client has retried `passing` ones already."""

    passing = False

    def __init__(self, code: str, detail: str, *, status: int = 0, problem: Mapping[str, Any] | None = None) -> None:
        super().__init__(f"{detail} ({code})")
        self.code = code
        self.detail = detail
        self.status = status
        """HTTP status; 0 if the error comes from the client itself."""
        self.problem = dict(problem or {})
        """Every member of the problem (RFC 9457)."""
        self.retry_after: float | None = None
        self.answer_lost_before = False
        """An earlier try of the same request got no response: the server may have performed it already."""


class Unreachable(GamedError):
    """The response is missing or incomplete, or comes from a front proxy that cannot reach its server."""

    passing = True


class Busy(GamedError):
    """The server cannot perform the request now."""

    passing = True


class RateLimited(GamedError):
    """Too many requests; the server accepts the next one after `retry_after` seconds."""

    passing = True


class DownloadCorrupt(GamedError):
    """The received bytes do not match the digest that the server sent."""

    passing = True


class NotGamed(GamedError):
    """The server at this address does not speak this protocol."""


class UntrustedAddress(GamedError):
    """An address that must not be used: plain http on the network, or a link to another server."""


class Refused(GamedError):
    """The server rejected the request; sending it again gives the same error."""


class SignInRequired(GamedError):
    """A sign-in is needed: none is stored here, or its session has ended."""


class PlayerChanged(SignInRequired):
    """Another player has signed in on this device meanwhile; nothing was read or written in their name."""


class PlayerBlocked(GamedError):
    """The owner of this server does not let the player in."""


class LocalDamaged(GamedError):
    """This device cannot read or write a file (`local_disk`), or a file does not have the bytes that were written."""


@contextlib.contextmanager
def on_disk() -> Iterator[None]:
    """Raise LocalDamaged for an error of this device's disk; also a decorator."""
    try:
        yield
    except OSError as e:
        reason = e.strerror or "the reason is unknown"
        raise LocalDamaged("local_disk", f"This device cannot read or write a file: {reason}.") from e


class LoginFailed(GamedError):
    """The sign-in ended without credentials; start another one."""


class LoginDeclined(LoginFailed):
    """The player declined, in the browser or at the provider."""


class LoginCancelled(LoginFailed):
    """The game or the player cancelled the sign-in on this device."""


class LoginExpired(LoginFailed):
    """The player did not finish the sign-in in time."""


class InvalidProof(GamedError):
    """The finish code is wrong; `attempts_left` is the number of further attempts."""

    @property
    def attempts_left(self) -> int:
        return optional(self.problem, "attempts_left", int) or 0


class NotFound(GamedError):
    """The server has no such save, version, session, channel or file."""


class Deleted(NotFound):
    """The save was deleted; its versions can still be restored."""


class NotModified(GamedError):
    """The version that was passed is the current one (304)."""


class BaseRequired(GamedError):
    """The slot exists: pass the version that this write is based on."""


class Conflict(GamedError):
    """Another device wrote first. The server kept your bytes too, as `yours`, unless `detail` gives a reason."""

    @property
    def base(self) -> SaveInfo | None:
        return SaveInfo.maybe(self.problem.get("base"))

    @property
    def current(self) -> SaveInfo | None:
        return SaveInfo.maybe(self.problem.get("current"))

    @property
    def yours(self) -> SaveInfo | None:
        return SaveInfo.maybe(self.problem.get("yours"))

    @property
    def slots(self) -> list[SlotConflict]:
        """The sides of each slot whose base did not match; empty unless from `commit`."""
        found = listed if isinstance(listed := self.problem.get("conflicts"), list) else []
        return [SlotConflict.of(entry) for entry in found if isinstance(entry, dict)]


class QuotaExceeded(GamedError):
    """The player has reached a limit; see `problem["limit"]` and `problem["usage"]`."""


class StorageFull(GamedError):
    """The owner's disk is full."""


class SaveCorrupt(GamedError):
    """The server's copy is damaged; `detail` names the newest good version."""


ERRORS: Mapping[type[GamedError], str] = {
    Busy: "busy shutting_down unhealthy store_unavailable provider_unavailable request_timeout",
    RateLimited: "rate_limited",
    SignInRequired: "token_missing token_expired token_invalid session_revoked "
    "refresh_expired refresh_reused refresh_invalid reauthentication_required",
    PlayerBlocked: "player_blocked player_pending registration_closed",
    LoginFailed: "device_secret_invalid login_collected",
    InvalidProof: "invalid_proof",
    Deleted: "deleted erased",
    NotFound: "save_not_found version_gone session_not_found channel_not_found release_not_found file_not_found",
    BaseRequired: "precondition_required",
    Conflict: "version_conflict superseded",
    QuotaExceeded: "save_too_large quota_exceeded too_many_slots",
    StorageFull: "storage_full",
    SaveCorrupt: "corrupt_blob",
}
BY_CODE = {code: error for error, codes in ERRORS.items() for code in codes.split()}

LOGIN_ERRORS: Mapping[type[LoginFailed], str] = {
    LoginDeclined: "login_denied provider_denied",
    LoginCancelled: "login_cancelled",
    LoginExpired: "login_expired",
}
LOGIN_BY_CODE = {code: error for error, codes in LOGIN_ERRORS.items() for code in codes.split()}

FORGET = frozenset({"refresh_expired", "refresh_reused", "refresh_invalid", "session_revoked"})
"""The only codes after which the client deletes a refresh credential (docs/protocol.md: Rules for clients)."""
RENEW = frozenset({"token_expired", "token_invalid"})
ENDED = frozenset({"session_not_found", "session_revoked", "token_invalid", "refresh_invalid", "signed_out"})
"""Codes of requests in a session that this client has just ended."""


def error_of(answer: Answer) -> GamedError:
    """Return the error of a response that is not a success, by its `code`."""
    problem: Mapping[str, Any] = {}
    if answer.media_type == "application/problem+json":
        with contextlib.suppress(NotGamed):
            problem = answer.json()
    code, detail = problem.get("code"), problem.get("detail") or problem.get("title")
    if not isinstance(code, str):
        error = _error_of_status(answer)
    else:
        kind = Conflict if (code, answer.status) == ("deleted", 412) else BY_CODE.get(code, Refused)
        error = kind(code, str(detail or code), status=answer.status, problem=problem)
    retry_after = answer.headers.get("Retry-After", "")
    if retry_after.isascii() and retry_after.isdigit():
        error.retry_after = float(retry_after[:6])
    return error


def _error_of_status(answer: Answer) -> GamedError:
    """Return the error of a response without a problem: gamed always sends one, so a proxy has responded."""
    status = answer.status
    if status == 304:
        return NotModified("not_modified", "You have the current version.", status=status)
    if status == 429:
        return RateLimited("rate_limited", "Too many requests; try again later.", status=status)
    if status in (408, 502, 503, 504):
        return Unreachable("unreachable", f"The server is away for the moment (HTTP {status}).", status=status)
    if 300 <= status < 400:
        return NotGamed("not_gamed", f"This address leads elsewhere (HTTP {status}).", status=status)
    return NotGamed("not_gamed", f"No gamed server answers at this address (HTTP {status}).", status=status)


def member(of: Mapping[str, Any], name: str, kind: type[T]) -> T:
    """Return a required member of the protocol; raise NotGamed unless it has this type."""
    value = of.get(name)
    if not isinstance(value, kind):
        raise NotGamed("not_gamed", f"The server's answer lacks {name!r}.")
    return value


def optional(of: Mapping[str, Any], name: str, kind: type[T]) -> T | None:
    """Return a member of the protocol; None if it is missing or has another type."""
    return value if isinstance(value := of.get(name), kind) else None


def entries(of: Mapping[str, Any], name: str, parse: Callable[[Mapping[str, Any]], T]) -> list[T]:
    """Parse the objects in a required list of the protocol; ignore entries that are no objects."""
    return [parse(entry) for entry in member(of, name, list) if isinstance(entry, dict)]


# --- Addresses --------------------------------------------------------------------------------------------------------

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
PORTS = {"https": 443, "http": 80}
_HOST = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*|[0-9a-f:.]+")
_URL = re.compile(r"[A-Za-z0-9._~:/?#\[\]@!$&()*+,;=%-]{1,2048}")


@dataclass(frozen=True)
class Origin:
    """Scheme, host and port: the identity of a server. https, or http on this machine only."""

    scheme: str
    host: str
    port: int

    @classmethod
    def entered(cls, address: str) -> Origin:
        """Parse an address as players type it, such as `play.example.org` or `https://play.example.org:8443`."""
        address = address.strip()
        if "://" not in address:
            host = cls._split("https://" + address).host
            address = ("http://" if host in LOOPBACK else "https://") + address
        origin = cls._split(address)
        parts = urlsplit(address)
        if parts.path not in ("", "/") or parts.query or parts.fragment:
            raise UntrustedAddress("untrusted_address", f"Enter only the name of the server: {origin}")
        return origin

    @classmethod
    def of(cls, url: str) -> Origin:
        """Parse a URL that a server sent; reject, not repair, an unusual one."""
        if not _URL.fullmatch(url):
            raise UntrustedAddress("untrusted_address", "The link has characters that do not belong in one.")
        return cls._split(url)

    @classmethod
    def _split(cls, url: str) -> Origin:
        try:
            parts = urlsplit(url)
            host = (parts.hostname or "").encode("idna").decode().rstrip(".")
            port = PORTS.get(parts.scheme, 0) if parts.port is None else parts.port
        except ValueError as e:  # UnicodeError too
            raise UntrustedAddress("untrusted_address", "That is not the address of a server.") from e
        if not _HOST.fullmatch(host) or "@" in parts.netloc or parts.scheme not in PORTS or not port:
            raise UntrustedAddress("untrusted_address", "That is not the address of a server.")
        if parts.scheme == "http" and host not in LOOPBACK:
            raise UntrustedAddress("untrusted_address", f"{host} needs https://, so that others cannot listen in.")
        return cls(parts.scheme, host, port)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" + ("" if self.port == PORTS[self.scheme] else f":{self.port}")

    def require(self, url: str) -> str:
        """Return `url` if it has this origin, else raise: a server must not send a player's browser elsewhere."""
        other = Origin.of(url)
        if other != self:
            detail = f"{self} sends you to {other}. If that is its true address, enter that one instead."
            raise UntrustedAddress("untrusted_address", detail)
        return url

    def connect(self, timeout: float) -> http.client.HTTPConnection:
        if self.scheme == "http":
            return http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(self.host, self.port, timeout=timeout, context=context)


# --- The wire ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)

    @property
    def media_type(self) -> str:
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    def json(self) -> dict[str, Any]:
        try:
            value = json.loads(self.body)
        except (ValueError, RecursionError) as e:
            raise NotGamed("not_gamed", "The server's answer is not JSON.", status=self.status) from e
        if not isinstance(value, dict):
            raise NotGamed("not_gamed", "The server's answer is not a JSON object.", status=self.status)
        return value


class Cancelled(Exception):
    """The call was cancelled, see `Cancellation`; its write may have reached the server all the same."""


class Cancellation:
    """A way to end calls early from another thread: pass it to `GamedClient.cancellable`, and `cancel` it once."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._waits: list[Callable[[], object]] = []

    @property
    def cancelled(self) -> bool:
        return self._event.is_set()

    def cancel(self) -> None:
        """End the waits of all calls that use this; they raise Cancelled, as every later call does."""
        with self._lock:
            self._event.set()
            waits = tuple(self._waits)
        for end in waits:
            end()

    def check(self) -> None:
        if self.cancelled:
            raise Cancelled

    def wait(self, seconds: float) -> None:
        self._event.wait(seconds)

    @contextlib.contextmanager
    def ends(self, end: Callable[[], object]) -> Iterator[None]:
        """Call `end`, which must not raise, if `cancel` is called while the block waits."""
        with self._lock:
            self.check()
            self._waits.append(end)
        try:
            yield
        finally:
            with self._lock:
                self._waits.remove(end)


@dataclass(frozen=True)
class Wire:
    """Requests to one server. They do not follow redirects, keep cookies or use proxies."""

    origin: Origin
    agent: str
    sleep: Callable[[float], None] | None = None
    """Replaced by tests; None also waits for the cancellation."""
    tries: int = TRIES
    cancellation: Cancellation = field(default_factory=Cancellation)

    def call(
        self,
        method: str,
        path: str,
        *,
        json_body: Mapping[str, Any] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        bearer: str | None = None,
        check: Callable[[Answer], None] = lambda answer: None,
        limit: int = MAX_JSON_BYTES,
        timeout: float = TIMEOUT_SECONDS,
        tries: int | None = None,
    ) -> Answer:
        """Return a successful response; raise GamedError.

        Passing failures are retried, so the server may receive the request twice. `check` validates the response as
        part of a try. `limit` is in bytes, `timeout` in seconds for each step on the network.
        """
        fields = {"User-Agent": self.agent, "Connection": "close", **(headers or {})}
        if json_body is not None:
            body, fields["Content-Type"] = json.dumps(json_body).encode(), "application/json"
        if bearer is not None:
            fields["Authorization"] = f"Bearer {bearer}"
        lost, tries = False, tries or self.tries
        self.cancellation.check()  # before the connection, whose beginning cannot be ended early
        for attempt in range(tries):
            try:
                answer = self._once(method, path, body, fields, limit=limit, timeout=timeout)
                check(answer)
                return answer
            except GamedError as error:
                if self.cancellation.cancelled:
                    raise Cancelled from error
                error.answer_lost_before = lost
                pause = pause_after(error, attempt)
                if not error.passing or attempt + 1 == tries or pause > LONGEST_PAUSE_SECONDS:
                    raise
                lost = lost or isinstance(error, Unreachable)
            self.pause(pause)
        raise AssertionError("tries is at least 1")

    def pause(self, seconds: float) -> None:
        """Wait before the next try; raise Cancelled."""
        (self.sleep or self.cancellation.wait)(seconds)
        self.cancellation.check()

    def _once(
        self, method: str, path: str, body: bytes | None, fields: Mapping[str, str], *, limit: int, timeout: float
    ) -> Answer:
        with self.connected(timeout, sends=bool(body)) as connection, speaking_to(self.origin):
            # a server that refuses an upload responds and closes before it has read all: read that response
            with contextlib.suppress(BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
                connection.request(method, path, body, dict(fields))
            answer = read_answer(connection.getresponse(), limit)
        if not 200 <= answer.status < 300:
            raise error_of(answer)
        return answer

    @contextlib.contextmanager
    def connected(self, timeout: float, sends: bool = False) -> Iterator[http.client.HTTPConnection]:
        """Open a connection for the block; a cancellation ends the block's waits. `sends`: a request with a body."""
        connection = self.origin.connect(timeout)
        try:
            with speaking_to(self.origin):
                connection.connect()
            sock = connection.sock  # http.client forgets it before the body is read
            with self.cancellation.ends(lambda: hang_up(sock, sends)):
                yield connection
        finally:
            connection.close()


@contextlib.contextmanager
def speaking_to(origin: Origin) -> Iterator[None]:
    """Turn errors of the network into a GamedError."""
    try:
        yield
    except ssl.SSLCertVerificationError as e:
        detail = f"{origin} cannot prove that it is {origin.host}: {e.verify_message}."
        raise UntrustedAddress("untrusted_certificate", detail) from e
    except (OSError, http.client.HTTPException) as e:
        detail = f"{origin} does not answer. Check the address and the network."
        raise Unreachable("unreachable", detail) from e


def hang_up(sock: socket.socket, sends: bool = False) -> None:
    """End the waits of another thread on this socket, as if the server had closed it; the other thread closes it.

    Unless a body is sent, that resets the connection: after an orderly end gamed keeps a waiting request for 5 seconds.
    """
    how = socket.SHUT_RDWR if sends or sys.platform == "win32" else socket.SHUT_RD
    with contextlib.suppress(OSError):
        if how == socket.SHUT_RD:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        # not SSLSocket.shutdown, which clears the TLS object while the other thread may be using it
        socket.socket.shutdown(sock, how)


def read_answer(response: http.client.HTTPResponse, limit: int = MAX_JSON_BYTES) -> Answer:
    """Read a whole response, also one of an error; raise Unreachable if it ends too early."""
    parts, size = [], 0
    while part := response.read(1 << 16):
        parts.append(part)
        size += len(part)
        if size > limit:
            raise NotGamed("not_gamed", "The server's answer is larger than any expected here.")
    if response.length or (response.length is None and not (response.chunked or response.status in (204, 304))):
        # the second: http.client accepts an interrupted head as complete, but gamed sends every length
        raise Unreachable("unreachable", "The answer of the server broke off.")
    return Answer(response.status, cast("Mapping[str, str]", response.headers), b"".join(parts))


def pause_after(error: GamedError, attempt: int) -> float:
    """Return the seconds before the next try: Retry-After, else doubling; random, so that clients spread out."""
    if error.retry_after is not None:
        return error.retry_after + random.uniform(0, min(error.retry_after, 3.0) + 0.1)
    return random.uniform(0.1, min(8.0, 0.5 * 2**attempt))


# --- Kept between runs ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Credential:
    """One sign-in of one player at one server."""

    origin: str
    player_id: str
    session_id: str
    provider: str
    refresh_credential: str = field(repr=False)
    access_token: str = field(repr=False)
    access_expires: float
    """Seconds since 1970 by this machine's clock."""
    access_lifetime: float | None = None
    """Seconds; None in credentials that older versions of this client stored."""
    player_name: str | None = None
    """The name that games show, as the server sent it last; None as before, and for a player without one."""

    def fresh(self, now: float) -> bool:
        """Return whether the access token can be used at `now` without a refresh."""
        share = EARLY_SECONDS if self.access_lifetime is None else self.access_lifetime * EARLY_SHARE
        return now < self.access_expires - min(EARLY_SECONDS, share)


def name_of(player: Mapping[str, Any]) -> str | None:
    return optional(player, "name", str)


def system_locale(environ: Mapping[str, str] = os.environ) -> str:
    """Return this system's language as the system calls it; "" if it is not known."""
    if sys.platform == "win32":  # getlocale would give `German_Germany`
        return locales.windows_locale.get(ctypes.windll.kernel32.GetUserDefaultUILanguage(), "")
    names = (environ.get(name, "") for name in ("LC_ALL", "LC_MESSAGES", "LANG"))
    return next(filter(None, names), "")


def locale_tag(name: str) -> str:
    """Return a language as a tag of BCP 47: `pt_BR.UTF-8` is `pt-BR`; "" for `C` and others that name no language."""
    found = re.match(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8}){0,3}(?![A-Za-z0-9])", name)
    return found[0].replace("_", "-") if found else ""


def state_folder(app: str, platform: str = sys.platform, environ: Mapping[str, str] = os.environ) -> Path:
    """Return this platform's folder for the state of programs, which people do not edit."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}", app):
        raise ValueError("app: letters, digits, space, '.', '_', '-'")
    home = Path.home()
    if platform == "win32":
        base = Path(environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif platform == "darwin":
        base = home / "Library" / "Application Support"
    else:
        base = Path(environ.get("XDG_STATE_HOME") or home / ".local" / "state")
    return base / app


class CredentialFile:
    """The credential of one origin, in a file that only this user can read; changed only while `locked`."""

    def __init__(self, folder: Path, origin: Origin) -> None:
        readable = re.sub(r"[^a-z0-9.-]", "_", origin.host)
        unique = hashlib.sha256(str(origin).encode()).hexdigest()[:12]
        self.path = folder / f"{readable}-{unique}.json"
        self._origin = str(origin)
        self._threads = threading.Lock()

    @contextlib.contextmanager
    def locked(self, cancellation: Cancellation | None = None) -> Iterator[None]:
        """Lock the file for one thread of one process; the system releases it when the process dies.

        `cancellation` ends the wait for the lock.
        """
        over = cancellation or Cancellation()
        while not self._threads.acquire(timeout=LOCK_SECONDS):
            over.check()
        try:
            with on_disk():
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                handle = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
            try:
                while not try_lock_file(handle):
                    over.wait(LOCK_SECONDS)
                    over.check()
                yield
            finally:
                os.close(handle)
        finally:
            self._threads.release()

    @on_disk()
    def read(self) -> Credential | None:
        """Read the credential; return None without a signed-in player, or if the file is not a credential."""
        try:
            value = {"access_lifetime": None, "player_name": None, **json.loads(self.path.read_text("utf-8"))}
            credential = Credential(**{name: value[name] for name in Credential.__dataclass_fields__})
            credential.fresh(0.0)  # raises TypeError for times that are not numbers
        except (FileNotFoundError, ValueError, KeyError, TypeError, RecursionError):
            return None
        return credential if credential.origin == self._origin else None

    @on_disk()
    def write(self, credential: Credential) -> None:
        """Write the credential, on disk when it returns: the loss of a pair that was used would end the session."""
        write_whole(self.path, json.dumps(asdict(credential)).encode())

    @on_disk()
    def delete(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()
            sync_folder(self.path.parent)


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file atomically, on disk when it returns; only this user can read it."""
    with replaced(path) as file:
        file.write(data)
    sync_folder(path.parent)


@contextlib.contextmanager
def replaced(path: Path) -> Iterator[IO[bytes]]:
    """Open a new file that replaces `path` atomically at the end of the block, or is deleted if the block raises."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".new")  # 0600 from the start
    try:
        with os.fdopen(handle, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def try_lock_file(handle: int) -> bool:
    """Try to lock a file without waiting; return False if another process has the lock.

    On file systems without locks two processes may refresh at once, which the server accepts for 30 s.
    """
    try:
        if sys.platform == "win32":
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in (errno.EACCES, errno.EAGAIN, errno.EDEADLK)  # else the file system has no locks
    return True


def sync_folder(folder: Path) -> None:
    if sys.platform != "win32":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


# --- The sign-in ------------------------------------------------------------------------------------------------------


class LoginProvider(NamedTuple):
    """A provider of the server: its name in requests, and the text of its button."""

    name: str
    label: str


class Person:
    """The interface between a sign-in and the person in front of the screen. A game implements it or uses Terminal."""

    def choose_provider(self, providers: Sequence[LoginProvider]) -> str:
        """Show a button with the label of each; return the name of the chosen one. Not called if there is only one."""
        raise NotImplementedError

    def browser_opened(self, url: str, opened: bool, qr_url: str | None) -> None:
        """Show that the sign-in continues in the browser, and `url` if the browser was not opened.

        `qr_url` is the address of a QR code of the link, for the player's phone.
        """
        raise NotImplementedError

    def finish_code(self, show_code: Callable[[], None] | None, attempts_left: int | None) -> str | None:
        """Return the code that the browser shows, or None to stop asking; called in its own thread.

        `show_code` opens the page that shows it ("Show me a code"); None if the page shows it already.
        `attempts_left` is a number after a wrong code. If the browser returns while this waits, the code is not needed.
        """
        raise NotImplementedError

    def problem(self, error: GamedError) -> None:
        """Show `error.detail`, if `ensure_signed_in` does not have a session or could not ask the server."""
        raise NotImplementedError


@dataclass
class Proof:
    """The proof that browser and client belong together: a `ticket` or a `finish_code`."""

    kind: str
    text: str = field(repr=False)
    answered: threading.Event = field(default_factory=threading.Event)
    replied: threading.Event = field(default_factory=threading.Event)


def ticket_of(query: str, login_id: str | None) -> str | None:
    """Return the ticket of the browser's return, or None if the query belongs to another login."""
    values = parse_qs(query, max_num_fields=8) if query.count("&") < 8 else {}
    ticket = "".join(values.get("ticket", []))
    if values.get("login_id") != [login_id] or not re.fullmatch(r"[A-Za-z0-9_-]{1,256}", ticket):
        return None
    return ticket


class Listener(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """The loopback listener for the browser's return: 127.0.0.1, a random port, one path, one login."""

    daemon_threads = True
    block_on_close = False  # browsers keep spare connections open, whose threads would delay the close
    allow_reuse_address = False  # on Windows it lets another program listen on the same port

    def __init__(self, done_url: str, proofs: queue.Queue[Proof | None]) -> None:
        super().__init__(("127.0.0.1", 0), _Return)
        self.login_id: str | None = None
        self.done_url = done_url
        self.proofs = proofs
        threading.Thread(target=self.serve_forever, args=(0.1,), daemon=True).start()

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(self)  # HTTPServer's own looks up the name of the address
        self.server_name, self.server_port = "127.0.0.1", self.socket.getsockname()[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors: browsers close connections at any time."""

    def close(self) -> None:
        self.shutdown()
        self.server_close()


class _Return(http.server.BaseHTTPRequestHandler):
    """GET /gamed/return?login_id=...&ticket=... (docs/protocol.md: Collect)."""

    server: Listener
    timeout = 10
    server_version = sys_version = ""

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        login_id, host = self.server.login_id, self.headers.get("Host", "")
        ticket = ticket_of(query, login_id)
        expected = path == "/gamed/return" and host == f"127.0.0.1:{self.server.server_port}"
        if not expected or login_id is None or ticket is None:
            self._answer(404)  # another login's, or no login's: it must not have an effect
        else:
            proof = Proof("ticket", ticket)
            self.server.proofs.put(proof)
            proof.answered.wait(RETURN_SECONDS)
            self._answer(303, Location=f"{self.server.done_url}?login_id={quote(login_id, safe='')}")
            proof.replied.set()

    def _answer(self, status: int, **fields: str) -> None:
        self.send_response_only(status)
        standard = {"Content-Length": "0", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
        for name, value in {**fields, **standard, "Connection": "close"}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the line would contain the ticket."""


class SignIn:
    """One login: start, browser, return proof, collect. Call `run` once; `cancel` may be called from any thread."""

    def __init__(
        self,
        client: GamedClient,
        person: Person,
        *,
        provider: str | None,
        intent: str = "login",
        open_browser: Callable[[str], object] | None,
        loopback: bool,
        return_uri: str | None = None,
    ) -> None:
        self._client = client
        self._wire = client.wire
        self._person = person
        self._provider = provider
        self._intent = intent
        self._open_browser = open_browser
        self._loopback = loopback and return_uri is None
        self._return_uri = return_uri
        self._listener: Listener | None = None
        self._login_id: str | None = None
        self._proofs: queue.Queue[Proof | None] = queue.Queue()
        self._asked = False
        self._secret: str | None = None
        self._cancelled = False

    def run(self, keep: Callable[[Mapping[str, Any]], T]) -> T:
        """Pass the credentials to `keep` and return its result; any failure cancels the login."""
        try:
            self._start()
            self._show()
            return keep(self._settle())
        except LoginFailed:
            raise  # the login has ended already
        except BaseException:
            self.cancel()
            raise
        finally:
            if self._listener:
                self._listener.close()

    def cancel(self) -> None:
        """Cancel the login: none of its credentials works any more, and `run` raises LoginCancelled."""
        self._cancelled = True
        self._proofs.put(None)
        if self._secret:
            wire = replace(self._wire, cancellation=Cancellation())
            with contextlib.suppress(GamedError):
                wire.call("POST", "/auth/login/cancel", bearer=self._secret, timeout=5, tries=1)

    def returned(self, url: str) -> bool:
        """Continue with the address that the app was opened with; return False if it is not of this sign-in."""
        start = f"{self._return_uri}{'&' if '?' in (self._return_uri or '') else '?'}"
        if self._return_uri is None or not url.startswith(start) or len(url) > len(start) + MAX_RETURN_CHARACTERS:
            return False
        ticket = ticket_of(url[len(start) :], self._login_id)
        if ticket is None:
            return False
        proof = Proof("ticket", ticket)
        proof.replied.set()  # no browser awaits an answer
        self._proofs.put(proof)
        return True

    def _start(self) -> None:
        body: dict[str, Any] = {
            "client": self._client.device,
            "locale": locale_tag(self._client.locale) or None,
            "provider": (self._provider if self._intent == "link" else self._chosen_provider()) or None,
            "intent": None if self._intent == "login" else self._intent,
            "confirm": self._client._confirms or None,
            "return_uri": self._return_uri,
        }
        if self._loopback:
            with contextlib.suppress(OSError):  # else the player types the code
                self._listener = Listener(f"{self._wire.origin}/auth/login/done", self._proofs)
                body["loopback_port"] = self._listener.server_port
        self._check_cancelled()
        given = {name: value for name, value in body.items() if value is not None}
        started = self._client._start_login(given, as_player=self._intent == "link")
        self._secret = member(started, "device_secret", str)
        self._deadline = time.monotonic() + member(started, "expires_in", int) + 30
        self._login_url = self._wire.origin.require(member(started, "login_url", str))
        self._qr_url = self._own(started.get("qr_url"))
        poll = member(started, "poll", dict)
        self._poll_path = urlsplit(self._wire.origin.require(member(poll, "url", str))).path
        self._max_wait = min(member(poll, "max_wait", int), 25)
        self._code_only = started.get("return_proof") == "code"
        if self._listener or self._return_uri is not None:
            self._login_id = member(started, "login_id", str)
        if self._listener:
            self._listener.login_id = self._login_id
        if self._cancelled:
            self.cancel()  # again: before, the server had no login to cancel
        self._check_cancelled()

    def _chosen_provider(self) -> str | None:
        """Return the provider to sign in with; None for a server in `local` mode. Ask only if there are several."""
        listed = self._client.providers()
        if self._provider or not listed:
            return self._provider
        return listed[0].name if len(listed) == 1 else self._person.choose_provider(listed)

    def _own(self, url: object) -> str | None:
        """Return the address of the link's QR code if it is on this server; one elsewhere is not shown."""
        with contextlib.suppress(UntrustedAddress):
            return self._wire.origin.require(url) if isinstance(url, str) else None
        return None

    def _check_cancelled(self) -> None:
        if self._cancelled:
            raise LoginCancelled("login_cancelled", "The sign-in was cancelled.")

    def _show(self) -> None:
        opened = bool(self._open_browser and self._open_browser(self._login_url))
        self._person.browser_opened(self._login_url, opened, self._qr_url)

    def _settle(self) -> Mapping[str, Any]:
        """Collect until there is an outcome. After a lost response the same proof is sent again."""
        stage: str = "waiting_for_browser"
        proof: Proof | None = None
        while True:
            try:
                answer = self._collect(stage, proof)
            except InvalidProof as error:
                answer = self._collect(stage, None)
                if proof and proof.kind == "finish_code" and error.attempts_left:
                    self._ask(error.attempts_left)
            finally:
                if proof:
                    proof.answered.set()
            if answer.get("status") == "complete":
                if proof and proof.kind == "ticket":
                    proof.replied.wait(1)  # the game may exit after this: let the browser receive its page first
                return answer
            if answer.get("status") == "failed":
                raise login_error(member(answer, "problem", dict))
            stage = member(answer, "stage", str)
            proof = self._await_proof() if stage == "proof_required" else None

    def _collect(self, stage: str, proof: Proof | None) -> Mapping[str, Any]:
        """Request collect until the server responds, for as long as the login lives."""
        wait = 0 if proof or stage == "proof_required" else self._max_wait
        body: dict[str, Any] = {"wait": wait, "seen": stage, **({proof.kind: proof.text} if proof else {})}
        how: dict[str, Any] = {"json_body": body, "bearer": self._secret, "timeout": wait + TIMEOUT_SECONDS, "tries": 1}
        attempt = 0
        while True:
            self._check_cancelled()
            try:
                return self._wire.call("POST", self._poll_path, **how).json()
            except GamedError as error:
                pause = pause_after(error, attempt)
                if not error.passing or time.monotonic() + pause > self._deadline:
                    raise
            self._wire.pause(pause)
            attempt = min(attempt + 1, 6)

    def _await_proof(self) -> Proof | None:
        """Wait 5 s for the browser's return or a typed code; without one ask the player, once per sign-in."""
        if self._code_only:
            self._ask(None)
        try:
            with self._wire.cancellation.ends(lambda: self._proofs.put(None)):
                return self._proofs.get(timeout=RETURN_SECONDS)
        except queue.Empty:
            self._ask(None)
            return None

    def _ask(self, attempts_left: int | None) -> None:
        if attempts_left is None and self._asked:
            return
        self._asked = True
        threading.Thread(target=self._hear, args=(attempts_left,), daemon=True).start()

    def _hear(self, attempts_left: int | None) -> None:
        code = self._person.finish_code(None if self._code_only else self._show, attempts_left)
        if code is not None:
            self._proofs.put(Proof("finish_code", code))


def login_error(problem: Mapping[str, Any]) -> LoginFailed:
    code = member(problem, "code", str)
    detail = str(problem.get("detail") or problem.get("title") or code)
    return LOGIN_BY_CODE.get(code, LoginFailed)(code, detail, problem=problem)


def finish_code(typed: str) -> str | None:
    """Return the code that was typed, as `BKTRVW`, or None if it is not one: a typing error costs no attempt."""
    letters = re.sub(r"[\s-]", "", typed).upper()
    return letters if re.fullmatch(r"[BCDFGHJKLMNPQRSTVWXZ]{6}", letters) else None


def open_browser(url: str) -> bool:
    """Open a URL in the player's browser, without a shell, and without waiting for browsers in the terminal."""
    opened: queue.Queue[bool] = queue.Queue()
    threading.Thread(target=lambda: opened.put(webbrowser.open(url)), daemon=True).start()
    try:
        return opened.get(timeout=3)
    except queue.Empty:
        return True  # some browsers stay in the foreground


def qr_code(url: str, colour: bool = False) -> str | None:
    """Return `url` as a QR code in lines of half blocks, or None if the package segno is not installed.

    With `colour` ANSI escapes make it black on white in any terminal; without, its light modules are drawn, for a dark
    background.
    """
    try:
        import segno  # type: ignore[import-not-found,unused-ignore]  # only where the game installs it
    except ImportError:
        return None
    rows = [[bool(dark) for dark in row] for row in segno.make(url, micro=False).matrix_iter(border=4)]
    rows.append([False] * len(rows[0]))  # an odd number of rows: the last half line is part of the quiet zone
    drawn = [[dark == colour for dark in row] for row in rows]
    pairs = [(drawn[row], drawn[row + 1]) for row in range(0, len(drawn), 2)]
    lines = ["".join(HALVES[above[x], below[x]] for x in range(len(above))) for above, below in pairs]
    return "\n".join(f"\x1b[38;5;16;48;5;231m{line}\x1b[0m" if colour else line for line in lines)


HALVES = {(False, False): " ", (True, False): "\u2580", (False, True): "\u2584", (True, True): "\u2588"}


# --- Saves ------------------------------------------------------------------------------------------------------------


_ETAG = re.compile(r'"[!#-~]{1,100}"')
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class SaveInfo:
    """One version of one slot. A later write passes `etag` as its base."""

    slot: str
    version: int
    etag: str
    size: int
    sha256: str
    content_type: str
    modified: str
    meta: Mapping[str, Any]
    conflicts: Sequence[int] = ()
    """Numbers of the versions that lost against this one; the player has to choose."""
    device: str | None = None
    """Name of the device that wrote this version."""

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> SaveInfo:
        kinds = {"slot": str, "version": int, "etag": str, "size": int, "sha256": str}
        known: dict[str, Any] = {name: member(value, name, kind) for name, kind in kinds.items()}
        if not (_ETAG.fullmatch(known["etag"]) and _SHA256.fullmatch(known["sha256"])):
            raise NotGamed("not_gamed", "The server's answer has a malformed 'etag' or 'sha256'.")
        return cls(
            **known,
            content_type=str(value.get("content_type") or "application/octet-stream"),
            modified=str(value.get("modified") or ""),
            meta=optional(value, "meta", dict) or {},
            conflicts=tuple(n for n in value.get("conflicts") or () if isinstance(n, int)),
            device=optional(value, "device", str),
        )

    @classmethod
    def maybe(cls, value: object) -> SaveInfo | None:
        return cls.of(value) if isinstance(value, dict) else None


@dataclass(frozen=True)
class Deletion:
    """An entry of a list of changes: `version` deleted the save."""

    slot: str
    version: int


@dataclass(frozen=True)
class Changes:
    """The result of `changes`; pass `cursor` to the next call."""

    cursor: str
    saves: Sequence[SaveInfo | Deletion]
    whole: bool
    """The list has all slots, not only changed ones: the call had no cursor, or the server no longer knows it."""
    more: bool = False
    """The server has further changes: ask with `cursor` at once. A slot may be listed again, with a newer state."""
    expired: bool = False
    """For a whole list: a slot that is missing on all its pages was deleted long ago."""

    @classmethod
    def of(cls, value: Mapping[str, Any], whole: bool) -> Changes:
        saves = entries(value, "saves", _change_of)
        reset = value.get("reset") is True
        expired = reset and value.get("expired") is True
        return cls(member(value, "cursor", str), saves, whole or reset, value.get("more") is True, expired)


def _change_of(entry: Mapping[str, Any]) -> SaveInfo | Deletion:
    if entry.get("deleted"):
        return Deletion(member(entry, "slot", str), member(entry, "version", int))
    return SaveInfo.of(entry)


@dataclass(frozen=True)
class Version:
    """One version in a slot's history: `kind` is write, restore, conflict or delete."""

    version: int
    kind: str
    parent: int | None
    """The version that it was based on."""
    expires: str | None
    """The latest time of its deletion; None while only newer versions can replace it."""
    save: SaveInfo | None
    """None for a delete."""
    device: str | None = None
    """Name of the device that wrote or deleted it."""

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Version:
        return cls(
            version=member(value, "version", int),
            kind=member(value, "kind", str),
            parent=optional(value, "parent", int),
            expires=optional(value, "expires", str),
            save=SaveInfo.maybe(value if value.get("etag") else None),
            device=optional(value, "device", str),
        )


@dataclass(frozen=True)
class VersionsPage:
    """A part of a slot's history."""

    versions: Sequence[Version]
    """Newest first."""
    more: bool
    """The server has older ones: ask for those `before` the last one here."""


@dataclass(frozen=True)
class SlotWrite:
    """One change of a `commit`: new bytes that are based on `base`, or without `data` the deletion of that base."""

    slot: str
    data: bytes | None = field(repr=False)
    base: Save | SaveInfo | str | None
    meta: Mapping[str, Any] | None = None
    content_type: str = "application/octet-stream"

    def to_json(self) -> dict[str, Any]:
        path_of(self.slot)
        entry = {"slot": self.slot, **{CONDITIONS[name]: value for name, value in condition(self.base).items()}}
        if self.data is None:
            return {**entry, "delete": True}
        entry |= {"sha256": hashlib.sha256(self.data).hexdigest(), "content_type": self.content_type}
        return entry if self.meta is None else {**entry, "meta": dict(self.meta)}


CONDITIONS = {"If-Match": "if_match", "If-None-Match": "if_none_match"}


@dataclass(frozen=True)
class SlotConflict:
    """One slot that a commit could not change; `code` is version_conflict, deleted or superseded."""

    slot: str
    code: str
    base: SaveInfo | None
    current: SaveInfo | None
    yours: SaveInfo | None

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> SlotConflict:
        sides = {name: SaveInfo.maybe(value.get(name)) for name in ("base", "current", "yours")}
        return cls(member(value, "slot", str), member(value, "code", str), **sides)


@dataclass(frozen=True)
class Save:
    """The bytes of a slot at the time of the read."""

    etag: str
    data: bytes = field(repr=False)
    content_type: str
    meta: Mapping[str, Any]


DEVICES = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?")


def path_of(slot: str) -> str:
    """Check the name of a slot, which is also safe as a file name, and return its path."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,63}", slot) or slot.endswith(".") or DEVICES.fullmatch(slot):
        raise Refused("invalid_slot", "A slot's name has 1-64 of a-z 0-9 . _ - and begins with a letter or digit.")
    return "/game/saves/" + slot


def _with_query(path: str, **query: str | int | None) -> str:
    """Append the query parameters that are not None."""
    given = {name: value for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given, quote_via=quote, safe='')}" if given else path


def version_path(slot: str, number: int) -> str:
    return f"{path_of(slot)}/versions/{int(number)}"


def condition(base: Save | SaveInfo | str | None) -> dict[str, str]:
    """Return the header of a write that replaces a save, an etag, `"*"` (any save) or None (an empty slot)."""
    if base is None:
        return {"If-None-Match": "*"}
    return {"If-Match": base if isinstance(base, str) else base.etag}


def digest_field(data: bytes) -> str:
    """Return a Repr-Digest, `sha-256=:...:` (RFC 9530)."""
    return f"sha-256=:{base64.b64encode(hashlib.sha256(data).digest()).decode()}:"


def check_digest(answer: Answer) -> None:
    """Check that the bytes have the server's hash; raise DownloadCorrupt."""
    named = re.search(r"sha-256=:([A-Za-z0-9+/]+=*):", answer.headers.get("Repr-Digest", ""))
    if not named:
        raise NotGamed("not_gamed", "The server's answer lacks 'Repr-Digest'.")
    try:
        expected = base64.b64decode(named[1], validate=True)
    except binascii.Error as e:
        raise NotGamed("not_gamed", "The server's 'Repr-Digest' is malformed.") from e
    if expected != hashlib.sha256(answer.body).digest():
        raise DownloadCorrupt("download_corrupt", "The save arrived damaged.")


def save_of(answer: Answer) -> Save:
    meta = None
    with contextlib.suppress(ValueError, RecursionError):  # the bytes matter more than damaged metadata
        meta = json.loads(answer.headers.get("Save-Meta") or "{}")
    meta = meta if isinstance(meta, dict) else {}
    return Save(answer.headers.get("ETag", ""), answer.body, answer.headers.get("Content-Type", ""), meta)


# --- The account ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DeviceSession:
    """One sign-in of the player, on this device (`current`) or another; times are the server's texts."""

    session_id: str
    current: bool
    created_at: str
    last_used_at: str
    expires_at: str
    provider: str
    client: Mapping[str, str]
    """The device's members `name`, `version`, `platform` and `device_name`, each only if it was sent."""

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> DeviceSession:
        reported = optional(value, "client", dict) or {}
        shown = {name: text for name, text in reported.items() if isinstance(text, str)}
        texts = _texts_of(value, "created_at", "last_used_at", "expires_at", "provider")
        return cls(member(value, "session_id", str), member(value, "current", bool), **texts, client=shown)


@dataclass(frozen=True)
class LinkedIdentity:
    """One account at a provider that signs in as the player; `can_sign_in`: the server still has that provider."""

    provider: str
    linked_at: str
    last_used_at: str
    can_sign_in: bool

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> LinkedIdentity:
        texts = _texts_of(value, "linked_at", "last_used_at")
        return cls(member(value, "provider", str), **texts, can_sign_in=value.get("can_sign_in") is True)


def _texts_of(value: Mapping[str, Any], *names: str) -> dict[str, str]:
    return {name: str(value.get(name) or "") for name in names}


class ExportFile:
    """An export that arrives in a temporary file; after a broken connection it continues where it ended."""

    def __init__(self, file: IO[bytes], wire: Wire) -> None:
        self._file = file
        self._wire = wire
        self._tag: str | None = None
        """The strong etag of the received bytes; None without any."""

    def fetch(self, token: str) -> int:
        """Return the size once every byte has arrived and fits the server's digest; raise GamedError."""
        lost = 0
        while True:
            before = self._file.tell()
            try:
                return self._stream(token)
            except GamedError as error:
                self._wire.cancellation.check()
                lost = 1 if self._file.tell() > before else lost + 1
                pause = pause_after(error, lost - 1)
                if not error.passing or lost >= self._wire.tries or pause > LONGEST_EXPORT_PAUSE_SECONDS:
                    raise
            self._wire.pause(pause)

    def _stream(self, token: str) -> int:
        start = self._file.tell()
        headers = {"Range": f"bytes={start}-", "If-Range": self._tag} if start and self._tag else {}
        headers |= {"User-Agent": self._wire.agent, "Authorization": f"Bearer {token}", "Connection": "close"}
        with self._wire.connected(EXPORT_SECONDS) as connection:
            with speaking_to(self._wire.origin):
                connection.request("GET", "/game/export", headers=headers)
                response = connection.getresponse()
                if response.status not in (200, 206):
                    raise error_of(read_answer(response))
            self._begin(response, start)
            while part := self._read(response):
                self._file.write(part)  # errors of the disk are not errors of the network
        if response.length:
            raise Unreachable("unreachable", "The answer of the server broke off.")
        return self._checked(response.headers.get("Repr-Digest", ""))

    def _read(self, response: http.client.HTTPResponse) -> bytes:
        with speaking_to(self._wire.origin):
            return response.read(1 << 16)

    def _begin(self, response: http.client.HTTPResponse, start: int) -> None:
        """Keep the received bytes if the server continues them; start again if it sends the whole file."""
        if response.headers.get("Content-Type", "").partition(";")[0].strip() != "application/zip":
            raise NotGamed("not_gamed", "The server's answer is not an export.")
        if response.status == 206:
            if not response.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
                raise NotGamed("not_gamed", "The server continues the export at another place.")
        else:
            self._file.seek(0)
            self._file.truncate()
            self._tag = tag if _ETAG.fullmatch(tag := response.headers.get("ETag", "")) else None

    def _checked(self, digest: str) -> int:
        size = self._file.tell()
        self._file.seek(0)
        hashed = hashlib.sha256()
        while part := self._file.read(1 << 20):
            hashed.update(part)
        if digest != f"sha-256=:{base64.b64encode(hashed.digest()).decode()}:":
            self._file.seek(0)
            self._file.truncate()
            self._tag = None
            raise DownloadCorrupt("download_corrupt", "The export arrived damaged.")
        return size


# --- The client -------------------------------------------------------------------------------------------------------


@dataclass
class Known:
    """The credential that a client has used last; its copies share it."""

    held: Credential | None = None
    too_old: str | None = None
    """The session for which the server has last wanted a more recent sign-in."""


class GamedClient:
    """One server, and the player who is signed in there."""

    def __init__(
        self,
        server: str,
        *,
        app: str = "gamed",
        version: str = __version__,
        device_name: str | None = None,
        locale: str | None = None,
        folder: Path | None = None,
        sleep: Callable[[float], None] | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Create a client of `server` as the player entered it; `folder` replaces the platform's folder.

        `device_name` is the name of this device in the player's lists; the default is the machine's host name.
        `locale` is the game's language, such as `de` or `pt-BR`, for the pages of a sign-in; the system's by default.
        """
        self.origin = Origin.entered(server)
        self.device = {
            "name": app,
            "version": version,
            "platform": {"win32": "windows", "darwin": "macos"}.get(sys.platform, sys.platform),
            "device_name": (socket.gethostname() if device_name is None else device_name)[:64],
        }
        """The members about this device that a sign-in sends to the server."""
        self.locale = system_locale() if locale is None else locale
        """The game's language; the game may change it."""
        self._wire = Wire(self.origin, f"{app.replace(' ', '-')}/{version} gamed-client/{__version__}", sleep)
        self._file = CredentialFile(folder or state_folder(app), self.origin)
        self._now = now
        self._known = Known()
        self._player: str | None = None
        self._running: list[SignIn] = []
        """The newest sign-in; copies of this client share it."""

    @property
    def folder(self) -> Path:
        """Return the folder of the credential and of pending saves."""
        return self._file.path.parent

    @property
    def wire(self) -> Wire:
        """Return the connection for requests without a player; `with_token` gives their `bearer`."""
        return self._wire

    @property
    def place(self) -> str:
        """Return a file name for this server, from its host and a hash of its origin."""
        return self._file.path.stem

    # -- the player --

    @property
    def signed_in(self) -> bool:
        """Return whether a player is signed in on this machine, without a request."""
        return self.credential is not None

    @property
    def credential(self) -> Credential | None:
        """Read the credential from disk: another process, or a Sync, may have signed out meanwhile."""
        if self._known.held is None:
            with self._file.locked(self._wire.cancellation):
                self._known.held = self._file.read()
        else:  # without the lock, which a refresh may hold for long
            with contextlib.suppress(LocalDamaged):  # on Windows the file cannot be read while it is replaced
                self._known.held = self._file.read()
        return self._known.held

    def policy(self) -> tuple[str, tuple[str, ...]]:
        """Request mode and providers: show a button for each provider, in `local` mode one for the server."""
        value = self._offered("/auth/config")
        providers = tuple(name for name in member(value, "providers", list) if isinstance(name, str))
        return member(value, "mode", str), providers

    def providers(self) -> list[LoginProvider]:
        """Request the buttons of a sign-in: none in `local` mode, where the game shows its own button."""
        try:
            listed = self._offered("/auth/providers")
        except Refused as error:
            if error.code != "route_not_found":
                raise
            return [LoginProvider(name, name.capitalize()) for name in self.policy()[1]]  # an older server
        return entries(listed, "providers", lambda of: LoginProvider(member(of, "name", str), member(of, "label", str)))

    def _offered(self, path: str) -> dict[str, Any]:
        answer = self._wire.call("GET", path)
        if not answer.headers.get("Gamed-Protocol", "").startswith("1."):
            raise NotGamed("not_gamed", f"{self.origin} is not a gamed server of protocol 1.")
        return answer.json()

    def sign_in(
        self,
        person: Person,
        *,
        provider: str | None = None,
        open_browser: Callable[[str], object] | None = open_browser,
        loopback: bool = True,
        return_uri: str | None = None,
        adopt: bool = False,
    ) -> Credential:
        """Sign in with the browser; return when the credential is on disk. Raise LoginFailed or a subclass.

        Without `loopback` (a browser on another machine) the player types the finish code. With `return_uri`, on a
        phone, the browser opens the app again: pass the address that it was opened with to `returned`. With `adopt`
        the page first asks for the name and password of an account that this server had in `local` mode; the player
        keeps that account. The server ends the session that this device had before.
        """
        where: dict[str, Any] = {"open_browser": open_browser, "loopback": loopback, "return_uri": return_uri}
        return self.begin_sign_in(person, provider=provider, adopt=adopt, **where).run(self.keep)

    def ensure_signed_in(
        self,
        person: Person,
        *,
        provider: str | None = None,
        open_browser: Callable[[str], object] | None = open_browser,
        loopback: bool = True,
        return_uri: str | None = None,
    ) -> bool:
        """Return True once there is a session, also without a network; False if the sign-in has failed.

        Ask the server once whether the kept session still works; sign in if it does not, or if there is none.
        `person.problem` shows every failure; no GamedError is raised. If the server does not respond, the kept session
        counts, so that a Sync can play offline.
        """
        try:
            kept = self._usable()
        except GamedError as error:
            person.problem(error)
            return not isinstance(error, (PlayerBlocked, LocalDamaged))
        where: dict[str, Any] = {"open_browser": open_browser, "loopback": loopback, "return_uri": return_uri}
        try:
            if not kept:
                self.sign_in(person, provider=provider, **where)
        except GamedError as error:
            person.problem(error)
            return False
        return True

    def _usable(self) -> bool:
        """Ask the server once; return False if only a sign-in helps, and raise GamedError without a response."""
        held = self.credential
        if held is None:
            return False
        try:
            self.only(held.player_id, tries=1).whoami()
        except PlayerChanged:
            return True
        except SignInRequired as error:
            if error.code in FORGET or error.code in ("token_invalid", "signed_out"):
                return False
            raise
        return True

    def begin_sign_in(
        self,
        person: Person,
        *,
        provider: str | None = None,
        open_browser: Callable[[str], object] | None = open_browser,
        loopback: bool = True,
        return_uri: str | None = None,
        adopt: bool = False,
    ) -> SignIn:
        """Return a sign-in: call `run(client.keep)` in a thread, and `cancel()` or `returned(url)` from any other."""
        intent = "adopt" if adopt else "login"
        where: dict[str, Any] = {"open_browser": open_browser, "loopback": loopback, "return_uri": return_uri}
        return self._newest(SignIn(self, person, provider=provider, intent=intent, **where))

    def _newest(self, sign_in: SignIn) -> SignIn:
        self._running[:] = [sign_in]
        return sign_in

    def cancel_sign_in(self) -> None:
        """Cancel the sign-in or link that runs, for a Cancel button: it raises LoginCancelled."""
        for sign_in in self._running:
            sign_in.cancel()

    def returned(self, url: str) -> bool:
        """Pass on the address that the app was opened with; return False if no running sign-in waits for it."""
        return any(sign_in.returned(url) for sign_in in self._running)

    @property
    def _confirms(self) -> bool:
        """Return whether the next sign-in is the one that the server has wanted with `reauthentication_required`."""
        held = self._known.held
        return held is not None and held.session_id == self._known.too_old

    def _start_login(self, body: Mapping[str, Any], *, as_player: bool) -> Mapping[str, Any]:
        """Start a login at the server; with `as_player` in the player's name, to link an account."""
        if as_player:
            return self._game("POST", "/auth/login", json_body=body).json()
        return self._wire.call("POST", "/auth/login", json_body=body).json()

    def sign_out(self, scope: str = "this") -> bool:
        """Delete the credential here, even if the server cannot be reached; return True if it has ended the session.

        `all` ends every session of the player; `others` ends all but this one and deletes nothing here.
        """
        with self._file.locked():
            kept = self._file.read()
            if scope != "others":
                self._file.delete()
                self._known.held = None
        if kept is None:
            return True
        try:
            self._tell_logout(kept, scope)
        except GamedError:
            return False
        return True

    def _tell_logout(self, kept: Credential, scope: str = "this") -> None:
        body = {"refresh_credential": kept.refresh_credential, "scope": scope}
        self._wire.call("POST", "/auth/session/logout", json_body=body, timeout=5, tries=2)

    def whoami(self) -> dict[str, Any]:
        """Request `GET /game/`: player, usage, limits, time."""
        summary = self._game("GET", "/game/").json()
        self._note_name(member(summary, "player", dict))
        return summary

    def set_name(self, name: str | None) -> str | None:
        """Change the name that games show, None to remove it; return it as the server has stored it."""
        changed = member(self._game("PATCH", "/auth/player", json_body={"name": name}).json(), "player", dict)
        self._note_name(changed)
        return name_of(changed)

    def _note_name(self, player: Mapping[str, Any]) -> None:
        """Store the player's name with the credential, from where a Sync has it."""
        known = self._known.held
        if known and (known.player_id, known.player_name) == (player.get("id"), name_of(player)):
            return  # without the lock, which a refresh may hold for long
        over = self._wire.cancellation
        with contextlib.suppress(LocalDamaged), self._file.locked(over):  # else the next start tries again
            kept = self._file.read()
            if kept and kept.player_id == player.get("id") and kept.player_name != name_of(player):
                self._file.write(replace(kept, player_name=name_of(player)))

    def ticket(self, audience: str, nonce: str | None = None) -> str:
        """Request a ticket, which tells another server for about a minute who is playing (docs/protocol.md: Tickets).

        `audience` is the name of that server, `nonce` what it has sent for this connection. Request one for each
        connection, and send it to no other server.
        """
        body = {"audience": audience} if nonce is None else {"audience": audience, "nonce": nonce}
        return member(self._game("POST", "/auth/tickets", json_body=body).json(), "ticket", str)

    # -- the account --

    def list_sessions(self) -> list[DeviceSession]:
        """Request the player's sign-ins on all devices, the last used first."""
        return entries(self._game("GET", "/auth/sessions").json(), "sessions", DeviceSession.of)

    def end_session(self, session_id: str) -> None:
        """Sign a device of the player out; if it is this one, the credential here is deleted as well."""
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", session_id):
            raise NotFound("session_not_found", "There is no such session.")
        held = self.credential
        self._delete_once(f"/auth/sessions/{session_id}")
        if held is not None and held.session_id == session_id:
            self._forget(session_id)

    def list_identities(self) -> list[LinkedIdentity]:
        """Request the accounts at providers that sign in as this player, the oldest first."""
        return entries(self._game("GET", "/auth/identities").json(), "identities", LinkedIdentity.of)

    def link(
        self,
        person: Person,
        provider: str,
        *,
        open_browser: Callable[[str], object] | None = open_browser,
        loopback: bool = True,
        return_uri: str | None = None,
    ) -> str:
        """Add an account at `provider` to the player, with the browser; return the provider.

        Raise LoginFailed as `sign_in`, and SignInRequired with `reauthentication_required` if the sign-in is over 10
        minutes old: sign in, then link.
        """
        where: dict[str, Any] = {"open_browser": open_browser, "loopback": loopback, "return_uri": return_uri}
        sign_in = self._newest(SignIn(self, person, provider=provider, intent="link", **where))
        return sign_in.run(lambda complete: member(member(complete, "linked", dict), "provider", str))

    def unlink(self, provider: str) -> None:
        """Remove the account at `provider` from the player; raise Refused `last_identity` if it is the last one.

        Raise SignInRequired with `reauthentication_required` if a recovery code signed this session in.
        """
        self._game("DELETE", f"/auth/identities/{quote(provider, safe='')}")

    def delete_player(self) -> None:
        """Erase the player with all saves and sessions at the server, for good, and delete the credential here.

        Raise SignInRequired with `reauthentication_required` if the sign-in is over 10 minutes old.
        """
        held = self._known.held or self.credential  # the known player's, not that of one who has signed in since
        self._delete_once("/auth/player")
        if held is not None:
            self._forget(held.session_id)

    def _delete_once(self, path: str) -> None:
        """Send a DELETE that may end this session; a repetition that finds it ended has succeeded."""
        try:
            self._game("DELETE", path)
        except (NotFound, SignInRequired) as error:
            if not (error.answer_lost_before and error.code in ENDED):
                raise

    def _forget(self, session_id: str) -> None:
        """Delete the credential of a session that has ended, but not a newer one."""
        with self._file.locked():
            kept = self._file.read()
            if kept is not None and kept.session_id == session_id:
                self._file.delete()
            self._known.held = None

    # -- all saves at once --

    @on_disk()
    def export(self, path: Path | str) -> int:
        """Download all saves and their history as one zip file; return its size in bytes.

        The file is written whole or not at all, and replaces an existing one. Raise SignInRequired with
        `reauthentication_required` if a recovery code signed this session in.
        """
        with replaced(Path(path)) as file:
            return self.with_token(ExportFile(file, self._wire).fetch)

    def erase_saves(self) -> None:
        """Erase all saves of the player for good; raise Conflict if another device has saved meanwhile.

        Raise SignInRequired with `reauthentication_required` if a recovery code signed this session in.
        """
        etag = self._game("GET", "/game/").headers.get("ETag", "")
        if not _ETAG.fullmatch(etag):
            raise NotGamed("not_gamed", "The server's answer lacks 'ETag'.")
        self._game("DELETE", "/game/", headers={"If-Match": etag})

    def commit(self, writes: Sequence[SlotWrite]) -> list[SaveInfo | Deletion]:
        """Change all these slots, or none; return the new state of each, in the order of `writes`.

        Raise Conflict, whose `slots` has the sides of each slot that holds another version; no bytes are lost. A
        repeated commit is one.
        """
        bodies = {hashlib.sha256(write.data).hexdigest(): write.data for write in writes if write.data is not None}
        body = {"writes": [write.to_json() for write in writes]}
        self._stage(bodies, ask=True)
        try:
            answer = self._game("POST", "/game/commit", json_body=body).json()
        except GamedError as error:
            if error.code != "blob_missing":
                raise
            self._stage(bodies, ask=False)  # the uploads have expired in between, or were damaged
            answer = self._game("POST", "/game/commit", json_body=body).json()
        return entries(answer, "saves", _change_of)

    def _stage(self, bodies: Mapping[str, bytes], ask: bool) -> None:
        """Upload the bytes of a commit; with `ask`, skip large ones that the server already has."""
        for digest, data in bodies.items():
            path = f"/game/blobs/{digest}"
            if not (ask and len(data) > ASK_FIRST_BYTES and self._staged(path)):
                headers = {"Content-Type": "application/octet-stream", "Content-Digest": digest_field(data)}
                self._game("PUT", path, headers=headers, body=data)

    def _staged(self, path: str) -> bool:
        """Return whether the server has the bytes; False also without a response: the PUT gets a better error."""
        try:
            self._game("HEAD", path, tries=1)
        except GamedError:
            return False
        return True

    # -- saves --

    def list_saves(self) -> list[SaveInfo]:
        return entries(self._game("GET", "/game/saves").json(), "saves", SaveInfo.of)

    def changes(self, since: str | None = None, *, wait: int = 0, limit: int | None = None) -> Changes:
        """Request the changes since the cursor of an earlier result; all slots without one, or if it is not valid.

        The oldest changes come first, at most 256 slots or `limit`; if there are `more`, ask again with the new cursor.
        If nothing has changed, the server waits up to `wait` seconds (at most 25) for a change before it responds.
        """
        path = _with_query("/game/saves", since=since, limit=limit)
        headers = {"Prefer": f"wait={wait}"} if wait else {}
        answer = self._game("GET", path, headers=headers, timeout=wait + TIMEOUT_SECONDS)
        return Changes.of(answer.json(), whole=since is None)

    def get(self, slot: str, *, unless: Save | SaveInfo | str | None = None) -> Save | None:
        """Return the current save with verified bytes, or None if the slot was never written.

        Raise Deleted, and NotModified if `unless` is the current version.
        """
        headers = {} if unless is None else {"If-None-Match": condition(unless)["If-Match"]}
        try:
            return save_of(self._game("GET", path_of(slot), headers=headers, check=check_digest, limit=MAX_SAVE_BYTES))
        except Deleted:
            raise
        except NotFound:
            return None

    def put(
        self,
        slot: str,
        data: bytes,
        *,
        base: Save | SaveInfo | str | None,
        content_type: str = "application/octet-stream",
        meta: Mapping[str, Any] | None = None,
    ) -> SaveInfo:
        """Write a save that is based on `base`; return when the server has it on disk.

        `base` is a save that was read, its etag, "*" for any existing version, or None for a new slot. Raise Conflict
        if the slot holds another version; the server then keeps both. Sending the same bytes twice is one write.
        """
        headers = {"Content-Type": content_type, "Content-Digest": digest_field(data), **condition(base)}
        if meta is not None:
            headers["Save-Meta"] = json.dumps(meta, separators=(",", ":"))
        return SaveInfo.of(self._game("PUT", path_of(slot), headers=headers, body=data).json())

    def delete(self, slot: str, *, base: Save | SaveInfo | str) -> None:
        """Delete the version that was read; its history stays on the server for a while."""
        try:
            self._game("DELETE", path_of(slot), headers=condition(base))
        except (Deleted, Conflict) as error:
            if not (error.code == "deleted" and error.answer_lost_before):  # else the lost try did it
                raise

    # -- history --

    def versions(self, slot: str, *, down_to: int = 1, limit: int | None = None) -> list[Version]:
        """Request the kept versions of a slot, newest first: also of a deleted slot, and conflict copies.

        A long history needs one request for each 100 versions, or `limit`; the requests after the first end once
        `down_to` is reached.
        """
        page = self.versions_page(slot, limit=limit)
        found = list(page.versions)
        while page.more and found[-1].version > down_to:
            page = self.versions_page(slot, before=found[-1].version, limit=limit)
            found += page.versions
        return found

    def versions_page(self, slot: str, *, before: int | None = None, limit: int | None = None) -> VersionsPage:
        """Request the newest versions that are older than `before`: at most 100, or `limit`."""
        value = self._game("GET", _with_query(path_of(slot) + "/versions", before=before, limit=limit)).json()
        listed = entries(value, "versions", Version.of)
        more = value.get("more") is True
        if more and (not listed or (before is not None and listed[-1].version >= before)):
            raise NotGamed("not_gamed", "The server's pages of versions do not end.")
        return VersionsPage(listed, more)

    def version(self, slot: str, number: int) -> Save:
        """Return a version with verified bytes; raise NotFound if the server no longer keeps it."""
        return save_of(self._game("GET", version_path(slot, number), check=check_digest, limit=MAX_SAVE_BYTES))

    def restore(self, slot: str, number: int, *, base: Save | SaveInfo | str | None) -> SaveInfo:
        """Make an old version or a conflict copy current, based on `base`: None undeletes a slot."""
        path = version_path(slot, number) + "/restore"
        return SaveInfo.of(self._game("POST", path, headers=condition(base)).json())

    def dismiss(self, slot: str, number: int) -> None:
        """Delete a conflict copy after the player has chosen; a copy that does not exist is not an error."""
        with contextlib.suppress(NotFound):
            self._game("DELETE", version_path(slot, number))

    # -- staying signed in --

    def only(self, player_id: str, *, tries: int = TRIES) -> GamedClient:
        """Return a client for one player, which raises PlayerChanged after another player has signed in."""
        bound = copy.copy(self)
        bound._wire = replace(self._wire, tries=tries)
        bound._player = player_id
        bound._known = Known()
        return bound

    def cancellable(self, cancellation: Cancellation) -> GamedClient:
        """Return a client whose calls raise Cancelled after `cancellation.cancel()`, also while they wait.

        Both know the same player: after another one has signed in here, they raise PlayerChanged.
        """
        bound = copy.copy(self)
        bound._wire = replace(self._wire, cancellation=cancellation)
        return bound

    def _game(self, method: str, path: str, **how: Any) -> Answer:
        """Send a request with the player's access token."""
        return self.with_token(lambda token: self._wire.call(method, path, bearer=token, **how))

    def with_token(self, call: Callable[[str], T], stale: str | None = None) -> T:
        """Run `call` with an access token, and once more with a newer one if the first is rejected."""
        used = self._live(stale)
        try:
            return call(used.access_token)
        except SignInRequired as error:
            if not self._renewable(error, used) or stale is not None:
                raise
            lost = error.answer_lost_before
        try:
            return self.with_token(call, used.access_token)
        except GamedError as error:
            error.answer_lost_before |= lost
            raise

    def _renewable(self, error: SignInRequired, used: Credential) -> bool:
        """Return whether another token may work; delete the credential of an ended session, but not a newer one."""
        if error.code == "reauthentication_required":
            self._known.too_old = used.session_id
        if error.code not in FORGET:
            return error.code in RENEW
        with self._file.locked(self._wire.cancellation):
            kept = self._file.read()
            if kept is not None and kept.session_id != used.session_id:
                return True
            self._file.delete()
            self._known.held = None
        return False

    def _live(self, stale: str | None) -> Credential:
        """Return a credential with a token that is not `stale`; refresh if there is none."""
        # A client for one player reads each time: it does not notice otherwise that the first one has signed out.
        held = (self._known.held if self._player is None else None) or self.credential
        if held is None:
            raise SignInRequired("signed_out", "No player is signed in here.")
        if self._player not in (None, held.player_id):
            raise PlayerChanged("player_changed", "Another player signed in here meanwhile.")
        if held.fresh(self._now()) and held.access_token != stale:
            return held
        with self._file.locked(self._wire.cancellation):  # the first holder refreshes, the others read its result
            kept = self._file.read()
            if kept is None:
                self._known.held = None
                raise SignInRequired("signed_out", "No player is signed in here.")
            if kept.player_id != held.player_id:
                raise PlayerChanged("player_changed", "Another player signed in here meanwhile.")
            if not kept.fresh(self._now()) or kept.access_token == stale:
                kept = self._refresh(kept)
            self._known.held = kept
            return kept

    def _refresh(self, kept: Credential) -> Credential:
        """Refresh; the caller holds the lock. A repetition is safe: the server returns the pair until it is used."""
        body = {"refresh_credential": kept.refresh_credential}
        try:
            pair = self._wire.call("POST", "/auth/session/refresh", json_body=body).json()
        except SignInRequired as error:
            if error.code in FORGET:
                self._file.delete()
                self._known.held = None
            raise
        renewed = replace(kept, **self._pair(pair))
        self._file.write(renewed)  # before its first use
        return renewed

    def _pair(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        lifetime = member(answer, "expires_in", int)
        return {
            "refresh_credential": member(answer, "refresh_credential", str),
            "access_token": member(answer, "access_token", str),
            "access_expires": self._now() + lifetime,
            "access_lifetime": lifetime,
        }

    def keep(self, complete: Mapping[str, Any]) -> Credential:
        """Store the result of a finished sign-in on disk, before its first use."""
        player = member(complete, "player", dict)
        fresh = Credential(
            origin=str(self.origin),
            player_id=member(player, "id", str),
            session_id=member(complete, "session_id", str),
            provider=member(complete, "provider", str),
            player_name=name_of(player),
            **self._pair(complete),
        )
        with self._file.locked():
            before = self._file.read()
            self._file.write(fresh)
            self._known.held = fresh
        if before is not None and before.session_id != fresh.session_id:
            with contextlib.suppress(GamedError):
                self._tell_logout(before)
        return fresh


# --- The command line -------------------------------------------------------------------------------------------------


class Terminal(Person):
    """A person at the terminal: the texts are on stderr, so that stdout holds results only.

    With `qr` the link is also shown as a QR code; else only if the browser could not be opened. With texts.py
    beside this file the texts are in the language `locale`, the system's by default, else in English.
    """

    def __init__(self, qr: bool = False, locale: str | None = None) -> None:
        self._qr = qr
        self._texts = texts_in(system_locale() if locale is None else locale)

    def choose_provider(self, providers: Sequence[LoginProvider]) -> str:
        for number, provider in enumerate(providers, 1):
            say(f"  {number}  " + self._text("Sign in with {provider}", provider=provider.label))
        while True:
            line = read_line(self._text("How do you want to sign in?") + " ")
            if line is None:
                raise LoginCancelled("login_cancelled", "No choice was made; name one with --provider.")
            for number, provider in enumerate(providers, 1):
                if line in (provider.name, provider.label, str(number)):
                    return provider.name

    def problem(self, error: GamedError) -> None:
        said = error.detail if self._texts is None else self._texts.problem(error)
        say(said if encodable(said) else error.detail)

    def _text(self, english: str, **values: object) -> str:
        """Return a text in the player's language, if the terminal has its letters."""
        said = english.format_map(values)
        translated = said if self._texts is None else self._texts.text(english, **values)
        return translated if encodable(translated) else said

    def browser_opened(self, url: str, opened: bool, qr_url: str | None) -> None:
        if opened:
            say(self._text("The sign-in continues in your browser."))
        say(self._text("Open this address in your browser to sign in:"))
        say(f"  {url}")
        if self._qr or (sys.stderr.isatty() and not opened):
            self._show_qr(url)

    def _show_qr(self, url: str) -> None:
        """Show a QR code; print the reason if an option asks for one that cannot be shown."""
        code = qr_code(url, shows_colour())
        if code is not None and fits(code):
            say(self._text("To sign in with a phone, scan this:") + f"\n\n{code}\n")
        elif self._qr:
            say("No QR code: " + ("install segno for it." if code is None else "this terminal cannot show one."))

    def finish_code(self, show_code: Callable[[], None] | None, attempts_left: int | None) -> str | None:
        if attempts_left is not None:
            say(self._text("That is not the code. Attempts left: {count}", count=attempts_left))
            show_code = None  # the page shows it already
        while True:
            offer = "Press Enter to see a code in the browser." if show_code else None
            line = read_line(self._text(offer or "Type the six letters that the sign-in page shows.") + " ")
            if line is None:
                return None
            if code := finish_code(line):
                return code
            if show_code:
                show_code()
                show_code = None


def texts_in(name: str) -> Any:
    """Return the texts of texts.py in a language; None if the game does not have that file."""
    try:
        from .texts import Texts
    except ImportError:
        return None
    return Texts(name)


def encodable(text: str) -> bool:
    """Return whether stderr has these characters; a console of Windows may lack them."""
    encoding = sys.stderr.encoding or "ascii"
    return text.encode(encoding, "ignore").decode(encoding) == text


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def shows_colour() -> bool:
    """Return whether the terminal shows colours; older Windows consoles print escapes as text."""
    return sys.stderr.isatty() and (sys.platform != "win32" or "WT_SESSION" in os.environ)


def fits(text: str) -> bool:
    """Return whether stderr can show these characters without breaking a line."""
    width = 0
    with contextlib.suppress(OSError):  # not a terminal
        width = os.get_terminal_size(sys.stderr.fileno()).columns or 80
    return encodable(text) and (not width or max(map(len, re.sub(r"\x1b\[[0-9;]*m", "", text).split("\n"))) <= width)


def read_line(prompt: str) -> str | None:
    """Read a line of stdin, or None at its end; unbuffered, so that a waiting thread does not delay the exit."""
    print(prompt, end="", file=sys.stderr, flush=True)
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            return None
        line += byte
    return line.decode("utf-8", "replace").strip()


EXIT_CODES = {SignInRequired: 3, Conflict: 4, BaseRequired: 4, NotFound: 5, Unreachable: 6, Busy: 6, RateLimited: 6}
EPILOG = "Exit codes: 0 done, 1 failed, 2 usage, 3 sign in first, 4 conflict, 5 not there, 6 try again later."


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="gamed_client", description="Sign in to a gamed server and keep saves there.")
    top.epilog = EPILOG
    top.add_argument("--server", default=os.environ.get("GAMED_SERVER"), help="address (default: $GAMED_SERVER)")
    top.add_argument("--app", default="gamed", help="whose sign-in and saves: the game's name")
    top.add_argument("--folder", type=Path, help="where credentials are kept (default: the platform's place)")
    top.add_argument("--json", action="store_true", help="results and errors as one JSON object on stdout")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    login = commands.add_parser("login", help="sign in through the browser")
    login.add_argument("--provider", help="instead of choosing one")
    login.add_argument("--no-browser", action="store_true", help="print the address; the code is typed in here")
    login.add_argument("--qr", action="store_true", help="the same, and as a QR code for a phone (needs segno)")
    login.add_argument("--adopt", action="store_true", help="keep an account from before the server had providers")
    login.add_argument("--device-name", help="what your other devices show of this one (default: its host name)")
    logout = commands.add_parser("logout", help="sign out")
    logout.add_argument("--scope", choices=["this", "others", "all"], default="this", help="which devices")
    commands.add_parser("whoami", help="the player and what they use")
    add_account_commands(commands)
    saves = commands.add_parser("save", help="put, get, list saves").add_subparsers(
        dest="save", required=True, metavar="COMMAND"
    )
    put = saves.add_parser("put", help="write a file ('-': stdin) to a slot; a new one unless an option says otherwise")
    put.add_argument("slot")
    put.add_argument("file")
    base = put.add_mutually_exclusive_group()
    base.add_argument("--if-match", metavar="ETAG", help="on top of this version, as `save ls` shows it")
    base.add_argument("--replace", action="store_true", help="on top of whatever is there")
    put.add_argument("--meta", type=json.loads, help='JSON object, such as {"title":"Chapter 3"}')
    get = saves.add_parser("get", help="read a slot into a file (default: stdout)")
    get.add_argument("slot")
    get.add_argument("file", nargs="?", default="-")
    saves.add_parser("ls", help="list")
    remove = saves.add_parser("rm", help="delete the current version of a slot")
    remove.add_argument("slot")
    remove.add_argument("--if-match", metavar="ETAG", default="*")
    versions = saves.add_parser("versions", help="list what is kept of a slot, newest first")
    versions.add_argument("slot")
    restore = saves.add_parser("restore", help="make an old version current again")
    restore.add_argument("slot")
    restore.add_argument("version", type=int)
    restore.add_argument("--if-match", metavar="ETAG", help="on top of this version; without it the slot is deleted")
    sync = commands.add_parser("sync", help="keep a folder and the saves in step")
    sync.add_argument("files", type=Path, metavar="FOLDER", help="each file in it whose name fits is a slot")
    sync.add_argument("--keep", choices=["mine", "theirs"], help="in every conflict; without it they are only shown")
    sync.add_argument("--delete", action="store_true", help="a file that is gone is deleted at the server too")
    sync.add_argument("--watch", action="store_true", help="go on until interrupted")
    assets = commands.add_parser("assets", help="download a release")
    assets.add_argument("files", type=Path, metavar="FOLDER", help="where releases are kept; made if need be")
    assets.add_argument("--channel", default="stable", help="or the id of a release (default: stable)")
    assets.add_argument("--verify", action="store_true", help="read every file again, and fetch what is damaged")
    assets.add_argument("--offline", action="store_true", help="send no request: only print which release is here")
    return top


def add_account_commands(commands: Any) -> None:
    account = commands.add_parser("account", help="your devices, linked accounts, name, all saves, and deleting you")
    subs = account.add_subparsers(dest="account", required=True, metavar="COMMAND")
    subs.add_parser("sessions", help="list the devices that are signed in")
    subs.add_parser("end", help="sign a device out").add_argument("session_id", help="as `account sessions` shows it")
    subs.add_parser("identities", help="list the accounts that sign in as you")
    link = subs.add_parser("link", help="add an account of another provider, through the browser")
    link.add_argument("provider")
    link.add_argument("--no-browser", action="store_true", help="print the address; the code is typed in here")
    subs.add_parser("unlink", help="remove an account").add_argument("provider")
    name = subs.add_parser("name", help="change the name that games show")
    name.add_argument("name", nargs="?", help="without it the name is deleted")
    subs.add_parser("export", help="download all saves as a zip file").add_argument("file")
    for command, words in (("erase", "erase all saves for good"), ("delete", "erase you and all saves for good")):
        subs.add_parser(command, help=words).add_argument("--yes", action="store_true", required=True)


def main(arguments: Sequence[str] | None = None) -> int:
    top = parser()
    options = top.parse_args(arguments)
    if not options.server:
        top.error("--server is needed (or set GAMED_SERVER)")
    try:
        device_name = getattr(options, "device_name", None)
        client = GamedClient(options.server, app=options.app, folder=options.folder, device_name=device_name)
        result, text = run(client, options)
    except ModuleNotFoundError as error:
        say(f"{error.name} is missing. Copy its file into the folder gamed_client, too.")
        return 1
    except GamedError as error:
        if options.json:
            print(json.dumps({"error": {**error.problem, "code": error.code, "detail": error.detail}}))
        else:
            say(f"{error.detail} [{error.code}]")
        return next((number for kind, number in EXIT_CODES.items() if isinstance(error, kind)), 1)
    except OSError as error:
        say(f"{error.filename or 'stdout'}: {error.strerror}")
        return 1
    except KeyboardInterrupt:
        return 130
    if options.json:
        print(json.dumps(result))
    elif text:
        print(text)
    return 0


def run(client: GamedClient, options: argparse.Namespace) -> tuple[Mapping[str, Any], str]:
    """Run a command; return its result as members for a script, and as text for a person."""
    if options.command == "login":
        elsewhere = options.no_browser or options.qr
        how: dict[str, Any] = {"open_browser": None, "loopback": False} if elsewhere else {}
        kept = client.sign_in(Terminal(options.qr), provider=options.provider, adopt=options.adopt, **how)
        return {"player_id": kept.player_id, "session_id": kept.session_id}, f"Signed in as {kept.player_id}."
    if options.command == "logout":
        notified = client.sign_out(options.scope)
        words = (
            "Signed out." if notified else "Signed out here; the server was not reached, its session ends by itself."
        )
        return {"server_notified": notified}, words
    if options.command == "sync":
        from .sync import run_folder

        return run_folder(client, options)
    if options.command == "assets":
        from .assets import run_assets

        return run_assets(client, options)
    if options.command == "whoami":
        found = client.whoami()
        player, usage = member(found, "player", dict), member(found, "usage", dict)
        return found, f"{player.get('id')} at {client.origin}: {usage.get('slots')} slots, {usage.get('bytes')} bytes"
    if options.command == "account":
        return run_account(client, options)
    return run_save(client, options)


def run_account(client: GamedClient, options: argparse.Namespace) -> tuple[Mapping[str, Any], str]:
    if options.account == "sessions":
        sessions = client.list_sessions()
        lines = [
            "\t".join([s.session_id, s.client.get("device_name", "-"), s.last_used_at, "this device" * s.current])
            for s in sessions
        ]
        return {"sessions": [asdict(session) for session in sessions]}, "\n".join(lines)
    if options.account == "identities":
        identities = client.list_identities()
        lines = [f"{identity.provider}\t{identity.last_used_at}" for identity in identities]
        return {"identities": [asdict(identity) for identity in identities]}, "\n".join(lines)
    if options.account == "link":
        how: dict[str, Any] = {"open_browser": None, "loopback": False} if options.no_browser else {}
        linked = client.link(Terminal(), options.provider, **how)
        return {"provider": linked}, f"{linked} is linked."
    if options.account == "name":
        stored = client.set_name(options.name)
        return {"name": stored}, f"Games show {stored}." if stored else "Your name is deleted."
    if options.account == "export":
        size = client.export(options.file)
        return {"size": size}, f"{options.file} has {size} bytes."
    if options.account == "end":
        client.end_session(options.session_id)
        return {"session_id": options.session_id}, "That device is signed out."
    if options.account == "unlink":
        client.unlink(options.provider)
        return {"provider": options.provider}, f"{options.provider} is unlinked."
    if options.account == "erase":
        client.erase_saves()
        return {}, "All saves are erased."
    client.delete_player()
    return {}, "You and all your saves are erased."


def run_save(client: GamedClient, options: argparse.Namespace) -> tuple[Mapping[str, Any], str]:
    if options.save == "put":
        data = sys.stdin.buffer.read() if options.file == "-" else Path(options.file).read_bytes()
        base = "*" if options.replace else options.if_match
        written = client.put(options.slot, data, base=base, meta=options.meta)
        return asdict(written), f"{written.slot} is at version {written.version}, {written.etag}"
    if options.save == "get":
        save = client.get(options.slot)
        if save is None:
            raise NotFound("save_not_found", f"There is no save {options.slot!r}.")
        if options.file != "-":
            Path(options.file).write_bytes(save.data)
        elif not options.json:
            sys.stdout.buffer.write(save.data)
            sys.stdout.buffer.flush()
        found = {"etag": save.etag, "size": len(save.data), "content_type": save.content_type, "meta": save.meta}
        if options.json and options.file == "-":
            found["data"] = base64.b64encode(save.data).decode()
        return found, ""
    if options.save == "rm":
        client.delete(options.slot, base=cast(str, options.if_match))
        return {"slot": options.slot}, f"{options.slot} is deleted."
    if options.save == "versions":
        found_versions = client.versions(options.slot)
        lines = [f"{v.version}\t{v.kind}\t{v.save.size if v.save else 0}\t{v.expires or '-'}" for v in found_versions]
        return {"slot": options.slot, "versions": [asdict(v) for v in found_versions]}, "\n".join(lines)
    if options.save == "restore":
        restored = client.restore(options.slot, options.version, base=options.if_match)
        return asdict(restored), f"{restored.slot} is at version {restored.version}, {restored.etag}"
    listed = client.list_saves()
    lines = [f"{save.slot}\t{save.etag}\t{save.size}\t{save.modified}" for save in listed]
    return {"saves": [asdict(save) for save in listed]}, "\n".join(lines)
