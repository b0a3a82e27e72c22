"""Providers: the pure rules by tables, the doors against a far end in memory and on sockets."""
