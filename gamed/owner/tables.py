"""The SQL of the owner's page: figures by day, and the backup that the page started.

- `daily_figure`: a row for each day. Each process adds its requests; the process that cleans up counts the rest.
- `owner_backup`: one row, so that of several processes one makes a backup and all can show it.
"""

from typing import Final

from gamed.database.connection import Connection
from gamed.owner.model import DAY_MS, BackupRun, DailyFigure

KEPT_DAYS: Final = 90
_COLUMNS = "day, players, active, saves, bytes, requests, refusals"


def list_figures(connection: Connection, now_ms: int) -> list[DailyFigure]:
    """Return the rows of the last KEPT_DAYS days, the oldest first."""
    query = f"SELECT {_COLUMNS} FROM daily_figure WHERE day > :before ORDER BY day LIMIT :rows"
    values = {"before": now_ms // DAY_MS - KEPT_DAYS, "rows": KEPT_DAYS}
    return [DailyFigure(*row) for row in connection.execute(query, values)]


def add_requests(connection: Connection, now_ms: int, requests: int, refusals: int) -> None:
    """Add the requests of a process to the day; the counts of a day that begins are those of the day before."""
    query = f"""
        INSERT INTO daily_figure ({_COLUMNS})
        SELECT :day, coalesce(max(players), 0), 0, coalesce(max(saves), 0), coalesce(max(bytes), 0),
            :requests, :refusals
        FROM daily_figure WHERE day = (SELECT max(day) FROM daily_figure)
        ON CONFLICT (day) DO UPDATE SET
            requests = daily_figure.requests + excluded.requests, refusals = daily_figure.refusals + excluded.refusals
    """
    connection.execute(query, {"day": now_ms // DAY_MS, "requests": requests, "refusals": refusals})


def count_day(connection: Connection, figure: DailyFigure) -> None:
    """Write what was counted today, beside the requests; delete the rows of days that are too old."""
    query = f"""
        INSERT INTO daily_figure ({_COLUMNS}) VALUES (:day, :players, :active, :saves, :bytes, 0, 0)
        ON CONFLICT (day) DO UPDATE SET players = excluded.players, active = excluded.active,
            saves = excluded.saves, bytes = excluded.bytes
    """
    counted = {name: getattr(figure, name) for name in ("day", "players", "active", "saves", "bytes")}
    connection.execute(query, counted)
    connection.execute("DELETE FROM daily_figure WHERE day <= :before", {"before": figure.day - KEPT_DAYS})


def read_run(connection: Connection) -> BackupRun | None:
    row = connection.execute("SELECT instance_id, started_ms, ended_ms, problem FROM owner_backup").fetchone()
    return None if row is None else BackupRun(*row)


def begin_run(connection: Connection, instance_id: str, now_ms: int) -> None:
    query = """
        INSERT INTO owner_backup (one, instance_id, started_ms) VALUES (1, :instance_id, :now_ms)
        ON CONFLICT (one) DO UPDATE SET
            instance_id = excluded.instance_id, started_ms = excluded.started_ms, ended_ms = NULL, problem = NULL
    """
    connection.execute(query, {"instance_id": instance_id, "now_ms": now_ms})


def end_run(connection: Connection, instance_id: str, now_ms: int, problem: str | None) -> None:
    query = """
        UPDATE owner_backup SET ended_ms = :now_ms, problem = :problem
        WHERE instance_id = :instance_id AND ended_ms IS NULL
    """
    connection.execute(query, {"instance_id": instance_id, "now_ms": now_ms, "problem": problem})
