"""A relay between a client and a server that can fall silent, as a network does that loses everything."""

import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread

_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER of a socket whose close() sends RST."""


class Relay:
    """A TCP server on 127.0.0.1 that passes the bytes of each connection to another port there, and back."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._flowing = Event()
        self._flowing.set()
        self.change: Callable[[bytes], bytes] = bytes
        """A function of what the server sends, which returns as many bytes for the client."""
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._start(self._accept)

    def silence(self) -> None:
        """Pass nothing more, in either direction; connections are accepted and stay open."""
        self._flowing.clear()

    def resume(self) -> None:
        """Pass what has arrived meanwhile, and everything from now on."""
        self._flowing.set()

    def cut(self) -> None:
        """Reset all connections."""
        sockets, self._sockets = self._sockets, []
        for each in sockets:
            with suppress(OSError):
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def close(self) -> None:
        """Reset all connections and accept no more."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        self.resume()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._start(self._connect, client)

    def _connect(self, client: socket.socket) -> None:
        self._flowing.wait()
        try:
            server = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            client.close()
            return
        for each in (client, server):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sockets += [client, server]
        self._start(self._pass, client, server)
        self._pass(server, client, answers=True)

    def _pass(self, source: socket.socket, target: socket.socket, *, answers: bool = False) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self._flowing.wait()
                target.sendall(self.change(data) if answers else data)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    @staticmethod
    def _start(work: object, *arguments: object) -> None:
        Thread(target=work, args=arguments, daemon=True).start()  # type: ignore[arg-type]
