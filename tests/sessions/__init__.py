"""Sessions: credentials, the refresh table, the work around them, and their room."""
