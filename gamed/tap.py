"""The plugin `twistd gamed serve` parses its options here and builds the service.

Importing this module installs no reactor, because twistd chooses it later.
"""

import gc
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, suppress
from functools import partial
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from twisted.application.service import IService
from twisted.internet.error import ReactorNotRunning
from twisted.python import usage

from gamed import __version__
from gamed.cli import context, paths
from gamed.cli.errors import CONFIGURATION, SetupError, exit_on_error, exit_with
from gamed.cli.process import exit_cleanly_on_sigterm, exit_with_code, harden, stop_reactor_on_signals
from gamed.cli.service import serve as cli_serve
from gamed.cli.service import start_report
from gamed.cli.service.folder_lock import SERVE, SHARE, Lock
from gamed.cli.service.listen import endpoint_of, numbered
from gamed.cli.service.prepare import Start, prepare_worker
from gamed.cli.service.workers import (
    MARK,
    WorkerMark,
    WorkerPlan,
    WorkersParent,
    log_arguments,
    parse_count,
    refuse_kinds,
)
from gamed.clock import use_monotonic_clock
from gamed.config.settings import Intervals, LogFormat, Settings
from gamed.gc_pause import gc_paused
from gamed.open_files import RESERVED_FILES, allow_files
from gamed.ops.systemd import SystemdNotifier

if TYPE_CHECKING:
    from gamed.database.backup_format import BackupProgress
    from gamed.owner.backups import BackupMaker

_locks: list[Lock] = []
"""The locks of this process, which it has until it ends."""


class StderrOptions(usage.Options):
    """Options that report errors on stderr with exit code 78; Twisted's print the usage on stdout and exit with 1."""

    def parseOptions(self, options: Sequence[str] | None = None) -> None:
        try:
            super().parseOptions(options)  # type: ignore[no-untyped-call]
        except usage.UsageError as e:
            exit_with(CONFIGURATION, f"gamed: {e} (see --help)")

    def opt_version(self) -> None:
        """Show the version and exit."""
        print(f"gamed {__version__}")
        raise SystemExit(0)


