"""The access tokens that this process saw valid in the last minutes.

They choose the way of a write and name the player whose uploads and changes it counts. They decide nothing: the
transaction of each write authenticates its token again.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Final

from msgspec import Struct

from gamed.crypto import Index, Secret

MAX_RECENT: Final = 4096
"""Sessions, of about 600 bytes each; those of further players authenticate before the body of a write, as at first."""
RECENT_MS: Final = 5 * 60_000
PAUSE_MS: Final = 10_000
"""For so long no token is found after a transaction of a write that could not read one."""
AccessKey = tuple[int, Index]
"""The tick and the index with which `credential` has an access token."""


def digest_of(token: Secret) -> bytes:
    """Return the digest by which a token is known."""
    return sha256(token.reveal()).digest()


class RecentToken(Struct, eq=False):
    """An access token that was valid, with its first use recorded."""

    digest: bytes
    """Its SHA-256: of 32 random bytes, so that it shows nothing of them. It costs a fifth of the index."""
    key: AccessKey
    session_id: str
    player_id: str
    epoch: str
    """The epoch of the player's saves at that time (docs/protocol.md: Saves)."""
    seen_ms: int
    """When it was valid last."""
    arrival_ms: int = 0
    """The bucket of the player's committed changes at that time (gamed.rate_limit)."""
    __repr__ = object.__repr__


class RecentTokens:
    """The last token of each session that wrote a save here."""

    def __init__(self, limit: int = MAX_RECENT) -> None:
        """Keep the tokens of `limit` sessions; with 0, no write authenticates in its own transaction."""
        self._limit = limit
        self._sessions: dict[str, RecentToken] = {}
        self._tokens: dict[bytes, RecentToken] = {}
        """By their digests."""
        self._left_out = Counter[str]()
        """The players whose tokens are not kept now, and how often that was asked for."""
        self._paused_ms: int | None = None
        """When a transaction could not read a token last; None after one that could."""

    def __len__(self) -> int:
        return len(self._sessions)

    def find(self, presented: Secret, now_ms: int) -> RecentToken | None:
        """Return what is known of a token if it was valid within RECENT_MS; None during a pause()."""
        if self._paused_ms is not None and 0 <= now_ms - self._paused_ms < PAUSE_MS:
            return None
        token = self._tokens.get(digest_of(presented))
        return token if token is not None and 0 <= now_ms - token.seen_ms < RECENT_MS else None

    def add(self, token: RecentToken) -> None:
        """Keep a token instead of the earlier one of its session; the session that was added first makes room."""
        self.forget(token.session_id)
        if token.player_id in self._left_out:
            return
        if len(self._sessions) >= self._limit > 0:
            self.forget(next(iter(self._sessions)))
        if self._limit:
            self._sessions[token.session_id] = self._tokens[token.digest] = token

    def pause(self, now_ms: int) -> bool:
        """Find no token for PAUSE_MS; return False if there was another pause() since the last resume()."""
        first, self._paused_ms = self._paused_ms is None, now_ms
        return first

    def resume(self) -> None:
        """End a pause."""
        self._paused_ms = None

    def forget(self, session_id: str) -> None:
        """Forget the token of a session if there is one."""
        token = self._sessions.pop(session_id, None)
        if token is not None:
            del self._tokens[token.digest]

    def forget_player(self, player_id: str) -> None:
        """Forget the tokens of a player of whom a session ended, or whose saves were erased."""
        # A search of 4,096 tokens takes 0.1 ms, less often than once for each session that ends.
        for session_id in [each.session_id for each in self._sessions.values() if each.player_id == player_id]:
            self.forget(session_id)

    @contextmanager
    def without(self, player_id: str) -> Iterator[None]:
        """Forget a player's tokens, and keep none of them until the context ends."""
        self._left_out[player_id] += 1
        self.forget_player(player_id)
        try:
            yield
        finally:
            self._left_out[player_id] -= 1
            if not self._left_out[player_id]:
                del self._left_out[player_id]

    def forgetting(self, revoked: Callable[[str], object]) -> Callable[[str], None]:
        """Return a listener that forgets a player's tokens before it calls `revoked`."""

        def forget(player_id: str) -> None:
            self.forget_player(player_id)
            revoked(player_id)

        return forget
