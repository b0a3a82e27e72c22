"""The plugin `twistd gamed serve` parses its options here and builds the service.

Importing this module installs no reactor, because twistd chooses it later.
"""

import gc
import os
from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace
from twisted.application.service import IService
from twisted.python import usage

from gamed import __version__
from gamed.cli import context, paths, start_report
from gamed.cli import serve as cli_serve
from gamed.cli.errors import CONFIGURATION, exit_on_error, exit_with
from gamed.cli.folder_lock import Lock
from gamed.cli.process import allow_files, exit_cleanly_on_sigterm, harden, stop_reactor_on_sigterm
from gamed.clock import use_monotonic_clock
from gamed.config.settings import RESERVED_FILES, LogFormat
from gamed.gc_pause import gc_paused
from gamed.ops.systemd import SystemdNotifier

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
        ["admin", None, None, "The endpoint of /metrics and /readyz, for this machine only [none]."],
        ["log-format", None, "text", "The format of the log: text, json or journal (for systemd)."],
    ]
    optFlags = [  # noqa: RUF012
        ["private-listen", None, "Declare that non-loopback ports are reachable from this machine only."],
        ["share", None, "Share the data folder with other servers that are started with --share."],
    ]
    opened: context.OpenedConfiguration

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.listen: list[str] = []

    def opt_listen(self, endpoint: str) -> None:
        """Listen at this endpoint; may be given several times [tcp:8080:interface=127.0.0.1]."""
        self.listen.append(endpoint)

    opt_l = opt_listen

    @property
    def log_format(self) -> LogFormat:
        """Return the format of every line that this process logs, except for errors that prevent the start."""
        return cli_serve.parse_log_format(self["log-format"])

    def postOptions(self) -> None:
        harden()
        with exit_on_error(), cli_serve.format_early_output(self.log_format):
            cli_serve.choose_observer(getattr(self.parent, "parent", None), self.log_format)
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
    foreground = bool(options.parent and options.parent["nodaemon"])
    service = make_checked(options, partial(start_report.show, foreground=foreground))
    with exit_on_error(), cli_serve.format_early_output(serve.log_format):
        start_report.advise(serve.opened, serve.log_format)
    return service


def make_checked(options: Options, report: start_report.Report) -> IService:
    """Return the service after all checks; twistd forks later, so that the operator sees errors in the terminal."""
    with gc_paused():
        from twisted.internet import reactor

        from gamed.service import build_service

    use_monotonic_clock(reactor)
    serve, notifier = options.subOptions, SystemdNotifier.from_environment(os.environ)
    with exit_on_error(), cli_serve.format_early_output(serve.log_format):
        private = bool(serve["private-listen"])
        settings, lock = cli_serve.prepare(
            reactor,
            serve.opened,
            serve.listen,
            private=private,
            notifier=notifier,
            share=bool(serve["share"]),
            admin=serve["admin"],
            report=report,
        )
        _locks.append(lock)
        reactor.callWhenRunning(lock.note)  # twistd may have forked
        allow_files(settings.config.limits.connections + RESERVED_FILES)
        reactor.callWhenRunning(gc.freeze)  # modules and routes live until the process ends
        service: IService = build_service(reactor, replace(settings, log_format=serve.log_format), notifier)
        stop_reactor_on_sigterm(reactor)
        return service