class ServeOptions(StderrOptions):
    """The options of `serve`; `opened` is the loaded configuration after parsing."""

    synopsis = "[options]"
    longdesc = (
        "Runs the game server. In local mode it creates its configuration and its key; in oauth mode it needs the "
        "variables that authentication.json names."
    )
    optParameters = [  # noqa: RUF012
        [
            "config",
            "c",
            None,
            "The configuration file [$GAMED_CONFIG, else authentication.json beside the executable].",
        ],
        ["data", "d", None, "The data folder [$GAMED_DATA, else `data` beside the configuration file]."],
        ["admin", None, None, "The port or endpoint of /metrics and /readyz, for this machine only [none]."],
        ["log-format", None, "text", "The format of the log: text, json or journal (for systemd)."],
        ["workers", None, None, "Serve with this number of processes, 2 to 16 [one process]."],
    ]
    optFlags = [  # noqa: RUF012
        ["private-listen", None, "Declare that non-loopback ports are reachable from this machine only."],
        ["migrate", None, "Let this version change the schema of a PostgreSQL store."],
        ["share", None, "Share the data folder with other servers that are started with --share."],
    ]
    opened: context.OpenedConfiguration
    worker: WorkerMark | None
    """Set in a process that --workers started."""
    workers: int
    """The number of processes to start; 0 for a server that is one process."""
    intervals: Intervals = Intervals()
    """No option sets them; the tests have a program that does."""
    environ: Mapping[str, str]
    """The environment with its secrets, for workers; empty without --workers."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.listen: list[str] = []

    def opt_listen(self, endpoint: str) -> None:
        """Listen at PORT, HOST:PORT or an endpoint; may be given several times [127.0.0.1:8080]."""
        self.listen.append(endpoint)

    opt_l = opt_listen

    @property
    def log_format(self) -> LogFormat:
        """Return the format of every line that this process logs, except for errors that prevent the start."""
        return cli_serve.parse_log_format(self["log-format"])

    def postOptions(self) -> None:
        harden()
        self.worker = WorkerMark.of(os.environ)
        os.environ.pop(MARK, None)
        with exit_on_error(), cli_serve.format_early_output(self.log_format):
            self.workers = parse_count(self["workers"])
            self.environ = dict(os.environ) if self.workers else {}
            number = None if self.worker is None else self.worker.number
            cli_serve.choose_observer(getattr(self.parent, "parent", None), self.log_format, number)
            with redirect_stderr(StringIO() if self.worker else sys.stderr):  # the parent has shown the warnings
                self.opened = context.read_all(paths.find(os.environ, self["config"], self["data"]))


class Options(StderrOptions):
    """The options of the plugin, which has one command."""

    synopsis = "serve [options]"
    subCommands = [["serve", None, ServeOptions, "Run the game server."]]  # noqa: RUF012

    def getSynopsis(self) -> str:
        """Return the usage line; the synopsis of the command follows it, if one is given."""
        usage_line = str(super().getSynopsis())
        return usage_line.removesuffix(f" {self.synopsis}") if self.subCommand else usage_line

    def postOptions(self) -> None:
        if self.subCommand is None:
            raise usage.UsageError("expected the command serve")


def makeService(options: Options) -> IService:
    """Return the service of `twistd gamed serve`."""
    exit_cleanly_on_sigterm()
    serve = options.subOptions
    if serve.worker:
        return make_checked(options, start_report.show)
    foreground = bool(options.parent and options.parent["nodaemon"])
    make = make_parent if serve.workers else make_checked
    service = make(options, partial(start_report.show, foreground=foreground))
    with exit_on_error(), cli_serve.format_early_output(serve.log_format):
        start_report.advise(serve.opened, serve.log_format)
    return service


def make_checked(options: Options, report: start_report.Report, command: str = SERVE) -> IService:
    """Return the service after all checks; twistd forks later, so that the operator sees errors in the terminal.

    Messages to other processes name `command` as what uses the data folder.
    """
    with gc_paused():
        from twisted.internet import reactor

        from gamed.assets.errors import AssetsOpen
        from gamed.service import build_service

    use_monotonic_clock(reactor)
    serve, notifier = options.subOptions, SystemdNotifier.from_environment(os.environ)
    with exit_on_error(), cli_serve.format_early_output(serve.log_format):
        if serve.worker:
            settings, lock = prepare_worker(reactor, serve.opened, notifier, serve["admin"])
        else:
            admins = [serve["admin"]] if serve["admin"] else []
            purpose = SHARE if serve["share"] else command
            settings, lock = _prepare(reactor, serve, notifier, report, admins, purpose=purpose)
        _hold(reactor, lock)
        allow_files(settings.config.limits.connections + RESERVED_FILES)
        reactor.callWhenRunning(gc.freeze)  # modules and routes live until the process ends
        settings = replace(settings, log_format=serve.log_format, intervals=serve.intervals)
        maker = _backup_maker(settings, serve.opened.places)
        try:
            service: IService = build_service(reactor, settings, notifier, partial(_give_up, reactor), maker)
        except AssetsOpen as e:  # 78: another start would find the same
            raise SetupError(str(e)) from None
        stop_reactor_on_signals(reactor)
        return service


def make_parent(options: Options, report: start_report.Report) -> IService:
    """Return the service of --workers after all checks, which this process does for the workers."""
    from twisted.internet import reactor

    use_monotonic_clock(reactor)
    serve, notifier = options.subOptions, SystemdNotifier.from_environment(os.environ)
    with exit_on_error(), cli_serve.format_early_output(serve.log_format):
        refuse_kinds([endpoint_of(text) for text in serve.listen])
        numbers = range(1, serve.workers + 1)
        admins = [numbered(serve["admin"], number) for number in numbers] if serve["admin"] else []
        twistd = options.parent or {"nodaemon": True}
        logs = [log_arguments(twistd, number, to_stdout=cli_serve.logs_to_stdout(twistd)) for number in numbers]
        settings, lock = _prepare(reactor, serve, notifier, report, admins, purpose=SHARE)
        _hold(reactor, lock)
        arguments = ["gamed", "serve", f"--config={settings.config_path}", f"--data={settings.data}"]
        arguments += [f"--log-format={serve.log_format}"]
        commands = [
            ["--nodaemon", "--pidfile=", *log, *arguments, *(f"--admin={admin}" for admin in admins[index : index + 1])]
            for index, log in enumerate(logs)
        ]
        stop_reactor_on_signals(reactor)
        parent: IService = WorkersParent(
            reactor, WorkerPlan(commands, serve.environ), settings.listen, notifier, exit_with_code
        )
        return parent


def _give_up(reactor: Any) -> None:
    """Stop with the exit code after which systemd does not start the service again."""
    exit_with_code(CONFIGURATION)
    with suppress(ReactorNotRunning):  # it is stopping already
        reactor.stop()


def _backup_maker(settings: Settings, places: paths.Paths) -> "BackupMaker":
    """Return what makes the backups of the owner's page."""
    from gamed.owner.backups import BackupMaker  # late: with the service

    where = replace(places, data=settings.data)

    def make(folder: Path) -> str | None:
        from gamed.cli.data.backup import back_up  # late: a start needs none of it

        return back_up(settings.config, where, folder)

    def progress(folder: Path) -> "BackupProgress | None":
        from gamed.cli.data.backup import read_progress

        return read_progress(settings.config, where, folder)

    return BackupMaker(make, progress)


def _prepare(
    reactor: Any,
    serve: ServeOptions,
    notifier: SystemdNotifier,
    report: start_report.Report,
    admins: Sequence[str],
    *,
    purpose: str,
) -> tuple[Settings, Lock]:
    start = Start(
        reactor=reactor,
        opened=serve.opened,
        listen=serve.listen,
        private=bool(serve["private-listen"]),
        notifier=notifier,
        purpose=purpose,
        admins=admins,
        report=report,
        migrate=bool(serve["migrate"]),
    )
    return start.prepare()


def _hold(reactor: Any, lock: Lock) -> None:
    """Retain the lock until the process ends."""
    _locks.append(lock)
    reactor.callWhenRunning(lock.note)  # twistd may have forked
