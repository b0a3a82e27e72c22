"""TCP ports of 127.0.0.1 for processes that get the number of the port to listen on."""

import socket

_reserved: list[socket.socket] = []
"""Sockets that are bound but do not listen, until this process ends.

The kernel gives such a port to no other listener or connection; a process that knows the number, and sets SO_REUSEADDR
as servers do, can listen there."""


def free_port() -> int:
    """Return a port that nothing listens on, and that no other test gets."""
    return _reserve(0)


def free_ports(number: int) -> int:
    """Return the first of so many ports in a row, each as free_port() returns one."""
    while True:
        first = free_port()
        try:
            for port in range(first + 1, first + number):
                _reserve(port)
        except OSError:  # the next one is taken
            continue
        return first


def _reserve(port: int) -> int:
    probe = socket.socket()
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        probe.bind(("127.0.0.1", port))
    except OSError:
        probe.close()
        raise
    _reserved.append(probe)
    return int(probe.getsockname()[1])
