"""Digests on the wire (RFC 9530): what a client may send along."""

from binascii import Error, a2b_base64
from re import ASCII, compile
from typing import Final

from gamed.saves.errors import DigestMismatch

_MEMBER: Final = compile(r"[ \t]*([a-z*][a-z0-9_.*-]*)=:([A-Za-z0-9+/=]*):[ \t]*", ASCII)
_SHA256_BYTES = 32
MAX_LENGTH = 1024
"""Characters of a Content-Digest: some eight of the longest digests."""
_HELP = "Send Content-Digest: sha-256=:<Base64 of the 32 bytes of SHA-256>:"


def parse_content_digest(text: str | None) -> bytes | None:
    """The 32 bytes that `sha-256=:...:` holds; None without one. Other algorithms are passed over (RFC 9530 2)."""
    if text is None:
        return None
    members = [_MEMBER.fullmatch(member) for member in text.split(",")] if len(text) <= MAX_LENGTH else [None]
    if not all(members):
        raise DigestMismatch(f"Content-Digest cannot be read. {_HELP}, or leave it out.")
    digests = {member[1]: member[2] for member in members if member}  # the last of a name counts (RFC 8941 3.2)
    encoded = digests.get("sha-256")
    return None if encoded is None else _decoded(encoded)


def check_digest(wanted: bytes | None, arrived: bytes) -> None:
    """DigestMismatch when other bytes arrived than were announced."""
    if wanted is not None and wanted != arrived:
        raise DigestMismatch("Other bytes arrived than Content-Digest says; nothing was stored. Send it again.")


def _decoded(encoded: str) -> bytes:
    try:
        digest = a2b_base64(encoded, strict_mode=True)
    except Error:
        digest = b""
    if len(digest) != _SHA256_BYTES:
        raise DigestMismatch(f"The sha-256 of Content-Digest is not 32 bytes in Base64. {_HELP}, or leave it out.")
    return digest
