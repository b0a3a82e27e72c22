"""`gamed dev` runs a server in `oauth` mode, and a provider that emulates the presets, for this machine only."""

import os
import shlex
import signal
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, redirect_stdout
from errno import EADDRINUSE
from pathlib import Path
from secrets import token_bytes, token_hex, token_urlsafe
from shutil import rmtree, which
from tempfile import gettempdir
from typing import NoReturn

import click
from msgspec import Struct
from msgspec.structs import replace
from twisted.application.service import IService, MultiService
from twisted.internet.error import CannotListenError

from gamed import tap
from gamed.cli.context import CommandContext, OpenedConfiguration
from gamed.cli.dev import setup as dev_setup
from gamed.cli.dev.script import LOG_FILE, ScriptRunner, environment
from gamed.cli.dev.setup import LOOPBACK, NEWCOMERS, SAMPLES, DevOptions
from gamed.cli.errors import CommandFailed, SetupError, echo
from gamed.cli.interrupt import may_change
from gamed.cli.paths import BUILD, PACKAGE
from gamed.cli.service import start_report
from gamed.cli.service.listen import Listener
from gamed.cli.service.serve import GamedServerOptions
from gamed.clock import now_ms
from gamed.config.settings import Settings
from gamed.crypto import Secret

CLIENT = PACKAGE.parent / "clients" / "python" / "gamed_client.py"
PORT = click.IntRange(1024, 65535)
PORTS = {"port": 8080, "provider_port": 8081, "static_port": 8082}
DIR = click.Path(exists=True, file_okay=False, path_type=Path)


class CommandType(click.ParamType[tuple[str, ...]]):
    """The type of an option that is a program and its arguments, quoted as for a shell; no shell runs it."""

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


