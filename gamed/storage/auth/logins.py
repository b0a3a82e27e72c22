"""The `login` table: one row per handoff, from its start to an hour after its end (PROTOCOL 3)."""

from collections.abc import Mapping
from sqlite3 import Connection
from typing import Any

from msgspec.structs import asdict

from gamed.crypto import Index
from gamed.login.client import Client
from gamed.login.entry import Key
from gamed.login.logins import Move, Step
from gamed.login.outcome import Outcome
from gamed.login.transaction import Event, Intent, LoginTransaction, Proof, Stage
from gamed.storage.auth import attempts, sessions

KEPT_MS = 3_600_000
"""How long the outcome of a final login can still be asked for."""
SWEEP_ROWS = 200
_COLUMNS = (
    "login_id, pending_id, secret_index, token_index, intent, provider, client, return_proof, loopback_port,"
    " address_index,"
    " created_ms, expires_ms, stage_ms, stage, outcome, requesting_session_id, browser_index, returned_to_game,"
    " sealed_identity, sealed_proof, wrong_codes, session_id, sealed_result, wide_index"
)
_NAMES = tuple(name.strip() for name in _COLUMNS.split(","))
_VALUES = ", ".join(f":{name}" for name in _NAMES)
_INSERT = f"INSERT INTO login ({_COLUMNS}, expires_or_purge_at_ms) VALUES ({_VALUES}, :expires_or_purge_at_ms)"


def insert(connection: Connection, login: LoginTransaction) -> None:
    connection.execute(_INSERT, _row(login))


def find(connection: Connection, key: Key) -> LoginTransaction | None:
    query = f"SELECT {_COLUMNS} FROM login WHERE {key.column} = :value"
    row = connection.execute(query, {"value": key.value}).fetchone()
    return None if row is None else _login(row)


def select(connection: Connection, condition: str, values: Mapping[str, Any]) -> list[LoginTransaction]:
    """Those that a condition of our own names."""
    rows = connection.execute(f"SELECT {_COLUMNS} FROM login WHERE {condition}", values).fetchall()
    return [_login(row) for row in rows]


def advance(connection: Connection, key: Key, step: Step) -> Move | None:
    """Read, decide, write; `step` is pure, and what it raises changes nothing."""
    before = find(connection, key)
    if before is None:
        return None
    move = Move(before, step(before))
    save(connection, move)
    return move


def save(connection: Connection, move: Move) -> None:
    """Write what changed. In a final stage the attempts lose their secrets, too; a cancelled delivery its session."""
    if move.after != move.before:
        _update(connection, move.before, move.after)


def _update(connection: Connection, before: LoginTransaction, after: LoginTransaction) -> None:
    query = """
        UPDATE login
        SET stage = :stage, stage_ms = :stage_ms, outcome = :outcome, browser_index = :browser_index,
            returned_to_game = :returned_to_game, sealed_identity = :sealed_identity, sealed_proof = :sealed_proof,
            wrong_codes = :wrong_codes, session_id = :session_id, pending_id = :pending_id,
            sealed_result = :sealed_result, expires_or_purge_at_ms = :expires_or_purge_at_ms, client = :client
        WHERE login_id = :login_id
    """
    connection.execute(query, _row(after))
    if after.final:
        attempts.erase_secrets(connection, after.login_id)
    if after.stage is Stage.CANCELLED and before.session_id is not None:
        sessions.revoke(connection, before.session_id, after.stage_ms)


def sweep(connection: Connection, now_ms: int) -> tuple[Index, ...]:
    """Up to SWEEP_ROWS logins that are due, earliest first: ended by the clock, or forgotten an hour after that."""
    query = f"""
        SELECT {_COLUMNS} FROM login
        WHERE expires_or_purge_at_ms <= :now_ms ORDER BY expires_or_purge_at_ms LIMIT :rows
    """
    rows = connection.execute(query, {"now_ms": now_ms, "rows": SWEEP_ROWS}).fetchall()
    for login in map(_login, rows):
        if login.final and _expires_or_purge_at_ms(login) <= now_ms:
            connection.execute("DELETE FROM login WHERE login_id = :login_id", {"login_id": login.login_id})
        else:
            _update(connection, login, login.at(now_ms))
    return tuple(_login(row).secret_index for row in rows)


def interrupt(connection: Connection, now_ms: int, started_ms: int | None) -> None:
    """End the exchanges of an earlier process: all, or those that this process, started at `started_ms`, did not begin.

    An exchange from the future was begun before the clock was set back, so by an earlier process too.
    """
    of_others = "stage = 'exchanging' AND (:started_ms IS NULL OR stage_ms < :started_ms OR stage_ms > :now_ms)"
    for login in select(connection, of_others, {"started_ms": started_ms, "now_ms": now_ms}):
        current = login.at(now_ms)
        save(connection, Move(login, current if current.final else current.after(Event.INTERRUPT, now_ms)))


def _expires_or_purge_at_ms(login: LoginTransaction) -> int:
    """Return when this stage expires, or, after a final stage, when the row is deleted."""
    return login.stage_ms + KEPT_MS if login.final else login.deadline_ms


def _row(login: LoginTransaction) -> dict[str, Any]:
    return {
        **asdict(login),
        "client": login.client.to_json(),
        "outcome": login.outcome.value if login.outcome else None,
        "intent": login.intent.value,
        "return_proof": login.return_proof.value,
        "stage": login.stage.value,
        "expires_or_purge_at_ms": _expires_or_purge_at_ms(login),
    }


def _login(row: tuple[Any, ...]) -> LoginTransaction:
    values = dict(zip(_NAMES, row, strict=True))
    values |= {
        "client": Client.from_json(values["client"]),
        "intent": Intent(values["intent"]),
        "return_proof": Proof(values["return_proof"]),
        "stage": Stage(values["stage"]),
        "outcome": Outcome(values["outcome"]) if values["outcome"] else None,
        "returned_to_game": bool(values["returned_to_game"]),
    }
    return LoginTransaction(**values)
