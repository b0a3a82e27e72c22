"""TCP ports of 127.0.0.1 for processes that are told which one to listen on."""

import socket

_reserved: list[socket.socket] = []
"""As long as this process lives: bound, but deaf. Nobody is given such a port by chance, as a listener or as the near
end of a connection; whoever is told the number, and sets SO_REUSEADDR as servers do, listens there."""


def free_port() -> int:
    """A port that nothing listens on, and that no other test gets."""
    probe = socket.socket()
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    probe.bind(("127.0.0.1", 0))
    _reserved.append(probe)
    return int(probe.getsockname()[1])
