"""Every command but `serve`, imported when it is asked for by its name.

The console script `gamed`: what an owner does on the host.
"""

from typing import Any

import click

from gamed import __version__
from gamed.cli.context import CommandContext
from gamed.cli.process import exit_cleanly_on_sigterm
from gamed.gc_pause import gc_paused

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


def load_command(name: str) -> click.Command | None:
    """None for a name that is none of these."""
    if name not in NAMES:
        return None
    return _of_the_service(name) or _of_the_stores(name)


def _of_the_service(name: str) -> click.Command | None:
    found: click.Command | None = None
    match name:
        case "dev":
            from gamed.cli.dev import dev as found
        case "doctor":
            from gamed.cli.doctor import doctor as found
        case "health":
            from gamed.cli.http_client import health as found
        case "key":
            from gamed.cli.config import key as found
    return found


def _of_the_stores(name: str) -> click.Command | None:
    found: click.Command | None = None
    match name:
        case "assets":
            from gamed.cli.assets import assets as found
        case "backup":
            from gamed.cli.backup import backup as found
        case "check":
            from gamed.cli.check import check as found
        case "owner":
            from gamed.cli.moderation import owner as found
        case "players":
            from gamed.cli.players import players as found
        case "restore":
            from gamed.cli.restore import restore as found
        case "saves":
            from gamed.cli.saves import saves as found
        case "sessions":
            from gamed.cli.sessions import sessions as found
    return found


RENAMED = {
    "assets drop": "assets delete-channel",
    "assets ls": "assets list",
    "assets point": "assets set-channel",
    "check --fix": "check data --fix",
    "check --json": "check data --json",
    "check-config": "check config",
    "players attach": "players merge OLD --into NEW",
    "saves ls": "saves list",
}
"""Names of earlier versions, and the present ones; only the error message for an old name uses them."""
EPILOG = """
Commands marked [key] need the key of auth.db: from the variable that master_key_env names, that variable's _FILE form,
or a systemd credential; in local mode without master_key_env, from the key file in the data folder.

Exit codes: 0 done, 1 not done, 2 wrong usage, 78 the configuration must be mended first.
"""


class Gamed(click.Group):
    """Loads a command when it is asked for: a start of the server waits for no other.

    Tells where those options belong that every command has, when they come too late, and what `serve` has for a port.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *NAMES])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, cmd_name) or load_command(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        for typed in (args[0], " ".join(args[:2])):
            if typed in RENAMED:
                raise click.UsageError(f"No such command '{typed}'. Use: {ctx.command_path} {RENAMED[typed]}", ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as e:
            name = e.option_name
            if e.ctx is not None and e.ctx.command is serve and name in ("--port", "--host"):
                told = f"No such option '{name}': say --listen tcp:PORT:interface=127.0.0.1"
                raise click.UsageError(told, e.ctx) from None
            if e.ctx is None or name not in {option for each in self.params for option in each.opts}:
                raise
            behind = e.ctx.command_path.removeprefix(ctx.command_path)
            told = f"{name} goes before the command's name: {ctx.command_path} {name} ...{behind}"
            raise click.UsageError(told, e.ctx) from None


@click.group(
    cls=Gamed, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, message="gamed %(version)s")
@click.option("-c", "--config", metavar="FILE", help="[env GAMED_CONFIG; else authentication.json beside this program]")
@click.option("-d", "--data", metavar="DIR", help="[env GAMED_DATA; else `data` beside the configuration file]")
@click.pass_context
def gamed(context: click.Context, config: str | None, data: str | None) -> None:
    """A game server to host at home: sign-in, saves and assets.

    Every command but `serve`, `restore` and `check data --fix` also works while the service runs.
    """
    context.obj = CommandContext(config, data, development=bool(context.obj))


@gamed.command(short_help="[key] Run the game server.")
@click.option("-c", "--config", metavar="FILE", help="The same as before the command's name.")
@click.option("-d", "--data", metavar="DIR", help="The same as before the command's name.")
@click.option(
    "-l",
    "--listen",
    metavar="ENDPOINT",
    multiple=True,
    help="Where to listen; may be given several times. [default: tcp:8080:interface=127.0.0.1]",
)
@click.option(
    "--private-listen",
    is_flag=True,
    help="Ports that other machines could reach are published to this machine only. [env GAMED_PRIVATE_LISTEN=1]",
)
@click.option(
    "--admin",
    metavar="ENDPOINT",
    help="Where to serve /metrics and /readyz, for this machine only, such as tcp:9100:interface=127.0.0.1.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json", "journal"]),
    default="text",
    help="What a line of the log looks like; journal is for systemd. [default: text]",
)
@click.pass_obj
def serve(  # noqa: PLR0917
    host: CommandContext,
    config: str | None,
    data: str | None,
    listen: tuple[str, ...],
    private_listen: bool,
    admin: str | None,
    log_format: str,
) -> None:
    """Run the game server, until it is stopped. [key]

    The first run writes a configuration in local mode, and the key file.
    """
    exit_cleanly_on_sigterm()
    with gc_paused():
        from gamed.cli import serve as cli_serve  # late: it is most of Twisted

    where = host.places(config, data)
    arguments = [f"--config={where.config}", f"--data={where.data}", *(f"--listen={text}" for text in listen)]
    arguments += [f"--log-format={log_format}", *([] if admin is None else [f"--admin={admin}"])]
    cli_serve.serve([*arguments, *(["--private-listen"] if private_listen else [])])
