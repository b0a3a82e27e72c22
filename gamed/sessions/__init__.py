"""Staying signed in: credentials, their rotation, and the sessions they belong to (SPEC 5.3, PROTOCOL 3.7)."""
