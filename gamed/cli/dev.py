"""The service as `serve` makes it, and the development provider beside it, in one process.

`gamed dev`: the server in `oauth` mode, and beside it a provider that plays Discord and Google; this machine only.

Nothing else in gamed loads the development provider, so this module imports it late.
"""

import os
import shlex
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, redirect_stdout
from errno import EADDRINUSE
from pathlib import Path
from secrets import token_bytes, token_urlsafe
from shutil import rmtree, which
from tempfile import mkdtemp
from typing import Any, cast

import click
from msgspec import Struct
from msgspec.structs import replace
from twisted.application.service import IService, MultiService
from twisted.internet.error import CannotListenError

from gamed import tap
from gamed.cli import dev_setup
from gamed.cli.context import CommandContext, OpenedConfiguration
from gamed.cli.dev_setup import LOG_FILE, LOOPBACK, DevOptions, ScriptRunner, environment, last_words
from gamed.cli.errors import CommandFailed, SetupError, echo, exit_on_error
from gamed.cli.paths import BUILD, PACKAGE
from gamed.cli.serve import GamedServerOptions
from gamed.clock import now_ms
from gamed.crypto import Secret

CLIENT = PACKAGE.parent / "clients" / "python" / "gamed_client.py"


class DevServiceMaker(Struct, frozen=True):
    """A plugin of twistd that no search finds: only `gamed dev` makes one."""

    plan: DevOptions
    secrets: dict[str, Secret]
    script: ScriptRunner | None
    tapname = "dev"
    description = "A server to try things with."
    options = tap.Options

    def makeService(self, options: tap.Options) -> IService:
        from twisted.internet import reactor

        from gamed.dev.clients import DISCORD, GOOGLE, Client
        from gamed.dev.provider import DevelopmentProvider
        from gamed.dev.servers import LoopbackService, ProviderService, StaticFiles

        plan = self.plan
        clients = tuple(
            Client(side, dev_setup.CLIENT_IDS[name], secret, frozenset({f"{plan.server}/auth/{name}/callback"}))
            for side, (name, secret) in zip((DISCORD, GOOGLE), self.secrets.items(), strict=True)
        )
        both = MultiService()
        tap.make_checked(options).setServiceParent(both)
        provider = DevelopmentProvider(plan.provider, clients, reactor, now_ms, token_bytes)
        beside: list[LoopbackService] = [ProviderService(reactor, plan.provider_port, provider)]
        if plan.statics:
            files = StaticFiles(plan.static_port, plan.statics, plan.server)
            beside.append(LoopbackService(reactor, plan.static_port, files))
        for service in beside:
            service.setServiceParent(both)  # type: ignore[no-untyped-call]
        self._stock(options.subOptions.opened)
        if self.script is not None:
            reactor.callWhenRunning(self.script.begin, reactor)
            reactor.addSystemEventTrigger("after", "shutdown", self._look_back, self.script)
        if plan.temporary:
            reactor.addSystemEventTrigger("after", "shutdown", rmtree, plan.place, ignore_errors=True)
        return both

    def _stock(self, opened: OpenedConfiguration) -> None:
        """Both stores are there by now; nobody asks the server yet."""
        from gamed.cli import dev_setup

        channels = dev_setup.prepare_assets(opened.places.data, opened.game, self.plan.assets)
        players = dev_setup.prepare_players(self.plan.place, opened.config)
        if self.script is None:
            self._tell(players, channels)

    def _look_back(self, script: ScriptRunner) -> None:
        if script.code:
            last_words(self.plan.place / LOG_FILE, lambda text: print(text, file=sys.__stderr__))

    def _tell(self, players: Path, channels: Sequence[str]) -> None:
        from gamed.cli.dev_setup import NEWCOMERS, SAMPLES

        client = os.path.relpath(CLIENT) if CLIENT.exists() else "gamed_client.py"
        known, new = (" and ".join(person.name for person in people) for people in (SAMPLES, NEWCOMERS))
        plan = self.plan
        page = f"  page      {plan.page} from {', '.join(map(str, plan.statics))}\n" if plan.page else ""
        echo(f"""
A development server: for this machine only, never for players.
  server    {plan.server}
  provider  {plan.provider} plays Discord and Google; deny there, or make it slow or fail
{page}  players   {known} have played here before, {new} are new
            {players} has credentials of the first two
  assets    {plan.server}/assets/ has {", ".join(channels)}
  folder    {plan.place} ({"removed at the end" if plan.temporary else "the next start goes on with it"})
Enter the server's address in your game, or try a sign-in with the reference client:
  python3 {client} --server {plan.server} login
  python3 {client} --server {plan.server} assets content
Ctrl-C ends it.
""")


