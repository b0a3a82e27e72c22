"""Players: names, accounts and passwords."""
