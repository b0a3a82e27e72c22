"""Tickets: short-lived signed statements who is playing, for servers that are not gamed (docs/developers/tickets.md).

A ticket is no credential of this server: no route accepts it as one, and it opens no save.
"""
