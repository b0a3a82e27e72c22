"""The lines of the security log, and the page that promises them."""

import re

from twisted.logger import formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from gamed.audit import FIELDS, NULL_AUDIT_LOG, SecurityEvent
from gamed.ops.logging import TwistedAuditLog
from tests.support.covers import covers
from tests.test_spec import ROOT

ROW = re.compile(r"(?m)^\| `([a-z_]+)` \| ((?:`\w+` ?)+) \| (?:info|warn) \| .+ \|$")


class LineTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.lines: list[str] = []
        self.audit = TwistedAuditLog(self.lines.append)

    def test_line(self) -> None:
        """Stable names in a stable order; what is unknown is a dash."""
        self.audit.record(SecurityEvent.SIGN_IN, provider="discord", player="ply_a", created="no")
        self.assertEqual(self.lines, ["sign_in player=ply_a session=- provider=discord created=no"])

    @covers("threats/48")
    def test_no_value_breaks_a_line(self) -> None:
        """A value that holds spaces, line ends or odd characters is a quoted string within the line."""
        self.audit.record(SecurityEvent.COMMAND, command="players block", by="x\nerased player=ply_b", at="\u202e{log}")
        self.assertEqual(
            self.lines,
            [r'command command="players block" player=- by="x\nerased player=ply_b" at="\u202e{log}"'],
        )

    def test_the_log(self) -> None:
        """Without another place it is one event of the service's log."""
        seen: list[str] = []
        globalLogPublisher.addObserver(observer := lambda event: seen.append(formatEvent(event)))
        self.addCleanup(globalLogPublisher.removeObserver, observer)
        TwistedAuditLog().record(SecurityEvent.ERASED, player="ply_a")
        NULL_AUDIT_LOG.record(SecurityEvent.ERASED, player="ply_a")
        self.assertEqual(seen, ["erased player=ply_a"])


class PageTests(SynchronousTestCase):
    @covers("6/1")
    def test_table(self) -> None:
        """The page has each security event with exactly its values."""
        page = (ROOT / "docs/owners/events.md").read_text("utf-8")
        rows = {name: tuple(re.findall(r"`(\w+)`", values)) for name, values in ROW.findall(page)}
        self.assertEqual([event for event, values in FIELDS.items() if rows.get(event.value) != values], [])
