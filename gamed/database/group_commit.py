"""This module runs a batch of transactions on one connection, in one transaction of SQLite around all of them.

The outcome of a transaction is the value that it returned, or a Failure. When a batch function returns, no transaction
is open.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from gamed.database.connection import STATE, Transaction
from gamed.database.errors import DatabaseCorrupt, damaged_row, new_error
from gamed.database.sqlite.error_mapping import SQLITE_ERRORS, detached_failure, translate
from gamed.database.sqlite.files import PAGE_BYTES, SqliteConnection

EXAMINED_PAGES = 64 * 1024 * 1024 // PAGE_BYTES
"""The largest file that is searched for damage after an unexpected error: the queue waits some tenths of a second."""
UNEXPECTED = (*SQLITE_ERRORS, LookupError, TypeError, ValueError, AssertionError, AttributeError, ArithmeticError)
"""Exceptions that a transaction raises only for a defect, or for rows that no version of gamed has written."""
Outcome = Any


class TransactionMisuse(Exception):
    """A transaction that ended the batch's transaction, or returned rows that it had not read."""


def run_reads(connection: SqliteConnection, transactions: Sequence[Transaction[Any]]) -> list[Outcome]:
    """Run all transactions in one snapshot; one that raises an exception does not affect the others."""
    outcomes: list[Outcome] = []
    try:
        for transaction in transactions:
            try:
                if not connection.in_transaction:
                    connection.execute("BEGIN")
                outcomes.append(_check_result(transaction(connection)))
            except Exception as e:
                outcomes.append(detached_failure(e))
    finally:
        _roll_back(connection)
    return outcomes


def group_commit(connection: SqliteConnection, transactions: Sequence[Transaction[Any]]) -> list[Outcome]:
    """Run all transactions between one BEGIN IMMEDIATE and one COMMIT; one that raises an exception changes nothing.

    If one of them ends SQLite's transaction (SQLITE_FULL rolls back everything, not only its savepoint), it gets its
    error, and the others run again without it. A result counts only after COMMIT has returned.
    """
    outcomes: list[Outcome] = [None] * len(transactions)
    waiting = list(range(len(transactions)))
    run = _run_without_savepoint
    while waiting:
        try:
            fatal = _attempt(connection, transactions, waiting, outcomes, run)
        except _NeedsSavepoints:
            run = _run_in_savepoint
            continue
        except Exception as e:
            error = new_error(DatabaseCorrupt) if isinstance(e, DatabaseCorrupt) else e
            for place in waiting:
                if not isinstance(outcomes[place], Failure):
                    outcomes[place] = detached_failure(error)
            break
        finally:
            _roll_back(connection)
        if fatal is None:
            break
        waiting.remove(fatal)
    return outcomes


def _attempt(
    connection: SqliteConnection,
    transactions: Sequence[Transaction[Any]],
    waiting: list[int],
    outcomes: list[Outcome],
    run: Callable[[SqliteConnection, Transaction[Any]], Outcome],
) -> int | None:
    """Commit the waiting transactions and return None, or return the place of the one that ended SQLite's transaction.

    Raise an exception if nothing can be committed.
    """
    for place in waiting:
        outcomes[place] = None
    connection.execute("BEGIN IMMEDIATE")
    for place in waiting:
        outcomes[place] = outcome = run(connection, transactions[place])
        if isinstance(outcome, Failure) and isinstance(outcome.value, DatabaseCorrupt):
            raise new_error(DatabaseCorrupt)
        if not connection.in_transaction:
            if not isinstance(outcome, Failure):
                outcomes[place] = detached_failure(TransactionMisuse("a transaction ended that of its batch"))
            return place
    connection.execute("COMMIT")
    return None


class _NeedsSavepoints(Exception):
    """A transaction failed after it wrote, so that its writes have to be rolled back alone."""


def _run_without_savepoint(connection: SqliteConnection, transaction: Transaction[Any]) -> Outcome:
    """Run a transaction without a savepoint; raise _NeedsSavepoints if it failed after it wrote, which is rare.

    A savepoint costs each transaction two statements and a copy of every page that it is the first to change.
    """
    written = connection.total_changes
    try:
        return _check_result(transaction(connection))
    except Exception as e:
        failed = detached_failure(e)
    if connection.in_transaction and connection.total_changes != written:
        raise _NeedsSavepoints
    return failed


def _run_in_savepoint(connection: SqliteConnection, transaction: Transaction[Any]) -> Outcome:
    try:
        connection.execute("SAVEPOINT unit")
        value = _check_result(transaction(connection))
        if connection.in_transaction:
            connection.execute("RELEASE unit")
        return value
    except Exception as e:
        failed = detached_failure(e)
    try:
        if connection.in_transaction:
            connection.execute("ROLLBACK TO unit")
            connection.execute("RELEASE unit")
    except SQLITE_ERRORS:  # its writes cannot be separated from those of the others
        connection.rollback()
    return failed


def _check_result(value: Outcome) -> Outcome:
    if hasattr(value, "fetchone"):
        value.close()
        raise TransactionMisuse("a transaction returned a cursor; it must read the rows itself")
    if isinstance(value, Deferred):
        raise TransactionMisuse("a transaction cannot wait for a Deferred")
    return value


def _roll_back(connection: SqliteConnection) -> None:
    """End a transaction that is still open; if even that fails, the next BEGIN reports it."""
    with suppress(*SQLITE_ERRORS):
        connection.rollback()


def corruptions(outcomes: Sequence[Outcome]) -> list[DatabaseCorrupt]:
    """Return the damage for which transactions failed."""
    return [each.value for each in outcomes if isinstance(each, Failure) and isinstance(each.value, DatabaseCorrupt)]


def find_corruption(connection: SqliteConnection, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Search the open files for damage; if there is some, replace the unexpected errors by DatabaseCorrupt."""
    for _, schema, _ in connection.execute("PRAGMA database_list").fetchall():
        if not _is_intact(connection, schema):
            damage = damaged_row(STATE) if schema == STATE else new_error(DatabaseCorrupt)
            return [
                detached_failure(damage) if isinstance(each, Failure) and each.check(*UNEXPECTED) else each
                for each in outcomes
            ]
    return list(outcomes)


def _is_intact(connection: SqliteConnection, schema: str) -> bool:
    try:
        [(pages,)] = connection.execute(f"PRAGMA {schema}.page_count").fetchall()
        if pages > EXAMINED_PAGES:
            return True
        errors = connection.execute(f"PRAGMA {schema}.integrity_check(1)").fetchall()
        return errors == [("ok",)] and not connection.execute(f"PRAGMA {schema}.foreign_key_check").fetchmany(1)
    except SQLITE_ERRORS as e:
        return not isinstance(translate(e), DatabaseCorrupt)
