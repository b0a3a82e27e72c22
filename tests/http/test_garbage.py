"""An answered request leaves no cycle for the garbage collector, whose pauses delay all requests."""

import gc
from weakref import ref

from twisted.trial.unittest import SynchronousTestCase

from gamed.http.request import Request
from tests.http.apps import EchoRoutes
from tests.support.http import Browser, request_bytes

JSON = {"Content-Type": "application/json"}


def requests() -> list[Request]:
    """Return all requests that are in memory."""
    return [each for each in gc.get_objects() if isinstance(each, Request)]


class GarbageTests(SynchronousTestCase):
    def left_by(self, data: bytes) -> int:
        """Return the objects of ten exchanges that only the collector frees."""
        routes = EchoRoutes()
        browser = Browser([routes])
        connection = browser.connect().send(data)
        gc.collect()
        gc.disable()
        try:
            for _ in range(10):
                connection.send(data)
            routes.calls.clear()
            browser.log.lines.clear()
            return gc.collect()
        finally:
            gc.enable()

    def test_no_cycles(self) -> None:
        """Responses, refusals and bodies leave no cycles."""
        for method, path, headers, body in (
            ("GET", "/echo/text", {}, b""),
            ("POST", "/echo/json", JSON, b'{"number":5}'),
            ("POST", "/echo/json", JSON, b"{"),
            ("POST", "/echo/json", JSON, b"a" * 9000),
            ("GET", "/nope", {}, b""),
            ("GET", "/echo/typed", {}, b""),
            ("PUT", "/echo/any", {"Transfer-Encoding": "chunked"} | JSON, b"3\r\nabc\r\n0\r\n\r\n"),
        ):
            with self.subTest(method + path):
                self.assertLess(self.left_by(request_bytes(method, path, headers, body)), 10)

    def test_requests(self) -> None:
        """An answered request is freed with its last reference."""
        connection = Browser([EchoRoutes()]).connect()
        paths = ("/echo/text", "/echo/name/anna", "/echo/query?a=1", "/echo/typed")
        for path in paths:
            connection.send(request_bytes("GET", path))
        gc.collect()
        gc.disable()
        self.addCleanup(gc.enable)
        others = requests()  # of tests before this one, which trial keeps
        for path in paths:
            connection.send(request_bytes("GET", path))
        left = [each for each in requests() if not any(each is other for other in others)]
        self.assertEqual(left, [])

    def test_a_connection_that_has_ended(self) -> None:
        """A closed connection is freed with its last reference."""
        browser = Browser([EchoRoutes()])
        connection = browser.connect().send(request_bytes("GET", "/echo/text"))
        connection.transport.unregisterProducer()  # as Twisted's own do when they are lost
        connection.leave()
        gc.disable()
        self.addCleanup(gc.enable)
        channel = ref(connection.channel)
        del connection
        self.assertIsNone(channel())

    def test_clients_that_leave(self) -> None:
        """Cancelled handlers of clients that leave are freed."""
        routes = EchoRoutes()
        browser = Browser([routes])

        def leave() -> None:
            connection = browser.connect().send(request_bytes("GET", "/echo/later"))
            connection.transport.unregisterProducer()
            connection.leave()
            for recorded in (routes.waiting, routes.calls, browser.log.lines):
                recorded.clear()

        leave()
        gc.collect()
        gc.disable()
        self.addCleanup(gc.enable)
        for _ in range(10):
            leave()
        self.assertEqual(gc.collect(), 0)

    def test_an_idle_connection_is_small(self) -> None:
        """A connection has at most 29 attributes: beyond that CPython needs 1,300 bytes more for each one."""
        connection = Browser([EchoRoutes()]).connect()
        for data in (
            request_bytes("GET", "/echo/text"),
            request_bytes("POST", "/echo/json", JSON, b'{"number":5}'),
            request_bytes("PUT", "/echo/any", {"Transfer-Encoding": "chunked"} | JSON, b"3\r\nabc\r\n0\r\n\r\n"),
            request_bytes("GET", "/nope", {"Cookie": "a=b"}),
        ):
            connection.send(data[:-1])
            connection.send(data[-1:])
        connection.channel.flow.pauseProducing()
        connection.channel.flow.resumeProducing()
        self.assertEqual(len(connection.answers), 4)
        self.assertLess(len(vars(connection.channel)), 30)
        connection.leave()
