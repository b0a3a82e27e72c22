"""Instants and sizes are shown in words, in their largest unit."""

from twisted.trial.unittest import SynchronousTestCase

from gamed.readable import ago, size

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


class ReadableTests(SynchronousTestCase):
    def test_times(self) -> None:
        """Ages are rounded down to a whole unit; the future counts as now."""
        now_ms = 1_800_000_000_000
        for past_ms, shown in (
            (-DAY, "just now"),
            (MINUTE - 1, "just now"),
            (MINUTE, "1 minute ago"),
            (HOUR - 1, "59 minutes ago"),
            (HOUR, "1 hour ago"),
            (2 * HOUR, "2 hours ago"),
            (DAY, "1 day ago"),
            (29 * DAY, "29 days ago"),
            (40 * DAY, "1 month ago"),
            (800 * DAY, "2 years ago"),
        ):
            self.assertEqual(ago(now_ms - past_ms, now_ms), shown)

    def test_sizes(self) -> None:
        """Sizes have the largest unit that leaves at least 1, with one decimal if it is not 0."""
        shown = [size(count) for count in (0, 1023, 1024, 1536, 1024**2, 3 * 1024**3, 2048 * 1024**4)]
        self.assertEqual(shown, ["0 B", "1023 B", "1 KiB", "1.5 KiB", "1 MiB", "3 GiB", "2048 TiB"])
