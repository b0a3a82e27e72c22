"""auth.db: players, accounts, sessions, logins, keys; plain functions on a connection, each beside its queries."""
