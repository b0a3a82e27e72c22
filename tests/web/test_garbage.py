"""Nothing of an answered request is left for the garbage collector: its pauses are what players feel."""

import gc

from twisted.trial.unittest import SynchronousTestCase

from tests.support.http import Browser, request_bytes
from tests.web.rooms import EchoRoom

JSON = {"Content-Type": "application/json"}


class GarbageTests(SynchronousTestCase):
    def left_by(self, data: bytes) -> int:
        """Objects that only the collector frees, of ten exchanges."""
        room = EchoRoom()
        browser = Browser([room])
        connection = browser.connect().send(data)
        gc.collect()
        gc.disable()
        try:
            for _ in range(10):
                connection.send(data)
            room.calls.clear()
            browser.log.lines.clear()
            return gc.collect()
        finally:
            gc.enable()

    def test_no_cycles(self) -> None:
        """Answers, refusals of every kind, bodies."""
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
