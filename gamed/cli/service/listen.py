"""The endpoints of `--listen` and `--admin` are parsed and checked before any is opened.

See SPEC 5/10; docs/owners/commands.md: Three ways to run the service.
"""

import errno
import os
import socket
from collections.abc import Sequence
from contextlib import closing
from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import combinations
from pathlib import Path
from re import ASCII, compile
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from OpenSSL import SSL, crypto
from twisted.internet.endpoints import AdoptedStreamServerEndpoint, quoteStringArgument, serverFromString

from gamed.cli.errors import CommandFailed, SetupError
from gamed.config.model import Config
from gamed.ops.listeners import with_mode

NETWORK = ("tcp", "tcp6", "ssl")
USUAL_PORT, LAST_PORT = 8080, 65535
_PIECE = compile(r"((?:[^:\\]|\\.|\\\Z)*+)(?::|\Z)")
_ESCAPE = compile(r"\\(.)")
_ADDRESS = compile(r"(?:(?:\[([\da-fA-F:.]++)\]|([\d.]++|localhost)):)?(\d++)", ASCII)
"""A port as other servers accept it, alone or behind an IPv6 address in brackets, an IPv4 address or `localhost`."""
_BARE_IPV6 = compile(r"[a-z\d]++:(?:port=)?(\d*+):interface=\[?([\da-fA-F.]*+:[\da-fA-F:.]*+)\]?", ASCII)
"""An endpoint whose IPv6 address lacks the backslashes that Twisted needs before its colons."""
EXAMPLES = "8080, 127.0.0.1:8080, [::1]:8080 or unix:/run/gamed/http.sock"


class Listener(Struct, frozen=True):
    """The address that one endpoint string opens."""

    text: str
    kind: str
    host: str = ""
    """An empty host is every address of the machine, or not known."""
    port: int = 0
    path: str = ""
    """The path of a unix socket; an abstract one begins with a zero byte."""
    descriptor: int | None = None
    """The descriptor of a socket that another process opened and passed on."""
    option: str = "--listen"
    """The option that named the endpoint, for messages."""
    typed: str = ""
    """The endpoint as the operator wrote it, for messages; `text` is the string for Twisted."""

    @property
    def name(self) -> str:
        return f"{self.option} {self.typed or self.text}"

    @property
    def local(self) -> bool:
        """Return whether only this machine can connect."""
        if self.path:
            return True
        try:
            return self.host == "localhost" or ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def plain(self) -> bool:
        """Return whether the connection is not encrypted."""
        return self.kind != "ssl"

    @property
    def client_host(self) -> str:
        """Return the host to connect to from this machine."""
        everywhere = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}
        return everywhere.get(self.host, self.host)

    @property
    def client_endpoint(self) -> str:
        """Return the endpoint string for a client; for an inherited socket the address that it is bound to."""
        if self.path:
            return f"unix:{quoteStringArgument(self.path)}"
        if self.kind in NETWORK or not self.host:
            return self.text
        return f"tcp:{self.port}:interface={quoteStringArgument(self.host)}"


def parse_listener(reactor: Any, typed: str, option: str = "--listen") -> Listener:
    """Parse a port, an address with a port or an endpoint string, without opening it.

    Raise SetupError if Twisted would reject it. A socket that systemd passed is described by its own address.
    """
    try:
        text = endpoint_of(typed)
        listener = describe(text)
        endpoint = serverFromString(reactor, with_mode(text))
        if isinstance(endpoint, AdoptedStreamServerEndpoint):
            listener = describe_inherited(text, endpoint.fileno, endpoint.addressFamily)
        return replace(listener, option=option, typed=typed)
    except (SSL.Error, crypto.Error):
        raise SetupError(
            f"{option} {typed}: the certificate or its key cannot be used. Name the right files."
        ) from None
    except (ValueError, TypeError, LookupError, OSError) as e:
        if (bare := _BARE_IPV6.fullmatch(typed)) is not None:
            address = f"[{bare[2]}]:{bare[1] or USUAL_PORT}"
            raise SetupError(f"{option} {typed}: Twisted reads these colons as separators. Write {address}.") from None
        raise SetupError(f"{option} {typed}: {e or type(e).__name__}. Expected {EXAMPLES}.") from None


def endpoint_of(typed: str) -> str:
    """Return the endpoint string of a port, for this machine only, or of an address with a port; others as they are."""
    if (found := _ADDRESS.fullmatch(typed)) is None:
        return typed
    v6, host, port = found.groups()
    try:
        if v6 is not None:
            return f"tcp6:{port}:interface={quoteStringArgument(str(IPv6Address(v6)))}"
        if host not in (None, "localhost"):
            IPv4Address(host)
    except ValueError:  # Twisted rejects it
        return typed
    return f"tcp:{port}:interface={host or '127.0.0.1'}"


