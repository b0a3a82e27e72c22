"""Every SQL statement of the package is one text for SQLite and PostgreSQL, and SQLite prepares it.

A statement is a text that begins with a verb of SQL, outside the engines' folders. A text with names in it is
evaluated among the names of its module; LOCAL has those of functions.
"""

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from gamed.account.store import BLOCKED_COLUMNS
from gamed.database.connection import AUTH, STATE
from gamed.database.scripts import scripts_in
from gamed.database.sqlite.files import connect
from gamed.database.sqlite.migrations import schema_folder
from gamed.login.keys import LoginLookup
from gamed.login.store import ENDED, LIVE
from tests.support.stores import sqlite_files

ROOT = Path(__file__).parent.parent.parent
ENGINES = ("gamed.database.sqlite.", "gamed.database.postgresql.")
VERBS = {"SELECT", "INSERT", "UPDATE", "DELETE", "WITH"}
CLAUSE = re.compile(r"\b(WHERE|AND|OR|ORDER BY|FROM|SET) ")
"""A word of SQL; a text that has one is checked for SQLite's own spellings even if it is only a part of a statement."""

LOCAL: Mapping[str, Mapping[str, Collection[Any]]] = {
    "gamed.database.rate_limits:delete_idle": {"since": ["<= :now_ms", "> :moved_ms"]},
    "gamed.database.security_events:list_events": {"whose": ["", "AND player_id = :player_id"]},
    "gamed.login.store:_check_quota": {"column": ["address_index", "wide_index"]},
    "gamed.login.store:_count_logins": {"stages": [LIVE, ENDED]},
    "gamed.login.tables:insert_attempt": {"values": [", ".join(["?"] * 9)]},
    "gamed.login.tables:find_login": {"key": [LoginLookup(name, "") for name in ("login_id", "secret_index")]},
    "gamed.login.tables:select_logins": {"condition": ["stage = 'pending' AND expires_ms > :now_ms LIMIT :rows"]},
    "gamed.players.keyring:rekey": {"table": ["session", "credential", "login", "limit_bucket"]},
    "gamed.players.keyring:_count": {"table": ["local_account", "identity"]},
    "gamed.players.keyring:_move_sealed": {"column": ["sealed_note", "sealed_display_name"]},
    "gamed.account.store:blocked_players": {"names": ["player.player_id"], "table": ["player"]},
    "gamed.account.store:block_again": {
        "table": ["player"],
        "names": [", ".join(BLOCKED_COLUMNS["player"])],
        "places": [", ".join(f":{name}" for name in BLOCKED_COLUMNS["player"])],
    },
    "gamed.account.store:sign_out_all": {"table": ["invite", "reset_link"]},
    "gamed.players.tables:latest_players": {"signed_in": ["coalesce(p.last_sign_in_ms, 0)"]},
    "gamed.players.tables:_named": {"where": ["", "WHERE a.name_index = :wanted"], "order": ["ORDER BY p.player_id"]},
    "gamed.saves.erase_store:erase_step": {"some": ["(SELECT slot FROM save WHERE player_id = :player_id)"]},
    "gamed.saves.erase_store:delete_players": {"marks": ["?, ?"]},
    "gamed.saves.merge_store:_give_slots": {"which": ["s.deleted_ms IS NOT NULL"]},
    "gamed.saves.merge_store:_give_bytes": {"marks": ["?, ?"]},
    "gamed.saves.merge_store:_drop_shells": {"marks": ["?, ?"]},
    "gamed.saves.blob_tables:find_blobs": {"marks": ["?, ?"]},
    "gamed.saves.blob_tables:remove_references_of": {
        "marks": ["?, ?"],
        "used": ["SELECT blob_id, count(*) AS times FROM save_version WHERE slot IN (?) GROUP BY blob_id"],
    },
    "gamed.saves.version_tables:slots_with_copies_since": {"marks": ["?, ?"]},
    "gamed.saves.version_tables:newest_written": {"marks": ["?, ?"]},
    "gamed.saves.version_tables:delete_histories": {"marks": ["?"], "where": ["WHERE player_id = ? AND slot IN (?)"]},
    "gamed.saves.tables:expire_slots": {"marks": ["?, ?"]},
    "gamed.sessions.tables:close_login": {},
    "gamed.sessions.tables:revoke_all": {
        "living": ["player_id = :player_id AND session_id IS DISTINCT FROM :keep"],
        "unused": ["SELECT session_id FROM session"],
    },
}
"""The values of local names in the texts of a function."""
ENDINGS = {"gamed.sessions.tables:": ("AND session_id", " = :session_id")}
"""The end of a text that is only used with more behind it; a list of keys completes one that ends with IN."""

