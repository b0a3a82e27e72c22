"""PostgreSQL has an index for every statement of a request or a periodic task, so that none reads a whole table."""

import re
from collections.abc import Iterator
from itertools import count

from gamed.database.postgresql.bulk_reads import bulk_statement
from gamed.database.postgresql.error_mapping import PostgresqlError
from gamed.database.postgresql.statements import BYTEA, INT8, TEXT
from tests.database.postgresql.schemas import SchemaCase
from tests.database.test_statements import complete, is_statement, package, texts

SCAN = re.compile(r"Seq Scan on (\w+)")
TYPES = {"bigint": INT8, "text": TEXT, "bytea": BYTEA}
"""The types of parameters that a SELECT for several reads may have."""
SMALL = {"command_log", "key_record", "last_backup", "login_count", "player_merge", "retention"}
"""Tables that have a few rows at most."""
WHOLE = {
    "gamed.players.keyring:_move_accounts",
    "gamed.players.keyring:_move_sealed",
    "gamed.players.keyring:rekey",
    "gamed.account.store:sign_out_all",
    "gamed.saves.integrity:",
    "gamed.saves.integrity:count_blobs",
    "gamed.saves.integrity:state_totals",
    "gamed.sessions.tables:delete_logins",
}
"""Functions of commands that check, count or change everything there is, and one that an erased player needs once."""


class PlanTest(SchemaCase):
    def setUp(self) -> None:
        super().setUp()
        self.session.rows("SET enable_seqscan = off")  # a scan is left where no index can do
        self.session.rows("SET plan_cache_mode = force_generic_plan")

    def scans(self, sql: str, types: str = "") -> Iterator[str]:
        """Yield the tables that a statement reads whole, whatever its parameters are."""
        self.session.rows(f"PREPARE examined {types} AS {sql}")
        [(places,)] = self.session.rows("SELECT cardinality(parameter_types) FROM pg_prepared_statements")
        values = f"({', '.join(['NULL'] * places)})" if places else ""
        lines = self.session.rows(f"EXPLAIN EXECUTE examined{values}")
        self.session.rows("DEALLOCATE examined")
        for (line,) in lines:
            if (found := SCAN.search(line)) is not None and found[1] not in SMALL:
                yield found[1]

    def test_indexes(self) -> None:
        """Only commands that need a whole table have a statement that reads one."""
        found, places = set(), set()
        for module, source in package().items():
            for place, text in texts(module, source):
                if not is_statement(text) or is_part(text):
                    continue
                places.add(place)
                if any(self.scans(complete(place, text))):
                    found.add(place)
        self.assertEqual(found - WHOLE, set())
        self.assertEqual(WHOLE - places, set())

    def test_bulk_reads(self) -> None:
        """A SELECT for several reads can be planned, and reads no table whole that it does not read for one."""
        examined = 0
        for module, source in package().items():
            for place, text in texts(module, source):
                if is_statement(text) and text.split()[0] == "SELECT":
                    sql = complete(place, text)
                    for scans in self.bulk_scans(sql):
                        self.assertLessEqual(scans, set(self.scans(sql)), place)
                        examined += 1
        self.assertGreater(examined, 100)

    def bulk_scans(self, sql: str) -> Iterator[set[str]]:
        """Yield the tables that a SELECT reads whole if it is sent for several reads, with 1, 2, ... of its columns."""
        names = self.types(sql)
        if not TYPES.keys() >= set(names):
            return
        for columns in count(1):
            statement = bulk_statement(sql, tuple(TYPES[name] for name in names), columns)
            if statement is None:
                return
            try:
                yield set(self.scans(statement.sql.decode(), f"({', '.join(f'{name}[]' for name in names)})"))
            except PostgresqlError as e:
                self.assertIn(f"has {columns - 1} columns available", str(e))
                self.assertGreater(columns, 1)
                return

    def types(self, sql: str) -> list[str]:
        """Return the types that PostgreSQL gives the parameters of a statement."""
        self.session.rows(f"PREPARE examined AS {sql}")
        found = self.session.rows("SELECT CAST(unnest(parameter_types) AS text) FROM pg_prepared_statements")
        self.session.rows("DEALLOCATE examined")
        return [name for (name,) in found]

    def test_scans_are_noticed(self) -> None:
        """A statement without an index is found, and the same one with an index is not."""
        self.assertEqual(list(self.scans("SELECT 1 FROM session WHERE provider = ?")), ["session"])
        self.assertEqual(list(self.scans("SELECT 1 FROM session WHERE player_id = ?")), [])


def is_part(text: str) -> bool:
    """Return whether the code adds a condition to a statement that would change every row."""
    return text.split()[:2] == ["UPDATE", "save"] and " WHERE " not in text
