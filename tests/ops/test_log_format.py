"""The formats of the log that are not Twisted's own."""

from io import StringIO
from json import loads
from typing import Any

from twisted.internet.task import Clock
from twisted.logger import Logger, LogLevel, globalLogPublisher
from twisted.python import log as log_legacy
from twisted.python.failure import Failure
from twisted.python.reflect import namedAny
from twisted.trial.unittest import SynchronousTestCase

from gamed.audit import SecurityEvent
from gamed.cli.errors import SetupError
from gamed.cli.service.serve import choose_observer, parse_log_format
from gamed.config.settings import LogFormat
from gamed.http.access_log import AccessLog, EndedRequest
from gamed.ops.logging import RAW, LogStream, Observer, TwistedAuditLog

NOW_MS = 1_800_000_000_004
WORDS = "request=5f0c method=GET route=/game/saves/{slot} status=404 bytes=213 milliseconds=1.8 code=save_not_found"


class FormatTests(SynchronousTestCase):
    def logged(self, style: LogFormat, text: str, level: Any = LogLevel.info, **values: Any) -> str:
        out = StringIO()
        log = Logger("gamed.room", observer=Observer(out, style))
        log.emit(level, text, log_time=NOW_MS / 1000, **values)
        return out.getvalue()

    def test_json(self) -> None:
        """One object per line, whatever the text holds; the request's id where the event has it."""
        line = self.logged(
            LogFormat.JSON, "no {what}, request {request_id}", LogLevel.warn, what='a\nb"\u2028', request_id="5f0c"
        )
        self.assertEqual(line.count("\n"), 1)
        self.assertTrue(line.isascii())
        members = loads(line)
        self.assertEqual(members.pop("time")[-1], "Z")
        self.assertEqual(
            members,
            {
                "level": "warn",
                "namespace": "gamed.room",
                "message": 'no a\nb"\u2028, request 5f0c',
                "request_id": "5f0c",
            },
        )

    def test_json_without_a_request(self) -> None:
        """An event of no request has no member for it."""
        self.assertNotIn("request_id", loads(self.logged(LogFormat.JSON, "serving", request_id="")))

    def test_security_events(self) -> None:
        """Know the request that they belong to."""
        out = StringIO()
        observer = Observer(out, LogFormat.JSON)
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)
        TwistedAuditLog().record(
            SecurityEvent.SIGN_IN_REFUSED, provider="local", outcome="wrong_password", request="5f0c"
        )
        line = loads(out.getvalue())
        self.assertEqual((line["request_id"], line["namespace"]), ("5f0c", "gamed.security"))
        self.assertEqual(line["message"].split()[0], "sign_in_refused")

    def test_journal(self) -> None:
        """Each line has its priority and no time; a line below the first begins with a tab: it is not an event."""
        self.assertEqual(self.logged(LogFormat.JOURNAL, "a\nb", LogLevel.error), "<3>[gamed.room] a\n<3>\tb\n")
        levels = (LogLevel.debug, LogLevel.info, LogLevel.warn, LogLevel.error, LogLevel.critical)
        self.assertEqual([self.logged(LogFormat.JOURNAL, "a", level)[1] for level in levels], list("76432"))

    def test_tracebacks(self) -> None:
        """Belong to the message in either format."""
        failure = Failure(ValueError("why"))
        for style in (LogFormat.JSON, LogFormat.JOURNAL):
            line = self.logged(style, "broken", LogLevel.critical, log_failure=failure)
            self.assertIn("ValueError: why", line)
        self.assertTrue(all(part.startswith("<2>") for part in line.splitlines()), line)

    def test_nothing_to_say(self) -> None:
        """An event without text is no line; lines that are ready are written as they are."""
        self.assertEqual(self.logged(LogFormat.JSON, ""), "")
        self.assertEqual(self.logged(LogFormat.JOURNAL, "", **{RAW: "<6>x\n"}), "<6>x\n")

    def test_no_text(self) -> None:
        """Escape bytes that are not Unicode, such as those of a file's name."""
        self.assertEqual(self.logged(LogFormat.JOURNAL, "{x}", x="\udcff"), "<6>[gamed.room] \\udcff\n")

    def test_twisted(self) -> None:
        """Leave out Twisted's reports, except those of failures and warnings, whatever level Twisted gives them."""
        out = StringIO()
        for style in LogFormat:
            observer = Observer(out, style)
            globalLogPublisher.addObserver(observer)
            self.addCleanup(globalLogPublisher.removeObserver, observer)
        log = Logger("twisted.internet.tcp.Port")
        log.info("EMFILE recovery: Closed socket from {address}", address="192.0.2.1")
        log_legacy.msg("HttpServer starting on 8080")
        self.assertEqual(out.getvalue(), "")
        log.info("EMFILE encountered; releasing reserved file descriptor.")
        log.info("Could not accept new connection ({acceptError})", acceptError="ENFILE")
        log_legacy.msg("failed to set uid/gid 8/8: [Errno 1] (are you root?) -- exiting.")
        log_legacy.msg("Warning: No permission to delete pid file")
        self.assertEqual(len(out.getvalue().splitlines()), 4 * len(LogFormat), out.getvalue())

    def test_before_the_log_begins(self) -> None:
        """Print lines before the log begins in the form of the log."""
        out = StringIO()
        print("data", "/srv", file=LogStream(out, LogFormat.JSON, LogLevel.info, lambda: NOW_MS), flush=True)
        self.assertEqual(
            loads(out.getvalue()),
            {"time": "2027-01-15T08:00:00.004Z", "level": "info", "namespace": "gamed", "message": "data /srv"},
        )
        out = StringIO()
        LogStream(out, LogFormat.JOURNAL, LogLevel.warn, lambda: NOW_MS).write("careful\n")
        self.assertEqual(out.getvalue(), "<4>[gamed] careful\n")


