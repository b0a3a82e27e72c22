"""README.md does what it prints."""
