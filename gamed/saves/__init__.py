"""The saves of players: bytes with a name, kept in versions (PROTOCOL 4)."""
