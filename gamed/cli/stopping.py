"""SIGTERM ends the server with exit code 0 at every moment of its life, however often it is sent.

A signal that is not handled kills the process, which a container's engine counts as a failure; as process 1 of a
container, such a signal is even lost. Python takes its handlers away when it finalizes, but leaves an ignored signal
ignored: so the first signal makes all later ones ignored.
"""

import os
import signal
from contextlib import suppress
from typing import Any, NoReturn

SIGNALS = (signal.SIGTERM, signal.SIGINT)


def end_at_once() -> None:
    """While the server starts, let SIGTERM end the process with 0 without any cleanup.

    That is safe as `kill -9` is safe. An exception would not be: SQLite, which calls back into Python while it
    migrates a store, would turn it into a database error.
    """

    def end(number: int, frame: object) -> NoReturn:
        os._exit(0)

    signal.signal(signal.SIGTERM, end)


def stop_reactor(reactor: Any) -> None:
    """From now on let SIGTERM stop the reactor, or stop it as soon as it runs; the process then ends with 0.

    Twisted installs `reactor.sigTerm` and `reactor.sigInt` when the reactor starts. Its own would end the process with
    the signal, and log a traceback for each signal after the first.
    """
    interrupted = reactor.sigInt

    def terminate(number: int, frame: object) -> None:
        _ignore_all()
        reactor.callFromThread(_stop, reactor)

    def interrupt(number: int, frame: object) -> None:
        _ignore_all()
        interrupted(number, frame)

    reactor.sigTerm, reactor.sigInt = terminate, interrupt
    signal.signal(signal.SIGTERM, terminate)


def _ignore_all() -> None:
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _stop(reactor: Any) -> None:
    from twisted.internet.error import ReactorNotRunning  # late: the command line needs no Twisted for end_at_once()

    with suppress(ReactorNotRunning):  # SIGINT stopped it in the same moment
        reactor.stop()
