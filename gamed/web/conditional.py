"""What every answer about a player's own things has in common: conditions read, a part sent (PROTOCOL 4.2, 6)."""

from typing import IO

from gamed.http.errors import BadPrecondition
from gamed.http.request import Request
from gamed.http_rules.conditions import Conditions, Header, parse_conditions
from gamed.http_rules.ranges import ByteRange
from gamed.http_rules.tags import TagsMalformed
from gamed.web.sending import Parts, send

PRIVATE = {"Cache-Control": "private, no-cache, no-transform", "Vary": "Authorization"}
"""On every answer that is one player's."""


def conditions_of(header: Header) -> Conditions:
    """Of a GET or HEAD; BadPrecondition for tags that cannot be read."""
    try:
        return parse_conditions(header)
    except TagsMalformed as e:
        raise BadPrecondition(f"If-Match and If-None-Match take etags: {e}.") from None


async def send_part(
    request: Request, content: bytes | IO[bytes] | Parts | None, size: int, part: ByteRange | None
) -> bytes | None:
    """206 with the part, or all `size` bytes; None as `content` of a HEAD. What is not returned is written already."""
    first, length = (part.first, part.length) if part else (0, size)
    if part is not None:
        request.setResponseCode(206)
        request.setHeader("Content-Range", part.content_range)
    if isinstance(content, bytes):
        return content[first : first + length]
    request.setHeader("Content-Length", str(length))
    if content is None:
        request.write(b"")
    else:
        await send(request, content, first, length)
    return None
