"""Rows of players, names and passwords of local accounts (SPEC 1/5), and the key of auth.db."""
