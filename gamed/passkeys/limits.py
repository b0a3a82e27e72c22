"""The limits of a player's passkeys and recovery codes."""

from typing import Final

MAX_PASSKEYS: Final = 10
"""The most passkeys of one player."""
CODES: Final = 10
"""The recovery codes of one player."""
