"""The preference `wait` is read from Prefer (RFC 7240)."""

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from gamed.http.conditional import prefer_wait

WAITS = {
    None: 0,
    "": 0,
    "wait=25": 25,
    "Wait = 25": 25,
    'wait="25"': 25,
    "respond-async, wait=10": 10,
    "wait=10; foo=bar, respond-async": 10,
    "wait=10, wait=20": 10,
    "wait=999999999": 999999999,
    "wait": 0,
    "wait=": 0,
    "wait=x, wait=20": 0,
    "wait=-1": 0,
    "wait=1.5": 0,
    "wait=1e3": 0,
    "wait=9999999999": 0,
    "waiting=5": 0,
    "no-wait=5": 0,
    "wait=5 6": 0,
    "wait=٣": 0,
}


class PreferTest(SynchronousTestCase):
    def test_table(self) -> None:
        """The first `wait` counts; malformed ones are ignored."""
        self.assertEqual({text: prefer_wait(text) for text in WAITS}, WAITS)

    @given(st.text())
    def test_any_text(self, text: str) -> None:
        """Any text is accepted."""
        self.assertGreaterEqual(prefer_wait(text), 0)
        self.assertLess(prefer_wait(text), 10**9)
