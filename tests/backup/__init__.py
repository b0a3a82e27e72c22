"""Backups: what they are called, how they are written, how they come back."""
