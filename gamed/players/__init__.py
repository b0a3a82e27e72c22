"""Who plays: names and passwords of local accounts (SPEC 1.3)."""
