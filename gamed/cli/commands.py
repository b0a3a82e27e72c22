"""The console script `gamed`: the commands that an operator runs on the host, each imported only when it is named."""

from importlib import import_module
from typing import Any

import click

from gamed import __version__
from gamed.cli.context import CommandContext
from gamed.cli.errors import exit_on_error
from gamed.cli.process import exit_cleanly_on_sigterm
from gamed.gc_pause import gc_paused

COMMANDS = {
    "assets": ("assets", "Publish what games load, and manage it."),
    "backup": ("backup", "Copy both databases and the configuration, while the service runs."),
    "check": ("check", "Check the configuration, or the stored data."),
    "dev": ("dev", "Run a server to try things with, and a provider that needs no internet."),
    "doctor": ("doctor", "[key] Find what is wrong with this server."),
    "health": ("http_client", "Ask the running server whether it is healthy."),
    "key": ("config", "Make a master key, or show which one auth.db has."),
    "move-data": ("move_data", "Move configuration, key and data to another folder, while the service does not run."),
    "owner": ("moderation", "Choose which player is the owner of this server."),
    "players": ("players", "Add players, show them, and decide who may play."),
    "restore": ("restore", "[key] Put a backup back, while the service does not run."),
    "saves": ("saves", "Show players' saves, repair them, export them."),
    "sessions": ("sessions", "Show who is signed in, and sign players out."),
}
"""The module in this folder that defines the command, and the command's line in `gamed --help`."""
RENAMED = {
    "assets drop": "assets delete-channel",
    "assets ls": "assets list",
    "assets point": "assets set-channel",
    "check-config": "check config",
    "players attach": "players merge OLD --into NEW",
    "saves ls": "saves list",
}
"""Names of earlier versions, and the present ones; only the error message for an old name uses them."""
EPILOG = """
Commands marked [key] need the key of auth.db: from the variable that master_key_env names, that variable's _FILE form,
or a systemd credential; in local mode without master_key_env, from the key file in the data folder.

Exit codes: 0 success, 1 failure, 2 wrong usage, 78 the configuration must be corrected first.
"""


class MainGroup(click.Group):
    """The group of all commands; it imports a command's module when that command runs, and none to list them.

    Its errors name the right place for an option that is given too late, and the present name of a renamed command.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *COMMANDS])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        command: click.Command = getattr(
            import_module(f"gamed.cli.{COMMANDS[cmd_name][0]}"), cmd_name.replace("-", "_")
        )
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        here = {name: command.get_short_help_str() for name, command in self.commands.items()}
        summaries = here | {name: summary for name, (_, summary) in COMMANDS.items()}
        with formatter.section("Commands"):
            formatter.write_dl(sorted(summaries.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        for typed in (args[0], " ".join(args[:2])):
            if typed in RENAMED:
                raise click.UsageError(f"No such command '{typed}'. Use: {ctx.command_path} {RENAMED[typed]}", ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with exit_on_error():
                return super().invoke(ctx)
        except click.NoSuchOption as e:
            name = e.option_name
            if e.ctx is not None and e.ctx.command is serve and name in ("--port", "--host"):
                text = f"No such option '{name}'. Use: --listen tcp:PORT:interface=127.0.0.1"
                raise click.UsageError(text, e.ctx) from None
            if e.ctx is None or name not in {option for each in self.params for option in each.opts}:
                raise
            behind = e.ctx.command_path.removeprefix(ctx.command_path)
            text = f"{name} goes before the command's name: {ctx.command_path} {name} ...{behind}"
            raise click.UsageError(text, e.ctx) from None


@click.group(
    cls=MainGroup, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, message="gamed %(version)s")
@click.option("-c", "--config", metavar="FILE", help="[env GAMED_CONFIG; else authentication.json beside this program]")
@click.option("-d", "--data", metavar="DIR", help="[env GAMED_DATA; else `data` beside the configuration file]")
@click.pass_context
def gamed(context: click.Context, config: str | None, data: str | None) -> None:
    """Run a self-hosted game server: sign-in, saves and assets.

    Every command but `serve`, `restore`, `move-data` and `check data --fix` also works while the service runs.
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
    help="An endpoint to listen on; may be given several times. [default: tcp:8080:interface=127.0.0.1]",
)
@click.option(
    "--private-listen",
    is_flag=True,
    help="Ports that other machines could reach are published to this machine only. [env GAMED_PRIVATE_LISTEN=1]",
)
@click.option(
    "--admin",
    metavar="ENDPOINT",
    help="Serve /metrics and /readyz there, for this machine only, such as tcp:9100:interface=127.0.0.1.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json", "journal"]),
    default="text",
    help="The format of log lines; journal is for systemd. [default: text]",
)
@click.pass_obj
def serve(  # noqa: PLR0917
    context: CommandContext,
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

    places = context.places(config, data)
    arguments = [f"--config={places.config}", f"--data={places.data}", *(f"--listen={text}" for text in listen)]
    arguments += [f"--log-format={log_format}", *([] if admin is None else [f"--admin={admin}"])]
    cli_serve.serve([*arguments, *(["--private-listen"] if private_listen else [])])
