"""gamed is a game server for a small community that one person can run at home."""

__version__ = "1.0.0rc1"
