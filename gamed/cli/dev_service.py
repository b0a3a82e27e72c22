"""The service as `serve` makes it, and the development provider beside it, in one process."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from secrets import token_bytes, token_urlsafe
from shutil import rmtree
from typing import Any, cast

from msgspec import Struct
from twisted.application.service import IService, MultiService
from twisted.internet.error import CannotListenError

from gamed import tap
from gamed.cli import dev_folder
from gamed.cli.dev_plan import LOOPBACK, Plan
from gamed.cli.dev_script import LOG_FILE, Script, environment, last_words
from gamed.cli.places import PACKAGE
from gamed.cli.reading import Opened
from gamed.cli.refusal import NotDone, ending, say
from gamed.cli.serving import OnePlugin
from gamed.clock import now_ms
from gamed.crypto import Secret

CLIENT = PACKAGE.parent / "clients" / "python" / "gamed_client.py"


class Maker(Struct, frozen=True):
    """A plugin of twistd that no search finds: only `gamed dev` makes one."""

    plan: Plan
    secrets: dict[str, Secret]
    script: Script | None
    tapname = "dev"
    description = "A server to try things with."
    options = tap.Options

    def makeService(self, options: tap.Options) -> IService:
        from twisted.internet import reactor

        from gamed.dev.listening import LoopbackService, ProviderService
        from gamed.dev.provider import DevelopmentProvider
        from gamed.dev.sides import DISCORD, GOOGLE, Client
        from gamed.dev.static import StaticFiles

        plan = self.plan
        clients = tuple(
            Client(side, dev_folder.CLIENT_IDS[name], secret, frozenset({f"{plan.server}/auth/{name}/callback"}))
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

    def _stock(self, opened: Opened) -> None:
        """Both stores are there by now; nobody asks the server yet."""
        from gamed.cli import dev_samples

        channels = dev_samples.prepare_assets(opened.places.data, opened.game, self.plan.assets)
        players = dev_samples.prepare_players(self.plan.place, opened.judged.config)
        if self.script is None:
            self._tell(players, channels)

    def _look_back(self, script: Script) -> None:
        if script.code:
            last_words(self.plan.place / LOG_FILE, lambda text: print(text, file=sys.__stderr__))

    def _tell(self, players: Path, channels: Sequence[str]) -> None:
        from gamed.cli.dev_samples import NEWCOMERS, SAMPLES

        client = os.path.relpath(CLIENT) if CLIENT.exists() else "gamed_client.py"
        known, new = (" and ".join(person.name for person in people) for people in (SAMPLES, NEWCOMERS))
        plan = self.plan
        page = f"  page      {plan.page} from {', '.join(map(str, plan.statics))}\n" if plan.page else ""
        say(f"""
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


class Options(OnePlugin):
    """twistd's options with the one above as the only plugin."""

    def __init__(self, maker: Maker) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._maker = maker

    @property
    def subCommands(self) -> Iterator[tuple[str, None, Any, str]]:
        self.loadedPlugins = {self._maker.tapname: cast(Any, self._maker)}
        yield (self._maker.tapname, None, self._maker.options, self._maker.description)


def run(plan: Plan) -> None:
    """Run until stopped, or until the script is through; does not return before.

    What the configuration names is in the environment then.
    """
    from twisted.scripts.twistd import runApp

    script = Script(plan, environment(plan, os.environ), _umask()) if plan.script else None
    secrets = {name: token_urlsafe(32) for name in dev_folder.SECRET_ENVS}
    maker = Maker(plan, {name: Secret(text.encode()) for name, text in secrets.items()}, script)
    with ending(), _removing(plan):
        file = dev_folder.prepare(plan)
        os.environ.pop(dev_folder.MASTER_KEY_ENV, None)
        os.environ[f"{dev_folder.MASTER_KEY_ENV}_FILE"] = str(plan.place / dev_folder.KEY_FILE)
        os.environ.update({dev_folder.SECRET_ENVS[name]: text for name, text in secrets.items()})
        where = [
            f"--config={file}",
            f"--data={plan.place / dev_folder.DATA}",
            f"--listen=tcp:{plan.port}:interface={LOOPBACK}",
        ]
        log = [f"--logfile={plan.place / LOG_FILE}"] if script else []
        options = Options(maker)
        options.parseOptions(["--nodaemon", "--pidfile=", *log, maker.tapname, "serve", *where])  # type: ignore[no-untyped-call]
        try:
            with redirect_stdout(sys.stderr) if script else nullcontext():  # stdout is the script's
                runApp(options)
        except CannotListenError as e:  # the port was free a moment ago
            raise NotDone(f"Port {e.port} is taken by another program; name another one.") from None
    if script is not None:
        raise SystemExit(script.code)


@contextmanager
def _removing(plan: Plan) -> Iterator[None]:
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
