"""Which notices the owner gets: each once for each change."""

from collections.abc import Mapping
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from gamed.notify.model import (
    AGAIN_MS,
    DIGEST_MS,
    FAILING_MS,
    SETTLED_MS,
    Facts,
    Notice,
    NoticeState,
    SentNotice,
    Waiting,
)
from gamed.notify.notice_rules import NoticeSettings, ProviderRun, due_notices, latest
from gamed.timestamps import CLOCKS_MS

NOW_MS = 1_800_000_000_000
MINUTE_MS, DAY_MS = 60_000, 86_400_000
SETTINGS = NoticeSettings(
    2 * 86400, 256 * 1024 * 1024, {"discord": "Discord"}, titles={"auth": "auth.db", "state": "state.db"}
)
BAD, WELL = NoticeState.BAD, NoticeState.WELL
UNAVAILABLE, WORKED = "provider_unavailable", ""


class Owner:
    """An owner who gets each notice that is due."""

    def __init__(self, settings: NoticeSettings = SETTINGS) -> None:
        self.sent: dict[str, SentNotice] = {}
        self.settings = settings

    def due(self, now_ms: int = NOW_MS, runs: Mapping[str, ProviderRun] = {}, **facts: Any) -> list[Notice]:
        return due_notices(Facts(**facts), self.sent, runs, self.settings, now_ms)

    def hears(self, now_ms: int = NOW_MS, runs: Mapping[str, ProviderRun] = {}, **facts: Any) -> list[tuple[str, str]]:
        """Return what is sent to the owner now, and remember it."""
        notices = self.due(now_ms, runs, **facts)
        self.sent |= {each.about: SentNotice(each.state, now_ms) for each in notices}
        return [(each.about, each.state) for each in notices]


class WaitingTests(SynchronousTestCase):
    def hears(self, owner: Owner, now_ms: int, newest_ms: int | None) -> bool:
        count = 0 if newest_ms is None else 3
        return owner.hears(now_ms, waiting=Waiting(count, newest_ms)) == [("waiting", "bad")]

    def test_once(self) -> None:
        """The same players are reported once; nobody waiting is worth no notice."""
        owner = Owner()
        self.assertFalse(self.hears(owner, NOW_MS, None))
        self.assertTrue(self.hears(owner, NOW_MS, NOW_MS - MINUTE_MS))
        self.assertFalse(self.hears(owner, NOW_MS + DAY_MS, NOW_MS - MINUTE_MS))

    def test_digest(self) -> None:
        """New players are reported at most every ten minutes, however many come."""
        owner = Owner()
        sent = [
            minute
            for minute in range(61)
            if self.hears(owner, NOW_MS + minute * MINUTE_MS, NOW_MS + minute * MINUTE_MS - SETTLED_MS)
        ]
        self.assertEqual(sent, [0, 10, 20, 30, 40, 50, 60])
        self.assertEqual(DIGEST_MS, 10 * MINUTE_MS)

    def test_committed_late(self) -> None:
        """A player whose row was committed while a digest was read is in the next one, not left out."""
        owner = Owner()
        self.assertTrue(self.hears(owner, NOW_MS, NOW_MS - DAY_MS))
        late = NOW_MS - SETTLED_MS + 1
        self.assertTrue(self.hears(owner, NOW_MS + DIGEST_MS, late))
        self.assertFalse(self.hears(owner, NOW_MS + 2 * DIGEST_MS, late))

    def test_clock_set_back(self) -> None:
        """A digest of the future does not keep new players back."""
        owner = Owner()
        owner.sent["waiting"] = SentNotice(BAD, NOW_MS + DAY_MS)
        self.assertTrue(self.hears(owner, NOW_MS + MINUTE_MS, NOW_MS + MINUTE_MS - SETTLED_MS + 1))

    def test_sentence(self) -> None:
        """The sentence has the number of all who wait, and how to see them; the names are apart."""
        [notice] = Owner().due(waiting=Waiting(1, NOW_MS - MINUTE_MS, ["Anna"]))
        self.assertEqual(
            notice.text, "1 player waits for your approval. To see them, run: gamed players list --pending"
        )
        self.assertEqual(notice.names, ["Anna"])
        self.assertNotIn("Anna", repr(notice))


class DiskTests(SynchronousTestCase):
    def test_both_ways(self) -> None:
        """A disk that is nearly full is reported once, and once when it has room again; a well disk is not reported."""
        owner = Owner()
        heard = [owner.hears(full_disks={"": full}) for full in (False, True, True, False, False, True)]
        self.assertEqual(heard, [[], [("disk", "bad")], [], [("disk", "well")], [], [("disk", "bad")]])

    def test_machines(self) -> None:
        """The disks of several machines have notices of their own."""
        owner = Owner(NoticeSettings(None, 1024, {}, machine="a1"))
        heard = owner.hears(full_disks={"a1": True, "b2": True})
        self.assertEqual(heard, [("disk:a1", "bad"), ("disk:b2", "bad")])
        own, other = Owner(owner.settings).due(full_disks={"a1": True, "b2": True})
        self.assertEqual(own.text, "The disk of this server has less than 1 KiB free, so saves are refused. Make room.")
        self.assertIn("The disk of the machine b2", other.text)


