"""The client of very many connections counts whole answers only."""

import socket
from threading import Thread

from twisted.trial.unittest import SynchronousTestCase

from bench.crowd import Answer, Crowd
from bench.waiters import expect

ANSWER = b"HTTP/1.1 202 Accepted\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody"


class CrowdTests(SynchronousTestCase):
    def serve(self, *answers: bytes) -> Crowd:
        """Each connection gets its answer byte by byte, once all have asked; then it is closed."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        crowd = Crowd(listener.getsockname()[1], len(answers))
        self.addCleanup(crowd.close)
        crowd.ask([b"?"] * len(answers))

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
        return crowd

    def test_whole_answers(self) -> None:
        """In pieces, with a body or without, followed by a close: each is told once, in the order asked for."""
        crowd = self.serve(ANSWER, ANSWER.replace(b"body", b"last"), b"HTTP/1.1 204 No Content\r\n\r\n")
        found = crowd.answers([2, 0, 1])
        self.assertEqual([(one.status, one.body) for one in found], [(204, b""), (202, b"body"), (202, b"last")])

    def test_a_broken_answer(self) -> None:
        """One that ends too soon is no answer."""
        self.assertRaises(ConnectionError, self.serve(ANSWER, ANSWER[:-1]).answers, [0, 1])

    def test_another_status(self) -> None:
        """A refusal is not taken for the answer that is measured."""
        expect(202, [Answer(0.0, 202, b"")])
        self.assertRaises(RuntimeError, expect, 202, [Answer(0.0, 202, b""), Answer(0.0, 503, b"busy")])
