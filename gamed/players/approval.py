"""The short code by which an owner finds the newcomer who waits (PROTOCOL 3.5 `player_pending`)."""

from gamed.crypto import Indexer, Purpose
from gamed.login.proof import ALPHABET, CODE_LETTERS

_BASE = len(ALPHABET)


def approval_code(indexer: Indexer, player_id: str) -> str:
    """`BKT-RVW`: always the same for one player, and it opens nothing."""
    number = int.from_bytes(indexer.index(Purpose.APPROVAL, player_id.encode()), "big")
    letters = "".join(ALPHABET[number // _BASE**place % _BASE] for place in range(CODE_LETTERS))
    return f"{letters[:3]}-{letters[3:]}"


def same_code(code: str, typed: str) -> bool:
    """Case, dashes and spaces do not matter: people type what they are told."""
    return code.replace("-", "") == "".join(letter for letter in typed.upper() if letter not in " -\u2010\u2011\u2013")
