"""The errors of all features in one table, for tests of the whole contract."""

from gamed.assets import routes as asset_routes
from gamed.http.problems import ErrorTable, Problem, find_problem, merge_tables
from gamed.login import problems
from gamed.players import problems as player_problems
from gamed.saves import problems as save_problems
from gamed.sessions import problems as session_problems
from gamed.tickets import routes as ticket_routes

FEATURE_TABLES: dict[str, ErrorTable] = {
    name: table
    for module in (problems, player_problems, session_problems, save_problems, asset_routes, ticket_routes)
    for name, table in vars(module).items()
    if name.endswith("_ERRORS")
}
ALL_ERRORS = merge_tables([*FEATURE_TABLES.values()])


def problem_of(error: BaseException, *, credential_sent: bool = False) -> Problem | None:
    """Return the problem that an app with all tables answers; None for an unexpected error."""
    return find_problem(error, ALL_ERRORS, credential_sent=credential_sent)