SQLITE_ONLY = {
    r"(?<!IS )\bNOT NULL\b": "x NOT NULL",
    r"\bIS (?!NULL|NOT NULL|DISTINCT FROM|NOT DISTINCT FROM)": "IS between values",
    r"\b(iif|ifnull|total|group_concat|randomblob|zeroblob|hex|typeof|instr|unixepoch|strftime|printf)\(": "a function",
    r"\b(min|max)\((?:[^()]|\([^()]*\))*,": "min() or max() of several values",
    r"\b(INSERT|UPDATE) OR\b": "INSERT OR ...",
    r"\?\d": "a numbered parameter",
    r"\bINDEXED BY\b": "INDEXED BY",
    r"\bjson_": "a function of JSON",
    r"\bLIMIT -": "LIMIT -1",
    r"\b(PRAGMA|GLOB|rowid|_rowid_|sqlite_\w+)\b": "a name of SQLite",
    r"==": "==",
}
"""Spellings that PostgreSQL 15 does not know."""
UPSERT = re.compile(r"\bDO UPDATE\s+SET\b(.*)", re.DOTALL)
RIGHT_SIDE = re.compile(r"=\s*(\w+)\s*[-+*]")
"""A bare column in the value of DO UPDATE SET: PostgreSQL does not guess which of the two rows is meant."""


def package() -> dict[str, str]:
    """Return source by module name, without the modules of the engines."""
    files = {".".join(file.relative_to(ROOT).with_suffix("").parts): file for file in (ROOT / "gamed").rglob("*.py")}
    ours = sorted(name for name in files if not name.startswith(ENGINES))
    return {name: files[name].read_text("utf-8") for name in ours if not name.endswith("__main__")}


def texts(module: str, source: str) -> Iterator[tuple[str, str]]:
    """Yield the value of each text of a module with the function that it is in."""

    def walk(node: ast.AST, function: str) -> Iterator[tuple[str, ast.expr]]:
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            yield function, node
            return
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            function = f"{module}:{node.name}"
        for child in ast.iter_child_nodes(node):
            yield from walk(child, function)

    for function, node in walk(ast.parse(source), f"{module}:"):
        if CLAUSE.search(ast.unparse(node)) or (ast.unparse(node).strip("f'\"\\n ").split() or [""])[0] in VERBS:
            for values in _choices(LOCAL.get(function, {})):
                yield function, _value(module, node, values)


def _choices(names: Mapping[str, Collection[Any]]) -> Iterator[dict[str, Any]]:
    for values in product(*names.values()):
        yield dict(zip(names, values, strict=True))


def _value(module: str, node: ast.expr, values: Mapping[str, Any]) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value).format_map(values) if values else str(node.value)
    code = compile(ast.Expression(node), module, "eval")
    return str(eval(code, {**vars(import_module(module)), **values}))


def is_statement(text: str) -> bool:
    """Return whether a text is a whole statement; a verb alone, as in a list of methods, is not."""
    return text.split()[:1] != [] and text.split(maxsplit=1)[0] in VERBS and CLAUSE.search(text) is not None


def own_spellings(text: str) -> list[str]:
    """Return SQLite's own spellings in a text of SQL."""
    found = [what for pattern, what in SQLITE_ONLY.items() if re.search(pattern, " ".join(text.split()))]
    if (upsert := UPSERT.search(text)) is not None and RIGHT_SIDE.search(upsert[1]):
        found.append("a bare column in DO UPDATE SET")
    return found


class Anything(dict[str, int]):
    """A value for every parameter."""

    def __missing__(self, name: str) -> int:
        return 1


