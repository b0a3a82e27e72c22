"""The address players reach the server at: scheme, host, optional port, nothing else (SPEC 2.1, 8)."""

from ipaddress import AddressValueError, IPv4Address, IPv6Address
from re import ASCII, compile

from idna import IDNAError
from idna import encode as to_ascii
from msgspec import Struct

from gamed.config.problems import Wrong

LOOPBACK_HOSTS = {"localhost", "127.0.0.1", "[::1]"}
"""Where plain HTTP is allowed: exactly these."""
DEFAULT_PORTS = {"https": 443, "http": 80}
EXAMPLE = 'expected an address such as "https://play.example.org"'
_SCHEME = compile(r"([A-Za-z][A-Za-z0-9+.-]*):(/*+)(.*+)", ASCII)
_HOST_PORT = compile(r"(\[[^\]]*+\]|[^:]*+)(?::(.*+))?")
_PORT = compile(r"[1-9][0-9]{0,4}", ASCII)
_LABEL = compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", ASCII)
_NUMERIC = compile(r"[0-9]+|0x[0-9a-f]*", ASCII)
MAX_HOST = 253


class PublicUrl(Struct, frozen=True):
    """In canonical form: small letters, IDN as ASCII, shortest IPv6, no default port."""

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
    """Return the address, or raise Wrong with everything that is wrong with it."""
    scheme, rest = _split_scheme(text)
    authority, wrong = _authority(rest)
    match = _HOST_PORT.fullmatch(authority)
    if match is None:
        raise Wrong(*wrong, "expected one port at most, and an IPv6 address in brackets, such as https://[2001:db8::1]")
    host, port = "", 0
    try:
        host = _host(match[1])
    except Wrong as e:
        wrong += e.messages
    try:
        port = _port(match[2], scheme)
    except Wrong as e:
        wrong += e.messages
    url = PublicUrl(scheme, host, port)
    if scheme == "http" and match[1] and not url.loopback:
        wrong.append("must begin with https://; http:// is allowed for localhost, 127.0.0.1 and [::1] only")
    if wrong:
        raise Wrong(*wrong)
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
    """The rule of the member `public_url`."""
    if not isinstance(value, str):
        raise Wrong(EXAMPLE)
    return str(parse_public_url(value))


def origin(value: object) -> str:
    """One of `cors_origins`: exactly what a browser sends as `Origin` (RFC 6454 6.1)."""
    if not isinstance(value, str) or value in ("*", "null"):
        raise Wrong('expected an origin such as "https://game.example.org"; "*" and "null" are not allowed')
    return str(parse_public_url(value))


def _split_scheme(text: str) -> tuple[str, str]:
    if not text.isprintable() or any(c.isspace() for c in text):
        raise Wrong("expected no white space and no control characters")
    if "\\" in text or "%" in text:
        raise Wrong("expected no backslash and no percent sign")
    match = _SCHEME.fullmatch(text)
    if match is None or (match[2] == "" and "." in match[1]):
        raise Wrong(f'{EXAMPLE}; "https://" in front is missing')
    if match[1].lower() not in DEFAULT_PORTS or match[2][:2] != "//":
        raise Wrong(EXAMPLE)
    return match[1].lower(), match[2][2:] + match[3]


def _port(text: str | None, scheme: str) -> int:
    if text is None:
        return DEFAULT_PORTS[scheme]
    if not _PORT.fullmatch(text) or int(text) > 65535:
        raise Wrong("expected a port from 1 to 65535 after the colon")
    return int(text)


def _host(text: str) -> str:
    if text == "":
        raise Wrong(f"{EXAMPLE}; the host is missing")
    if text.startswith("["):
        return _ipv6(text[1:-1])
    name = _name(text)
    return _ipv4(name) if _NUMERIC.fullmatch(name.rpartition(".")[2]) else name


def _name(text: str) -> str:
    if text.endswith((".", "\u3002", "\uff0e", "\uff61")):
        raise Wrong("expected no dot at the end of the host")
    try:
        name = text.lower() if text.isascii() else to_ascii(text, uts46=True, std3_rules=True).decode("ascii")
        for label in name.split("."):
            if not _LABEL.fullmatch(label):
                raise Wrong("expected a host of letters, digits and hyphens between dots")
            if label.startswith("xn--"):
                to_ascii(label)
    except IDNAError:
        raise Wrong("expected a host that is valid as an international domain name") from None
    if len(name) > MAX_HOST:
        raise Wrong(f"expected a host of at most {MAX_HOST} characters")
    return name


def _ipv4(text: str) -> str:
    try:
        address = IPv4Address(text)
    except AddressValueError:
        raise Wrong("expected four decimal numbers, such as 192.0.2.7, or a name") from None
    return _reachable(address, str(address))


def _ipv6(text: str) -> str:
    try:
        address = IPv6Address(text)
    except AddressValueError:
        raise Wrong("expected an IPv6 address in the brackets, such as [2001:db8::1]") from None
    if address.ipv4_mapped is not None:
        raise Wrong(f"expected the IPv4 address itself: {address.ipv4_mapped}")
    return _reachable(address, f"[{address}]")


def _reachable(address: IPv4Address | IPv6Address, text: str) -> str:
    if address.is_unspecified or address.is_multicast:
        raise Wrong("expected the address of one host that players can reach")
    return text
