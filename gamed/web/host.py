"""Which host names this server answers for (PROTOCOL 1): a page elsewhere must not speak in our name."""

from collections.abc import Collection, Sequence
from functools import lru_cache
from ipaddress import AddressValueError, IPv6Address
from re import ASCII, compile

from gamed.web.errors import BadRequest, Misdirected

NAME_BYTES = 255
"""At most (RFC 3986 3.2.2); what was judged is remembered, and a head may have far more."""
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_NAME = compile(r"([a-z0-9_-]+(?:\.[a-z0-9_-]+)*)\.?(?::[0-9]{0,5})?", ASCII)
_LITERAL = compile(r"\[([0-9a-f:.]+)\](?::[0-9]{0,5})?", ASCII)


def judge_host(version: bytes, hosts: Sequence[bytes], authority: bytes | None, ours: Collection[str]) -> None:
    """Raise BadRequest for none, two or a malformed Host, Misdirected for another server's.

    `ours` are the names of the base besides loopback, as `normal_host` gives them. `authority` is that of an
    absolute target and wins over Host, which has to be there all the same.
    """
    if not hosts and version == b"HTTP/1.0" and authority is None:
        return
    if len(hosts) > 1 or (not hosts and version != b"HTTP/1.0"):
        raise BadRequest("Send one Host field.")
    names = [normal_host(host) for host in [*hosts, *([] if authority is None else [authority])]]
    if names[-1] not in LOOPBACK and names[-1] not in ours:
        raise Misdirected


@lru_cache(256)
def normal_host(raw: bytes) -> str:
    """`Example.ORG.:8080` -> `example.org`, `[0::1]` -> `::1`; BadRequest when it is no host."""
    text = raw.decode("latin-1").lower()
    literal = _LITERAL.fullmatch(text)
    if literal is not None:
        return _normal_literal(literal[1])
    name = _NAME.fullmatch(text)
    if name is None or len(name[1]) > NAME_BYTES:
        raise BadRequest("The Host field is not a host and an optional port.")
    return name[1]


def _normal_literal(text: str) -> str:
    try:
        return str(IPv6Address(text))
    except AddressValueError:
        raise BadRequest("The Host field is not an address.") from None
