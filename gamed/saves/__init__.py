"""What players keep: bytes with a name, versions that are never lost in silence (PROTOCOL 4)."""
