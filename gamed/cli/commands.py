"""The console script `gamed`: the commands that an operator runs on the host, each imported only when it is named."""

import os
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gamed import __version__
from gamed.cli.completing import complete_files, complete_folders
from gamed.cli.context import CommandContext
from gamed.cli.errors import exit_on_error, exit_with
from gamed.cli.examples import EXAMPLES, add_examples
from gamed.cli.interrupt import INTERRUPTED, may_change, raise_again, sentence
from gamed.cli.process import exit_cleanly_on_sigterm, name_passed_sockets
from gamed.gc_pause import gc_paused

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

T = TypeVar("T", bound=Callable[..., Any])
COMMANDS = {
    "setup": ("run", "setup.command", "Set a server up that stays."),
    "serve": ("run", "commands", "[key] Run the game server."),
    "dev": ("run", "dev.command", "Run a server and a provider to try things with."),
    "health": ("run", "checks.http_client", "Ask the running server whether it is healthy."),
    "doctor": ("run", "checks.doctor", "[key] Find what is wrong with this server."),
    "check": ("run", "checks.check", "Check the configuration, or the stored data."),
    "unit": ("run", "setup.samples", "Print settings for systemd and proxies."),
    "nginx": ("run", "setup.samples", "Print settings for systemd and proxies."),
    "caddy": ("run", "setup.samples", "Print settings for systemd and proxies."),
    "players": ("players", "people.players", "Add players, show them, decide who may play."),
    "passkeys": ("players", "people.passkeys", "Add players, show them, decide who may play."),
    "sessions": ("players", "people.sessions", "Show who is signed in, and what happened."),
    "events": ("players", "people.events", "Show who is signed in, and what happened."),
    "owner": ("players", "people.owner", "Choose the owner, send the owner a message."),
    "notify": ("players", "checks.notify", "Choose the owner, send the owner a message."),
    "saves": ("data", "data.saves", "Show players' saves, repair them, export them."),
    "backup": ("data", "data.backup", "Copy the databases and the configuration."),
    "restore": ("data", "data.restore", "[key] Put a backup back; stop the server first."),
    "restored": ("data", "data.restored", "Finish a restore that other tools made."),
    "move-data": ("data", "data.move_data", "Move the server's files; stop the server first."),
    "move-store": ("data", "data.move_store", "Move the databases to PostgreSQL, or back."),
    "assets": ("assets", "files.assets", "Publish what games load, and manage it."),
    "key": ("keys", "setup.config", "Make keys, or identify this server's."),
    "man": ("help", "man", "Print the manual page, or a shell's completion."),
    "completion": ("help", "man", "Print the manual page, or a shell's completion."),
}
"""The commands in the order of `gamed --help`: the group, the module below this folder, and what the command does.

Neighbours of one group that do the same share a line.
"""
RENAMED = {
    "assets drop": "assets delete-channel",
    "assets ls": "assets list",
    "assets point": "assets set-channel",
    "check-config": "check config",
    "players attach": "players merge OLD --into NEW",
    "saves ls": "saves list",
}
"""Names of earlier versions, and the present ones; only the error message for an old name uses them."""
EPILOG = f"""
\b
[key]: needs the key that the server has.
Exit codes: 0 success, 1 failure, 2 wrong usage, 78 wrong configuration.
Examples: {"; ".join(EXAMPLES[""])}
"""


def config_option(text: str) -> Callable[[T], T]:
    return click.option("-c", "--config", metavar="FILE", shell_complete=complete_files, help=text)


def data_option(text: str) -> Callable[[T], T]:
    return click.option("-d", "--data", metavar="DIR", shell_complete=complete_folders, help=text)


