"""The rules of providers are tested by tables, and the HTTP client with fake providers in memory and on sockets."""