class RequestTests(SynchronousTestCase):
    def line(self, style: LogFormat) -> str:
        written: list[str] = []
        log = AccessLog(written.append, Clock(), lambda: NOW_MS, style)  # type: ignore[arg-type]
        log.log(
            EndedRequest(
                request_id="5f0c",
                method="GET",
                template="/game/saves/{slot}",
                status=404,
                size=213,
                seconds=0.00184,
                code="save_not_found",
            )
        )
        log.flush()
        return "".join(written)

    def test_json(self) -> None:
        """Each request is an object, with what can be searched for apart."""
        self.assertEqual(
            loads(self.line(LogFormat.JSON)),
            {
                "time": "2027-01-15T08:00:00.004Z",
                "level": "info",
                "namespace": "gamed.requests",
                "message": f"http_request {WORDS}",
                "request_id": "5f0c",
                "method": "GET",
                "route": "/game/saves/{slot}",
                "status": 404,
                "bytes": 213,
                "milliseconds": 1.8,
                "code": "save_not_found",
            },
        )

    def test_journal(self) -> None:
        """The journal's line is the text format's without the time."""
        line = self.line(LogFormat.JOURNAL)
        self.assertEqual(line, f"<6>[gamed.requests] http_request {WORDS}\n")


class ChoiceTests(SynchronousTestCase):
    def test_unknown(self) -> None:
        """A word that is no format is refused with those that are."""
        error = self.assertRaises(SetupError, parse_log_format, "xml")
        self.assertEqual(str(error), "--log-format: expected one of text, json, journal.")

    def test_text_is_twisteds(self) -> None:
        """Keep Twisted's own text format by default; refuse a second way to log beside --log-format."""
        twistd: dict[str, Any] = {"syslog": True}
        choose_observer(twistd, LogFormat.TEXT)
        self.assertEqual(twistd, {"syslog": True})
        self.assertRaises(SetupError, choose_observer, twistd, LogFormat.JSON)

    def test_a_file(self) -> None:
        """The daemon's file is twistd's choice, and rotates as twistd's does."""
        path = self.mktemp()
        twistd: dict[str, Any] = {"logfile": path, "nodaemon": False}
        choose_observer(twistd, LogFormat.JSON)
        Logger("gamed.room", observer=namedAny(twistd["logger"])()).info("hello {name}", name=SecurityEvent.ERASED)
        with open(path, encoding="utf-8") as file:
            self.assertEqual(loads(file.read())["message"], "hello erased")