@click.command()
@click.option("--port", type=PORT, help="The server's port. [default: 8080; with --script a free one]")
@click.option("--provider-port", type=PORT, help="The provider's port. [default: 8081; with --script a free one]")
@click.option(
    "--folder",
    metavar="DIR",
    help="The folder for configuration and data. [default: .build/dev for `python -m gamed` in a checkout; else, and "
    "with --script, a temporary folder]",
)
@click.option("--fresh", is_flag=True, help="Delete the data of an earlier start in that folder.")
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
@click.option("--static-port", type=PORT, help="That page's port. [default: 8082; with --script a free one]")
@click.option(
    "--script",
    type=CommandType(),
    default=(),
    metavar="COMMAND",
    help="Run this once the server answers, then end with its exit code.",
)
@click.pass_obj
def dev(
    context: CommandContext,
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

    The provider emulates all presets, such as Discord: its page asks who you want to be. Everything listens on this
    machine only. The server has a configuration and data of its own; members that you add to that configuration stay.
    The page of --static may send requests to the server: its origins are in cors_origins.

    COMMAND, such as "python3 tests/online.py", finds in its environment GAMED_URL, the server; GAMED_PROVIDER_URL;
    GAMED_PAGE_URL, with --static; GAMED_PLAYERS, a JSON file with credentials of the sample players anna and bo; and
    GAMED_MATCH_SECRET, with which a server asks whether a ticket for match.example is valid.
    """
    if context.config or context.data:
        raise SetupError("`gamed dev` makes its own configuration and data. Name a folder with --folder DIR.")
    chosen = _folder(context, folder, temporary=bool(script))
    port, provider_port, static_port = _ports(ports, free=bool(script))
    options = DevOptions(
        port,
        provider_port,
        static_port,
        folder=chosen or Path(),
        temporary=chosen is None,
        statics=[root.absolute() for root in statics],
        assets=assets and assets.absolute(),
        script=script,
    )
    if len(set(options.ports.values())) < len(options.ports):
        raise SetupError(f"Two ports are the same. Choose different ones for {' and '.join(options.ports)}.")
    for option, number in options.ports.items():
        _probe(option, number)
    may_change()
    if chosen and fresh:
        dev_setup.clear(chosen)
    if chosen:
        run(options)
        return
    with _temporary_folder() as temporary:
        run(replace(options, folder=temporary))


def _folder(context: CommandContext, folder: str | None, *, temporary: bool) -> Path | None:
    """Return the folder to use; None for a temporary one."""
    if folder:
        return Path(folder).absolute()
    in_checkout = context.development and (PACKAGE.parent / "setup.py").is_file()
    return PACKAGE.parent / BUILD / "dev" if in_checkout and not temporary else None


def _ports(named: Mapping[str, int | None], *, free: bool) -> list[int]:
    """Return the ports in the order of PORTS; free ones are bound at the same time, so that they differ."""
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
                raise CommandFailed(f"{option} {port}: another program listens there. Name another port.") from None
            raise SetupError(f"{option} {port}: {e.strerror}. Name another port.") from None


def run(options: DevOptions) -> None:
    """Run until the server is stopped, or until the script ends; set the variables that the configuration names."""
    from twisted.scripts.twistd import runApp

    match_secret = token_urlsafe(32)
    for name in (*dev_setup.SECRET_ENVS.values(), dev_setup.MATCH_SECRET_ENV):
        os.environ.pop(f"{name}_FILE", None)  # a secret that is supplied twice is an error
    environ = environment(options, os.environ, match_secret)
    script = ScriptRunner(options, environ, _umask()) if options.script else None
    secrets = dev_setup.new_secrets()
    maker = DevServiceMaker(options, {name: Secret(text.encode()) for name, text in secrets.items()}, script)
    file = dev_setup.prepare(options)
    os.environ.pop(dev_setup.MASTER_KEY_ENV, None)
    os.environ[f"{dev_setup.MASTER_KEY_ENV}_FILE"] = str(options.folder / dev_setup.KEY_FILE)
    os.environ.update({dev_setup.SECRET_ENVS[name]: text for name, text in secrets.items()})
    os.environ[dev_setup.MATCH_SECRET_ENV] = match_secret
    arguments = [
        f"--config={file}",
        f"--data={options.folder / dev_setup.DATA}",
        f"--listen=tcp:{options.port}:interface={LOOPBACK}",
    ]
    log = [f"--logfile={options.folder / LOG_FILE}"] if script else []
    twistd = GamedServerOptions(maker)
    twistd.parseOptions(["--nodaemon", "--pidfile=", *log, maker.tapname, "serve", *arguments])  # type: ignore[no-untyped-call]
    try:
        with redirect_stdout(sys.stderr) if script else nullcontext():  # stdout is the script's
            runApp(twistd)
    except CannotListenError as e:  # the port was free a moment ago
        raise CommandFailed(f"Port {e.port} is in use. Name another one.") from None
    if script is not None:
        raise SystemExit(script.code)


def _umask() -> int:
    """Return the developer's umask for the script; gamed's own is for files with secrets."""
    umask = os.umask(0o077)
    os.umask(umask)
    return umask


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    """Make a folder, and delete it at the end: also if the start fails, or if a signal ends the process before that.

    Once the reactor runs, a signal stops it, and the folder is deleted after its shutdown.
    """
    folder = Path(gettempdir(), f"gamed-dev-{token_hex(8)}")

    def end(number: int, frame: object) -> NoReturn:
        rmtree(folder, ignore_errors=True)
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    _handle_hangup_as_sigterm()
    try:
        folder.mkdir(mode=0o700)
        yield folder
    finally:
        rmtree(folder, ignore_errors=True)


def _handle_hangup_as_sigterm() -> None:
    """Let a closed terminal do what SIGTERM does at present, unless nohup made the process ignore it."""
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.getsignal(signal.SIGTERM))


class DevServiceMaker(Struct, frozen=True):
    """The twistd plugin of `gamed dev`, which no search finds."""

    dev: DevOptions
    secrets: dict[str, Secret]
    script: ScriptRunner | None
    tapname = "dev"
    description = "A server to try things with."
    options = tap.Options

    def makeService(self, options: tap.Options) -> IService:
        from twisted.internet import reactor

        from gamed.dev.clients import EMULATED, Client
        from gamed.dev.provider import DevelopmentProvider
        from gamed.dev.servers import LoopbackService
        from gamed.dev.static_files import StaticFiles

        dev = self.dev
        clients = tuple(
            Client(emulated, dev_setup.CLIENT_IDS[name], secret, frozenset({f"{dev.server}/auth/{name}/callback"}))
            for emulated, (name, secret) in zip(EMULATED.values(), self.secrets.items(), strict=True)
        )
        service = MultiService()
        tap.make_checked(options, self._report, "gamed dev").setServiceParent(service)
        provider = DevelopmentProvider(dev.provider, clients, reactor, now_ms, token_bytes)
        others = [LoopbackService(reactor, dev.provider_port, provider.app.resource())]
        if dev.statics:
            files = StaticFiles(dev.static_port, dev.statics, dev.server)
            others.append(LoopbackService(reactor, dev.static_port, files))
        for other in others:
            other.setServiceParent(service)  # type: ignore[no-untyped-call]
        self._add_samples(options.subOptions.opened)
        if self.script is not None:
            reactor.callWhenRunning(self.script.begin, reactor)
            reactor.addSystemEventTrigger("after", "shutdown", self.script.print_log_end)
        if dev.temporary:
            _handle_hangup_as_sigterm()  # which stops the reactor now
            reactor.addSystemEventTrigger("after", "shutdown", rmtree, dev.folder, ignore_errors=True)
        return service

    def _report(
        self, settings: Settings, opened: OpenedConfiguration, listeners: Sequence[Listener], accounts: int | None
    ) -> None:
        """Show what the start has prepared; with --script the output is the command's own."""
        if self.script is None:
            start_report.show(settings, opened, listeners, accounts, temporary=True)

    def _add_samples(self, opened: OpenedConfiguration) -> None:
        """Add sample releases and players; both databases exist, and the server answers no request yet."""
        channels = dev_setup.prepare_assets(opened.places.data, opened.game, self.dev.assets)
        players = dev_setup.prepare_players(self.dev.folder, opened.config)
        if self.script is None:
            self._print_addresses(players, channels)

    def _print_addresses(self, players: Path, channels: Sequence[str]) -> None:
        client = os.path.relpath(CLIENT) if CLIENT.exists() else "-m gamed_client"
        known, new = (" and ".join(person.name for person in people) for people in (SAMPLES, NEWCOMERS))
        dev = self.dev
        page = f"  page      {dev.page} from {', '.join(map(str, dev.statics))}\n" if dev.page else ""
        echo(f"""
A development server: for this machine only, never for players.
  server    {dev.server}
  provider  {dev.provider} emulates the providers; deny there, or make it slow or fail
{page}  players   {known} have played here before, {new} are new
            {players} has credentials of the first two
  assets    {dev.server}/assets/ has {", ".join(channels)}
  folder    {dev.folder} ({"deleted at the end" if dev.temporary else "the next start uses it again"})
Enter the server's address in your game, or try a sign-in with the reference client:
  python3 {client} --server {dev.server} login
  python3 {client} --server {dev.server} assets content
Ctrl-C ends it.
""")
