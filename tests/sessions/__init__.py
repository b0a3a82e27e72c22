"""Sessions: credentials, the refresh table, the services and routes."""