def loopback(port: int) -> str:
    """Return the address to advise, for this machine only: with this port, or with the default one."""
    return f"127.0.0.1:{port if 0 < port <= LAST_PORT else USUAL_PORT}"


def own_url(listeners: Sequence[Listener]) -> str | None:
    """Return the base URL without `public_url`: that of the first TCP listener, as this machine reaches it.

    Return None if there is none, or if the kernel chooses its port.
    """
    first = next((each for each in listeners if each.kind in ("tcp", "tcp6")), None)
    if first is None or not first.port:
        return None
    host = f"[{first.client_host}]" if ":" in first.client_host else first.client_host
    return f"http://{host}:{first.port}"


def describe(text: str) -> Listener:
    """Describe an endpoint by its string alone; raise ValueError if the port is not valid."""
    # Backslash escapes are resolved after the split at colons, as Twisted does.
    kind, *rest = (_ESCAPE.sub(r"\1", piece) for piece in _raw_pieces(text))
    named = dict(piece.split("=", 1) for piece in rest if "=" in piece)
    bare = [piece for piece in rest if "=" not in piece]
    if kind in NETWORK:
        default = "::" if kind == "tcp6" else ""
        port = named.get("port", bare[0] if bare else "8443" if kind == "ssl" else "")
        if not port.isdecimal() or not 0 <= int(port) <= LAST_PORT:
            raise ValueError(f"the port is not one of 0 to {LAST_PORT}")
        return Listener(text, kind, named.get("interface", default), int(port))
    if kind == "unix":
        return Listener(text, kind, path=named.get("address", bare[0] if bare else ""))
    return Listener(text, kind)


def numbered(text: str, number: int) -> str:
    """Return the endpoint of a worker: the first has `text` itself, the next the next port, or the path with `.2`."""
    kind, *rest = _raw_pieces(endpoint_of(text))
    name = "address=" if kind == "unix" else "port="
    for index, piece in enumerate(rest):
        value = piece.removeprefix(name)
        if number > 1 and (value != piece or "=" not in piece):
            following = str(int(value) + number - 1) if value.isdecimal() and int(value) else value
            new = f"{value}.{number}" if kind == "unix" else following
            rest[index] = piece.removesuffix(value) + new
            break
    return ":".join([kind, *rest])


def refuse_repeated(listeners: Sequence[Listener]) -> None:
    """Raise SetupError if two of the endpoints name one port or socket: the second could never be opened."""
    for one, other in combinations(listeners, 2):
        if not _overlap(one, other):
            continue
        if one.text == other.text:
            raise SetupError(f"{one.name} is given twice. Leave one of them out.")
        what = "socket" if one.path else "port"
        raise SetupError(f"{one.name} and {other.name} name one {what}. Leave one of them out.")


def check_listeners(listeners: Sequence[Listener], config: Config, *, private: bool) -> None:
    """Raise SetupError if an endpoint would send secrets unencrypted, or if the server would not know its address."""
    https = (config.public_url or "").startswith("https:")
    exposed = [listener for listener in listeners if listener.plain and not listener.local]
    if exposed and not https and not private:
        raise SetupError(
            f"{exposed[0].name} can be reached from other machines, without encryption. Listen on "
            f"{loopback(exposed[0].port)}; or set an https public_url and put a proxy in front; or pass "
            "--private-listen if only this machine reaches the port."
        )
    if config.public_url is not None:
        return
    first = next((listener for listener in listeners if listener.kind in ("tcp", "tcp6")), None)
    if first is not None and not first.port and first.client_host != "127.0.0.1":
        raise SetupError(f"{first.name}: without public_url the server needs a port for its links. Name one.")
    if first is None:
        raise SetupError(
            "Without a tcp listener of its own the server does not know its address. Set public_url in "
            "authentication.json, such as http://localhost:8080 on this machine only, or add "
            f"--listen {loopback(USUAL_PORT)}."
        )


def check_admin(listener: Listener, others: Sequence[Listener]) -> None:
    """Raise SetupError if an `--admin` endpoint is open to other machines, or is an endpoint of the game."""
    if listener.kind not in ("tcp", "tcp6", "unix") or not listener.local:
        raise SetupError(
            f"{listener.name}: only this machine may reach it. Expected 9100 or unix:/run/gamed/admin.sock."
        )
    shared = [other.typed or other.text for other in others if _same(listener, other)]
    if shared:
        raise SetupError(f"{listener.name}: the game is served there, by {shared[0]}. Name another endpoint.")


