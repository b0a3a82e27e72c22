"""Rows of players, names and passwords of local accounts (SPEC 1.3), and the key of auth.db."""
