"""Where a body ends (RFC 9112 6.3); every ambiguity is refused, since a proxy in front may have read it otherwise."""

from twisted.web.http import _ChunkedTransferDecoder, _MalformedChunkedDataError

from gamed.web.errors import BadRequest
from gamed.web.raw_head import RawHead, parse_field

_HUGE = 10**18


def body_length(head: RawHead) -> int | None:
    """Bytes that follow the head; None when chunked; 0 when nothing was said."""
    codings, lengths = head.values(b"transfer-encoding"), head.values(b"content-length")
    if codings:
        _judge_chunked(head, codings, lengths)
        return None
    if not lengths:
        return 0
    if len(lengths) > 1 or not lengths[0].isdigit():
        raise BadRequest("Send one Content-Length, in digits.")
    digits = lengths[0].lstrip(b"0") or b"0"
    return int(digits) if len(digits) <= 18 else _HUGE


def _judge_chunked(head: RawHead, codings: list[bytes], lengths: list[bytes]) -> None:
    if lengths:
        raise BadRequest("Send Content-Length or Transfer-Encoding, not both.")
    if head.version == b"HTTP/1.0":
        raise BadRequest("Transfer-Encoding belongs to HTTP/1.1.")
    if [coding.lower() for coding in codings] != [b"chunked"]:
        raise BadRequest("The only transfer coding taken is chunked.")


class Chunks(_ChunkedTransferDecoder):
    """Twisted's, which takes any line behind the last chunk for a trailer. Here it is a field (RFC 9112 7.1.2)."""

    def _dataReceived_TRAILER(self) -> bool:
        more = super()._dataReceived_TRAILER()
        if more:
            try:
                parse_field(bytes(self._trailerHeaders[-1]))
            except BadRequest as e:
                raise _MalformedChunkedDataError from e
        return more