class DevServiceOptions(GamedServerOptions):
    """twistd's options with the one above as the only plugin."""

    def __init__(self, maker: DevServiceMaker) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._maker = maker

    @property
    def subCommands(self) -> Iterator[tuple[str, None, Any, str]]:
        self.loadedPlugins = {self._maker.tapname: cast(Any, self._maker)}
        yield (self._maker.tapname, None, self._maker.options, self._maker.description)


def run(plan: DevOptions) -> None:
    """Run until stopped, or until the script is through; does not return before.

    What the configuration names is in the environment then.
    """
    from twisted.scripts.twistd import runApp

    script = ScriptRunner(plan, environment(plan, os.environ), _umask()) if plan.script else None
    secrets = {name: token_urlsafe(32) for name in dev_setup.SECRET_ENVS}
    maker = DevServiceMaker(plan, {name: Secret(text.encode()) for name, text in secrets.items()}, script)
    with exit_on_error(), _removing(plan):
        file = dev_setup.prepare(plan)
        os.environ.pop(dev_setup.MASTER_KEY_ENV, None)
        os.environ[f"{dev_setup.MASTER_KEY_ENV}_FILE"] = str(plan.place / dev_setup.KEY_FILE)
        os.environ.update({dev_setup.SECRET_ENVS[name]: text for name, text in secrets.items()})
        where = [
            f"--config={file}",
            f"--data={plan.place / dev_setup.DATA}",
            f"--listen=tcp:{plan.port}:interface={LOOPBACK}",
        ]
        log = [f"--logfile={plan.place / LOG_FILE}"] if script else []
        options = DevServiceOptions(maker)
        options.parseOptions(["--nodaemon", "--pidfile=", *log, maker.tapname, "serve", *where])  # type: ignore[no-untyped-call]
        try:
            with redirect_stdout(sys.stderr) if script else nullcontext():  # stdout is the script's
                runApp(options)
        except CannotListenError as e:  # the port was free a moment ago
            raise CommandFailed(f"Port {e.port} is taken by another program; name another one.") from None
    if script is not None:
        raise SystemExit(script.code)


@contextmanager
def _removing(plan: DevOptions) -> Iterator[None]:
    """Nothing is left behind, also when the start fails."""
    try:
        yield
    finally:
        if plan.temporary:
            rmtree(plan.place, ignore_errors=True)


def _umask() -> int:
    """As the developer has it; gamed's own is for its secrets."""
    umask = os.umask(0o077)
    os.umask(umask)
    return umask


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

    The provider plays Discord and Google: its page asks who you want to be. Everything listens on this machine only.
    The server has a configuration and data of its own; members that you add to that configuration are kept. The page
    of --static may talk to the server: its origins are in cors_origins.

    COMMAND, such as "python tests/online.py", finds in its environment GAMED_URL, the server; GAMED_PROVIDER_URL;
    GAMED_PAGE_URL, with --static; and GAMED_PLAYERS, a JSON file with credentials of the sample players anna and bo.
    """
    from gamed.cli import dev_setup  # late: most of Twisted, and the development provider

    with exit_on_error():
        if context.config or context.data:
            raise SetupError("`gamed dev` makes a configuration and data of its own; name a place with --folder DIR.")
        kept = _place(context, folder, temporary=bool(script))
        port, provider_port, static_port = _ports(ports, free=bool(script))
        roots, content = [root.absolute() for root in statics], assets and assets.absolute()
        plan = DevOptions(
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
            raise SetupError(f"The server and what is beside it need a port each: see {' and '.join(plan.ports)}.")
        for option, number in plan.ports.items():
            _probe(option, number)
        if kept and fresh:
            dev_setup.clear(kept)
        run(plan if kept else replace(plan, place=Path(mkdtemp(prefix="gamed-dev-"))))


def _place(context: CommandContext, folder: str | None, *, temporary: bool) -> Path | None:
    if folder:
        return Path(folder).absolute()
    in_checkout = context.development and (PACKAGE.parent / "setup.py").is_file()
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
                raise CommandFailed(f"{option} {port}: another program listens there; name another port.") from None
            raise SetupError(f"{option} {port}: {e.strerror}; name another port.") from None
