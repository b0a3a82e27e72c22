"""The access log: own lines, written in batches."""

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from gamed.http.access_log import FLUSH_LINES, AccessLog, EndedRequest
from tests.support.covers import covers


class AccessLogTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.written: list[str] = []
        self.clock = Clock()
        self.log = AccessLog(self.written.append, self.clock, lambda: 1_800_000_000_004)  # type: ignore[arg-type]

    def line(self, method: str = "GET") -> None:
        self.log.log(
            EndedRequest(
                request_id="5f0c", method=method, template="/game/saves/{slot}", status=200, size=40213, seconds=0.00184
            )
        )

    @covers("threats/48")
    def test_a_line(self) -> None:
        """Time, then an event with request id, method, template, status, bytes, milliseconds and the problem's code."""
        self.line()
        self.log.flush()
        words = "request=5f0c method=GET route=/game/saves/{slot} status=200 bytes=40213 milliseconds=1.8 code=-"
        self.assertEqual(self.written, [f"2027-01-15T08:00:00.004Z http_request {words}\n"])

    def test_lines_wait_a_second(self) -> None:
        """One write for all of them; no timer runs when nothing waits."""
        self.line()
        self.clock.advance(0.5)
        self.line()
        self.assertEqual(self.written, [])
        self.clock.advance(0.5)
        self.assertEqual([text.count("\n") for text in self.written], [2])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_many_lines_do_not_wait(self) -> None:
        """So the buffer stays small."""
        for _ in range(FLUSH_LINES):
            self.line()
        self.assertEqual([text.count("\n") for text in self.written], [FLUSH_LINES])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_an_invented_method_is_not_repeated(self) -> None:
        """It is the client's own text."""
        self.line("S3CRET")
        self.log.flush()
        self.assertNotIn("S3CRET", self.written[0])

    def test_a_full_disk(self) -> None:
        """Costs lines, not answers."""

        def fail(text: str) -> None:
            raise OSError(28, "No space left on device")

        log = AccessLog(fail, self.clock, lambda: 0)  # type: ignore[arg-type]
        log.log(EndedRequest(request_id="1", method="GET", template="-", status=404, size=0, seconds=0))
        self.clock.advance(1)
        self.assertEqual(self.clock.getDelayedCalls(), [])
