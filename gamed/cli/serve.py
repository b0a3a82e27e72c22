"""`gamed serve`: the service of `twistd --nodaemon --pidfile= gamed serve`, without the search for plugins.

Sockets that systemd opened and passed on, sd_listen_fds(3): all are listened on, or the start is refused.

From a configuration to Settings: every reason to refuse a start, before either store is touched.

`--log-format`: what twistd logs with, and what is printed before it does.
"""

import os
import socket
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from itertools import count
from pathlib import Path
from secrets import token_bytes
from typing import Any, TextIO, cast

from msgspec.structs import replace
from twisted.application.service import ServiceMaker
from twisted.internet.error import CannotListenError
from twisted.logger import LogLevel
from twisted.plugins.twisted_core import systemdEndpointParser
from twisted.python.logfile import LogFile
from twisted.scripts._twistd_unix import ServerOptions

from gamed import __version__
from gamed.cli import keys, paths, restore_journal
from gamed.cli import listen as cli_listen
from gamed.cli.context import OpenedConfiguration
from gamed.cli.errors import SetupError, echo, exit_on_error
from gamed.cli.listen import Listener, cannot_listen, duplicate
from gamed.cli.output import counted
from gamed.cli.paths import Paths
from gamed.cli.process import Lock, note_listeners, refuse_foreign_folder
from gamed.clock import now_ms
from gamed.config.settings import DEFAULT_LISTEN, LogFormat, Settings
from gamed.crypto import Keys
from gamed.database.migrations import check_schema, prepare_file, prepare_state
from gamed.ops.logging import LogStream, Observer
from gamed.ops.systemd import StartTimeoutExtender, SystemdNotifier

MAKER = ServiceMaker("gamed", "gamed.tap", "A game server to host at home.", "gamed")


class GamedServerOptions(ServerOptions):
    """twistd's options with one plugin known: no other need be importable, and no cache be writable."""

    @property
    def subCommands(self) -> Iterator[tuple[str, None, Any, str]]:
        self.loadedPlugins = {MAKER.tapname: MAKER}
        yield (MAKER.tapname, None, MAKER.options, MAKER.description)


def serve(arguments: Sequence[str]) -> None:
    """Run until stopped; does not return before."""
    from twisted.scripts.twistd import runApp

    options = GamedServerOptions()  # type: ignore[no-untyped-call]
    options.parseOptions(["--nodaemon", "--pidfile=", MAKER.tapname, "serve", *arguments])  # type: ignore[no-untyped-call]
    with exit_on_error():
        try:
            runApp(options)
        except CannotListenError as e:  # the port was free a moment ago
            raise cannot_listen(f"{e.interface or ''}:{e.port}", e.socketError) from None


def inherited_sockets(reactor: Any) -> list[str]:
    """An endpoint string for each, in their order."""
    descriptors = _descriptors(reactor)
    return [f"systemd:domain={_domain(number)}:index={index}" for index, number in enumerate(descriptors)]


def require_all_used(reactor: Any, listeners: Sequence[Listener]) -> None:
    """Refusal of a socket that nobody would listen on: whoever connects to it would wait for ever."""
    heard = Counter(listener.descriptor for listener in listeners if listener.descriptor is not None)
    for text, number in zip(inherited_sockets(reactor), _descriptors(reactor), strict=True):
        if heard[number] > 1:
            raise SetupError(f"{text}: more than one --listen names this socket.")
        if not heard[number]:
            raise SetupError(
                f"systemd passes a socket that no --listen names, so nobody would answer there: add --listen {text}, "
                "or leave --listen away to listen on every socket that is passed."
            )


def _descriptors(reactor: Any) -> list[int]:
    """Twisted read the variables when it was imported, and knows how many there are. Its parser is asked by name:
    to find it by the word `systemd`, every plugin of every package would be looked at."""
    found: list[int] = []
    with suppress(LookupError):
        for index in count():
            found.append(systemdEndpointParser.parseStreamServer(reactor, domain="INET", index=str(index)).fileno)
    return found


def _domain(number: int) -> str:
    try:
        with duplicate(number) as copy:
            return socket.AddressFamily(copy.family).name.removeprefix("AF_")
    except (OSError, ValueError):
        return "INET"  # what it is instead will be said where it is looked at


PRIVATE_LISTEN = "GAMED_PRIVATE_LISTEN"


