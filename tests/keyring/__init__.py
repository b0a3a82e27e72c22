"""The key of auth.db: checked at every start, changed once."""
