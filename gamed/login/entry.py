"""The ids and the token of a login, and under what they are found (PROTOCOL 3.1)."""

from typing import Literal

from msgspec import Struct

from gamed.crypto import Index, Indexer, Purpose, Random, Secret
from gamed.tokens import ID_BYTES, Kind, TokenMalformed, base64url, parse, public_id

LOCAL = "local"
"""What stands for a provider in local mode."""
_TOKEN_BYTES = 16


class Key(Struct, frozen=True):
    """One of the three ways to a login's row."""

    column: Literal["login_id", "secret_index", "token_index"]
    value: str | Index

    @classmethod
    def id(cls, login_id: str) -> "Key":
        return cls("login_id", login_id)

    @classmethod
    def secret(cls, index: Index) -> "Key":
        return cls("secret_index", index)

    @classmethod
    def token(cls, indexer: Indexer, token: str) -> "Key":
        return cls("token_index", token_index(indexer, token))


def new_login_id(random: Random) -> str:
    return public_id("lgn", random(ID_BYTES))


def token_of(indexer: Indexer, login_id: str) -> str:
    """The token of `login_url`: whoever has the key can tell it from the id, so that it need not be kept."""
    return base64url(indexer.index(Purpose.LOGIN_TOKEN, b"of", login_id.encode())[:_TOKEN_BYTES])


def token_index(indexer: Indexer, token: str) -> Index:
    return indexer.index(Purpose.LOGIN_TOKEN, token.encode())


def secret_index(indexer: Indexer, secret: Secret) -> Index:
    return indexer.index(Purpose.DEVICE_SECRET, secret.reveal())


def index_of_device(indexer: Indexer, text: str | None) -> Index | None:
    """Where the login of a presented device secret is found; None when it cannot be one."""
    try:
        return None if text is None else secret_index(indexer, parse(Kind.DEVICE_SECRET, text))
    except TokenMalformed:
        return None
