"""What the authorization endpoint is sent, judged more strictly than the real providers do (RFC 6749 4.1, RFC 7636)."""

from collections.abc import Iterable, Iterator, Mapping
from re import ASCII, compile
from urllib.parse import parse_qsl, urlencode

from msgspec import Struct

from gamed.dev.sides import Client, Side
from gamed.structs import hides

KNOWN = {"response_type", "client_id", "redirect_uri", "scope", "state", "code_challenge", "code_challenge_method"}
_CHALLENGE = compile(r"[A-Za-z0-9_-]{43}", ASCII)
_VISIBLE = compile(r"[ -~]{1,512}", ASCII)


class Untrusted(Exception):
    """No redirect may follow: it is not known that the address is the client's. `str` is for the page."""


@hides("state", "challenge", "nonce")
class Asked(Struct, frozen=True):
    """A request that may be shown to a person."""

    client: Client
    redirect_uri: str
    state: str
    challenge: str
    nonce: str | None


class Wrong(Struct, frozen=True):
    """A request that is answered with an error, by way of the browser (RFC 6749 4.1.2.1)."""

    asked: Asked
    error: str
    description: str


def judge(side: Side, query: str, clients: Iterable[Client]) -> Asked | Wrong:
    """`query` as it was sent. Raises Untrusted."""
    sent = _parameters(query)
    client = next((each for each in clients if each.side is side and each.client_id == sent.get("client_id")), None)
    if client is None:
        raise Untrusted("Unknown client_id. Is this the client ID of the application?")
    redirect_uri = sent.get("redirect_uri", "")
    if redirect_uri not in client.redirect_uris:
        raise Untrusted("This redirect_uri is not registered. Each character counts.")
    asked = Asked(client, redirect_uri, sent.get("state", ""), sent.get("code_challenge", ""), sent.get("nonce"))
    found = next(_mistakes(side, sent), None)
    return asked if found is None else Wrong(asked, *found)


def _parameters(query: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True, errors="strict")
    except ValueError:
        raise Untrusted("The query is malformed.") from None
    if len({name for name, _ in pairs}) != len(pairs):
        raise Untrusted("A parameter is there twice.")
    return dict(pairs)


def _mistakes(side: Side, sent: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Error and description, the first first."""
    known = KNOWN | {"prompt"} | ({"nonce"} if side.openid else set())
    for name in sorted(set(sent) - known):
        yield "invalid_request", f"unknown parameter {name}"
    if sent.get("response_type") != "code":
        yield "unsupported_response_type", "response_type must be code"
    if sent.get("scope") != side.scope:
        yield "invalid_scope", f"scope must be exactly {side.scope}"
    if not _VISIBLE.fullmatch(sent.get("state", "")):
        yield "invalid_request", "state is missing"
    if sent.get("code_challenge_method") != "S256" or not _CHALLENGE.fullmatch(sent.get("code_challenge", "")):
        yield "invalid_request", "code_challenge must be of S256"
    if side.openid and not _VISIBLE.fullmatch(sent.get("nonce", "")):
        yield "invalid_request", "nonce is missing"
    if sent.get("prompt", "none") not in side.prompts:
        yield "invalid_request", "prompt is unknown"


def back(asked: Asked, answer: Mapping[str, str]) -> str:
    """Where the browser goes with an answer."""
    state = {"state": asked.state} if asked.state else {}
    return f"{asked.redirect_uri}?{urlencode({**answer, **state})}"
