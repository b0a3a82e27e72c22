"""The tables `login` and `authorization_attempt` hold each login and its attempts until an hour after its end."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import asdict

from gamed.crypto import Index
from gamed.database.connection import Connection, rows_in
from gamed.login.attempt import LIVE_ATTEMPTS, AttemptStatus, AuthorizationAttempt
from gamed.login.keys import LoginLookup
from gamed.login.transaction import (
    FINAL,
    ClientInfo,
    LoginEvent,
    LoginIntent,
    LoginStage,
    LoginTransaction,
    ProofMethod,
    Transition,
    TransitionFunction,
)
from gamed.outcomes import LoginFailure
from gamed.sessions import tables as session_tables

_ATTEMPT_COLUMNS = (
    "state_index, attempt_id, login_id, browser_index, provider, status, iss_promised, player_id,"
    " sealed_verifier, sealed_nonce, created_ms"
)
_ATTEMPT_NAMES = tuple(name.strip() for name in _ATTEMPT_COLUMNS.split(","))


def insert_attempt(connection: Connection, attempt: AuthorizationAttempt) -> None:
    """Add an attempt, and delete the oldest open and invalidated ones of its login above five each."""
    values = ", ".join(f":{name}" for name in _ATTEMPT_NAMES)
    connection.execute(
        f"INSERT INTO authorization_attempt ({_ATTEMPT_COLUMNS}) VALUES ({values})", _attempt_row(attempt)
    )
    delete = """
        DELETE FROM authorization_attempt WHERE number IN (
            SELECT number FROM authorization_attempt WHERE login_id = :login_id AND status = :status
            ORDER BY number DESC LIMIT 1000000 OFFSET :retained)
    """
    for status in (AttemptStatus.OPEN, AttemptStatus.INVALIDATED):
        connection.execute(delete, {"login_id": attempt.login_id, "status": status.value, "retained": LIVE_ATTEMPTS})


def find_attempt(connection: Connection, state: Index) -> AuthorizationAttempt | None:
    query = f"SELECT {_ATTEMPT_COLUMNS} FROM authorization_attempt WHERE state_index = :state_index"
    row = connection.execute(query, {"state_index": state}).fetchone()
    return None if row is None else _attempt(row)


def close_attempt(connection: Connection, attempt: AuthorizationAttempt, status: AttemptStatus) -> None:
    """Set the final status of an attempt and delete its sealed values."""
    query = """
        UPDATE authorization_attempt SET status = :status, sealed_verifier = NULL, sealed_nonce = NULL
        WHERE attempt_id = :attempt_id
    """
    connection.execute(query, {"status": status.value, "attempt_id": attempt.attempt_id})


def erase_attempt_secrets(connection: Connection, login_id: str) -> None:
    """Delete the sealed values of all attempts of a login that belongs to a browser or has ended."""
    query = """
        UPDATE authorization_attempt SET sealed_verifier = NULL, sealed_nonce = NULL
        WHERE login_id = :login_id AND sealed_verifier IS NOT NULL
    """
    connection.execute(query, {"login_id": login_id})


def _attempt_row(attempt: AuthorizationAttempt) -> dict[str, Any]:
    row: dict[str, Any] = {name: getattr(attempt, name) for name in _ATTEMPT_NAMES}
    return row | {"status": attempt.status.value}


def _attempt(row: tuple[Any, ...]) -> AuthorizationAttempt:
    values = dict(zip(_ATTEMPT_NAMES, row, strict=True))
    return AuthorizationAttempt(
        **values | {"status": AttemptStatus(values["status"]), "iss_promised": bool(values["iss_promised"])}
    )


CLEANUP_ROWS = 200
"""All other writes of `auth` wait for one such transaction; LoginLifecycle.expire() repeats it while rows are due."""
_LOGIN_COLUMNS = (
    "login_id, approval_code, secret_index, token_index, intent, provider, client, return_proof, loopback_port,"
    " return_uri, address_index,"
    " created_ms, expires_ms, stage_ms, stage, outcome, requesting_session_id, invite_id, browser_index, instance_id,"
    " returned_to_game, sealed_identity, sealed_proof, wrong_codes, session_id, sealed_result, wide_index"
)
_LOGIN_NAMES = tuple(name.strip() for name in _LOGIN_COLUMNS.split(","))
_VALUES = ", ".join(f":{name}" for name in _LOGIN_NAMES)
_INSERT_LOGIN = (
    f"INSERT INTO login ({_LOGIN_COLUMNS}, expires_or_purge_at_ms) VALUES ({_VALUES}, :expires_or_purge_at_ms)"
)


def insert_login(connection: Connection, login: LoginTransaction) -> None:
    connection.execute(_INSERT_LOGIN, _login_row(login))


def find_login(connection: Connection, key: LoginLookup) -> LoginTransaction | None:
    query = f"SELECT {_LOGIN_COLUMNS} FROM login WHERE {key.column} = :value"
    row = connection.execute(query, {"value": key.value}).fetchone()
    return None if row is None else _login(row)


def find_stages(connection: Connection, secrets: Sequence[Index]) -> dict[Index, LoginStage]:
    """Return the stages of the logins with these secret indexes; those that do not exist are left out."""
    query = "SELECT secret_index, stage FROM login WHERE secret_index IN "
    return {Index(secret): LoginStage(stage) for secret, stage in rows_in(connection, query, secrets)}


def find_created_player(connection: Connection, login_id: str) -> str | None:
    """Return the player whom this login made and who may sign in, while the session of the login has not ended."""
    query = """
        SELECT p.player_id
        FROM login l JOIN session s ON s.session_id = l.session_id JOIN player p ON p.player_id = s.player_id
        WHERE l.login_id = :login_id AND l.stage IN ('delivered', 'collected') AND s.revoked_ms IS NULL
          AND s.created_ms = p.created_ms AND p.state = 'active'
    """
    row = connection.execute(query, {"login_id": login_id}).fetchone()
    return None if row is None else str(row[0])


def select_logins(connection: Connection, condition: str, values: Mapping[str, Any]) -> list[LoginTransaction]:
    """Return the logins that match a condition, which is never text from outside."""
    rows = connection.execute(f"SELECT {_LOGIN_COLUMNS} FROM login WHERE {condition}", values).fetchall()
    return [_login(row) for row in rows]


def advance_login(connection: Connection, key: LoginLookup, step: TransitionFunction) -> Transition | None:
    """Read, decide, write; return None if the login is unknown. An exception of `step` changes nothing."""
    before = find_login(connection, key)
    if before is None:
        return None
    transition = Transition(before, step(before))
    save_login(connection, transition)
    return transition


def save_login(connection: Connection, transition: Transition) -> None:
    """Write a changed login; a final stage erases the secrets of its attempts, cancelling a delivery its session."""
    if transition.after != transition.before:
        _update_login(connection, transition.before, transition.after)


def _update_login(connection: Connection, before: LoginTransaction, after: LoginTransaction) -> None:
    query = """
        UPDATE login
        SET stage = :stage, stage_ms = :stage_ms, outcome = :outcome, browser_index = :browser_index,
            instance_id = :instance_id, returned_to_game = :returned_to_game, sealed_identity = :sealed_identity,
            sealed_proof = :sealed_proof, wrong_codes = :wrong_codes, session_id = :session_id,
            approval_code = :approval_code, sealed_result = :sealed_result,
            expires_or_purge_at_ms = :expires_or_purge_at_ms, client = :client, return_uri = :return_uri
        WHERE login_id = :login_id
    """
    connection.execute(query, _login_row(after))
    if after.stage in FINAL:
        erase_attempt_secrets(connection, after.login_id)
    if after.stage is LoginStage.CANCELLED and before.session_id is not None:
        session_tables.revoke(connection, before.session_id, after.stage_ms)


def expire_logins(connection: Connection, now_ms: int) -> tuple[Index, ...]:
    """End or delete up to CLEANUP_ROWS logins that are due, earliest first; return their secret indexes."""
    query = f"""
        SELECT {_LOGIN_COLUMNS} FROM login
        WHERE expires_or_purge_at_ms <= :now_ms ORDER BY expires_or_purge_at_ms LIMIT :rows
    """
    due = [_login(row) for row in connection.execute(query, {"now_ms": now_ms, "rows": CLEANUP_ROWS})]
    for login in due:
        if login.final and login.expires_or_purge_at_ms <= now_ms:
            connection.execute("DELETE FROM login WHERE login_id = :login_id", {"login_id": login.login_id})
        else:
            _update_login(connection, login, login.at_time(now_ms))  # also if only the due instant was wrong
    return tuple(login.secret_index for login in due)


OUTCOME_ROWS = 2000
"""How many of the logins that ended last show whether providers work: reading them takes a few milliseconds."""


def latest_outcomes(connection: Connection) -> list[tuple[str, str, int]]:
    """Return provider, outcome and end of the logins that ended last, the latest first; "" for one that was collected.

    Rows of ended logins stay for an hour.
    """
    query = """
        SELECT provider, coalesce(outcome, ''), stage_ms FROM login
        WHERE stage IN ('collected', 'denied', 'failed', 'cancelled', 'expired')
        ORDER BY stage_ms DESC LIMIT :rows
    """
    return [tuple(row) for row in connection.execute(query, {"rows": OUTCOME_ROWS})]


def exchanging_instances(connection: Connection) -> frozenset[str]:
    """Return the processes that redeem codes, or did when they ended."""
    rows = connection.execute("SELECT instance_id FROM login WHERE stage = 'exchanging'")
    return frozenset(instance_id for (instance_id,) in rows)


def interrupt_logins(connection: Connection, instances: Collection[str], now_ms: int) -> Sequence[LoginTransaction]:
    """End the exchanges of processes that have ended; return their logins."""
    ended = []
    for instance_id in instances:
        condition = "stage = 'exchanging' AND instance_id = :instance_id"
        for login in select_logins(connection, condition, {"instance_id": instance_id}):
            current = login.at_time(now_ms)
            after = current if current.final else current.apply(LoginEvent.INTERRUPT, now_ms)
            save_login(connection, Transition(login, after))
            ended.append(after)
    return ended


def _login_row(login: LoginTransaction) -> dict[str, Any]:
    return {
        **asdict(login),
        "client": login.client.to_json(),
        "outcome": login.outcome.value if login.outcome else None,
        "intent": login.intent.value,
        "return_proof": login.return_proof.value,
        "stage": login.stage.value,
        "expires_or_purge_at_ms": login.expires_or_purge_at_ms,
    }


def _login(row: tuple[Any, ...]) -> LoginTransaction:
    values = dict(zip(_LOGIN_NAMES, row, strict=True))
    values |= {
        "client": msgspec.json.decode(values["client"], type=ClientInfo),
        "intent": LoginIntent(values["intent"]),
        "return_proof": ProofMethod(values["return_proof"]),
        "stage": LoginStage(values["stage"]),
        "outcome": LoginFailure(values["outcome"]) if values["outcome"] else None,
        "returned_to_game": bool(values["returned_to_game"]),
    }
    return LoginTransaction(**values)