def complete(place: str, text: str) -> str:
    """Return a statement with what the code adds to it."""
    for prefix, (end, rest) in ENDINGS.items():
        if place == prefix and text.rstrip().endswith(end):
            return text + rest
    return f"{text} (?, ?)" if text.rstrip().endswith(" IN") else text


@sqlite_files("statements that SQLite prepares; tests.database.postgresql has PostgreSQL's")
class StatementTest(SynchronousTestCase):
    def setUp(self) -> None:
        self.connection = connect(":memory:")
        self.addCleanup(self.connection.close)
        for name in (AUTH, STATE):  # no table has the same name in both
            for script in scripts_in(schema_folder(name)):
                self.connection.executescript(script.read_text("utf-8"))

    def prepare(self, sql: str) -> None:
        """Let SQLite compile a statement without running it."""
        places = sql.count("?")
        self.connection.execute(f"EXPLAIN {sql}", [1] * places if places else Anything()).close()

    def test_sqlite_prepares_all(self) -> None:
        """SQLite prepares every statement, with the schemas of both databases."""
        prepared = 0
        for module, source in package().items():
            for place, text in texts(module, source):
                if is_statement(text):
                    self.prepare(complete(place, text))
                    prepared += 1
        self.assertGreater(prepared, 200)

    def test_spellings(self) -> None:
        """No text of SQL has a spelling that only SQLite knows."""
        found = {
            f"{place}: {what}: {' '.join(text.split())[:80]}"
            for module, source in package().items()
            for place, text in texts(module, source)
            for what in own_spellings(text)
        }
        self.assertEqual(found, set())

    def test_spellings_are_noticed(self) -> None:
        """Each of SQLite's own spellings is found where it is planted, and the portable one is not."""
        for sqlite, portable in (
            ("SELECT 1 FROM blob WHERE data NOT NULL", "SELECT 1 FROM blob WHERE data IS NOT NULL"),
            ("DELETE FROM a WHERE b IS NOT :keep", "DELETE FROM a WHERE b IS DISTINCT FROM :keep"),
            ("SELECT a FROM b WHERE c IS :d", "SELECT a FROM b WHERE c IS NOT DISTINCT FROM :d"),
            ("SELECT iif(a, b, c) FROM d", "SELECT CASE WHEN a THEN b ELSE c END FROM d"),
            ("UPDATE a SET b = max(b, (SELECT max(c) FROM d))", "UPDATE a SET b = (SELECT max(c) FROM d)"),
            ("INSERT OR IGNORE INTO a VALUES (?)", "INSERT INTO a VALUES (?) ON CONFLICT DO NOTHING"),
            ("SELECT a FROM b WHERE c = ?1", "SELECT a FROM b WHERE c = ?"),
            ("SELECT a FROM b INDEXED BY c WHERE d = 1", "SELECT a FROM b WHERE d = 1"),
            ("SELECT value FROM json_each(?)", "SELECT a FROM b WHERE c IN (?, ?)"),
            ("DELETE FROM a WHERE b IN (SELECT b FROM a LIMIT -1 OFFSET 5)", "SELECT b FROM a LIMIT 9 OFFSET 5"),
            ("SELECT rowid FROM a", "SELECT number FROM a"),
            (
                "INSERT INTO a VALUES (1) ON CONFLICT (b) DO UPDATE SET seq = seq + 1",
                "INSERT INTO a VALUES (1) ON CONFLICT (b) DO UPDATE SET seq = a.seq + 1, c = excluded.c",
            ),
        ):
            self.assertEqual((len(own_spellings(sqlite)), own_spellings(portable)), (1, []), sqlite)

    def test_texts_of_functions(self) -> None:
        """A text is found in a function, and gets each value of the names that are local to it."""
        source = "def find_login():\n    return f'SELECT 1 FROM login WHERE {key.column} = ?'\nNAME = 'GET'\n"
        found = [text for _, text in texts("gamed.login.tables", source)]
        self.assertEqual(found, [f"SELECT 1 FROM login WHERE {name} = ?" for name in ("login_id", "secret_index")])
