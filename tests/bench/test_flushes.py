"""A trace of system calls proves, or does not prove, that a response was sent after the flush of its write."""

from collections.abc import Sequence

from twisted.trial.unittest import SynchronousTestCase

from bench.flushes import LOG, Findings, Sent, check_flushes

WAL = f"/data/{LOG}"


def put(number: int) -> Sent:
    marks = (b"bytes-%032x" % number, b"meta-%032x" % number)
    return Sent(marks, b"%064x" % (0xABC000 + number))


def shown(data: bytes) -> str:
    """Return data in a form like that of strace, in which bytes other than letters are octal."""
    return "".join(chr(byte) if chr(byte).isalnum() or byte in b"-_ /.:" else f"\\{byte:03o}" for byte in data)


def wrote(data: bytes, file: str = WAL) -> str:
    return f'pwrite64(25<{file}>, "{shown(data)}", {len(data)}, 4152) = {len(data)}'


def frame(*marks: bytes, commit: bool = False) -> tuple[str, str]:
    """Return the two writes of a page with these marks."""
    head = b"\0\0\0\7" + (b"\0\0\0\x19" if commit else bytes(4)) + b"\x12\x34" * 8
    return wrote(head), wrote(b"\r\0\x01" + b"\0 ".join(marks) + bytes(9))


def answered(sent: Sent, status: int = 200) -> str:
    data = b"HTTP/1.1 %d OK\r\n\r\n" % status + b'{"sha256":"' + sent.digest + b'"}'
    return f'sendto(30<socket:[77]>, "{shown(data)}", {len(data)}, 0, NULL, 0) = {len(data)}'


ONE, TWO = put(1), put(2)
WRITTEN = (*frame(ONE.marks[0]), *frame(ONE.marks[1], commit=True))
FLUSH, ANSWER = f"fdatasync(25<{WAL}>) = 0", answered(ONE)


def findings(*calls: str, sent: Sequence[Sent] = (ONE,)) -> Findings:
    """Return the findings of a trace; calls are of one thread unless they begin with a thread's number."""
    lines = [call if call[0].isdigit() else f"8 {call}" for call in calls]
    numbered = ((line.partition(" "), number) for number, line in enumerate(lines))
    return check_flushes([f"{thread} 17.{number:06d} {call}\n" for (thread, _, call), number in numbered], sent)


class FlushTests(SynchronousTestCase):
    def assert_proved(self, *calls: str, sent: Sequence[Sent] = (ONE,)) -> None:
        found = findings(*calls, sent=sent)
        self.assertEqual((found.missing, found.answers), ([], len(sent)))

    def assert_missing(self, *calls: str, sent: Sequence[Sent] = (ONE,)) -> None:
        self.assertEqual(len(findings(*calls, sent=sent).missing), 1, calls)

    def test_flushed_then_answered(self) -> None:
        """Both marks, the commit, the flush and the response, in this order, are a proof."""
        self.assert_proved(*WRITTEN, FLUSH, ANSWER)
        self.assertEqual(findings(*WRITTEN, FLUSH, ANSWER, FLUSH).flushes, 2)

    def test_answered_in_two_pieces(self) -> None:
        """Head and body may be separate buffers of one call."""
        head, body = b"HTTP/1.1 200 OK\r\n\r\n", b'{"sha256":"' + ONE.digest + b'"}'
        pieces = ", ".join(f'{{iov_base="{shown(data)}", iov_len={len(data)}}}' for data in (head, body))
        answer = f"sendmsg(30<socket:[77]>, {{msg_iov=[{pieces}], msg_iovlen=2}}, 0) = {len(head) + len(body)}"
        self.assert_proved(*WRITTEN, FLUSH, answer)
        self.assert_missing(*WRITTEN, answer, FLUSH)

    def test_one_flush_for_many(self) -> None:
        """One flush covers all marks that were written before it (group commit)."""
        pages = (*frame(*ONE.marks), *frame(*TWO.marks, commit=True))
        self.assert_proved(*pages, FLUSH, answered(TWO), ANSWER, sent=(ONE, TWO))

    def test_answered_before_the_flush(self) -> None:
        """Without a flush, or with one after the response, there is no proof."""
        self.assert_missing(*WRITTEN, ANSWER)
        self.assert_missing(*WRITTEN, ANSWER, FLUSH)

    def test_answered_during_the_flush(self) -> None:
        """A flush counts from the line in which it has ended."""
        begun, ended = f"9 fdatasync(25<{WAL}> <unfinished ...>", "9 <... fdatasync resumed>) = 0"
        self.assert_missing(*WRITTEN, begun, ANSWER, ended)
        self.assert_proved(*WRITTEN, begun, "8 --- SIGCHLD {si_signo=SIGCHLD} ---", ended, ANSWER)

    def test_flush_of_what_was_there_before(self) -> None:
        """A flush that begins before the transaction's last frame is written does not cover it."""
        self.assert_missing(FLUSH, *WRITTEN, ANSWER)
        self.assert_missing(*WRITTEN[:2], FLUSH, *WRITTEN[2:], ANSWER)
        begun, ended = f"9 fdatasync(25<{WAL}> <unfinished ...>", "9 <... fdatasync resumed>) = 0"
        self.assert_missing(*WRITTEN[:3], begun, WRITTEN[3], ended, ANSWER)

    def test_flush_that_failed(self) -> None:
        """A flush with an error is not a flush."""
        self.assert_missing(*WRITTEN, f"fdatasync(25<{WAL}>) = -1 EIO (Input/output error)", ANSWER)

    def test_flush_of_another_file(self) -> None:
        """A flush of auth.db's log, or of state.db itself, does not count."""
        for name in ("auth.db-wal", "state.db"):
            self.assert_missing(*WRITTEN, f"fdatasync(25</data/{name}>) = 0", ANSWER)

    def test_no_commit(self) -> None:
        """SQLite discards frames without a committing one after a crash."""
        self.assert_missing(*frame(*ONE.marks), FLUSH, ANSWER)

    def test_half_of_it(self) -> None:
        """The bytes without the version's row, or the row without the bytes, are not enough."""
        for mark in ONE.marks:
            self.assert_missing(*frame(mark, commit=True), FLUSH, ANSWER)

    def test_written_elsewhere(self) -> None:
        """Marks in another file than the log do not count."""
        pages = [line.replace(WAL, "/data/spool") for line in WRITTEN]
        self.assert_missing(*pages, FLUSH, ANSWER)

    def test_never_answered(self) -> None:
        """A trace without a 2xx response proves nothing."""
        self.assert_missing(*WRITTEN, FLUSH)
        self.assert_missing(*WRITTEN, FLUSH, answered(ONE, 503))

    def test_one_of_two(self) -> None:
        """Each PUT needs its flush: that of the first one does not cover the second."""
        second = frame(*TWO.marks, commit=True)
        self.assert_missing(*WRITTEN, FLUSH, *second, answered(TWO), ANSWER, sent=(ONE, TWO))
