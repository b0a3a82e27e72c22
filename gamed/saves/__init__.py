"""The saves of players: bytes with a name, kept in versions (docs/protocol.md: Saves)."""