class MainGroup(click.Group):
    """The group of all commands; it imports a command's module when that command runs, and none to list them.

    Its errors name the right place for an option that is given too late, and the present name of a renamed command.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"gamed.cli.{COMMANDS[cmd_name][1]}")
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        add_examples(command, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows, before = [], ""
        for (group, summary), names in groupby(COMMANDS, lambda name: COMMANDS[name][::2]):
            rows.append((f"{'' if group == before else group:9}{', '.join(names)}", summary))
            before = group
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list["CompletionItem"]:
        """Return the commands and options that begin so; the commands are not imported for that."""
        from click.shell_completion import CompletionItem  # late: only completion needs it

        found = [CompletionItem(name, help=COMMANDS[name][2]) for name in COMMANDS if name.startswith(incomplete)]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        for typed in (args[0], " ".join(args[:2])):
            if typed in RENAMED:
                raise click.UsageError(f"No such command '{typed}'. Use: {ctx.command_path} {RENAMED[typed]}", ctx)
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as e:
            raise click.NoSuchCommand(e.command_name, possibilities=COMMANDS, ctx=ctx) from None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with exit_on_error():
                return super().invoke(ctx)
        except (KeyboardInterrupt, click.Abort):  # the second is Ctrl-C at a prompt
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second one would show a traceback of the end
            exit_with(INTERRUPTED, f"{chr(10) * sys.stderr.isatty()}gamed: {sentence(ctx.meta)}")
        except click.NoSuchOption as e:
            name = e.option_name
            if e.ctx is not None and e.ctx.command is serve and name in ("--port", "--host"):
                text = f"No such option '{name}'. Use: --listen PORT, or --listen HOST:PORT"
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
@config_option("The configuration file. [env GAMED_CONFIG]")
@data_option("The data folder. [env GAMED_DATA]")
@click.pass_context
def gamed(context: click.Context, config: str | None, data: str | None) -> None:
    """Run a self-hosted game server: sign-in, saves and assets.

    \f

    Every command but `serve`, `restore`, `restored`, `move-data`, `move-store` and `check data --fix` also works while
    the server runs. Without --config the configuration is authentication.json beside this program; without --data the
    data folder is `data` beside the configuration.

    Commands marked [key] need the key that the server has: from the variable that master_key_env names, that variable's
    _FILE form, or a systemd credential; in local mode without master_key_env, from the key file in the data folder.
    """
    raise_again()
    context.obj = CommandContext(config, data, development=bool(context.obj))


@click.command(short_help="[key] Run the game server.")
@config_option("The same as before the command's name.")
@data_option("The same as before the command's name.")
@click.option(
    "-l",
    "--listen",
    metavar="ADDRESS",
    multiple=True,
    help="PORT (this machine only), HOST:PORT, [IPV6]:PORT or an endpoint; may be repeated. [default: 8080]",
)
@click.option(
    "--private-listen",
    is_flag=True,
    help="Ports that other machines could reach are published to this machine only. [env GAMED_PRIVATE_LISTEN=1]",
)
@click.option(
    "--admin",
    metavar="ADDRESS",
    help="Serve the owner's page, /metrics and /readyz there, for this machine only, such as 9100.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json", "journal"]),
    default="text",
    help="The format of log lines; journal is for systemd. [default: text]",
)
@click.option(
    "--workers", type=click.IntRange(2, 16), metavar="N", help="Serve with N processes, 2 to 16. [default: one process]"
)
@click.option("--migrate", is_flag=True, help="Let this version change the schema of a PostgreSQL store.")
@click.option("--share", is_flag=True, help="Share the data folder with other servers that are started with --share.")
@click.pass_obj
def serve(  # noqa: PLR0917
    context: CommandContext,
    config: str | None,
    data: str | None,
    listen: tuple[str, ...],
    private_listen: bool,
    admin: str | None,
    log_format: str,
    workers: int | None,
    share: bool,
    migrate: bool,
) -> None:
    """Run the game server, until it is stopped. [key]

    The first run writes a configuration in local mode, and the key file.
    """
    exit_cleanly_on_sigterm()
    may_change()
    with gc_paused():
        name_passed_sockets(os.environ)
        from gamed.cli.service import serve as cli_serve  # late: it is most of Twisted

    places = context.places(config, data)
    arguments = [f"--config={places.config}", f"--data={places.data}", *(f"--listen={text}" for text in listen)]
    arguments += [f"--log-format={log_format}", *([] if admin is None else [f"--admin={admin}"])]
    arguments += [] if workers is None else [f"--workers={workers}"]
    flags = {"--private-listen": private_listen, "--share": share, "--migrate": migrate}
    cli_serve.serve([*arguments, *(name for name, is_set in flags.items() if is_set)])
