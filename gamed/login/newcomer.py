"""A newcomer whom the owner has to approve: the short code that both of them see (PROTOCOL 3.5 `player_pending`)."""

from gamed.crypto import Indexer
from gamed.login.transaction import LoginTransaction
from gamed.players.approval import approval_code


def code_of(indexer: Indexer, login: LoginTransaction) -> str | None:
    """None unless the login ended with a newcomer who waits."""
    return None if login.pending_id is None else approval_code(indexer, login.pending_id)
