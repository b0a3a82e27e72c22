"""`--log-format`: what twistd logs with, and what is printed before it does."""

import sys
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TextIO, cast

from twisted.logger import LogLevel
from twisted.python.logfile import LogFile

from gamed.cli.refusal import Refusal
from gamed.clock import now_ms
from gamed.config.settings import LogFormat
from gamed.ops.log_format import Observer, Spoken

_chosen: list[tuple[Mapping[str, Any], LogFormat]] = []


def log_format(text: str) -> LogFormat:
    """Refusal for a word that is none."""
    try:
        return LogFormat(text)
    except ValueError:
        raise Refusal(f"--log-format: expected one of {', '.join(LogFormat)}.") from None


def choose(twistd: MutableMapping[str, Any] | None, style: LogFormat) -> None:
    """Tell twistd's options which observer to make. Where it writes stays theirs: stdout, or a file that rotates."""
    if twistd is None or style is LogFormat.TEXT:
        return
    if twistd.get("syslog") or twistd.get("logger"):
        raise Refusal(f"--log-format {style.value}: twistd was told another way to log; leave that one away.")
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
    with redirect_stdout(Spoken(sys.stdout, style, LogLevel.info, now_ms)):
        if style is LogFormat.JSON:
            yield
            return
        with redirect_stderr(Spoken(sys.stderr, style, LogLevel.warn, now_ms)):
            yield
