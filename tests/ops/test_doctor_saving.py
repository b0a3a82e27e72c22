"""`gamed doctor` explains answers about saves that proxies changed (docs/protocol.md: Saves, Conditions and ranges)."""

from twisted.trial.unittest import SynchronousTestCase

from gamed.ops import doctor_public
from gamed.ops.findings import FailureCause, HttpFailure, HttpReply, Level

OK, PROBLEM = Level.OK, Level.PROBLEM
TAG = '"1-9f86d081884c7d65"'
CUT = HttpFailure(FailureCause.TIMEOUT, "timed out")


class SavingTests(SynchronousTestCase):
    def test_write(self) -> None:
        """Large bodies are taken, or the proxy's limit is named as the reason."""
        for answer, level in ((HttpReply(201), OK), (HttpReply(413), PROBLEM), (CUT, PROBLEM)):
            self.assertEqual(doctor_public.check_write(answer, 2**21).level, level)

    def test_read(self) -> None:
        """Every byte and the strong tag arrive as they were."""
        for headers, body, level in (
            ({"etag": TAG}, b"save", OK),
            ({"etag": f"W/{TAG}"}, b"save", PROBLEM),
            ({}, b"save", PROBLEM),
            ({"etag": TAG}, b"sav", PROBLEM),
            ({"etag": TAG, "content-encoding": "gzip"}, b"save", PROBLEM),
        ):
            self.assertEqual(
                doctor_public.check_read(HttpReply(200, headers, body), b"save", TAG).level, level, headers
            )
        self.assertEqual(doctor_public.check_read(CUT, b"save", TAG).level, PROBLEM)

    def test_conditions(self) -> None:
        """A condition that gets lost shows in the status."""
        for check, right, wrong in (
            (doctor_public.check_unchanged, 304, 200),
            (doctor_public.check_conflict, 412, 428),
        ):
            self.assertEqual(
                [check(answer).level for answer in (HttpReply(right), HttpReply(wrong), CUT)], [OK] + [PROBLEM] * 2
            )

    def test_ranges(self) -> None:
        """Some bytes out of the middle, and just these."""
        for answer, level in (
            (HttpReply(206, {}, b"av"), OK),
            (HttpReply(206, {}, b"sa"), PROBLEM),
            (HttpReply(200, {}, b"save"), PROBLEM),
            (CUT, PROBLEM),
        ):
            self.assertEqual(doctor_public.check_range(answer, b"av").level, level, answer)

    def test_wait(self) -> None:
        """A response may come late; one that came at once, or never, is another result."""
        for answer, level, words in (
            (HttpReply(200, seconds=25.1), OK, "25 s"),
            (HttpReply(304, seconds=24.2), OK, "25 s"),
            (HttpReply(200, seconds=0.1), PROBLEM, "after 0"),
            (HttpReply(504, seconds=20.0), PROBLEM, "504"),
            (CUT, PROBLEM, "timed out"),
        ):
            finding = doctor_public.check_wait(answer, 25)
            self.assertEqual((finding.level, words in finding.text), (level, True), answer)
