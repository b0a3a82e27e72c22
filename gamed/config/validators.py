"""Each validator converts one value of a configuration file or raises InvalidValue (SPEC 2.1, 8).

`public_url` and `origin` accept a scheme, a host and an optional port, and nothing else.
"""

from collections.abc import Callable, Iterator
from enum import StrEnum
from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_address, ip_network
from re import ASCII, Pattern, compile
from typing import TypeVar
from unicodedata import category

from idna import IDNAError
from idna import encode as to_ascii
from msgspec import Struct

from gamed.config.errors import InvalidValue
from gamed.config.model import Network
from gamed.timestamps import DurationMalformed, format_duration, parse_duration

E = TypeVar("E", bound=StrEnum)
MAX_COUNT = 1_000_000_000
HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Unicode categories of invisible characters: controls, direction marks, unassigned ones."""
SIZE_UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_SIZE = compile(r"([0-9]{1,12}) ?([KMGT]iB)", ASCII)
_VISIBLE = compile(r"[!-~]+", ASCII)
_SCOPE = compile(r"[!#-\[\]-~]{1,128}", ASCII)
_FIELD = compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}", ASCII)


def choice(kind: type[E]) -> Callable[[object], E]:
    """Return a validator for the values of an enumeration."""
    expected = " or ".join(f'"{member.value}"' for member in kind)

    def validate(value: object) -> E:
        for member in kind:
            if isinstance(value, str) and value == member.value:
                return member
        raise InvalidValue(f"expected {expected}")

    return validate


def duration(least: int, most: int) -> Callable[[object], int]:
    """Return a validator for durations of `least` to `most` seconds."""
    between = f"from {format_duration(least)} to {format_duration(most)}"

    def validate(value: object) -> int:
        try:
            seconds = parse_duration(value if isinstance(value, str) else "")
        except DurationMalformed as e:
            raise InvalidValue(str(e)) from None
        if not least <= seconds <= most:
            raise InvalidValue(f"expected a duration {between}")
        return seconds

    return validate


def number(least: int, most: int) -> Callable[[object], int]:
    """Return a validator for whole numbers from `least` to `most`."""

    def validate(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise InvalidValue(f"expected a whole number from {least} to {most} without quotes")
        return value

    return validate


count = number(0, MAX_COUNT)
"""The validator of a limit, which 0 disables."""


def size(least: int, most: int) -> Callable[[object], int]:
    """Return a validator for `least` to `most` bytes, written as a whole number or as a text with a unit."""

    def validate(value: object) -> int:
        match = _SIZE.fullmatch(value) if isinstance(value, str) else None
        found = int(match[1]) * SIZE_UNITS[match[2]] if match else value
        if not isinstance(found, int) or isinstance(found, bool) or not least <= found <= most:
            raise InvalidValue(f'expected a size such as "16 MiB" or 16777216, from {least} to {format_size(most)}')
        return found

    return validate


def format_size(count: int) -> str:
    """Return the shortest exact text of a size: `16 MiB` for 16777216."""
    unit = next((unit for unit in reversed(SIZE_UNITS) if count and count % SIZE_UNITS[unit] == 0), None)
    return str(count) if unit is None else f"{count // SIZE_UNITS[unit]} {unit}"


def flag(value: object) -> bool:
    """Check that a value is true or false."""
    if not isinstance(value, bool):
        raise InvalidValue("expected true or false without quotes")
    return value


def plain_text(most: int) -> Callable[[object], str]:
    """Return a validator for text on one line of 1 to `most` characters, which a person reads."""

    def validate(value: object) -> str:
        text = _text(value)
        if not 0 < len(text.strip()) <= most:
            raise InvalidValue(f"expected text of 1 to {most} characters")
        if any(category(c) in HIDDEN for c in text):
            raise InvalidValue("expected text on one line, without hidden characters")
        return text.strip()

    return validate


def printable_text(most: int) -> Callable[[object], str]:
    """Return a validator for visible ASCII text without spaces."""

    def validate(value: object) -> str:
        text = _text(value)
        if not _VISIBLE.fullmatch(text) or len(text) > most:
            raise InvalidValue(f"expected 1 to {most} visible ASCII characters without spaces")
        return text

    return validate


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidValue("expected text, in quotes")
    return value


def _matching(form: Pattern[str], expected: str) -> Callable[[object], str]:
    def validate(value: object) -> str:
        if not isinstance(value, str) or not form.fullmatch(value):
            raise InvalidValue(f"expected {expected}")
        return value

    return validate


scope = _matching(_SCOPE, 'one scope without spaces, such as "identify"')
"""The validator of one scope-token (RFC 6749 3.3)."""
field_name = _matching(_FIELD, 'the name of a member of the provider\'s answer, such as "id"')
"""The validator of a member's name in a provider's response."""


def network(value: object) -> Network:
    """Parse an address, or a network in CIDR notation."""
    try:
        if not isinstance(value, str) or "%" in value:
            raise ValueError
        meant = ip_network(value, strict=False)
    except ValueError:
        raise InvalidValue('expected an address or network such as "10.0.0.2" or "10.0.0.0/24"') from None
    if ip_address(value.partition("/")[0]) != meant.network_address:
        raise InvalidValue(f"this network has host bits set; did you mean {meant}?")
    return meant


LOOPBACK_HOSTS = {"localhost", "127.0.0.1", "[::1]"}
"""The only hosts for which plain HTTP is allowed."""
DEFAULT_PORTS = {"https": 443, "http": 80}
EXAMPLE = 'expected an address such as "https://play.example.org"'
_SCHEME = compile(r"([A-Za-z][A-Za-z0-9+.-]*):(/*+)(.*+)", ASCII)
_HOST_PORT = compile(r"(\[[^\]]*+\]|[^:]*+)(?::(.*+))?")
_PORT = compile(r"[1-9][0-9]{0,4}", ASCII)
_LABEL = compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", ASCII)
_NUMERIC = compile(r"[0-9]+|0x[0-9a-f]*", ASCII)
MAX_HOST = 253  # 255 octets in a DNS message (RFC 1035 2.3.4), two of which are not in the text


class PublicUrl(Struct, frozen=True):
    """A URL in canonical form: lower case, IDN as ASCII, shortest IPv6, no default port."""

    scheme: str
    host: str
    """A name, an IPv4 address, or an IPv6 address in brackets."""
    port: int

    @property
    def loopback(self) -> bool:
        return self.host in LOOPBACK_HOSTS

    def __str__(self) -> str:
        port = "" if self.port == DEFAULT_PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{self.host}{port}"


def parse_public_url(text: str) -> PublicUrl:
    """Return the parsed URL; raise InvalidValue with all its errors."""
    scheme, rest = _split_scheme(text)
    authority, wrong = _authority(rest)
    match = _HOST_PORT.fullmatch(authority)
    if match is None:
        raise InvalidValue(
            *wrong, "expected one port at most, and an IPv6 address in brackets, such as https://[2001:db8::1]"
        )
    host, port = "", 0
    try:
        host = _host(match[1])
    except InvalidValue as e:
        wrong += e.messages
    try:
        port = _port(match[2], scheme)
    except InvalidValue as e:
        wrong += e.messages
    url = PublicUrl(scheme, host, port)
    if scheme == "http" and match[1] and not url.loopback:
        wrong.append("must begin with https://; http:// is allowed for localhost, 127.0.0.1 and [::1] only")
    if wrong:
        raise InvalidValue(*wrong)
    return url


def _authority(rest: str) -> tuple[str, list[str]]:
    """Return host and port of what follows the scheme, and a message about what else is there."""
    authority = rest[: min((rest.index(mark) for mark in "/?#" if mark in rest), default=len(rest))]
    named = (("?", "a query"), ("#", "a fragment"), ("@", "a user or password"), ("/", "a path"))
    part = next((part for mark, part in named if mark in rest), None)
    if part is None:
        return authority, []
    at_the_end = ", not even a slash at its end" if rest == f"{authority}/" else ""
    message = f"expected only scheme, host and optional port, without {part}{at_the_end}"
    return authority.rpartition("@")[2], [message]


def public_url(value: object) -> str:
    """Return the canonical form of the member `public_url`."""
    if not isinstance(value, str):
        raise InvalidValue(EXAMPLE)
    return str(parse_public_url(value))


def origin(value: object) -> str:
    """Return one of `cors_origins` in the form that a browser sends as `Origin` (RFC 6454 6.1)."""
    if not isinstance(value, str) or value in ("*", "null"):
        raise InvalidValue('expected an origin such as "https://game.example.org"; "*" and "null" are not allowed')
    return str(parse_public_url(value))


_APP_SCHEME = compile(r"[a-z][a-z0-9+-]{0,62}(?:\.[a-z0-9+-]{1,63}){1,8}:", ASCII)
APP_LINK = 'expected an origin such as "https://app.example.org", or a scheme with a colon, such as "com.example.game:"'


def app_link(own: str | None) -> Callable[[object], str]:
    """Return a validator of one of `app_links`: an https origin, or the scheme of an app (RFC 8252 7.1).

    `own` is the origin of this server, on which no app can be.
    """

    def validate(value: object) -> str:
        text = value if isinstance(value, str) else ""
        if text[:8].lower() == "https://":
            text = str(parse_public_url(text))
        elif not _APP_SCHEME.fullmatch(text):
            raise InvalidValue(*_app_link_errors(text))
        if text == own:
            raise InvalidValue("is this server's own address; expected the address of an app's own site")
        return text

    return validate


def _app_link_errors(text: str) -> Iterator[str]:
    scheme, colon, rest = text.partition(":")
    if scheme.lower() == "http":
        yield "must begin with https://"
    elif _APP_SCHEME.fullmatch(f"{scheme.lower()}:"):
        if scheme != scheme.lower():
            yield "expected a scheme in small letters"
        if not colon:
            yield 'expected a colon after a scheme, or "https://" in front of an origin'
        if rest:
            yield 'expected only the scheme and its colon, or "https://" in front of an origin'
    else:
        yield f"{APP_LINK}; a scheme has two parts or more, the reverse of a domain name"


def _split_scheme(text: str) -> tuple[str, str]:
    if not text.isprintable() or any(c.isspace() for c in text):
        raise InvalidValue("expected no white space and no control characters")
    if "\\" in text or "%" in text:
        raise InvalidValue("expected no backslash and no percent sign")
    match = _SCHEME.fullmatch(text)
    if match is None or (match[2] == "" and "." in match[1]):
        raise InvalidValue(f'{EXAMPLE}; "https://" in front is missing')
    if match[1].lower() not in DEFAULT_PORTS or match[2][:2] != "//":
        raise InvalidValue(EXAMPLE)
    return match[1].lower(), match[2][2:] + match[3]


def _port(text: str | None, scheme: str) -> int:
    if text is None:
        return DEFAULT_PORTS[scheme]
    if not _PORT.fullmatch(text) or int(text) > 65535:
        raise InvalidValue("expected a port from 1 to 65535 after the colon")
    return int(text)


def _host(text: str) -> str:
    if text == "":
        raise InvalidValue(f"{EXAMPLE}; the host is missing")
    if text.startswith("["):
        return _ipv6(text[1:-1])
    name = _name(text)
    return _ipv4(name) if _NUMERIC.fullmatch(name.rpartition(".")[2]) else name


def _name(text: str) -> str:
    if text.endswith((".", "\u3002", "\uff0e", "\uff61")):
        raise InvalidValue("expected no dot at the end of the host")
    try:
        name = text.lower() if text.isascii() else to_ascii(text, uts46=True, std3_rules=True).decode("ascii")
        for label in name.split("."):
            if not _LABEL.fullmatch(label):
                raise InvalidValue("expected a host of letters, digits and hyphens between dots")
            if label.startswith("xn--"):
                to_ascii(label)
    except IDNAError:
        raise InvalidValue("expected a host that is valid as an international domain name") from None
    if len(name) > MAX_HOST:
        raise InvalidValue(f"expected a host of at most {MAX_HOST} characters")
    return name


def _ipv4(text: str) -> str:
    try:
        address = IPv4Address(text)
    except AddressValueError:
        raise InvalidValue("expected four decimal numbers, such as 192.0.2.7, or a name") from None
    return _reachable(address, str(address))


def _ipv6(text: str) -> str:
    try:
        address = IPv6Address(text)
    except AddressValueError:
        raise InvalidValue("expected an IPv6 address in the brackets, such as [2001:db8::1]") from None
    if address.ipv4_mapped is not None:
        raise InvalidValue(f"expected the IPv4 address itself: {address.ipv4_mapped}")
    return _reachable(address, f"[{address}]")


def is_private(text: str) -> bool | None:
    """Return whether an address is one to which the internet has no route, such as 192.168.0.7; None for a name."""
    try:
        address = ip_address(text.partition("%")[0])  # without the zone of a link-local address
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return not (mapped or address).is_global


def _reachable(address: IPv4Address | IPv6Address, text: str) -> str:
    if address.is_unspecified or address.is_multicast:
        raise InvalidValue("expected the address of one host that players can reach")
    return text
