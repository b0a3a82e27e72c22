"""What happens in a lane's thread: many units on one connection, one transaction around them.

An outcome is what the unit returned, or a Failure. When a batch function returns, no transaction is open.
"""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from gamed.database.connection import PAGE_BYTES, STATE
from gamed.database.error_mapping import SQLITE_ERRORS, damaged_row, detached_failure, new_error, translate
from gamed.database.errors import DatabaseCorrupt, DatabaseReadOnly

EXAMINED_PAGES = 64 * 1024 * 1024 // PAGE_BYTES
"""Of a file that is examined after an unforeseen failure: that keeps its queue for some tenths of a second."""
UNFORESEEN = (sqlite3.Error, LookupError, TypeError, ValueError, AssertionError, AttributeError, ArithmeticError)
"""What no unit raises but by a defect, or from rows that no version of gamed has written."""
Transaction = Callable[[sqlite3.Connection], Any]
Outcome = Any


class TransactionMisuse(Exception):
    """A unit ended the transaction it was given, or returned rows it had not read."""


def run_reads(connection: sqlite3.Connection, units: Sequence[Transaction]) -> list[Outcome]:
    """All units in one snapshot; one that raises is alone with it."""
    try:
        return [_read_one(connection, unit) for unit in units]
    finally:
        _end(connection)


def _read_one(connection: sqlite3.Connection, unit: Transaction) -> Outcome:
    try:
        if not connection.in_transaction:
            connection.execute("BEGIN")
        return _check_result(unit(connection))
    except Exception as e:
        return detached_failure(e)


def group_commit(connection: sqlite3.Connection, units: Sequence[Transaction]) -> list[Outcome]:
    """Group commit: one BEGIN IMMEDIATE, one COMMIT; a unit that raises is alone with it, and has changed nothing.

    A unit that takes the transaction down with it (SQLITE_FULL rolls back everything, not its savepoint)
    gets its error, and the others run again without it. Nobody's outcome is a value before COMMIT returned.
    """
    outcomes: list[Outcome] = [None] * len(units)
    waiting = list(range(len(units)))
    run = _run_without_savepoint
    while waiting:
        try:
            fatal = _attempt(connection, units, waiting, outcomes, run)
        except _NeedsSavepoints:
            run = _run_in_savepoint
            continue
        except Exception as e:
            for place in waiting:
                if not isinstance(outcomes[place], Failure):
                    outcomes[place] = detached_failure(
                        new_error(DatabaseCorrupt) if isinstance(e, DatabaseCorrupt) else e
                    )
            break
        finally:
            _end(connection)
        if fatal is None:
            break
        waiting.remove(fatal)
    return outcomes


def _attempt(
    connection: sqlite3.Connection,
    units: Sequence[Transaction],
    waiting: list[int],
    outcomes: list[Outcome],
    run: Callable[[sqlite3.Connection, Transaction], Outcome],
) -> int | None:
    """One transaction over the waiting units: None when it was committed, else the place of the unit that ended it.

    Raises when nothing can be committed for anyone.
    """
    for place in waiting:
        outcomes[place] = None
    connection.execute("BEGIN IMMEDIATE")
    for place in waiting:
        outcomes[place] = outcome = run(connection, units[place])
        if corruption_in(outcome) is not None:
            raise new_error(DatabaseCorrupt)
        if not connection.in_transaction:
            if not isinstance(outcome, Failure):
                outcomes[place] = detached_failure(TransactionMisuse("a unit ended the transaction of its batch"))
            return place
    connection.execute("COMMIT")
    return None


class _NeedsSavepoints(Exception):
    """What a unit wrote has to be taken back, and the others' writes with it."""


def _run_without_savepoint(connection: sqlite3.Connection, unit: Transaction) -> Outcome:
    """Without a savepoint: hardly any unit fails, and of those that do hardly any has written before.

    A savepoint costs each unit two statements and a copy of every page that it is the first to change.
    """
    written = connection.total_changes
    try:
        return _check_result(unit(connection))
    except Exception as e:
        failed = detached_failure(e)
    if connection.in_transaction and connection.total_changes != written:
        raise _NeedsSavepoints
    return failed


def _run_in_savepoint(connection: sqlite3.Connection, unit: Transaction) -> Outcome:
    try:
        connection.execute("SAVEPOINT unit")
        value = _check_result(unit(connection))
        if connection.in_transaction:
            connection.execute("RELEASE unit")
        return value
    except Exception as e:
        failed = detached_failure(e)
    try:
        if connection.in_transaction:
            connection.execute("ROLLBACK TO unit")
            connection.execute("RELEASE unit")
    except sqlite3.Error:  # what the unit left cannot be told from what the others wrote
        connection.rollback()
    return failed


def corruption_in(outcome: Outcome) -> DatabaseCorrupt | None:
    """Return the damage that the unit failed for, if that is why it failed."""
    return outcome.value if isinstance(outcome, Failure) and isinstance(outcome.value, DatabaseCorrupt) else None


def unforeseen(outcomes: Sequence[Outcome]) -> bool:
    """Whether a unit failed in a way that is a defect of the server, or comes of rows that are not what was written."""
    return any(isinstance(outcome, Failure) and isinstance(outcome.value, UNFORESEEN) for outcome in outcomes)


def explained(connection: sqlite3.Connection, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Examine small files after an unforeseen failure, and give a damaged one as its reason."""
    for _, schema, _ in connection.execute("PRAGMA database_list").fetchall():
        if not _is_whole(connection, schema):
            damage = damaged_row(STATE) if schema == STATE else new_error(DatabaseCorrupt)
            return [detached_failure(damage) if unforeseen([outcome]) else outcome for outcome in outcomes]
    return list(outcomes)


def _is_whole(connection: sqlite3.Connection, schema: str) -> bool:
    try:
        [(pages,)] = connection.execute(f"PRAGMA {schema}.page_count").fetchall()
        if pages > EXAMINED_PAGES:
            return True
        flaws = connection.execute(f"PRAGMA {schema}.integrity_check(1)").fetchall()
        return flaws == [("ok",)] and not connection.execute(f"PRAGMA {schema}.foreign_key_check").fetchmany(1)
    except SQLITE_ERRORS as e:
        return not isinstance(translate(e), DatabaseCorrupt)


def read_only(outcomes: Sequence[Outcome]) -> bool:
    """Whether nothing was committed because this connection can only read."""
    return all(isinstance(outcome, Failure) and outcome.check(DatabaseReadOnly) for outcome in outcomes)


def _check_result(value: Outcome) -> Outcome:
    if isinstance(value, sqlite3.Cursor):
        value.close()
        raise TransactionMisuse("a unit returned a cursor; read its rows inside the unit")
    if isinstance(value, Deferred):
        raise TransactionMisuse("a unit cannot wait for anything")
    return value


def _end(connection: sqlite3.Connection) -> None:
    """Roll back what is still open; a connection that cannot even do that shows it at the next BEGIN."""
    with suppress(sqlite3.Error):
        connection.rollback()
