"""Every command but `serve`, imported when it is asked for by its name."""

import click

NAMES = (
    "assets",
    "backup",
    "check",
    "dev",
    "doctor",
    "health",
    "key",
    "owner",
    "players",
    "restore",
    "saves",
    "sessions",
)


def command_of(name: str) -> click.Command | None:
    """None for a name that is none of these."""
    if name not in NAMES:
        return None
    return _of_the_service(name) or _of_the_stores(name)


def _of_the_service(name: str) -> click.Command | None:
    found: click.Command | None = None
    match name:
        case "dev":
            from gamed.cli.dev_command import dev as found
        case "doctor":
            from gamed.cli.doctor_command import doctor as found
        case "health":
            from gamed.cli.health import health as found
        case "key":
            from gamed.cli.key_commands import key as found
    return found


def _of_the_stores(name: str) -> click.Command | None:
    found: click.Command | None = None
    match name:
        case "assets":
            from gamed.cli.assets_commands import assets as found
        case "backup":
            from gamed.cli.backup_command import backup as found
        case "check":
            from gamed.cli.check_command import check as found
        case "owner":
            from gamed.cli.owner_commands import owner as found
        case "players":
            from gamed.cli.players_group import players as found
        case "restore":
            from gamed.cli.restore_command import restore as found
        case "saves":
            from gamed.cli.saves_commands import saves as found
        case "sessions":
            from gamed.cli.session_commands import sessions as found
    return found
