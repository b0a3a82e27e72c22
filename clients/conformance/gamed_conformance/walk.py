"""Random walks."""

WALKS = {}
