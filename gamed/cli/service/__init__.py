"""The service's process: its start, its lock, its listeners and workers."""
