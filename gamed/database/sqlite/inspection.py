"""These transactions ask SQLite about a file: damaged pages, dangling references, its size; and shorten it."""

from gamed.database.connection import Connection
from gamed.database.sqlite.files import PAGE_BYTES

FREE_PAGES = 16 * 1024 * 1024 // PAGE_BYTES
"""Free pages that the next writes will use; further ones are given back to the disk."""
RELEASED_PAGES = 100
"""How many pages one transaction gives back, in a few milliseconds."""


def table_names(connection: Connection) -> list[str]:
    """Return the names of all tables, in order."""
    query = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name"
    return [name for (name,) in connection.rows(query)]


def check_table(connection: Connection, table: str) -> list[str]:
    """Read every page of a table and its indexes; return a line for each error."""
    return [line for (line,) in connection.rows(f"PRAGMA integrity_check({table})") if line != "ok"]


def quick_check(connection: Connection) -> list[str]:
    """Read every page without comparing indexes; return a line for the first error, if there is one."""
    return [str(line) for (line,) in connection.rows("PRAGMA quick_check(1)") if line != "ok"]


def dangling_rows(connection: Connection) -> list[tuple[str, int]]:
    """Return the table and number of each row that refers to a missing one."""
    return [(table, number) for table, number, *_ in connection.rows("PRAGMA foreign_key_check")]


def file_bytes(connection: Connection) -> tuple[int, int]:
    """Return the size of the file, and how much of it the next writes use first."""
    page, pages, free = (
        connection.rows(f"PRAGMA {name}")[0][0] for name in ("page_size", "page_count", "freelist_count")
    )
    return page * pages, page * free


def release_pages(connection: Connection) -> bool:
    """Give some free pages back to the disk; return True while there are more."""
    [(free,)] = connection.rows("PRAGMA freelist_count")
    if free <= FREE_PAGES:
        return False
    for _ in range(RELEASED_PAGES):
        connection.rows("PRAGMA incremental_vacuum(1)")  # sqlite3 makes one step of it, which frees one page
    return True
