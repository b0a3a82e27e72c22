"""The ids of requests, as in X-Request-Id and in the log (PROTOCOL 1)."""

from gamed.crypto import Random

ID_BYTES = 12
DRAWN = 64
"""So many at a time: each drawing is a call of the system."""


class RequestIds:
    """24 hexadecimal digits that nobody can foresee, and that say nothing about the client."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._drawn: list[str] = []

    def next(self) -> str:
        if not self._drawn:
            raw = self._random(ID_BYTES * DRAWN)
            self._drawn = [raw[at : at + ID_BYTES].hex() for at in range(0, len(raw), ID_BYTES)][::-1]
        return self._drawn.pop()
