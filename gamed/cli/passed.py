"""Sockets that systemd opened and passed on, sd_listen_fds(3): all are listened on, or the start is refused."""

import socket
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from typing import Any

from twisted.plugins.twisted_core import systemdEndpointParser

from gamed.cli.listeners import Listener, duplicate
from gamed.cli.refusal import Refusal


def passed(reactor: Any) -> list[str]:
    """An endpoint string for each, in their order."""
    descriptors = _descriptors(reactor)
    return [f"systemd:domain={_domain(number)}:index={index}" for index, number in enumerate(descriptors)]


def refuse_deaf(reactor: Any, listeners: Sequence[Listener]) -> None:
    """Refusal of a socket that nobody would listen on: whoever connects to it would wait for ever."""
    heard = Counter(listener.descriptor for listener in listeners if listener.descriptor is not None)
    for text, number in zip(passed(reactor), _descriptors(reactor), strict=True):
        if heard[number] > 1:
            raise Refusal(f"{text}: more than one --listen names this socket.")
        if not heard[number]:
            raise Refusal(
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