def prepare(
    reactor: Any,
    opened: OpenedConfiguration,
    listen: Sequence[str],
    *,
    private: bool,
    manager: SystemdNotifier,
    admin: str | None = None,
) -> tuple[Settings, Lock]:
    """Checked, locked, migrated, keyed; before any fork. The caller keeps the lock."""
    config, places = opened.judged.config, opened.places
    private = private or os.environ.get(PRIVATE_LISTEN) == "1"
    texts = tuple(listen or inherited_sockets(reactor) or (DEFAULT_LISTEN,))
    listening = [cli_listen.parse_listener(reactor, text) for text in texts]
    require_all_used(reactor, listening)
    cli_listen.refuse_repeated(listening)
    cli_listen.judge(listening, config, private=private)
    opening = [*listening, *_admins(reactor, admin, listening)]
    refuse_foreign_folder(places.data)
    if opened.first_run:
        cli_listen.probe(opening)
    paths.open_data(places.data)
    lock = Lock.take(places.data)
    if (cut_off := restore_journal.recover(places.data)) is not None:
        echo(f"a restore that was cut off is finished: the stores are those of {cut_off.origin}")
    cli_listen.probe(opening)
    for name in (paths.AUTH_DB, paths.STATE_DB):
        with keys.refusing(places.data / name):
            check_schema(places.data / name)
    with paths.removed_on_failure(_made_by_a_start(places)):  # locked, so that no other start makes them now
        if opened.first_run:
            paths.write_first_config(places.config)
        choice = keys.choose(places.data, config.master_key, token_bytes, config.master_key_origin)
        _prepare_files(places, manager)
        kept = keys.settle(places.data, choice, token_bytes, now_ms)
    note_listeners(places.data, [listener.reached for listener in listening])
    settings = Settings(config, places.config, places.data, texts, private, choice.key, choice.source, opened.game)
    _report(settings, opened, kept)
    return replace(settings, admin=admin), lock


def _admins(reactor: Any, admin: str | None, others: Sequence[cli_listen.Listener]) -> list[cli_listen.Listener]:
    """The one there is, judged; none without the option."""
    if admin is None:
        return []
    listener = cli_listen.parse_listener(reactor, admin, "--admin")
    cli_listen.check_admin(listener, others)
    return [listener]


def _made_by_a_start(places: Paths) -> list[Path]:
    """Return the files that a first start makes, in the order in which a failed one may remove them.

    What SQLite keeps beside a store belongs to that store, and so does the key to auth.db: they stay with one that
    was there before.
    """
    made = []
    for name, beside in ((paths.STATE_DB, []), (paths.AUTH_DB, [places.data / keys.FILE_NAME])):
        if not (places.data / name).exists():
            made += [*(places.data / f"{name}{suffix}" for suffix in restore_journal.SQLITE_SUFFIXES[::-1]), *beside]
    return [*made, places.config]


def _prepare_files(places: Paths, manager: SystemdNotifier) -> None:
    """However long it takes, the manager waits while SQLite gets on."""

    def progress(text: str) -> None:
        echo(text)
        manager.status(text)

    patience = StartTimeoutExtender(manager)
    with keys.refusing(places.data / paths.AUTH_DB):
        prepare_file(places.data / paths.AUTH_DB, progress, patience.ask)
    with keys.refusing(places.data / paths.STATE_DB):
        prepare_state(places.data, progress, patience.ask)


def _report(settings: Settings, opened: OpenedConfiguration, kept: int | None) -> None:
    fingerprint = Keys.of(settings.master_key, token_bytes).fingerprint
    echo(f"gamed {__version__}, {settings.config.mode.value} mode")
    echo(f"configuration {settings.config_path}{' (made just now)' if opened.first_run else ''}")
    if opened.places.game.exists():
        echo(f"limits {opened.places.game}")
    echo(f"data {settings.data}")
    echo(f"key from the {'key file' if settings.key_source == 'file' else 'master key'}, fingerprint {fingerprint}")
    if kept is not None:
        accounts = counted(kept, "local account")
        echo(f"auth.db is written with the master key now: {accounts} kept, everybody signs in again")


_chosen: list[tuple[Mapping[str, Any], LogFormat]] = []


def log_format(text: str) -> LogFormat:
    """Refusal for a word that is none."""
    try:
        return LogFormat(text)
    except ValueError:
        raise SetupError(f"--log-format: expected one of {', '.join(LogFormat)}.") from None


def choose(twistd: MutableMapping[str, Any] | None, style: LogFormat) -> None:
    """Tell twistd's options which observer to make. Where it writes stays theirs: stdout, or a file that rotates."""
    if twistd is None or style is LogFormat.TEXT:
        return
    if twistd.get("syslog") or twistd.get("logger"):
        raise SetupError(f"--log-format {style.value}: twistd was told another way to log; leave that one away.")
    twistd["logger"] = f"{__name__}.{chosen.__name__}"
    _chosen.append((twistd, style))


def chosen() -> Observer:
    """twistd takes no observer, but the name of what makes one."""
    twistd, style = _chosen[-1]
    return Observer(_stream(twistd.get("logfile") or "", bool(twistd.get("nodaemon"))), style)


def _stream(path: str, nodaemon: bool) -> TextIO:
    """As twistd chooses it. The file begins anew at 1 MB, by itself."""
    if path == "-" or (nodaemon and not path):
        return sys.stdout
    return cast(TextIO, LogFile.fromFullPath(path or "twistd.log"))


@contextmanager
def early(style: LogFormat) -> Iterator[None]:
    """What is printed until the log begins looks like the log: JSON on stdout; in the journal stderr has its level."""
    if style is LogFormat.TEXT:
        yield
        return
    with redirect_stdout(LogStream(sys.stdout, style, LogLevel.info, now_ms)):
        if style is LogFormat.JSON:
            yield
            return
        with redirect_stderr(LogStream(sys.stderr, style, LogLevel.warn, now_ms)):
            yield
