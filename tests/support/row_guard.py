"""A guard in PostgreSQL that lets a batch write the rows of its keys only (gamed/database/engine.py).

With GAMED_ROW_GUARD=reads a batch with keys does not see other rows either: tests fail whose result depends on a row
that another writer may change meanwhile. An UPDATE then passes over such rows, so the triggers find fewer wrong keys.
"""

import os
from collections.abc import Callable, Collection, Mapping

from twisted.python import log

from gamed.database.connection import Connection
from gamed.database.engine import EngineConnection
from gamed.database.postgresql.error_mapping import PostgresqlError
from gamed.database.rate_limits import LIMITS
from gamed.sessions.tables import LOGINS
from tests.support.kept_sessions import KeptEngine

OWN = "found.player_id"
SESSION = "(SELECT player_id FROM auth.session WHERE session_id = found.session_id)"
BLOB = "(SELECT player_id FROM state.blob WHERE blob_id = found.blob_id)"
NO_KEY = "NULL"
"""Only a batch without keys may write the table."""
READ_BY_ALL = ("server_run",)
"""Each batch with keys reads these; one without keys, which alone writes them, is never beside it."""
OF_OWNER = ("owner_page", "owner_code", "owner_backup", "daily_figure")
KEYS: Mapping[str, Mapping[str, str]] = {
    "auth": {
        **dict.fromkeys(("player", "identity", "local_account", "reset_link", "session", "browser_session"), OWN),
        **dict.fromkeys(("passkey", "recovery_code"), OWN),
        **dict.fromkeys(("player_merge", "security_event"), OWN),
        **dict.fromkeys(("login", "login_count", "authorization_attempt"), f"'{LOGINS}'"),
        **dict.fromkeys(
            (
                *OF_OWNER,
                "key_record",
                "ticket_key",
                "passkey_challenge",
                "invite",
                "last_backup",
                "database_identity",
                "heartbeat",
            ),
            NO_KEY,
        ),
        "credential": SESSION,
        "limit_bucket": f"'{LIMITS}'",
    },
    "state": {
        **dict.fromkeys(("player_saves", "save", "save_version", "blob"), OWN),
        **dict.fromkeys(("retention", "database_identity", "server_run"), NO_KEY),
        "blob_part": BLOB,
    },
}
"""The key of a row of each table in SQL; `found` is the row."""
REFUSED = "row guard"
_ALL = "*"
_FUNCTION = """
    CREATE FUNCTION {schema}.guard_{table}() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        given text := coalesce(current_setting('row_guard.keys', true), '');
        found {schema}.{table};
        needed text;
    BEGIN
        FOR side IN 1 .. CASE WHEN given IN ('', '*') THEN 0 WHEN TG_OP = 'UPDATE' THEN 2 ELSE 1 END LOOP
            IF side = 1 AND TG_OP <> 'INSERT' THEN found := OLD; ELSE found := NEW; END IF;
            needed := {key};
            IF needed IS NULL AND {has_parent} AND TG_OP = 'DELETE' AND pg_trigger_depth() > 1 THEN
                CONTINUE;  -- the deletion of its parent was checked
            END IF;
            IF needed IS NULL OR strpos(given, ',' || needed || ',') = 0 THEN
                RAISE EXCEPTION 'row guard: % of % needs the key %, not one of %', TG_OP, TG_TABLE_NAME,
                    coalesce(needed, 'of all rows'), given;
            END IF;
        END LOOP;
        IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
        RETURN NEW;
    END $$
"""
_TRIGGER = """
    CREATE TRIGGER a_row_guard BEFORE INSERT OR UPDATE OR DELETE ON {schema}.{table}
    FOR EACH ROW EXECUTE FUNCTION {schema}.guard_{table}()
"""

_POLICIES = (
    "ALTER TABLE {schema}.{table} ENABLE ROW LEVEL SECURITY",
    "ALTER TABLE {schema}.{table} FORCE ROW LEVEL SECURITY",
    """
    CREATE POLICY row_guard_select ON {schema}.{table} FOR SELECT USING (
        coalesce(current_setting('row_guard.keys', true), '') IN ('', '*', ',,')
        OR strpos(current_setting('row_guard.keys', true), ',' || {key} || ',') > 0)
    """,
    "CREATE POLICY row_guard_insert ON {schema}.{table} FOR INSERT WITH CHECK (true)",
    "CREATE POLICY row_guard_update ON {schema}.{table} FOR UPDATE USING (true)",
    "CREATE POLICY row_guard_delete ON {schema}.{table} FOR DELETE USING (true)",
)
"""FORCE is for the owner of the tables, as which gamed works. A batch that writes nothing has no key, and sees all."""


def install(execute: Callable[[str], object]) -> None:
    """Guard all tables of a database; a transaction that has not passed its keys to the guard may write all rows."""
    for schema, tables in KEYS.items():
        for table, key in tables.items():
            values = {"schema": schema, "table": table, "key": key, "has_parent": key == BLOB}
            execute(_FUNCTION.format(**values))
            execute(_TRIGGER.format(**values))
            guards_reads = os.environ.get("GAMED_ROW_GUARD") == "reads" and table not in READ_BY_ALL
            for policy in _POLICIES if guards_reads else ():
                execute(policy.format(**{**values, "key": key.replace("found.", f"{table}.")}))


def pass_keys(connection: Connection, keys: Collection[str] | None) -> None:
    """Let the open transaction write the rows of these keys only; with None all rows."""
    given = _ALL if keys is None else f",{','.join(sorted(keys))},"
    # Without waiting for it, as for the locks before it: their error has to reach the transactions, as in the service.
    connection.execute("SELECT set_config('row_guard.keys', ?, true)", (given,))


class GuardedEngine(KeptEngine):
    """PostgreSQL with the guard; a test fails if one of its batches meets it, even if the service expects errors."""

    def begin_writing(self, connection: EngineConnection, keys: Collection[str] | None) -> None:
        super().begin_writing(connection, keys)
        pass_keys(connection, keys)

    def translate(self, error: BaseException, connection: EngineConnection | None = None) -> BaseException:
        if isinstance(error, PostgresqlError) and REFUSED in str(error):
            log.err(error, "a transaction wrote a row without its key")
        return super().translate(error, connection)
