"""A login: the game starts it, a browser completes it, and the game collects the result.

See SPEC 1/9; docs/protocol.md: Signing in.
"""