class BackupTests(SynchronousTestCase):
    def test_both_ways(self) -> None:
        """A backup that is too old is reported once, and once when there is a new one."""
        owner = Owner()
        ages = (1, 2, 3, 30, 0)
        heard = [owner.hears(backup_ms=NOW_MS - age * DAY_MS, any_backup=True) for age in ages]
        self.assertEqual(heard, [[], [], [("backup", "bad")], [], [("backup", "well")]])

    def test_none(self) -> None:
        """A server without a backup is reported once it is older than the interval; a new one is not."""
        self.assertEqual(Owner().due(backup_ms=NOW_MS), [])
        [notice] = Owner().due(backup_ms=NOW_MS - 3 * DAY_MS)
        self.assertEqual(notice.text, "There is no backup of this server yet. To make one, run: gamed backup DIR")

    def test_future(self) -> None:
        """A backup of a clock that was far ahead is not a new one: its age is unknown."""
        [notice] = Owner().due(backup_ms=NOW_MS + 3 * DAY_MS, any_backup=True)
        self.assertEqual(notice.state, BAD)
        self.assertIn("of the future", notice.text)
        self.assertEqual(Owner().due(backup_ms=NOW_MS + MINUTE_MS, any_backup=True), [])

    def test_off(self) -> None:
        """Without an interval no backup is too old, and what cannot be read is no reason either."""
        self.assertEqual(Owner(NoticeSettings(None, 0, {})).due(backup_ms=1), [])
        self.assertEqual(Owner().due(), [])


class StoreTests(SynchronousTestCase):
    def test_once_a_day(self) -> None:
        """A damaged database is reported once, and again each day while it is noticed."""
        owner, damaged = Owner(), frozenset({"state"})
        times = [NOW_MS, NOW_MS + MINUTE_MS, NOW_MS + AGAIN_MS - 1, NOW_MS + AGAIN_MS]
        heard = [bool(owner.hears(now, damaged=damaged)) for now in times]
        self.assertEqual(heard, [True, False, False, True])
        [notice] = Owner().due(damaged=damaged)
        self.assertTrue(notice.text.startswith("state.db is damaged"), notice.text)


class ProviderTests(SynchronousTestCase):
    def hears(self, owner: Owner, run: ProviderRun) -> list[tuple[str, str]]:
        return owner.hears(runs={"discord": run})

    def test_both_ways(self) -> None:
        """A provider is reported once an hour of failures has no success in it, and once when a sign-in works again."""
        owner, run = Owner(), ProviderRun()
        heard = []
        for minute, outcome in ((0, WORKED), (1, UNAVAILABLE), (59, UNAVAILABLE), (61, UNAVAILABLE), (90, UNAVAILABLE)):
            run = run.after([(outcome, NOW_MS + minute * MINUTE_MS)])
            heard.append(self.hears(owner, run))
        self.assertEqual(heard, [[], [], [], [("provider:discord", "bad")], []])
        run = run.after([(WORKED, NOW_MS + 95 * MINUTE_MS)])
        self.assertEqual(self.hears(owner, run), [("provider:discord", "well")])
        self.assertEqual(self.hears(owner, run), [])

    def test_success_in_between(self) -> None:
        """A success ends the hour, also that of a player who was not admitted."""
        for worked in (WORKED, "player_pending", "player_blocked", "registration_closed"):
            run = ProviderRun().after([(UNAVAILABLE, 1), (worked, 2), (UNAVAILABLE, FAILING_MS + 1)])
            self.assertIsNone(run.condition, worked)

    def test_one_failure(self) -> None:
        """A single failure is not an hour of them, however long no player signs in."""
        self.assertIsNone(ProviderRun().after([(UNAVAILABLE, NOW_MS)]).condition)

    def test_other_outcomes(self) -> None:
        """A made-up code, a refusal and an unfinished login count neither as a failure nor as a success."""
        others = ("provider_error", "provider_denied", "login_denied", "login_expired", "login_cancelled")
        run = ProviderRun().after([(each, at) for each in others for at in (1, 2 * FAILING_MS)])
        self.assertEqual(run, ProviderRun())

    def test_read_again(self) -> None:
        """The same ends of logins, read again with newer ones in any order, change nothing."""
        ends = [(UNAVAILABLE, 5), (WORKED, 7), (UNAVAILABLE, 9)]
        run = ProviderRun().after(ends)
        self.assertEqual(run, ProviderRun(9, 9))
        self.assertEqual(run.after(reversed(ends)), run)
        self.assertEqual(run.after([(UNAVAILABLE, 9 + FAILING_MS), *ends]).condition, BAD)
        self.assertEqual(ProviderRun().after([(WORKED, 7), (UNAVAILABLE, 5)]).condition, WELL)

    def test_label(self) -> None:
        """The sentence names the provider as players know it; a provider that was removed is not reported."""
        run = ProviderRun(0, FAILING_MS)
        [notice] = Owner().due(runs={"discord": run, "gone": run})
        self.assertTrue(notice.text.startswith("Sign-ins with Discord have failed for more than an hour."))


class SentTests(SynchronousTestCase):
    def test_latest(self) -> None:
        """The latest of what was sent counts, wherever it was noted."""
        old, new = SentNotice(BAD, 1), SentNotice(WELL, 2)
        for order in ([{"disk": old}, {"disk": new}], [{"disk": new}, {"disk": old}]):
            self.assertEqual(latest(order, CLOCKS_MS), {"disk": new})

    def test_future(self) -> None:
        """A notice that was sent while the clock was ahead does not count; that of another machine's clock does."""
        past, ahead = SentNotice(WELL, NOW_MS - 1), SentNotice(BAD, NOW_MS + CLOCKS_MS)
        wrong = {"disk": SentNotice(BAD, NOW_MS + CLOCKS_MS + 1)}
        self.assertEqual(latest([{"disk": past}, wrong], NOW_MS), {"disk": past})
        self.assertEqual(latest([wrong, {"disk": ahead}], NOW_MS), {"disk": ahead})
        self.assertEqual(latest([wrong], NOW_MS), {})
