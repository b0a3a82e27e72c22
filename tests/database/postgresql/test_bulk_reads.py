"""A batch of reads sends the SELECTs that differ only in their parameters as one, and each read gets its own rows.

A SELECT is sent alone once, for the number of its columns, and where fewer than six reads have it.
"""

from collections.abc import Callable, Mapping
from typing import Any

from twisted.python.failure import Failure

from gamed.database.connection import Connection
from gamed.database.errors import DatabaseUnreachable
from gamed.database.group_commit import run_reads
from gamed.database.postgresql.error_mapping import PostgresqlError
from tests.database.postgresql.engines import EngineCase

Read = Callable[[Connection], Any]


def rows(sql: str, *values: object) -> Read:
    """Return a transaction that reads all rows of a SELECT."""
    return lambda connection: connection.rows(sql, values)


def rows_of(sql: str, values: Mapping[str, object]) -> Read:
    """Return a transaction that reads all rows of a SELECT with named parameters."""
    return lambda connection: connection.rows(sql, values)


class BulkReadTest(EngineCase):
    """A table with three rows."""

    def setUp(self) -> None:
        super().setUp()
        for n, data, text in ((1, b"\0one", "Zoë"), (2, b"", None), (3, None, "")):
            self.connection.rows("INSERT INTO kept (n, data, text) VALUES (?, ?, ?)", (n, data, text))

    def read(self, *reads: Read) -> list[Any]:
        """Return what the reads of one batch return, the class of the exception in place of a failure."""
        outcomes = run_reads(self.engine, self.connection, reads)
        return [outcome.type if isinstance(outcome, Failure) else outcome for outcome in outcomes]

    def sent(self) -> list[tuple[int, int]]:
        """Return for each statement on the table whether it was for several reads, and how often it was sent."""
        return self.connection.rows(
            "SELECT statement LIKE '%unnest%', generic_plans + custom_plans FROM pg_prepared_statements"
            " WHERE statement LIKE '%FROM kept%' AND statement NOT LIKE '%pg_prepared%' ORDER BY prepare_time"
        )

    def test_own_rows(self) -> None:
        """Give each read the rows of its own parameters, even if two have the same ones, or one finds none."""
        sql = "SELECT n, data, text FROM kept WHERE n = ?"
        one, two, three = (1, b"\0one", "Zoë"), (2, b"", None), (3, None, "")
        for _ in range(2):
            found = self.read(*(rows(sql, n) for n in (3, 1, 4, 2, 1, 1)))
            self.assertEqual(found, [[three], [one], [], [two], [one], [one]])
        self.assertEqual(self.sent(), [(0, 6), (1, 1)])
        self.assertEqual(self.read(*(rows(sql, n) for n in range(4, 10))), [[]] * 6)
        self.assertEqual(self.read(*(rows(sql, n) for n in (3, 2))), [[three], [two]])
        self.assertEqual(self.sent(), [(0, 8), (1, 2)])

    def test_several_rows(self) -> None:
        """Give a read all its rows, one after the other or together."""
        sql = "SELECT n FROM kept WHERE n > ?"

        def one_by_one(connection: Connection) -> list[Any]:
            result = connection.execute(sql, (0,))
            first = result.fetchone()
            return [*sorted([first, *result.fetchall()]), result.fetchone(), result.fetchall()]

        def closed(connection: Connection) -> list[Any]:
            result = connection.execute(sql, (1,))
            result.close()
            return result.fetchall()

        def iterated(connection: Connection) -> list[Any]:
            return [n for (n,) in connection.execute(sql, (2,))]

        self.read(closed, closed)
        found = self.read(one_by_one, closed, iterated, one_by_one, closed, closed)
        self.assertEqual(found[:3], [[(1,), (2,), (3,), None, []], [], [3]])
        self.assertEqual((found[3], self.sent()), (found[0], [(0, 2), (1, 1)]))

    def test_values(self) -> None:
        """Take parameters, and return values, of all types; columns may have the same name."""
        sql = "SELECT :n AS a, :text AS a, :data AS a, n = 1, sum(n), NULL AS a FROM kept WHERE n = :n GROUP BY n"
        first, second = {"n": 1, "text": "Zoë", "data": b"\0'\\"}, {"n": 2, "text": "", "data": b""}
        for _ in range(2):
            found = self.read(*(rows_of(sql, values) for values in (first, second) * 3))
            self.assertEqual(found, [[(1, "Zoë", b"\0'\\", 1, 1, None)], [(2, "", b"", 0, 2, None)]] * 3)
            self.assertEqual({type(value) for value in found[0][0][3:5]}, {int})
        self.assertEqual(self.sent(), [(0, 6), (1, 1)])

    def test_steps(self) -> None:
        """Send what the reads ask after their first SELECT together, too, beside one that only one of them asks."""

        def twice(n: int) -> Read:
            def read(connection: Connection) -> object:
                [(found,)] = connection.rows("SELECT n FROM kept WHERE n = ?", (n,))
                return connection.rows("SELECT text FROM kept WHERE n = ?", (found,))

            return read

        other = rows("SELECT n, text FROM kept WHERE text = ?", "")
        reads = [twice(1), other, twice(2), *[twice(3)] * 4]
        for _ in range(2):
            self.assertEqual(self.read(*reads), [[("Zoë",)], [(3, "")], [(None,)], *[[("",)]] * 4])
        self.assertEqual(sorted(self.sent()), [(0, 2), (0, 6), (0, 6), (1, 1), (1, 1)])

    def test_alone(self) -> None:
        """Send a SELECT alone that has an order, no parameter, NULL for one, or a list of keys."""
        keys = [*range(2, 22)]
        alone = [
            (("SELECT n FROM kept WHERE n > ? ORDER BY n DESC", 1), [(3,), (2,)]),
            (("SELECT count(*) FROM kept",), [(3,)]),
            (("SELECT n FROM kept WHERE text IS NOT DISTINCT FROM ?", None), [(2,)]),
            ((f"SELECT max(n) FROM kept WHERE n IN ({', '.join('?' * len(keys))})", *keys), [(3,)]),
        ]
        for (sql, *values), expected in alone:
            for _ in range(2):
                self.assertEqual(self.read(*[rows(sql, *values)] * 6), [expected] * 6)
        self.assertEqual(self.sent(), [(0, 12)] * 4)

    def test_many(self) -> None:
        """Ask for at most 64 in one statement, and have one text for any number of them."""
        sql = "SELECT n FROM kept WHERE n = ?"

        def all_in_turn(connection: Connection) -> int:
            results = [connection.execute(sql, (n % 3 + 1,)) for n in range(99)]
            return sum(result.fetchall() == [(n % 3 + 1,)] for n, result in enumerate(results))

        one = rows(sql, 2)
        self.read(one, one)
        self.assertEqual(self.read(all_in_turn, one), [99, [(2,)]])
        for number in (6, 7, 64):
            self.assertEqual(self.read(*[one] * number), [[(2,)]] * number)
        self.assertEqual(self.sent(), [(0, 2), (1, 5)])

    def test_error(self) -> None:
        """Give the error for one read's parameters to that read, and the other ones their rows."""
        divided = [rows("SELECT n / ? FROM kept WHERE n = 2", n) for n in (1, 2, 0, -1, -2, 2, 1)]
        self.read(divided[0], divided[0])
        self.assertEqual(self.read(*divided), [[(2,)], [(1,)], PostgresqlError, [(-2,)], [(-1,)], [(1,)], [(2,)]])
        del divided[2]
        self.assertEqual(self.read(*divided), [[(2,)], [(1,)], [(-2,)], [(-1,)], [(1,)], [(2,)]])
        self.assertEqual([bulk for bulk, _ in self.sent()], [0, 1])

    def test_unusable_parameter(self) -> None:
        """Raise an exception only in the read whose parameter PostgreSQL does not have."""
        values = (1, object(), 3, 2, 1, 1, 2)
        for _ in range(2):
            found = self.read(*(rows("SELECT n FROM kept WHERE n = ?", value) for value in values))
            self.assertEqual(found, [[(1,)], TypeError, [(3,)], [(2,)], [(1,)], [(1,)], [(2,)]])

    def test_unusable_value(self) -> None:
        """Raise an exception only in the read whose row has a value that cannot be decoded."""
        halves = [rows("SELECT n * CAST(0.5 AS numeric) FROM kept WHERE n = ?", n) for n in (2, 1, 2, 4, 4, 4)]
        for _ in range(2):
            self.assertEqual(self.read(*halves), [[(1,)], ValueError, [(1,)], [], [], []])
        self.assertEqual(self.sent(), [(0, 12), (1, 1)])

    def test_lost(self) -> None:
        """Fail all reads of the batch if the connection is lost before the second step, and none of the next batch."""
        sql = "SELECT n FROM kept WHERE n = ?"

        def step(connection: Connection) -> object:
            connection.rows(sql, (1,))
            self.cluster.end_backends(self.place.database)
            return connection.rows(sql, (1,))

        self.read(rows(sql, 1), rows(sql, 1))
        self.assertEqual(self.read(*[step] * 6), [DatabaseUnreachable] * 6)
        self.assertEqual(self.read(*(rows(sql, n) for n in (1, 2, 3, 4))), [[(1,)], [(2,)], [(3,)], []])

    def test_not_read(self) -> None:
        """Keep nothing of a SELECT whose rows its read did not use, not even its error."""

        def careless(connection: Connection) -> str:
            connection.execute("SELECT n / 0 FROM kept WHERE n = ?", (1,))
            return "done"

        for _ in range(2):
            self.assertEqual(self.read(*[careless] * 6), ["done"] * 6)
        sql = "SELECT n FROM kept WHERE n = ?"
        self.assertEqual(self.read(*(rows(sql, n) for n in (1, 2, 3, 4))), [[(1,)], [(2,)], [(3,)], []])

    def test_one_snapshot(self) -> None:
        """Show no read what another connection commits between its statements and those of the others."""
        sql = "SELECT n FROM kept WHERE n > ?"

        def first(connection: Connection) -> object:
            before = connection.rows(sql, (0,))
            self.cluster.execute("DELETE FROM state.kept", self.place.database)
            return len(before) == 3 and before == connection.rows(sql, (0,))

        self.read(rows(sql, 0), rows(sql, 0))
        self.assertEqual(self.read(*[first] * 6), [True] * 6)
        self.assertEqual(self.read(rows(sql, 0)), [[]])
