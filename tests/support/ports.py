"""TCP ports of 127.0.0.1 for processes that get the number of the port to listen on."""

import socket

_reserved: list[socket.socket] = []
"""Sockets that are bound but do not listen, until this process ends.

The kernel gives such a port to no other listener or connection; a process that knows the number, and sets SO_REUSEADDR
as servers do, can listen there."""


def free_port() -> int:
    """Return a port that nothing listens on, and that no other test gets."""
    probe = socket.socket()
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    probe.bind(("127.0.0.1", 0))
    _reserved.append(probe)
    return int(probe.getsockname()[1])
