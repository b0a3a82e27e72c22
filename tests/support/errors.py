"""The errors of all features in one table, for tests of the whole contract."""

from gamed.http.problems import ErrorTable, Problem, find_problem, merge_tables
from gamed.web import error_tables

FEATURE_TABLES: dict[str, ErrorTable] = {
    name: table for name, table in vars(error_tables).items() if name.endswith("_ERRORS")
}
ALL_ERRORS = merge_tables([*FEATURE_TABLES.values()])


def problem_of(error: BaseException, *, credential_sent: bool = False) -> Problem | None:
    """Return the problem that an app with all tables answers; None for an unexpected error."""
    return find_problem(error, ALL_ERRORS, credential_sent=credential_sent)
