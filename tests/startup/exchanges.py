"""A login whose process was killed while it redeemed the code of a provider."""

from contextlib import closing
from pathlib import Path
from secrets import token_bytes

from gamed.crypto import Index
from gamed.database.sqlite.files import connect, file_uri
from gamed.login import tables as login_tables
from gamed.login.transaction import ClientInfo, LoginIntent, LoginStage, LoginTransaction, ProofMethod

FOREVER_MS = 2**53


def begin_exchange(path: Path, instance_id: str = "") -> str:
    """Write a login that this process redeems the code of; return the login's id."""
    secret, token, address = (Index(token_bytes(32)) for _ in range(3))
    login = LoginTransaction(
        f"log_{instance_id}",
        secret,
        token,
        LoginIntent.LOGIN,
        "google",
        ClientInfo(),
        ProofMethod.CODE,
        None,
        address,
        0,
        FOREVER_MS,
        FOREVER_MS,
        LoginStage.EXCHANGING,
        instance_id=instance_id,
    )
    with closing(connect(file_uri(path, "rw"))) as connection:
        login_tables.insert_login(connection, login)
    return login.login_id
