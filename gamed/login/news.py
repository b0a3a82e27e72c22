"""Who is to be told when a login has moved: its game, and callbacks that wait for another one's exchange."""

from gamed.login.transaction import LoginTransaction
from gamed.waits import Waits


def callback_key(login: LoginTransaction) -> bytes:
    """Under this a second callback waits."""
    return b"callback " + login.login_id.encode()


def tell(waits: Waits, login: LoginTransaction) -> None:
    waits.wake(login.secret_index)
    waits.wake(callback_key(login))
