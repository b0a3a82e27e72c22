"""An attempt begins, and its callback is judged: each with its login in one transaction (PROTOCOL 3.2, 3.3)."""

from sqlite3 import Connection

from gamed.crypto import Index
from gamed.login.attempt import Attempt, AttemptStatus
from gamed.login.attempts import Rule
from gamed.login.callback import BURNING, Ruling, Verdict
from gamed.login.entry import Key
from gamed.login.logins import Move, Step
from gamed.login.transaction import Stage
from gamed.storage.auth import attempts, logins


def begin(connection: Connection, attempt: Attempt, key: Key, step: Step) -> Move | None:
    """The step, and the attempt if it leaves the login `authorizing`."""
    move = logins.advance(connection, key, step)
    if move is not None and move.after.stage is Stage.AUTHORIZING:
        attempts.insert(connection, attempt)
    return move


def spend(connection: Connection, state: Index, rule: Rule) -> Verdict:
    """Read, judge, write: the compare-and-set of check 8 is that nothing lies between."""
    attempt = attempts.find(connection, state)
    login = None if attempt is None else logins.find(connection, Key.id(attempt.login_id))
    verdict = rule(attempt, login)
    if attempt is None or login is None or verdict.login is None:
        return verdict
    if verdict.ruling in BURNING:
        attempts.close(connection, attempt, AttemptStatus.BURNED)
    if verdict.ruling is Ruling.EXCHANGE:
        attempts.close(connection, attempt, AttemptStatus.USED)
        attempts.erase_secrets(connection, attempt.login_id)
        logins.save(connection, Move(login, verdict.login))
    return verdict
