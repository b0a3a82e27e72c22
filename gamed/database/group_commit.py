"""A batch of transactions on one connection, in one transaction of the engine around all of them.

The outcome of a transaction is the value that it returned, or a Failure. When a batch function returns, no transaction
is open.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from traceback import clear_frames
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from gamed.database.connection import Transaction
from gamed.database.engine import Engine, EngineConnection, NeedsSavepoints
from gamed.database.errors import DatabaseCorrupt, DatabaseError, DatabaseUnavailable, new_error

Outcome = Any


class TransactionMisuse(Exception):
    """A transaction that ended the batch's transaction, or returned rows that it had not read."""


def run_reads(engine: Engine, connection: EngineConnection, transactions: Sequence[Transaction[Any]]) -> list[Outcome]:
    """Run all transactions in one snapshot; one that raises an exception does not affect the others."""
    outcomes: list[Outcome] = [None] * len(transactions)

    def run(place: int) -> None:
        try:
            if not connection.in_transaction:  # the first one, or PostgreSQL has ended it with another one's error
                engine.begin_reading(connection)
            outcomes[place] = _check_result(transactions[place](connection))
        except Exception as e:
            outcomes[place] = detached_failure(engine.translate(e, connection))

    try:
        together = [partial(run, place) for place in range(len(transactions))]
        if engine.run_together(connection, together, [()] * len(together)):
            # After an error PostgreSQL skips all statements up to the next point of synchronization, those of other
            # transactions, too: these run once more, alone.
            for place in _spoiled(engine, outcomes):
                if connection.fatal_error is None:
                    run(place)
                else:
                    outcomes[place] = detached_failure(_fatal_error(engine, connection))
    finally:
        engine.end(connection)
    return outcomes


def group_commit(
    engine: Engine,
    connection: EngineConnection,
    transactions: Sequence[Transaction[Any]],
    keys: Collection[str] | None = None,
    each_keys: Sequence[Collection[str]] | None = None,
) -> list[Outcome]:
    """Run all transactions between one BEGIN and one COMMIT; one that raises an exception changes nothing.

    If one of them ends the engine's transaction (SQLITE_FULL rolls back everything, not only its savepoint), it gets
    its error, and the others run again without it. A result counts only after COMMIT has returned. `keys` are those
    of all transactions together (gamed.database.engine), `each_keys` those of each: transactions that share none may
    run at the same time.
    """
    batch = _Batch(engine, connection, transactions, each_keys)
    waiting = list(range(len(transactions)))
    # The first attempt supposes that no transaction fails after it wrote. The one with savepoints is for that case
    # alone: it costs each transaction of the batch two more statements.
    together = each_keys is not None and len(waiting) > 1
    attempt = batch.attempt_together if together else partial(batch.attempt, batch.run_without_savepoint)
    while waiting:
        try:
            engine.begin_writing(connection, keys)
            fatal = attempt(waiting)
        except NeedsSavepoints:
            attempt = partial(batch.attempt, batch.run_in_savepoint)
            continue
        except Exception as e:
            # BEGIN or COMMIT has failed, or the server is lost; or the file is damaged, and no write can be trusted.
            error = new_error(DatabaseCorrupt) if isinstance(e, DatabaseCorrupt) else e
            for place in waiting:
                if not isinstance(batch.outcomes[place], Failure):
                    batch.outcomes[place] = batch.failure(error)
            break
        finally:
            engine.end(connection)  # before the next attempt, too: other processes get their turn in between
        if fatal is None:
            break
        waiting.remove(fatal)
    return batch.outcomes


