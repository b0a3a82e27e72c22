"""How the work for a text grows with the text's length, measured in processor time of this thread."""

from collections.abc import Callable
from contextlib import suppress
from time import thread_time

from gamed.players.errors import PlayerError

TRIES = 5
MARKS = "\u0301\u0316"
"""Two combining marks in the order that normalisation has to swap, for which its work grows with the square."""
SHORT, LONG = 2_000, 64_000


def growth(work: Callable[[str], object], unit: str = MARKS) -> float:
    """Return how many times longer `work` takes for LONG marks than for SHORT; it may refuse them."""
    return _seconds(work, unit, LONG) / _seconds(work, unit, SHORT)


def _seconds(work: Callable[[str], object], unit: str, characters: int) -> float:
    """The least of several tries: whatever else runs on the machine can only add to it."""
    text, taken = "a" + unit * (characters // len(unit)), []
    for _ in range(TRIES):
        began = thread_time()
        with suppress(ValueError, PlayerError):
            work(text)
        taken.append(thread_time() - began)
    return max(min(taken), 1e-6)
