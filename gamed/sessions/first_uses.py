"""First uses of credentials that could not be written yet, kept in memory until they can be (PROTOCOL 3.7).

The first use of a session's newest generation is committed before the effect of that request: what follows from it
must hold after a crash. A read has no effect that a crash could undo, so it is answered while the disk cannot be
written, and its use is kept here. Until it is committed, all that depends on it in this process goes by it:

- a refresh commits it first, or is refused: an older credential must not get the pair that is in use already;
- a collect of the sign-in that made the session is refused as collected;
- a request that writes commits it first, or is refused.

A crash forgets these uses. Then the sessions are as before the reads, and a copied credential is found out at the next
rotation instead of now.
"""

from collections.abc import Container, Iterable, Sequence

MOST = 10_000
"""Sessions; a read that would be one more is refused like a write."""


class FirstUses(Container[str]):
    """Sessions by id, each with the generation that was used."""

    def __init__(self) -> None:
        self._generations: dict[str, int] = {}

    def __contains__(self, session_id: object) -> bool:
        return session_id in self._generations

    def __len__(self) -> int:
        return len(self._generations)

    def has(self, session_id: str, generation: int) -> bool:
        """Whether this use is kept already."""
        return self._generations.get(session_id) == generation

    def add(self, session_id: str, generation: int) -> bool:
        """Keep a use; return False when there is no room for it."""
        if session_id not in self._generations and len(self) >= MOST:
            return False
        self._generations[session_id] = generation
        return True

    def some(self, limit: int) -> Sequence[tuple[str, int]]:
        """Return the oldest uses as (session, generation)."""
        return [*self._generations.items()][:limit]

    def written(self, uses: Iterable[tuple[str, int]]) -> None:
        """Forget uses that are committed, or of sessions that have ended."""
        for session_id, generation in uses:
            if self.has(session_id, generation):
                del self._generations[session_id]
