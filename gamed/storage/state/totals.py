"""What state.db holds in all."""

from sqlite3 import Connection

from msgspec import Struct


class Totals(Struct, frozen=True):
    """Sizes in bytes; of the file, `free_bytes` is room that the next writes use first."""

    players_with_saves: int
    """Players who keep anything, in the history too; who has signed in and never saved is not in state.db."""
    saves: int
    current_bytes: int
    history_bytes: int
    file_bytes: int
    free_bytes: int
    unreferenced_blobs: int
    largest: list[tuple[str, int]]
    """Players who keep most, with all they keep."""


def totals(connection: Connection, most: int = 5) -> Totals:
    query = """
        SELECT count(*) FILTER (WHERE slots > 0 OR live_bytes + kept_bytes > 0),
            sum(slots), sum(live_bytes), sum(kept_bytes)
        FROM player_saves
    """
    ((players, saves, live, kept),) = connection.execute(query).fetchall()
    page, pages, free = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_size", "page_count", "freelist_count")
    )
    ((loose,),) = connection.execute("SELECT count(*) FROM blob WHERE refs = 0").fetchall()
    query = """
        SELECT player_id, live_bytes + kept_bytes FROM player_saves
        WHERE live_bytes + kept_bytes > 0 ORDER BY 2 DESC, 1 LIMIT :most
    """
    largest = connection.execute(query, {"most": most}).fetchall()
    return Totals(players, saves or 0, live or 0, kept or 0, page * pages, page * free, loose, largest)
