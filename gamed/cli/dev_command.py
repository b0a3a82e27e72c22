"""`gamed dev`: the server in `oauth` mode, and beside it a provider that plays Discord and Google; this machine only.

Nothing else in gamed loads the development provider, so this module imports it late.
"""

import socket
from contextlib import closing
from pathlib import Path
from tempfile import mkdtemp

import click

from gamed.cli.host import Host
from gamed.cli.places import BUILD, PACKAGE
from gamed.cli.refusal import Refusal, ending

LOOPBACK = "127.0.0.1"
PORT = click.IntRange(1024, 65535)


@click.command(short_help="Run a server to try things with, and a provider that needs no internet.")
@click.option("--port", type=PORT, default=8080, show_default=True, help="Of the server.")
@click.option("--provider-port", type=PORT, default=8081, show_default=True, help="Of the provider.")
@click.option(
    "--folder",
    metavar="DIR",
    help="Keep configuration and data here. [default: .build/dev in a checkout, else a temporary folder]",
)
@click.pass_obj
def dev(host: Host, port: int, provider_port: int, folder: str | None) -> None:
    """Run a server to try things with, and a provider that needs no internet.

    The provider plays Discord and Google: its page asks who you want to be. Both listen on this machine only. The
    server has a configuration and data of its own; members that you add to that configuration are kept.
    """
    from gamed.cli import dev_service  # late: most of Twisted, and the development provider

    with ending():
        if host.config or host.data:
            raise Refusal("`gamed dev` makes a configuration and data of its own; name a place with --folder DIR.")
        if port == provider_port:
            raise Refusal("The server and the provider need a port each: see --port and --provider-port.")
        for option, number in (("--port", port), ("--provider-port", provider_port)):
            _probe(option, number)
        place = _place(host, folder)
        dev_service.run(port, provider_port, place or Path(mkdtemp(prefix="gamed-dev-")), temporary=place is None)


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