class _Batch:
    """The transactions of a group commit with their outcomes."""

    def __init__(
        self,
        engine: Engine,
        connection: EngineConnection,
        transactions: Sequence[Transaction[Any]],
        each_keys: Sequence[Collection[str]] | None,
    ) -> None:
        self._engine = engine
        self._connection = connection
        self._transactions = transactions
        self._each_keys = each_keys
        self.outcomes: list[Outcome] = [None] * len(transactions)

    def attempt_together(self, waiting: Sequence[int]) -> int | None:
        """Commit the waiting transactions, several of which run at the same time; raise NeedsSavepoints on any doubt.

        Each one's keys are its own, so that none reads what another one writes.
        """
        assert self._each_keys is not None
        failed = []

        def run(place: int) -> None:
            try:
                self.outcomes[place] = self.run_without_savepoint(self._transactions[place])
            except NeedsSavepoints:
                failed.append(place)

        functions = [partial(run, place) for place in waiting]
        spoiled = self._engine.run_together(self._connection, functions, [self._each_keys[place] for place in waiting])
        if self._connection.fatal_error is not None:
            for place in _spoiled(self._engine, self.outcomes):
                self.outcomes[place] = None
            raise _fatal_error(self._engine, self._connection)
        # The statements of several transactions were under way at once, so that an error does not show whose it was.
        if spoiled or failed or corruptions(self.outcomes) or not self._connection.in_transaction:
            raise NeedsSavepoints
        self._engine.commit(self._connection)
        return None

    def attempt(self, run: Callable[[Transaction[Any]], Outcome], waiting: Sequence[int]) -> int | None:
        """Commit the waiting transactions and return None; or return the place of one that ended the batch's.

        Raise an exception if nothing can be committed.
        """
        for place in waiting:
            self.outcomes[place] = None  # of the attempt before, whose writes were rolled back
        for place in waiting:
            self.outcomes[place] = outcome = run(self._transactions[place])
            if isinstance(outcome, Failure) and isinstance(outcome.value, DatabaseCorrupt):
                raise new_error(DatabaseCorrupt)
            if self._connection.fatal_error is not None:
                raise _fatal_error(self._engine, self._connection)
            if not self._connection.in_transaction:
                # SQLITE_FULL has rolled back the whole batch. Only this transaction gets the error: one player's large
                # write must not fail the 63 small ones beside it, which may still fit.
                if not isinstance(outcome, Failure):
                    self.outcomes[place] = detached_failure(TransactionMisuse("a transaction ended that of its batch"))
                return place
        self._engine.commit(self._connection)
        return None

    def run_without_savepoint(self, transaction: Transaction[Any]) -> Outcome:
        """Run a transaction without a savepoint; raise NeedsSavepoints if it failed after it wrote, which is rare.

        A savepoint costs each transaction two statements and, in SQLite, a copy of every page that it changes first.
        """
        written = self._connection.total_changes
        try:
            return _check_result(transaction(self._connection))
        except Exception as e:
            failed = self.failure(e)
        connection = self._connection
        if connection.in_transaction and connection.total_changes != written and connection.fatal_error is None:
            raise NeedsSavepoints
        return failed

    def run_in_savepoint(self, transaction: Transaction[Any]) -> Outcome:
        """Run a transaction and roll back its writes alone if it fails."""
        connection = self._connection
        try:
            connection.execute("SAVEPOINT unit")
            value = _check_result(transaction(connection))
            if connection.in_transaction:
                connection.execute("RELEASE unit")
            return value
        except Exception as e:
            failed = self.failure(e)
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK TO unit")
                connection.execute("RELEASE unit")
        except self._engine.errors:  # its writes cannot be separated from those of the others
            connection.rollback()
        return failed

    def failure(self, error: BaseException) -> Failure:
        """Return the outcome of a transaction that raised this error."""
        return detached_failure(self._engine.translate(error, self._connection))


def _check_result(value: Outcome) -> Outcome:
    if hasattr(value, "fetchone"):  # an open SELECT would keep its snapshot, and be read in another thread
        value.close()
        raise TransactionMisuse("a transaction returned a cursor; it must read the rows itself")
    if isinstance(value, Deferred):
        raise TransactionMisuse("a transaction cannot wait for a Deferred")
    return value


def _spoiled(engine: Engine, outcomes: Sequence[Outcome]) -> list[int]:
    failures = [(place, outcome) for place, outcome in enumerate(outcomes) if isinstance(outcome, Failure)]
    return [place for place, failure in failures if failure.check(DatabaseError, *engine.errors)]


def _fatal_error(engine: Engine, connection: EngineConnection) -> DatabaseError:
    assert connection.fatal_error is not None
    error = engine.translate(connection.fatal_error, connection)
    return new_error(type(error) if isinstance(error, DatabaseError) else DatabaseUnavailable)


def corruptions(outcomes: Sequence[Outcome]) -> list[DatabaseCorrupt]:
    """Return the damage for which transactions failed."""
    return [each.value for each in outcomes if isinstance(each, Failure) and isinstance(each.value, DatabaseCorrupt)]


def detached_failure(error: BaseException) -> Failure:
    """Return a Failure; clear the frames of its traceback.

    A frame in a traceback keeps its cursors, and a SELECT that was not read to its end keeps its snapshot: the next
    batch on this connection would read old rows.
    """
    for each in _chain(error):
        clear_frames(each.__traceback__)
    return Failure(error)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
