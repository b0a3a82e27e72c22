"""This package stores the saves of players: bytes with a name, kept in versions (PROTOCOL 4)."""
