"""`gamed dev`: the server in `oauth` mode, and beside it a provider that plays Discord and Google; this machine only.

Nothing else in gamed loads the development provider, so this module imports it late.
"""

import socket
from contextlib import closing
from pathlib import Path
from tempfile import mkdtemp

import click
from attrs import evolve

from gamed.cli.dev_plan import LOOPBACK, Plan
from gamed.cli.host import Host
from gamed.cli.places import BUILD, PACKAGE
from gamed.cli.refusal import Refusal, ending

PORT = click.IntRange(1024, 65535)


@click.command(short_help="Run a server to try things with, and a provider that needs no internet.")
@click.option("--port", type=PORT, default=8080, show_default=True, help="Of the server.")
@click.option("--provider-port", type=PORT, default=8081, show_default=True, help="Of the provider.")
@click.option(
    "--folder",
    metavar="DIR",
    help="Keep configuration and data here. [default: .build/dev in a checkout, else a temporary folder]",
)
@click.option(
    "--static",
    "statics",
    metavar="DIR",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Serve a game's web page from this folder, too; of several, the first that has a file.",
)
@click.option("--static-port", type=PORT, default=8082, show_default=True, help="Of that page.")
@click.pass_obj
def dev(
    host: Host, *, port: int, provider_port: int, folder: str | None, statics: tuple[Path, ...], static_port: int
) -> None:
    """Run a server to try things with, and a provider that needs no internet.

    The provider plays Discord and Google: its page asks who you want to be. Both listen on this machine only. The
    server has a configuration and data of its own; members that you add to that configuration are kept. The page of
    --static may talk to the server: its origins are in cors_origins.
    """
    from gamed.cli import dev_service  # late: most of Twisted, and the development provider

    with ending():
        if host.config or host.data:
            raise Refusal("`gamed dev` makes a configuration and data of its own; name a place with --folder DIR.")
        kept = _place(host, folder)
        roots = [root.absolute() for root in statics]
        plan = Plan(port, provider_port, static_port, roots, kept or Path(), temporary=kept is None)
        if len(set(plan.ports.values())) < len(plan.ports):
            raise Refusal(f"The server and what is beside it need a port each: see {' and '.join(plan.ports)}.")
        for option, number in plan.ports.items():
            _probe(option, number)
        dev_service.run(plan if kept else evolve(plan, place=Path(mkdtemp(prefix="gamed-dev-"))))


def _place(host: Host, folder: str | None) -> Path | None:
    if folder:
        return Path(folder).absolute()
    in_checkout = host.development and (PACKAGE.parent / "setup.py").is_file()
    return PACKAGE.parent / BUILD / "dev" if in_checkout else None


def _probe(option: str, port: int) -> None:
    with closing(socket.socket()) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((LOOPBACK, port))
        except OSError:
            raise Refusal(f"{option} {port}: another program listens there; name another port.") from None
