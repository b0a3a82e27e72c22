"""A ticket's claims are made and validated here, and the periods of the signing keys are decided.

The claims are those of RFC 7519 4.1 and `nonce`, `name` and `owner` (docs/protocol.md: Tickets).
"""

from collections.abc import Mapping, Sequence

from gamed.config.model import TicketAudience
from gamed.crypto import base64url
from gamed.tickets.model import Holder, KeyPeriod, TicketRequest

DAY_MS = 86_400_000
FIRST = KeyPeriod(1, 0)
"""The key of a server that has never rotated it."""
SKEW_SECONDS = 30
"""How far the clocks of two machines with one PostgreSQL may differ. A ticket that was issued later than this shows
that the clock was set back: accepted, it would be valid longer than it says."""

NONCE_CHARACTERS = 128
NONCE_RULE = f"A nonce is 1 to {NONCE_CHARACTERS} visible ASCII characters without spaces."


def is_nonce(text: str) -> bool:
    return 1 <= len(text) <= NONCE_CHARACTERS and all("!" <= character <= "~" for character in text)


def ticket_claims(
    holder: Holder,
    request: TicketRequest,
    allowed: TicketAudience,
    *,
    issuer: str,
    now_ms: int,
    seconds: int,
    jti: bytes,
) -> dict[str, object]:
    """Return the claims of a new ticket; the owner's settings decide whether it has `name` and `owner`."""
    now = now_ms // 1000
    claims: dict[str, object] = {"iss": issuer, "aud": request.audience, "sub": holder.caller.player_id}
    claims |= {"iat": now, "exp": now + seconds, "jti": base64url(jti)}
    if request.nonce is not None:
        claims["nonce"] = request.nonce
    if allowed.name and holder.name is not None:
        claims["name"] = holder.name
    if allowed.owner:
        claims["owner"] = holder.caller.owner
    return claims


def valid_claims(claims: Mapping[str, object], *, issuer: str, audience: str, now_ms: int) -> bool:
    """Return whether claims whose signature is verified are those of a ticket for this audience that is valid now."""
    if claims.get("iss") != issuer or claims.get("aud") != audience:
        return False
    issued, expires, now = claims.get("iat"), claims.get("exp"), now_ms / 1000
    # type(): True is an int, too. A list of audiences is refused above: it is not equal to a text.
    if type(issued) is not int or type(expires) is not int:
        return False
    return issued - SKEW_SECONDS <= now < expires


def period_in_use(periods: Sequence[KeyPeriod], now_ms: int) -> KeyPeriod:
    """Return the newest key whose first use is not in the future; `periods` are in the order of their numbers."""
    used = [period for period in periods if period.first_use_ms <= now_ms]
    return used[-1] if used else periods[0]  # the clock was set back to before the first rotation


def published_periods(periods: Sequence[KeyPeriod], now_ms: int) -> list[KeyPeriod]:
    """Return the keys of `GET /auth/keys`: the next one, the one in use, and for a day the one before.

    A key's row is there a day before its first use, so that servers that read the keys once a day know it in time.
    """
    successors = [*periods[1:], None]
    return [
        period
        for period, successor in zip(periods, successors, strict=True)
        if successor is None or now_ms < successor.first_use_ms + DAY_MS
    ]


def next_period(periods: Sequence[KeyPeriod], now_ms: int) -> KeyPeriod | None:
    """Return the key of the next rotation; None while the last rotation's key is not in use yet."""
    newest = periods[-1]
    return None if newest.first_use_ms > now_ms else KeyPeriod(newest.number + 1, now_ms + DAY_MS)
