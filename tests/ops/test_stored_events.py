"""Security events reach auth.db without holding up the request that caused them."""

from collections import Counter

from twisted.internet.defer import ensureDeferred
from twisted.logger import formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from gamed.audit import NULL_AUDIT_LOG, SecurityEvent
from gamed.database.errors import DatabaseReadOnly
from gamed.database.event_counts import EventCount
from gamed.database.security_events import list_events
from gamed.ops.logging import TwistedAuditLog
from gamed.ops.stored_events import WAITING, StoringAuditLog
from tests.support.covers import covers
from tests.support.databases import memory_databases

ANNA = "ply_anna"


class StoringTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.stores, self.now_ms = memory_databases(self), 1_800_000_000_000
        self.audit = StoringAuditLog(NULL_AUDIT_LOG, self.stores.auth, lambda: self.now_ms)

    def flush(self) -> None:
        self.successResultOf(ensureDeferred(self.audit.flush()))

    def stored(self) -> list[EventCount]:
        return self.successResultOf(self.stores.auth.submit(lambda connection: list_events(connection, 0)))

    def test_written_later(self) -> None:
        """Write nothing when an event is recorded; write all of them with the next flush, repeats as one row."""
        for _ in range(1000):
            self.audit.record(SecurityEvent.SIGN_IN_REFUSED, player=ANNA, provider="local", outcome="wrong_password")
        self.audit.record(SecurityEvent.SIGNED_OUT, player=ANNA, scope="all")
        self.assertEqual(self.stores.auth.waiting, 0)
        self.assertEqual(self.stored(), [])
        self.flush()
        self.assertEqual(
            {each.key.event: each.times for each in self.stored()}, {"sign_in_refused": 1000, "signed_out": 1}
        )
        self.flush()
        self.assertEqual(sum(each.times for each in self.stored()), 1001)

    def test_passed_on(self) -> None:
        """Log each event, also those that are not stored."""
        lines: list[str] = []
        audit = StoringAuditLog(TwistedAuditLog(lines.append), self.stores.auth, lambda: self.now_ms)
        audit.record(SecurityEvent.ERASED, player=ANNA)
        audit.record(SecurityEvent.COMMAND, command="players block", player=ANNA, by="uid:0", at="then")
        self.assertEqual(len(lines), 2)
        self.successResultOf(ensureDeferred(audit.flush()))
        self.assertEqual([each.key.event for each in self.stored()], ["erased"])

    @covers("threats/48")
    def test_flood(self) -> None:
        """Hold a bounded number of different events in memory, and log how many were dropped."""
        for number in range(WAITING + 25):
            self.audit.record(SecurityEvent.SIGNED_OUT, player=f"ply_{number}", scope="all")
        seen: list[str] = []
        globalLogPublisher.addObserver(observer := lambda event: seen.append(formatEvent(event)))
        self.addCleanup(globalLogPublisher.removeObserver, observer)
        self.flush()
        self.flush()
        self.assertEqual((len(self.stored()), seen), (WAITING, ["security_events_dropped count=25"]))

    @covers("threats/48")
    def test_flood_beside_warnings(self) -> None:
        """Keep a warning that comes when other events have all places; warnings are bounded, too."""
        for number in range(WAITING + 25):
            self.audit.record(SecurityEvent.SIGNED_OUT, player=f"ply_{number}", scope="all")
        for number in range(WAITING + 1):
            self.audit.record(SecurityEvent.REFRESH_REUSED, player=f"ply_{number}", session="ses_1")
        self.flush()
        kept = Counter(each.key.event for each in self.stored())
        self.assertEqual(kept, {"signed_out": WAITING, "refresh_reused": WAITING})

    def test_not_writable(self) -> None:
        """Keep events while auth.db cannot be written, and write each of them once afterwards."""
        self.audit.record(SecurityEvent.SIGNED_OUT, player=ANNA, scope="all")
        self.stores.auth._database.unavailable_as = DatabaseReadOnly
        self.failureResultOf(ensureDeferred(self.audit.flush()), DatabaseReadOnly)
        self.stores.auth._database.unavailable_as = None
        self.audit.record(SecurityEvent.SIGNED_OUT, player=ANNA, scope="all")
        self.flush()
        self.assertEqual([each.times for each in self.stored()], [2])

    def test_erased(self) -> None:
        """Drop events of a player who is erased before they are written: the rows would come back."""
        self.audit.record(SecurityEvent.SIGN_IN_REFUSED, player=ANNA, provider="local", outcome="wrong_password")
        self.audit.record(SecurityEvent.SIGNED_OUT, player="ply_bert", scope="all")
        self.audit.record(SecurityEvent.ERASED, player=ANNA)
        self.flush()
        found = {(each.key.event, each.key.player_id) for each in self.stored()}
        self.assertEqual(found, {("erased", ANNA), ("signed_out", "ply_bert")})

    def test_erased_while_written(self) -> None:
        """Delete events of an erased player that were written between the end of the erasure and its own event."""
        self.audit.record(SecurityEvent.SIGN_IN_REFUSED, player=ANNA, provider="local", outcome="wrong_password")
        self.audit.record(SecurityEvent.SIGNED_OUT, player="ply_bert", scope="all")
        self.flush()
        self.audit.record(SecurityEvent.ERASED, player=ANNA)
        self.flush()
        found = {(each.key.event, each.key.player_id) for each in self.stored()}
        self.assertEqual(found, {("erased", ANNA), ("signed_out", "ply_bert")})

    def test_closing(self) -> None:
        """Write what waits at the end of the service; an auth.db that is closed fails nothing."""
        self.audit.record(SecurityEvent.SIGNED_OUT, player=ANNA, scope="all")
        self.successResultOf(ensureDeferred(self.audit.close()))
        self.assertEqual(len(self.stored()), 1)
        self.stores.auth.drain()
        self.audit.record(SecurityEvent.SIGNED_OUT, player=ANNA, scope="one")
        self.assertIsNone(self.successResultOf(ensureDeferred(self.audit.close())))
