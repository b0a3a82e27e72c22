"""Statements, parameters and values have the form for PostgreSQL that their texts and Python values stand for."""

from enum import IntEnum, StrEnum

from twisted.trial.unittest import SynchronousTestCase

from gamed.database.postgresql.statements import convert
from tests.database.postgresql.engines import EngineCase


class Color(StrEnum):
    """A kind of text."""

    RED = "red"


class Size(IntEnum):
    """A kind of number."""

    LARGE = 3


class ConversionTest(SynchronousTestCase):
    def test_places(self) -> None:
        """Number the places of a statement in their order."""
        self.assertEqual(convert("SELECT ? , ?").sql, b"SELECT $1 , $2")

    def test_names(self) -> None:
        """Give each name one number, wherever it stands."""
        statement = convert("SELECT :a, :b_c, :a")
        self.assertEqual((statement.sql, statement.names), (b"SELECT $1, $2, $1", ("a", "b_c")))

    def test_literals(self) -> None:
        """Leave texts in quotes and casts as they are."""
        sql = "SELECT 'a:b ?', 'it''s :c', d::text"
        self.assertEqual(convert(sql).sql.decode(), sql)


class ValueTest(EngineCase):
    def test_round_trip(self) -> None:
        """Return each value that was stored, with its type."""
        for n, (data, text) in enumerate([(b"\0\xff'\\", "Zoë \U0001f600"), (b"", ""), (None, None)]):
            with self.subTest(n=n):
                self.engine.begin_writing(self.connection, ())
                row = {"n": n - 1, "data": data, "text": text}
                self.connection.execute("INSERT INTO kept (n, data, text) VALUES (:n, :data, :text)", row)
                found = self.connection.rows("SELECT n, data, text FROM kept WHERE n = ?", (n - 1,))
                self.connection.rollback()
                self.assertEqual(found, [(n - 1, data, text)])

    def test_numbers(self) -> None:
        """Return whole numbers for sums, counts, comparisons and the ends of the range."""
        columns = "sum(n), count(*), count(*) = 3, bool_and(n IS NOT DISTINCT FROM 4), sum(n) - sum(n), -sum(n)"
        least, most = -(2**63), 2**63 - 1
        [row] = self.connection.rows(
            f"SELECT {columns}, min(n), :least FROM (VALUES (1), (:most), (10000)) AS v (n)",
            {"most": most, "least": least},
        )
        self.assertEqual(row, (most + 10001, 3, 1, 0, 0, -most - 10001, 1, least))
        self.assertEqual({type(value) for value in row}, {int})

    def test_long_sum(self) -> None:
        """Return a sum that ends with zeros."""
        self.assertEqual(self.values({"n": 10**15}, "sum(:n * 5000)"), (5 * 10**18,))

    def test_enumerations(self) -> None:
        """Store members of enumerations as their values, and True as 1."""
        row = self.values({"color": Color.RED, "size": Size.LARGE, "yes": True}, ":color, :size, :yes")
        self.assertEqual(row, ("red", 3, 1))

    def test_null_or_value(self) -> None:
        """Execute one text with a value and with NULL for the same parameter."""
        for value, found in ((None, 0), (1, 1), (None, 0)):
            self.assertEqual(self.values({"value": value}, "1 IS NOT DISTINCT FROM :value"), (found,))

    def test_other_types(self) -> None:
        """Refuse a value that no column has."""
        with self.assertRaisesRegex(TypeError, "object is not a type of the database"):
            self.values({"other": object()}, ":other")

    def test_forgets_statements(self) -> None:
        """Execute more different statements than a session keeps prepared."""
        for n in range(1100):
            self.assertEqual(self.values({}, f"{n % 600} + 1"), (n % 600 + 1,))