def _same(one: Listener, other: Listener) -> bool:
    """Return whether both name the same port or path."""
    if one.path or other.path:
        return one.path == other.path
    return one.port == other.port != 0


def _overlap(one: Listener, other: Listener) -> bool:
    """Return whether the kernel would refuse the second of the two; an address of all interfaces has every address."""
    if one.path or other.path:
        return _absolute(one.path) == _absolute(other.path)
    everywhere = not {one.host, other.host}.isdisjoint({"", "0.0.0.0", "::"})
    hosts = [listener.client_host.replace("localhost", "127.0.0.1") for listener in (one, other)]
    same_family = (":" in hosts[0]) == (":" in hosts[1])
    return one.port == other.port != 0 and (hosts[0] == hosts[1] or (everywhere and same_family))


def _absolute(path: str) -> str:
    return path if path.startswith("\0") else os.path.abspath(path)


def probe(listeners: Sequence[Listener]) -> None:
    """Raise CommandFailed or SetupError if one of the endpoints cannot be opened now; nothing stays open."""
    for listener in listeners:
        if listener.kind in NETWORK and listener.port:
            _probe_port(listener)
        if listener.kind == "unix":
            _probe_path(listener)


def _raw_pieces(text: str) -> list[str]:
    return [match[1] for match in _PIECE.finditer(text) if match[0]] or [""]


def describe_inherited(text: str, descriptor: int, family: int) -> Listener:
    """Describe a socket that another process opened, as `systemd:domain=INET:index=0`, by its own address.

    Raise ValueError if it is not of that family (`domain`) or does not listen, OSError if it is not a socket.
    """
    with duplicate(descriptor) as copy:
        if copy.family != family:
            raise ValueError(f"it is a socket of domain={socket.AddressFamily(copy.family).name.removeprefix('AF_')}")
        if copy.type != socket.SOCK_STREAM or not copy.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            raise ValueError("it is not a listening stream socket (Accept=no, ListenStream=)")
        name = copy.getsockname()
    if family == socket.AF_UNIX:
        return Listener(text, "inherited", path=os.fsdecode(name), descriptor=descriptor)
    host, port, *_ = name
    return Listener(text, "inherited", host, port, descriptor=descriptor)


def duplicate(descriptor: int) -> closing[socket.socket]:
    """Return a copy of a socket that stays open; family and type come from the kernel."""
    return closing(socket.socket(fileno=os.dup(descriptor)))


def _probe_port(listener: Listener) -> None:
    v6 = listener.kind == "tcp6" or ":" in listener.host
    with closing(socket.socket(socket.AF_INET6 if v6 else socket.AF_INET, socket.SOCK_STREAM)) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if v6:
            trial.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        try:
            trial.bind((listener.host, listener.port))
        except OSError as e:
            raise cannot_listen(listener.name, e) from None


def _probe_path(listener: Listener) -> None:
    """Check that a unix socket can be opened; Twisted replaces a socket file that a killed server left."""
    path = Path(listener.path)
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise SetupError(f"{listener.name}: {path.parent} is not a folder that can be written.")
    if path.exists() and not path.is_socket():
        raise SetupError(f"{listener.name}: another file has that name. Name another path.")
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as trial:
        try:
            trial.connect(listener.path)
        except OSError as e:
            if e.errno is None:  # Python's own: the path is longer than a socket's may be
                raise cannot_listen(listener.name, e) from None
            return
    raise CommandFailed(f"{listener.name}: another program listens there. Stop that, or name another path.")


def cannot_listen(name: str, error: BaseException) -> CommandFailed | SetupError:
    """Return the exception for a port that could not be opened; `name` is the option with the endpoint.

    It is CommandFailed, so that a systemd unit retries, if a program has the port or the machine lacks the address.
    """
    code, option = getattr(error, "errno", None), name.partition(" ")[0]
    if code == errno.EADDRINUSE:
        taken = "the port is taken by another program. Stop that, or name another port with"
        return CommandFailed(f"{name}: {taken} {option} PORT.")
    if code == errno.EACCES:
        return SetupError(f"{name}: this user may not open that port. Name a port from 1024 on with {option}.")
    kind = CommandFailed if code == errno.EADDRNOTAVAIL else SetupError
    return kind(f"{name}: {getattr(error, 'strerror', None) or error}.")
