"""Connections take turns: a client that sends many requests at once does not hold up the others."""

from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from socket import create_connection, socket
from time import monotonic

from twisted.trial.unittest import SynchronousTestCase

from tests.cli.process import CommandTestCase
from tests.http.apps import EchoRoutes
from tests.support.covers import covers
from tests.support.http import Answer, Browser, Connection, parse_answers, request_bytes

CONNECTIONS, ROUNDS = 64, 70
ROUND = (
    ("/auth/config", 200),
    ("/nowhere", 404),
    ("/game/saves", 401),
    ("/auth/session/refresh", 405),
    ("/healthz", 200),
)
"""350 requests on each connection; each answer shows which request it belongs to."""
FLOOD_SECONDS, LONGEST_SECONDS = 120, 0.3

GET = request_bytes("GET", "/echo/text")


class Flood:
    """Connections that send all their requests before they read an answer."""

    def __init__(self, port: int) -> None:
        host = f"127.0.0.1:{port}"
        requests = b"".join(request_bytes("GET", path, {"Host": host}) for path, _ in ROUND) * ROUNDS
        self._open: dict[socket, bytes] = {}
        self.answers: list[list[Answer]] = []
        for _ in range(CONNECTIONS):
            connection = create_connection(("127.0.0.1", port))
            connection.sendall(requests + request_bytes("GET", "/last", {"Host": host, "Connection": "close"}))
            connection.setblocking(False)
            self._open[connection] = b""

    @property
    def over(self) -> bool:
        """Return whether every connection has its last response."""
        return not self._open

    def read(self) -> None:
        """Read the received bytes."""
        for connection in list(self._open):
            try:
                data = connection.recv(1_000_000)
            except BlockingIOError:
                continue
            self._open[connection] += data
            if not data:
                connection.close()
                self.answers.append(parse_answers(self._open.pop(connection)))


def worked_seconds(pid: int) -> float:
    """Processor time of all threads of a process: what a client waits for, however busy the machine is."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text("ascii").split()[0]) for task in tasks) / 1e9


@covers("threats/36")
class FloodTests(CommandTestCase):
    def test_another_client_is_answered_soon(self) -> None:
        """While 64 connections have 350 requests each outstanding, another client's /healthz takes below 300 ms."""
        process, port = self.serve()
        self.assertLess(self.longest_wait(process.pid, port), LONGEST_SECONDS)
        self.stop(process)

    def longest_wait(self, pid: int, port: int) -> float:
        """Seconds that the service worked before it answered another client; the flood must be answered in order."""
        with closing(HTTPConnection("127.0.0.1", port)) as other:
            flood, took, end = Flood(port), [], monotonic() + FLOOD_SECONDS
            while not flood.over and monotonic() < end:
                began = worked_seconds(pid)
                other.request("GET", "/healthz")
                self.assertEqual(other.getresponse().read(), b"ok")
                took.append(worked_seconds(pid) - began)
                flood.read()
        expected = [status for _, status in ROUND] * ROUNDS + [404]
        right = [each for each in flood.answers if [answer.status for answer in each] == expected]
        self.assertEqual((flood.over, len(right)), (True, CONNECTIONS))
        return max(took)


class TurnTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.routes = EchoRoutes()
        self.browser = Browser([self.routes])

    def begin(self, data: bytes) -> Connection:
        """A connection that has received `data`, before the reactor turns again."""
        connection = self.browser.connect()
        connection.channel.dataReceived(data)
        return connection

    def test_one_answer_each(self) -> None:
        """Answer two connections with three requests each in alternation."""
        clients = ["192.0.2.1", "192.0.2.2"]
        open_ = [self.begin(request_bytes("GET", "/echo/text", {"X-Forwarded-For": client}) * 3) for client in clients]
        open_[0].turn()
        self.assertEqual([head.address for head in self.routes.calls], clients * 3)
        self.assertEqual([len(connection.answers) for connection in open_], [3, 3])

    def test_without_a_pipeline(self) -> None:
        """A client that waits for each answer does not wait for a turn: nothing is due after the answer."""
        connection = self.browser.connect()
        for count in (1, 2, 3):
            connection.channel.dataReceived(GET)
            clock = self.browser.clock
            due = [call for call in clock.getDelayedCalls() if call.getTime() <= clock.seconds()]
            self.assertEqual((len(self.routes.calls), due), (count, []))

    def test_the_client_leaves(self) -> None:
        """After the client has left no pipelined request starts."""
        connection = self.begin(GET * 3)
        connection.leave()
        connection.turn()
        self.assertEqual(len(self.routes.calls), 1)

    def test_what_arrives_meanwhile(self) -> None:
        """Bytes behind a pipeline wait; over 16 KiB reading pauses until less is held."""
        connection = self.begin(GET * 2)
        connection.channel.dataReceived(GET)
        self.assertEqual((len(self.routes.calls), connection.transport.producerState), (1, "producing"))
        connection.channel.dataReceived(GET * 500)
        self.assertEqual((len(self.routes.calls), connection.transport.producerState), (1, "paused"))
        connection.turn()
        self.assertEqual((len(self.routes.calls), connection.transport.producerState), (503, "producing"))

    def test_the_transport_becomes_full(self) -> None:
        """The next request waits until the client has taken what was written."""
        connection = self.begin(GET * 2)
        connection.channel.flow.pauseProducing()
        connection.turn()
        self.assertEqual(len(self.routes.calls), 1)
        connection.channel.flow.resumeProducing()
        self.assertEqual(len(self.routes.calls), 2)

    def test_the_service_stops(self) -> None:
        """The request that waits for its turn is refused, and the connection ends with that answer."""
        connection = self.begin(GET * 3)
        self.browser.site.shut_down()
        first, second = connection.answers
        self.assertEqual((first.status, second.code, second.headers["connection"]), (200, "shutting_down", "close"))
        self.assertEqual((len(self.routes.calls), connection.closing), (1, True))
