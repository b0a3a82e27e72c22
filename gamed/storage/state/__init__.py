"""Rows of state.db: shelves, slots, versions, blobs (PROTOCOL 4)."""
