"""The `authorization_attempt` table has a row for each time a login sent a browser to a provider (PROTOCOL 3.2)."""

from sqlite3 import Connection
from typing import Any

from gamed.crypto import Index
from gamed.login.attempt import LIVE_ATTEMPTS, Attempt, AttemptStatus

_COLUMNS = (
    "state_index, attempt_id, login_id, browser_index, provider, status, iss_promised, player_id,"
    " sealed_verifier, sealed_nonce, created_ms"
)
_NAMES = tuple(name.strip() for name in _COLUMNS.split(","))


def insert(connection: Connection, attempt: Attempt) -> None:
    """The oldest of this login that are more than five go; of those that were burned no more are kept, either."""
    values = ", ".join(f":{name}" for name in _NAMES)
    connection.execute(f"INSERT INTO authorization_attempt ({_COLUMNS}) VALUES ({values})", _row(attempt))
    drop = """
        DELETE FROM authorization_attempt WHERE number IN (
            SELECT number FROM authorization_attempt WHERE login_id = :login_id AND status = :status
            ORDER BY number DESC LIMIT -1 OFFSET :kept)
    """
    for status in (AttemptStatus.OPEN, AttemptStatus.BURNED):
        connection.execute(drop, {"login_id": attempt.login_id, "status": status.value, "kept": LIVE_ATTEMPTS})


def find(connection: Connection, state: Index) -> Attempt | None:
    query = f"SELECT {_COLUMNS} FROM authorization_attempt WHERE state_index = :state_index"
    row = connection.execute(query, {"state_index": state}).fetchone()
    return None if row is None else _attempt(row)


def close(connection: Connection, attempt: Attempt, status: AttemptStatus) -> None:
    """Its state is spent: nothing that was sealed for it is kept."""
    query = """
        UPDATE authorization_attempt SET status = :status, sealed_verifier = NULL, sealed_nonce = NULL
        WHERE attempt_id = :attempt_id
    """
    connection.execute(query, {"status": status.value, "attempt_id": attempt.attempt_id})


def erase_secrets(connection: Connection, login_id: str) -> None:
    """None of this login's attempts can win any more."""
    query = """
        UPDATE authorization_attempt SET sealed_verifier = NULL, sealed_nonce = NULL
        WHERE login_id = :login_id AND sealed_verifier IS NOT NULL
    """
    connection.execute(query, {"login_id": login_id})


def _row(attempt: Attempt) -> dict[str, Any]:
    row: dict[str, Any] = {name: getattr(attempt, name) for name in _NAMES}
    return row | {"status": attempt.status.value}


def _attempt(row: tuple[Any, ...]) -> Attempt:
    values = dict(zip(_NAMES, row, strict=True))
    return Attempt(**values | {"status": AttemptStatus(values["status"]), "iss_promised": bool(values["iss_promised"])})
