"""Staying signed in: credentials, their rotation, and the sessions they belong to.

See SPEC 5/5; docs/protocol.md: Sessions.
"""
