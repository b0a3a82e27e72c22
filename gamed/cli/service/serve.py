"""`gamed serve` runs the service as `twistd --nodaemon` would, without its search for plugins, and chooses its log."""

import os
import sys
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TextIO, cast

from twisted.application.service import ServiceMaker
from twisted.internet.error import CannotListenError
from twisted.logger import LogLevel
from twisted.python.logfile import LogFile
from twisted.scripts._twistd_unix import ServerOptions

from gamed.cli.errors import SetupError
from gamed.cli.service.listen import cannot_listen
from gamed.clock import now_ms
from gamed.config.settings import LogFormat
from gamed.ops.logging import LogStream, Observer

MAKER = ServiceMaker("gamed", "gamed.tap", "A game server to host at home.", "gamed")
_logs: list[tuple[Mapping[str, Any], LogFormat, int | None]] = []
"""The options of twistd, the format and the number of a worker; make_observer() gets no argument."""


class GamedServerOptions(ServerOptions):
    """The options of twistd with one plugin: no other is imported, and no cache is written."""

    def __init__(self, maker: Any = MAKER) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._maker = maker

    @property
    def subCommands(self) -> Iterator[tuple[str, None, Any, str]]:
        self.loadedPlugins = {self._maker.tapname: self._maker}
        yield (self._maker.tapname, None, self._maker.options, self._maker.description)

    def postOptions(self) -> None:
        super().postOptions()  # type: ignore[no-untyped-call]
        # twistd enters its --rundir even if it is there already. Root's own folder is where `setpriv` leaves a user who
        # may not enter it; nothing in it could be opened anyway.
        if self["rundir"] == "." and not os.access(".", os.X_OK):
            self["rundir"] = "/"


def serve(arguments: Sequence[str]) -> None:
    """Run the service until it is stopped."""
    run(["--nodaemon", "--pidfile=", MAKER.tapname, "serve", *arguments])


def run(arguments: Sequence[str]) -> None:
    """Run twistd with these arguments, as far as it may run one plugin only."""
    from twisted.scripts.twistd import runApp

    options = GamedServerOptions()
    options.parseOptions(arguments)  # type: ignore[no-untyped-call]
    try:
        runApp(options)
    except CannotListenError as e:  # the port was free a moment ago
        raise cannot_listen(f"--listen {e.interface or ''}:{e.port}", e.socketError) from None


def parse_log_format(text: str) -> LogFormat:
    """Parse --log-format; raise SetupError if the value is unknown."""
    try:
        return LogFormat(text)
    except ValueError:
        raise SetupError(f"--log-format: expected one of {', '.join(LogFormat)}.") from None


def choose_observer(twistd: MutableMapping[str, Any] | None, style: LogFormat, worker: int | None = None) -> None:
    """Set the log observer in twistd's options; twistd still decides between stdout and a rotating file.

    Text in a file is twistd's own choice: its observer rotates the file at SIGUSR1, too.
    """
    if twistd is None or (style is LogFormat.TEXT and not logs_to_stdout(twistd)):
        return
    if twistd.get("syslog") or twistd.get("logger"):
        if style is LogFormat.TEXT:
            return
        raise SetupError(f"--log-format {style.value}: twistd has another option for logs. Leave one of them out.")
    twistd["logger"] = f"{__name__}.{make_observer.__name__}"
    _logs.append((twistd, style, worker))


def make_observer() -> Observer:
    """Return the log observer; twistd calls this function by its name, and logs to the stream that it would choose."""
    twistd, style, worker = _logs[-1]
    if logs_to_stdout(twistd):
        return Observer(sys.stdout, style, worker)
    path = twistd.get("logfile") or "twistd.log"
    return Observer(cast(TextIO, LogFile.fromFullPath(path)), style, worker)  # a new file at 1 MB


def logs_to_stdout(twistd: Mapping[str, Any]) -> bool:
    """Return whether twistd writes the log to stdout, and not to a file."""
    path = twistd.get("logfile")
    return path == "-" or bool(twistd.get("nodaemon") and not path)


@contextmanager
def format_early_output(style: LogFormat) -> Iterator[None]:
    """Give lines that are printed before the log begins the format of the log.

    JSON is for stdout alone; for the journal stderr is formatted, too, with its own level.
    """
    if style is LogFormat.TEXT:
        yield
        return
    with redirect_stdout(LogStream(sys.stdout, style, LogLevel.info, now_ms)):
        if style is LogFormat.JSON:
            yield
            return
        with redirect_stderr(LogStream(sys.stderr, style, LogLevel.warn, now_ms)):
            yield
