"""The errors of all features in one table, for tests of the whole contract."""

from gamed.http.problems import ErrorTable, Problem, find_problem, merge_tables
from gamed.web import assets_errors, login_errors, players_errors, saves_errors, sessions_errors

FEATURE_TABLES: dict[str, ErrorTable] = {
    name: table
    for module in (login_errors, players_errors, sessions_errors, saves_errors, assets_errors)
    for name, table in vars(module).items()
    if name.endswith("_ERRORS")
}
ALL_ERRORS = merge_tables([*FEATURE_TABLES.values()])


def problem_of(error: BaseException, *, credential_sent: bool = False) -> Problem | None:
    """Return the problem that an app with all tables answers; None for an unexpected error."""
    return find_problem(error, ALL_ERRORS, credential_sent=credential_sent)
