"""The client of many connections counts only complete responses."""

import socket
from threading import Thread

from twisted.trial.unittest import SynchronousTestCase

from bench.connections import Answer, ClientConnections
from bench.waiters import expect

ANSWER = b"HTTP/1.1 202 Accepted\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody"


class ClientConnectionsTests(SynchronousTestCase):
    def serve(self, *answers: bytes) -> ClientConnections:
        """Answer each connection byte by byte after all have sent a request, and close it."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        connections = ClientConnections(listener.getsockname()[1], len(answers))
        self.addCleanup(connections.close)
        connections.ask([b"?"] * len(answers))

        def answer() -> None:
            peers = [listener.accept()[0] for _ in answers]
            for peer, data in zip(peers, answers, strict=True):
                with peer:
                    peer.recv(1)
                    for n in range(len(data)):
                        peer.send(data[n : n + 1])

        thread = Thread(target=answer)
        thread.start()
        self.addCleanup(thread.join)
        return connections

    def test_whole_answers(self) -> None:
        """Responses in pieces, with or without a body, are returned once, in the order asked for."""
        connections = self.serve(ANSWER, ANSWER.replace(b"body", b"last"), b"HTTP/1.1 204 No Content\r\n\r\n")
        found = connections.answers([2, 0, 1])
        self.assertEqual([(one.status, one.body) for one in found], [(204, b""), (202, b"body"), (202, b"last")])

    def test_a_broken_answer(self) -> None:
        """A response that ends too soon is an error."""
        self.assertRaises(ConnectionError, self.serve(ANSWER, ANSWER[:-1]).answers, [0, 1])

    def test_another_status(self) -> None:
        """A response with another status is an error."""
        expect(202, [Answer(0.0, 202, b"")])
        self.assertRaises(RuntimeError, expect, 202, [Answer(0.0, 202, b""), Answer(0.0, 503, b"busy")])
