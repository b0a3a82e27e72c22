"""PostgreSQL has an index for every statement of a request or a periodic task, so that none reads a whole table."""

import re
from collections.abc import Iterator

from tests.database.postgresql.schemas import SchemaCase
from tests.database.test_statements import complete, is_statement, package, texts

SCAN = re.compile(r"Seq Scan on (\w+)")
SMALL = {
    "daily_figure",
    "key_record",
    "last_backup",
    "login_count",
    "player_merge",
    "owner_backup",
    "owner_code",
    "owner_page",
    "retention",
}
"""Tables that have a few rows at most."""
WHOLE = {
    "gamed.players.keyring:_move_accounts",
    "gamed.players.keyring:_move_sealed",
    "gamed.players.keyring:rekey",
    "gamed.account.store:sign_out_all",
    "gamed.cli.completing:_players",
    "gamed.saves.integrity:",
    "gamed.saves.integrity:count_blobs",
    "gamed.saves.integrity:state_totals",
    "gamed.passkeys.tables:count_others",
    "gamed.passkeys.tables:rekey",
    "gamed.saves.tables:largest_players",
    "gamed.saves.tables:total_usage",
    "gamed.sessions.tables:count_active",
    "gamed.sessions.tables:delete_logins",
    "gamed.tickets.tables:rotate",
}
"""Functions of commands and of the owner's page that check, count or change everything there is, and one that an erased
player needs once."""


class PlanTest(SchemaCase):
    def setUp(self) -> None:
        super().setUp()
        self.session.rows("SET enable_seqscan = off")  # a scan is left where no index can do
        self.session.rows("SET plan_cache_mode = force_generic_plan")

    def scans(self, sql: str) -> Iterator[str]:
        """Yield the tables that a statement reads whole, whatever its parameters are."""
        self.session.rows(f"PREPARE examined AS {sql}")
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

    def test_scans_are_noticed(self) -> None:
        """A statement without an index is found, and the same one with an index is not."""
        self.assertEqual(list(self.scans("SELECT 1 FROM session WHERE provider = ?")), ["session"])
        self.assertEqual(list(self.scans("SELECT 1 FROM session WHERE player_id = ?")), [])


def is_part(text: str) -> bool:
    """Return whether the code adds a condition to a statement that would change every row."""
    return text.split()[:2] in (["UPDATE", "save"], ["UPDATE", "session"]) and " WHERE " not in text
