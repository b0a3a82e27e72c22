"""`gamed dev`: the server in `oauth` mode, and beside it a provider that plays Discord and Google; this machine only.

Nothing else in gamed loads the development provider, so this module imports it late.
"""

import shlex
import socket
from collections.abc import Mapping
from contextlib import ExitStack, closing
from errno import EADDRINUSE
from pathlib import Path
from shutil import which
from tempfile import mkdtemp

import click
from msgspec.structs import replace

from gamed.cli.dev_plan import LOOPBACK, Plan
from gamed.cli.host import Host
from gamed.cli.places import BUILD, PACKAGE
from gamed.cli.refusal import NotDone, Refusal, ending

PORT = click.IntRange(1024, 65535)
PORTS = {"port": 8080, "provider_port": 8081, "static_port": 8082}
DIR = click.Path(exists=True, file_okay=False, path_type=Path)


class Command(click.ParamType[tuple[str, ...]]):
    """A program and its arguments, quoted as for a shell; none is asked."""

    name = "command"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        try:
            words = tuple(shlex.split(str(value)))
        except ValueError as e:
            self.fail(f"{e}.", param, ctx)
        if not words or which(words[0]) is None:
            self.fail(f"there is no program {words[0] if words else ''!r}.", param, ctx)
        return words


@click.command(short_help="Run a server to try things with, and a provider that needs no internet.")
@click.option("--port", type=PORT, help="Of the server. [default: 8080; with --script a free one]")
@click.option("--provider-port", type=PORT, help="Of the provider. [default: 8081; with --script a free one]")
@click.option(
    "--folder",
    metavar="DIR",
    help="Keep configuration and data here. [default: .build/dev for `python -m gamed` in a checkout; else, and with "
    "--script, a temporary folder]",
)
@click.option("--fresh", is_flag=True, help="Forget what an earlier start kept in that folder.")
@click.option(
    "--assets", type=DIR, metavar="DIR", help="Publish this folder as channel stable. [default: two small releases]"
)
@click.option(
    "--static",
    "statics",
    metavar="DIR",
    multiple=True,
    type=DIR,
    help="Serve a game's web page from this folder, too; of several, the first that has a file.",
)
@click.option("--static-port", type=PORT, help="Of that page. [default: 8082; with --script a free one]")
@click.option(
    "--script",
    type=Command(),
    default=(),
    metavar="COMMAND",
    help="Run this once the server answers, then end with its exit code.",
)
@click.pass_obj
def dev(
    host: Host,
    /,
    *,
    folder: str | None,
    fresh: bool,
    assets: Path | None,
    statics: tuple[Path, ...],
    script: tuple[str, ...],
    **ports: int | None,
) -> None:
    """Run a server to try things with, and a provider that needs no internet.

    The provider plays Discord and Google: its page asks who you want to be. Everything listens on this machine only.
    The server has a configuration and data of its own; members that you add to that configuration are kept. The page
    of --static may talk to the server: its origins are in cors_origins.

    COMMAND, such as "python tests/online.py", finds in its environment GAMED_URL, the server; GAMED_PROVIDER_URL;
    GAMED_PAGE_URL, with --static; and GAMED_PLAYERS, a JSON file with credentials of the sample players anna and bo.
    """
    from gamed.cli import dev_folder, dev_service  # late: most of Twisted, and the development provider

    with ending():
        if host.config or host.data:
            raise Refusal("`gamed dev` makes a configuration and data of its own; name a place with --folder DIR.")
        kept = _place(host, folder, temporary=bool(script))
        port, provider_port, static_port = _ports(ports, free=bool(script))
        roots, content = [root.absolute() for root in statics], assets and assets.absolute()
        plan = Plan(
            port,
            provider_port,
            static_port,
            place=kept or Path(),
            temporary=kept is None,
            statics=roots,
            assets=content,
            script=script,
        )
        if len(set(plan.ports.values())) < len(plan.ports):
            raise Refusal(f"The server and what is beside it need a port each: see {' and '.join(plan.ports)}.")
        for option, number in plan.ports.items():
            _probe(option, number)
        if kept and fresh:
            dev_folder.clear(kept)
        dev_service.run(plan if kept else replace(plan, place=Path(mkdtemp(prefix="gamed-dev-"))))


def _place(host: Host, folder: str | None, *, temporary: bool) -> Path | None:
    if folder:
        return Path(folder).absolute()
    in_checkout = host.development and (PACKAGE.parent / "setup.py").is_file()
    return PACKAGE.parent / BUILD / "dev" if in_checkout and not temporary else None


def _ports(named: Mapping[str, int | None], *, free: bool) -> list[int]:
    """In the order of PORTS. Free ones are bound all at once, so that they differ."""
    with ExitStack() as sockets:
        return [named[name] or (_free(sockets) if free else number) for name, number in PORTS.items()]


def _free(sockets: ExitStack) -> int:
    trial = sockets.enter_context(closing(socket.socket()))
    trial.bind((LOOPBACK, 0))
    return int(trial.getsockname()[1])


def _probe(option: str, port: int) -> None:
    with closing(socket.socket()) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((LOOPBACK, port))
        except OSError as e:
            if e.errno == EADDRINUSE:
                raise NotDone(f"{option} {port}: another program listens there; name another port.") from None
            raise Refusal(f"{option} {port}: {e.strerror}; name another port.") from None
